//! Sixty-four values cut into symbols and rests, and back.

use std::arch::x86_64::*;

use super::lanes::{bytes_of_planes, index, load, planes_of, reversed_planes_of, store, store256};
use crate::xp::vector::cut::{Cut, Rests, RestsMut};

/// Symbols of 64 values, still where they stand in the tops: one vector of bytes or two of words.
pub(super) type Symbols = [__m512i; 2];

/// Rotates each byte left by one.
const ROTATE_LEFT: i64 = 0x8001_0204_0810_2040_u64 as i64;
/// Rotates each byte right by one.
const ROTATE_RIGHT: i64 = 0x0204_0810_2040_8001;

/// The symbols of 64 values. If `WRITE`, the rests go out.
///
/// # Safety
/// `values` has 64 values. If `WRITE`, each piece has room for its 64 numbers, and the planes for 64 bytes.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni")]
pub(super) unsafe fn cut<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    values: *const u8,
    rests: RestsMut,
) -> Symbols {
    // SAFETY: the caller's promise, for every width below.
    let tops = unsafe {
        match B {
            8 => cut_bytes::<S>(values),
            16 if Cut::<B, E, S>::TOP == 2 => [load(values), load(values.add(64))],
            16 => cut_words::<S, WRITE>(values, rests.pieces[0]),
            32 if Cut::<B, E, S>::TOP == 2 => cut_dwords_in_half::<WRITE>(values, rests.pieces[0]),
            32 => cut_dwords::<WRITE>(values, rests.pieces),
            _ => cut_qwords::<S, WRITE>(values, rests.pieces),
        }
    };
    if Cut::<B, E, S>::PLANES == 0 {
        return tops;
    }
    if WRITE {
        let planes = if Cut::<B, E, S>::TOP == 1 {
            planes_of(tops[0])
        } else {
            let low_bytes = index!(|i| (2 * (i ^ 7)));
            reversed_planes_of(_mm512_permutex2var_epi8(tops[0], low_bytes, tops[1]))
        };
        // SAFETY: the caller's promise.
        unsafe { store(rests.planes, planes) };
    }
    let mask = Cut::<B, E, S>::SYMBOL_MASK;
    let mask =
        if Cut::<B, E, S>::TOP == 1 { _mm512_set1_epi8(mask as i8) } else { _mm512_set1_epi16(mask as i16) };
    [_mm512_and_si512(tops[0], mask), _mm512_and_si512(tops[1], mask)]
}

#[inline]
#[target_feature(enable = "avx512bw,gfni")]
unsafe fn cut_bytes<const S: bool>(values: *const u8) -> Symbols {
    // SAFETY: 64 values of a byte.
    let value = unsafe { load(values) };
    let top =
        if S { value } else { _mm512_gf2p8affine_epi64_epi8::<0>(value, _mm512_set1_epi64(ROTATE_LEFT)) };
    [top, _mm512_setzero_si512()]
}

/// Low bytes out, high bytes are tops.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2")]
unsafe fn cut_words<const S: bool, const WRITE: bool>(values: *const u8, low: *mut u8) -> Symbols {
    let halves = index!(|i| (2 * (i % 32) + i / 32));
    // SAFETY: 64 values of two bytes.
    let (mut a, mut b) = unsafe { (load(values), load(values.add(64))) };
    if !S {
        (a, b) = (_mm512_shldi_epi16::<1>(a, a), _mm512_shldi_epi16::<1>(b, b));
    }
    let (a, b) = (_mm512_permutexvar_epi8(halves, a), _mm512_permutexvar_epi8(halves, b));
    if WRITE {
        // SAFETY: room for 64 bytes.
        unsafe {
            store256(low, _mm512_castsi512_si256(a));
            store256(low.add(32), _mm512_castsi512_si256(b));
        }
    }
    [_mm512_shuffle_i64x2::<0xee>(a, b), _mm512_setzero_si512()]
}

