//! Small steps on vectors of 64 bytes.

use std::arch::x86_64::*;

use crate::cpu::prefetch_line;

/// # Safety
/// `from` has 64 bytes.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) unsafe fn load(from: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_loadu_si512(from.cast()) }
}

/// # Safety
/// `to` has room for 64 bytes.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) unsafe fn store(to: *mut u8, value: __m512i) {
    // SAFETY: the caller's promise.
    unsafe { _mm512_storeu_si512(to.cast(), value) }
}

/// # Safety
/// `to` has room for 32 bytes.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) unsafe fn store256(to: *mut u8, value: __m256i) {
    // SAFETY: the caller's promise.
    unsafe { _mm256_storeu_si256(to.cast(), value) }
}

/// Asks for 64 values of `B` bits at `values`, wherever that is.
#[inline]
pub(super) fn prefetch_lines<const B: u32>(values: *const u8) {
    for line in 0..B as usize / 8 {
        prefetch_line(values.wrapping_add(64 * line));
    }
}

/// The vector whose byte *i* is what the expression says: a constant, not computed when the program runs.
macro_rules! index {
    (|$i:ident| $byte:expr) => {
        $crate::cpu::load512(
            &const {
                let mut bytes = [0u8; 64];
                let mut $i = 0usize;
                while $i < 64 {
                    bytes[$i] = $byte as u8;
                    $i += 1;
                }
                bytes
            },
        )
    };
}
pub(super) use index;

/// Eight planes of eight bytes: bit *i* of byte *j* goes to bit *j* of plane *i*.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,gfni")]
pub(super) fn planes_of(bytes: __m512i) -> __m512i {
    let reversed = _mm512_shuffle_epi8(bytes, index!(|i| ((i % 16) ^ 7)));
    reversed_planes_of(reversed)
}

/// [`planes_of`] where each eight bytes stand in reverse order: a matrix product has its rows so.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,gfni")]
pub(super) fn reversed_planes_of(bytes: __m512i) -> __m512i {
    let rows = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(UNIT_MATRIX), bytes);
    _mm512_permutexvar_epi8(index!(|i| (8 * (i % 8) + i / 8)), rows)
}

/// The inverse of [`planes_of`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,gfni")]
pub(super) fn bytes_of_planes(planes: __m512i) -> __m512i {
    let rows = _mm512_permutexvar_epi8(index!(|i| (8 * (7 - i % 8) + i / 8)), planes);
    _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(UNIT_MATRIX), rows)
}

/// Byte *i* is 1 << i.
const UNIT_MATRIX: i64 = 0x8040_2010_0804_0201_u64 as i64;
