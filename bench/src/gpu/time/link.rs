//! From the device to pinned memory of the host and back, compressed on the way.
//!
//! A buffer travels in pieces, so that kernels work on one while another is on the link. On the way to the host, how
//! much of a piece is to be copied is known only when its kernel has ended, so the host waits for each in turn. Kernels leave
//! that in memory of the host: a copy of it would wait for those of pieces on the link.
#![allow(unsafe_code)] // words that kernels write

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{
    Buffer, Coder, Compress, Decompress, Device, DeviceCodebook, DeviceError, Pinned, Region, Status, Stream,
    Word, Workspace, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;

use super::clock::{Clock, median};
use super::{Place, TimeError};
use crate::gpu::data::Dataset;
use crate::gpu::report::{Linked, rounded};

/// A buffer travels in so many, if that leaves them long enough.
const PIECES: usize = 16;
const MIN_PIECE_BYTES: usize = 2 << 20;
/// Words of a piece: length and status of its frame, and status of decoding it.
const WORDS: usize = 3;
const WORD_BYTES: u64 = 8;
/// Pieces under way at a time.
const LANES: usize = 4;

/// Times buffer 0 of `place` both ways.
pub(super) fn time(
    device: &Device,
    algorithm: Algorithm,
    dataset: &Dataset,
    place: &Place,
    rounds: usize,
) -> Result<Linked, TimeError> {
    let (road, mut traffic) = Road::new(device, algorithm, place)?;
    let clock = Clock::new(device)?;
    place.poison(&clock.stream)?;
    clock.stream.wait()?;
    let coded_bytes = road.travel(&clock, &mut traffic)?;
    road.check(&clock.stream)?;
    // Medians of the way to the host, plain and compressed, and back.
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let all = [
            road.plain_out(&clock)?,
            road.out(&clock, &mut traffic)?,
            road.plain_in(&clock)?,
            road.back(&clock, &mut traffic)?,
        ];
        times.iter_mut().zip(all).for_each(|(times, seconds)| times.push(seconds));
    }
    // The plain copy left the right answer.
    place.poison(&clock.stream)?;
    clock.stream.wait()?;
    road.travel(&clock, &mut traffic)?;
    road.check(&clock.stream)?;
    let mut gbps = times.iter_mut().map(|times| rounded(place.bytes as f64 / median(times).max(1e-12) / 1e9));
    let mut next = || gbps.next().unwrap_or_default();
    Ok(Linked {
        subject: algorithm.name(),
        dataset: dataset.label.clone(),
        element: dataset.element.name(),
        bytes: place.bytes,
        pieces: road.pieces,
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
    coded: Buffer,
    words: Pinned,
    host: Pinned,
    pieces: usize,
    piece_bytes: usize,
    stride: u64,
}

/// What is under way.
struct Traffic {
    lanes: Vec<Lane>,
    /// Lengths of the frames that lie at the host.
    lens: Vec<u64>,
}

/// What one piece at a time uses.
struct Lane {
    stream: Stream,
    workspace: Workspace<'static>,
}

impl<'a> Road<'a> {
    fn new(device: &Device, algorithm: Algorithm, place: &'a Place) -> Result<(Self, Traffic), TimeError> {
        let coder = device.coder(algorithm, ChunkSize::DEFAULT)?;
        let piece_bytes = place.bytes.div_ceil(PIECES).max(MIN_PIECE_BYTES).next_multiple_of(256);
        let pieces = place.bytes.div_ceil(piece_bytes);
        let stride = coder.max_frame_len(piece_bytes as u64).next_multiple_of(256);
        let lane = || {
            let stream = device.stream()?;
            let workspace =
                device.workspace(&stream, workspace_len(coder.chunk_size(), &[piece_bytes as u64]))?;
            Ok::<_, DeviceError>(Lane { stream, workspace })
        };
        let lanes = (0..LANES).map(|_| lane()).collect::<Result<_, _>>()?;
        let codebook = place.codebook(device, &device.stream()?, algorithm)?;
        let traffic = Traffic { lanes, lens: vec![0; pieces] };
        let room = pieces as u64 * stride;
        let road = Self {
            coded: device.alloc(room)?,
            words: device.alloc_pinned(pieces as u64 * WORD_BYTES * WORDS as u64)?,
            host: device.alloc_pinned(room)?,
            place,
            coder,
            codebook,
            pieces,
            piece_bytes,
            stride,
        };
        Ok((road, traffic))
    }

    /// There and back, compressed; returns the bytes on the link one way.
    fn travel(&self, clock: &Clock, traffic: &mut Traffic) -> Result<u64, TimeError> {
        self.out(clock, traffic)?;
        self.back(clock, traffic)?;
        Ok(traffic.lens.iter().sum())
    }

    /// Fails unless every kernel accepted its piece and the buffer came back.
    fn check(&self, stream: &Stream) -> Result<(), TimeError> {
        for piece in 0..self.pieces {
            for at in [1, 2] {
                let status = Status::from_word(self.found(piece, at));
                status.check().map_err(|refused| TimeError::Refused { set: piece, refused })?;
            }
        }
        self.place.compare_first(stream)
    }

    /// Seconds to the host without a codec.
    fn plain_out(&self, clock: &Clock) -> Result<f64, TimeError> {
        let bytes = self.place.bytes as u64;
        let host = self.host.region().slice(0..bytes);
        Ok(clock.time(|stream| stream.copy(self.place.raw(0), host))?.as_secs_f64())
    }

    /// Seconds to the device without a codec.
    fn plain_in(&self, clock: &Clock) -> Result<f64, TimeError> {
        let host = self.host.region().slice(0..self.place.bytes as u64);
        Ok(clock.time(|stream| stream.copy(host, self.place.back(0)))?.as_secs_f64())
    }

    /// Seconds to the host, compressed.
    fn out(&self, clock: &Clock, traffic: &mut Traffic) -> Result<f64, TimeError> {
        let Traffic { lanes, lens } = traffic;
        let time = clock.time(|stream| {
            lanes.iter().try_for_each(|lane| lane.stream.follow(stream))?;
            for ahead in 0..self.pieces.min(LANES - 1) {
                self.compress(ahead, &mut lanes[ahead % LANES])?;
            }
            for piece in 0..self.pieces {
                let ahead = piece + LANES - 1;
                if ahead < self.pieces {
                    self.compress(ahead, &mut lanes[ahead % LANES])?;
                }
                let lane = &lanes[piece % LANES].stream;
                lane.wait()?;
                let len = self.found(piece, 0).min(self.stride);
                lane.copy(self.frame(piece).slice(0..len), self.host_frame(piece))?;
                lens[piece] = len;
            }
            lanes.iter().try_for_each(|lane| stream.follow(&lane.stream))
        })?;
        Ok(time.as_secs_f64())
    }

    /// Seconds to the device, compressed.
    fn back(&self, clock: &Clock, traffic: &mut Traffic) -> Result<f64, TimeError> {
        let Traffic { lanes, lens } = traffic;
        let time = clock.time(|stream| {
            lanes.iter().try_for_each(|lane| lane.stream.follow(stream))?;
            for (piece, &len) in lens.iter().enumerate() {
                let Lane { stream, workspace } = &mut lanes[piece % LANES];
                let (src, status) = (self.frame(piece).slice(0..len), self.word(piece, 2));
                stream.copy(self.host_frame(piece).slice(0..len), src)?;
                let dst = self.part(self.place.back(0), piece);
                let job = Decompress { src, src_len: None, dst, status };
                self.coder.decompress(stream, workspace, &[job])?;
            }
            lanes.iter().try_for_each(|lane| stream.follow(&lane.stream))
        })?;
        Ok(time.as_secs_f64())
    }

    fn compress(&self, piece: usize, lane: &mut Lane) -> Result<(), DeviceError> {
        let job = Compress {
            element: self.place.element,
            src: self.part(self.place.raw(0), piece),
            dst: self.frame(piece),
            codebook: self.codebook.as_ref(),
            len: self.word(piece, 0),
            status: self.word(piece, 1),
        };
        self.coder.compress(&lane.stream, &mut lane.workspace, &[job])
    }

    /// The part of a buffer that is piece `piece`.
    fn part<'b>(&self, whole: Region<'b>, piece: usize) -> Region<'b> {
        let start = (piece * self.piece_bytes) as u64;
        whole.slice(start..whole.len().min(start + self.piece_bytes as u64))
    }

    fn frame(&self, piece: usize) -> Region<'_> {
        let start = piece as u64 * self.stride;
        self.coded.slice(start..start + self.stride)
    }

    fn host_frame(&self, piece: usize) -> Region<'_> {
        let start = piece as u64 * self.stride;
        self.host.region().slice(start..start + self.stride)
    }

    /// Length and status of a piece's frame, and status of decoding it.
    fn word(&self, piece: usize, at: usize) -> Word<'_> {
        self.words.region().word(WORD_BYTES * (WORDS * piece + at) as u64)
    }

    /// What a kernel has left there, which has ended.
    fn found(&self, piece: usize, at: usize) -> u64 {
        // SAFETY: the memory has so many words, on a multiple of 8; the kernel that writes this one was waited for.
        unsafe { self.words.as_ptr().cast::<u64>().add(WORDS * piece + at).read_volatile() }
    }
}
