//! Small steps on vectors of 32 bytes, and on halves and quarters of them.

use std::arch::x86_64::*;

use crate::cpu::lanes::{COMPRESS, EXPAND, NO_LANE};

/// # Safety
/// `from` has 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load(from: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// # Safety
/// `to` has room for 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store(to: *mut u8, value: __m256i) {
    // SAFETY: the caller's promise.
    unsafe { _mm256_storeu_si256(to.cast(), value) }
}

/// # Safety
/// `from` has 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load128(from: *const u8) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// # Safety
/// `to` has room for 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store128(to: *mut u8, value: __m128i) {
    // SAFETY: the caller's promise.
    unsafe { _mm_storeu_si128(to.cast(), value) }
}

/// # Safety
/// `from` has 8 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load64(from: *const u8) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm_loadl_epi64(from.cast()) }
}

/// # Safety
/// `to` has room for 8 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store64(to: *mut u8, value: __m128i) {
    // SAFETY: the caller's promise.
    unsafe { _mm_storel_epi64(to.cast(), value) }
}

/// A control that moves the lanes of `mask` to the front, in eight bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn compress_control(mask: u8) -> __m128i {
    // SAFETY: a control has eight bytes.
    unsafe { load64(COMPRESS[usize::from(mask)].as_ptr()) }
}

/// A control that moves front lanes to those of `mask`, in eight bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn expand_control(mask: u8) -> __m128i {
    // SAFETY: a control has eight bytes.
    unsafe { load64(EXPAND[usize::from(mask)].as_ptr()) }
}

/// The four quarters after a pack, which works on the halves of vectors, in order.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn in_order(packed: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
}

/// The low and the high bytes of 32 words.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn bytes_of_words(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    let low = _mm256_set1_epi16(0xff);
    let lows = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    let highs = _mm256_packus_epi16(_mm256_srli_epi16::<8>(a), _mm256_srli_epi16::<8>(b));
    (in_order(lows), in_order(highs))
}

/// The low and the high words of 16 dwords.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn words_of_dwords(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    let low = _mm256_set1_epi32(0xffff);
    let lows = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    let highs = _mm256_packus_epi32(_mm256_srli_epi32::<16>(a), _mm256_srli_epi32::<16>(b));
    (in_order(lows), in_order(highs))
}

/// The low and the high dwords of 8 qwords.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn dwords_of_qwords(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
    let lows = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
    let highs = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
    (in_order(lows), in_order(highs))
}

/// Units of `SIZE` bytes of two vectors in turn.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn interleave<const SIZE: usize>(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    let (low, high) = match SIZE {
        1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
        2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
        _ => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
    };
    (_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high))
}

/// The highest bits of 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn high_bits(a: __m256i, b: __m256i) -> u64 {
    u64::from(_mm256_movemask_epi8(a) as u32) | u64::from(_mm256_movemask_epi8(b) as u32) << 32
}

/// Bits as bytes of ones or zeros: the 32 bits from byte `FIRST` on of the sixteen in either half.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn spread_bits<const FIRST: i64>(bits: __m256i) -> __m256i {
    let eight = |byte: i64| (FIRST + byte) * 0x0101_0101_0101_0101;
    let each_byte = _mm256_setr_epi64x(eight(0), eight(1), eight(2), eight(3));
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, each_byte), bit), bit)
}

/// For each byte of ones how many are before it in its half of the vector; anything for other bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn ranks(ones: __m256i) -> __m256i {
    // How many up to each byte: in fours by a multiplication, then what the eight and the half have before.
    // With bytes of ones for ones the factor is 0x0101_0101 / 255.
    const FACTOR: i32 = 0xfbfc_fdff_u32 as i32;
    let mut sums = _mm256_mullo_epi32(ones, _mm256_set1_epi32(FACTOR));
    let none = NO_LANE as i8;
    let low_four = _mm_setr_epi8(none, none, none, none, 3, 3, 3, 3, none, none, none, none, 11, 11, 11, 11);
    sums = _mm256_add_epi8(sums, _mm256_shuffle_epi8(sums, _mm256_broadcastsi128_si256(low_four)));
    let low_eight = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0707_0707_0707_0707, -1));
    sums = _mm256_add_epi8(sums, _mm256_shuffle_epi8(sums, low_eight));
    _mm256_add_epi8(sums, _mm256_set1_epi8(-1))
}
