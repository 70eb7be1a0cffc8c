//! How fast maps are offloaded and brought back over a simulated link, beside codecs alone on as many threads.

use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mgcomp_codecs::frame::{ChunkSize, Frame, FrameError, Options, encode_to, max_frame_len};
use mgcomp_codecs::{Algorithm, Codec, Element, codec};
use mgcomp_selector::{Fixed, PolicySpec};
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadError, OffloadQueue};
use mgcomp_transport::copy::{CopyConfig, CopyError};
use mgcomp_transport::memory::HostBuffer;

use super::Args;
use super::maps::Map;
use crate::data::tile;
use crate::error::BenchError;
use crate::timing::lockstep;

/// Bytes of a buffer: an activation of a layer.
const BUFFER_BYTES: usize = 4 << 20;
/// Rounds that there are at least.
const LEAST_ROUNDS: usize = 3;

/// Rates in 10⁹ uncompressed bytes per second; the link, of what goes over it.
#[derive(Clone, Debug)]
pub(super) struct Throughput {
    pub(super) label: String,
    pub(super) algorithm: Algorithm,
    pub(super) threads: usize,
    pub(super) raw_bytes: u64,
    pub(super) ratio: f64,
    pub(super) link: f64,
    pub(super) encode: f64,
    pub(super) decode: f64,
    pub(super) raw: f64,
    pub(super) offload: f64,
    pub(super) prefetch: f64,
}

impl Throughput {
    /// The most that offloading can reach.
    pub(super) fn most_offload(&self) -> f64 {
        self.encode.min(self.ratio * self.link)
    }

    pub(super) fn most_prefetch(&self) -> f64 {
        self.decode.min(self.ratio * self.link)
    }
}

/// Measures `algorithm` on buffers filled with `map`.
pub(super) fn measure(map: &Map, algorithm: Algorithm, args: &Args) -> Result<Throughput, BenchError> {
    let name = algorithm.name();
    let offload_failed = |source| BenchError::Offload { map: map.label.clone(), algorithm: name, source };
    let frame_failed =
        |source| BenchError::Frame { path: PathBuf::from(&map.label), algorithm: name, source };
    let buffers = Buffers::new(map, args.bytes);
    let mut alone = Alone::new(&buffers, algorithm, map.element, usize::from(args.threads));
    let queue = |algorithm| buffers.queue(args, algorithm, map.element).map_err(offload_failed);
    let (raw, compressed) = (queue(Algorithm::None)?, queue(algorithm)?);
    let mut best = [Duration::MAX; 5];
    let (started, mut rounds) = (Instant::now(), 0);
    while rounds < LEAST_ROUNDS || started.elapsed() < args.seconds {
        let (raw, _) = raw.round().map_err(offload_failed)?;
        let (encode, decode) = alone.round().map_err(frame_failed)?;
        let (offload, prefetch) = compressed.round().map_err(offload_failed)?;
        for (best, time) in best.iter_mut().zip([raw, encode, decode, offload, prefetch]) {
            *best = time.min(*best);
        }
        rounds += 1;
    }
    raw.check(Algorithm::None, &map.label)?;
    compressed.check(algorithm, &map.label)?;
    alone.check(&map.label)?;
    let raw_bytes = buffers.bytes();
    let rate = |time: Duration| raw_bytes as f64 / time.as_nanos().max(1) as f64;
    let [raw, encode, decode, offload, prefetch] = best.map(rate);
    let (label, threads) = (map.label.clone(), usize::from(args.threads));
    let (ratio, link) = (compressed.ratio(), args.link);
    Ok(Throughput {
        label,
        algorithm,
        threads,
        raw_bytes,
        ratio,
        link,
        encode,
        decode,
        raw,
        offload,
        prefetch,
    })
}

/// What is offloaded.
struct Buffers {
    sources: Vec<HostBuffer>,
}

impl Buffers {
    fn new(map: &Map, bytes: usize) -> Self {
        let width = map.element.width_bytes();
        let mut all = vec![0; (bytes / width).max(1) * width];
        tile(&map.nchw, width, &mut all);
        Self { sources: all.chunks(BUFFER_BYTES).map(|part| HostBuffer::from(part.to_vec())).collect() }
    }

    fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.len() as u64).sum()
    }

    fn queue(&self, args: &Args, algorithm: Algorithm, element: Element) -> Result<Queue<'_>, OffloadError> {
        let rates = CopyConfig::simulated(args.link).map_err(CopyError::from)?;
        let copy = CopyConfig { codec_threads: args.threads.into(), ..rates };
        // The bench names no algorithm without a codec.
        let policy = Fixed::try_new(algorithm).map_or_else(|_| PolicySpec::default(), PolicySpec::Fixed);
        // Room for all of it raw.
        let queue = OffloadQueue::start(OffloadConfig::new(copy, policy, 2 * self.bytes() + (1 << 20)))?;
        let into = self.sources.iter().map(|source| HostBuffer::zeroed(source.len())).collect();
        Ok(Queue { queue, element, sources: &self.sources, into })
    }
}

/// A queue, and where what it brings back goes.
struct Queue<'a> {
    queue: OffloadQueue,
    element: Element,
    sources: &'a [HostBuffer],
    into: Vec<HostBuffer>,
}

