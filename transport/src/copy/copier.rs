//! The calls that copy.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::{CheapFacts, Plan, PolicySpec, Reason};

use super::cap::Cap;
use super::check::{check_config, check_destination, check_kept, check_pair, check_source};
use super::choice::{self, How, Made, Policies};
use super::engine::Engine;
use super::gate::Gate;
use super::handle::{Reply, handle};
use super::home::Home;
use super::job::{End, Finished, Job, Ready, Task};
use super::lane::Lane;
use super::{CopyConfig, CopyError, CopyHandle, CopyReport, Direction, Kept};
use crate::control::OfProcess;
use crate::executor::{self, DoneSink, Executor, Output, Work};
use crate::fork::Process;
use crate::link::Shaping;
use crate::payload::{MemoryKind, Payload};
use crate::pool::Pool;

/// Copies memory, compressed on its way. Any number of threads may ask at once.
///
/// Dropping it ends its threads and waits for them; copies that are not finished fail with [`CopyError::Closed`]. While memory
/// of a copy is held ([`HostSlice::hold_mut`](crate::memory::HostSlice::hold_mut)), the copy waits, and so does the drop.
pub struct Copier {
    inner: Arc<Inner>,
    /// For what is kept in host memory.
    pool: Pool,
    process: Process,
}

/// What copies share.
pub(super) struct Inner {
    engine: Arc<Engine>,
    /// By direction.
    lanes: [Arc<Lane>; 4],
    cap: Arc<Cap>,
    policies: Policies,
    segment_bytes: u64,
}

/// Long copies that devices code have so many segments, or more where these would be longer than the following.
const SEGMENTS_ON_DEVICES: u64 = 4;
/// The same where the host codes at one end: so many of its threads can be at it.
const SEGMENTS_BETWEEN: u64 = 16;
const LONGEST_ON_THE_WAY: u64 = 4 << 20;
/// Of what is kept segments are no longer than the first, or up to the second where that leaves so many.
const LONGEST_KEPT: [u64; 2] = [8 << 20, 16 << 20];
const MANY_SEGMENTS: u64 = 16;
/// Segments that are longer for that are whole multiples of this.
const GRAIN_ON_DEVICES: u64 = 1 << 20;

/// What was decided for a copy, once it was.
type Choice = Arc<OnceLock<Made>>;

/// A copy whose coding is yet to be decided. If nobody does, it fails when this goes.
struct Undecided {
    job: Arc<Job>,
    lane: Arc<Lane>,
    choice: Choice,
}

impl Undecided {
    /// Has it done as was decided, unless it is to show how fast its way is.
    fn decide_for(self, how: &How, facts: &CheapFacts, made: Made) {
        let is_coded = made.decision.algorithm != Algorithm::None;
        let is_timed = is_coded && how.goes_by_the_way() && self.lane.wants_raw();
        let raw = || made.decision.raw_instead(facts, Reason::LinkTimed);
        let decision = if is_timed { raw() } else { made.decision };
        let _ = self.choice.set(Made { decision, ..made });
        self.job.make_ready(Ready::Encode(decision));
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        if self.job.ready().is_none() {
            self.job.make_ready(Ready::Failed(CopyError::Closed { written_bytes: 0 }));
        }
        self.lane.look_at(&self.job);
    }
}

