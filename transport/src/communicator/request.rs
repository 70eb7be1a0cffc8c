//! Collectives that go on while the program does something else.

use std::io;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use mgcomp_codecs::background;

use super::turn::Task;
use super::{Communicator, CommunicatorError, Group, Started};
use crate::link::driving;
use crate::message::{GivingUp, OperationId, Rank, Status};
use crate::session::{GroupOver, TransferError};

/// A collective under way. Its buffers are not to be touched before it is finished. It keeps its communicator. Dropping it does not
/// stop it; what becomes of it when its communicator is used no more is said [there](super#order).
#[derive(Debug)]
pub struct CollectiveRequest {
    reports: Receiver<Result<(), CommunicatorError>>,
    result: Option<Result<(), CommunicatorError>>,
    /// Keeps what is waited for from being given up.
    started: Arc<Started>,
}

impl CollectiveRequest {
    /// Waits until the collective is finished.
    ///
    /// # Errors
    /// [`CommunicatorError`] if it failed.
    pub fn wait(mut self) -> Result<(), CommunicatorError> {
        if let Some(result) = self.result.take() {
            return result;
        }
        self.started.check_process()?;
        driving::receive(&self.reports).unwrap_or(Err(CommunicatorError::Panicked))
    }

    /// Whether the collective is finished, one way or the other.
    pub fn is_finished(&mut self) -> bool {
        if self.result.is_none() {
            if let Err(forked) = self.started.check_process() {
                self.result = Some(Err(forked));
                return true;
            }
            self.result = match driving::try_receive(&self.reports) {
                Ok(result) => Some(result),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err(CommunicatorError::Panicked)),
            };
        }
        self.result.is_some()
    }
}

impl Drop for CollectiveRequest {
    fn drop(&mut self) {
        self.started.join_ended();
    }
}

impl Communicator {
    /// Carries out a collective when those before it are over.
    pub(super) fn collective(
        &self,
        work: impl FnOnce(&Group) -> Result<(), CommunicatorError>,
    ) -> Result<(), CommunicatorError> {
        self.group.check_process()?;
        let turn = self.group.turns.take();
        self.group.turns.in_turn(turn, || self.group.unless_broken(work))
    }

    /// As [`collective`](Self::collective), on the communicator's thread. Its place in the order is that of the call.
    pub(super) fn start_collective(
        &self,
        work: impl FnOnce(&Group) -> Result<(), CommunicatorError> + Send + 'static,
    ) -> CollectiveRequest {
        let spawn = |task| background::spawn("mgcomp-collective", task);
        self.start_collective_by(spawn, work)
    }

    /// As [`start_collective`](Self::start_collective), on the thread that `spawn` makes if there is none.
    fn start_collective_by(
        &self,
        spawn: impl FnMut(Task) -> io::Result<JoinHandle<()>>,
        work: impl FnOnce(&Group) -> Result<(), CommunicatorError> + Send + 'static,
    ) -> CollectiveRequest {
        let (report, reports) = mpsc::channel();
        let request = |result| CollectiveRequest { reports, result, started: self.started.clone() };
        if let Err(error) = self.group.check_process() {
            return request(Some(Err(error)));
        }
        let group = self.group.clone();
        // In its turn: what comes after it finds it finished.
        let in_turn = move |thread: Result<(), CommunicatorError>| {
            let result = group.unless_broken(|group| thread.and_then(|()| work(group)));
            let _ = report.send(result); // nobody may be waiting any more
        };
        if self.group.broken.get().is_some() {
            // It takes no thread to say so.
            let turn = self.group.turns.take();
            self.group.turns.leave(turn, Box::new(move || in_turn(Ok(()))));
        } else {
            self.started.queue(Box::new(in_turn), spawn);
        }
        request(None)
    }
}

impl Group {
    /// In a child made by `fork`, nobody ends the turns that the parent's threads have, or says what has come of them.
    pub(super) fn check_process(&self) -> Result<(), CommunicatorError> {
        if self.node.is_forked() { Err(TransferError::Forked.into()) } else { Ok(()) }
    }

