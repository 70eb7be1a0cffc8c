//! A connection that is being made.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::connect;

use super::handle::Handle;
use super::hello::{ANSWER_LEN, HELLO_LEN, Hello, check_answer};
use super::random;
use super::socket::{self, Socket};
use crate::error::NetError;

/// For how long a socket is connected again where that fails as it may for a moment: while many ranks start at once, or a machine is
/// not found yet.
const AGAIN: Duration = Duration::from_secs(5);
/// Each time is waited for longer by this much.
const BREATH: Duration = Duration::from_millis(100);

/// Whoever does not ask for a connection for so long has given it up: NCCL does not say so.
const GIVEN_UP: Duration = Duration::from_secs(120);

/// All sockets of a connection, each as far as it is.
pub(super) struct Connecting {
    peer: u32,
    lanes: Vec<Lane>,
    /// When it is given up, if nobody asks for it before.
    pub(super) until: Instant,
}

struct Lane {
    to: SocketAddr,
    socket: Socket,
    /// How often connecting has failed, since when.
    failed: u32,
    began: Instant,
    hello: [u8; HELLO_LEN],
    answer: [u8; ANSWER_LEN],
    at: At,
}

enum At {
    /// The system connects.
    Connecting,
    /// It is tried again at this time.
    Resting(Instant),
    /// So many bytes of the hello are said.
    Saying(usize),
    /// So many bytes of the answer are there.
    Listening(usize),
    Up,
}

impl Connecting {
    /// Starts to connect as `rank`.
    pub(super) fn start(handle: &Handle, rank: u32, lanes: usize) -> Result<Self, NetError> {
        let connection = u64::from_le_bytes(random()?);
        let lane = |lane| {
            let hello = Hello { lanes, lane, rank, secret: handle.secret, connection };
            Lane::start(handle, &hello)
        };
        let lanes = (0..lanes).map(lane).collect::<Result<_, _>>()?;
        Ok(Self { peer: handle.rank, lanes, until: Instant::now() + GIVEN_UP })
    }

    pub(super) fn peer(&self) -> u32 {
        self.peer
    }

    /// The sockets, once all are up.
    pub(super) fn poll(&mut self) -> Result<Option<Vec<Socket>>, NetError> {
        self.until = Instant::now() + GIVEN_UP;
        for lane in &mut self.lanes {
            lane.poll()?;
        }
        if !self.lanes.iter().all(|lane| matches!(lane.at, At::Up)) {
            return Ok(None);
        }
        Ok(Some(self.lanes.drain(..).map(|lane| lane.socket).collect()))
    }
}

impl Lane {
    fn start(handle: &Handle, hello: &Hello) -> Result<Self, NetError> {
        let (to, hello) = (handle.address, hello.write());
        let (socket, began) = (socket::new(&to)?, Instant::now());
        let mut lane = Self { to, socket, failed: 0, began, hello, answer: [0; ANSWER_LEN], at: At::Up };
        lane.connect()?;
        Ok(lane)
    }

    /// Lets the system connect the socket.
    fn connect(&mut self) -> Result<(), NetError> {
        socket::prepare(&self.socket)?;
        self.at = At::Connecting;
        match connect(&self.socket, &self.to) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
            Err(why) => self.rest(why),
        }
    }

    /// Rests before it is tried again, if it may be.
    fn rest(&mut self, why: Errno) -> Result<(), NetError> {
        let passes = matches!(why, Errno::CONNREFUSED | Errno::TIMEDOUT | Errno::HOSTUNREACH);
        if !passes || self.began.elapsed() >= AGAIN {
            return Err(gone(why));
        }
        self.failed += 1;
        self.at = At::Resting(Instant::now() + self.failed * BREATH);
        Ok(())
    }

    /// Goes on as far as that goes without waiting.
    fn poll(&mut self) -> Result<(), NetError> {
        loop {
            match self.at {
                At::Connecting => match socket::is_up(&self.socket) {
                    Ok(true) => self.at = At::Saying(0),
                    Ok(false) => return Ok(()),
                    Err(why) => self.rest(why)?,
                },
                At::Resting(until) if until <= Instant::now() => {
                    self.socket = socket::new(&self.to)?;
                    self.connect()?;
                }
                At::Saying(HELLO_LEN) => self.at = At::Listening(0),
                At::Saying(said) => {
                    let rest = [IoSlice::new(&self.hello[said..])];
                    let Some(more) = socket::write(&self.socket, &rest).map_err(gone)? else { return Ok(()) };
                    self.at = At::Saying(said + more);
                }
                At::Listening(ANSWER_LEN) => {
                    check_answer(&self.answer)?;
                    self.at = At::Up;
                }
                At::Listening(heard) => {
                    let rest = &mut self.answer[heard..];
                    let Some(more) = socket::read(&self.socket, rest).map_err(gone)? else { return Ok(()) };
                    self.at = At::Listening(heard + more);
                }
                At::Resting(_) | At::Up => return Ok(()),
            }
        }
    }
}

/// A connection that comes to nothing.
fn gone(why: Errno) -> NetError {
    NetError::Gone { message: 0, at: 0, why }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    use mgcomp_transport::message::Secret;

    use super::*;

    /// Where nobody listens any more.
    fn nowhere() -> Handle {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Handle { address, rank: 0, secret: Secret::new([7; 16]) }
    }

    #[test]
    fn a_port_that_opens_late_is_reached() {
        let handle = nowhere();
        let mut connecting = Connecting::start(&handle, 1, 1).unwrap();
        let is_not_up = |connecting: &mut Connecting| {
            // However long all this takes.
            connecting.lanes[0].began = Instant::now();
            connecting.poll().unwrap().is_none()
        };
        while connecting.lanes[0].failed < 2 {
            assert!(is_not_up(&mut connecting));
            thread::sleep(Duration::from_millis(1));
        }
        let listener = TcpListener::bind(handle.address).unwrap();
        while !matches!(connecting.lanes[0].at, At::Listening(_)) {
            assert!(is_not_up(&mut connecting));
            thread::sleep(Duration::from_millis(1));
        }
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; HELLO_LEN];
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(hello, connecting.lanes[0].hello);
    }

    #[test]
    fn who_does_not_come_is_gone() {
        let mut connecting = Connecting::start(&nowhere(), 1, 2).unwrap();
        let error = loop {
            match connecting.poll() {
                Ok(sockets) => assert!(sockets.is_none(), "somebody is there"),
                Err(error) => break error,
            }
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(error, gone(Errno::CONNREFUSED));
        assert!(connecting.lanes.iter().any(|lane| lane.began.elapsed() >= AGAIN));
    }
}
