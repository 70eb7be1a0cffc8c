//! What a rank does by itself while others wait for it, as filling and checking its buffers.
//!
//! It takes as long as it takes, on some ranks longer than on others: all that is gathered is checked by one. Were the
//! others just to wait, they could not tell it from a rank that is stuck. So all meet while any still works, and none of
//! these meetings takes long.

use std::time::{Duration, Instant};

use mgcomp_transport::communicator::Communicator;

use super::agreement::is_said_by_all;
use super::error::PerfError;
use super::watchdog::Watchdog;

/// To be called after every part of work that others may wait for: of so many bytes, of which each takes a moment, also where
/// the data of all ranks is looked at for it.
pub(super) type GoesOn<'a> = &'a mut dyn FnMut() -> Result<(), PerfError>;
pub(super) const PART_BYTES: usize = 1 << 20;

/// Work on buffers that are no longer than this, for all ranks together, is done before anybody waits for long.
const SHORT_BYTES: usize = 4 << 20;
/// Who waits hears so often that others still work, or more often where less time is given.
const OFTEN: Duration = Duration::from_millis(250);
const TIMES_IN_LIMIT: u32 = 8;

/// Work that all ranks do at the same time, each by itself.
pub(super) struct Apart<'a> {
    world: &'a Communicator,
    watchdog: &'a Watchdog,
    /// How long it may take until the others have to hear of it; `None` where it is short.
    every: Option<Duration>,
    met: Instant,
}

impl<'a> Apart<'a> {
    /// Begins work on `bytes` of each rank, which all of them do; who waits waits for `limit` at most.
    pub(super) fn begin(
        (world, watchdog): (&'a Communicator, &'a Watchdog),
        bytes: usize,
        limit: Duration,
    ) -> Self {
        let is_long = bytes.saturating_mul(world.size() as usize) > SHORT_BYTES;
        let every = is_long.then(|| OFTEN.min(limit / TIMES_IN_LIMIT));
        Self { world, watchdog, every, met: Instant::now() }
    }

    /// Lets the others know now and then. Fails if one of them is gone, or stuck.
    pub(super) fn goes_on(&mut self) -> Result<(), PerfError> {
        if self.every.is_some_and(|every| self.met.elapsed() >= every) {
            self.meet(false)?;
        }
        Ok(())
    }

    /// This rank's is done. Returns when that of all is, if it was long.
    pub(super) fn done(mut self) -> Result<(), PerfError> {
        while self.every.is_some() && !self.meet(true)? {}
        Ok(())
    }

    /// Whether all are done.
    fn meet(&mut self, is_done: bool) -> Result<bool, PerfError> {
        let _watched = self.watchdog.watch();
        let all = is_said_by_all(self.world, is_done)
            .map_err(|source| PerfError::Communicator { rank: self.world.rank(), source })?;
        self.met = Instant::now();
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use mgcomp_selector::{PolicySpec, Steering};
    use mgcomp_transport::link::loopback::Loopback;
    use mgcomp_transport::node::{Node, NodeConfig, PeerState};

    use super::*;

    const HANGS: Duration = Duration::from_secs(50);
    const LONG: usize = SHORT_BYTES;
    /// Who works meets the others every millisecond.
    const LIMIT: Duration = Duration::from_millis(TIMES_IN_LIMIT as u64);

    /// Two ranks that have met.
    fn two() -> [Communicator; 2] {
        let start = |link| {
            let policy = PolicySpec::default().build(&Steering::default());
            Node::start(Box::new(link), policy, NodeConfig::default()).unwrap()
        };
        let nodes: Vec<_> = Loopback::fabric(2, None).unwrap().into_iter().map(start).collect();
        for node in &nodes {
            assert!(node.wait_for_peers(HANGS).iter().all(|(_, state)| *state == PeerState::Open));
        }
        let worlds: Vec<_> = nodes.into_iter().map(Communicator::world).collect();
        worlds.try_into().ok().unwrap()
    }

    fn watchdog(world: &Communicator, limit: Duration) -> Watchdog {
        Watchdog::start(world.clone(), limit).unwrap()
    }

    #[test]
    fn who_waits_hears_that_others_still_work() {
        let [zero, one] = two();
        let (tell, hears) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let watchdog = watchdog(&one, HANGS);
                let mut apart = Apart::begin((&one, &watchdog), LONG, LIMIT);
                // It is done when the other one has heard three times that it is not.
                while hears.try_recv().is_err() {
                    apart.goes_on().unwrap();
                }
                apart.done().unwrap();
            });
            let watchdog = watchdog(&zero, HANGS);
            let mut apart = Apart::begin((&zero, &watchdog), LONG, LIMIT);
            for _ in 0..3 {
                assert!(!apart.meet(true).unwrap());
            }
            tell.send(()).unwrap();
            apart.done().unwrap();
            assert_eq!(watchdog.late(), None);
        });
    }

    #[test]
    fn who_hears_nothing_gives_up() {
        let [zero, _one] = two();
        let watchdog = watchdog(&zero, LIMIT);
        let apart = Apart::begin((&zero, &watchdog), LONG, LIMIT);
        let error = apart.done().unwrap_err();
        assert!(watchdog.late().is_some() && error.is_of_connection(), "{error}");
    }

    #[test]
    fn who_works_hears_that_others_are_gone() {
        let [zero, one] = two();
        drop(one);
        let watchdog = watchdog(&zero, HANGS);
        let mut apart = Apart::begin((&zero, &watchdog), LONG, LIMIT);
        let error = loop {
            if let Err(error) = apart.goes_on() {
                break error;
            }
        };
        assert!(watchdog.late().is_none() && error.is_of_connection(), "{error}");
    }

    #[test]
    fn nobody_meets_for_short_work() {
        let [zero, _one] = two();
        let watchdog = watchdog(&zero, HANGS);
        let mut apart = Apart::begin((&zero, &watchdog), SHORT_BYTES / 2, Duration::ZERO);
        apart.goes_on().unwrap();
        apart.done().unwrap();
    }
}
