//! Timing several operations against each other.

use std::time::Duration;

/// A sample takes at least this long, by as many calls as that needs: far more than the clock's resolution,
/// far less than the time for which a busy system leaves a thread alone.
const SAMPLE: Duration = Duration::from_micros(100);

/// A first call that took as long is a sample; of shorter ones, part is the cost of being the first.
const LONG: Duration = Duration::from_millis(5);

/// The best time of one call of each of `operations`, over rounds in which each has its turn, so that all see
/// the same machine.
///
/// `time(operation, calls)` does an operation so often and says how long that took. Rounds go on while they
/// fit into `budget`; there are always enough of them for a figure.
pub(crate) fn race<O: Copy, E>(
    operations: &[O],
    budget: Duration,
    mut time: impl FnMut(O, usize) -> Result<Duration, E>,
) -> Result<Vec<Duration>, E> {
    let mut entrants = Vec::with_capacity(operations.len());
    let mut spent = Duration::ZERO;
    for &operation in operations {
        let first = time(operation, 1)?;
        spent += first;
        if first >= LONG {
            // Slow codecs on large buffers may get no other.
            entrants.push(Entrant { operation, calls: 1, best: Some(first) });
        } else {
            let second = time(operation, 1)?;
            spent += second;
            entrants.push(Entrant { operation, calls: calls_for(second), best: None });
        }
    }
    let mut round = spent;
    while entrants.iter().any(|entrant| entrant.best.is_none()) || spent + round <= budget {
        round = Duration::ZERO;
        for entrant in &mut entrants {
            round += entrant.sample(&mut time)?;
        }
        spent += round;
    }
    Ok(entrants.into_iter().filter_map(|entrant| entrant.best).collect())
}

struct Entrant<O> {
    operation: O,
    calls: usize,
    /// Per call.
    best: Option<Duration>,
}

impl<O: Copy> Entrant<O> {
    /// Takes one sample; returns what that took in all.
    fn sample<E>(&mut self, mut time: impl FnMut(O, usize) -> Result<Duration, E>) -> Result<Duration, E> {
        // A first call of a bundle brings the operation's own data back into the caches.
        let warm_up = if self.calls > 1 { time(self.operation, 1)? } else { Duration::ZERO };
        let sample = time(self.operation, self.calls)?;
        let per_call = sample / self.calls as u32;
        self.best = Some(self.best.map_or(per_call, |best| best.min(per_call)));
        Ok(warm_up + sample)
    }
}

fn calls_for(once: Duration) -> usize {
    let once = once.as_nanos().max(10);
    SAMPLE.as_nanos().div_ceil(once) as usize
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn the_best_of_interleaved_rounds_counts() {
        let mut log = Vec::new();
        // Operation 1 gets faster by the call: 9, 8, … ms.
        let mut second = 10_000;
        let best = race(&[0, 1], micros(33_000), |operation, calls| {
            log.push((operation, calls));
            if operation == 0 {
                return Ok::<_, Infallible>(micros(6000));
            }
            second -= 1000;
            Ok(micros(second))
        });
        assert_eq!(best, Ok(vec![micros(6000), micros(8000)]));
        // 15 and 14 ms are 29; another 14 would be over 33.
        assert_eq!(log, [(0, 1), (1, 1), (0, 1), (1, 1)]);
    }

    #[test]
    fn short_calls_are_bundled() {
        let mut log = Vec::new();
        let best = race(&[()], Duration::ZERO, |(), calls| {
            log.push(calls);
            Ok::<_, Infallible>(micros(30) * calls as u32)
        });
        assert_eq!(best, Ok(vec![micros(30)]));
        // Two to see how long one takes; 100 / 30 rounded up, and one call to warm up before.
        assert_eq!(log, [1, 1, 1, 4]);
    }

    #[test]
    fn a_slow_first_call_does_not_keep_short_ones_apart() {
        let mut log = Vec::new();
        let best = race(&[()], Duration::ZERO, |(), calls| {
            log.push(calls);
            Ok::<_, Infallible>(if log.len() == 1 { micros(900) } else { micros(60) * calls as u32 })
        });
        assert_eq!(best, Ok(vec![micros(60)]));
        assert_eq!(log, [1, 1, 1, 2]);
    }

    #[test]
    fn slow_calls_are_made_once() {
        let mut calls_made = 0;
        let best = race(&[1, 2, 3], micros(100), |operation, calls| {
            calls_made += calls;
            Ok::<_, Infallible>(micros(10_000 * operation))
        });
        assert_eq!(best, Ok(vec![micros(10_000), micros(20_000), micros(30_000)]));
        assert_eq!(calls_made, 3);
    }

    #[test]
    fn failures_end_it() {
        assert_eq!(race(&[()], micros(1), |(), _| Err("no")), Err("no"));
    }
}