impl Copier {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`CopyError::Setting`] or [`CopyError::Rate`] if the settings cannot work, [`CopyError::Thread`] if the system gives no
    /// thread.
    pub fn start(config: CopyConfig) -> Result<Self, CopyError> {
        let (threads, checksum) = (config.codec_threads, config.checksum);
        Self::start_with(config, |sink| executor::start(threads, checksum, sink))
    }

    pub(super) fn start_with(
        config: CopyConfig,
        executor: impl FnOnce(&DoneSink) -> std::io::Result<Box<dyn Executor>>,
    ) -> Result<Self, CopyError> {
        check_config(&config)?;
        let process = OfProcess::attach();
        let cap = Arc::new(Cap::new(config.read_cap()?, process.clone()));
        let engine = Arc::new(Engine::start(executor)?);
        let how = (config.order, config.window);
        let lane = |direction: Direction| {
            let cap = direction.reads_device().then(|| cap.clone());
            Arc::new(Lane::new(engine.clone(), config.link(direction).cloned(), cap, how))
        };
        let lanes = Direction::ALL.map(lane);
        let segment_bytes = config.segment_bytes as u64;
        let inner = Arc::new(Inner { engine, lanes, cap, policies: Policies::new(process), segment_bytes });
        Ok(Self { inner, pool: Pool::of_blocks(), process: Process::current() })
    }

    /// Copies `source`, values of `element`, to `destination` and waits for it: compressed on the link as `policy` says,
    /// decoded where it goes.
    ///
    /// # Errors
    /// [`CopyError`]; where it does not say so, nothing was written.
    pub fn memcpy_compressed(
        &self,
        destination: impl Into<Payload>,
        source: impl Into<Payload>,
        direction: Direction,
        element: Element,
        policy: PolicySpec,
    ) -> Result<CopyReport, CopyError> {
        self.memcpy_compressed_async(destination, source, direction, element, policy)?.wait()
    }

    /// The same without waiting. Until it is finished, neither side is to be changed by others.
    ///
    /// # Errors
    /// [`CopyError`] if it cannot begin.
    pub fn memcpy_compressed_async(
        &self,
        destination: impl Into<Payload>,
        source: impl Into<Payload>,
        direction: Direction,
        element: Element,
        policy: PolicySpec,
    ) -> Result<CopyHandle<CopyReport>, CopyError> {
        self.check_process()?;
        let (destination, source) = (destination.into(), source.into());
        check_pair(&destination, &source, direction, element)?;
        let task = Task::Copy { source, destination };
        Ok(self.begin(task, direction, element, policy, |finished| Ok(finished.report)))
    }

    /// Brings `source` over the link and keeps it compressed there, in host memory.
    ///
    /// # Errors
    /// [`CopyError`] if it cannot begin.
    pub fn keep(
        &self,
        source: impl Into<Payload>,
        direction: Direction,
        element: Element,
        policy: PolicySpec,
    ) -> Result<CopyHandle<(Kept, CopyReport)>, CopyError> {
        self.keep_at(Home::Host(self.pool.clone(), None), source.into(), direction, element, policy)
    }

    /// The same, in the memory of a CUDA device.
    ///
    /// # Errors
    /// [`CopyError`] if it cannot begin: [`CopyError::Direction`] where that does not lead to a device.
    #[cfg(feature = "cuda")]
    pub fn keep_on(
        &self,
        device: &mgcomp_codecs::device::Device,
        source: impl Into<Payload>,
        direction: Direction,
        element: Element,
        policy: PolicySpec,
    ) -> Result<CopyHandle<(Kept, CopyReport)>, CopyError> {
        if !direction.writes_device() {
            let place = crate::payload::MemoryKind::Device(device.info().ordinal);
            return Err(CopyError::Direction { direction, place });
        }
        self.keep_at(Home::Device(device.clone()), source.into(), direction, element, policy)
    }

    fn keep_at(
        &self,
        home: Home,
        source: Payload,
        direction: Direction,
        element: Element,
        policy: PolicySpec,
    ) -> Result<CopyHandle<(Kept, CopyReport)>, CopyError> {
        self.check_process()?;
        check_source(&source, direction, element)?;
        Ok(self.begin(Task::Keep { source, home }, direction, element, policy, kept_and_report))
    }

    /// Brings what is kept compressed over the link and decodes it into `destination`. What is kept on a device is few bytes:
    /// reading them is not held back by the read cap.
    ///
    /// # Errors
    /// [`CopyError`] if it cannot begin.
    pub fn expand(
        &self,
        destination: impl Into<Payload>,
        kept: &Kept,
        direction: Direction,
    ) -> Result<CopyHandle<CopyReport>, CopyError> {
        self.check_process()?;
        let destination = destination.into();
        check_destination(&destination, direction, kept.raw_bytes, kept.element)?;
        check_kept(kept, direction)?;
        let (reply, handle) = handle();
        let end = ending(reply, |finished| Ok(finished.report));
        let sizes = (kept.raw_bytes, kept.segment_bytes);
        let job = self.inner.expansion(destination, kept.element, sizes, direction, end);
        job.make_ready(Ready::expand(kept.clone()));
        self.inner.lane(direction).add(job);
        Ok(handle)
    }

    /// Changes the rate at which copies may read device memory, also for what waits already. Where an operator has set another
    /// one for the process, that holds as long as it is set.
    ///
    /// # Errors
    /// [`CopyError::Rate`] if it is not a positive number.
    pub fn set_read_cap_gbps(&self, gbps: f64) -> Result<(), CopyError> {
        self.check_process()?;
        self.inner.cap.set(Shaping::try_new(gbps, Duration::ZERO)?);
        Ok(())
    }

    /// The rate at which copies may read device memory now, in Gb/s; none = no limit.
    #[must_use]
    pub fn read_cap_gbps(&self) -> Option<f64> {
        self.check_process().ok().and_then(|()| self.inner.cap.gbps())
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(super) fn check_process(&self) -> Result<(), CopyError> {
        if self.process.is_current() { Ok(()) } else { Err(CopyError::Forked) }
    }

    fn begin<T: Send + 'static>(
        &self,
        task: Task,
        direction: Direction,
        element: Element,
        policy: PolicySpec,
        take: fn(Finished) -> Result<T, CopyError>,
    ) -> CopyHandle<T> {
        let (reply, handle) = handle();
        self.inner.encode(task, direction, element, policy, ending(reply, take));
        handle
    }
}

