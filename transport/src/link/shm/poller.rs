//! Waiting for several files at once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::meeting::Visitor;
use crate::message::Rank;

/// What a file has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Callers.
    Waker,
    /// A peer that was met.
    Peer(Rank),
    /// Peers that are yet to be met.
    Door(Visitor),
}

/// Files that are waited for.
pub(super) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Waits for `file` too.
    pub(super) fn add(&self, file: impl AsFd, token: Token) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token.number());
        Ok(epoll::add(&self.epoll, file, data, epoll::EventFlags::IN)?)
    }

    /// Waits for `file` no more. It is not enough to close it: a child of this process may have it as well.
    pub(super) fn remove(&self, file: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, file); // it may not be waited for any more
    }

    /// What is ready, after waiting for at most `timeout`.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Vec<Token> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 64];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                events.iter().filter_map(|event| Token::from_number(event.data.u64())).collect()
            }
            Err(_) => Vec::new(), // interrupted
        }
    }

    /// Whether `file` is ready to be read.
    pub(super) fn is_ready(file: &OwnedFd) -> bool {
        let mut file = [PollFd::new(file, PollFlags::IN)];
        poll(&mut file, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

impl Token {
    fn number(self) -> u64 {
        let (kind, which) = match self {
            Self::Waker => (0, 0),
            Self::Peer(rank) => (1, rank.0),
            Self::Door(Visitor::Anybody) => (2, 0),
            Self::Door(Visitor::Stranger(number)) => (3, number),
            Self::Door(Visitor::Called(rank)) => (4, rank.0),
        };
        kind << 32 | u64::from(which)
    }

    fn from_number(number: u64) -> Option<Self> {
        let which = number as u32;
        Some(match number >> 32 {
            0 => Self::Waker,
            1 => Self::Peer(Rank(which)),
            2 => Self::Door(Visitor::Anybody),
            3 => Self::Door(Visitor::Stranger(which)),
            4 => Self::Door(Visitor::Called(Rank(which))),
            _ => return None,
        })
    }
}
