//! The executor for host memory: a few threads that take work off one queue, and the caller's own for what is short.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mgcomp_codecs::background;
use mgcomp_codecs::frame::{ChunkSize, Frame, Options, encode_to, max_frame_len, sampled_frame_len};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element, codec, paper_bits};
use mgcomp_selector::{Estimate, SampleSize};

use super::brief::{For, Paces};
use super::failure::Failure;
use super::hold::Memory;
use super::waiting::Waiting;
use super::{Done, DoneSink, Executor, Output, Ticket, Work};
use crate::memory::Held;
use crate::message::Status;
use crate::payload::Payload;
use crate::pool::{Pool, Pooled};

/// What waits to be sent keeps at most so many times as much memory as it has bytes.
const MOST_ROOM: usize = 8;

/// Codec threads for host memory.
pub struct HostExecutor {
    queue: Option<Sender<(Ticket, Work)>>,
    /// Set when nobody wants what is still queued.
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// For what is done on the caller's thread.
    workbench: Workbench,
    /// What waits for its memory: the threads take it from there, or the caller if there are none.
    waiting: Arc<RwLock<Waiting>>,
}

impl HostExecutor {
    /// Starts `threads` threads that report to `sink`. Without any, all work is done on the caller's. Frames carry
    /// checksums if `checksum` says so.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(threads: usize, checksum: bool, sink: &DoneSink) -> io::Result<Self> {
        Self::start_for(For::Copies, threads, checksum, sink)
    }

    /// As [`start`](Self::start), to work for `whom`.
    pub(super) fn start_for(whom: For, threads: usize, checksum: bool, sink: &DoneSink) -> io::Result<Self> {
        let (queue, work) = mpsc::channel();
        let (work, stopped) = (Arc::new(Mutex::new(work)), Arc::<AtomicBool>::default());
        let waiting = Arc::<RwLock<Waiting>>::default();
        let bench = Workbench::new(checksum, Paces::new(whom, threads));
        let spawn = |i| {
            let (queue, stopped, sink) = (work.clone(), stopped.clone(), sink.clone());
            let (waiting, workbench) = (waiting.clone(), bench.another());
            let mut worker = Worker { queue, waiting, stopped, sink, workbench };
            background::spawn(format!("mgcomp-codec-{i}"), move || worker.run())
        };
        let threads = (0..threads).map(spawn).collect::<io::Result<_>>()?;
        Ok(Self { queue: Some(queue), stopped, threads, workbench: bench, waiting })
    }
}

impl Executor for HostExecutor {
    fn submit(&mut self, ticket: Ticket, work: Work) -> Option<Done> {
        let is_alone = self.threads.is_empty();
        if is_alone || self.workbench.paces.is_brief(&work) {
            let memory = read(&self.waiting).hold_for(&work, Memory::try_hold);
            if let Ok(memory) = memory {
                return Some(self.workbench.carry_out(ticket, &work, memory));
            }
        }
        if is_alone {
            write(&self.waiting).push(ticket, work);
        } else if let Some(queue) = &self.queue {
            // Workers outlive the queue: sending fails only after they were told to stop.
            let _ = queue.send((ticket, work));
        }
        None
    }

    fn resume(&mut self) -> Option<Done> {
        if !self.is_waiting() {
            return None;
        }
        let next = write(&self.waiting).take(Instant::now(), Memory::try_hold);
        next.map(|(ticket, work, memory)| self.workbench.carry_out(ticket, &work, memory))
    }

    fn is_waiting(&self) -> bool {
        self.threads.is_empty() && !read(&self.waiting).is_empty()
    }
}

impl Drop for HostExecutor {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.queue = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Worker {
    queue: Arc<Mutex<Receiver<(Ticket, Work)>>>,
    waiting: Arc<RwLock<Waiting>>,
    stopped: Arc<AtomicBool>,
    sink: DoneSink,
    workbench: Workbench,
}

impl Worker {
    fn run(&mut self) {
        while let Some((ticket, work, memory)) = self.next() {
            let done = self.workbench.carry_out(ticket, &work, memory);
            drop(work); // before anybody hears of it: the memory is the program's again
            (self.sink)(done);
        }
    }

