//! Sends messages, each through the socket whose turn it is.

use std::io::IoSlice;

use mgcomp_selector::LinkFacts;
use mgcomp_transport::link::tcp::Gauge;
use rustix::io::Errno;

use super::socket::{self, Socket};
use crate::carrier::Outgoing;
use crate::comm::{Ring, Sending, Stage};
use crate::error::NetError;

pub(super) struct TcpOutgoing {
    peer: u32,
    lanes: Vec<Lane>,
}

struct Lane {
    socket: Socket,
    /// The message that it sends, or will send next.
    next: u64,
    /// Bytes of it that are sent.
    sent: usize,
    gauge: Gauge,
    /// Nothing was left to send when it was looked at last.
    is_idle: bool,
}

impl TcpOutgoing {
    pub(super) fn new(peer: u32, sockets: Vec<Socket>) -> Self {
        let lane = |(lane, socket)| Lane {
            socket,
            next: lane as u64,
            sent: 0,
            gauge: Gauge::default(),
            is_idle: true,
        };
        Self { peer, lanes: sockets.into_iter().enumerate().map(lane).collect() }
    }
}

impl Outgoing for TcpOutgoing {
    fn peer(&self) -> u32 {
        self.peer
    }

    fn drive(&mut self, ring: &Ring<Sending>) -> Result<(), NetError> {
        let turns = self.lanes.len() as u64;
        self.lanes.iter_mut().try_for_each(|lane| lane.drive(ring, turns))
    }

    fn facts(&self) -> Option<LinkFacts> {
        Gauge::together(self.lanes.iter().filter_map(|lane| lane.gauge.facts(&lane.socket)))
    }
}

impl Lane {
    fn drive(&mut self, ring: &Ring<Sending>, turns: u64) -> Result<(), NetError> {
        let posted = ring.posted();
        while self.next < posted && ring.stage(self.next) == Stage::Carrier {
            if !self.send(&ring.content(self.next))? {
                return Ok(());
            }
            ring.set(self.next, Stage::Done);
            (self.next, self.sent) = (self.next + turns, 0);
        }
        self.is_idle = true;
        Ok(())
    }

    /// Sends a message on; whether all of it is sent.
    fn send(&mut self, message: &Sending) -> Result<bool, NetError> {
        let pieces = message.pieces();
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if self.sent == 0 {
            self.gauge.sending(len as u64, u64::from(!self.is_idle));
            self.is_idle = false;
        }
        while self.sent < len {
            match socket::write(&self.socket, &rest(pieces, self.sent)).map_err(|why| self.gone(why))? {
                Some(more) => self.sent += more,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn gone(&self, why: Errno) -> NetError {
        NetError::Gone { message: self.next, at: self.sent, why }
    }
}

/// What is left of the pieces behind the first `sent` bytes.
fn rest<'a>([envelope, raw]: [&'a [u8]; 2], sent: usize) -> [IoSlice<'a>; 2] {
    let first = &envelope[sent.min(envelope.len())..];
    let second = &raw[sent.saturating_sub(envelope.len())..];
    [IoSlice::new(first), IoSlice::new(second)]
}