impl Copier {
    /// Whether this is a child made by fork, where locks and devices are as the parent's threads left them.
    pub(super) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        // In a child the threads are not there to be waited for, and what they held is held for ever.
        if self.process.is_current() {
            self.inner.lanes.iter().for_each(Lane::close);
            self.inner.engine.end();
        } else {
            std::mem::forget(self.inner.clone());
        }
    }
}

impl Inner {
    pub(super) fn lane(&self, direction: Direction) -> &Arc<Lane> {
        &self.lanes[direction as usize]
    }

    /// Takes in a copy that is to be encoded.
    pub(super) fn encode(
        self: &Arc<Self>,
        task: Task,
        direction: Direction,
        element: Element,
        spec: PolicySpec,
        end: End,
    ) {
        let (Task::Copy { source, .. } | Task::Keep { source, .. }) = &task else { return };
        let source = source.clone();
        let destination = if let Task::Copy { destination, .. } = &task { Some(destination) } else { None };
        let (how, lane) = (How::new(spec, &source, destination), self.lane(direction));
        let segment_bytes = self.segment_bytes(&source, destination);
        let sizes = (source.capacity(), segment_bytes);
        let facts = choice::facts(direction, lane.facts(segment_bytes), element, sizes.0);
        let choice = Choice::default();
        let (end, gate) = Gate::over(self.observing((how.clone(), facts), direction, choice.clone(), end));
        let job = Arc::new(Job::new(task, element, sizes, simulated_gbps(lane), end));
        // Into the lane before it is decided: its turn is that of the call.
        lane.add(job.clone());
        let undecided = Undecided { job, lane: lane.clone(), choice };
        if how.from().is_host() {
            self.decide((how, facts), undecided, source);
        } else {
            self.decide_behind((how, facts), undecided, source, &gate);
        }
    }

    /// A copy of what is kept, which begins once it is told what that is.
    pub(super) fn expansion(
        &self,
        destination: Payload,
        element: Element,
        (raw_bytes, segment_bytes): (u64, u64),
        direction: Direction,
        end: End,
    ) -> Arc<Job> {
        let gbps = simulated_gbps(self.lane(direction));
        let task = Task::Expand { destination };
        Arc::new(Job::new(task, element, (raw_bytes, segment_bytes.max(1)), gbps, end))
    }

    /// Raw bytes of the segments of a copy of `source`, to `destination` or to be kept. On devices long copies have longer ones
    /// than elsewhere: each costs the host some time, and kernels are fast where there is much to do at once.
    pub(super) fn segment_bytes(&self, source: &Payload, destination: Option<&Payload>) -> u64 {
        let is_on_device = |payload: &Payload| matches!(payload.memory_kind(), MemoryKind::Device(_));
        // What is kept is not decoded before a later copy.
        let segments = match (is_on_device(source), destination.is_none_or(is_on_device)) {
            (true, true) => SEGMENTS_ON_DEVICES,
            (false, _) if !destination.is_some_and(is_on_device) => return self.segment_bytes,
            _ => SEGMENTS_BETWEEN,
        };
        let capacity = source.capacity();
        // What is not kept is in page-locked memory besides, until it is where it goes.
        let longest = if destination.is_some() { LONGEST_ON_THE_WAY } else { longest_kept(capacity) };
        whole_grains((capacity / segments).min(longest)).max(self.segment_bytes)
    }

