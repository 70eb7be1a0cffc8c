//! Sixty-four values cut into symbols and rests, and back.

use std::arch::x86_64::*;

use super::lanes::{bytes_of_words, dwords_of_qwords, interleave, load, store, words_of_dwords};
use super::planes::{put_planes, take_planes};
use super::tiers::Symbols;
use crate::xp::vector::cut::{Cut, Rests, RestsMut};

/// Sixty-four words.
type Words = [__m256i; 4];

/// The symbols of 64 values. If `WRITE`, the rests go out.
///
/// # Safety
/// `values` has 64 values. If `WRITE`, each piece has room for its 64 numbers, and the planes for 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn cut<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    values: *const u8,
    rests: RestsMut,
) -> Symbols {
    // SAFETY: the caller's promise, for every width below.
    let mut tops = unsafe {
        match B {
            8 => cut_bytes::<S>(values),
            16 => bytes_of_tops(rotated::<16, S>(load_four(values))),
            32 => bytes_of_tops(cut_dwords::<S, WRITE>(values, rests.pieces[0])),
            _ => bytes_of_tops(cut_qwords::<S, WRITE>(values, rests.pieces)),
        }
    };
    if B > 8 && Cut::<B, E, S>::TOP == 1 && WRITE {
        // SAFETY: the low bytes of the words are the last piece.
        unsafe { store_two(rests.pieces[if B == 16 { 0 } else { 1 }], tops.low) };
    }
    if Cut::<B, E, S>::PLANES == 0 {
        return tops;
    }
    let lowest = if Cut::<B, E, S>::TOP == 1 { &mut tops.high } else { &mut tops.low };
    if WRITE {
        // SAFETY: the caller's promise.
        unsafe { put_low_bits::<B, E, S>(*lowest, rests.planes) };
    }
    for bytes in lowest {
        *bytes = _mm256_and_si256(*bytes, _mm256_set1_epi8(Cut::<B, E, S>::SYMBOL_MASK as i8));
    }
    tops
}

/// Puts the low bits of bytes as planes.
///
/// # Safety
/// There is room for 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put_low_bits<const B: u32, const E: u32, const S: bool>([a, b]: [__m256i; 2], to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match Cut::<B, E, S>::PLANES {
            2 => put_planes::<2>(a, b, to),
            3 => put_planes::<3>(a, b, to),
            4 => put_planes::<4>(a, b, to),
            _ => put_planes::<7>(a, b, to),
        }
    }
}

/// The low bits of 64 bytes, from planes.
///
/// # Safety
/// The planes are there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn take_low_bits<const B: u32, const E: u32, const S: bool>(from: *const u8) -> (__m256i, __m256i) {
    // SAFETY: the caller's promise.
    unsafe {
        match Cut::<B, E, S>::PLANES {
            2 => take_planes::<2>(from),
            3 => take_planes::<3>(from),
            4 => take_planes::<4>(from),
            5 => take_planes::<5>(from),
            _ => take_planes::<7>(from),
        }
    }
}

/// The high and the low bytes of words.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of_tops([a, b, c, d]: Words) -> Symbols {
    let ((low_a, high_a), (low_b, high_b)) = (bytes_of_words(a, b), bytes_of_words(c, d));
    Symbols { high: [high_a, high_b], low: [low_a, low_b] }
}

/// # Safety
/// There is room for 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_two(to: *mut u8, [a, b]: [__m256i; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        store(to, a);
        store(to.add(32), b);
    }
}

/// # Safety
/// There are 128 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_four(from: *const u8) -> Words {
    // SAFETY: the caller's promise.
    unsafe { [load(from), load(from.add(32)), load(from.add(64)), load(from.add(96))] }
}

