//! The definition of the arithmetic.

use half::{bf16, f16};

use super::{Datatype, Operation};
use crate::cpu::in_default_float_environment;

/// `left = left ∘ right`, number by number: one step. Both hold the same count of whole numbers.
pub fn combine(operation: Operation, datatype: Datatype, left: &mut [u8], right: &[u8]) {
    in_default_float_environment(|| {
        with_number!(datatype, N => match operation {
            Operation::Sum | Operation::Avg => each::<N>(left, right, N::sum),
            Operation::Min => each::<N>(left, right, N::smaller),
            Operation::Max => each::<N>(left, right, N::larger),
        });
    });
}

/// The last step, when the numbers of all `ranks` are combined: that of an average. `ranks` is at least 1.
pub fn finish(operation: Operation, datatype: Datatype, numbers: &mut [u8], ranks: u32) {
    if operation == Operation::Avg {
        in_default_float_environment(|| {
            with_number!(datatype, N => each_alone::<N>(numbers, |sum| sum.divide(ranks)));
        });
    }
}

/// Runs `$work` with `$number` standing for the type of `$datatype`.
macro_rules! with_number {
    ($datatype:expr, $number:ident => $work:expr) => {
        match $datatype {
            Datatype::I8 => {
                type $number = i8;
                $work
            }
            Datatype::I16 => {
                type $number = i16;
                $work
            }
            Datatype::I32 => {
                type $number = i32;
                $work
            }
            Datatype::I64 => {
                type $number = i64;
                $work
            }
            Datatype::U8 => {
                type $number = u8;
                $work
            }
            Datatype::U16 => {
                type $number = u16;
                $work
            }
            Datatype::U32 => {
                type $number = u32;
                $work
            }
            Datatype::U64 => {
                type $number = u64;
                $work
            }
            Datatype::F16 => {
                type $number = f16;
                $work
            }
            Datatype::Bf16 => {
                type $number = bf16;
                $work
            }
            Datatype::F32 => {
                type $number = f32;
                $work
            }
            Datatype::F64 => {
                type $number = f64;
                $work
            }
        }
    };
}
use with_number;

fn each<N: Number>(left: &mut [u8], right: &[u8], combine: impl Fn(N, N) -> N) {
    let width = size_of::<N>();
    for (left, right) in left.chunks_exact_mut(width).zip(right.chunks_exact(width)) {
        combine(N::load(left), N::load(right)).store(left);
    }
}

fn each_alone<N: Number>(numbers: &mut [u8], change: impl Fn(N) -> N) {
    for number in numbers.chunks_exact_mut(size_of::<N>()) {
        change(N::load(number)).store(number);
    }
}

/// A number of one datatype.
trait Number: Copy {
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
    fn sum(self, right: Self) -> Self;
    fn smaller(self, right: Self) -> Self;
    fn larger(self, right: Self) -> Self;
    fn divide(self, ranks: u32) -> Self;
}

macro_rules! load_and_store {
    () => {
        fn load(bytes: &[u8]) -> Self {
            Self::from_le_bytes(bytes.try_into().expect("chunks have the width of a number"))
        }

        fn store(self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.to_le_bytes());
        }
    };
}

macro_rules! integer {
    ($($integer:ident)*) => {$(
        impl Number for $integer {
            load_and_store!();

            fn sum(self, right: Self) -> Self {
                self.wrapping_add(right)
            }

            fn smaller(self, right: Self) -> Self {
                Ord::min(self, right)
            }

            fn larger(self, right: Self) -> Self {
                Ord::max(self, right)
            }

            fn divide(self, ranks: u32) -> Self {
                // In 128 bits: the number of ranks may not fit the datatype.
                (i128::from(self) / i128::from(ranks)) as Self
            }
        }
    )*};
}

integer! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! float {
    ($($float:ident, computed as $wide:ident by $widen:expr, $narrow:expr;)*) => {$(
        impl Number for $float {
            load_and_store!();

            fn sum(self, right: Self) -> Self {
                let sum: $wide = $widen(self) + $widen(right);
                if sum.is_nan() { Self::NAN } else { $narrow(sum) }
            }

            fn smaller(self, right: Self) -> Self {
                // The order of bits as sign and magnitude is that of the numbers, −0 before +0.
                if self.is_nan() || (!right.is_nan() && self.total_cmp(&right).is_le()) { self } else { right }
            }

            fn larger(self, right: Self) -> Self {
                if self.is_nan() || (!right.is_nan() && self.total_cmp(&right).is_ge()) { self } else { right }
            }

            fn divide(self, ranks: u32) -> Self {
                if self.is_nan() { Self::NAN } else { $narrow($widen(self) / ranks as $wide) }
            }
        }
    )*};
}

