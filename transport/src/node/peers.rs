//! Where a program reads how its peers are.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Position;
use super::ways::Ways;
use crate::link::driving;
use crate::message::Rank;
use crate::session::SessionError;

/// How the session with a peer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// Its hello has not come yet.
    #[default]
    Greeting,
    /// Requests go through.
    Open,
    /// It has ended.
    Over(SessionError),
}

impl PeerState {
    /// How a child sees the peers of its parent.
    pub(super) const FORKED: Self = Self::Over(SessionError::Forked);
}

/// The states of all ranks; this one's own stays at greeting and is not waited for.
pub(super) struct PeerBoard {
    local: Rank,
    states: Mutex<Vec<PeerState>>,
    changed: Condvar,
    pub(super) ways: Ways,
}

impl PeerBoard {
    pub(super) fn new(position: Position, part_bytes: usize, codec_threads: usize) -> Self {
        let Position { rank: local, ranks } = position;
        let ways = Ways::new(ranks, part_bytes, codec_threads);
        let states = Mutex::new(vec![PeerState::default(); ranks as usize]);
        Self { local, states, changed: Condvar::new(), ways }
    }

    pub(super) fn set(&self, peer: Rank, open: bool, error: Option<&SessionError>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = states.get_mut(peer.0 as usize) else { return };
        let stale = match (&state, error) {
            (PeerState::Over(_), _) => false,
            (_, Some(_)) => true,
            (PeerState::Greeting, None) => open,
            (PeerState::Open, None) => false,
        };
        if stale {
            *state = error.map_or(PeerState::Open, |error| PeerState::Over(error.clone()));
            self.changed.notify_all();
        }
    }

    pub(super) fn state(&self, peer: Rank) -> Option<PeerState> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(peer.0 as usize).filter(|_| peer != self.local).cloned()
    }

    /// Waits until no peer is at greeting any more, or `timeout` has passed; returns the states of all peers.
    pub(super) fn wait(&self, timeout: Duration) -> Vec<(Rank, PeerState)> {
        let until = Instant::now().checked_add(timeout);
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let peers = || (0..).map(Rank).zip(&*states).filter(|(rank, _)| *rank != self.local);
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() || peers().all(|(_, state)| *state != PeerState::Greeting) {
                let found = peers().map(|(rank, state)| (rank, state.clone())).collect();
                drop(states);
                driving::settle(); // this side's hellos, for one
                return found;
            }
            states = driving::wait(&self.states, &self.changed, states, Some(left));
        }
    }
}
