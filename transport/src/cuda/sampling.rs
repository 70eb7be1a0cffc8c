//! Sizes without frames, by the kernels that only measure.

use mgcomp_codecs::device::{
    Coder, DeviceError, Estimate as Job, Region, Status as KernelStatus, Stream, Workspace,
};
use mgcomp_codecs::frame::{ChunkSize, Options, max_frame_len};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{Estimate, SampleSize};

use super::staging::Words;

/// Most pieces of a sample: what one launch takes.
const MOST_PIECES: u64 = 63;

/// What is looked at for an estimate, and how.
#[derive(Debug)]
pub(crate) struct Sample {
    raw_len: u64,
    chunk_size: ChunkSize,
    whole: bool,
    /// Offsets and lengths.
    pieces: Vec<(u64, u64)>,
    algorithms: AlgorithmSet,
    /// Whose words there are, in this order.
    started: Vec<Algorithm>,
}

impl Sample {
    /// A sample of `raw_len` bytes, as frames with chunks of `chunk_size` would have them.
    pub(crate) fn of(
        raw_len: u64,
        chunk_size: ChunkSize,
        size: SampleSize,
        algorithms: AlgorithmSet,
    ) -> Self {
        let chunk = chunk_size.bytes() as u64;
        let chunks = raw_len.div_ceil(chunk);
        let wanted = match size {
            SampleSize::Whole => chunks,
            SampleSize::Bytes(bytes) => bytes.div_ceil(chunk).clamp(1, MOST_PIECES),
        };
        let whole = wanted >= chunks;
        let piece = |i: u64| {
            let offset = i * chunks / wanted * chunk;
            (offset, chunk.min(raw_len - offset))
        };
        let pieces = if whole { vec![(0, raw_len)] } else { (0..wanted).map(piece).collect() };
        Self { raw_len, chunk_size, whole, pieces, algorithms, started: Vec::new() }
    }

    /// Enqueues it, by `estimate`, for every algorithm of which there is a `coder`, as long as there are words for it: `estimate`
    /// gets offsets and lengths, and the number of the first word for what is found. Returns how many words there will be.
    pub(crate) fn start(
        &mut self,
        mut coder: impl FnMut(Algorithm) -> Option<Coder>,
        room_words: usize,
        mut estimate: impl FnMut(&Coder, &[(u64, u64)], usize) -> Result<(), DeviceError>,
    ) -> Result<usize, DeviceError> {
        let words = 2 * self.pieces.len();
        for algorithm in self.algorithms.iter().filter(|&algorithm| algorithm != Algorithm::None) {
            let first = words * self.started.len();
            if first + words > room_words {
                break;
            }
            if let Some(coder) = coder(algorithm) {
                match estimate(&coder, &self.pieces, first) {
                    Ok(()) => self.started.push(algorithm),
                    Err(error) if error.is_sticky() => return Err(error),
                    // What was enqueued of it comes before whatever uses its words next.
                    Err(error) => tracing::warn!(%algorithm, %error, "not estimated"),
                }
            }
        }
        Ok(words * self.started.len())
    }

    /// What the words say.
    pub(crate) fn read(&self, words: &[u64]) -> Vec<Estimate> {
        let none = Estimate { algorithm: Algorithm::None, bits: 8 * self.raw_len };
        let raw = (self.whole && self.algorithms.contains(Algorithm::None)).then_some(none);
        let found = words.chunks_exact(2 * self.pieces.len()).zip(&self.started);
        let coded = found
            .filter_map(|(words, &algorithm)| Some(Estimate { algorithm, bits: 8 * self.frame_len(words)? }));
        raw.into_iter().chain(coded).collect()
    }

    /// The length of the whole frame by the lengths of those of the pieces, if all went well.
    fn frame_len(&self, words: &[u64]) -> Option<u64> {
        let mut chunks_len = 0;
        for (found, &(_, raw_len)) in words.chunks_exact(2).zip(&self.pieces) {
            KernelStatus::from_word(found[1]).check().ok()?;
            chunks_len += found[0].saturating_sub(self.overhead(raw_len));
        }
        let sampled: u64 = self.pieces.iter().map(|piece| piece.1).sum();
        let scaled = u128::from(chunks_len) * u128::from(self.raw_len) / u128::from(sampled);
        Some(scaled as u64 + self.overhead(self.raw_len))
    }

    /// What a frame has beside its chunks.
    fn overhead(&self, raw_len: u64) -> u64 {
        let options = Options { chunk_size: self.chunk_size, checksum: false };
        max_frame_len(raw_len as usize, options) as u64 - raw_len.next_multiple_of(16)
    }
}

/// Enqueues the estimation of `pieces` of `data`, each an offset and a length: length and status of each will be in the
/// words from `first` on.
pub(crate) fn estimate(
    (coder, stream, workspace): (&Coder, &Stream, &mut Workspace<'_>),
    (element, data): (Element, Region<'_>),
    pieces: &[(u64, u64)],
    (words, first): (&Words, usize),
) -> Result<(), DeviceError> {
    let job = |(i, &(offset, len)): (usize, &(u64, u64))| Job {
        element,
        src: data.slice(offset..offset + len),
        codebook: None,
        len: words.word(first + 2 * i),
        status: words.word(first + 2 * i + 1),
    };
    let jobs: Vec<_> = pieces.iter().enumerate().map(job).collect();
    coder.estimate(stream, workspace, &jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_inside_and_apart() {
        let all = AlgorithmSet::supported();
        for len in [1, 4095, 4096, 65_537, 1 << 20, (64 << 20) + 5] {
            for bytes in [0, 1, 10_000, 1 << 20, u64::MAX] {
                let sample = Sample::of(len, ChunkSize::for_len(len as usize), SampleSize::Bytes(bytes), all);
                let mut end = 0;
                for &(offset, piece) in &sample.pieces {
                    assert!(offset >= end && piece > 0 && offset + piece <= len, "{len} {bytes} {sample:?}");
                    end = offset + piece;
                }
                assert!(sample.pieces.len() as u64 <= MOST_PIECES);
            }
            let whole = Sample::of(len, ChunkSize::DEFAULT, SampleSize::Whole, all);
            assert_eq!(whole.pieces, [(0, len)]);
        }
    }

    #[test]
    fn sampled_lengths_are_scaled_without_what_every_frame_has() {
        // 64 chunks of 16 KiB, of which 4 are looked at: half of each, and 32 bytes of header and table.
        let algorithms = AlgorithmSet::from_iter([Algorithm::Zvc]);
        let size = SampleSize::Bytes(64 << 10);
        let mut sample = Sample::of(1 << 20, ChunkSize::for_len(1 << 20), size, algorithms);
        sample.started.push(Algorithm::Zvc);
        let words = [8192 + 32, 0].repeat(4);
        // Of the whole: half, a header of 16 bytes, 64 entries of 4.
        let expected = Estimate { algorithm: Algorithm::Zvc, bits: 8 * ((1 << 19) + 16 + 64 * 4) };
        assert_eq!(sample.read(&words), [expected]);
        let bad = [8192, 3].repeat(4);
        assert_eq!(sample.read(&bad), []);
    }
}
