//! Takes connections. Whoever is no rank of the job is turned away, and disturbs nobody.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mgcomp_transport::message::Secret;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, bind, getsockname, listen};

use super::hello::{HELLO_LEN, Hello, Refusal, answer};
use super::incoming::TcpIncoming;
use super::socket::{self, Socket};
use crate::carrier::{Incoming, Listener};
use crate::error::NetError;
use crate::logger;

/// Connections that the system keeps until they are looked at.
const BACKLOG: i32 = 1024;
/// Those that have not said yet who they are, at most; then the oldest goes. No time is set for it: the system connects for a
/// rank that does nothing itself meanwhile, as in a debugger.
const MOST_NEWCOMERS: usize = 256;
/// For how long the system may take no connection. It may well have some again soon; but a rank that waits for
/// ever tells nobody why.
const SHORTAGE: Duration = Duration::from_secs(5);
/// Tries that are further apart say nothing of the time between.
const GAP: Duration = Duration::from_secs(1);
/// Connections of which some sockets are there.
const MOST_GROUPS: usize = 64;
/// So many strangers are worth a word.
const MOST_WARNINGS: u32 = 16;

pub(super) struct TcpListener {
    socket: Socket,
    secret: Secret,
    newcomers: Vec<Newcomer>,
    groups: Vec<Group>,
    warnings: u32,
    /// Since when no connection could be taken, and when that was tried last.
    short: Option<(Instant, Instant)>,
    /// It was said that it has none.
    said_short: bool,
}

/// Somebody who has not said yet who it is.
struct Newcomer {
    socket: Socket,
    hello: [u8; HELLO_LEN],
    heard: usize,
}

/// Sockets of one connection.
struct Group {
    connection: u64,
    rank: u32,
    lanes: Vec<Option<Socket>>,
}

impl TcpListener {
    /// Listens at an address, at whatever port is free.
    pub(super) fn new(address: SocketAddr, secret: Secret) -> Result<(Self, SocketAddr), NetError> {
        let socket = socket::new(&address)?;
        bind(&socket, &address).map_err(NetError::system("bind"))?;
        listen(&socket, BACKLOG).map_err(NetError::system("listen"))?;
        let bound = getsockname(&socket).and_then(SocketAddr::try_from);
        let bound = bound.map_err(NetError::system("getsockname"))?;
        let listener = Self {
            socket,
            secret,
            newcomers: Vec::new(),
            groups: Vec::new(),
            warnings: 0,
            short: None,
            said_short: false,
        };
        Ok((listener, bound))
    }

