//! Sixty-four values cut into symbols and rests, and back.

use std::arch::x86_64::*;

use super::lanes::{
    bytes_of_words, dwords_of_qwords, interleave, load, put_planes, store, take_planes, words_of_dwords,
};
use crate::xp::vector::cut::{Cut, Rests, RestsMut};

/// Symbols of 64 values, still where they stand in the tops: two vectors of bytes or four of words.
pub(super) type Symbols = [__m256i; 4];

/// The symbols of 64 values. If `WRITE`, the rests go out.
///
/// # Safety
/// `values` has 64 values. If `WRITE`, each piece has room for its 64 numbers, and so have the planes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn cut<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    values: *const u8,
    rests: RestsMut,
) -> Symbols {
    let words = Cut::<B, E, S>::TOP == 2;
    // SAFETY: the caller's promise, for every width below.
    let mut tops = unsafe {
        match B {
            8 => cut_bytes::<S>(values),
            16 if words => load_four(values),
            16 => bytes_out::<WRITE>(rotated::<16, S>(load_four(values)), rests.pieces[0]),
            32 => {
                let top = words_out::<S, WRITE>(values, rests.pieces[0]);
                if words { top } else { bytes_out::<WRITE>(top, rests.pieces[1]) }
            }
            _ => cut_qwords::<S, WRITE>(values, rests.pieces),
        }
    };
    if Cut::<B, E, S>::PLANES == 0 {
        return tops;
    }
    if WRITE {
        // SAFETY: the caller's promise.
        unsafe { put_low_bits::<B, E, S>(tops, rests.planes) };
    }
    let mask = Cut::<B, E, S>::SYMBOL_MASK;
    let mask = if words { _mm256_set1_epi16(mask as i16) } else { _mm256_set1_epi8(mask as i8) };
    for top in &mut tops {
        *top = _mm256_and_si256(*top, mask);
    }
    tops
}

/// Puts the low bits of tops as planes.
///
/// # Safety
/// There is room for them.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put_low_bits<const B: u32, const E: u32, const S: bool>(tops: Symbols, to: *mut u8) {
    let (a, b) = if Cut::<B, E, S>::TOP == 1 {
        (tops[0], tops[1])
    } else {
        (bytes_of_words(tops[0], tops[1]).0, bytes_of_words(tops[2], tops[3]).0)
    };
    // SAFETY: the caller's promise.
    unsafe {
        match Cut::<B, E, S>::PLANES {
            2 => put_planes::<2>(a, b, to),
            3 => put_planes::<3>(a, b, to),
            4 => put_planes::<4>(a, b, to),
            5 => put_planes::<5>(a, b, to),
            _ => put_planes::<7>(a, b, to),
        }
    }
}

/// The low bits of 64 tops from planes, as bytes.
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

/// # Safety
/// There are 128 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_four(from: *const u8) -> Symbols {
    // SAFETY: the caller's promise.
    unsafe { [load(from), load(from.add(32)), load(from.add(64)), load(from.add(96))] }
}

/// Values of `BITS` bits rotated left by one, unless the sign stays.
#[inline]
#[target_feature(enable = "avx2")]
fn rotated<const BITS: u32, const S: bool>(mut values: Symbols) -> Symbols {
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
    [a, b, zero, zero]
}

/// The high bytes of 64 words; the low ones go out.
///
/// # Safety
/// If `WRITE`, there is room for them.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn bytes_out<const WRITE: bool>(words: Symbols, to: *mut u8) -> Symbols {
    let (low_a, high_a) = bytes_of_words(words[0], words[1]);
    let (low_b, high_b) = bytes_of_words(words[2], words[3]);
    if WRITE {
        // SAFETY: the caller's promise.
        unsafe {
            store(to, low_a);
            store(to.add(32), low_b);
        }
    }
    let zero = _mm256_setzero_si256();
    [high_a, high_b, zero, zero]
}

/// The high words of 64 dwords, rotated unless the sign stays; the low ones go out.
///
/// # Safety
/// There are 64 values. If `WRITE`, there is room for the low words.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn words_out<const S: bool, const WRITE: bool>(values: *const u8, to: *mut u8) -> Symbols {
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
unsafe fn cut_qwords<const S: bool, const WRITE: bool>(values: *const u8, pieces: [*mut u8; 2]) -> Symbols {
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
    let words = Cut::<B, E, S>::TOP == 2;
    let mut tops = symbols;
    if Cut::<B, E, S>::PLANES > 0 {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { take_low_bits::<B, E, S>(rests.planes) };
        if words {
            let zero = _mm256_setzero_si256();
            let ((a, b), (c, d)) = (interleave::<1>(a, zero), interleave::<1>(b, zero));
            for (top, low) in tops.iter_mut().zip([a, b, c, d]) {
                *top = _mm256_or_si256(*top, low);
            }
        } else {
            tops[0] = _mm256_or_si256(tops[0], a);
            tops[1] = _mm256_or_si256(tops[1], b);
        }
    }
    // SAFETY: the caller's promise, for every width below.
    unsafe {
        match B {
            8 => join_bytes::<S>(tops, values),
            16 if words => store_four(values, tops),
            16 => {
                let mut words = bytes_in(tops, rests.pieces[0]);
                for v in &mut words {
                    *v = rotated_back::<16, S>(*v);
                }
                store_four(values, words);
            }
            32 if words => words_in::<S>(tops, rests.pieces[0], values),
            32 => words_in::<S>(bytes_in(tops, rests.pieces[1]), rests.pieces[0], values),
            _ => join_qwords::<S>(tops, rests.pieces, values),
        }
    }
}

/// # Safety
/// There is room for 128 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_four(to: *mut u8, values: Symbols) {
    for (i, v) in values.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { store(to.add(32 * i), v) };
    }
}

/// # Safety
/// There is room for 64 values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn join_bytes<const S: bool>(tops: Symbols, values: *mut u8) {
    for (i, top) in tops.into_iter().take(2).enumerate() {
        let value = if S {
            top
        } else {
            let low = _mm256_and_si256(_mm256_srli_epi16::<1>(top), _mm256_set1_epi8(0x7f));
            let sign = _mm256_and_si256(_mm256_slli_epi16::<7>(top), _mm256_set1_epi8(-0x80));
            _mm256_or_si256(low, sign)
        };
        // SAFETY: room for 64 values of a byte.
        unsafe { store(values.add(32 * i), value) };
    }
}

/// 64 words of these high bytes and the low ones at `low`.
///
/// # Safety
/// There are 64 low bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn bytes_in(high: Symbols, low: *const u8) -> Symbols {
    // SAFETY: the caller's promise.
    let (low_a, low_b) = unsafe { (load(low), load(low.add(32))) };
    let ((a, b), (c, d)) = (interleave::<1>(low_a, high[0]), interleave::<1>(low_b, high[1]));
    [a, b, c, d]
}

/// Writes 64 dwords of these high words and the low ones at `low`, rotated back unless the sign stayed.
///
/// # Safety
/// There are 64 low words, and room for the values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn words_in<const S: bool>(high: Symbols, low: *const u8, values: *mut u8) {
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
unsafe fn join_qwords<const S: bool>(tops: Symbols, pieces: [*const u8; 2], values: *mut u8) {
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