impl Queue<'_> {
    /// Offloads everything, then brings it back; returns how long each took.
    fn round(&self) -> Result<(Duration, Duration), OffloadError> {
        let started = Instant::now();
        let offload = |source: &HostBuffer| self.queue.offload(source.all(), self.element);
        let tickets = self.sources.iter().map(offload).collect::<Result<Vec<_>, _>>()?;
        for ticket in &tickets {
            self.queue.wait(*ticket)?;
        }
        let offload = started.elapsed();
        let started = Instant::now();
        let prefetch = |(ticket, into): (_, &HostBuffer)| self.queue.prefetch(ticket, into.all());
        let copies = tickets.into_iter().zip(&self.into).map(prefetch).collect::<Result<Vec<_>, _>>()?;
        for copy in copies {
            copy.wait()?;
        }
        Ok((offload, started.elapsed()))
    }

    /// Compares what came back.
    fn check(&self, algorithm: Algorithm, label: &str) -> Result<(), BenchError> {
        for (source, into) in self.sources.iter().zip(&self.into) {
            compare(&source.all().hold(), &into.all().hold(), (algorithm, label))?;
        }
        Ok(())
    }

    fn ratio(&self) -> f64 {
        let stats = self.queue.stats();
        stats.raw_bytes as f64 / stats.coded_bytes.max(1) as f64
    }
}

fn compare(sent: &[u8], back: &[u8], (algorithm, label): (Algorithm, &str)) -> Result<(), BenchError> {
    match sent.iter().zip(back).position(|(sent, back)| sent != back) {
        Some(offset) => {
            Err(BenchError::RoundTrip { path: label.into(), algorithm: algorithm.name(), offset })
        }
        None => Ok(()),
    }
}

/// The codec on the same segments, from memory to memory, each thread an equal share.
struct Alone<'a> {
    shares: Vec<Share<'a>>,
    algorithm: Algorithm,
    element: Element,
}

/// What one thread works on.
#[derive(Default)]
struct Share<'a> {
    segments: Vec<Segment<'a>>,
    /// The frames, one behind the other.
    frames: Vec<u8>,
    decoded: Vec<u8>,
}

struct Segment<'a> {
    source: &'a HostBuffer,
    raw: Range<usize>,
    frame: Range<usize>,
}

/// As copies cut and check their segments.
fn layout(raw_bytes: usize) -> Options {
    Options { chunk_size: ChunkSize::for_len(raw_bytes), checksum: CopyConfig::default().checksum }
}

impl<'a> Alone<'a> {
    fn new(buffers: &'a Buffers, algorithm: Algorithm, element: Element, threads: usize) -> Self {
        let len = CopyConfig::default().segment_bytes;
        let mut shares: Vec<Share<'a>> = (0..threads).map(|_| Share::default()).collect();
        let starts = buffers
            .sources
            .iter()
            .flat_map(|source| (0..source.len()).step_by(len).map(move |start| (source, start)));
        for (index, (source, start)) in starts.enumerate() {
            shares[index % threads].add(source, start..source.len().min(start + len));
        }
        Self { shares, algorithm, element }
    }

    fn round(&mut self) -> Result<(Duration, Duration), FrameError> {
        let codec = codec(self.algorithm).ok_or(FrameError::Unsupported(self.algorithm))?;
        let element = self.element;
        let encode = self.time(|share| share.encode(codec, element))?;
        let decode = self.time(Share::decode)?;
        Ok((encode, decode))
    }

    /// Compares what was decoded.
    fn check(&self, label: &str) -> Result<(), BenchError> {
        for share in &self.shares {
            let mut rest = &share.decoded[..];
            for Segment { source, raw, .. } in &share.segments {
                let (decoded, behind) = rest.split_at(raw.len());
                compare(&source.all().hold()[raw.clone()], decoded, (self.algorithm, label))?;
                rest = behind;
            }
        }
        Ok(())
    }

    /// How long `work` on all shares takes.
    fn time(
        &mut self,
        work: impl Fn(&mut Share<'a>) -> Result<(), FrameError> + Sync,
    ) -> Result<Duration, FrameError> {
        let mut outcomes: Vec<Result<(), FrameError>> = self.shares.iter().map(|_| Ok(())).collect();
        let tasks = self.shares.iter_mut().zip(&mut outcomes).collect();
        let took = lockstep(tasks, 1, |(share, outcome): &mut (&mut Share<'a>, &mut Result<_, _>)| {
            **outcome = work(share);
        });
        outcomes.into_iter().collect::<Result<(), _>>()?;
        Ok(took)
    }
}

impl<'a> Share<'a> {
    fn add(&mut self, source: &'a HostBuffer, raw: Range<usize>) {
        let room = max_frame_len(raw.len(), layout(raw.len()));
        self.frames.resize(self.frames.len() + room, 0);
        self.decoded.resize(self.decoded.len() + raw.len(), 0);
        self.segments.push(Segment { source, raw, frame: 0..0 });
    }

    fn encode(&mut self, codec: &dyn Codec, element: Element) -> Result<(), FrameError> {
        let mut end = 0;
        for Segment { source, raw, frame } in &mut self.segments {
            let raw = &source.all().hold()[raw.clone()];
            let len = encode_to(codec, element, raw, layout(raw.len()), &mut self.frames[end..])?;
            *frame = end..end + len;
            end += len;
        }
        Ok(())
    }

    fn decode(&mut self) -> Result<(), FrameError> {
        let mut rest = &mut self.decoded[..];
        for Segment { raw, frame, .. } in &self.segments {
            let (decoded, behind) = std::mem::take(&mut rest).split_at_mut(raw.len());
            Frame::parse(&self.frames[frame.clone()])?.decode_into(decoded)?;
            rest = behind;
        }
        Ok(())
    }
}
