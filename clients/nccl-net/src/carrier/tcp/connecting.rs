//! A connection that is being made.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::connect;

use super::handle::Handle;
use super::hello::{ANSWER_LEN, HELLO_LEN, Hello, check_answer};
use super::{random, socket};
use crate::error::NetError;

/// All sockets of a connection, each as far as it is.
pub(super) struct Connecting {
    peer: u32,
    lanes: Vec<Lane>,
}

struct Lane {
    socket: OwnedFd,
    hello: [u8; HELLO_LEN],
    answer: [u8; ANSWER_LEN],
    at: At,
}

enum At {
    /// The system connects.
    Connecting,
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
        Ok(Self { peer: handle.rank, lanes: (0..lanes).map(lane).collect::<Result<_, _>>()? })
    }

    pub(super) fn peer(&self) -> u32 {
        self.peer
    }

    /// The sockets, once all are up.
    pub(super) fn poll(&mut self) -> Result<Option<Vec<OwnedFd>>, NetError> {
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
        let socket = socket::new(&handle.address)?;
        socket::prepare(&socket)?;
        match connect(&socket, &handle.address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(why) => return Err(gone(why)),
        }
        Ok(Self { socket, hello: hello.write(), answer: [0; ANSWER_LEN], at: At::Connecting })
    }

    /// Goes on as far as that goes without waiting.
    fn poll(&mut self) -> Result<(), NetError> {
        loop {
            match self.at {
                At::Connecting if socket::is_up(&self.socket).map_err(gone)? => self.at = At::Saying(0),
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
                At::Connecting | At::Up => return Ok(()),
            }
        }
    }
}

/// A connection that comes to nothing.
fn gone(why: Errno) -> NetError {
    NetError::Gone { message: 0, at: 0, why }
}
