//! The data of each rank: a file or a pattern, over and over, and from another place on every rank.

use std::sync::Arc;

use mgcomp_transport::communicator::Datatype;

use super::pattern::{self, Pattern};
use super::values::Values;

/// Bytes that a pattern takes before it repeats itself.
const PATTERN_BYTES: usize = 4 << 20;
/// Data of fewer lines repeats itself within most buffers anyway.
const MANY_LINES: usize = 64;
/// Data of different ranks is shifted by whole numbers of this, so that codecs see whole values and lines.
const LINE_BYTES: usize = 64;

/// What all ranks take their data from.
#[derive(Clone, Debug)]
pub(super) struct Data {
    /// Whole values.
    tile: Arc<[u8]>,
    ranks: usize,
}

impl Data {
    /// The bytes of a file. `None` if it does not hold one value.
    pub(super) fn of_file(mut bytes: Vec<u8>, values: Values, ranks: usize) -> Option<Self> {
        bytes.truncate(bytes.len() / values.width_bytes() * values.width_bytes());
        bytes.truncate(odd(bytes.len()));
        (!bytes.is_empty()).then(|| Self { tile: bytes.into(), ranks })
    }

    /// No more of a pattern is made than `longest` bytes of data can show.
    pub(super) fn of_pattern(pattern: Pattern, values: Values, ranks: usize, longest: usize) -> Self {
        // Whole lines for each rank, so that short buffers of two ranks differ as well.
        let needed = longest.div_ceil(LINE_BYTES).saturating_mul(LINE_BYTES * ranks);
        Self { tile: pattern::bytes(pattern, values, odd(needed.min(PATTERN_BYTES))).into(), ranks }
    }

    /// Fills `into` with the data of `rank` from `offset` on.
    pub(super) fn fill(&self, rank: usize, offset: usize, into: &mut [u8]) {
        let len = self.tile.len();
        let turn = len * rank / self.ranks / LINE_BYTES * LINE_BYTES;
        let mut at = (turn + offset) % len;
        let mut rest = into;
        while !rest.is_empty() {
            let count = rest.len().min(len - at);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&self.tile[at..at + count]);
            (rest, at) = (later, 0);
        }
    }

    /// A number that is different for other data (FNV-1a).
    pub(super) fn digest(&self) -> u64 {
        super::agreement::digest(&self.tile)
    }
}

/// As many bytes, or a line less: of an even number of lines, blocks and pieces whose lengths are powers of two would be
/// equal, and nobody would see that they came to each other's places.
const fn odd(len: usize) -> usize {
    let lines = len / LINE_BYTES;
    let is_even = len.is_multiple_of(LINE_BYTES) && lines.is_multiple_of(2);
    if is_even && lines >= MANY_LINES { len - LINE_BYTES } else { len }
}

/// The type that reductions compute on, where there is one.
pub(super) fn datatype(values: Values) -> Option<Datatype> {
    match values {
        Values::Numbers(datatype) => Some(datatype),
        Values::Opaque(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U32: Values = Values::Numbers(Datatype::U32);

    fn filled(data: &Data, rank: usize, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        data.fill(rank, offset, &mut bytes);
        bytes
    }

    #[test]
    fn data_repeats_and_starts_elsewhere_on_each_rank() {
        // 130 bytes are 32 numbers; two ranks are 64 bytes apart.
        let data = Data::of_file((0..130).collect(), U32, 2).unwrap();
        assert_eq!(filled(&data, 0, 0, 130), (0..128).chain(0..2).collect::<Vec<u8>>());
        assert_eq!(filled(&data, 1, 0, 66), (64..128).chain(0..2).collect::<Vec<u8>>());
        assert_eq!(filled(&data, 1, 60, 8), [124, 125, 126, 127, 0, 1, 2, 3]);
        assert_eq!(filled(&data, 0, 128 * 7 + 5, 300), filled(&data, 0, 5, 300));
        assert!(Data::of_file(vec![1, 2, 3], U32, 2).is_none());
    }

    #[test]
    fn pieces_of_a_power_of_two_are_told_apart() {
        let file: Vec<u8> = (0..65_536u32).flat_map(u32::to_le_bytes).collect();
        let all = [Data::of_file(file, U32, 2).unwrap(), Data::of_pattern(Pattern::Random, U32, 4, 1 << 30)];
        for data in all {
            let first = filled(&data, 0, 0, 4096);
            assert!((1..64).all(|piece| filled(&data, 0, piece << 20, 4096) != first));
        }
    }

    #[test]
    fn other_data_has_another_digest() {
        let data = |first| Data::of_file(vec![first, 2, 3, 4], U32, 2).unwrap().digest();
        assert_ne!(data(1), data(2));
        assert_eq!(data(1), data(1));
    }
}
