//! Operations of several ranks, which any of them may give up: whoever waits for such an operation, or a later one, then
//! waits no more. Those before it go on: whoever gives up has done its part in them. Who leaves gives up the one that would be next.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::handle::{Handle, Interrupt, TransferResult};
use crate::message::{GivingUp, OperationId, Rank, Status};
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
    /// There is a group of all ranks, or was one.
    had_world: bool,
    /// The highest number that there was. Numbers rise, so groups up to it are there, or gone for good, or being made.
    newest: Option<u32>,
    /// Of each group that is being made, the lowest number that it may get.
    making: Vec<u32>,
    /// What peers have given up of groups that are yet to come.
    early: HashMap<Rank, BTreeMap<u32, GivingUp>>,
}

impl Groups {
    /// Whether a group that is not there will not come either.
    fn is_over(&self, group: u32) -> bool {
        self.watched.contains_key(&group)
            || self.newest.is_some_and(|newest| group <= newest) && !self.may_be_made(group)
    }

    /// Whether one that is being made may get this number.
    fn may_be_made(&self, group: u32) -> bool {
        self.making.iter().any(|&lowest| group >= lowest)
    }

    /// Forgets groups that are no more. Those that one which is being made could have the number of are told from it by being known.
    fn forget_gone(&mut self) {
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|&group, watch| watch.strong_count() > 0 || self.may_be_made(group));
        self.watched = watched;
    }

    /// Forgets what was said of groups that are over.
    fn forget(&mut self) {
        let mut early = std::mem::take(&mut self.early);
        early.retain(|_, early| {
            early.retain(|&group, _| !self.is_over(group));
            !early.is_empty()
        });
        self.early = early;
    }
}

/// A group is being made for as long as this is there.
pub(crate) struct Making<'a> {
    board: &'a GroupBoard,
    lowest: u32,
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
    /// From where on all is given up, or comes to nothing here.
    given_up: Option<(OperationId, TransferError)>,
    /// Whether the group is no more on this rank.
    is_closed: bool,
    /// Members that have given up something. Nothing more of the group comes from them.
    gone: HashSet<Rank>,
    /// What is waited for.
    waiting: Option<Interrupt>,
}

impl GroupBoard {
    /// The group of all ranks, whose number is 0, and whether it is the first. What others said of that one is for no second.
    pub(super) fn watch_world(&self, members: &[Rank]) -> (Arc<Watch>, bool) {
        if std::mem::replace(&mut self.lock().had_world, true) {
            return (Watch::of(members), false);
        }
        (self.watch(0, members), true)
    }

    pub(super) fn watch(&self, group: u32, members: &[Rank]) -> Arc<Watch> {
        let watch = Watch::of(members);
        let mut groups = self.lock();
        groups.forget_gone();
        groups.watched.insert(group, Arc::downgrade(&watch));
        groups.newest = groups.newest.max(Some(group));
        for (&peer, early) in &mut groups.early {
            if let Some(given_up) = early.remove(&group) {
                watch.given_up(peer, given_up);
            }
        }
        groups.forget();
        watch
    }

    /// `peer` says that it has given something up. Returns whether the group is gone on this rank.
    pub(super) fn hear(&self, peer: Rank, given_up: GivingUp) -> bool {
        let mut groups = self.lock();
        let watch = groups.watched.get(&given_up.group).and_then(Weak::upgrade);
        if watch.is_none() {
            if groups.is_over(given_up.group) {
                return true;
            }
            let early = groups.early.entry(peer).or_default();
            if early.len() < MOST_EARLY {
                early.insert(given_up.group, given_up);
            }
        }
        drop(groups);
        watch.is_some_and(|watch| !watch.given_up(peer, given_up))
    }

    /// What `group` is at comes to nothing: a request of that has failed.
    pub(super) fn fail(&self, group: u32, error: &TransferError) {
        let watch = self.lock().watched.get(&group).and_then(Weak::upgrade);
        if let Some(watch) = watch {
            watch.end(error.clone());
        }
    }

