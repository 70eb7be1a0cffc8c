//! Takes connections. Whoever is no rank of the job is turned away, and disturbs nobody.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mgcomp_transport::message::Secret;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, bind, getsockname, listen};

use super::hello::{HELLO_LEN, Hello, Refusal, answer};
use super::incoming::TcpIncoming;
use super::socket;
use crate::carrier::{Incoming, Listener};
use crate::error::NetError;
use crate::logger;

/// Connections that the system keeps until they are looked at.
const BACKLOG: i32 = 1024;
/// Those that have not said yet who they are, at most; then the oldest goes.
const MOST_NEWCOMERS: usize = 256;
/// How long they have for that.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections of which some sockets are there.
const MOST_GROUPS: usize = 64;
/// So many strangers are worth a word.
const MOST_WARNINGS: u32 = 16;

pub(super) struct TcpListener {
    socket: OwnedFd,
    secret: Secret,
    newcomers: Vec<Newcomer>,
    groups: Vec<Group>,
    warnings: u32,
}

/// Somebody who has not said yet who it is.
struct Newcomer {
    socket: OwnedFd,
    hello: [u8; HELLO_LEN],
    heard: usize,
    since: Instant,
}

/// Sockets of one connection.
struct Group {
    connection: u64,
    rank: u32,
    lanes: Vec<Option<OwnedFd>>,
}

impl TcpListener {
    /// Listens at an address, at whatever port is free.
    pub(super) fn new(address: SocketAddr, secret: Secret) -> Result<(Self, SocketAddr), NetError> {
        let socket = socket::new(&address)?;
        bind(&socket, &address).map_err(NetError::system("bind"))?;
        listen(&socket, BACKLOG).map_err(NetError::system("listen"))?;
        let bound = getsockname(&socket).and_then(SocketAddr::try_from);
        let bound = bound.map_err(NetError::system("getsockname"))?;
        let listener = Self { socket, secret, newcomers: Vec::new(), groups: Vec::new(), warnings: 0 };
        Ok((listener, bound))
    }

    /// Takes what the system has kept.
    fn take_newcomers(&mut self) -> Result<(), NetError> {
        for _ in 0..MOST_NEWCOMERS {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    if self.newcomers.len() == MOST_NEWCOMERS {
                        self.hear(); // a rank among many strangers goes only if it has said nothing yet
                    }
                    if self.newcomers.len() == MOST_NEWCOMERS {
                        self.newcomers.remove(0);
                    }
                    let hello = [0; HELLO_LEN];
                    self.newcomers.push(Newcomer { socket, hello, heard: 0, since: Instant::now() });
                }
                // There is none; or there are no files or no memory for it now, which may change.
                Err(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => break,
                Err(errno @ (Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::OPNOTSUPP)) => {
                    return Err(NetError::System { call: "accept", errno });
                }
                // This one has gone wrong; the next may not.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Hears what newcomers say.
    fn hear(&mut self) {
        for mut newcomer in std::mem::take(&mut self.newcomers) {
            match newcomer.hear() {
                Ok(true) => self.welcome(newcomer),
                Ok(false) if newcomer.since.elapsed() < PATIENCE => self.newcomers.push(newcomer),
                Ok(false) => self.warn("says nothing"),
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
    fn join(&mut self, hello: &Hello, socket: OwnedFd) {
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
