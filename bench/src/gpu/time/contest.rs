//! A subject against the copy, its answers checked before and after.
#![allow(unsafe_code)] // launches graphs

use mgcomp_codecs::device::{DeviceError, Graph, Stream};

use super::clock::{Clock, median};
use super::{Place, TimeError};
use crate::gpu::report::{Method, Seconds};

/// Nodes of a graph that is timed.
pub(super) const NODES: usize = 100;

/// What takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gpu) enum Operation {
    Copy,
    Encode,
    Decode,
    Estimate,
}

/// Something that codes the buffers of a place.
pub(in crate::gpu) trait Subject {
    /// Whether it is not ours.
    const IS_LIBRARY: bool;
    /// Whether it can tell lengths without coding.
    const ESTIMATES: bool;

    /// How many buffers of the place it codes, from the first on.
    fn sets(&self, place: &Place) -> usize {
        place.sets
    }

    /// Enqueues an operation but the copy on a buffer, and nothing else.
    fn enqueue(
        &mut self,
        operation: Operation,
        set: usize,
        place: &Place,
        stream: &Stream,
    ) -> Result<(), TimeError>;

    /// Bytes of all codes that were made last, if each operation on each buffer went well.
    fn settle(&mut self, stream: &Stream) -> Result<u64, TimeError>;
}

/// What came out.
pub(super) struct Outcome {
    pub(super) is_library: bool,
    pub(super) method: Method,
    /// Buffers that took turns.
    pub(super) sets: usize,
    /// Of all of them together.
    pub(super) coded_bytes: u64,
    pub(super) seconds: Seconds,
}

/// A subject while it is timed.
pub(super) struct Contest<'a, S> {
    clock: Clock,
    place: &'a Place,
    subject: &'a mut S,
    operations: Vec<Operation>,
    sets: usize,
    method: Method,
    /// By operation.
    graphs: Vec<Graphs>,
}

/// What was recorded over buffers in turn: in graphs of `NODES` nodes each, and of one.
pub(super) struct Graphs {
    many: Vec<Graph>,
    one: Vec<Graph>,
}

impl Graphs {
    /// Records what `enqueue` enqueues on `stream` for each of so many buffers.
    pub(super) fn record<E: From<DeviceError>>(
        stream: &Stream,
        sets: usize,
        mut enqueue: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut graph =
            |first: usize, nodes: usize| stream.capture(|| (first..first + nodes).try_for_each(&mut enqueue));
        let starts = || (0..sets).step_by(NODES);
        let many = starts().map(|first| graph(first, NODES)).collect::<Result<_, E>>()?;
        let one = starts().map(|first| graph(first, 1)).collect::<Result<_, E>>()?;
        Ok(Self { many, one })
    }

    /// Enqueues all of it once.
    ///
    /// # Safety
    /// As for each [launch](Graph::launch).
    pub(super) unsafe fn launch(&self, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        self.many.iter().try_for_each(|graph| unsafe { graph.launch(stream) })
    }

    /// Seconds of one more node.
    ///
    /// # Safety
    /// As for each [launch](Graph::launch), which the clock waits for.
    pub(super) unsafe fn time(&self, clock: &Clock) -> Result<f64, DeviceError> {
        let launch = |graphs: &[Graph]| {
            let mut seconds = 0.0;
            for graph in graphs {
                // SAFETY: the caller's promise.
                let time = clock.time(|stream| unsafe { graph.launch(stream) })?;
                seconds += time.as_secs_f64();
            }
            Ok::<_, DeviceError>(seconds / graphs.len() as f64)
        };
        let more = launch(&self.many)? - launch(&self.one)?;
        Ok(more.max(0.0) / (NODES - 1) as f64)
    }
}

impl<'a, S: Subject> Contest<'a, S> {
    pub(super) fn new(clock: Clock, place: &'a Place, subject: &'a mut S) -> Self {
        let mut operations = vec![Operation::Copy, Operation::Encode, Operation::Decode];
        if S::ESTIMATES {
            operations.push(Operation::Estimate);
        }
        // A library may do what cannot be recorded.
        let method = if S::IS_LIBRARY { Method::Stream } else { place.method() };
        let sets = subject.sets(place);
        Self { clock, place, subject, operations, sets, method, graphs: Vec::new() }
    }

    /// Checks the subject's answers, takes the median of so many rounds, and checks the answers again.
    pub(super) fn run(mut self, rounds: usize) -> Result<Outcome, TimeError> {
        let coded_bytes = self.check()?;
        if self.method == Method::Graph {
            self.record()?;
        }
        let mut times = vec![Vec::new(); self.operations.len()];
        // The first round warms up.
        for round in 0..=rounds {
            for (index, times) in times.iter_mut().enumerate() {
                let seconds = self.time(index)?;
                if round > 0 {
                    times.push(seconds);
                }
            }
        }
        self.check()?;
        let mut medians = times.iter_mut().map(|times| median(times));
        let mut next = || medians.next().unwrap_or_default();
        let seconds =
            Seconds { copy: next(), encode: next(), decode: next(), estimate: S::ESTIMATES.then(next) };
        let Self { method, sets, .. } = self;
        Ok(Outcome { is_library: S::IS_LIBRARY, method, sets, coded_bytes, seconds })
    }

    /// Does everything once on every buffer; returns the bytes of all codes.
    fn check(&mut self) -> Result<u64, TimeError> {
        self.place.poison(&self.clock.stream)?;
        for &operation in &self.operations {
            // The copy would leave the right answer.
            for set in (0..self.sets).filter(|_| operation != Operation::Copy) {
                self.subject.enqueue(operation, set, self.place, &self.clock.stream)?;
            }
        }
        let coded_bytes = self.subject.settle(&self.clock.stream)?;
        self.place.compare(&self.clock.stream, self.sets)?;
        Ok(coded_bytes)
    }

    /// Seconds of one call of an operation.
    fn time(&mut self, index: usize) -> Result<f64, TimeError> {
        if let Some(graphs) = self.graphs.get(index) {
            // SAFETY: place and subject outlive the launch.
            return Ok(unsafe { graphs.time(&self.clock) }?);
        }
        let Self { clock, place, subject, operations, sets, .. } = self;
        // The buffers that it does not code drive those that it does out of the cache.
        (*sets..place.sets).try_for_each(|set| clock.stream.copy(place.raw(set), place.back(set)))?;
        let time = clock.time(|stream| {
            (0..*sets).try_for_each(|set| enqueue(operations[index], set, place, *subject, stream))
        })?;
        Ok(time.as_secs_f64() / *sets as f64)
    }

    /// Records graphs of every operation, over all buffers.
    fn record(&mut self) -> Result<(), TimeError> {
        let Self { clock, place, subject, operations, graphs, .. } = self;
        for &operation in operations.iter() {
            let stream = &clock.stream;
            let enqueue = |set| enqueue(operation, set, place, *subject, stream);
            graphs.push(Graphs::record::<TimeError>(stream, place.sets, enqueue)?);
        }
        Ok(())
    }
}

fn enqueue<S: Subject>(
    operation: Operation,
    set: usize,
    place: &Place,
    subject: &mut S,
    stream: &Stream,
) -> Result<(), TimeError> {
    match operation {
        Operation::Copy => Ok(stream.copy(place.raw(set), place.back(set))?),
        _ => subject.enqueue(operation, set, place, stream),
    }
}
