//! Numbers of several ranks, combined by the kernel: the bits of the arithmetic on the host, and nothing outside is touched.

use mgcomp_codecs::device::Reduction;
use mgcomp_codecs::reduction::{Datatype, Operation, combine, finish};

use super::error::{CheckError, compare};
use super::guarded::Guarded;
use super::{Extent, Lab};
use crate::data::Random;

/// Ranks of a case, at the most.
const MAX_RANKS: usize = 9;
/// Numbers of a rank, at the most.
const MAX_COUNT: usize = 40_000;

pub(super) fn check(lab: &Lab<'_>) -> Result<Extent, CheckError> {
    let mut random = Random::new(lab.effort.seed.rotate_left(17));
    let mut extent = Extent::default();
    for _ in 0..lab.effort.cases {
        for datatype in Datatype::ALL {
            for operation in Operation::ALL {
                let case = Case::random(datatype, operation, &mut random);
                extent.add(case.of_ranks.len(), case.reduce(lab, &mut random)?);
            }
        }
    }
    Ok(extent)
}

/// Numbers by chance, many of them without exponent or with the largest one: zeros, denormals, infinities and NaNs.
struct Case {
    datatype: Datatype,
    operation: Operation,
    of_ranks: Vec<Vec<u8>>,
}

impl Case {
    fn random(datatype: Datatype, operation: Operation, random: &mut Random) -> Self {
        let width = datatype.width_bytes();
        let few = random.percent(50);
        let count = random.below(if few { 100 } else { MAX_COUNT });
        let mut of_rank = || {
            let mut bytes: Vec<u8> = (0..count * width).map(|_| random.bits() as u8).collect();
            for number in bytes.chunks_exact_mut(width) {
                if !random.percent(30) {
                    continue;
                }
                // The upper half holds the exponent.
                let fill = [0, 0xff, 0x80, 0x7f][random.below(4)];
                number[width / 2..].fill(if fill & 1 == 1 { 0xff } else { 0 });
                number[width - 1] = fill;
            }
            bytes
        };
        let of_ranks = (0..2).map(|_| of_rank()).collect();
        let mut case = Self { datatype, operation, of_ranks };
        let more = random.below(MAX_RANKS - 1);
        for rank in 0..more {
            let mut again = case.of_ranks[rank].clone();
            let by = width.min(again.len());
            again.rotate_right(by);
            case.of_ranks.push(again);
        }
        case
    }

    /// What the host makes of them.
    fn expected(&self) -> Vec<u8> {
        let mut left = self.of_ranks[0].clone();
        self.of_ranks[1..].iter().for_each(|right| combine(self.operation, self.datatype, &mut left, right));
        finish(self.operation, self.datatype, &mut left, self.of_ranks.len() as u32);
        left
    }

    /// Combines them at places by chance; returns how many bytes these are.
    fn reduce(&self, lab: &Lab<'_>, random: &mut Random) -> Result<u64, CheckError> {
        let Self { datatype, operation, of_ranks } = self;
        let (len, ranks) = (of_ranks[0].len(), of_ranks.len());
        let gap = random.below(40);
        let own = random.percent(50).then(|| random.below(ranks));
        let name = format!("{operation} of {datatype}, {ranks} ranks of {len} bytes, own {own:?}");
        let mut together = Vec::new();
        for (rank, numbers) in of_ranks.iter().enumerate() {
            // Nothing is read where the own ones would lie.
            together.resize(rank * (len + gap), 0x77);
            together.extend(numbers.iter().map(|byte| if own == Some(rank) { 0x77 } else { *byte }));
        }
        // Mostly where numbers can lie.
        let mut place = || {
            let offset = random.below(16) as u64;
            if random.percent(80) {
                offset / datatype.width_bytes() as u64 * datatype.width_bytes() as u64
            } else {
                offset
            }
        };
        let guarded = |what, bytes: &[u8], at| Guarded::new(lab.device, &lab.stream, what, bytes, at);
        let numbers = guarded("the numbers of all ranks", &together, place())?;
        let before = own.map_or_else(|| vec![0x55; len], |rank| of_ranks[rank].clone());
        let result = guarded("the result", &before, place())?;
        let reduction = Reduction {
            datatype: *datatype,
            operation: *operation,
            ranks: ranks as u32,
            numbers: numbers.region(),
            stride: (len + gap) as u64,
            own: own.map(|rank| (rank as u32, result.region())),
            result: result.region(),
        };
        lab.device.reducer()?.reduce(&lab.stream, &reduction)?;
        compare(&name, "the result", &result.read(&lab.stream, &name)?, &self.expected())?;
        compare(&name, "the numbers", &numbers.read(&lab.stream, &name)?, &together)?;
        Ok((ranks * len) as u64)
    }
}
