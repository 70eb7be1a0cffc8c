//! Links that go on only while a thread of the program lets them.
//!
//! Some libraries may be called from one thread alone, which is one of the program's. A link over such a library goes
//! on while that thread waits in a call of this crate or asks whether a request is finished, and whenever it calls
//! [`drive`]. Threads that have no such link wait as always.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread that waits looks again and again before it sleeps in between.
const SPIN: Duration = Duration::from_micros(200);
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);
/// How long a wait that is over may go on until all that was queued is on its way. Short, because it may be much; the
/// answers that others wait for are on their way at once unless there is.
const SETTLING: Duration = Duration::from_millis(20);

/// What came of letting a link go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "mpi"), allow(dead_code, reason = "the links that need it are not built"))]
pub(crate) enum Headway {
    Made,
    None,
    /// There is nothing left to do, ever.
    Over,
}

/// A link that this thread has to let go on.
pub(crate) trait Driven {
    /// Does what can be done without waiting.
    fn drive(&self) -> Headway;

    /// Whether there is something that it has yet to hand on.
    fn has_queued(&self) -> bool;
}

thread_local! {
    static DRIVEN: RefCell<Vec<Arc<dyn Driven>>> = const { RefCell::new(Vec::new()) };
    /// How long this thread has been waiting for one thing.
    static WAITING: Cell<Option<Idle>> = const { Cell::new(None) };
}

/// Lets the links go on that only this thread may let go on. Returns whether anything was done.
///
/// To be called now and then by a thread with such a link that computes for long or waits elsewhere; other ranks may
/// wait for what has come meanwhile.
pub fn drive() -> bool {
    // Not borrowed while they run: what they report to may make or drop links.
    let Ok(links) = DRIVEN.try_with(|links| links.borrow().clone()) else {
        return false; // asked by a thread's own memory, after this
    };
    let mut made = false;
    for link in links {
        match link.drive() {
            Headway::Made => made = true,
            Headway::None => {}
            Headway::Over => DRIVEN.with_borrow_mut(|links| links.retain(|other| !Arc::ptr_eq(other, &link))),
        }
    }
    made
}

/// From now on this thread lets `link` go on.
#[cfg_attr(not(feature = "mpi"), allow(dead_code, reason = "the links that need it are not built"))]
pub(crate) fn add(link: Arc<dyn Driven>) {
    DRIVEN.with_borrow_mut(|links| links.push(link));
}

/// Waits for what is reported.
pub(crate) fn receive<T>(reports: &Receiver<T>) -> Result<T, RecvError> {
    if !is_driving() {
        return reports.recv();
    }
    let mut idle = Idle::start();
    let received = loop {
        match reports.try_recv() {
            Ok(report) => break Ok(report),
            Err(TryRecvError::Disconnected) => break Err(RecvError),
            Err(TryRecvError::Empty) => {}
        }
        if drive() {
            idle = Idle::start();
        } else if idle.pause().is_zero() {
            thread::yield_now();
        } else {
            match reports.recv_timeout(idle.pause()) {
                Ok(report) => break Ok(report),
                Err(RecvTimeoutError::Disconnected) => break Err(RecvError),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    };
    settle();
    received
}

/// Looks whether something was reported.
pub(crate) fn try_receive<T>(reports: &Receiver<T>) -> Result<T, TryRecvError> {
    match reports.try_recv() {
        Err(TryRecvError::Empty) if is_driving() => {
            drive();
            reports.try_recv()
        }
        received => received,
    }
}

/// Waits until `changed` is notified, or for `timeout`, or for no reason at all.
pub(crate) fn wait<'a, T>(
    mutex: &'a Mutex<T>,
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<Duration>,
) -> MutexGuard<'a, T> {
    if !is_driving() {
        return match timeout {
            Some(timeout) => changed.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0,
            None => changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
        };
    }
    drop(guard);
    let pause = WAITING.take().unwrap_or_else(Idle::start).between(drive());
    let locked = || mutex.lock().unwrap_or_else(PoisonError::into_inner);
    let pause = timeout.unwrap_or(pause).min(pause);
    if pause.is_zero() {
        thread::yield_now();
        return locked();
    }
    // A notification may have been missed; the pause is short.
    changed.wait_timeout(locked(), pause).unwrap_or_else(PoisonError::into_inner).0
}

