//! Reading numbers and bits.

/// Bytes, of which those behind the end are an error.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn slice(self, start: usize, len: usize) -> Bytes<'a> {
        Bytes(&self.0[start..start + len])
    }

    pub(crate) fn u8(self, at: usize) -> usize {
        self.0[at].into()
    }

    /// The number of `len` bytes at byte `at`.
    pub(crate) fn number(self, at: usize, len: usize) -> u64 {
        self.0[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Bit `at`, counted from the lowest of the first byte.
    pub(crate) fn bit(self, at: usize) -> usize {
        usize::from(self.0[at / 8]) >> (at % 8) & 1
    }

    /// The `len` bits from bit `at` on.
    pub(crate) fn bits(self, at: usize, len: usize) -> usize {
        (0..len).map(|i| self.bit(at + i) << i).sum()
    }

    /// How many of its bits are set.
    pub(crate) fn ones(self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }
}
