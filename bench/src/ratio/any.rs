//! `any`: what frames would take in which every chunk had the smallest algorithm.

use mgcomp_codecs::frame::Frame;

use super::Row;

/// The smallest stored chunks of the frames seen so far, all of one buffer. A computed figure: no frame has
/// more than one algorithm, so nothing is counted for telling which one a chunk has.
#[derive(Debug, Default)]
pub(super) struct Any {
    frames: usize,
    /// Header and chunk table of the first frame, and the codebook of every frame that has one.
    front_len: usize,
    stored_lens: Vec<usize>,
}

impl Any {
    /// What `--json` and the table call it.
    pub(super) const NAME: &str = "any";

    /// Takes `frame` into account.
    pub(super) fn add(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        if self.frames == 1 {
            self.front_len = frame.header().table_end();
            self.stored_lens = frame.chunks().map(|chunk| chunk.stored.len()).collect();
        } else {
            for (smallest, chunk) in self.stored_lens.iter_mut().zip(frame.chunks()) {
                *smallest = chunk.stored.len().min(*smallest);
            }
        }
        self.front_len += frame.chunks_offset() - frame.header().table_end();
    }

    /// The row, which like those of `other` frames is about the same buffer. None of one algorithm alone.
    pub(super) fn row<'a>(&self, other: &Row<'a>) -> Option<Row<'a>> {
        let coded_bytes = (self.front_len + self.stored_lens.iter().sum::<usize>()) as u64;
        (self.frames > 1).then_some(Row { algorithm: Self::NAME, coded_bytes, paper_bits: None, ..*other })
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::frame::{self, ChunkSize, Options};
    use mgcomp_codecs::{Algorithm, Element, codec};

    use super::*;

    #[test]
    fn each_chunk_has_its_smallest() {
        // Chunk 0: sparse floats, which ZVC shrinks; chunk 1: small differences, which BDI does.
        let mut raw = vec![0; 8192];
        raw[..4096].chunks_mut(64).for_each(|line| line[..4].copy_from_slice(&[1, 77, 3, 0x40]));
        for (i, word) in raw[4096..].chunks_mut(4).enumerate() {
            word.copy_from_slice(&(0x1234_0000 + i as u32).to_le_bytes());
        }
        let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
        let mut any = Any::default();
        let row = Row {
            file: "x",
            element: "f32",
            algorithm: "bdi",
            raw_bytes: 8192,
            coded_bytes: 1,
            paper_bits: Some(1),
        };
        let mut stored = Vec::new();
        for algorithm in [Algorithm::Bdi, Algorithm::Zvc] {
            assert_eq!(any.row(&row), None);
            let coded = frame::encode(codec(algorithm).unwrap(), Element::F32, &raw, options).unwrap();
            let frame = Frame::parse(&coded).unwrap();
            any.add(&frame);
            stored.push(frame.chunks().map(|chunk| chunk.stored.len()).collect::<Vec<_>>());
        }
        // ZVC by hand: 32 masks of 4 bytes and 64 floats in chunk 0; chunk 1 is raw.
        assert_eq!(stored[1], [128 + 256, 4096]);
        assert!(stored[0][0] > stored[1][0] && stored[0][1] < stored[1][1], "{stored:?}");
        // Header 16, table 2 · 4, padded to 16.
        let coded_bytes = (32 + 128 + 256 + stored[0][1]) as u64;
        assert_eq!(any.row(&row), Some(Row { algorithm: "any", coded_bytes, paper_bits: None, ..row }));
    }
}
