//! What messages took that were sent one by one.

use std::time::Duration;

/// Latencies that are kept at most: a median needs no more, and a row may have many millions of messages.
const MOST: usize = 1 << 20;

/// The latencies of a row: all of them, or where those are too many, one of every so many.
pub(super) struct Latencies {
    kept: Vec<Duration>,
    count: usize,
    /// Of how many messages one is kept, a power of two.
    every: usize,
}

impl Latencies {
    pub(super) const fn new() -> Self {
        Self { kept: Vec::new(), count: 0, every: 1 }
    }

    pub(super) fn add(&mut self, latency: Duration) {
        if self.count.is_multiple_of(self.every) {
            if self.kept.len() == MOST {
                self.thin_out();
            }
            self.kept.push(latency);
        }
        self.count += 1;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The median of what is kept, which must be something.
    pub(super) fn median(mut self) -> Duration {
        let middle = self.kept.len() / 2;
        *self.kept.select_nth_unstable(middle).1
    }

    /// Keeps every other one, from all over the time, and from now on half as many.
    fn thin_out(&mut self) {
        let mut place = 0;
        self.kept.retain(|_| {
            place += 1;
            place % 2 == 1
        });
        self.every *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanoseconds: impl Iterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new();
        nanoseconds.for_each(|nanoseconds| latencies.add(Duration::from_nanos(nanoseconds)));
        latencies
    }

    #[test]
    fn the_median_is_of_all_where_they_are_few() {
        assert_eq!(of([9, 1, 5].into_iter()).median(), Duration::from_nanos(5));
        assert!(Latencies::new().is_empty());
    }

    #[test]
    fn of_many_some_from_all_over_the_time_are_kept() {
        let count = 5 * MOST as u64 + 3;
        let latencies = of(0..count);
        // One of eight: the last one that is kept is the last that eight divides.
        assert_eq!((latencies.kept.len() as u64, latencies.every), (count.div_ceil(8), 8));
        assert!(latencies.kept.iter().zip(0..).all(|(kept, i)| *kept == Duration::from_nanos(8 * i)));
        let median = latencies.median().as_nanos() as u64;
        assert!(median.abs_diff(count / 2) <= 8, "{median}");
    }
}