/// Low halves and third bytes out, high bytes of the rotated value are tops.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
unsafe fn cut_dwords<const WRITE: bool>(values: *const u8, pieces: [*mut u8; 2]) -> Symbols {
    let parts = index!(|i| if i < 32 { 4 * (i / 2) + i % 2 } else { 4 * (i % 16) + i / 16 });
    let mut v = [_mm512_setzero_si512(); 4];
    for (i, v) in v.iter_mut().enumerate() {
        // SAFETY: 64 values of four bytes.
        let four = unsafe { load(values.add(64 * i)) };
        *v = _mm512_permutexvar_epi8(parts, _mm512_rol_epi32::<1>(four));
    }
    let a = _mm512_shuffle_i64x2::<0xee>(v[0], v[1]);
    let b = _mm512_shuffle_i64x2::<0xee>(v[2], v[3]);
    if WRITE {
        // SAFETY: room for 64 halves and 64 bytes.
        unsafe {
            for (i, v) in v.into_iter().enumerate() {
                store256(pieces[0].add(32 * i), _mm512_castsi512_si256(v));
            }
            store(pieces[1], _mm512_shuffle_i64x2::<0x88>(a, b));
        }
    }
    [_mm512_shuffle_i64x2::<0xdd>(a, b), _mm512_setzero_si512()]
}

/// Low halves out, high halves are tops.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
unsafe fn cut_dwords_in_half<const WRITE: bool>(values: *const u8, low: *mut u8) -> Symbols {
    let halves = index!(|i| (4 * (i / 2 % 16) + i % 2 + i / 32 * 2));
    let mut v = [_mm512_setzero_si512(); 4];
    for (i, v) in v.iter_mut().enumerate() {
        // SAFETY: 64 values of four bytes.
        *v = unsafe { _mm512_permutexvar_epi8(halves, load(values.add(64 * i))) };
    }
    if WRITE {
        for (i, v) in v.into_iter().enumerate() {
            // SAFETY: room for 64 halves.
            unsafe { store256(low.add(32 * i), _mm512_castsi512_si256(v)) };
        }
    }
    [_mm512_shuffle_i64x2::<0xee>(v[0], v[1]), _mm512_shuffle_i64x2::<0xee>(v[2], v[3])]
}

/// Low halves and third quarters out, highest quarters are tops.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
unsafe fn cut_qwords<const S: bool, const WRITE: bool>(values: *const u8, pieces: [*mut u8; 2]) -> Symbols {
    let parts =
        index!(|i| if i < 32 { 8 * (i / 4) + i % 4 } else { 8 * (i % 16 / 2) + i % 2 + 2 * (i / 16) });
    let mut tops = [_mm512_setzero_si512(); 2];
    for (half, top) in tops.iter_mut().enumerate() {
        let mut v = [_mm512_setzero_si512(); 4];
        for (i, v) in v.iter_mut().enumerate() {
            // SAFETY: 64 values of eight bytes; this is the first or second 32 of them.
            let eight = unsafe { load(values.add(256 * half + 64 * i)) };
            let eight = if S { eight } else { _mm512_rol_epi64::<1>(eight) };
            *v = _mm512_permutexvar_epi8(parts, eight);
        }
        let a = _mm512_shuffle_i64x2::<0xee>(v[0], v[1]);
        let b = _mm512_shuffle_i64x2::<0xee>(v[2], v[3]);
        if WRITE {
            // SAFETY: room for 64 words of four bytes and 64 of two.
            unsafe {
                for (i, v) in v.into_iter().enumerate() {
                    store256(pieces[0].add(128 * half + 32 * i), _mm512_castsi512_si256(v));
                }
                store(pieces[1].add(64 * half), _mm512_shuffle_i64x2::<0x88>(a, b));
            }
        }
        *top = _mm512_shuffle_i64x2::<0xdd>(a, b);
    }
    tops
}

