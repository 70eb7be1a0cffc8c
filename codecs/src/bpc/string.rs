//! The bits of one entry, first bit lowest.

use super::ENTRY_LEN;

/// The longest bit string of an entry: no code is longer than 32 bits, the first word takes 33. And room behind
/// it, so that eight bytes can be had at the start of any field.
const STRING_LEN: usize = (33 + 33 * 32_usize).div_ceil(8) + 8;

/// Appends fields.
pub(super) struct BitWriter {
    bytes: [u8; STRING_LEN],
    bits: usize,
}

impl BitWriter {
    pub(super) fn new() -> Self {
        Self { bytes: [0; STRING_LEN], bits: 0 }
    }

    /// Appends `field`, which has `bits` bits, 33 at most.
    pub(super) fn push(&mut self, field: u64, bits: u32) {
        let at = self.bits / 8;
        for (byte, new) in self.bytes[at..].iter_mut().zip((field << (self.bits % 8)).to_le_bytes()) {
            *byte |= new;
        }
        self.bits += bits as usize;
    }

    /// The bytes written to; the last one ends in zeros.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.bits.div_ceil(8)]
    }
}

/// Takes fields off the front. Behind the end there are zeros; who reads them finds out by the count.
pub(super) struct BitReader {
    bytes: [u8; STRING_LEN],
    bits: usize,
}

impl BitReader {
    /// # Panics
    /// If `string` is longer than an entry.
    pub(super) fn new(string: &[u8]) -> Self {
        assert!(string.len() <= ENTRY_LEN);
        let mut bytes = [0; STRING_LEN];
        bytes[..string.len()].copy_from_slice(string);
        Self { bytes, bits: 0 }
    }

    /// The next `bits` bits, 33 at most.
    pub(super) fn take(&mut self, bits: u32) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[self.bits / 8..][..8]);
        let field = u64::from_le_bytes(word) >> (self.bits % 8) & ((1 << bits) - 1);
        self.bits += bits as usize;
        field
    }

    /// How many bits were taken, those behind the end counted.
    pub(super) fn taken(&self) -> usize {
        self.bits
    }
}
