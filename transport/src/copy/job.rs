//! One copy: what is copied, how far it is, and who wants to know.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::{Decision, Reason};

use super::home::Home;
use super::kept::Coded;
use super::{CopyError, CopyReport, Kept};
use crate::message::Status;
use crate::payload::Payload;

/// What to do with the bytes.
#[derive(Debug)]
pub(super) enum Task {
    /// Encode, carry, decode.
    Copy { source: Payload, destination: Payload },
    /// Encode, carry, keep.
    Keep { source: Payload, home: Home },
    /// Carry, decode.
    Expand { destination: Payload },
}

/// What a copy waits for before it can begin.
#[derive(Debug)]
pub(super) enum Ready {
    /// How to encode it.
    Encode(Decision),
    /// What to expand; none once that is over.
    Expand(Mutex<Option<Kept>>),
    /// There is nothing to begin.
    Failed(CopyError),
}

impl Ready {
    pub(super) fn expand(kept: Kept) -> Self {
        Self::Expand(Mutex::new(Some(kept)))
    }

    /// The segment with this number of what is to be expanded.
    pub(super) fn kept_segment(&self, index: u64) -> Option<Coded> {
        let Self::Expand(kept) = self else { return None };
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref()?.segments.get(index as usize).cloned()
    }

    /// Lets go of what was to be expanded.
    fn let_go(&self) {
        if let Self::Expand(kept) = self {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(kept); // after the lock
        }
    }
}

/// Called once, when the copy is finished.
pub(super) type End = Box<dyn FnOnce(Result<Finished, CopyError>) + Send>;

/// What came of a copy.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) report: CopyReport,
    /// What is kept, if that was asked for.
    pub(super) kept: Option<Kept>,
}

pub(super) struct Job {
    pub(super) task: Task,
    pub(super) element: Element,
    pub(super) raw_bytes: u64,
    pub(super) segment_bytes: u64,
    /// Its number in its lane, once it is there.
    pub(super) number: OnceLock<u64>,
    ready: OnceLock<Ready>,
    started: Instant,
    progress: Mutex<Progress>,
    simulated_gbps: Option<f64>,
}

struct Progress {
    /// Segments that have begun, and those that are over.
    begun: u64,
    over: u64,
    coded: Vec<Option<Coded>>,
    algorithm: Algorithm,
    coded_bytes: u64,
    written_bytes: u64,
    encode: Duration,
    decode: Duration,
    error: Option<CopyError>,
    end: Option<End>,
}

impl Job {
    pub(super) fn new(
        task: Task,
        element: Element,
        (raw_bytes, segment_bytes): (u64, u64),
        simulated_gbps: Option<f64>,
        end: End,
    ) -> Self {
        let kept = if matches!(task, Task::Keep { .. }) { raw_bytes.div_ceil(segment_bytes) } else { 0 };
        let progress = Progress {
            begun: 0,
            over: 0,
            coded: (0..kept).map(|_| None).collect(),
            algorithm: Algorithm::None,
            coded_bytes: 0,
            written_bytes: 0,
            encode: Duration::ZERO,
            decode: Duration::ZERO,
            error: None,
            end: Some(end),
        };
        let (number, ready) = (OnceLock::new(), OnceLock::new());
        let (started, progress) = (Instant::now(), Mutex::new(progress));
        Self { task, element, raw_bytes, segment_bytes, number, ready, started, progress, simulated_gbps }
    }

    /// Lets it begin, once its lane has [looked at it](super::lane::Lane::look_at). Only the first call counts.
    pub(super) fn make_ready(&self, ready: Ready) {
        // Under the lock, so that nobody begins with it before that is known.
        let mut progress = self.lock();
        let error = if let Ready::Failed(error) = &ready { Some(error.clone()) } else { None };
        if self.ready.set(ready).is_ok() && progress.error.is_none() {
            progress.error = error;
        }
    }

    /// Nothing of it begins any more; what is under way may still end well.
    pub(super) fn close(&self) {
        let mut progress = self.lock();
        let written_bytes = progress.written_bytes;
        if progress.begun < self.segments() {
            progress.error.get_or_insert(CopyError::Closed { written_bytes });
        }
    }

    pub(super) fn ready(&self) -> Option<&Ready> {
        self.ready.get()
    }

    fn segments(&self) -> u64 {
        self.raw_bytes.div_ceil(self.segment_bytes)
    }

    /// The next segment to begin with, if one is left. After a failure none is.
    pub(super) fn begin_segment(&self) -> Option<u64> {
        let mut progress = self.lock();
        if progress.error.is_some() || progress.begun == self.segments() {
            return None;
        }
        progress.begun += 1;
        Some(progress.begun - 1)
    }

    /// Whether there is no segment to begin with any more.
    pub(super) fn has_begun_all(&self) -> bool {
        let progress = self.lock();
        progress.error.is_some() || progress.begun == self.segments()
    }

    /// Where segment `index` starts and how long it is.
    pub(super) fn place(&self, index: u64) -> (u64, u64) {
        let start = index * self.segment_bytes;
        (start, self.segment_bytes.min(self.raw_bytes - start))
    }

    pub(super) fn encoded(&self, algorithm: Algorithm, coded_bytes: u64, took: Duration) {
        let mut progress = self.lock();
        progress.encode += took;
        progress.carries(algorithm, coded_bytes);
    }

    pub(super) fn carried(&self, coded: &Coded) {
        self.lock().carries(coded.algorithm, coded.bytes.capacity());
    }

