//! What the codecs cost in the hardware that the paper models.

use mgcomp_codecs::Algorithm;

/// Latency of a codec. One cycle is 1 ns, for the modelled clock runs at 1 GHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Cycles {
    /// L_C: cycles that the sender spends.
    pub compress: u64,
    /// L_D: cycles that the receiver spends.
    pub decompress: u64,
}

impl Cycles {
    /// The latency of a bypass.
    pub const ZERO: Self = Self { compress: 0, decompress: 0 };

    /// L_C + L_D, at most `u64::MAX`.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.compress.saturating_add(self.decompress)
    }

    /// The latency of `lines` lines, one after the other. Exact up to 2⁵⁸ lines, the longest transfer.
    #[must_use]
    pub const fn times(self, lines: u64) -> Self {
        Self {
            compress: self.compress.saturating_mul(lines),
            decompress: self.decompress.saturating_mul(lines),
        }
    }
}

/// The latency of `algorithm` for one 64-byte line; `None` for algorithms that the paper does not model.
///
/// # Source
/// IPDPS 2019, Table III; "not compressed" has no latency (section V).
#[must_use]
pub const fn table3(algorithm: Algorithm) -> Option<Cycles> {
    match algorithm {
        Algorithm::None => Some(Cycles::ZERO),
        Algorithm::Bdi => Some(Cycles { compress: 2, decompress: 1 }),
        Algorithm::Fpc => Some(Cycles { compress: 3, decompress: 5 }),
        Algorithm::CpackZ => Some(Cycles { compress: 16, decompress: 9 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_totals_are_those_of_the_paper() {
        let total = |algorithm| table3(algorithm).map(Cycles::total);
        assert_eq!(total(Algorithm::None), Some(0));
        assert_eq!(total(Algorithm::Bdi), Some(3));
        assert_eq!(total(Algorithm::Fpc), Some(8));
        assert_eq!(total(Algorithm::CpackZ), Some(25));
        assert_eq!(total(Algorithm::Zvc), None);
    }

    #[test]
    fn the_longest_transfer_does_not_overflow() {
        let cycles = table3(Algorithm::CpackZ).unwrap().times(1 << 58);
        assert_eq!(cycles, Cycles { compress: 1 << 62, decompress: 9 << 58 });
        assert_eq!(cycles.total(), 25 << 58);
    }
}
