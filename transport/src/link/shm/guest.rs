//! A link that lives on this one: it has memory of its own beside the rings, which this one only carries word of.
//!
//! Such a link hears of the peers that were met and are gone, exchanges notes and files with them over the sockets that wake
//! them, and sends messages of which only the header goes through the ring, with the place where the payload is to be found.

use std::os::fd::OwnedFd;
use std::sync::Arc;
#[cfg(feature = "cuda")]
use std::sync::atomic::Ordering;

use super::segment::{Direction, Segment};
use super::socket::{self, Heard};
use crate::link::LinkError;
use crate::message::Rank;
use crate::payload::Payload;

/// Most bytes of a note. None has fewer than two: those of one byte wake the other side.
pub(in crate::link) const NOTE_LEN: usize = 512;

/// Bytes that say where a payload is.
pub(in crate::link) const PLACE_LEN: usize = 16;

/// A link that lives on this one. It is called by whoever does this link's work, and must not block.
pub(in crate::link) trait Guest: Send + Sync {
    /// A peer was met.
    fn met(&self, peer: Rank, line: Line);

    /// A peer says something. An error ends the way to it.
    fn heard(&self, from: Rank, note: &[u8], file: Option<OwnedFd>) -> Result<(), LinkError>;

    /// A message has come whose payload is elsewhere; an error ends the way to the peer.
    fn payload_at(&self, from: Rank, place: [u8; PLACE_LEN]) -> Result<Payload, LinkError>;

    /// Nothing more comes from a peer, and nothing more goes there.
    fn gone(&self, peer: Rank);
}

/// What a guest has of a peer that was met.
#[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "no other link has guests"))]
#[derive(Clone)]
pub(in crate::link) struct Line {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) process: Option<Arc<OwnedFd>>,
    /// What the peer says of slots in memory of its own, where this rank sends to.
    pub(in crate::link) theirs: Words,
    /// What this rank says of its own.
    pub(in crate::link) own: Words,
}

/// Words in shared memory, one for each slot of memory elsewhere, of which only one side stores them.
#[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "no other link has guests"))]
#[derive(Clone)]
pub(in crate::link) struct Words {
    pub(super) segment: Arc<Segment>,
    pub(super) direction: Direction,
}

#[cfg(feature = "cuda")]
impl Words {
    /// How many there are.
    pub(in crate::link) const COUNT: usize = super::segment::SLOTS;

    pub(in crate::link) fn load(&self, slot: usize) -> u64 {
        self.segment.slot(self.direction, slot).load(Ordering::Acquire)
    }

    pub(in crate::link) fn store(&self, slot: usize, count: u64) {
        self.segment.slot(self.direction, slot).store(count, Ordering::Release);
    }
}

#[cfg(feature = "cuda")]
impl Line {
    /// Says something, with a file.
    pub(in crate::link) fn say(&self, note: &[u8], file: Option<&OwnedFd>) -> std::io::Result<()> {
        socket::say(&self.socket, note, file)
    }

    /// Says nothing more; the peer finds the end.
    pub(in crate::link) fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write); // it may be gone
    }

    /// The next note, after the link has stopped to listen; `None` if there is none yet, or never will be.
    pub(in crate::link) fn hear(&self) -> Option<Vec<u8>> {
        // That the peer has closed its end may stand before what it said last.
        let heard = (0..2).find_map(|_| socket::hear(&self.socket, NOTE_LEN).ok());
        heard.map(|heard| heard.message).filter(|note| !note.is_empty())
    }

    /// Two that are joined, in one process.
    #[cfg(test)]
    pub(in crate::link) fn pair() -> [Self; 2] {
        let segment = Arc::new(Segment::create(4096).unwrap().0);
        let words = |direction| Words { segment: segment.clone(), direction };
        let line = |socket| Self {
            socket: Arc::new(socket),
            process: None,
            theirs: words(Direction::ToMaker),
            own: words(Direction::FromMaker),
        };
        let (one, other) = socket::pair().unwrap();
        [line(one), line(other)]
    }

    /// Whether the peer's process has ended, if that can be seen.
    pub(in crate::link) fn has_ended(&self) -> bool {
        self.process.as_ref().is_some_and(|process| super::poller::Poller::is_ready(process))
    }
}

/// What comes over a socket on which a guest listens as well: bells and notes. Returns whether the peer is still there.
pub(super) fn listen(guest: &dyn Guest, from: Rank, socket: &OwnedFd) -> Result<bool, LinkError> {
    // Not to the end, as in `socket::hush`.
    for _ in 0..16 {
        match socket::hear(socket, NOTE_LEN) {
            Ok(Heard { message, .. }) if message.is_empty() => return Ok(false),
            Ok(Heard { message, .. }) if message.len() == 1 => {}
            Ok(Heard { message, file, .. }) => guest.heard(from, &message, file)?,
            Err(error) => {
                let kind = error.kind();
                return Ok(matches!(kind, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted));
            }
        }
    }
    Ok(true)
}
