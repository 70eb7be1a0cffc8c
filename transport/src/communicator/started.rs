//! The thread of collectives that go on by themselves.
//!
//! They are carried out one after the other, so one thread does as well as any number, and goes from one to the next without being
//! woken. It is no thread of the program's that comes by: that collectives go on is not to be up to what the program waits for next, for
//! two members that wait for two communicators in different orders would wait for each other.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::turn::{Task, Work};
use super::{CommunicatorError, Group};
use crate::link::driving;

/// How long collectives may go on when nobody uses their communicator any more: as long as links wait for peers to take what
/// was sent before.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// How long a thread waits for something to do. To start one takes some ten microseconds, a small part of this; and a program is not to
/// keep threads that it has no use for.
const LINGER: Duration = Duration::from_millis(200);

/// How often a thread is asked for while the system says that it has none just now: others of its user may be ending. Without one
/// the communicator is at its end.
const MOST_TRIES: u32 = 20;
/// How much longer each wait between two tries is than the one before. All of them take a fifth of a second.
const TRY_LATER_BY: Duration = Duration::from_millis(1);

/// The threads of a communicator: one that does something, or lingers, and those before it that have ended. Communicators and requests
/// share it, and the threads do not: so it is never one of them that is the last to go and joins the others.
#[derive(Debug)]
pub(super) struct Started {
    group: Arc<Group>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Started {
    pub(super) fn new(group: Arc<Group>) -> Self {
        Self { group, threads: Mutex::default() }
    }

    /// Whether they are threads of this process.
    pub(super) fn check_process(&self) -> Result<(), CommunicatorError> {
        self.group.check_process()
    }

    /// Has `work` done in its turn, by the thread that there is, or one that `spawn` makes.
    pub(super) fn queue(&self, work: Work, mut spawn: impl FnMut(Task) -> io::Result<JoinHandle<()>>) {
        if !self.group.turns.queue(work) {
            return;
        }
        let started = try_often(|| {
            let group = self.group.clone();
            spawn(Box::new(move || group.turns.serve(LINGER)))
        });
        match started {
            Ok(thread) => self.keep(thread),
            // Those behind it must not wait for it, and neither must the other members. The caller does not wait for those
            // before it: that they end may be up to what it does next.
            Err(error) => self.group.turns.do_without(&CommunicatorError::Thread(error.to_string())),
        }
    }

    /// Joins `thread` some time, and those now that have ended.
    fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.extract_if(.., |thread| thread.is_finished()).for_each(join);
        threads.push(thread);
    }

    /// Joins those that have ended, unless another thread does.
    pub(super) fn join_ended(&self) {
        if !self.group.node.is_forked()
            && let Ok(mut threads) = self.threads.try_lock()
        {
            threads.extract_if(.., |thread| thread.is_finished()).for_each(join);
        }
    }
}

impl Drop for Started {
    /// Nobody uses the communicator any more, or will: nothing but what was started is still to be done.
    fn drop(&mut self) {
        let threads = std::mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        if self.group.node.is_forked() {
            std::mem::forget(threads); // they are not here to be waited for
            return;
        }
        self.group.turns.close();
        // Memory that was lent to a collective may own a communicator, whatever for. A thread cannot wait for itself.
        let own = thread::current().id();
        if threads.iter().any(|thread| thread.thread().id() == own) {
            return;
        }
        if !self.group.turns.wait_for_all(Some(LAST_PATIENCE)) {
            tracing::warn!("collectives that nobody waits for are given up");
            self.group.watch.leave(self.group.members[self.group.rank]);
            self.group.turns.wait_for_all(None);
        }
        threads.into_iter().for_each(join);
    }
}

fn join(thread: JoinHandle<()>) {
    let _ = thread.join(); // whoever waited for a collective that panicked was told
}

