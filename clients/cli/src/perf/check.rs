//! Counts what is wrong in a result, against what every rank can work out by itself.

use mgcomp_codecs::device::DeviceError;
use mgcomp_transport::communicator::{Datatype, Operation};

use super::apart::{GoesOn, PART_BYTES};
use super::data::Data;
use super::error::PerfError;
use super::numbers;
use super::operation::{Origin, Piece};
use super::rounding;
use super::values::Values;
use crate::room::Span;

/// How much is worked out at once.
const STEP_BYTES: usize = 64 << 10;
/// Results up to this are worked out once and kept.
const KEPT_BYTES: usize = 4 << 20;
/// What results are overwritten with before an operation, so that none of before counts as one of now.
const JUNK: u8 = 0xa5;

/// What a rank must have after an operation.
pub(super) struct Expected<'a> {
    data: &'a Data,
    ranks: usize,
    width: usize,
    task: Option<(Datatype, Operation)>,
    order: Order,
    pieces: Vec<(Piece, Span)>,
    /// All pieces one after the other, if they are short.
    kept: Option<Vec<u8>>,
}

impl<'a> Expected<'a> {
    /// `pieces` with the memory where they must be.
    pub(super) fn new(
        data: &'a Data,
        ranks: usize,
        values: Values,
        (task, order): (Option<(Datatype, Operation)>, Order),
        (pieces, goes_on): (Vec<(Piece, Span)>, GoesOn<'_>),
    ) -> Result<Self, PerfError> {
        let mut expected = Self { data, ranks, width: values.width_bytes(), task, order, pieces, kept: None };
        let len = expected.pieces.iter().map(|(piece, _)| piece.at.len()).sum();
        if len <= KEPT_BYTES && expected.rounded().is_none() {
            let mut kept = vec![0; len];
            let mut rest = &mut kept[..];
            for (Piece { at, origin, .. }, _) in &expected.pieces {
                let (own, later) = rest.split_at_mut(at.len());
                let mut steps = Steps::default();
                for (step, own) in own.chunks_mut(STEP_BYTES).enumerate() {
                    expected.work_out(*origin, step * STEP_BYTES, own, &mut steps);
                    goes_on()?;
                }
                rest = later;
            }
            expected.kept = Some(kept);
        }
        Ok(expected)
    }

    /// Overwrites where the result will be.
    pub(super) fn spoil(&self, goes_on: GoesOn<'_>) -> Result<(), PerfError> {
        for (_, part) in self.pieces.iter().flat_map(|(_, place)| place.parts(PART_BYTES)) {
            part.fill(|_, bytes| bytes.fill(JUNK))?;
            goes_on()?;
        }
        Ok(())
    }

    /// Makes one value wrong, if there is a result.
    pub(super) fn change_a_bit(&self) -> Result<(), DeviceError> {
        self.pieces.first().map_or(Ok(()), |(_, place)| place.change_a_bit())
    }

    /// How many values of the result are wrong.
    pub(super) fn wrong(&self, goes_on: GoesOn<'_>) -> Result<u64, PerfError> {
        let mut before = 0;
        let mut wrong = 0;
        // None where nothing is worked out: the next operation is to find its own memory in the caches.
        let longest = self.pieces.iter().map(|(piece, _)| piece.at.len()).max().unwrap_or_default();
        let scratch_bytes = if self.kept.is_some() { 0 } else { longest.min(STEP_BYTES) };
        let (mut steps, mut scratch) = (Steps::default(), vec![0; scratch_bytes]);
        for (Piece { at, origin, .. }, place) in &self.pieces {
            for (start, part) in place.parts(PART_BYTES) {
                part.look(|offset, found| {
                    let offset = start + offset;
                    if let Some(kept) = &self.kept {
                        wrong += differing(self.width, &kept[before + offset..][..found.len()], found);
                        return;
                    }
                    for (step, found) in found.chunks(STEP_BYTES).enumerate() {
                        let scratch = &mut scratch[..found.len()];
                        wrong +=
                            self.wrong_in(*origin, offset + step * STEP_BYTES, found, (&mut steps, scratch));
                    }
                })?;
                goes_on()?;
            }
            before += at.len();
        }
        Ok(wrong)
    }

    /// How many values are wrong that were found `offset` bytes into a piece; `scratch` is as long.
    fn wrong_in(
        &self,
        origin: Origin,
        offset: usize,
        found: &[u8],
        (steps, scratch): (&mut Steps, &mut [u8]),
    ) -> u64 {
        if let (Some(task), Origin::Combined { offset: start }) = (self.rounded(), origin) {
            let of_ranks = steps.of_ranks(self, start + offset, found.len());
            return rounding::wrong(task.0, task.1, &of_ranks, found);
        }
        self.work_out(origin, offset, scratch, steps);
        differing(self.width, scratch, found)
    }

    /// What is combined in an order of which only so much is known that there is more than one right result.
    fn rounded(&self) -> Option<(Datatype, Operation)> {
        self.task.filter(|(datatype, _)| self.order == Order::Any && rounding::is_float(*datatype))
    }

    /// Fills `into` with what must be `step` bytes into a piece.
    fn work_out(&self, origin: Origin, step: usize, into: &mut [u8], steps: &mut Steps) {
        match (origin, self.task) {
            (Origin::Combined { offset }, Some((datatype, operation))) => {
                let of_ranks = steps.of_ranks(self, offset + step, into.len());
                numbers::combine(datatype, operation, &of_ranks, into);
            }
            (Origin::Rank { rank, offset }, _) => self.data.fill(rank, offset + step, into),
            // Nothing is combined without a task; were it, no value would be right.
            (Origin::Combined { .. }, None) => into.fill(!JUNK),
        }
    }
}

/// Room for the data of each rank.
#[derive(Default)]
struct Steps {
    of_ranks: Vec<Vec<u8>>,
}

impl Steps {
    /// `len` bytes of each rank's data from `offset` on.
    fn of_ranks(&mut self, expected: &Expected<'_>, offset: usize, len: usize) -> Vec<&[u8]> {
        self.of_ranks.resize_with(expected.ranks, Vec::new);
        for (rank, bytes) in self.of_ranks.iter_mut().enumerate() {
            bytes.resize(len, 0);
            expected.data.fill(rank, offset, bytes);
        }
        self.of_ranks.iter().map(Vec::as_slice).collect()
    }
}

/// In which order numbers of ranks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// From the first rank to the last: there is one right result.
    OfRanks,
    /// In any.
    Any,
}

