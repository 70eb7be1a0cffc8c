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
use super::{Accepted, Done, DoneSink, Executor, Output, Ticket, Work};
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

    /// The memory of work that is to be done at once, held for it.
    fn hold_at_once(&self, work: &Work) -> Option<Memory> {
        if !self.threads.is_empty() && !self.workbench.paces.is_brief(work) {
            return None;
        }
        read(&self.waiting).hold_for(work, Memory::try_hold).ok()
    }

    /// Leaves work to the threads, or to who resumes it.
    fn put_off(&self, ticket: Ticket, work: Work) {
        if self.threads.is_empty() {
            write(&self.waiting).push(ticket, work);
        } else if let Some(queue) = &self.queue {
            // Workers outlive the queue: sending fails only after they were told to stop.
            let _ = queue.send((ticket, work));
        }
    }
}

/// Short work that is left to whoever has handed it in, with its memory held for it.
pub struct Brief {
    ticket: Ticket,
    work: Work,
    memory: Memory,
    workbench: Workbench,
}

impl Brief {
    /// Does it.
    #[must_use]
    pub fn carry_out(self) -> Done {
        let Self { ticket, work, memory, mut workbench } = self;
        workbench.carry_out(ticket, &work, memory)
    }
}

impl Executor for HostExecutor {
    fn submit(&mut self, ticket: Ticket, work: Work) -> Option<Done> {
        if let Some(memory) = self.hold_at_once(&work) {
            return Some(self.workbench.carry_out(ticket, &work, memory));
        }
        self.put_off(ticket, work);
        None
    }

    fn accept(&mut self, ticket: Ticket, work: Work) -> Accepted {
        if let Some(memory) = self.hold_at_once(&work) {
            return Accepted::Brief(Brief { ticket, work, memory, workbench: self.workbench.another() });
        }
        self.put_off(ticket, work);
        Accepted::Taken
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
mod tests;
