//! Operations of several ranks, which any of them may give up: whoever waits for such an operation, or a later one, then
//! waits no more. Those before it go on: whoever gives up has done its part in them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::handle::{Handle, Interrupt, TransferResult};
use crate::message::{GivingUp, OperationId, Rank};
use crate::session::TransferError;

/// Groups that a peer has given up before this rank had them, at most: of what peers make up, no more is kept.
const MOST_EARLY: usize = 64;

/// The groups of a node, by their numbers.
#[derive(Default)]
pub(super) struct GroupBoard {
    groups: Mutex<Groups>,
}

#[derive(Default)]
struct Groups {
    watched: HashMap<u32, Weak<Watch>>,
    /// The highest number that there was. Numbers rise, so groups up to it are there, or gone for good.
    newest: Option<u32>,
    /// What peers have given up of groups above that.
    early: HashMap<Rank, BTreeMap<u32, GivingUp>>,
}

/// What this rank waits for in a group, and whether a member has given that up.
pub(crate) struct Watch {
    members: Vec<Rank>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What this rank is at.
    operation: OperationId,
    /// From where on all is given up.
    given_up: Option<(OperationId, TransferError)>,
    /// Members that have given up something. Nothing more of the group comes from them.
    gone: HashSet<Rank>,
    /// What is waited for.
    waiting: Option<Interrupt>,
}

impl GroupBoard {
    pub(super) fn watch(&self, group: u32, members: &[Rank]) -> Arc<Watch> {
        let watch = Arc::new(Watch { members: members.to_vec(), state: Mutex::default() });
        let mut groups = self.lock();
        groups.watched.retain(|_, watch| watch.strong_count() > 0);
        groups.watched.insert(group, Arc::downgrade(&watch));
        let newest = groups.newest.map_or(group, |newest| newest.max(group));
        groups.newest = Some(newest);
        groups.early.retain(|&peer, early| {
            if let Some(&given_up) = early.get(&group) {
                watch.given_up(peer, given_up);
            }
            early.retain(|&group, _| group > newest);
            !early.is_empty()
        });
        watch
    }

    /// `peer` says that it has given something up. Returns whether the group is gone on this rank.
    pub(super) fn hear(&self, peer: Rank, given_up: GivingUp) -> bool {
        let mut groups = self.lock();
        let watch = groups.watched.get(&given_up.group).and_then(Weak::upgrade);
        let is_gone = watch.is_none() && groups.newest.is_some_and(|newest| given_up.group <= newest);
        if watch.is_none() && !is_gone {
            let early = groups.early.entry(peer).or_default();
            if early.len() < MOST_EARLY {
                early.insert(given_up.group, given_up);
            }
        }
        drop(groups);
        if let Some(watch) = watch {
            watch.given_up(peer, given_up);
        }
        is_gone
    }

    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// What is waited for from now on is of this operation.
    pub(crate) fn begin(&self, operation: OperationId) {
        self.lock().operation = operation;
    }

    /// Waits for a request of an operation, for as long as no member gives that up. One thread waits at a time.
    pub(crate) fn wait(&self, mut handle: Handle) -> TransferResult {
        if handle.is_finished() {
            return handle.wait();
        }
        let mut state = self.lock();
        if let Some(error) = state.over() {
            return Err(error);
        }
        state.waiting = Some(handle.interrupt());
        drop(state);
        let result = handle.wait();
        self.lock().waiting = None;
        result
    }

    pub(super) fn members(&self) -> &[Rank] {
        &self.members
    }

    /// Whether `member` has said that it has given up.
    pub(super) fn has_given_up(&self, member: Rank) -> bool {
        self.lock().gone.contains(&member)
    }

    /// Why the group can do nothing more, at the latest after some operations: a member has given up.
    pub(crate) fn error(&self) -> Option<TransferError> {
        self.lock().given_up.as_ref().map(|(_, error)| error.clone())
    }

