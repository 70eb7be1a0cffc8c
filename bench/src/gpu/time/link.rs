//! From the device to pinned memory of the host and back, compressed on the way.
//!
//! One launch each way, as a program makes it that has frames in page-locked memory: the kernel that encodes stores its frame
//! there, the kernel that decodes reads it there. No thread has to hear of a length, and nothing is copied before or after.
#![allow(unsafe_code)] // words that kernels write

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{
    Coder, Compress, Decompress, Device, DeviceCodebook, DeviceError, Pinned, Status, Stream, Word,
    Workspace, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;

use super::clock::{Clock, median};
use super::{Place, TimeError};
use crate::gpu::data::Dataset;
use crate::gpu::report::{Linked, rounded};

/// What kernels leave of a frame: its length, the status of encoding it, and that of decoding it.
const WORDS: u64 = 3;
const WORD_BYTES: u64 = 8;

/// Times buffer 0 of `place` both ways.
pub(super) fn time(
    device: &Device,
    algorithm: Algorithm,
    dataset: &Dataset,
    place: &Place,
    rounds: usize,
) -> Result<Linked, TimeError> {
    let clock = Clock::new(device)?;
    let (road, mut workspace) = Road::new(device, &clock.stream, algorithm, place)?;
    let coded_bytes = road.travel_and_check(&clock, &mut workspace)?;
    // Medians of the way to the host, plain and compressed, and back.
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let all = [
            road.plain_out(&clock)?,
            road.out(&clock, &mut workspace)?,
            road.plain_in(&clock)?,
            road.back(&clock, &mut workspace)?,
        ];
        times.iter_mut().zip(all).for_each(|(times, seconds)| times.push(seconds));
    }
    road.travel_and_check(&clock, &mut workspace)?;
    road.check_plain(&clock)?;
    let mut gbps = times.iter_mut().map(|times| rounded(place.bytes as f64 / median(times).max(1e-12) / 1e9));
    let mut next = || gbps.next().unwrap_or_default();
    Ok(Linked {
        subject: algorithm.name(),
        dataset: dataset.label.clone(),
        element: dataset.element.name(),
        bytes: place.bytes,
        rounds,
        ratio: rounded(place.bytes as f64 / coded_bytes.max(1) as f64),
        to_host_plain_gbps: next(),
        to_host_gbps: next(),
        to_device_plain_gbps: next(),
        to_device_gbps: next(),
    })
}

/// All that travels.
struct Road<'a> {
    place: &'a Place,
    coder: Coder,
    codebook: Option<DeviceCodebook>,
    /// For raw bytes.
    plain: Pinned,
    frame: Pinned,
    words: Pinned,
}

impl<'a> Road<'a> {
    fn new(
        device: &Device,
        stream: &Stream,
        algorithm: Algorithm,
        place: &'a Place,
    ) -> Result<(Self, Workspace<'static>), TimeError> {
        let (coder, bytes) = (device.coder(algorithm, ChunkSize::DEFAULT)?, place.bytes as u64);
        let workspace = device.workspace(stream, workspace_len(coder.chunk_size(), &[bytes]))?;
        let road = Self {
            codebook: place.codebook(device, stream, algorithm)?,
            plain: device.alloc_pinned(bytes)?,
            frame: device.alloc_pinned(coder.max_frame_len(bytes))?,
            words: device.alloc_pinned(WORDS * WORD_BYTES)?,
            place,
            coder,
        };
        Ok((road, workspace))
    }

    /// There and back, compressed; returns the bytes on the link one way. Fails unless both kernels accept what they get and
    /// the buffer comes back.
    fn travel_and_check(&self, clock: &Clock, workspace: &mut Workspace<'_>) -> Result<u64, TimeError> {
        // Nothing that was there before must pass for an answer.
        self.forget(&clock.stream)?;
        self.out(clock, workspace)?;
        self.back(clock, workspace)?;
        for number in [1, 2] {
            let status = Status::from_word(self.found(number));
            status.check().map_err(|refused| TimeError::Refused { set: 0, refused })?;
        }
        self.place.compare_first(&clock.stream)?;
        Ok(self.found(0))
    }

    /// The same without a codec.
    fn check_plain(&self, clock: &Clock) -> Result<(), TimeError> {
        self.forget(&clock.stream)?;
        self.plain_out(clock)?;
        self.plain_in(clock)?;
        self.place.compare_first(&clock.stream)
    }

    fn forget(&self, stream: &Stream) -> Result<(), DeviceError> {
        [&self.plain, &self.frame, &self.words]
            .into_iter()
            .try_for_each(|memory| stream.zero(memory.region()))?;
        self.place.poison(stream)?;
        stream.wait()
    }

    /// Seconds to the host without a codec.
    fn plain_out(&self, clock: &Clock) -> Result<f64, DeviceError> {
        let copied = clock.time(|stream| stream.copy(self.place.raw(0), self.plain.region()));
        Ok(copied?.as_secs_f64())
    }

    /// Seconds to the device without a codec.
    fn plain_in(&self, clock: &Clock) -> Result<f64, DeviceError> {
        let copied = clock.time(|stream| stream.copy(self.plain.region(), self.place.back(0)));
        Ok(copied?.as_secs_f64())
    }

    /// Seconds to the host, compressed.
    fn out(&self, clock: &Clock, workspace: &mut Workspace<'_>) -> Result<f64, DeviceError> {
        let job = Compress {
            element: self.place.element,
            src: self.place.raw(0),
            dst: self.frame.region(),
            codebook: self.codebook.as_ref(),
            len: self.word(0),
            status: self.word(1),
        };
        Ok(clock.time(|stream| self.coder.compress(stream, workspace, &[job]))?.as_secs_f64())
    }

    /// Seconds to the device, compressed: of a frame whose length is known by now.
    fn back(&self, clock: &Clock, workspace: &mut Workspace<'_>) -> Result<f64, DeviceError> {
        let frame = self.frame.region();
        let src = frame.slice(0..self.found(0).min(frame.len()));
        let job = Decompress { src, src_len: None, dst: self.place.back(0), status: self.word(2) };
        Ok(clock.time(|stream| self.coder.decompress(stream, workspace, &[job]))?.as_secs_f64())
    }

    /// Length of the frame, status of encoding it, and status of decoding it.
    fn word(&self, number: u64) -> Word<'_> {
        self.words.region().word(WORD_BYTES * number)
    }

    /// What a kernel has left there, which was waited for.
    fn found(&self, number: u64) -> u64 {
        // SAFETY: the memory has so many words, on a multiple of 8, and nothing writes there any more.
        unsafe { self.words.as_ptr().cast::<u64>().add(number as usize).read_volatile() }
    }
}
