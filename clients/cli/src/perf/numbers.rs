//! What a reduction must come to, worked out a second time: nothing of the library's arithmetic is used, so that an
//! error in one of the two is seen. The rules are those of [`Operation`].

use half::{bf16, f16};
use mgcomp_transport::communicator::{Datatype, Operation};

/// Combines the numbers of all ranks into `into`, one number after the other, each from the first rank to the last.
/// All `of_ranks` are as long as `into`.
pub(super) fn combine(datatype: Datatype, operation: Operation, of_ranks: &[&[u8]], into: &mut [u8]) {
    match datatype {
        Datatype::I8 => each::<i8>(operation, of_ranks, into),
        Datatype::I16 => each::<i16>(operation, of_ranks, into),
        Datatype::I32 => each::<i32>(operation, of_ranks, into),
        Datatype::I64 => each::<i64>(operation, of_ranks, into),
        Datatype::U8 => each::<u8>(operation, of_ranks, into),
        Datatype::U16 => each::<u16>(operation, of_ranks, into),
        Datatype::U32 => each::<u32>(operation, of_ranks, into),
        Datatype::U64 => each::<u64>(operation, of_ranks, into),
        Datatype::F16 => each::<f16>(operation, of_ranks, into),
        Datatype::Bf16 => each::<bf16>(operation, of_ranks, into),
        Datatype::F32 => each::<f32>(operation, of_ranks, into),
        Datatype::F64 => each::<f64>(operation, of_ranks, into),
    }
}

fn each<N: Number>(operation: Operation, of_ranks: &[&[u8]], into: &mut [u8]) {
    let width = size_of::<N>();
    for (index, result) in into.chunks_exact_mut(width).enumerate() {
        let mut numbers = of_ranks.iter().map(|bytes| N::read(&bytes[index * width..]));
        let Some(first) = numbers.next() else { return };
        let combined = numbers.fold(first, |left, right| match operation {
            Operation::Sum | Operation::Avg => left.plus(right),
            Operation::Min => left.pick(right, right.is_below(left)),
            Operation::Max => left.pick(right, left.is_below(right)),
        });
        let combined = match operation {
            Operation::Avg => combined.divided(of_ranks.len()),
            _ => combined,
        };
        combined.write(result);
    }
}

trait Number: Copy {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn plus(self, right: Self) -> Self;
    /// Minus zero is below zero.
    fn is_below(self, other: Self) -> bool;
    fn is_no_number(self) -> bool;
    fn divided(self, by: usize) -> Self;

    /// `right` if it is `better`, but of what is no number the first.
    fn pick(self, right: Self, better: bool) -> Self {
        match (self.is_no_number(), right.is_no_number()) {
            (true, _) => self,
            (false, true) => right,
            (false, false) => {
                if better {
                    right
                } else {
                    self
                }
            }
        }
    }
}

macro_rules! bytes_of_number {
    () => {
        fn read(bytes: &[u8]) -> Self {
            let mut own = [0; size_of::<Self>()];
            own.copy_from_slice(&bytes[..size_of::<Self>()]);
            Self::from_le_bytes(own)
        }

        fn write(self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.to_le_bytes());
        }
    };
}

macro_rules! integers {
    ($($integer:ident)*) => {$(
        impl Number for $integer {
            bytes_of_number!();

            fn plus(self, right: Self) -> Self {
                // The low bits of the exact sum.
                (i128::from(self) + i128::from(right)) as Self
            }

            fn is_below(self, other: Self) -> bool {
                self < other
            }

            fn is_no_number(self) -> bool {
                false
            }

            fn divided(self, by: usize) -> Self {
                (i128::from(self) / by as i128) as Self
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

/// Floats, computed with in `$wide`.
macro_rules! floats {
    ($($float:ident in $wide:ident, $widen:expr, $narrow:expr, quiet NaN $nan:expr;)*) => {$(
        impl Number for $float {
            bytes_of_number!();

            fn plus(self, right: Self) -> Self {
                let sum: $wide = $widen(self) + $widen(right);
                if sum.is_nan() { $float::from_bits($nan) } else { $narrow(sum) }
            }

            fn is_below(self, other: Self) -> bool {
                let (a, b): ($wide, $wide) = ($widen(self), $widen(other));
                a < b || (a == b && a.is_sign_negative() && b.is_sign_positive())
            }

            fn is_no_number(self) -> bool {
                self.is_nan()
            }

            fn divided(self, by: usize) -> Self {
                let quotient: $wide = $widen(self) / by as $wide;
                if quotient.is_nan() { $float::from_bits($nan) } else { $narrow(quotient) }
            }
        }
    )*};
}

floats! {
    f16 in f32, f16::to_f32, f16::from_f32, quiet NaN 0x7e00;
    bf16 in f32, bf16::to_f32, bf16::from_f32, quiet NaN 0x7fc0;
    f32 in f32, f32::from, f32::from, quiet NaN 0x7fc0_0000;
    f64 in f64, f64::from, f64::from, quiet NaN 0x7ff8_0000_0000_0000;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(operation: Operation, numbers: &[f32]) -> u32 {
        let bytes: Vec<[u8; 4]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let of_ranks: Vec<&[u8]> = bytes.iter().map(<[u8; 4]>::as_slice).collect();
        let mut result = [0; 4];
        combine(Datatype::F32, operation, &of_ranks, &mut result);
        u32::from_le_bytes(result)
    }

    #[test]
    fn sums_are_rounded_from_the_left() {
        assert_eq!(f32s(Operation::Sum, &[1e8, 1.0, -1e8]), 0);
        assert_eq!(f32s(Operation::Sum, &[1e8, -1e8, 1.0]), 1f32.to_bits());
        assert_eq!(f32s(Operation::Avg, &[1.0, 1.0, 2.0]), (4.0f32 / 3.0).to_bits());
        let mut result = [0; 2];
        // bf16: 256 + 1 is a tie and goes to the even 256, each time.
        combine(Datatype::Bf16, Operation::Sum, &[&[0x80, 0x43], &[0x80, 0x3f], &[0x80, 0x3f]], &mut result);
        assert_eq!(result, [0x80, 0x43]);
    }

    #[test]
    fn integers_wrap_and_averages_go_towards_zero() {
        let mut result = [0; 2];
        combine(Datatype::I8, Operation::Sum, &[&[100, 0xfd], &[100, 0xfc]], &mut result);
        assert_eq!(result, [200, 0xf9]); // −56, −7
        combine(Datatype::I8, Operation::Avg, &[&[100, 0xfd], &[100, 0xfc]], &mut result);
        assert_eq!(result, [0xe4, 0xfd]); // −28, −3
    }

    #[test]
    fn zeros_have_signs_and_what_is_no_number_stays() {
        assert_eq!(f32s(Operation::Min, &[0.0, -0.0]), 1 << 31);
        assert_eq!(f32s(Operation::Max, &[-0.0, 0.0]), 0);
        assert_eq!(f32s(Operation::Max, &[3.0, 7.0, -1.0]), 7f32.to_bits());
        let nan = f32::from_bits(0xffc0_0002);
        assert_eq!(f32s(Operation::Min, &[1.0, nan, f32::from_bits(0x7fc0_0001)]), nan.to_bits());
        assert_eq!(f32s(Operation::Sum, &[1.0, nan]), 0x7fc0_0000);
    }
}