    /// Asks the policy, which may want a sample first.
    fn decide(self: &Arc<Self>, (how, facts): (How, CheapFacts), undecided: Undecided, source: Payload) {
        match self.policies.plan(&how, &facts) {
            Plan::Use(decision) => undecided.decide_for(&how, &facts, Made::of(decision)),
            Plan::Sample { algorithms, size } => {
                let work = Work::Estimate { source, element: facts.element, algorithms, sample: size };
                let inner = Arc::downgrade(self);
                self.engine.run(work, move |done| {
                    let Some(inner) = inner.upgrade() else { return };
                    // Without estimates, nothing is considered.
                    let estimates = match done.result {
                        Ok(Output::Estimates(estimates)) => estimates,
                        _ => Vec::new(),
                    };
                    let decision = inner.policies.choose(&how, &facts, &estimates);
                    undecided.decide_for(
                        &how,
                        &facts,
                        Made { sampling: Some(done.took), ..Made::of(decision) },
                    );
                });
            }
        }
    }

    /// Asks the policy about what is on a device: that is far away, so nothing waits for a look at it.
    fn decide_behind(
        self: &Arc<Self>,
        (how, facts): (How, CheapFacts),
        undecided: Undecided,
        source: Payload,
        gate: &Arc<Gate>,
    ) {
        let (decision, look) = self.policies.plan_behind(&how, &facts);
        let closed = look.map(|_| gate.close());
        undecided.decide_for(&how, &facts, Made { is_looked_at: look.is_some(), ..Made::of(decision) });
        let (Some((algorithms, sample)), Some(closed)) = (look, closed) else { return };
        let work = Work::Estimate { source, element: facts.element, algorithms, sample };
        let inner = Arc::downgrade(self);
        self.engine.run(work, move |done| {
            if let (Ok(Output::Estimates(estimates)), Some(inner)) = (done.result, inner.upgrade()) {
                inner.policies.hear(&how, &facts, &estimates);
            }
            drop(closed);
        });
    }

    /// Tells the policy what came of its decision before anybody else hears of it.
    fn observing(
        self: &Arc<Self>,
        (how, facts): (How, CheapFacts),
        direction: Direction,
        choice: Choice,
        end: End,
    ) -> End {
        let inner = Arc::downgrade(self);
        Box::new(move |result| {
            if let (Ok(finished), Some(made), Some(inner)) = (&result, choice.get(), inner.upgrade()) {
                if made.decision.algorithm == Algorithm::None && !made.is_looked_at {
                    let CopyReport { encode, decode, .. } = finished.report;
                    match (how.from().is_host(), how.to().is_host()) {
                        (false, _) => inner.lane(direction).came_raw(facts.raw_bytes, encode),
                        (true, false) => inner.lane(direction).came_raw(facts.raw_bytes, decode),
                        (true, true) => {}
                    }
                }
                inner.policies.observe(&how, &facts, made, &finished.report);
            }
            end(result);
        })
    }
}

/// The most bytes of a segment of so many that are kept.
fn longest_kept(capacity: u64) -> u64 {
    let [short, long] = LONGEST_KEPT;
    whole_grains(capacity / MANY_SEGMENTS).clamp(short, long)
}

fn whole_grains(bytes: u64) -> u64 {
    bytes - bytes % GRAIN_ON_DEVICES
}

fn simulated_gbps(lane: &Lane) -> Option<f64> {
    lane.link.as_ref().map(|link| link.shaping().rate_gbps())
}

/// Reports to a handle.
fn ending<T: Send + 'static>(reply: Reply<T>, take: fn(Finished) -> Result<T, CopyError>) -> End {
    Box::new(move |result| {
        // Nobody listens if the handle is gone.
        let _ = reply.send(result.and_then(take));
    })
}

fn kept_and_report(finished: Finished) -> Result<(Kept, CopyReport), CopyError> {
    let kept = finished.kept.ok_or(CopyError::Closed { written_bytes: 0 })?;
    Ok((kept, finished.report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_longer_segments_where_there_are_many() {
        const MIB: u64 = 1 << 20;

        for (capacity, expected) in [
            (0, 8 * MIB),
            (128 * MIB, 8 * MIB),
            (134_400_036, 8 * MIB), // a sixteenth is no whole number of anything
            (144 * MIB - 4, 8 * MIB),
            (144 * MIB, 9 * MIB),
            (150_000_000, 8 * MIB),
            (256 * MIB - 4, 15 * MIB),
            (256 * MIB, 16 * MIB),
            (256 * MIB + 4, 16 * MIB),
            (u64::MAX, 16 * MIB),
        ] {
            assert_eq!(longest_kept(capacity), expected, "{capacity}");
        }
    }
}
