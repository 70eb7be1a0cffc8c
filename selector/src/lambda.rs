//! λ, the weight of latency against size.

use std::fmt;
use std::num::ParseFloatError;
use std::str::FromStr;

/// Fraction bits of the fixed-point number that a λ is.
const FRACTION_BITS: u32 = 20;

/// How many bits of size one nanosecond of latency is worth: the λ of the penalty `P = N + λ (L_C + L_D)`.
///
/// Zero looks at size alone; the larger, the more a fast codec counts. Kept as a multiple of 2⁻²⁰, rounded
/// to the nearest: penalties are then whole numbers of 2⁻²⁰ bits, their order is exact, and all machines
/// agree on it. The integers of the paper are exact.
///
/// # Units
/// bit/ns, which is Gb/s. The paper's cycle is 1 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lambda {
    fixed_point: u64,
}

impl Lambda {
    /// The paper's best overall: 6.
    pub const PAPER: Self = Self { fixed_point: 6 << FRACTION_BITS };
    /// The largest λ in Gb/s: 2³².
    pub const MAX_GBPS: f64 = 4_294_967_296.0;

    /// λ from a number of Gb/s.
    ///
    /// # Errors
    /// [`LambdaError`] if it is no number, negative, or above [`MAX_GBPS`](Self::MAX_GBPS).
    pub fn try_new(lambda_gbps: f64) -> Result<Self, LambdaError> {
        if lambda_gbps.is_nan() {
            return Err(LambdaError::NotANumber);
        }
        if lambda_gbps < 0.0 {
            return Err(LambdaError::Negative { lambda_gbps });
        }
        if lambda_gbps > Self::MAX_GBPS {
            return Err(LambdaError::TooLarge { lambda_gbps });
        }
        let scale = f64::from(1u32 << FRACTION_BITS);
        Ok(Self { fixed_point: (lambda_gbps * scale).round() as u64 })
    }

    /// The number in Gb/s, as it is used.
    #[must_use]
    pub fn gbps(self) -> f64 {
        self.fixed_point as f64 / f64::from(1u32 << FRACTION_BITS)
    }

    /// The nearest decimal of so few digits that it is the same λ: the one that was given where that was short. What is shown
    /// and kept.
    ///
    /// # Units
    /// Gb/s.
    #[must_use]
    pub fn decimal(self) -> f64 {
        let exact = self.gbps();
        let decimals =
            (0..FRACTION_BITS as usize).filter_map(|digits| format!("{exact:.digits$}").parse().ok());
        let is_same = |decimal: &f64| Self::try_new(*decimal) == Ok(self);
        decimals.into_iter().find(is_same).unwrap_or(exact)
    }

    /// `P = N + λ L`, in units of 2⁻²⁰ bits.
    ///
    /// λ takes 53 bits, so no sum overflows.
    pub(crate) fn penalty(self, size_bits: u64, latency_ns: u64) -> u128 {
        (u128::from(size_bits) << FRACTION_BITS) + u128::from(self.fixed_point) * u128::from(latency_ns)
    }
}

impl Default for Lambda {
    /// [`Lambda::PAPER`].
    fn default() -> Self {
        Self::PAPER
    }
}

/// The number of [`Lambda::decimal`].
impl fmt::Display for Lambda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decimal().fmt(f)
    }
}

impl FromStr for Lambda {
    type Err = LambdaError;

    fn from_str(text: &str) -> Result<Self, LambdaError> {
        let lambda_gbps =
            text.parse().map_err(|source| LambdaError::Text { text: text.to_owned(), source })?;
        Self::try_new(lambda_gbps)
    }
}

