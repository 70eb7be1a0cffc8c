//! Sizes without frames, by the kernels that only measure.

use mgcomp_codecs::device::{DeviceError, Status as KernelStatus};
use mgcomp_codecs::frame::{ChunkSize, Options, max_frame_len};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{Estimate, SampleSize};

use super::flight::Failure;
use super::kernels::Kernels;
use super::lane::{Lane, WORDS};

/// Most pieces of a sample: what one launch takes.
const MOST_PIECES: u64 = 63;

/// What is looked at for an estimate, and how.
#[derive(Debug)]
pub(super) struct Sample {
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
    pub(super) fn of(raw_len: u64, size: SampleSize, algorithms: AlgorithmSet) -> Self {
        let chunk_size = ChunkSize::for_len(raw_len as usize);
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

    /// Enqueues it for every algorithm that has kernels.
    pub(super) fn start(
        &mut self,
        lane: &mut Lane,
        kernels: &mut Kernels,
        element: Element,
    ) -> Result<(), Failure> {
        let words = 2 * self.pieces.len();
        for algorithm in self.algorithms.iter().filter(|&algorithm| algorithm != Algorithm::None) {
            let first = words * self.started.len();
            if first + words > WORDS {
                break;
            }
            if let Some(coder) = kernels.coder(algorithm, self.chunk_size) {
                match lane.estimate(coder, element, &self.pieces, first) {
                    Ok(()) => self.started.push(algorithm),
                    Err(error) if error.is_sticky() => return Err(error.into()),
                    // What was enqueued of it comes before whatever uses its words next.
                    Err(error) => tracing::warn!(%algorithm, %error, "not estimated"),
                }
            }
        }
        lane.fetch_words(words * self.started.len()).map_err(DeviceError::into)
    }

    /// What the words say.
    pub(super) fn read(&self, words: &[u64]) -> Vec<Estimate> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_inside_and_apart() {
        let all = AlgorithmSet::supported();
        for len in [1, 4095, 4096, 65_537, 1 << 20, (64 << 20) + 5] {
            for bytes in [0, 1, 10_000, 1 << 20, u64::MAX] {
                let sample = Sample::of(len, SampleSize::Bytes(bytes), all);
                let mut end = 0;
                for &(offset, piece) in &sample.pieces {
                    assert!(offset >= end && piece > 0 && offset + piece <= len, "{len} {bytes} {sample:?}");
                    end = offset + piece;
                }
                assert!(sample.pieces.len() as u64 <= MOST_PIECES);
            }
            assert_eq!(Sample::of(len, SampleSize::Whole, all).pieces, [(0, len)]);
        }
    }

    #[test]
    fn sampled_lengths_are_scaled_without_what_every_frame_has() {
        // 64 chunks of 16 KiB, of which 4 are looked at: half of each, and 32 bytes of header and table.
        let algorithms = AlgorithmSet::from_iter([Algorithm::Zvc]);
        let mut sample = Sample::of(1 << 20, SampleSize::Bytes(64 << 10), algorithms);
        sample.started.push(Algorithm::Zvc);
        let words = [8192 + 32, 0].repeat(4);
        // Of the whole: half, a header of 16 bytes, 64 entries of 4.
        let expected = Estimate { algorithm: Algorithm::Zvc, bits: 8 * ((1 << 19) + 16 + 64 * 4) };
        assert_eq!(sample.read(&words), [expected]);
        let bad = [8192, 3].repeat(4);
        assert_eq!(sample.read(&bad), []);
    }
}
