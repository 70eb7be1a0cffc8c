//! The executor for host memory: a few threads that take work off one queue.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bytes::Bytes;
use mgcomp_codecs::frame::{ChunkSize, Frame, Options, encode_into, sampled_frame_len};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element, codec, paper_bits};
use mgcomp_selector::{Estimate, SampleSize};

use super::{Done, DoneSink, Executor, Output, Ticket, Work};
use crate::memory::HostSlice;
use crate::message::Status;
use crate::payload::Payload;

/// Codec threads for host memory.
pub struct HostExecutor {
    queue: Option<Sender<(Ticket, Work)>>,
    /// Set when nobody wants what is still queued.
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl HostExecutor {
    /// Starts `threads` threads that report to `sink`. Frames carry checksums if `checksum` says so.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(threads: usize, checksum: bool, sink: &DoneSink) -> io::Result<Self> {
        let (queue, work) = mpsc::channel();
        let (work, stopped) = (Arc::new(Mutex::new(work)), Arc::<AtomicBool>::default());
        let spawn = |i| {
            let (work, stopped, sink) = (work.clone(), stopped.clone(), sink.clone());
            let mut worker = Worker { work, stopped, sink, checksum, scratch: Vec::new() };
            thread::Builder::new().name(format!("mgcomp-codec-{i}")).spawn(move || worker.run())
        };
        let threads = (0..threads.max(1)).map(spawn).collect::<io::Result<_>>()?;
        Ok(Self { queue: Some(queue), stopped, threads })
    }
}

impl Executor for HostExecutor {
    fn submit(&self, ticket: Ticket, work: Work) {
        if let Some(queue) = &self.queue {
            // Workers outlive the queue: sending fails only after they were told to stop.
            let _ = queue.send((ticket, work));
        }
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
    work: Arc<Mutex<Receiver<(Ticket, Work)>>>,
    stopped: Arc<AtomicBool>,
    sink: DoneSink,
    checksum: bool,
    /// Raw bytes of a frame before they are known to be good.
    scratch: Vec<u8>,
}

impl Worker {
    fn run(&mut self) {
        loop {
            let next = self.work.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((ticket, work)) = next else { return };
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            let started = Instant::now();
            // A defect in a codec must not take the job down with it, nor leave a request without an end.
            let result =
                catch_unwind(AssertUnwindSafe(|| self.carry_out(work))).unwrap_or(Err(Status::Internal));
            (self.sink)(Done { ticket, took: started.elapsed(), result });
        }
    }

    fn carry_out(&mut self, work: Work) -> Result<Output, Status> {
        match work {
            Work::Estimate { source, element, algorithms, sample } => {
                let source = source.memory().ok_or(Status::Internal)?;
                Ok(Output::Estimates(source.read(|raw| estimate(raw, element, algorithms, sample))))
            }
            Work::Encode { source, element, algorithm } => {
                let source = source.memory().ok_or(Status::Internal)?;
                let (algorithm, bytes) = self.encode(source, element, algorithm)?;
                Ok(Output::Encoded(algorithm, Payload::from_bytes(bytes)))
            }
            Work::Decode { payload, algorithm, destination } => {
                let payload = payload.bytes().ok_or(Status::Internal)?;
                let destination = destination.memory().ok_or(Status::Internal)?;
                self.decode(payload, algorithm, destination)?;
                Ok(Output::Decoded)
            }
        }
    }

    fn encode(
        &self,
        source: &HostSlice,
        element: Element,
        algorithm: Algorithm,
    ) -> Result<(Algorithm, Bytes), Status> {
        let raw = |raw: &[u8]| (Algorithm::None, Bytes::copy_from_slice(raw));
        if algorithm == Algorithm::None {
            return Ok(source.read(raw));
        }
        let codec = codec(algorithm).ok_or(Status::UnsupportedAlgorithm)?;
        let options = Options { chunk_size: ChunkSize::for_len(source.len()), checksum: self.checksum };
        source.read(|bytes| {
            let mut frame = Vec::new();
            encode_into(codec, element, bytes, options, &mut frame, &|_| {}).map_err(|_| Status::TooLong)?;
            // Never more bytes than without mgcomp.
            Ok(if frame.len() < bytes.len() { (algorithm, Bytes::from(frame)) } else { raw(bytes) })
        })
    }

    fn decode(&mut self, payload: &Bytes, algorithm: Algorithm, into: &HostSlice) -> Result<(), Status> {
        if algorithm == Algorithm::None {
            if payload.len() != into.len() {
                return Err(Status::BadPayload);
            }
            into.write(|raw| raw.copy_from_slice(payload));
            return Ok(());
        }
        if codec(algorithm).is_none() {
            return Err(Status::UnsupportedAlgorithm);
        }
        let frame = Frame::parse(payload).map_err(|_| Status::BadPayload)?;
        if frame.header().algorithm != algorithm || frame.header().raw_len != into.len() as u64 {
            return Err(Status::BadPayload);
        }
        // Decode aside first: a frame that turns out bad halfway must leave the destination as it was.
        self.scratch.resize(into.len(), 0);
        frame.decode_into(&mut self.scratch).map_err(|error| {
            tracing::warn!(%error, "payload does not decode");
            Status::BadPayload
        })?;
        into.write(|raw| raw.copy_from_slice(&self.scratch));
        Ok(())
    }
}

fn estimate(raw: &[u8], element: Element, algorithms: AlgorithmSet, sample: SampleSize) -> Vec<Estimate> {
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
    use super::*;
    use crate::memory::HostBuffer;

    /// Runs one piece of work on a fresh executor.
    fn run(work: Work) -> Result<Output, Status> {
        let (report, reports) = mpsc::channel();
        let sink: DoneSink = Arc::new(move |done| report.send(done).unwrap());
        let executor = HostExecutor::start(1, true, &sink).unwrap();
        executor.submit(Ticket(7), work);
        let done = reports.recv().unwrap();
        assert_eq!(done.ticket, Ticket(7));
        done.result
    }

    fn encode(raw: &[u8], algorithm: Algorithm) -> (Algorithm, Payload) {
        let source = Payload::from_memory(HostBuffer::from(raw.to_vec()).all());
        match run(Work::Encode { source, element: Element::U32, algorithm }) {
            Ok(Output::Encoded(algorithm, payload)) => (algorithm, payload),
            other => panic!("{other:?}"),
        }
    }

    fn decode(payload: Payload, algorithm: Algorithm, len: usize) -> Result<Vec<u8>, (Status, Vec<u8>)> {
        let buffer = HostBuffer::from(vec![0xee; len]);
        let destination = Payload::from_memory(buffer.all());
        match run(Work::Decode { payload, algorithm, destination }) {
            Ok(Output::Decoded) => Ok(buffer.all().to_vec()),
            Err(status) => Err((status, buffer.all().to_vec())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn compressible_bytes_shrink_and_come_back() {
        let raw: Vec<u8> = (0..5000u32).flat_map(u32::to_le_bytes).collect();
        let (algorithm, payload) = encode(&raw, Algorithm::Bdi);
        assert_eq!(algorithm, Algorithm::Bdi);
        assert!(payload.coded_len().unwrap() < raw.len() as u64 / 2);
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
