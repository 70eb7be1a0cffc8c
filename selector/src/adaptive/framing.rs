//! What a frame has besides coded data: short transfers pay for it, long ones hardly notice.

use mgcomp_codecs::frame::{ChunkSize, HEADER_LEN, UNIT};
use mgcomp_codecs::{Algorithm, Element, codec};

/// Entry of the chunk table with a checksum, and the padding of a chunk on average.
const CHUNK_BYTES: u64 = 8 + UNIT as u64 / 2;

/// Bytes beside the data, by the number of the algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    chunk_bytes: [u16; 16],
}

impl Framing {
    pub(super) fn of(element: Element) -> Self {
        let mut chunk_bytes = [0; 16];
        for algorithm in Algorithm::ALL {
            let codec_bytes = codec(algorithm).map_or(0, |codec| codec.overhead_len(element));
            chunk_bytes[usize::from(algorithm.number())] = CHUNK_BYTES as u16 + codec_bytes as u16;
        }
        Self { chunk_bytes }
    }

    /// About so many bytes of the frame of `raw_bytes` are not data.
    pub(super) fn bytes(&self, algorithm: Algorithm, raw_bytes: u64) -> f64 {
        let chunk = ChunkSize::for_len(usize::try_from(raw_bytes).unwrap_or(usize::MAX));
        let chunks = raw_bytes.div_ceil(1 << chunk.log2());
        (HEADER_LEN as u64 + chunks * u64::from(self.chunk_bytes[usize::from(algorithm.number())])) as f64
    }

    /// The part of the raw bytes that the data of a frame is, of a frame of `coded_bytes`. What does not shrink is 1,
    /// though raw forms have no frame.
    pub(super) fn data_fraction(&self, algorithm: Algorithm, raw_bytes: u64, coded_bytes: f64) -> f64 {
        let raw = raw_bytes as f64;
        if coded_bytes >= raw {
            return 1.0;
        }
        ((coded_bytes - self.bytes(algorithm, raw_bytes)) / raw).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_frames_are_mostly_framing() {
        let framing = Framing::of(Element::F32);
        // Header and one chunk; a codec without tables.
        assert_eq!(framing.bytes(Algorithm::Zvc, 100), 32.0);
        assert_eq!(framing.data_fraction(Algorithm::Zvc, 100, 57.0), 0.25);
        assert_eq!(framing.data_fraction(Algorithm::Zvc, 100, 20.0), 0.0);
        assert_eq!(framing.data_fraction(Algorithm::Zvc, 100, 100.0), 1.0);
        let fraction = framing.data_fraction(Algorithm::Zvc, 1 << 20, f64::from(1 << 19));
        assert!((0.498..0.5).contains(&fraction), "{fraction}");
    }
}