    fn given_up(&self, peer: Rank, GivingUp { operation, status, .. }: GivingUp) {
        if !self.members.contains(&peer) {
            return; // it is no affair of its
        }
        let mut state = self.lock();
        state.gone.insert(peer);
        if state.given_up.as_ref().is_none_or(|(from, _)| !operation.is_from(*from)) {
            state.given_up = Some((operation, TransferError::GivenUp { peer, status }));
        }
        let interrupted = state.over().and_then(|error| Some((state.waiting.take()?, error)));
        drop(state);
        if let Some((waiting, error)) = interrupted {
            waiting.end_with(error);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why what this rank is at comes to nothing, if a member has given it up.
    fn over(&self) -> Option<TransferError> {
        let given_up = self.given_up.as_ref().filter(|(from, _)| self.operation.is_from(*from));
        given_up.map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Status;
    use crate::node::handle::handle;

    fn said() -> GivingUp {
        GivingUp { group: 7, operation: OperationId::default(), status: Status::Internal }
    }

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
            board.hear(Rank(1), said()); // no member
            board.hear(Rank(2), GivingUp { group: 6, ..said() });
            assert!(watch.lock().given_up.is_none());
            board.hear(Rank(2), said());
            board.hear(Rank(0), said());
            assert_eq!(waiting.join().unwrap(), given_up(2));
        });
        assert_eq!(watch.wait(first), Ok(5));
        let (gone, fourth) = handle(None);
        drop(gone);
        assert_eq!(watch.wait(fourth), Err(TransferError::NodeClosed), "finished as well");
        let (_never, third) = handle(None);
        assert_eq!(watch.wait(third), given_up(2));
    }

    #[test]
    fn what_is_before_goes_on() {
        let board = GroupBoard::default();
        let watch = board.watch(7, &[Rank(0), Rank(2)]);
        let second = OperationId::default().next();
        board.hear(Rank(2), GivingUp { operation: second.next(), ..said() });
        board.hear(Rank(0), GivingUp { operation: second, ..said() });
        board.hear(Rank(2), GivingUp { operation: second.next(), ..said() });
        let (reply, first) = handle(None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| watch.wait(first));
            while watch.lock().waiting.is_none() {
                std::thread::yield_now();
            }
            board.hear(Rank(0), GivingUp { operation: second.next(), ..said() });
            reply.send(Ok(3));
            assert_eq!(waiting.join().unwrap(), Ok(3));
        });
        for operation in [second, second.next()] {
            watch.begin(operation);
            let (_never, next) = handle(None);
            assert_eq!(watch.wait(next), given_up(0));
        }
    }

    #[test]
    fn what_was_said_early_is_kept_to_a_bound() {
        let board = GroupBoard::default();
        board.hear(Rank(1), said());
        board.hear(Rank(3), said());
        let (_never, handle_of) = handle(None);
        assert_eq!(board.watch(7, &[Rank(0), Rank(1)]).wait(handle_of), given_up(1));
        for group in 0..2 * MOST_EARLY as u32 {
            board.hear(Rank(1), GivingUp { group, ..said() });
        }
        assert_eq!(board.lock().early[&Rank(1)].len(), MOST_EARLY);
        assert!(board.lock().early[&Rank(1)].keys().all(|&group| group > 7), "7 was there");
        // Groups that are gone are forgotten.
        drop(board.watch(9, &[]));
        drop(board.watch(10, &[]));
        assert_eq!(board.lock().watched.len(), 1);
        // What is said of them is told from what is said of those that are there, or yet to come.
        let watch = board.watch(11, &[Rank(1)]);
        for (group, is_gone) in [(9, true), (11, false), (12, false)] {
            assert_eq!(board.hear(Rank(1), GivingUp { group, ..said() }), is_gone, "{group}");
        }
        assert!(watch.has_given_up(Rank(1)) && !watch.has_given_up(Rank(2)));
    }
}
