//! A codec as programs use it: whole frames, into memory that is there already.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mgcomp_codecs::frame::{Frame, Header, Options, Workers, estimated_frame_len, frame_len, max_frame_len};
use mgcomp_codecs::{Algorithm, Codec, Cpu, Element, codec_on};

use super::{Candidate, CandidateError};
use crate::timing::{Buffer, bring_back, lockstep};

/// A codec on one instruction set, and a frame of its making.
pub(crate) struct Framed {
    cpu: Cpu,
    codec: &'static dyn Codec,
    element: Element,
    options: Options,
    workers: Workers,
    room: Buffer,
    coded_len: usize,
}

impl Framed {
    /// For buffers of up to `raw_len` bytes.
    ///
    /// # Panics
    /// If this version has no codec for `algorithm`.
    pub(crate) fn new(
        cpu: Cpu,
        algorithm: Algorithm,
        element: Element,
        raw_len: usize,
        options: Options,
        threads: usize,
    ) -> Result<Self, CandidateError> {
        let codec = codec_on(cpu, algorithm).expect("an algorithm that has a codec");
        let bytes = max_frame_len(raw_len, options);
        let room = Buffer::new(bytes).map_err(|source| CandidateError::Buffer { bytes, source })?;
        Ok(Self { cpu, codec, element, options, workers: Workers::new(threads)?, room, coded_len: 0 })
    }

    /// The same codec and memory for other data. What is needed of the memory is there.
    pub(crate) fn fit(
        &mut self,
        element: Element,
        raw_len: usize,
        options: Options,
    ) -> Result<(), CandidateError> {
        let bytes = max_frame_len(raw_len, options);
        if self.room.len() < bytes {
            self.room = Buffer::new(bytes).map_err(|source| CandidateError::Buffer { bytes, source })?;
        }
        bring_back(&self.room[..bytes]);
        (self.element, self.options, self.coded_len) = (element, options, 0);
        Ok(())
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.codec.algorithm()
    }

    /// A codec that learns from the buffer: one thread looks at all of it, for its shares would learn otherwise.
    fn estimate_fitted(&self, raw: &[u8], calls: usize) -> (Duration, u64) {
        let Self { codec, element, options, .. } = *self;
        let start = Instant::now();
        let len = (0..calls).map(|_| frame_len(codec, element, black_box(raw), options)).last();
        (start.elapsed(), len.unwrap_or_default())
    }

    /// Header and chunk table of a frame of `raw_len` bytes.
    fn front_len(&self, raw_len: usize) -> u64 {
        let Options { chunk_size, checksum } = self.options;
        let (algorithm, element) = (self.codec.algorithm(), self.element);
        let raw_len = raw_len as u64;
        Header { algorithm, element, checksum, codebook: false, chunk_size, raw_len }.table_end() as u64
    }
}

impl Candidate for Framed {
    fn encode(&mut self, raw: &[u8], calls: usize) -> Result<Duration, CandidateError> {
        let Self { codec, element, options, workers, room, .. } = self;
        let start = Instant::now();
        for _ in 0..calls {
            self.coded_len = workers.encode_to(*codec, *element, raw, *options, room, &|_| {})?;
            black_box(&room);
        }
        Ok(start.elapsed())
    }

    fn decode(&mut self, raw: &mut [u8], calls: usize) -> Result<Duration, CandidateError> {
        let start = Instant::now();
        for _ in 0..calls {
            let frame = Frame::parse(&self.room[..self.coded_len])?.on(self.cpu);
            self.workers.decode_into(&frame, raw)?;
            black_box(&raw);
        }
        Ok(start.elapsed())
    }

    fn estimate(&mut self, raw: &[u8], calls: usize) -> Option<(Duration, u64)> {
        let Self { codec, element, options, .. } = *self;
        if codec.fitted(element, raw, usize::MAX).is_some() {
            return Some(self.estimate_fitted(raw, calls));
        }
        let share = raw.len().div_ceil(self.workers.threads()).next_multiple_of(options.chunk_size.bytes());
        let mut lens = vec![0; raw.len().div_ceil(share)];
        let tasks = raw.chunks(share).zip(&mut lens).collect();
        let time = lockstep(tasks, calls, |(share, len): &mut (&[u8], &mut u64)| {
            **len = frame_len(codec, element, black_box(share), options);
        });
        // Each share counted as a frame of its own.
        let fronts: u64 = raw.chunks(share).map(|share| self.front_len(share.len())).sum();
        Some((time, lens.iter().sum::<u64>() - fronts + self.front_len(raw.len())))
    }

    fn sample(&mut self, raw: &[u8], calls: usize) -> Option<(Duration, u64)> {
        let mut len = 0;
        let start = Instant::now();
        for _ in 0..calls {
            len = estimated_frame_len(self.codec, self.element, black_box(raw), self.options);
        }
        Some((start.elapsed(), len))
    }

    fn coded_len(&self) -> u64 {
        self.coded_len as u64
    }
}