    /// The next work whose memory is free, held for it; none when nobody wants more. Work whose memory somebody else holds
    /// takes no thread: that may be a link, for as long as a peer is slow.
    fn next(&self) -> Option<(Ticket, Work, Memory)> {
        // One thread at a time looks for work, now and then also among what waits. The others sleep until it has found some.
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            let is_idle = read(&self.waiting).is_empty();
            let received = if is_idle {
                queue.recv().map_err(Into::into)
            } else {
                // It may take long where many wait. Who hands in work does not wait for that.
                let look = read(&self.waiting).look(Instant::now(), Memory::try_hold);
                let mut waiting = write(&self.waiting);
                let next = waiting.settle(look);
                if next.is_some() {
                    return next;
                }
                let pause = waiting.pause(Instant::now());
                drop(waiting);
                queue.recv_timeout(pause)
            };
            match received {
                Ok((ticket, work)) => write(&self.waiting).push(ticket, work),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

fn read(waiting: &RwLock<Waiting>) -> RwLockReadGuard<'_, Waiting> {
    waiting.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(waiting: &RwLock<Waiting>) -> RwLockWriteGuard<'_, Waiting> {
    waiting.write().unwrap_or_else(PoisonError::into_inner)
}

/// What one thread works with.
struct Workbench {
    checksum: bool,
    /// For what goes out.
    pool: Pool,
    paces: Arc<Paces>,
    /// Raw bytes of a frame before they are known to be good.
    scratch: Vec<u8>,
}

impl Workbench {
    fn new(checksum: bool, paces: Paces) -> Self {
        Self { checksum, pool: Pool::default(), paces: Arc::new(paces), scratch: Vec::new() }
    }

    /// One for another thread.
    fn another(&self) -> Self {
        let (pool, paces) = (self.pool.clone(), self.paces.clone());
        Self { checksum: self.checksum, pool, paces, scratch: Vec::new() }
    }

    fn carry_out(&mut self, ticket: Ticket, work: &Work, memory: Memory) -> Done {
        // Without a codec nobody asks for the time, and the clock would take longer than the work.
        let started = (!matches!(work, Work::Encode { algorithm: Algorithm::None, .. })).then(Instant::now);
        // A defect in a codec must not take the job down with it, nor leave a request without an end.
        let result = catch_unwind(AssertUnwindSafe(|| self.work_on(work, memory)))
            .unwrap_or(Err(Status::Internal.into()));
        let took = started.map_or(Duration::ZERO, |started| started.elapsed());
        if result.is_ok() {
            self.paces.learn(work, took);
        }
        let lost = result.as_ref().err().and_then(Failure::lost);
        Done { ticket, took, result: result.map_err(|failure| failure.status()), lost }
    }

    fn work_on(&mut self, work: &Work, memory: Memory) -> Result<Output, Failure> {
        match (work, memory) {
            (&Work::Estimate { element, algorithms, sample, .. }, Memory::Source(raw)) => {
                Ok(Output::Estimates(estimate(&raw, element, algorithms, sample)))
            }
            (&Work::Encode { element, algorithm, lent, .. }, Memory::Source(raw)) => {
                let (algorithm, bytes) = self.encode(raw, element, algorithm, lent)?;
                Ok(Output::Encoded(algorithm, Payload::from_bytes(bytes)))
            }
            (Work::Decode { payload, algorithm, all_or_nothing, .. }, Memory::Destination(mut into)) => {
                let payload = payload.fetch()?;
                self.decode(&payload, *algorithm, &mut into, *all_or_nothing)?;
                Ok(Output::Decoded)
            }
            (_, Memory::InPlace) => Ok(Output::Decoded),
            _ => Err(Status::Internal.into()),
        }
    }

    fn encode(
        &self,
        source: Held,
        element: Element,
        algorithm: Algorithm,
        lent: bool,
    ) -> Result<(Algorithm, Bytes), Status> {
        if algorithm != Algorithm::None {
            let codec = codec(algorithm).ok_or(Status::UnsupportedAlgorithm)?;
            let options = Options { chunk_size: ChunkSize::for_len(source.len()), checksum: self.checksum };
            let mut frame = self.pool.take_room(max_frame_len(source.len(), options));
            let len = encode_to(codec, element, &source, options, &mut frame).map_err(|_| Status::TooLong)?;
            // Never more bytes than without mgcomp.
            if len < source.len() {
                return Ok((algorithm, self.shrunk(frame, len)));
            }
        }
        if lent {
            return Ok((Algorithm::None, Bytes::from_owner(source)));
        }
        let mut copy = self.pool.take(source.len());
        copy.extend_from_slice(&source);
        Ok((Algorithm::None, Bytes::from_owner(copy)))
    }

    /// The first `len` bytes of a frame's room. What waits for its turn on a link counts with those, so it does not keep much more
    /// memory, and the room is there for the next frame while the caches still have it.
    fn shrunk(&self, frame: Pooled, len: usize) -> Bytes {
        if len > frame.len() / MOST_ROOM {
            return Bytes::from_owner(frame).slice(..len);
        }
        let mut copy = self.pool.take(len);
        copy.extend_from_slice(&frame[..len]);
        Bytes::from_owner(copy)
    }

    fn decode(
        &mut self,
        payload: &Bytes,
        algorithm: Algorithm,
        into: &mut [u8],
        all_or_nothing: bool,
    ) -> Result<(), Status> {
        if algorithm == Algorithm::None {
            if payload.len() != into.len() {
                return Err(Status::BadPayload);
            }
            into.copy_from_slice(payload);
            return Ok(());
        }
        if codec(algorithm).is_none() {
            return Err(Status::UnsupportedAlgorithm);
        }
        let frame = Frame::parse(payload).map_err(|_| Status::BadPayload)?;
        if frame.header().algorithm != algorithm || frame.header().raw_len != into.len() as u64 {
            return Err(Status::BadPayload);
        }
        let bad = |error| {
            tracing::warn!(%error, "payload does not decode");
            Status::BadPayload
        };
        if !all_or_nothing {
            return frame.decode_into(into).map_err(bad);
        }
        // A frame may turn out bad halfway.
        self.scratch.resize(into.len(), 0);
        frame.decode_into(&mut self.scratch).map_err(bad)?;
        into.copy_from_slice(&self.scratch);
        Ok(())
    }
}

/// What each of `algorithms` would make of `raw`, from as much of it as `sample` says.
pub(crate) fn estimate(
    raw: &[u8],
    element: Element,
    algorithms: AlgorithmSet,
    sample: SampleSize,
) -> Vec<Estimate> {
    let bits = |algorithm| match sample {
        SampleSize::Whole => paper_bits(algorithm, raw),
        SampleSize::Bytes(bytes) => sampled_bits(algorithm, raw, element, bytes),
    };
    algorithms.iter().filter_map(|algorithm| Some(Estimate { algorithm, bits: bits(algorithm)? })).collect()
}

/// Bits of the stored form, from about `bytes` bytes of `raw`.
fn sampled_bits(algorithm: Algorithm, raw: &[u8], element: Element, bytes: u64) -> Option<u64> {
    let codec = codec(algorithm)?;
    let options = Options::for_len(raw.len());
    let sample_len = usize::try_from(bytes).unwrap_or(usize::MAX);
    Some(8 * sampled_frame_len(codec, element, raw, options, sample_len))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::memory::HostBuffer;

    /// Runs one piece of work on a fresh executor.
    fn run(work: Work) -> Result<Output, Status> {
        let (report, reports) = mpsc::channel();
        let sink: DoneSink = Arc::new(move |done| report.send(done).unwrap());
        let mut executor = HostExecutor::start(1, true, &sink).unwrap();
        let done = executor.submit(Ticket(7), work).unwrap_or_else(|| reports.recv().unwrap());
        assert_eq!(done.ticket, Ticket(7));
        done.result
    }

    #[test]
    fn what_has_shrunk_a_lot_keeps_no_long_room() {
        for (zeros, is_given_back) in [(1 << 20, true), (1 << 19, false)] {
            let (report, reports) = mpsc::channel();
            let sink: DoneSink = Arc::new(move |done| report.send(done).unwrap());
            let mut executor = HostExecutor::start(0, true, &sink).unwrap();
            let raw: Vec<u8> = (0..1 << 20)
                .map(|i: u32| if i < zeros { 0 } else { (i.wrapping_mul(i) >> 7) as u8 })
                .collect();
            let source = Payload::from_memory(HostBuffer::from(raw).all());
            let (element, algorithm) = (Element::U32, Algorithm::Zvc);
            let work = Work::Encode { source, element, algorithm, lent: false, shelf: None };
            let done = executor.submit(Ticket(7), work).unwrap_or_else(|| reports.recv().unwrap());
            assert!(matches!(done.result, Ok(Output::Encoded(Algorithm::Zvc, _))), "{:?}", done.result);
            // The frame is there still.
            assert_eq!(executor.workbench.pool.keeps_any(), is_given_back);
        }
    }

    fn encode(raw: &[u8], algorithm: Algorithm) -> (Algorithm, Payload) {
        let source = Payload::from_memory(HostBuffer::from(raw.to_vec()).all());
        match run(Work::Encode { source, element: Element::U32, algorithm, lent: false, shelf: None }) {
            Ok(Output::Encoded(algorithm, payload)) => (algorithm, payload),
            other => panic!("{other:?}"),
        }
    }

    fn decode(payload: Payload, algorithm: Algorithm, len: usize) -> Result<Vec<u8>, (Status, Vec<u8>)> {
        let buffer = HostBuffer::from(vec![0xee; len]);
        let destination = Payload::from_memory(buffer.all());
        match run(Work::Decode { payload, algorithm, destination, all_or_nothing: true }) {
            Ok(Output::Decoded) => Ok(buffer.all().to_vec()),
            Err(status) => Err((status, buffer.all().to_vec())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_threads_nobody_hears_of_other_work_than_what_is_handed_in() {
        let sink: DoneSink = Arc::new(|_| panic!("there are no threads"));
        let mut executor = HostExecutor::start(0, true, &sink).unwrap();
        let (held, free) = (HostBuffer::zeroed(64), HostBuffer::zeroed(64));
        let work = |buffer: &HostBuffer| Work::Encode {
            source: Payload::from_memory(buffer.all()),
            element: Element::U8,
            algorithm: Algorithm::Zvc,
            lent: false,
            shelf: None,
        };
        let writing = held.all().try_hold_mut().unwrap();
        assert!(executor.submit(Ticket(1), work(&held)).is_none());
        let done = executor.submit(Ticket(2), work(&free)).unwrap();
        assert_eq!(done.ticket, Ticket(2));
        assert!(executor.resume().is_none() && executor.is_waiting());
        drop(writing);
        // What has waited is for who resumes it, and not for who hands in something else.
        let done = executor.submit(Ticket(3), work(&free)).unwrap();
        assert_eq!(done.ticket, Ticket(3));
        assert_eq!(executor.resume().unwrap().ticket, Ticket(1));
        assert!(!executor.is_waiting());
    }

    /// Work that takes a thread, and reads `buffer`.
    fn long_work(buffer: &HostBuffer) -> Work {
        let (source, element) = (Payload::from_memory(buffer.all()), Element::U8);
        Work::Encode { source, element, algorithm: Algorithm::Zvc, lent: false, shelf: None }
    }

    /// An executor with one thread, and where that reports which work is done.
    fn with_one_thread() -> (HostExecutor, Receiver<u64>) {
        let (report, reports) = mpsc::channel();
        let sink: DoneSink = Arc::new(move |done| report.send(done.ticket.0).unwrap());
        (HostExecutor::start(1, true, &sink).unwrap(), reports)
    }

    const HANGS: Duration = Duration::from_secs(60);
    const LONG: usize = 1 << 20;

    #[test]
    fn memory_in_use_holds_up_no_thread() {
        let (mut executor, reports) = with_one_thread();
        let (held, free) = (HostBuffer::zeroed(LONG), HostBuffer::zeroed(LONG));
        let writing = held.slice(0..1).unwrap().hold_mut();
        for (ticket, buffer) in [(1, &held), (2, &held), (3, &free), (4, &held), (5, &free)] {
            assert!(executor.submit(Ticket(ticket), long_work(buffer)).is_none());
        }
        assert!(!executor.is_waiting() && executor.resume().is_none(), "the thread sees to it");
        assert_eq!([(); 2].map(|()| reports.recv_timeout(HANGS)), [Ok(3), Ok(5)]);
        drop(writing);
        let mut rest = [(); 3].map(|()| reports.recv_timeout(HANGS).unwrap());
        rest.sort_unstable(); // they only read it, so any may be the first
        assert_eq!(rest, [1, 2, 4]);
    }

    #[test]
    fn nobody_waits_at_the_end_for_memory_in_use() {
        let (mut executor, reports) = with_one_thread();
        let (held, free) = (HostBuffer::zeroed(LONG), HostBuffer::zeroed(LONG));
        let writing = held.all().hold_mut();
        executor.submit(Ticket(1), long_work(&held));
        executor.submit(Ticket(2), long_work(&free));
        assert_eq!(reports.recv_timeout(HANGS), Ok(2));
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            drop(executor);
            ended.send(()).unwrap();
        });
        assert_eq!(end.recv_timeout(HANGS), Ok(()), "hangs: the executor waits for memory");
        drop(writing);
        assert!(reports.recv().is_err(), "nobody wants the other any more");
        let mut held = held;
        assert!(held.is_only(), "and nothing uses its memory");
    }

    #[test]
    fn compressible_bytes_shrink_and_come_back() {
        let raw: Vec<u8> = (0..5000u32).flat_map(u32::to_le_bytes).collect();
        let (algorithm, payload) = encode(&raw, Algorithm::Bdi);
        assert_eq!(algorithm, Algorithm::Bdi);
        assert!(payload.capacity() < raw.len() as u64 / 2);
        assert_eq!(decode(payload, algorithm, raw.len()), Ok(raw));
    }

    #[test]
    fn bytes_that_do_not_shrink_go_raw() {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let raw: Vec<u8> = (0..4096).map(|_| random()).collect();
        let (algorithm, payload) = encode(&raw, Algorithm::Fpc);
        assert_eq!((algorithm, payload.bytes().unwrap().to_vec()), (Algorithm::None, raw));
    }

    #[test]
    fn bad_payloads_leave_the_destination_alone() {
        let raw = vec![0; 100_000];
        let (algorithm, payload) = encode(&raw, Algorithm::Zvc);
        let good = payload.bytes().unwrap().to_vec();
        let mut last_chunk_damaged = good.clone();
        *last_chunk_damaged.last_mut().unwrap() = 1;
        let cases = [
            (last_chunk_damaged, algorithm, raw.len()),
            (good[..good.len() - 16].to_vec(), algorithm, raw.len()),
            (good.clone(), Algorithm::Bdi, raw.len()),
            (good.clone(), algorithm, raw.len() - 1),
            (good, Algorithm::None, raw.len()),
            (vec![], algorithm, raw.len()),
        ];
        for (bytes, algorithm, len) in cases {
            let result = decode(Payload::from_bytes(bytes.into()), algorithm, len);
            assert_eq!(result, Err((Status::BadPayload, vec![0xee; len])));
        }
    }

    #[test]
    fn estimates_are_the_paper_s_sizes() {
        let source = Payload::from_memory(HostBuffer::zeroed(128).all());
        let algorithms = AlgorithmSet::supported();
        let Ok(Output::Estimates(estimates)) =
            run(Work::Estimate { source, element: Element::U8, algorithms, sample: SampleSize::Whole })
        else {
            panic!("no estimates")
        };
        // Two zero lines: 512, 4, 3 and 2 bits each; the others have no lines.
        let bits: Vec<_> = estimates.iter().map(|e| e.bits).collect();
        assert_eq!(bits, [1024, 8, 6, 4]);
    }

    #[test]
    fn a_sample_of_bytes_is_scaled_up() {
        // Every element of a quarter is there, so masks of 1/32 and a quarter of the raw bytes.
        let raw: Vec<u8> = (0..1u32 << 18).flat_map(|i| (u32::from(i % 4 == 0) * 77).to_le_bytes()).collect();
        let raw_bits = raw.len() as f64 * 8.0;
        let source = Payload::from_memory(HostBuffer::from(raw).all());
        let algorithms = AlgorithmSet::from_iter([Algorithm::Zvc]);
        let (element, sample) = (Element::U32, SampleSize::Bytes(32 << 10));
        let Ok(Output::Estimates(estimates)) = run(Work::Estimate { source, element, algorithms, sample })
        else {
            panic!("no estimates")
        };
        let [Estimate { algorithm: Algorithm::Zvc, bits }] = estimates[..] else { panic!("{estimates:?}") };
        let fraction = bits as f64 / raw_bits;
        assert!((fraction - (0.25 + 1.0 / 32.0)).abs() < 0.005, "{fraction}");
    }
}