fn is_driving() -> bool {
    // A communicator may be dropped by a thread's own memory, after this.
    DRIVEN.try_with(|links| !links.borrow().is_empty()).unwrap_or(false)
}

/// Hands on what is queued: the caller may go and wait for other ranks elsewhere, and they wait for this. Every wait ends
/// with it; after [`wait`], callers do it.
pub(crate) fn settle() {
    if !is_driving() {
        return;
    }
    let (started, mut idle) = (Instant::now(), Idle::start());
    while DRIVEN.with_borrow(|links| links.iter().any(|link| link.has_queued()))
        && started.elapsed() < SETTLING
    {
        idle.after(drive());
    }
}

/// How long nothing was done, and so how long to sleep.
pub(crate) struct Idle {
    since: Instant,
    /// When it was last looked at.
    looked: Instant,
}

impl Idle {
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { since: now, looked: now }
    }

    /// Goes on with one wait in many short ones, and says how long the next one is to be.
    fn between(self, made: bool) -> Duration {
        let goes_on = !made && self.looked.elapsed() < 4 * LONGEST_PAUSE;
        let idle = if goes_on { Self { looked: Instant::now(), ..self } } else { Self::start() };
        let pause = idle.pause();
        WAITING.set(Some(idle));
        pause
    }

    /// Sleeps if nothing was done for long, else lets others run.
    pub(crate) fn after(&mut self, made: bool) {
        if made {
            *self = Self::start();
        } else if self.pause().is_zero() {
            thread::yield_now();
        } else {
            thread::park_timeout(self.pause());
        }
    }

    fn pause(&self) -> Duration {
        let idle = self.since.elapsed();
        if idle < SPIN { Duration::ZERO } else { (idle / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Reports when it was driven three times, and is over after five.
    struct Counting {
        times: AtomicU32,
        report: Sender<&'static str>,
    }

    impl Driven for Counting {
        fn drive(&self) -> Headway {
            match self.times.fetch_add(1, Ordering::SeqCst) + 1 {
                3 => {
                    let _ = self.report.send("three");
                    Headway::Made
                }
                5 => Headway::Over,
                _ => Headway::None,
            }
        }

        fn has_queued(&self) -> bool {
            self.times.load(Ordering::SeqCst) < 4
        }
    }

    #[test]
    fn who_waits_drives_until_all_is_handed_on() {
        let (report, reports) = channel();
        let link = Arc::new(Counting { times: AtomicU32::new(0), report });
        add(link.clone());
        assert_eq!(receive(&reports), Ok("three"));
        assert_eq!(link.times.load(Ordering::SeqCst), 4, "driven once more for what is queued");
        assert_eq!(try_receive(&reports), Err(TryRecvError::Empty));
        assert_eq!(link.times.load(Ordering::SeqCst), 5);
        assert!(!drive(), "a link that is over is let go");
        assert_eq!(link.times.load(Ordering::SeqCst), 5);
        assert_eq!(Arc::strong_count(&link), 1);
    }

    #[test]
    fn others_drive_nothing() {
        let (report, reports) = channel();
        let link = Arc::new(Counting { times: AtomicU32::new(0), report });
        add(link.clone());
        thread::spawn(move || {
            assert!(!drive());
            assert_eq!(try_receive(&reports), Err(TryRecvError::Empty));
        })
        .join()
        .unwrap();
        assert_eq!(link.times.load(Ordering::SeqCst), 0);
    }
}