    /// A collective that fails halfway leaves the members at different places, so nothing can follow it.
    fn unless_broken(
        &self,
        work: impl FnOnce(&Self) -> Result<(), CommunicatorError>,
    ) -> Result<(), CommunicatorError> {
        match self.broken.get() {
            None => {}
            Some(CommunicatorError::SecondWorld) => return Err(CommunicatorError::SecondWorld),
            Some(error) => return Err(CommunicatorError::Broken(Box::new(error.clone()))),
        }
        let mut operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given_up) = self.watch.begin(*operation) {
            let error = given_up.into();
            self.fail(*operation, &error);
            return Err(error);
        }
        let under_way = UnderWay { group: self, operation: *operation };
        let result = work(self);
        std::mem::forget(under_way); // no panic: what follows is said here
        match &result {
            // Nobody carries it out without this one.
            Err(CommunicatorError::Thread(_)) if self.size() == 1 => {}
            Err(error) if error.is_halfway() => self.fail(*operation, error),
            Ok(()) => *operation = operation.next(),
            // Nothing has begun: the program may do it right yet.
            Err(_) => {}
        }
        result
    }

    /// Nothing can follow this operation, on any member.
    fn fail(&self, operation: OperationId, error: &CommunicatorError) {
        let _ = self.broken.set(error.clone()); // the first one is the cause
        self.give_up(operation, error);
    }

    /// Tells the other members, who wait for what does not come any more. Each tells all others: there may be some that whoever
    /// has failed first does not reach.
    fn give_up(&self, operation: OperationId, error: &CommunicatorError) {
        #[cfg(feature = "cuda")]
        if let CommunicatorError::Device(error) = error
            && error.is_sticky()
        {
            return self.node.lose_device(error);
        }
        self.tell(operation, error.status(), false);
    }

    /// Tells the other members that this one takes part in nothing from `operation` on.
    fn tell(&self, operation: OperationId, status: Status, is_orderly: bool) {
        let given_up = GivingUp { group: self.context, operation, status };
        self.others().for_each(|other| self.node.give_up(self.members[other], given_up));
        self.node.end_group(self.watch.clone(), GroupOver { group: self.context, status, is_orderly });
        driving::settle(); // nobody may drive the link next
    }

    /// Tells those who may have a new communicator of `members`, with this number, that this one does not take part in it.
    pub(super) fn stay_out(&self, context: u32, members: &[Rank], status: Status) {
        let given_up = GivingUp { group: context, operation: OperationId::default(), status };
        let own = self.members[self.rank];
        members
            .iter()
            .filter(|&&member| member != own)
            .for_each(|&member| self.node.give_up(member, given_up));
        let over = GroupOver { group: context, status, is_orderly: false };
        self.node.end_group(self.node.watch(context, members), over);
        driving::settle(); // nobody may drive the link next
    }
}

impl Drop for Group {
    /// Others may wait for this member in what it has never begun, and what they have sent of that may be here. What it has sent
    /// itself is all of operations that are over here, and may still be on its way.
    fn drop(&mut self) {
        if self.node.is_forked() {
            return;
        }
        let heard = self.watch.close();
        if self.broken.get().is_some() {
            return; // and has said so
        }
        let operation = *self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        let status = heard.map_or(Status::Closing, |error| error.status());
        self.tell(operation, status, true);
    }
}

