//! A link between host and device that is not there: for machines without a GPU, a copy at a set rate.
//!
//! Every figure that was measured over it must say so; the link's own name does: it prints as
//! `simulated link of 16 GB/s`.
//!
//! ```
//! use std::time::Duration;
//!
//! use mgcomp_transport::simulated::SimulatedLink;
//!
//! let link = SimulatedLink::of_gigabytes(16.0, Duration::from_micros(2))?;
//! let (device, mut host) = (vec![7; 100_000], vec![0; 100_000]);
//! link.copy(&device, &mut host)?; // returns 6.25 + 2 µs later, or more if memory is slower
//! assert_eq!(host, device);
//!
//! let arrival = link.reserve(64); // the time for 64 bytes, to be waited for when they are needed
//! arrival.wait();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::link::{Shaping, ShapingError};
use crate::pace::{Pacer, wait_until};

/// One direction of a simulated link. Clones are the same link: their bytes follow each other in the order of the calls.
#[derive(Clone, Debug)]
pub struct SimulatedLink {
    pacer: Arc<Pacer>,
}

/// When bytes are at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub struct Arrival(Instant);

/// Buffers that cannot be copied onto each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{from} bytes into a buffer of {into}")]
pub struct LengthError {
    /// Length of the source.
    pub from: usize,
    /// Length of the destination.
    pub into: usize,
}

impl SimulatedLink {
    /// A link of this rate, on which everything takes this latency longer than its bytes do.
    #[must_use]
    pub fn new(shaping: Shaping) -> Self {
        Self { pacer: Arc::new(Pacer::new(shaping)) }
    }

    /// A link of `rate` · 10⁹ bytes per second, as the links between host and device are sold.
    ///
    /// # Errors
    /// [`ShapingError`] with the rate in Gb/s if it is not a positive number.
    pub fn of_gigabytes(rate: f64, latency: Duration) -> Result<Self, ShapingError> {
        Shaping::try_new(rate * 8.0, latency).map(Self::new)
    }

    /// Rate and latency.
    #[must_use]
    pub fn shaping(&self) -> Shaping {
        self.pacer.shaping()
    }

    /// Takes the time of `bytes` bytes on the link, after all that was reserved before, and copies nothing. The link is
    /// busy meanwhile, whether or not anybody waits.
    pub fn reserve(&self, bytes: u64) -> Arrival {
        Arrival(self.pacer.arrival(bytes))
    }

    /// Copies `from` over the link; returns when all of it is there.
    ///
    /// # Errors
    /// [`LengthError`] if the lengths differ; then nothing was copied, and the link was not used.
    pub fn copy(&self, from: &[u8], into: &mut [u8]) -> Result<(), LengthError> {
        if from.len() != into.len() {
            return Err(LengthError { from: from.len(), into: into.len() });
        }
        let arrival = self.reserve(from.len() as u64);
        into.copy_from_slice(from); // takes part of the time that the link does
        arrival.wait();
        Ok(())
    }
}

impl fmt::Display for SimulatedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated link of {} GB/s", self.shaping().rate_gbps() / 8.0)
    }
}

impl Arrival {
    /// The time.
    #[must_use]
    pub fn at(self) -> Instant {
        self.0
    }

    /// Waits for it: to the microsecond where there is a processor to spare.
    pub fn wait(self) {
        wait_until(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// 1000 bytes per ms.
    fn slow() -> SimulatedLink {
        SimulatedLink::new(Shaping::try_new(0.008, Duration::ZERO).unwrap())
    }

    #[test]
    fn users_share_the_rate_one_after_the_other() {
        let link = slow();
        let first = link.reserve(60_000_000); // a minute: the others come while the link is busy
        let other = link.clone();
        let arrivals: Vec<_> = thread::scope(|scope| {
            let users: Vec<_> = (0..4).map(|_| scope.spawn(|| other.reserve(1_000_000))).collect();
            users.into_iter().map(|user| user.join().unwrap()).collect()
        });
        let mut after: Vec<_> = arrivals.iter().map(|arrival| arrival.at() - first.at()).collect();
        after.sort_unstable();
        assert_eq!(after, [1, 2, 3, 4].map(Duration::from_secs));
    }

    #[test]
    fn a_copy_is_there_when_the_link_has_carried_it() {
        let link = slow();
        let before = Instant::now();
        let mut into = [0; 3000];
        link.copy(&[5; 3000], &mut into).unwrap();
        assert!(into == [5; 3000] && before.elapsed() >= Duration::from_millis(3));
    }

    #[test]
    fn lengths_that_differ_are_refused_and_nothing_is_copied() {
        let link = slow();
        let mut into = [1; 4];
        assert_eq!(link.copy(&[5; 5], &mut into), Err(LengthError { from: 5, into: 4 }));
        assert_eq!(into, [1; 4]);
    }

    #[test]
    fn its_name_says_what_it_is() {
        let link = SimulatedLink::of_gigabytes(16.0, Duration::ZERO).unwrap();
        assert_eq!(
            (link.to_string().as_str(), link.shaping().rate_gbps()),
            ("simulated link of 16 GB/s", 128.0)
        );
        assert_eq!(SimulatedLink::of_gigabytes(-1.0, Duration::ZERO).unwrap_err(), ShapingError(-8.0));
    }
}