    /// Takes what the system has kept.
    fn take_newcomers(&mut self) -> Result<(), NetError> {
        for _ in 0..MOST_NEWCOMERS {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.short = None;
                    if self.newcomers.len() == MOST_NEWCOMERS {
                        self.hear(); // a rank among many strangers goes only if it has said nothing yet
                    }
                    if self.newcomers.len() == MOST_NEWCOMERS {
                        self.newcomers.remove(0);
                    }
                    let socket = Socket::from(socket);
                    self.newcomers.push(Newcomer { socket, hello: [0; HELLO_LEN], heard: 0 });
                }
                Err(errno) if self.may_be_another(errno, Instant::now())? => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Whether there may be another connection at once where taking one has failed; an error where there will be none.
    fn may_be_another(&mut self, errno: Errno, now: Instant) -> Result<bool, NetError> {
        match errno {
            Errno::AGAIN => {
                self.short = None;
                Ok(false)
            }
            // There are no files or no memory for it now, or somebody forbids it: both may be otherwise soon.
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::PERM => {
                // While nobody tries, as where the process is stopped, there may have been room.
                let is_tried = |(_, last): &(Instant, Instant)| now.saturating_duration_since(*last) < GAP;
                let since = self.short.filter(is_tried).map_or(now, |(since, _)| since);
                self.short = Some((since, now));
                if now.saturating_duration_since(since) >= SHORTAGE {
                    return Err(NetError::System { call: "accept", errno });
                }
                if !self.said_short {
                    self.said_short = true;
                    logger::warn(&format!("no connection can be taken for now: {errno}"));
                }
                Ok(false)
            }
            // This one has gone wrong, as accept(2) says; the next may not.
            Errno::CONNABORTED
            | Errno::INTR
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NONET
            | Errno::OPNOTSUPP => Ok(true),
            errno => Err(NetError::System { call: "accept", errno }),
        }
    }

    /// Hears what newcomers say.
    fn hear(&mut self) {
        for mut newcomer in std::mem::take(&mut self.newcomers) {
            match newcomer.hear() {
                Ok(true) => self.welcome(newcomer),
                Ok(false) => self.newcomers.push(newcomer),
                Err(_) => self.warn("has gone before it said who it is"),
            }
        }
    }

    fn welcome(&mut self, newcomer: Newcomer) {
        let hello = Hello::read(&newcomer.hello, &self.secret);
        if let Err(refusal) = hello {
            self.warn(match refusal {
                Refusal::Stranger => {
                    "does not speak the plugin's protocol: does every rank load this plugin?"
                }
                Refusal::Version => "has another version of the plugin",
                Refusal::Secret => "is no rank of this job",
                Refusal::Lanes => "counts its sockets wrongly",
            });
            if refusal == Refusal::Stranger {
                return;
            }
        }
        // So few bytes always fit; a socket that does not take them is of no use.
        let said = socket::write(&newcomer.socket, &[IoSlice::new(&answer(hello.err()))]);
        if let (Ok(hello), Ok(Some(_)), Ok(())) = (hello, said, socket::prepare(&newcomer.socket)) {
            self.join(&hello, newcomer.socket);
        }
    }

    /// Puts a socket to the others of its connection.
    fn join(&mut self, hello: &Hello, socket: Socket) {
        let known = self
            .groups
            .iter()
            .position(|group| group.connection == hello.connection && group.lanes.len() == hello.lanes);
        let place = known.unwrap_or_else(|| {
            if self.groups.len() == MOST_GROUPS {
                self.groups.remove(0);
            }
            let lanes = (0..hello.lanes).map(|_| None).collect();
            self.groups.push(Group { connection: hello.connection, rank: hello.rank, lanes });
            self.groups.len() - 1
        });
        self.groups[place].lanes[hello.lane] = Some(socket);
    }

    fn warn(&mut self, what: &str) {
        if self.warnings < MOST_WARNINGS {
            self.warnings += 1;
            logger::warn(&format!("refused a connection: who made it {what}"));
        }
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> Result<Option<Box<dyn Incoming>>, NetError> {
        self.take_newcomers()?;
        self.hear();
        let Some(place) = self.groups.iter().position(|group| group.lanes.iter().all(Option::is_some)) else {
            return Ok(None);
        };
        let group = self.groups.remove(place);
        Ok(Some(Box::new(TcpIncoming::new(group.rank, group.lanes.into_iter().flatten()))))
    }
}

impl Newcomer {
    /// Whether all of the hello is there.
    fn hear(&mut self) -> Result<bool, Errno> {
        while self.heard < HELLO_LEN {
            match socket::read(&self.socket, &mut self.hello[self.heard..])? {
                Some(more) => self.heard += more,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn listener() -> (TcpListener, SocketAddr) {
        TcpListener::new("127.0.0.1:0".parse().unwrap(), Secret::new([7; 16])).unwrap()
    }

    #[test]
    fn a_shortage_that_lasts_is_an_error() {
        let (mut listener, address) = listener();
        let began = Instant::now();
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::PERM] {
            let error = Err(NetError::System { call: "accept", errno });
            for tenths in 0..50 {
                let now = began + Duration::from_millis(100 * tenths);
                assert_eq!(listener.may_be_another(errno, now), Ok(false));
            }
            assert_eq!(listener.may_be_another(errno, began + SHORTAGE), error);
            // That nobody comes is none.
            assert_eq!(listener.may_be_another(Errno::AGAIN, began + SHORTAGE), Ok(false));
            assert_eq!(listener.may_be_another(errno, began + SHORTAGE), Ok(false));
            assert!(listener.said_short);
            // Nor is it known of a time in which nobody tries.
            assert_eq!(listener.may_be_another(errno, began + 3 * SHORTAGE), Ok(false));
            // Nor is it if somebody does.
            let _client = TcpStream::connect(address).unwrap();
            listener.take_newcomers().unwrap();
            assert_eq!(listener.short, None);
        }
    }

    #[test]
    fn what_is_wrong_with_a_connection_is_not_wrong_with_the_next() {
        let (mut listener, _) = listener();
        for errno in [Errno::CONNABORTED, Errno::PROTO, Errno::HOSTUNREACH, Errno::OPNOTSUPP] {
            assert_eq!(listener.may_be_another(errno, Instant::now()), Ok(true));
        }
        for errno in [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::ACCESS] {
            let error = Err(NetError::System { call: "accept", errno });
            assert_eq!(listener.may_be_another(errno, Instant::now()), error);
        }
    }

    #[test]
    fn the_oldest_of_too_many_strangers_goes() {
        let (mut listener, address) = listener();
        let mut come = || {
            let stranger = TcpStream::connect(address).unwrap();
            assert!(listener.accept().unwrap().is_none());
            stranger
        };
        let strangers: Vec<_> = (0..MOST_NEWCOMERS).map(|_| come()).collect();
        let mut rank = come();
        assert_eq!((&strangers[0]).read(&mut [0]).unwrap(), 0, "the first was turned away");
        strangers[1].set_nonblocking(true).unwrap();
        assert!((&strangers[1]).read(&mut [0]).is_err(), "the second was not");
        let hello = Hello { lanes: 1, lane: 0, rank: 3, secret: Secret::new([7; 16]), connection: 9 };
        rank.write_all(&hello.write()).unwrap();
        assert_eq!(listener.accept().unwrap().unwrap().peer(), 3);
    }
}