/// An operation that is given up if a panic ends it.
struct UnderWay<'a> {
    group: &'a Group,
    operation: OperationId,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.group.fail(self.operation, &CommunicatorError::Panicked);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;
    use std::time::Duration;

    use mgcomp_selector::{PolicySpec, Steering};

    use super::*;
    use crate::link::loopback::Loopback;
    use crate::message::Status;
    use crate::node::{Node, NodeConfig};

    /// Nothing here takes this long unless it hangs.
    const HANGS: Duration = Duration::from_secs(120);

    fn worlds(ranks: u32) -> Vec<Communicator> {
        let start = |link| {
            let policy = PolicySpec::default().build(&Steering::default());
            Communicator::world(Node::start(Box::new(link), policy, NodeConfig::default()).unwrap())
        };
        Loopback::fabric(ranks, None).unwrap().into_iter().map(start).collect()
    }

    /// A request of what is over.
    fn over(world: &Communicator, result: Result<(), CommunicatorError>) -> CollectiveRequest {
        CollectiveRequest { reports: mpsc::channel().1, result: Some(result), started: world.started.clone() }
    }

    fn no_more_threads(_: Task) -> io::Result<JoinHandle<()>> {
        Err(io::Error::other("no more threads"))
    }

    /// Rank 1 of 3 does the `first` of three collectives and fails with `failing` in the second, which it is to say, and both others wait
    /// for.
    fn fails_on_all_behind(
        first: fn(&Communicator) -> CollectiveRequest,
        failing: fn(&Communicator) -> CollectiveRequest,
        error: &CommunicatorError,
    ) {
        let (say, said) = mpsc::channel();
        for world in worlds(3) {
            let say = say.clone();
            thread::spawn(move || {
                let [first, second]: [fn(&Communicator) -> CollectiveRequest; 2] =
                    if world.rank() == 1 { [first, failing] } else { [Communicator::start_barrier; 2] };
                let ends = [first(&world), second(&world), world.start_barrier()];
                let ends = ends.map(CollectiveRequest::wait);
                let _ = say.send((world, ends));
            });
        }
        let mut kept = Vec::new(); // for as long as others may wait for them
        for _ in 0..3 {
            let (world, ends) = said.recv_timeout(HANGS).expect("hangs: a member is told nothing");
            let rank = world.rank();
            kept.push(world);
            // Each tells all others, so that it may be heard from the third one first.
            let is_told = |error: &CommunicatorError| {
                let CommunicatorError::Transfer(TransferError::GivenUp { peer, status }) = error else {
                    return false;
                };
                peer.0 != rank && *status == Status::Internal
            };
            let [Ok(()), Err(second), later] = ends else { panic!("rank {rank}: {ends:?}") };
            assert!(if rank == 1 { second == *error } else { is_told(&second) }, "rank {rank}: {second:?}");
            assert_eq!(later, Err(CommunicatorError::Broken(Box::new(second))), "rank {rank}");
        }
    }

    fn fails_on_all(failing: fn(&Communicator) -> CollectiveRequest, error: &CommunicatorError) {
        fails_on_all_behind(Communicator::start_barrier, failing, error);
    }

    #[test]
    fn without_a_thread_a_collective_fails_on_all_members() {
        fails_on_all_behind(
            |world| over(world, world.barrier()), // which needs no thread, and leaves none
            |world| world.start_collective_by(no_more_threads, |_| Ok(())),
            &CommunicatorError::Thread("no more threads".into()),
        );
    }

    #[test]
    fn while_there_is_a_thread_no_other_is_needed() {
        let world = worlds(1).remove(0);
        let (go, gone) = mpsc::channel::<()>();
        let first = world.start_collective(move |_| {
            let _ = gone.recv();
            Ok(())
        });
        let second = world.start_collective_by(no_more_threads, |_| Ok(()));
        go.send(()).unwrap();
        assert_eq!([first, second].map(CollectiveRequest::wait), [Ok(()), Ok(())]);
    }

    /// Starts two collectives for which there is no thread, and a third, behind one that a thread of the program is at. Returns what
    /// becomes of all.
    fn without_a_thread(world: Communicator) -> [Result<(), CommunicatorError>; 4] {
        let (begin, begun) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let blocking = world.clone();
        let first = thread::spawn(move || {
            blocking.collective(move |_| {
                begin.send(()).unwrap();
                let _ = gone.recv();
                Ok(())
            })
        });
        begun.recv_timeout(HANGS).expect("hangs: nothing begins");
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let mut second = world.start_collective_by(no_more_threads, |_| Ok(()));
            let mut third = world.start_collective_by(no_more_threads, |_| Ok(()));
            let are_finished = second.is_finished() || third.is_finished();
            let fourth = world.start_collective(|_| Ok(()));
            let _ = say.send((are_finished, [second, third, fourth]));
        });
        let started = said.recv_timeout(HANGS).expect("hangs: what is started is waited for");
        let (are_finished, requests) = started;
        assert!(!are_finished, "their turn has not come");
        go.send(()).unwrap();
        let [second, third, fourth] = requests.map(CollectiveRequest::wait);
        [first.join().unwrap(), second, third, fourth]
    }

    #[test]
    fn without_a_thread_a_collective_is_not_waited_for_either() {
        let mut worlds = worlds(2);
        let _other = worlds.pop();
        let failed = CommunicatorError::Thread("no more threads".into());
        let broken = CommunicatorError::Broken(Box::new(failed.clone()));
        let ends = without_a_thread(worlds.remove(0));
        assert_eq!(ends, [Ok(()), Err(failed), Err(broken.clone()), Err(broken)]);
    }

    #[test]
    fn where_nobody_else_waits_for_it_a_collective_without_a_thread_fails_alone() {
        let failed = CommunicatorError::Thread("no more threads".into());
        let ends = without_a_thread(worlds(1).remove(0));
        assert_eq!(ends, [Ok(()), Err(failed.clone()), Err(failed), Ok(())]);
    }

    #[test]
    fn a_communicator_that_is_broken_needs_no_thread_to_say_so() {
        let world = worlds(1).remove(0);
        let failed = world.start_collective(|_| panic!("on purpose")).wait();
        assert_eq!(failed, Err(CommunicatorError::Panicked));
        let later = world.start_collective_by(|_| panic!("a thread is asked for"), |_| Ok(())).wait();
        assert_eq!(later, Err(CommunicatorError::Broken(Box::new(CommunicatorError::Panicked))));
    }

    #[test]
    fn a_panic_ends_a_collective_on_all_members() {
        fails_on_all(|world| world.start_collective(|_| panic!("on purpose")), &CommunicatorError::Panicked);
        // Where the caller waits, it reaches the caller.
        fails_on_all(
            |world| {
                let panicked = catch_unwind(AssertUnwindSafe(|| world.collective(|_| panic!("on purpose"))));
                let panic = panicked.unwrap_err();
                assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
                over(world, Err(CommunicatorError::Panicked))
            },
            &CommunicatorError::Panicked,
        );
    }
}