    /// A group is being made from now on, whose number is `lowest` or higher.
    pub(super) fn making(&self, lowest: u32) -> Making<'_> {
        self.lock().making.push(lowest);
        Making { board: self, lowest }
    }

    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut groups = self.board.lock();
        if let Some(one) = groups.making.iter().position(|&lowest| lowest == self.lowest) {
            groups.making.swap_remove(one);
        }
        groups.forget_gone();
        groups.forget();
    }
}

impl Watch {
    pub(super) fn of(members: &[Rank]) -> Arc<Self> {
        Arc::new(Self { members: members.to_vec(), state: Mutex::default() })
    }

    /// What is waited for from now on is of this operation. Why it comes to nothing, if a member has given it up already: who only
    /// sends would not hear of that.
    pub(crate) fn begin(&self, operation: OperationId) -> Option<TransferError> {
        let mut state = self.lock();
        state.operation = operation;
        state.over()
    }

    /// Waits for a request of an operation, for as long as no member gives that up, and no other request of it fails with its
    /// session. One thread waits at a time.
    pub(crate) fn wait(&self, mut handle: Handle) -> TransferResult {
        if handle.is_finished() {
            return handle.wait();
        }
        let mut state = self.lock();
        if let Some(error) = state.over() {
            drop(state);
            // What was finished since the first look may have been so before it was given up.
            return if handle.is_finished() { handle.wait() } else { Err(error) };
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

    /// The group is no more on this rank. Why it could have done nothing more, at the latest after some operations, if a member
    /// has given up; whoever does so from now on finds it gone.
    pub(crate) fn close(&self) -> Option<TransferError> {
        let mut state = self.lock();
        state.is_closed = true;
        state.given_up.as_ref().map(|(_, error)| error.clone())
    }

    /// This rank, which is `own`, waits for nothing more: what it is at comes to nothing.
    pub(crate) fn leave(&self, own: Rank) {
        self.end(TransferError::GivenUp { peer: own, status: Status::Closing });
    }

    /// What this rank is at comes to nothing. All requests that are under way are of that: none is over before its own are.
    fn end(&self, error: TransferError) {
        let state = self.lock();
        let operation = state.operation;
        State::end_from(state, operation, error);
    }

    /// Returns whether the group is there to hear it.
    fn given_up(&self, peer: Rank, GivingUp { operation, status, .. }: GivingUp) -> bool {
        if !self.members.contains(&peer) {
            return true; // it is no affair of its
        }
        let mut state = self.lock();
        state.gone.insert(peer);
        if state.is_closed {
            return false;
        }
        State::end_from(state, operation, TransferError::GivenUp { peer, status });
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// From `operation` on all comes to nothing. Whoever waits for that is told.
    fn end_from(mut state: MutexGuard<'_, Self>, operation: OperationId, error: TransferError) {
        if state.given_up.as_ref().is_none_or(|(from, _)| !operation.is_from(*from)) {
            state.given_up = Some((operation, error));
        }
        let interrupted = state.over().and_then(|error| Some((state.waiting.take()?, error)));
        drop(state);
        if let Some((waiting, error)) = interrupted {
            waiting.end_with(error);
        }
    }

    /// Why what this rank is at comes to nothing, if a member has given it up.
    fn over(&self) -> Option<TransferError> {
        let given_up = self.given_up.as_ref().filter(|(from, _)| self.operation.is_from(*from));
        given_up.map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;
    use crate::link::Drive;
    use crate::node::handle::{Reply, handle};
    use crate::session::SessionError;

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

    /// Finishes a request when it is looked at for the second time.
    struct SecondLook(Mutex<Vec<Option<Reply>>>);

    impl Drive for SecondLook {
        fn drive(&self, _: Pin<&mut (dyn Future<Output = ()> + Send)>) -> bool {
            false
        }

        fn prompt(&self, _: bool) {
            if let Some(Some(reply)) = self.0.lock().unwrap().pop() {
                reply.send(Ok(5));
            }
        }
    }

    #[test]
    fn what_is_finished_while_it_is_looked_whether_it_is_given_up_is_finished() {
        let board = GroupBoard::default();
        let watch = board.watch(7, &[Rank(0), Rank(2)]);
        board.hear(Rank(2), said());
        let looks = Arc::new(SecondLook(Mutex::default()));
        let driver: Arc<dyn Drive> = looks.clone();
        let (reply, waiting) = handle(Some(Arc::downgrade(&driver)));
        *looks.0.lock().unwrap() = vec![Some(reply), None];
        assert_eq!(watch.wait(waiting), Ok(5));
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
            assert_eq!(watch.begin(operation).map(Err), Some(given_up(0)));
            let (_never, next) = handle(None);
            assert_eq!(watch.wait(next), given_up(0));
        }
    }

    #[test]
    fn who_leaves_waits_for_nothing_more() {
        let board = GroupBoard::default();
        let watch = board.watch(7, &[Rank(0), Rank(2)]);
        assert_eq!(watch.begin(OperationId::default().next()), None);
        let left = Err(TransferError::GivenUp { peer: Rank(0), status: Status::Closing });
        let (_never, first) = handle(None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| watch.wait(first));
            while watch.lock().waiting.is_none() {
                std::thread::yield_now();
            }
            watch.leave(Rank(0));
            assert_eq!(waiting.join().unwrap(), left);
        });
        let (_never, second) = handle(None);
        assert_eq!(watch.wait(second), left);
        assert!(!watch.has_given_up(Rank(0)), "the others have said nothing");
    }

    #[test]
    fn who_waits_hears_that_another_request_has_failed() {
        let board = GroupBoard::default();
        let watch = board.watch(7, &[Rank(0), Rank(2)]);
        let operation = OperationId::default().next();
        assert_eq!(watch.begin(operation), None);
        let error = TransferError::Session { peer: Rank(2), error: SessionError::Closed };
        let (_never, first) = handle(None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| watch.wait(first));
            while watch.lock().waiting.is_none() {
                std::thread::yield_now();
            }
            board.fail(6, &error); // there is none
            assert!(watch.lock().given_up.is_none());
            board.fail(7, &error);
            assert_eq!(waiting.join().unwrap(), Err(error.clone()));
        });
        assert_eq!(watch.begin(operation.next()), Some(error), "nothing can follow");
        assert!(!watch.has_given_up(Rank(2)), "it has said nothing");
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

