//! How fast device memory is read.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::control::{OfProcess, ReadCap};
use crate::link::Shaping;

/// How long whoever waits for its turn goes on before it asks again: the rate may have changed.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The pace at which all copies together may read device memory: that which an operator has set for the process, or else the
/// program's own. Samples are not held to it: they are read before anybody knows how the copy goes.
#[derive(Debug)]
pub(super) struct Cap {
    process: OfProcess,
    pace: Mutex<Pace>,
}

/// A place in the order of reads: how many bytes were asked for before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn(u64);

/// Bytes run off at a rate, like water; what has not run off yet has to be waited for by what was asked for later. Idle time is
/// lost.
#[derive(Debug)]
struct Pace {
    /// Gb/s as the program says; none = no limit.
    own: Option<f64>,
    /// Gb/s that hold since `at`.
    gbps: Option<f64>,
    at: Instant,
    /// All bytes that were asked for, and those of them that have not run off.
    asked: u64,
    left: f64,
}

impl Cap {
    /// No limit without a rate.
    pub(super) fn new(own: Option<Shaping>, process: OfProcess) -> Self {
        let own = own.map(Shaping::rate_gbps);
        Self { process, pace: Mutex::new(Pace { own, gbps: own, at: Instant::now(), asked: 0, left: 0.0 }) }
    }

    /// Asks for `bytes` bytes.
    pub(super) fn ask(&self, bytes: u64) -> Turn {
        let mut pace = self.pace();
        let turn = Turn(pace.asked);
        pace.asked = pace.asked.wrapping_add(bytes);
        pace.left += bytes as f64;
        turn
    }

    /// How long until the turn is to be asked about again; none = its bytes may be read.
    pub(super) fn wait(&self, turn: Turn) -> Option<Duration> {
        self.pace().wait(turn).map(|wait| wait.min(ASK_AGAIN))
    }

    /// Changes the program's own rate.
    pub(super) fn set(&self, shaping: Shaping) {
        self.pace().own = Some(shaping.rate_gbps());
    }

    /// The rate that holds now.
    pub(super) fn gbps(&self) -> Option<f64> {
        self.pace().gbps
    }

    /// The pace as of now.
    fn pace(&self) -> MutexGuard<'_, Pace> {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let set = self.process.read_cap().map(ReadCap::gbps);
        pace.go_on(Instant::now()); // under the lock: time goes one way
        pace.gbps = set.or(pace.own);
        pace
    }
}

impl Pace {
    /// Lets run off what did until `now`.
    fn go_on(&mut self, now: Instant) {
        let ns = now.saturating_duration_since(self.at).as_nanos() as f64;
        self.at = now;
        self.left = self.gbps.map_or(0.0, |gbps| (self.left - ns * gbps / 8.0).max(0.0));
    }

    fn wait(&self, turn: Turn) -> Option<Duration> {
        // What was asked for from this turn on runs off last.
        let before = self.left - self.asked.wrapping_sub(turn.0) as f64;
        let gbps = self.gbps.filter(|_| before >= 1.0)?;
        Some(Duration::from_secs_f64((before * 8.0 / gbps / 1e9).min(ASK_AGAIN.as_secs_f64())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::control::{Attachment, Settings};

    const MS: Duration = Duration::from_millis(1);

    /// 1,000 bytes per ms.
    fn pace() -> Pace {
        Pace { own: None, gbps: Some(0.008), at: Instant::now(), asked: 0, left: 0.0 }
    }

    fn ask(pace: &mut Pace, bytes: u64) -> Turn {
        let turn = Turn(pace.asked);
        (pace.asked, pace.left) = (pace.asked + bytes, pace.left + bytes as f64);
        turn
    }

    #[test]
    fn bytes_run_off_in_the_order_in_which_they_were_asked_for() {
        let mut pace = pace();
        let start = pace.at;
        let [first, second, third] = [3000, 2000, 1000].map(|bytes| ask(&mut pace, bytes));
        assert_eq!([first, second, third].map(|turn| pace.wait(turn)), [None, Some(3 * MS), Some(5 * MS)]);
        pace.go_on(start + 3 * MS);
        assert_eq!([second, third].map(|turn| pace.wait(turn)), [None, Some(2 * MS)]);
        // Idle time is lost.
        pace.go_on(start + 100 * MS);
        let [fourth, fifth] = [1000, 1000].map(|bytes| ask(&mut pace, bytes));
        assert_eq!([third, fourth, fifth].map(|turn| pace.wait(turn)), [None, None, Some(MS)]);
    }

    #[test]
    fn another_rate_counts_for_what_waits_already() {
        let mut pace = pace();
        let start = pace.at;
        let [_, second] = [4000, 1000].map(|bytes| ask(&mut pace, bytes));
        pace.go_on(start + MS);
        pace.gbps = Some(0.024);
        assert_eq!(pace.wait(second), Some(MS));
        pace.gbps = None;
        assert_eq!(pace.wait(second), None);
        pace.gbps = Some(f64::MIN_POSITIVE);
        assert_eq!(pace.wait(second), Some(ASK_AGAIN));
    }

    #[test]
    fn what_an_operator_sets_hides_what_the_program_says() {
        let attachment = Arc::new(Attachment::start(Vec::new()).unwrap());
        let cap = Cap::new(None, OfProcess::on(attachment.clone()));
        let set = |gbps: Option<f64>| {
            let read_cap = gbps.map(|gbps| ReadCap::try_new(gbps).unwrap());
            attachment.page().set(None, &Settings { read_cap, ..Settings::default() });
        };
        assert_eq!(cap.gbps(), None);
        // A byte in 8 s: the next one waits.
        set(Some(1e-9));
        let [first, second] = [64, 64].map(|bytes| cap.ask(bytes));
        assert_eq!((cap.gbps(), cap.wait(first), cap.wait(second)), (Some(1e-9), None, Some(ASK_AGAIN)));
        cap.set(Shaping::try_new(48.0, Duration::ZERO).unwrap());
        assert_eq!((cap.gbps(), cap.wait(second)), (Some(1e-9), Some(ASK_AGAIN)));
        set(None);
        assert_eq!((cap.gbps(), cap.wait(first)), (Some(48.0), None));
    }
}
