//! Receives messages, each through the socket whose turn it is.

use mgcomp_transport::attach::envelope::HEADER_LEN;
use rustix::io::Errno;

use super::socket::{self, Socket};
use crate::carrier::Incoming;
use crate::comm::{Arrived, Receiving, Ring, Room, Stage};
use crate::error::NetError;

pub(super) struct TcpIncoming {
    peer: u32,
    lanes: Vec<Lane>,
}

struct Lane {
    socket: Socket,
    /// The message that comes next.
    next: u64,
    envelope: [u8; HEADER_LEN],
    /// Bytes of the envelope that are there.
    heard: usize,
    /// Bytes that follow it, and how many of them are there.
    len: usize,
    at: usize,
}

impl TcpIncoming {
    pub(super) fn new(peer: u32, sockets: impl Iterator<Item = Socket>) -> Self {
        let lane = |(lane, socket)| Lane {
            socket,
            next: lane as u64,
            envelope: [0; HEADER_LEN],
            heard: 0,
            len: 0,
            at: 0,
        };
        Self { peer, lanes: sockets.enumerate().map(lane).collect() }
    }
}

impl Incoming for TcpIncoming {
    fn peer(&self) -> u32 {
        self.peer
    }

    fn drive(&mut self, ring: &Ring<Receiving>, arrived: &mut Arrived) -> Result<(), NetError> {
        let turns = self.lanes.len() as u64;
        self.lanes.iter_mut().try_for_each(|lane| lane.drive(ring, turns, arrived))
    }
}

impl Lane {
    fn drive(&mut self, ring: &Ring<Receiving>, turns: u64, arrived: &mut Arrived) -> Result<(), NetError> {
        let posted = ring.posted();
        while self.next < posted && ring.stage(self.next) == Stage::Carrier {
            let mut slot = ring.content(self.next);
            if !self.receive(&mut slot)? {
                return Ok(());
            }
            let stage = slot.end(self.next, arrived)?;
            drop(slot);
            ring.set(self.next, stage);
            (self.next, self.heard, self.at) = (self.next + turns, 0, 0);
        }
        Ok(())
    }

    /// Receives a message on; whether all of it is there.
    fn receive(&mut self, slot: &mut Receiving) -> Result<bool, NetError> {
        while self.heard < HEADER_LEN {
            let rest = &mut self.envelope[self.heard..];
            match socket::read(&self.socket, rest).map_err(|why| self.gone(why))? {
                Some(more) => self.heard += more,
                None => return Ok(false),
            }
            if self.heard == HEADER_LEN {
                self.len = slot.begin(self.next, &self.envelope)?;
            }
        }
        while self.at < self.len {
            let read = match slot.room(self.at, self.len) {
                Room::Own(room) => socket::read(&self.socket, room),
                Room::Lent(room) => socket::read(&self.socket, room),
            };
            match read.map_err(|why| self.gone(why))? {
                Some(more) => self.at += more,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn gone(&self, why: Errno) -> NetError {
        NetError::Gone { message: self.next, at: self.heard + self.at, why }
    }
}