/// The inverse of [`cut`].
///
/// # Safety
/// `values` has room for 64 values; each piece has its 64 numbers, and the planes their 8 bytes each.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni")]
pub(super) unsafe fn join<const B: u32, const E: u32, const S: bool>(
    symbols: Symbols,
    rests: Rests,
    values: *mut u8,
) {
    let planes = Cut::<B, E, S>::PLANES;
    let tops = if planes == 0 {
        symbols
    } else {
        // SAFETY: the mask lets in what the caller promised.
        let stored = unsafe { _mm512_maskz_loadu_epi64((1 << planes) - 1, rests.planes.cast()) };
        let low_bits = bytes_of_planes(stored);
        if Cut::<B, E, S>::TOP == 1 {
            [_mm512_or_si512(symbols[0], low_bits), symbols[1]]
        } else {
            let a = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(low_bits));
            let b = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64::<1>(low_bits));
            [_mm512_or_si512(symbols[0], a), _mm512_or_si512(symbols[1], b)]
        }
    };
    // SAFETY: the caller's promise, for every width below.
    unsafe {
        match B {
            8 => join_bytes::<S>(tops, values),
            16 if Cut::<B, E, S>::TOP == 2 => {
                store(values, tops[0]);
                store(values.add(64), tops[1]);
            }
            16 => join_words::<S>(tops, rests.pieces[0], values),
            32 if Cut::<B, E, S>::TOP == 2 => join_dwords_in_half(tops, rests.pieces[0], values),
            32 => join_dwords(tops, rests.pieces, values),
            _ => join_qwords::<S>(tops, rests.pieces, values),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512bw,gfni")]
unsafe fn join_bytes<const S: bool>(tops: Symbols, values: *mut u8) {
    let top = tops[0];
    let value =
        if S { top } else { _mm512_gf2p8affine_epi64_epi8::<0>(top, _mm512_set1_epi64(ROTATE_RIGHT)) };
    // SAFETY: room for 64 values of a byte.
    unsafe { store(values, value) }
}

/// The indices that take units of `SIZE` bytes from two vectors in turn: for the low and for the high half of
/// either.
#[inline]
#[target_feature(enable = "avx512bw")]
fn interleave<const SIZE: usize>() -> [__m512i; 2] {
    [
        index!(|i| (i / SIZE / 2 * SIZE + i % SIZE + i / SIZE % 2 * 64)),
        index!(|i| (32 + i / SIZE / 2 * SIZE + i % SIZE + i / SIZE % 2 * 64)),
    ]
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2")]
unsafe fn join_words<const S: bool>(tops: Symbols, low: *const u8, values: *mut u8) {
    // SAFETY: 64 low bytes.
    let low = unsafe { load(low) };
    for (i, half) in interleave::<1>().into_iter().enumerate() {
        let v = _mm512_permutex2var_epi8(low, half, tops[0]);
        let v = if S { v } else { _mm512_shldi_epi16::<15>(v, v) };
        // SAFETY: room for 64 values of two bytes.
        unsafe { store(values.add(64 * i), v) };
    }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
unsafe fn join_dwords(tops: Symbols, pieces: [*const u8; 2], values: *mut u8) {
    // SAFETY: 64 third bytes.
    let third = unsafe { load(pieces[1]) };
    for (i, half) in interleave::<1>().into_iter().enumerate() {
        let high = _mm512_permutex2var_epi8(third, half, tops[0]);
        // SAFETY: 64 low halves.
        let low = unsafe { load(pieces[0].add(64 * i)) };
        for (k, half) in interleave::<2>().into_iter().enumerate() {
            let v = _mm512_permutex2var_epi8(low, half, high);
            // SAFETY: room for 64 values of four bytes.
            unsafe { store(values.add(128 * i + 64 * k), _mm512_ror_epi32::<1>(v)) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
unsafe fn join_dwords_in_half(tops: Symbols, low: *const u8, values: *mut u8) {
    for (i, top) in tops.into_iter().enumerate() {
        // SAFETY: 64 low halves.
        let low = unsafe { load(low.add(64 * i)) };
        for (k, half) in interleave::<2>().into_iter().enumerate() {
            // SAFETY: room for 64 values of four bytes.
            unsafe { store(values.add(128 * i + 64 * k), _mm512_permutex2var_epi8(low, half, top)) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
unsafe fn join_qwords<const S: bool>(tops: Symbols, pieces: [*const u8; 2], values: *mut u8) {
    for (i, top) in tops.into_iter().enumerate() {
        // SAFETY: 64 third quarters.
        let third = unsafe { load(pieces[1].add(64 * i)) };
        for (k, half) in interleave::<2>().into_iter().enumerate() {
            let high = _mm512_permutex2var_epi8(third, half, top);
            // SAFETY: 64 low halves.
            let low = unsafe { load(pieces[0].add(128 * i + 64 * k)) };
            for (l, half) in interleave::<4>().into_iter().enumerate() {
                let v = _mm512_permutex2var_epi8(low, half, high);
                let v = if S { v } else { _mm512_ror_epi64::<1>(v) };
                // SAFETY: room for 64 values of eight bytes.
                unsafe { store(values.add(256 * i + 128 * k + 64 * l), v) };
            }
        }
    }
}
