//! Arithmetic on words of `B` bytes, held in the low bits of a `u64`.

/// Bits of a word.
pub(super) const fn word_bits<const B: usize>() -> u32 {
    8 * B as u32
}

/// The low bits of `number`, as many as a word has.
pub(super) const fn truncated<const B: usize>(number: u64) -> u64 {
    number & u64::MAX >> (64 - word_bits::<B>())
}

/// The word in `bytes`.
pub(super) fn word<const B: usize>(bytes: &[u8; B]) -> u64 {
    let mut wide = [0; 8];
    wide[..B].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// The bytes of `word`.
pub(super) fn word_bytes<const B: usize>(word: u64) -> [u8; B] {
    let mut bytes = [0; B];
    bytes.copy_from_slice(&word.to_le_bytes()[..B]);
    bytes
}

/// The bits of `word` without its leading zeros.
pub(super) const fn bit_len(word: u64) -> u32 {
    64 - word.leading_zeros()
}

/// Signed numbers in the order 0, −1, 1, −2, 2 …: small magnitudes get few bits.
pub(super) const fn zigzag<const B: usize>(word: u64) -> u64 {
    let unused = 64 - word_bits::<B>();
    let signed = (word << unused) as i64 >> unused;
    truncated::<B>((signed << 1 ^ signed >> 63) as u64)
}

/// The inverse of [`zigzag`].
pub(super) const fn unzigzag<const B: usize>(word: u64) -> u64 {
    truncated::<B>(word >> 1 ^ (word & 1).wrapping_neg())
}

/// The bits of `word` in reverse order.
pub(super) const fn reversed<const B: usize>(word: u64) -> u64 {
    word.reverse_bits() >> (64 - word_bits::<B>())
}

/// `word` rotated right by less than its bits.
pub(super) const fn rotated_right<const B: usize>(word: u64, by: u32) -> u64 {
    if by == 0 { word } else { truncated::<B>(word >> by | word << (word_bits::<B>() - by)) }
}

/// `word` rotated left by less than its bits.
pub(super) const fn rotated_left<const B: usize>(word: u64, by: u32) -> u64 {
    if by == 0 { word } else { rotated_right::<B>(word, word_bits::<B>() - by) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zigzag_of_small_numbers() {
        assert_eq!([0, 0xff, 1, 0xfe, 0x7f, 0x80].map(zigzag::<1>), [0, 1, 2, 3, 0xfe, 0xff]);
        assert_eq!(zigzag::<2>(0xff80), 0xff);
        assert_eq!(zigzag::<8>(u64::MAX), 1);
        for word in 0..=255 {
            assert_eq!(unzigzag::<1>(zigzag::<1>(word)), word);
        }
    }

    #[test]
    fn rotations_are_inverse() {
        assert_eq!(rotated_right::<1>(0b1000_0011, 1), 0b1100_0001);
        assert_eq!(rotated_left::<1>(0b1100_0001, 1), 0b1000_0011);
        assert_eq!(rotated_right::<8>(1, 63), 2);
        assert_eq!(rotated_left::<4>(7, 0), 7);
        assert_eq!(reversed::<2>(0b11), 0xc000);
    }
}