    #[test]
    fn groups_that_are_being_made_may_have_lower_numbers_than_others() {
        let board = GroupBoard::default();
        let making = board.making(7);
        let other = board.watch(10, &[Rank(2)]);
        assert!(board.hear(Rank(1), GivingUp { group: 6, ..said() }), "none is so low");
        for group in [7, 8] {
            assert!(!board.hear(Rank(1), GivingUp { group, ..said() }), "{group} may be yet to come");
        }
        let (_never, handle_of) = handle(None);
        assert_eq!(board.watch(7, &[Rank(1)]).wait(handle_of), given_up(1));
        drop(making);
        assert!(board.lock().early.is_empty(), "8 has not come");
        assert!(board.hear(Rank(1), GivingUp { group: 8, ..said() }));
        drop(other);
    }

    #[test]
    fn groups_come_and_go_while_one_is_being_made() {
        let board = GroupBoard::default();
        let making = board.making(5);
        let others = MOST_EARLY as u32 + 40;
        for group in 6..6 + others {
            drop(board.watch(group, &[Rank(1)]));
            assert!(board.hear(Rank(1), GivingUp { group, ..said() }), "{group} is over");
        }
        assert!(board.lock().early.is_empty(), "nothing is kept of those");
        assert!(!board.hear(Rank(1), GivingUp { group: 5, ..said() }), "yet to come");
        let (_never, handle_of) = handle(None);
        assert_eq!(board.watch(5, &[Rank(1)]).wait(handle_of), given_up(1));
        drop(making);
        assert!(board.lock().watched.is_empty());
        assert!(board.hear(Rank(1), GivingUp { group: 6, ..said() }));
    }

    #[test]
    fn what_is_said_of_a_group_that_is_being_dropped_is_not_lost() {
        let board = GroupBoard::default();
        let watch = board.watch(7, &[Rank(1), Rank(2)]);
        assert!(!board.hear(Rank(1), said()));
        assert_eq!(watch.close().map(Err), Some(given_up(1)));
        assert!(board.hear(Rank(2), said()), "gone, though it is still there");
        assert!(watch.has_given_up(Rank(2)), "so that nothing is kept until it says so");
    }
}