    /// Segment `index` is kept.
    pub(super) fn keep(&self, index: u64, coded: Coded) {
        if let Some(place) = self.lock().coded.get_mut(index as usize) {
            *place = Some(coded);
        }
    }

    /// A segment is where it goes.
    pub(super) fn decoded(&self, raw_bytes: u64, took: Duration) {
        let mut progress = self.lock();
        progress.decode += took;
        progress.written_bytes += raw_bytes;
    }

    /// Segment `index` cannot be copied: `None` if it was lost, with all who could say why.
    pub(super) fn fail(&self, index: u64, status: Option<Status>) {
        let ((start, len), raw_bytes) = (self.place(index), self.raw_bytes);
        let mut progress = self.lock();
        let written_bytes = progress.written_bytes;
        progress.error.get_or_insert(match status {
            Some(status) => CopyError::Segment { start, end: start + len, raw_bytes, status, written_bytes },
            None => CopyError::Closed { written_bytes },
        });
    }

    /// A segment that had begun is over.
    pub(super) fn end_segment(&self) {
        self.lock().over += 1;
    }

    /// Whether nothing of it is left to do or under way.
    pub(super) fn is_over(&self) -> bool {
        let progress = self.lock();
        let is_failed = progress.error.is_some();
        let all_begun = is_failed || (self.ready().is_some() && progress.begun == self.segments());
        all_begun && progress.over == progress.begun
    }

    /// Tells whoever wants to know; once.
    pub(super) fn report(&self) {
        let mut progress = self.lock();
        let Some(end) = progress.end.take() else { return };
        let lost = match progress.error {
            Some(_) => std::mem::take(&mut progress.coded),
            None => Vec::new(),
        };
        // It stays: nothing of a copy that has failed begins any more.
        let result = match progress.error.clone() {
            // How much was written may have changed since.
            Some(error) => Err(with_written(error, progress.written_bytes)),
            None => Ok(self.finish(&mut progress)),
        };
        drop(progress);
        // Whoever hears of the end may count on the memory.
        drop(lost);
        self.ready().into_iter().for_each(Ready::let_go);
        end(result);
    }

    fn finish(&self, progress: &mut Progress) -> Finished {
        let Self { element, raw_bytes, segment_bytes, .. } = *self;
        let report = CopyReport {
            raw_bytes,
            coded_bytes: progress.coded_bytes,
            algorithm: progress.algorithm,
            reason: self.reason(),
            encode: progress.encode,
            decode: progress.decode,
            took: self.started.elapsed(),
            simulated_gbps: self.simulated_gbps,
        };
        let segments = std::mem::take(&mut progress.coded).into_iter().flatten().collect();
        let is_kept = matches!(self.task, Task::Keep { .. });
        Finished { report, kept: is_kept.then_some(Kept { element, raw_bytes, segment_bytes, segments }) }
    }

    fn reason(&self) -> Option<Reason> {
        match self.ready()? {
            Ready::Encode(decision) => Some(decision.reason),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn carries(&mut self, algorithm: Algorithm, coded_bytes: u64) {
        self.coded_bytes += coded_bytes;
        if algorithm != Algorithm::None {
            self.algorithm = algorithm;
        }
    }
}

fn with_written(error: CopyError, written_bytes: u64) -> CopyError {
    match error {
        CopyError::Segment { start, end, raw_bytes, status, .. } => {
            CopyError::Segment { start, end, raw_bytes, status, written_bytes }
        }
        CopyError::Closed { .. } => CopyError::Closed { written_bytes },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;

    use super::*;
    use crate::memory::HostBuffer;

    /// Memory that says when it is gone.
    struct Watched(Arc<AtomicBool>);

    impl AsRef<[u8]> for Watched {
        fn as_ref(&self) -> &[u8] {
            &[7; 100]
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn watched() -> (Coded, Arc<AtomicBool>) {
        let is_gone = Arc::<AtomicBool>::default();
        let bytes = Payload::from_bytes(Bytes::from_owner(Watched(is_gone.clone())));
        (Coded { algorithm: Algorithm::None, bytes }, is_gone)
    }

    /// Whether the memory was gone when the end of the job was told.
    fn is_gone_at_the_end(task: Task, is_gone: Arc<AtomicBool>, work: impl FnOnce(&Job)) -> bool {
        let (told, was_told) = std::sync::mpsc::channel();
        let end: End = Box::new(move |_| told.send(is_gone.load(Ordering::SeqCst)).unwrap());
        let job = Job::new(task, Element::U8, (100, 100), None, end);
        work(&job);
        job.report();
        was_told.recv().unwrap()
    }

    #[test]
    fn who_hears_of_the_end_may_count_on_the_memory() {
        let (coded, is_gone) = watched();
        let kept = Kept { element: Element::U8, raw_bytes: 100, segment_bytes: 100, segments: vec![coded] };
        let task = Task::Expand { destination: HostBuffer::zeroed(100).all().into() };
        assert!(is_gone_at_the_end(task, is_gone, |job| {
            job.make_ready(Ready::expand(kept));
            assert!(job.ready().unwrap().kept_segment(0).is_some());
        }));

        // What was kept of a copy that has failed.
        let (coded, is_gone) = watched();
        let home = Home::Host(crate::pool::Pool::of_blocks(), None);
        let task = Task::Keep { source: HostBuffer::zeroed(100).all().into(), home };
        assert!(is_gone_at_the_end(task, is_gone, |job| {
            job.keep(0, coded);
            job.fail(0, None);
        }));
    }
}