/// How many values of `width` bytes differ.
pub(super) fn differing(width: usize, expected: &[u8], found: &[u8]) -> u64 {
    if expected == found {
        return 0;
    }
    let pairs = expected.chunks(width).zip(found.chunks(width));
    pairs.filter(|(expected, found)| expected != found).count() as u64
}

#[cfg(test)]
mod tests {
    use super::super::operation::Place;
    use super::*;
    use crate::room::Room;

    const I32: Values = Values::Numbers(Datatype::I32);

    /// Two ranks count from 0 and from 16.
    fn data() -> Data {
        Data::of_file((0..32i32).flat_map(i32::to_le_bytes).collect(), I32, 2).unwrap()
    }

    /// Counts in a buffer of 32-bit numbers that must hold `origin`, from its third number on.
    fn wrong(numbers: &[i32], origin: Origin) -> u64 {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let buffer = Room::Host.zeroed(bytes.len()).unwrap();
        buffer.fill(|_, into| into.copy_from_slice(&bytes)).unwrap();
        let piece = Piece { place: Place::Main, at: 8..buffer.len(), origin };
        let slice = buffer.part(piece.at.clone());
        let data = data();
        let task = Some((Datatype::I32, Operation::Sum));
        let mut expected =
            Expected::new(&data, 2, I32, (task, Order::OfRanks), (vec![(piece, slice)], &mut alone)).unwrap();
        let kept = expected.wrong(&mut alone).unwrap();
        expected.kept = None;
        assert_eq!(expected.wrong(&mut alone).unwrap(), kept);
        kept
    }

    #[test]
    fn wrong_values_are_counted() {
        let of_rank_1 = Origin::Rank { rank: 1, offset: 4 };
        assert_eq!(wrong(&[-1, -1, 17, 18, 19], of_rank_1), 0);
        assert_eq!(wrong(&[-1, -1, 17, 18 + 256, 20], of_rank_1), 2);
        let sums = Origin::Combined { offset: 0 };
        assert_eq!(wrong(&[-1, -1, 16, 18, 20], sums), 0);
        assert_eq!(wrong(&[-1, -1, 16, 17, 20], sums), 1);
    }

    #[test]
    fn what_was_there_before_is_gone() {
        let buffer = Room::Host.zeroed(8).unwrap();
        let piece = Piece { place: Place::Main, at: 0..8, origin: Origin::Rank { rank: 0, offset: 0 } };
        let data = data();
        let expected =
            Expected::new(&data, 2, I32, (None, Order::OfRanks), (vec![(piece, buffer.clone())], &mut alone))
                .unwrap();
        expected.spoil(&mut alone).unwrap();
        assert_eq!(expected.wrong(&mut alone).unwrap(), 2);
        buffer.fill(|offset, bytes| data.fill(0, offset, bytes)).unwrap();
        assert_eq!(expected.wrong(&mut alone).unwrap(), 0);
    }

    #[test]
    fn long_results_are_checked_in_parts_and_each_is_told_of() {
        let len = 2 * PART_BYTES + 4;
        let buffer = Room::Host.zeroed(len).unwrap();
        let piece = Piece { place: Place::Main, at: 0..len, origin: Origin::Rank { rank: 1, offset: 0 } };
        let data = data();
        let mut expected =
            Expected::new(&data, 2, I32, (None, Order::OfRanks), (vec![(piece, buffer.clone())], &mut alone))
                .unwrap();
        expected.kept = None;
        buffer.fill(|offset, bytes| data.fill(1, offset, bytes)).unwrap();
        for at in [0, PART_BYTES - 4, PART_BYTES, 2 * PART_BYTES] {
            buffer.part(at..at + 4).change_a_bit().unwrap();
        }
        let mut told = 0;
        let mut tell = || {
            told += 1;
            Ok(())
        };
        assert_eq!(expected.wrong(&mut tell).unwrap(), 4);
        expected.spoil(&mut tell).unwrap();
        assert_eq!(told, 6);
        assert_eq!(expected.wrong(&mut alone).unwrap(), len as u64 / 4);
        // Nobody goes on with what the others have given up.
        let gone = expected.wrong(&mut || Err(PerfError::NoDevice));
        assert!(matches!(gone, Err(PerfError::NoDevice)), "{gone:?}");
    }

    /// Nobody waits.
    fn alone() -> Result<(), PerfError> {
        Ok(())
    }
}