/// Values of `BITS` bits rotated left by one, unless the sign stays.
#[inline]
#[target_feature(enable = "avx2")]
fn rotated<const BITS: u32, const S: bool>(mut values: Words) -> Words {
    if S {
        return values;
    }
    for v in &mut values {
        *v = match BITS {
            16 => _mm256_or_si256(_mm256_add_epi16(*v, *v), _mm256_srli_epi16::<15>(*v)),
            32 => _mm256_or_si256(_mm256_add_epi32(*v, *v), _mm256_srli_epi32::<31>(*v)),
            _ => _mm256_or_si256(_mm256_add_epi64(*v, *v), _mm256_srli_epi64::<63>(*v)),
        };
    }
    values
}

/// Values of `BITS` bits rotated right by one, unless the sign stays.
#[inline]
#[target_feature(enable = "avx2")]
fn rotated_back<const BITS: u32, const S: bool>(v: __m256i) -> __m256i {
    match BITS {
        _ if S => v,
        16 => _mm256_or_si256(_mm256_srli_epi16::<1>(v), _mm256_slli_epi16::<15>(v)),
        32 => _mm256_or_si256(_mm256_srli_epi32::<1>(v), _mm256_slli_epi32::<31>(v)),
        _ => _mm256_or_si256(_mm256_srli_epi64::<1>(v), _mm256_slli_epi64::<63>(v)),
    }
}

/// # Safety
/// There are 64 values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn cut_bytes<const S: bool>(values: *const u8) -> Symbols {
    let zero = _mm256_setzero_si256();
    // SAFETY: 64 values of a byte.
    let (mut a, mut b) = unsafe { (load(values), load(values.add(32))) };
    if !S {
        let one = _mm256_set1_epi8(1);
        let sign = |v| _mm256_and_si256(_mm256_srli_epi16::<7>(v), one);
        (a, b) = (
            _mm256_or_si256(_mm256_add_epi8(a, a), sign(a)),
            _mm256_or_si256(_mm256_add_epi8(b, b), sign(b)),
        );
    }
    Symbols { high: [a, b], low: [zero; 2] }
}

/// The high words of 64 dwords, rotated unless the sign stays; the low ones go out.
///
/// # Safety
/// There are 64 values. If `WRITE`, there is room for the low words.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn cut_dwords<const S: bool, const WRITE: bool>(values: *const u8, to: *mut u8) -> Words {
    let mut tops = [_mm256_setzero_si256(); 4];
    for half in 0..2 {
        // SAFETY: this is the first or second half of the values, and of the room.
        unsafe {
            let v = rotated::<32, S>(load_four(values.add(128 * half)));
            for pair in 0..2 {
                let (low, high) = words_of_dwords(v[2 * pair], v[2 * pair + 1]);
                if WRITE {
                    store(to.add(64 * half + 32 * pair), low);
                }
                tops[2 * half + pair] = high;
            }
        }
    }
    tops
}

/// The highest words of 64 qwords; what is below goes out.
///
/// # Safety
/// There are 64 values. If `WRITE`, there is room for the pieces.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn cut_qwords<const S: bool, const WRITE: bool>(values: *const u8, pieces: [*mut u8; 2]) -> Words {
    let mut tops = [_mm256_setzero_si256(); 4];
    for (quarter, top) in tops.iter_mut().enumerate() {
        // SAFETY: this is a quarter of the values, and of the room.
        unsafe {
            let v = rotated::<64, S>(load_four(values.add(128 * quarter)));
            let (low_a, high_a) = dwords_of_qwords(v[0], v[1]);
            let (low_b, high_b) = dwords_of_qwords(v[2], v[3]);
            let (third, high) = words_of_dwords(high_a, high_b);
            if WRITE {
                store(pieces[0].add(64 * quarter), low_a);
                store(pieces[0].add(64 * quarter + 32), low_b);
                store(pieces[1].add(32 * quarter), third);
            }
            *top = high;
        }
    }
    tops
}

