//! What leaves a device for the host and comes back, as programs do it: by the library's queue, compressed and raw.

use std::time::Instant;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Device, Stream};
use mgcomp_selector::{Fixed, PolicySpec};
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadQueue};
use mgcomp_transport::copy::{CopyConfig, CopyReport};
use mgcomp_transport::memory::DeviceBuffer;

use super::clock::median;
use super::{Place, TimeError};
use crate::gpu::data::Dataset;
use crate::gpu::report::{Offloaded, rounded};

/// Raw bytes of a segment: long enough for a device to have work.
const SEGMENT_BYTES: usize = 4 << 20;

/// Times buffer 0 of `place`.
pub(super) fn time(
    device: &Device,
    algorithm: Algorithm,
    dataset: &Dataset,
    place: &Place,
    rounds: usize,
) -> Result<Offloaded, TimeError> {
    let needed = 3 * place.bytes as u64;
    let has = device.info().memory_bytes;
    if needed > has {
        return Err(TimeError::Memory { needed, has });
    }
    let policy = Fixed::try_new(algorithm).unwrap_or(Fixed::BYPASS);
    let queues = [queue(Fixed::BYPASS, place.bytes)?, queue(policy, place.bytes)?];
    let (memory, stream) = (DeviceBuffer::alloc(device, place.bytes)?, device.stream()?);
    let mut road = Road { place, memory, stream };
    let mut report = None;
    // Out and back, raw and compressed.
    let mut times = [const { Vec::new() }; 4];
    for round in 0..=rounds {
        for (way, queue) in queues.iter().enumerate() {
            let (seconds, of_round) = road.travel(queue)?;
            // The first time there is much to allocate.
            if round > 0 {
                times[2 * way].push(seconds[0]);
                times[2 * way + 1].push(seconds[1]);
            }
            report = Some(of_round);
        }
    }
    let mut gbps = times.iter_mut().map(|times| rounded(place.bytes as f64 / median(times).max(1e-12) / 1e9));
    let mut next = || gbps.next().unwrap_or_default();
    let ratio = report.map_or(1.0, |report| report.raw_bytes as f64 / report.coded_bytes.max(1) as f64);
    Ok(Offloaded {
        subject: algorithm.name(),
        dataset: dataset.label.clone(),
        element: dataset.element.name(),
        bytes: place.bytes,
        rounds,
        ratio: rounded(ratio),
        offload_raw_gbps: next(),
        return_raw_gbps: next(),
        offload_gbps: next(),
        return_gbps: next(),
    })
}

/// One for which there is enough host memory.
fn queue(policy: Fixed, bytes: usize) -> Result<OffloadQueue, TimeError> {
    let copy = CopyConfig { segment_bytes: SEGMENT_BYTES, ..CopyConfig::default() };
    let host_bytes = 2 * bytes as u64 + (16 << 20);
    Ok(OffloadQueue::start(OffloadConfig::new(copy, PolicySpec::Fixed(policy), host_bytes))?)
}

struct Road<'a> {
    place: &'a Place,
    memory: DeviceBuffer,
    stream: Stream,
}

impl Road<'_> {
    /// Seconds out and back, with a look at what has come back.
    fn travel(&mut self, queue: &OffloadQueue) -> Result<([f64; 2], CopyReport), TimeError> {
        let (place, slice) = (self.place, self.memory.all());
        self.stream.copy(place.raw(0), slice.region())?;
        self.stream.wait()?;
        let started = Instant::now();
        let ticket = queue.offload(slice.clone(), place.element)?;
        let report = queue.wait(ticket)?;
        let out = started.elapsed();
        self.stream.zero(slice.region())?;
        self.stream.wait()?;
        let started = Instant::now();
        queue.prefetch(ticket, slice.clone())?.wait()?;
        let back = started.elapsed();
        self.stream.copy(slice.region(), place.back(0))?;
        place.compare_first(&self.stream)?;
        Ok(([out.as_secs_f64(), back.as_secs_f64()], report))
    }
}
