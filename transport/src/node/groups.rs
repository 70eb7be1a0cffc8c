//! Operations of several ranks, which any of them may give up: whoever waits for such an operation then waits no more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::handle::{Handle, Interrupt, TransferResult};
use crate::message::{GivingUp, Rank, Status};
use crate::session::TransferError;

/// What was given up before this rank was there to hear it, at most: of what peers make up, no more is kept.
const MOST_EARLY: usize = 4096;

/// The groups of a node, by their numbers.
#[derive(Default)]
pub(super) struct GroupBoard {
    groups: Mutex<Groups>,
}

#[derive(Default)]
struct Groups {
    watched: HashMap<u32, Weak<Watch>>,
    /// Of groups that nobody watches here yet: who has given up, and why.
    early: HashMap<(u32, Rank), Status>,
}

/// What this rank waits for in a group, and whether a member has given that up.
pub(crate) struct Watch {
    members: Vec<Rank>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    given_up: Option<TransferError>,
    /// What is waited for.
    waiting: Option<Interrupt>,
}

impl GroupBoard {
    pub(super) fn watch(&self, group: u32, members: &[Rank]) -> Arc<Watch> {
        let watch = Arc::new(Watch { members: members.to_vec(), state: Mutex::default() });
        let mut groups = self.lock();
        groups.watched.retain(|_, watch| watch.strong_count() > 0);
        groups.watched.insert(group, Arc::downgrade(&watch));
        for &member in members {
            if let Some(status) = groups.early.remove(&(group, member)) {
                watch.given_up(member, status);
            }
        }
        watch
    }

    /// `peer` says that it has given something up.
    pub(super) fn hear(&self, peer: Rank, GivingUp { group, status }: GivingUp) {
        let mut groups = self.lock();
        let watch = groups.watched.get(&group).and_then(Weak::upgrade);
        if watch.is_none() && groups.early.len() < MOST_EARLY {
            groups.early.insert((group, peer), status);
        }
        drop(groups);
        if let Some(watch) = watch {
            watch.given_up(peer, status);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Waits for a request of an operation, for as long as no member gives up. One thread waits at a time.
    pub(crate) fn wait(&self, mut handle: Handle) -> TransferResult {
        if handle.is_finished() {
            return handle.wait();
        }
        let mut state = self.lock();
        if let Some(error) = &state.given_up {
            return Err(error.clone());
        }
        state.waiting = Some(handle.interrupt());
        drop(state);
        let result = handle.wait();
        self.lock().waiting = None;
        result
    }

    fn given_up(&self, peer: Rank, status: Status) {
        if !self.members.contains(&peer) {
            return; // it is no affair of its
        }
        let mut state = self.lock();
        let error = state.given_up.get_or_insert(TransferError::GivenUp { peer, status }).clone();
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.end_with(error);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::handle::handle;

    const SAID: GivingUp = GivingUp { group: 7, status: Status::Internal };

    fn given_up(peer: u32) -> TransferResult {
        Err(TransferError::GivenUp { peer: Rank(peer), status: Status::Internal })
    }

    #[test]
    fn who_waits_is_interrupted_and_what_is_finished_is_finished() {
        let board = GroupBoard::default();
        let watch = board.watch(7, &[Rank(0), Rank(2)]);
        let (finished, first) = handle(None);
        finished.send(Ok(5));
        let (_never, second) = handle(None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| watch.wait(second));
            while watch.lock().waiting.is_none() {
                std::thread::yield_now();
            }
            board.hear(Rank(1), SAID); // no member
            board.hear(Rank(2), GivingUp { group: 6, ..SAID });
            assert!(watch.lock().given_up.is_none());
            board.hear(Rank(2), SAID);
            board.hear(Rank(0), SAID);
            assert_eq!(waiting.join().unwrap(), given_up(2));
        });
        assert_eq!(watch.wait(first), Ok(5));
        assert_eq!(watch.wait(handle(None).1), Err(TransferError::NodeClosed), "its reply is gone");
        let (_never, third) = handle(None);
        assert_eq!(watch.wait(third), given_up(2));
    }

    #[test]
    fn what_was_said_early_is_kept_to_a_bound() {
        let board = GroupBoard::default();
        board.hear(Rank(1), SAID);
        board.hear(Rank(3), SAID);
        let (_never, handle_of) = handle(None);
        assert_eq!(board.watch(7, &[Rank(0), Rank(1)]).wait(handle_of), given_up(1));
        for group in 0..2 * MOST_EARLY as u32 {
            board.hear(Rank(1), GivingUp { group, ..SAID });
        }
        assert_eq!(board.lock().early.len(), MOST_EARLY);
        // Groups that are gone are forgotten.
        drop(board.watch(9, &[]));
        drop(board.watch(10, &[]));
        assert_eq!(board.lock().watched.len(), 1);
    }
}
