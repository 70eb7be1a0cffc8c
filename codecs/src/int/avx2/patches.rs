//! High bits of marked words: single bytes eight at a time, longer ones one by one.

// Patches are written through a pointer into room that the encoder has.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::word::{truncated, word, word_bytes};
use super::planes::Block;
use super::vector::{bytes_packed, shifted_left, shifted_right, to_bytes};
use crate::cpu::lanes::{COMPRESS, EXPAND};

/// Writes the bits from `low_bits` on of the marked words of a block, in one byte each; none may have more.
///
/// # Safety
/// There must be room for 40 bytes at `to`.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn store_bytes<const B: usize>(block: &Block, marks: u32, low_bits: u32, to: *mut u8) {
    let mut high = *block;
    for vector in &mut high[..B] {
        *vector = shifted_right::<B>(*vector, low_bits);
    }
    let bytes = to_bytes(bytes_packed::<B>(&high));
    let mut place = to;
    for (eight, marks) in bytes.as_chunks::<8>().0.iter().zip(marks.to_le_bytes()) {
        let packed = chosen(*eight, COMPRESS[usize::from(marks)]);
        // SAFETY: at most 8 bytes before each of the four go to the front.
        unsafe {
            _mm_storeu_si64(place, packed);
            place = place.add(marks.count_ones() as usize);
        }
    }
}

/// Writes the bits from `low_bits` on of the marked words, in `patch_len` bytes each; none may have more.
///
/// # Safety
/// There must be room for them, and eight bytes, at `to`.
#[inline]
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub(super) unsafe fn store_patches<const B: usize>(
    words: &[[u8; B]],
    marks: u32,
    low_bits: u32,
    patch_len: usize,
    to: *mut u8,
) {
    let (mut left, mut place) = (marks, to);
    while left != 0 {
        let high = word(&words[left.trailing_zeros() as usize]) >> low_bits;
        // SAFETY: the caller's word.
        unsafe {
            place.cast::<u64>().write_unaligned(high);
            place = place.add(patch_len);
        }
        left &= left - 1;
    }
}

/// `block` with a byte of `patches` above the low bits of each marked word. Eight bytes more than there are marks
/// must be there.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn with_bytes<const B: usize>(block: Block, marks: u32, low_bits: u32, patches: &[u8]) -> Block {
    let (mut patched, mut eights, mut left) = (block, [_mm_setzero_si128(); 4], patches);
    for (eight, marks) in eights.iter_mut().zip(marks.to_le_bytes()) {
        *eight = chosen(*crate::cpu::array(left), EXPAND[usize::from(marks)]);
        left = &left[marks.count_ones() as usize..];
    }
    for (i, vector) in patched[..B].iter_mut().enumerate() {
        let high = match B {
            1 => _mm256_set_m128i(
                _mm_unpacklo_epi64(eights[2], eights[3]),
                _mm_unpacklo_epi64(eights[0], eights[1]),
            ),
            2 => _mm256_cvtepu8_epi16(_mm_unpacklo_epi64(eights[2 * i % 4], eights[(2 * i + 1) % 4])),
            4 => _mm256_cvtepu8_epi32(eights[i % 4]),
            _ if i % 2 == 0 => _mm256_cvtepu8_epi64(eights[i / 2]),
            _ => _mm256_cvtepu8_epi64(_mm_srli_si128::<4>(eights[i / 2])),
        };
        *vector = _mm256_or_si256(*vector, shifted_left::<B>(high, low_bits));
    }
    patched
}

/// The bytes of `eight` that `control` names, zero where it names none.
#[inline]
#[target_feature(enable = "avx2")]
fn chosen(eight: [u8; 8], control: [u8; 8]) -> __m128i {
    let [eight, control] =
        [_mm_cvtsi64_si128(i64::from_le_bytes(eight)), _mm_cvtsi64_si128(i64::from_le_bytes(control))];
    _mm_shuffle_epi8(eight, control)
}

/// Puts a patch of `patch_len` bytes above the low bits of each marked word; more than these patches may be there.
#[inline]
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub(super) fn add_patches<const B: usize>(
    block: &mut [[u8; B]],
    marks: u32,
    low_bits: u32,
    patch_len: usize,
    patches: &[u8],
) {
    let mask = u64::MAX >> (64 - 8 * patch_len);
    let (mut left, mut patches) = (marks, patches);
    while left != 0 {
        let high = match patches.first_chunk() {
            Some(&wide) => u64::from_le_bytes(wide) & mask,
            None => patches[..patch_len].iter().rev().fold(0, |high, &byte| high << 8 | u64::from(byte)),
        };
        let place = &mut block[left.trailing_zeros() as usize];
        *place = word_bytes(word(place) | truncated::<B>(high << low_bits));
        patches = &patches[patch_len..];
        left &= left - 1;
    }
}
