//! Kernels at both ends, and what they leave of each segment.
#![allow(unsafe_code)] // workspaces for any stream

use mgcomp_codecs::device::{
    Coder, Compress, Decompress, Device, DeviceError, Region, Status, Stream, Word, Workspace, workspace_len,
};
use mgcomp_codecs::frame::{ChunkSize, Options, max_frame_len};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use super::pipe::{Memory, Segment};
use super::report::PeerCopyError;

/// Words of a segment: the frame's length, the encoder's status, the decoder's.
const WORDS: u64 = 3;
const WORD_BYTES: u64 = 8;

/// The kernels of one algorithm at both ends.
#[derive(Debug)]
pub(super) struct Pair {
    algorithm: Algorithm,
    encoder: Coder,
    decoder: Coder,
}

/// The kernels that there are, and what they need beside source and destination.
#[derive(Debug)]
pub(super) struct Codecs {
    pairs: Vec<Pair>,
    encoding: Workspace<'static>,
    decoding: Workspace<'static>,
    /// Of each segment; in memory between the devices.
    words: Memory,
}

impl Codecs {
    /// The kernels of `algorithms` for segments of up to `segment_bytes`, of which a copy has up to `segments`. Those that a
    /// device cannot have are left out.
    pub(super) fn load(
        (from, out): (&Device, &Stream),
        (to, into): (&Device, &Stream),
        algorithms: AlgorithmSet,
        (segment_bytes, segments): (u64, u64),
        is_direct: bool,
    ) -> Result<Self, DeviceError> {
        let chunk_size = chunk_size(segment_bytes);
        let mut pairs = Vec::new();
        for algorithm in algorithms.iter().filter(|&algorithm| algorithm != Algorithm::None) {
            let coder = |device: &Device| device.coder(algorithm, chunk_size);
            match coder(from).and_then(|encoder| Ok(Pair { algorithm, encoder, decoder: coder(to)? })) {
                Ok(pair) => pairs.push(pair),
                Err(error) if error.is_for_good() => {
                    tracing::warn!(%algorithm, %error, "copies do without these kernels");
                }
                Err(error) => return Err(error),
            }
        }
        let words = Memory::between(is_direct, to, Self::words_len(segments))?;
        let encoding = from.workspace(out, workspace_len(chunk_size, &[segment_bytes]))?;
        let decoding = to.workspace(into, workspace_len(chunk_size, &[]));
        if decoding.is_err() {
            out.wait()?; // zeros are on their way to the other one
        }
        // SAFETY: the zeros are waited for before the first copy, and a pipe has copies come one after another, whatever streams
        // they are on.
        let [encoding, decoding] =
            [encoding, decoding?].map(|workspace| unsafe { workspace.on_any_stream() });
        Ok(Self { pairs, encoding, decoding, words })
    }

    /// The room that a frame of `segment_bytes` may need.
    pub(super) fn frame_room(segment_bytes: u64) -> u64 {
        let options = Options { chunk_size: chunk_size(segment_bytes), checksum: false };
        max_frame_len(segment_bytes as usize, options) as u64
    }

    /// Those that there are.
    pub(super) fn algorithms(&self) -> AlgorithmSet {
        self.pairs.iter().map(|pair| pair.algorithm).collect()
    }

    /// The kernels of an algorithm at the end where bytes come from.
    pub(super) fn encoder(&self, algorithm: Algorithm) -> Option<Coder> {
        self.pair(algorithm).map(|pair| self.pairs[pair].encoder.clone())
    }

    fn pair(&self, algorithm: Algorithm) -> Option<usize> {
        self.pairs.iter().position(|pair| pair.algorithm == algorithm)
    }

    /// Both directions of an algorithm, to be used in turn.
    pub(super) fn both(&mut self, algorithm: Algorithm) -> Option<(Encoding<'_>, Decoding<'_>)> {
        let pair = self.pair(algorithm)?;
        let Pair { encoder, decoder, .. } = &self.pairs[pair];
        let words = self.words.region();
        Some((
            Encoding { coder: encoder, workspace: &mut self.encoding, words },
            Decoding { coder: decoder, workspace: &mut self.decoding, words },
        ))
    }

    /// What the kernels of a copy have left, once all on `stream` has ended, which is waited for: the bytes of its frames.
    pub(super) fn read(&self, stream: &Stream, segments: u64) -> Result<u64, PeerCopyError> {
        let mut bytes = vec![0; Self::words_len(segments) as usize];
        stream.download(self.words.region(), &mut bytes)?;
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        coded_bytes(&words)
    }

    /// How many bytes of words a copy of so many segments leaves.
    pub(super) const fn words_len(segments: u64) -> u64 {
        WORDS * WORD_BYTES * segments
    }
}

/// The bytes of a copy's frames, by the words of its segments, if kernels have refused none of them.
pub(super) fn coded_bytes(words: &[u64]) -> Result<u64, PeerCopyError> {
    let mut coded_bytes = 0;
    for (found, segment) in words.chunks_exact(WORDS as usize).zip(0..) {
        for &status in &found[1..] {
            let checked = Status::from_word(status).check();
            checked.map_err(|refused| PeerCopyError::Segment { segment, refused })?;
        }
        coded_bytes += found[0];
    }
    Ok(coded_bytes)
}

/// Encodes segments.
pub(super) struct Encoding<'a> {
    coder: &'a Coder,
    workspace: &'a mut Workspace<'static>,
    words: Region<'a>,
}

impl<'a> Encoding<'a> {
    /// The words of so many segments.
    pub(super) fn words(&self, segments: u64) -> Region<'a> {
        self.words.slice(0..Codecs::words_len(segments))
    }

    pub(super) fn enqueue(
        &mut self,
        stream: &Stream,
        (element, src): (Element, Region<'_>),
        segment: Segment,
        room: Region<'_>,
    ) -> Result<(), DeviceError> {
        let [len, status, _] = words_of(self.words, segment);
        let job = Compress { element, src: segment.of(src), dst: room, codebook: None, len, status };
        self.coder.compress(stream, self.workspace, &[job])
    }
}

/// Decodes segments.
pub(super) struct Decoding<'a> {
    coder: &'a Coder,
    workspace: &'a mut Workspace<'static>,
    words: Region<'a>,
}

impl Decoding<'_> {
    pub(super) fn enqueue(
        &mut self,
        stream: &Stream,
        dst: Region<'_>,
        segment: Segment,
        room: Region<'_>,
    ) -> Result<(), DeviceError> {
        let [len, _, status] = words_of(self.words, segment);
        let job = Decompress { src: room, src_len: Some(len), dst: segment.of(dst), status };
        self.coder.decompress(stream, self.workspace, &[job])
    }
}

fn words_of(words: Region<'_>, segment: Segment) -> [Word<'_>; WORDS as usize] {
    [0, 1, 2].map(|word| words.word(WORD_BYTES * (WORDS * segment.number + word)))
}

/// Chunks of frames of segments of so many bytes.
pub(super) fn chunk_size(segment_bytes: u64) -> ChunkSize {
    ChunkSize::for_len(segment_bytes as usize)
}
