//! Threads that ask for a moment before they sleep. One that sleeps takes some 50 us to go on, on virtual machines more,
//! which is as long as a device takes for a short copy.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use crate::executor::usual_cores;

/// With fewer cores, others want those that a thread would ask on.
const LEAST_CORES: f64 = 4.0;
/// This part of the cores at most have a thread that asks.
const PART: f64 = 0.5;

/// Ranks on this machine that share its cores, as far as links know.
static RANKS: AtomicU32 = AtomicU32::new(1);
/// Threads that ask.
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// So many ranks share the cores of this machine. Counts for what begins to wait from now on.
pub(crate) fn shared_by(ranks: u32) {
    RANKS.fetch_max(ranks, Ordering::Relaxed);
}

/// For how long to ask, and beside how many others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    moment: Duration,
    most: usize,
}

/// One wait, which ends with the patience that it began with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    patience: Patience,
    began: Instant,
}

impl Patience {
    /// `moment`, or not at all where this rank has few cores.
    pub(crate) fn of(moment: Duration) -> Self {
        Self::with_cores(cores(), moment)
    }

    fn with_cores(cores: f64, moment: Duration) -> Self {
        let moment = if cores < LEAST_CORES { Duration::ZERO } else { moment };
        Self { moment, most: (PART * cores) as usize }
    }

    /// Begins a wait.
    pub(crate) fn begin(self) -> Wait {
        Wait { patience: self, began: Instant::now() }
    }

    /// What comes next from `queue`; none if nothing will. Waits for it.
    pub(crate) fn receive<T>(self, queue: &Receiver<T>) -> Option<T> {
        let seen = self.begin().ask(|| match queue.try_recv() {
            Err(TryRecvError::Empty) => None,
            seen => Some(seen.ok()),
        });
        seen.unwrap_or_else(|| queue.recv().ok())
    }
}

impl Wait {
    /// Asks again and again until there is an answer, or no patience left. Other threads have their turns in between.
    pub(crate) fn ask<T>(self, mut answer: impl FnMut() -> Option<T>) -> Option<T> {
        let Self { patience: Patience { moment, most }, began } = self;
        if moment.is_zero() {
            return None;
        }
        let _asker = Asker::among(&ASKING, most)?;
        loop {
            let found = answer();
            if found.is_some() || began.elapsed() >= moment {
                return found;
            }
            thread::yield_now();
        }
    }
}

/// Counts as long as it is there.
struct Asker<'a>(&'a AtomicUsize);

impl<'a> Asker<'a> {
    /// One of at most `most`.
    fn among(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        let others = count.fetch_add(1, Ordering::Relaxed);
        let asker = Self(count);
        (others < most).then_some(asker)
    }
}

impl Drop for Asker<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Cores that this rank has. To find that out takes longer than many a wait.
fn cores() -> f64 {
    static KNOWN: Mutex<Option<(u32, f64)>> = Mutex::new(None);

    let ranks = RANKS.load(Ordering::Relaxed);
    // Held by a thread that finds it out, or that did when this process was forked.
    let Ok(mut known) = KNOWN.try_lock() else { return usual_cores(ranks) };
    let (_, cores) = known.filter(|&(of, _)| of == ranks).unwrap_or_else(|| (ranks, usual_cores(ranks)));
    *known = Some((ranks, cores));
    cores
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Enough for all tests of this process to ask at once.
    const MANY_CORES: f64 = 1000.0;

    #[test]
    fn who_has_few_cores_does_not_ask() {
        let of = |cores| Patience::with_cores(cores, LONG);
        assert_eq!([1.0, 3.9, 4.0, 64.0].map(|cores| of(cores).moment.is_zero()), [true, true, false, false]);
        assert_eq!([4.0, 5.0, 64.0].map(|cores| of(cores).most), [2, 2, 32]);
        assert_eq!(of(1.0).begin().ask(|| Some(7)), None);
        assert_eq!(of(MANY_CORES).begin().ask(|| Some(7)), Some(7));
    }

    #[test]
    fn so_many_ask_at_once_and_no_more() {
        let count = AtomicUsize::new(0);
        let two = [(); 2].map(|()| Asker::among(&count, 2));
        assert!(two.iter().all(Option::is_some));
        assert!(Asker::among(&count, 2).is_none());
        drop(two);
        assert!(Asker::among(&count, 1).is_some());
        assert_eq!(count.into_inner(), 0);
    }

    #[test]
    fn asking_ends_with_an_answer_or_the_time() {
        let patience = Patience::with_cores(MANY_CORES, LONG);
        let mut asked = 0;
        let third = || {
            asked += 1;
            (asked == 3).then_some(asked)
        };
        assert_eq!(patience.begin().ask(third), Some(3));
        let short = Patience::with_cores(MANY_CORES, Duration::from_millis(5)).begin();
        assert_eq!(short.ask(|| None::<()>), None);
        assert!(short.began.elapsed() >= Duration::from_millis(5));
        // The wait has no patience left, so it asks once.
        let mut asked = 0;
        let count = || {
            asked += 1;
            None::<()>
        };
        assert_eq!((short.ask(count), asked), (None, 1));
    }

    #[test]
    fn what_comes_is_received_however_long_one_asks() {
        for cores in [1.0, MANY_CORES] {
            let patience = Patience::with_cores(cores, Duration::from_millis(1));
            let (sender, queue) = mpsc::channel();
            sender.send(1).unwrap();
            let late = thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                sender.send(2).unwrap();
            });
            assert_eq!([(); 3].map(|()| patience.receive(&queue)), [Some(1), Some(2), None]);
            late.join().unwrap();
        }
    }
}