/// Starts a thread, if need be when others have ended.
fn try_often(mut start: impl FnMut() -> io::Result<JoinHandle<()>>) -> io::Result<JoinHandle<()>> {
    for tries in 1..MOST_TRIES {
        match start() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                driving::drive(); // nobody else may do so meanwhile
                thread::sleep(tries * TRY_LATER_BY);
            }
            started => return started,
        }
    }
    start()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::time::Instant;

    use mgcomp_selector::{PolicySpec, Steering};

    use super::*;
    use crate::communicator::Communicator;
    use crate::link::loopback::Loopback;
    use crate::node::{Node, NodeConfig};

    /// Nothing here takes this long unless it hangs.
    const HANGS: Duration = Duration::from_secs(120);

    fn alone() -> (Arc<Node>, Communicator) {
        let link = Loopback::fabric(1, None).unwrap().remove(0);
        let policy = PolicySpec::default().build(&Steering::default());
        let node = Arc::new(Node::start(Box::new(link), policy, NodeConfig::default()).unwrap());
        (node.clone(), Communicator::world(node))
    }

    #[test]
    fn however_many_are_started_there_is_one_thread() {
        const STARTED: usize = 1000;
        let (_node, world) = alone();
        let (go, gone) = mpsc::channel::<()>();
        let first = world.start_collective(move |_| {
            let _ = gone.recv();
            Ok(())
        });
        let (say, said) = mpsc::channel();
        let start = |place| {
            let say = say.clone();
            world.start_collective(move |_| {
                let _ = say.send((place, thread::current().id()));
                Ok(())
            })
        };
        let requests: Vec<_> = (0..STARTED).map(start).collect();
        assert_eq!(world.started.threads.lock().unwrap().len(), 1);
        go.send(()).unwrap();
        for request in [first].into_iter().chain(requests) {
            assert_eq!(request.wait(), Ok(()));
        }
        let (places, threads): (Vec<_>, HashSet<_>) = said.try_iter().unzip();
        assert_eq!(places, Vec::from_iter(0..STARTED));
        assert_eq!(threads.len(), 1);
    }

    #[test]
    fn a_thread_is_asked_for_again_where_there_is_none_for_now() {
        let refuse = |times: &mut u32, by: io::ErrorKind| {
            *times += 1;
            Err(io::Error::from(by))
        };
        let mut times = 0;
        let started = try_often(|| {
            if times < 3 { refuse(&mut times, io::ErrorKind::WouldBlock) } else { Ok(thread::spawn(|| {})) }
        });
        started.unwrap().join().unwrap();
        assert_eq!(times, 3);
        for (kind, tries) in [(io::ErrorKind::WouldBlock, MOST_TRIES), (io::ErrorKind::OutOfMemory, 1)] {
            let mut times = 0;
            let started = try_often(|| refuse(&mut times, kind));
            assert_eq!((started.unwrap_err().kind(), times), (kind, tries));
        }
    }

    #[test]
    fn threads_that_have_ended_are_not_kept() {
        let (_node, world) = alone();
        let kept = || world.started.threads.lock().unwrap().len();
        let start_and_end = || {
            let request = world.start_barrier();
            let ended = || world.started.threads.lock().unwrap().iter().all(JoinHandle::is_finished);
            let started = Instant::now();
            while !ended() {
                assert!(started.elapsed() < HANGS, "hangs: a thread goes on");
                thread::yield_now();
            }
            request
        };
        let requests = [start_and_end(), start_and_end()];
        assert_eq!(kept(), 1, "the next one joins those before it");
        drop(requests);
        assert_eq!(kept(), 0, "and so does whoever drops a request");
    }

    #[test]
    fn who_is_last_waits_for_what_was_started() {
        let (node, world) = alone();
        let (go, gone) = mpsc::channel::<()>();
        drop(world.start_collective(move |_| {
            let _ = gone.recv();
            Ok(())
        }));
        let other = world.clone();
        drop(world); // waits for nothing: there is another
        go.send(()).unwrap();
        drop(other);
        assert_eq!(Arc::strong_count(&node), 1, "a thread has the node");
    }

    #[test]
    fn a_thread_that_is_last_does_not_wait_for_itself() {
        let (node, world) = alone();
        let (go, gone) = mpsc::channel::<()>();
        let other = world.clone();
        drop(world.start_collective(move |_| {
            let _ = gone.recv();
            drop(other);
            Ok(())
        }));
        drop(world);
        go.send(()).unwrap();
        let started = Instant::now();
        while Arc::strong_count(&node) > 1 {
            assert!(started.elapsed() < HANGS, "hangs: a thread waits for itself");
            thread::yield_now();
        }
    }
}
