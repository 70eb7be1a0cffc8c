//! Threads that ask for a moment before they sleep. One that sleeps takes some 50 us to go on, on virtual machines more,
//! which is as long as a device takes for a short copy.

use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use crate::executor::usual_cores;

/// With fewer cores, others want those that a thread would ask on.
const LEAST_CORES: f64 = 4.0;

/// For how long to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(Duration);

impl Patience {
    /// `moment`, or not at all where this rank has few cores.
    pub(crate) fn of(moment: Duration) -> Self {
        // To find that out takes longer than many a wait.
        static CORES: LazyLock<f64> = LazyLock::new(|| usual_cores(1));

        Self::with_cores(*CORES, moment)
    }

    fn with_cores(cores: f64, moment: Duration) -> Self {
        Self(if cores < LEAST_CORES { Duration::ZERO } else { moment })
    }

    /// What comes next from `queue`; none if nothing will. Waits for it.
    pub(crate) fn receive<T>(self, queue: &Receiver<T>) -> Option<T> {
        let seen = self.ask(|| match queue.try_recv() {
            Err(TryRecvError::Empty) => None,
            seen => Some(seen.ok()),
        });
        seen.unwrap_or_else(|| queue.recv().ok())
    }

    /// Asks again and again until there is an answer, or no more patience. Other threads have their turns in between.
    pub(crate) fn ask<T>(self, mut answer: impl FnMut() -> Option<T>) -> Option<T> {
        if self.0.is_zero() {
            return None;
        }
        let started = Instant::now();
        loop {
            let found = answer();
            if found.is_some() || started.elapsed() >= self.0 {
                return found;
            }
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn who_has_few_cores_does_not_ask() {
        let asked = |cores| Patience::with_cores(cores, Duration::from_secs(60)).ask(|| Some(7));
        assert_eq!([1.0, 3.9, 4.0, 64.0].map(asked), [None, None, Some(7), Some(7)]);
    }

    #[test]
    fn asking_ends_with_an_answer_or_the_time() {
        let patience = Patience::with_cores(8.0, Duration::from_secs(60));
        let mut asked = 0;
        let third = || {
            asked += 1;
            (asked == 3).then_some(asked)
        };
        assert_eq!(patience.ask(third), Some(3));
        let (short, started) = (Patience::with_cores(8.0, Duration::from_millis(5)), Instant::now());
        assert_eq!(short.ask(|| None::<()>), None);
        assert!(started.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn what_comes_is_received_however_long_one_asks() {
        for cores in [1.0, 8.0] {
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
