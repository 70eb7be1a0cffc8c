//! Sixty-four values cut into symbols and rests.

use std::arch::x86_64::*;

use super::lanes::{bytes_of_words, dwords_of_qwords, load, store, words_of_dwords};
use super::planes::put_planes;
use super::tiers::Symbols;
use crate::xp::vector::cut::{Cut, RestsMut};

/// Sixty-four words.
pub(super) type Words = [__m256i; 4];

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
