//! Reductions whose order nobody promises: how far a result of theirs may be from the exact one.
//!
//! NCCL adds numbers in an order that depends on ranks, lengths and its version, and rounds after each step. A sum of n
//! numbers x with unit roundoff u is then within (n−1)·u·Σ|x| of the exact one, in first order; an average is rounded
//! once or twice more. (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 4.2)

use half::{bf16, f16};
use mgcomp_transport::communicator::{Datatype, Operation};

/// Whether numbers are rounded.
pub(super) const fn is_float(datatype: Datatype) -> bool {
    matches!(datatype, Datatype::F16 | Datatype::Bf16 | Datatype::F32 | Datatype::F64)
}

/// What there is to know of a type of floats.
struct Format {
    /// The distance from 1 to the next number.
    epsilon: f64,
    largest: f64,
    /// The smallest number with all bits of precision; smaller ones may be taken for zero.
    smallest: f64,
    read: fn(&[u8]) -> f64,
}

impl Format {
    fn of(datatype: Datatype) -> Option<Self> {
        fn bytes<const N: usize>(bytes: &[u8]) -> [u8; N] {
            bytes.try_into().unwrap_or([0; N])
        }
        Some(match datatype {
            Datatype::F16 => Self {
                epsilon: f16::EPSILON.into(),
                largest: f16::MAX.into(),
                smallest: f16::MIN_POSITIVE.into(),
                read: |number| f16::from_le_bytes(bytes(number)).into(),
            },
            Datatype::Bf16 => Self {
                epsilon: bf16::EPSILON.into(),
                largest: bf16::MAX.into(),
                smallest: bf16::MIN_POSITIVE.into(),
                read: |number| bf16::from_le_bytes(bytes(number)).into(),
            },
            Datatype::F32 => Self {
                epsilon: f32::EPSILON.into(),
                largest: f32::MAX.into(),
                smallest: f32::MIN_POSITIVE.into(),
                read: |number| f32::from_le_bytes(bytes(number)).into(),
            },
            Datatype::F64 => Self {
                epsilon: f64::EPSILON,
                largest: f64::MAX,
                smallest: f64::MIN_POSITIVE,
                read: |number| f64::from_le_bytes(bytes(number)),
            },
            _ => return None,
        })
    }
}

/// How many numbers of `found` are not what `operation` makes of those `of_ranks`, in any order. All are floats of
/// `datatype`; of other numbers all are wrong.
pub(super) fn wrong(datatype: Datatype, operation: Operation, of_ranks: &[&[u8]], found: &[u8]) -> u64 {
    let width = datatype.width_bytes();
    let Some(format) = Format::of(datatype) else { return (found.len() / width) as u64 };
    let mut numbers = vec![0.0; of_ranks.len()];
    let mut wrong = 0;
    for (index, found) in found.chunks_exact(width).enumerate() {
        for (number, bytes) in numbers.iter_mut().zip(of_ranks) {
            *number = (format.read)(&bytes[index * width..][..width]);
        }
        wrong += u64::from(!may_be(&format, operation, &numbers, (format.read)(found)));
    }
    wrong
}

fn may_be(format: &Format, operation: Operation, numbers: &[f64], found: f64) -> bool {
    let has_nan = numbers.iter().any(|number| number.is_nan());
    match operation {
        // Which one it is where one is no number, nobody promises.
        Operation::Min | Operation::Max if has_nan => found.is_nan() || numbers.contains(&found),
        Operation::Min => found == numbers.iter().copied().fold(f64::INFINITY, f64::min),
        Operation::Max => found == numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Operation::Sum => may_be_sum(format, numbers, 1.0, found),
        Operation::Avg => may_be_sum(format, numbers, 1.0 / numbers.len() as f64, found),
    }
}