/// The inverse of [`cut`].
///
/// # Safety
/// `values` has room for 64 values; each piece has its 64 numbers, and the planes their 8 bytes each.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn join<const B: u32, const E: u32, const S: bool>(
    symbols: Symbols,
    rests: Rests,
    values: *mut u8,
) {
    let mut tops = symbols;
    if B == 8 {
        // SAFETY: the caller's promise.
        return unsafe { join_bytes::<S>(symbols.high, take_low_bits::<B, E, S>(rests.planes), values) };
    }
    if Cut::<B, E, S>::PLANES > 0 {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { take_low_bits::<B, E, S>(rests.planes) };
        let lowest = if Cut::<B, E, S>::TOP == 1 { &mut tops.high } else { &mut tops.low };
        *lowest = [_mm256_or_si256(lowest[0], a), _mm256_or_si256(lowest[1], b)];
    }
    if B > 8 && Cut::<B, E, S>::TOP == 1 {
        let piece = rests.pieces[if B == 16 { 0 } else { 1 }];
        // SAFETY: the last piece is the low bytes of the words.
        tops.low = unsafe { [load(piece), load(piece.add(32))] };
    }
    // SAFETY: the caller's promise, for every width below.
    unsafe {
        match B {
            16 => store_four(values, words_of_tops(tops).map(|v| rotated_back::<16, S>(v))),
            32 => join_dwords::<S>(words_of_tops(tops), rests.pieces[0], values),
            _ => join_qwords::<S>(words_of_tops(tops), rests.pieces, values),
        }
    }
}

/// The words of these high and low bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of_tops(tops: Symbols) -> Words {
    let (a, b) = interleave::<1>(tops.low[0], tops.high[0]);
    let (c, d) = interleave::<1>(tops.low[1], tops.high[1]);
    [a, b, c, d]
}

/// # Safety
/// There is room for 128 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_four(to: *mut u8, values: Words) {
    for (i, v) in values.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { store(to.add(32 * i), v) };
    }
}

/// # Safety
/// There is room for 64 values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn join_bytes<const S: bool>(symbols: [__m256i; 2], rests: (__m256i, __m256i), values: *mut u8) {
    // A rest has at most four bits, the lowest of them the sign.
    let rotated = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, -0x80, 1, -0x7f, 2, -0x7e, 3, -0x7d, 4, -0x7c, 5, -0x7b, 6, -0x7a, 7, -0x79,
    ));
    for (i, (symbol, rest)) in symbols.into_iter().zip([rests.0, rests.1]).enumerate() {
        // The low bits of symbols are zero: none goes to another byte.
        let value = if S {
            _mm256_or_si256(symbol, rest)
        } else {
            _mm256_or_si256(_mm256_srli_epi16::<1>(symbol), _mm256_shuffle_epi8(rotated, rest))
        };
        // SAFETY: room for 64 values of a byte.
        unsafe { store(values.add(32 * i), value) };
    }
}

/// Writes 64 dwords of these high words and the low ones at `low`, rotated back unless the sign stayed.
///
/// # Safety
/// There are 64 low words, and room for the values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn join_dwords<const S: bool>(high: Words, low: *const u8, values: *mut u8) {
    for (i, high) in high.into_iter().enumerate() {
        // SAFETY: this is a quarter of the words, and of the room.
        unsafe {
            let (a, b) = interleave::<2>(load(low.add(32 * i)), high);
            store(values.add(64 * i), rotated_back::<32, S>(a));
            store(values.add(64 * i + 32), rotated_back::<32, S>(b));
        }
    }
}

/// # Safety
/// The pieces are there, and room for 64 values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn join_qwords<const S: bool>(tops: Words, pieces: [*const u8; 2], values: *mut u8) {
    for (i, top) in tops.into_iter().enumerate() {
        // SAFETY: this is a quarter of the pieces, and of the room.
        unsafe {
            let (high_a, high_b) = interleave::<2>(load(pieces[1].add(32 * i)), top);
            let (a, b) = interleave::<4>(load(pieces[0].add(64 * i)), high_a);
            let (c, d) = interleave::<4>(load(pieces[0].add(64 * i + 32)), high_b);
            for (k, v) in [a, b, c, d].into_iter().enumerate() {
                store(values.add(128 * i + 32 * k), rotated_back::<64, S>(v));
            }
        }
    }
}