float! {
    f16, computed as f32 by f16::to_f32, f16::from_f32;
    bf16, computed as f32 by bf16::to_f32, bf16::from_f32;
    f32, computed as f32 by std::convert::identity::<f32>, std::convert::identity;
    f64, computed as f64 by std::convert::identity::<f64>, std::convert::identity;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined<const W: usize>(operation: Operation, datatype: Datatype, numbers: &[[u8; W]]) -> [u8; W] {
        let mut left = numbers[0];
        numbers[1..].iter().for_each(|right| combine(operation, datatype, &mut left, right));
        finish(operation, datatype, &mut left, numbers.len() as u32);
        left
    }

    /// Bits of floats of 16 bits.
    fn of_bits(operation: Operation, datatype: Datatype, numbers: &[u16]) -> u16 {
        let numbers: Vec<_> = numbers.iter().map(|bits| bits.to_le_bytes()).collect();
        u16::from_le_bytes(combined(operation, datatype, &numbers))
    }

    fn f32_bits(operation: Operation, numbers: &[f32]) -> u32 {
        let numbers: Vec<_> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        u32::from_le_bytes(combined(operation, Datatype::F32, &numbers))
    }

    #[test]
    fn integers_wrap_and_averages_go_towards_zero() {
        let i8s = |operation, numbers: &[i8]| {
            let numbers: Vec<_> = numbers.iter().map(|number| number.to_le_bytes()).collect();
            i8::from_le_bytes(combined(operation, Datatype::I8, &numbers))
        };
        assert_eq!(i8s(Operation::Sum, &[100, 100]), -56);
        assert_eq!(i8s(Operation::Avg, &[-3, -4]), -3);
        assert_eq!(i8s(Operation::Avg, &[100, 100]), -28, "the wrapped sum is divided");
        assert_eq!(i8s(Operation::Min, &[3, -128, 127]), -128);
        assert_eq!(i8s(Operation::Max, &[3, -128, 127]), 127);
        let mut many = 100i8.to_le_bytes();
        finish(Operation::Avg, Datatype::I8, &mut many, 1000);
        assert_eq!(many, [0], "more ranks than the datatype can count");
        let u64s = [u64::MAX, 2].map(u64::to_le_bytes);
        assert_eq!(u64::from_le_bytes(combined(Operation::Sum, Datatype::U64, &u64s)), 1);
        assert_eq!(u64::from_le_bytes(combined(Operation::Max, Datatype::U64, &u64s)), u64::MAX);
    }

    #[test]
    fn short_floats_are_rounded_after_each_step() {
        // bf16 has 8 bits of significand: 256 + 1 is halfway to 258, and goes to the even 256, twice.
        let one = 0x3f80;
        assert_eq!(of_bits(Operation::Sum, Datatype::Bf16, &[0x4380, one, one]), 0x4380);
        // From the other side 1 + 1 + 256 is 258.
        assert_eq!(of_bits(Operation::Sum, Datatype::Bf16, &[one, one, 0x4380]), 0x4381);
        // f16: 2048 + 1 stays 2048; 65504 + 32 is below the halfway point to infinity, + 16 more too.
        assert_eq!(of_bits(Operation::Sum, Datatype::F16, &[0x6800, 0x3c00]), 0x6800);
        assert_eq!(of_bits(Operation::Sum, Datatype::F16, &[0x7bff, 0x4c00]), 0x7c00);
        assert_eq!(of_bits(Operation::Sum, Datatype::F16, &[0x7bff, 0x4b80]), 0x7bff);
        // The smallest denormal, halved by an average of two: ties to even, zero.
        assert_eq!(of_bits(Operation::Avg, Datatype::F16, &[0x0001, 0x0000]), 0x0000);
        assert_eq!(of_bits(Operation::Avg, Datatype::F16, &[0x0001, 0x0002]), 0x0002);
    }

    #[test]
    fn sums_that_are_no_number_are_the_one_quiet_nan() {
        let nan = f32::from_bits(0xffc1_2345);
        for numbers in [[f32::INFINITY, f32::NEG_INFINITY], [nan, 1.0], [1.0, nan]] {
            assert_eq!(f32_bits(Operation::Sum, &numbers), 0x7fc0_0000, "{numbers:?}");
            assert_eq!(f32_bits(Operation::Avg, &numbers), 0x7fc0_0000, "{numbers:?}");
        }
        assert_eq!(of_bits(Operation::Sum, Datatype::F16, &[0x7c00, 0xfc00]), 0x7e00);
        assert_eq!(of_bits(Operation::Sum, Datatype::Bf16, &[0xffff, 0x3f80]), 0x7fc0);
        assert_eq!(f32_bits(Operation::Sum, &[f32::INFINITY, 1.0]), f32::INFINITY.to_bits());
    }

    #[test]
    fn smallest_and_largest_know_signed_zeros_and_keep_nans() {
        for (numbers, min, max) in
            [([0.0, -0.0], -0.0f32, 0.0f32), ([-0.0, 0.0], -0.0, 0.0), ([1.0, -2.0], -2.0, 1.0)]
        {
            assert_eq!(f32_bits(Operation::Min, &numbers), min.to_bits(), "{numbers:?}");
            assert_eq!(f32_bits(Operation::Max, &numbers), max.to_bits(), "{numbers:?}");
        }
        let (a, b) = (f32::from_bits(0x7fc0_0001), f32::from_bits(0xffc0_0002));
        for operation in [Operation::Min, Operation::Max] {
            assert_eq!(f32_bits(operation, &[1.0, a]), a.to_bits());
            assert_eq!(f32_bits(operation, &[a, b, 1.0]), a.to_bits());
            assert_eq!(f32_bits(operation, &[f32::NEG_INFINITY, b, f32::INFINITY]), b.to_bits());
            assert_eq!(of_bits(operation, Datatype::F16, &[0x3c00, 0x7c01]), 0x7c01, "a signalling one, too");
        }
    }

    #[test]
    fn order_matters_and_is_from_the_left() {
        assert_eq!(f32_bits(Operation::Sum, &[1e8, 1.0, -1e8]), 0f32.to_bits());
        assert_eq!(f32_bits(Operation::Sum, &[1e8, -1e8, 1.0]), 1f32.to_bits());
        assert_eq!(f32_bits(Operation::Avg, &[1.0, 1.0, 2.0]), (4.0f32 / 3.0).to_bits());
    }
}