/// Whether `found` may be the sum of `numbers` times `factor`.
fn may_be_sum(format: &Format, numbers: &[f64], factor: f64, found: f64) -> bool {
    let sum: f64 = numbers.iter().sum();
    let sizes: f64 = numbers.iter().map(|number| number.abs()).sum();
    if sum.is_nan() {
        return found.is_nan();
    }
    if numbers.iter().any(|number| number.is_infinite()) {
        // Finite ones may come to the other infinity first.
        let finite: f64 = numbers.iter().filter(|number| number.is_finite()).map(|number| number.abs()).sum();
        return found == sum || (finite > format.largest && found.is_nan());
    }
    // On the way to it, or at the end, there may be no number for it.
    if sizes > format.largest && !found.is_finite() {
        return true;
    }
    let steps = numbers.len() as f64 + 2.0;
    let bound = steps * (format.epsilon * sizes * factor + format.smallest);
    (found - sum * factor).abs() <= bound
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_of_f32(operation: Operation, of_ranks: &[f32], found: f32) -> bool {
        let of_ranks: Vec<[u8; 4]> = of_ranks.iter().map(|number| number.to_le_bytes()).collect();
        let of_ranks: Vec<&[u8]> = of_ranks.iter().map(|number| &number[..]).collect();
        wrong(Datatype::F32, operation, &of_ranks, &found.to_le_bytes()) != 0
    }

    #[test]
    fn any_order_will_do() {
        // 2^24 + 1 rounds to 2^24, so the order of these three makes 0 or 1 of it.
        let numbers = [16_777_216.0, 1.0, -16_777_216.0];
        for found in [0.0, 1.0] {
            assert!(!wrong_of_f32(Operation::Sum, &numbers, found));
        }
        assert!(wrong_of_f32(Operation::Sum, &numbers, 64.0));
        assert!(!wrong_of_f32(Operation::Sum, &[0.1, 0.2], 0.3));
        assert!(wrong_of_f32(Operation::Sum, &[0.1, 0.2], 0.300_01));
        assert!(!wrong_of_f32(Operation::Avg, &[0.1, 0.2], 0.15));
        assert!(wrong_of_f32(Operation::Avg, &[0.1, 0.2], 0.3));
    }

    #[test]
    fn what_is_no_number_is_looked_at() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        assert!(!wrong_of_f32(Operation::Sum, &[nan, 1.0], nan));
        assert!(wrong_of_f32(Operation::Sum, &[nan, 1.0], 1.0));
        assert!(!wrong_of_f32(Operation::Sum, &[infinity, 1.0], infinity));
        for found in [5.0, -infinity, nan] {
            assert!(wrong_of_f32(Operation::Sum, &[infinity, 1.0], found));
        }
        assert!(!wrong_of_f32(Operation::Sum, &[infinity, -f32::MAX, -f32::MAX], nan));
        assert!(wrong_of_f32(Operation::Sum, &[1.0, 1.0], infinity));
        assert!(!wrong_of_f32(Operation::Sum, &[f32::MAX, f32::MAX], infinity));
        assert!(!wrong_of_f32(Operation::Min, &[nan, 1.0], 1.0));
        assert!(wrong_of_f32(Operation::Min, &[nan, 1.0], 2.0));
        assert!(!wrong_of_f32(Operation::Max, &[-0.0, 0.0], -0.0));
        assert!(wrong_of_f32(Operation::Max, &[1.0, 2.0], 1.0));
    }

    #[test]
    fn short_floats_are_read() {
        let numbers = [bf16::from_f32(1.0).to_le_bytes(), bf16::from_f32(256.0).to_le_bytes()];
        let of_ranks = [&numbers[0][..], &numbers[1]];
        // 257 is between 256 and 258.
        for (found, expected) in [(256.0, 0), (258.0, 0), (300.0, 1)] {
            let found = bf16::from_f32(found).to_le_bytes();
            assert_eq!(wrong(Datatype::Bf16, Operation::Sum, &of_ranks, &found), expected);
        }
        assert_eq!(wrong(Datatype::F16, Operation::Sum, &[&[0, 0x3c], &[0, 0x3c]], &[0, 0x40]), 0);
    }
}