/// Why something is no λ.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LambdaError {
    /// Text that does not read as a number.
    #[error("lambda {text:?} does not read as a number")]
    Text {
        /// What was given.
        text: String,
        /// What the parser said.
        source: ParseFloatError,
    },
    /// NaN.
    #[error("lambda is not a number")]
    NotANumber,
    /// Below zero.
    #[error("lambda is {lambda_gbps}, but must not be negative")]
    Negative {
        /// What was given.
        lambda_gbps: f64,
    },
    /// Above the largest.
    #[error("lambda is {lambda_gbps}, but at most {max} is possible", max = Lambda::MAX_GBPS)]
    TooLarge {
        /// What was given.
        lambda_gbps: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalty_of_a_line_at_the_papers_lambda() {
        // 6 times 8, 3 and 25 cycles are 48, 18 and 150 bits.
        for (cycles, bits) in [(0, 0), (8, 48), (3, 18), (25, 150)] {
            assert_eq!(Lambda::PAPER.penalty(100, cycles), (100 + bits) << 20);
        }
        assert_eq!(Lambda::PAPER, Lambda::try_new(6.0).unwrap());
    }

    #[test]
    fn fractions_count_exactly() {
        let half = Lambda::try_new(0.5).unwrap();
        assert_eq!(half.penalty(10, 3), 23 << 19);
        assert_eq!(half.gbps().to_bits(), 0.5f64.to_bits());
        // Ten times 0.1 of a bit: in any order, over one line or ten, the sums agree.
        let tenth = Lambda::try_new(0.1).unwrap();
        assert_eq!(tenth.penalty(70, 30), 10 * tenth.penalty(7, 3));
    }

    #[test]
    fn the_largest_penalty_does_not_overflow() {
        let largest = Lambda::try_new(Lambda::MAX_GBPS).unwrap();
        let max = u128::from(u64::MAX);
        assert_eq!(largest.penalty(u64::MAX, u64::MAX), (max << 20) + (max << 52));
    }

    #[test]
    fn what_is_no_lambda_is_refused() {
        assert_eq!(Lambda::try_new(f64::NAN), Err(LambdaError::NotANumber));
        assert_eq!(Lambda::try_new(-0.001), Err(LambdaError::Negative { lambda_gbps: -0.001 }));
        for lambda_gbps in [4_294_967_296.5, f64::INFINITY] {
            assert_eq!(Lambda::try_new(lambda_gbps), Err(LambdaError::TooLarge { lambda_gbps }));
        }
        assert_eq!(Lambda::try_new(-0.0).unwrap().penalty(1, 1), 1 << 20);
    }

    fn tenth() -> Lambda {
        Lambda::try_new(0.1).unwrap()
    }

    #[test]
    fn every_lambda_reads_back_from_the_fewest_decimals() {
        // All of the smallest, those around powers of two, and others by chance.
        let small = 0..1 << 12;
        let around =
            (1..53).flat_map(|bits| (1u64 << bits).saturating_sub(3)..=((1 << bits) + 3).min(1 << 52));
        let mut state = 1u64;
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 12 >> (state % 41)
        });
        for fixed_point in small.chain(around).chain(random.take(20_000)) {
            let lambda = Lambda { fixed_point };
            let text = lambda.to_string();
            assert_eq!(text.parse(), Ok(lambda), "{text}");
            assert_eq!(Lambda::try_new(lambda.decimal()), Ok(lambda), "{text}");
            // One decimal fewer is another λ, rounded either way; of very large numbers f64 does not tell such decimals apart.
            let Some((whole, decimals)) = text.split_once('.').filter(|_| fixed_point < 1 << 40) else {
                continue;
            };
            let (digits, places): (u64, _) =
                (format!("{whole}{decimals}").parse().unwrap(), decimals.len() - 1);
            let one = 10u64.pow(places as u32);
            for fewer in [digits / 10, digits / 10 + 1] {
                let shorter = format!("{}.{:0>places$}", fewer / one, fewer % one);
                assert_ne!(shorter.parse(), Ok(lambda), "{text}");
            }
        }
    }

    #[test]
    fn reads_and_prints_numbers() {
        assert_eq!("32".parse(), Lambda::try_new(32.0));
        assert_eq!("nan".parse::<Lambda>(), Err(LambdaError::NotANumber));
        assert_eq!("2.5".parse::<Lambda>().unwrap().to_string(), "2.5");
        for given in ["0", "0.1", "5.9", "6", "0.000001", "1234.56789", "4294967295.9", "4294967296"] {
            assert_eq!(given.parse::<Lambda>().unwrap().to_string(), given);
        }
        assert_eq!(format!("{:>6}|{:<6}|{:.3}", tenth(), tenth(), tenth()), "   0.1|0.1   |0.100");
        assert_eq!(tenth().decimal().to_bits(), 0.1f64.to_bits());
        assert!(tenth().gbps() > 0.1, "which is what it counts as");
        let error = "six".parse::<Lambda>().unwrap_err();
        assert_eq!(error.to_string(), "lambda \"six\" does not read as a number");
    }
}
