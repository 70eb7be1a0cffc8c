//! Words to bit-planes and back, a block at a time.

// Planes are stored through pointers into room that the encoder has checked, and loaded under a mask.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::cpu::load256;

/// The words of a block: as many vectors as a word has bytes.
pub(super) type Block = [__m256i; 8];

/// Writes planes of a block, at least the first `count` and at most the next multiple of eight.
///
/// # Safety
/// There must be room for them at `to`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store_planes<const B: usize>(block: &Block, count: usize, to: *mut u8) {
    let bytes = bytes_of::<B>(block, count);
    for (k, &bytes) in bytes[..B].iter().enumerate() {
        if 8 * k < count {
            // SAFETY: the caller's word.
            unsafe { _mm256_storeu_si256(to.add(32 * k).cast(), planes_of_bytes(bytes)) };
        }
    }
}

/// The eight planes of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn planes_of_bytes(bytes: __m256i) -> __m256i {
    // Four planes of the same eight words in each 32 bits: planes 0 to 3 to the lower half, the others to the upper.
    let fours = _mm256_permutevar8x32_epi32(bits_turned(bytes), _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    _mm256_shuffle_epi8(fours, load256(const { &four_by_four() }))
}

/// Byte k of the 32 words, for each k that the low `bits` bits of words reach into.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of<const B: usize>(block: &Block, bits: usize) -> Block {
    match B {
        1 => *block,
        2 => {
            let low = _mm256_set1_epi16(0xff);
            let [a, b, ..] = *block;
            let mut bytes = *block;
            bytes[0] = quads_joined(_mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low)));
            bytes[1] =
                quads_joined(_mm256_packus_epi16(_mm256_srli_epi16::<8>(a), _mm256_srli_epi16::<8>(b)));
            bytes
        }
        4 => {
            let [a, b, c, d, ..] = *block;
            let [a, b, c, d] = bytes_of_dwords([a, b, c, d]);
            [a, b, c, d, a, b, c, d]
        }
        _ => {
            let mut low = [block[0]; 4];
            let mut high = low;
            for i in 0..4 {
                let [front, back] =
                    [_mm256_castsi256_ps(block[2 * i]), _mm256_castsi256_ps(block[2 * i + 1])];
                low[i] = quads_joined(_mm256_castps_si256(_mm256_shuffle_ps::<0x88>(front, back)));
                high[i] = quads_joined(_mm256_castps_si256(_mm256_shuffle_ps::<0xdd>(front, back)));
            }
            let [a, b, c, d] = bytes_of_dwords(low);
            let [e, f, g, h] = if bits > 32 { bytes_of_dwords(high) } else { high };
            [a, b, c, d, e, f, g, h]
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of_dwords(words: [__m256i; 4]) -> [__m256i; 4] {
    let turn = load256(const { &four_by_four() });
    let [a, b, c, d] = words;
    let [a, b] = [_mm256_shuffle_epi8(a, turn), _mm256_shuffle_epi8(b, turn)];
    let [c, d] = [_mm256_shuffle_epi8(c, turn), _mm256_shuffle_epi8(d, turn)];
    let (ab, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    // Four words of each vector in either half: joined to eight.
    let join = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    [
        _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(ab, cd), join),
        _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(ab, cd), join),
        _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(ab_high, cd_high), join),
        _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(ab_high, cd_high), join),
    ]
}

/// The words of a block with these planes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn words_of<const B: usize>(planes: &[u8]) -> Block {
    let mut bytes = [_mm256_setzero_si256(); 8];
    for (vector, planes) in bytes[..B].iter_mut().zip(planes.chunks(32)) {
        *vector = bytes_of_planes(planes);
    }
    let [a, b, c, d, ..] = bytes;
    match B {
        1 => bytes,
        2 => {
            let [a, b] = [quads_joined(a), quads_joined(b)];
            bytes[0] = _mm256_unpacklo_epi8(a, b);
            bytes[1] = _mm256_unpackhi_epi8(a, b);
            bytes
        }
        4 => {
            let [a, b, c, d] = dwords_of_bytes([a, b, c, d]);
            [a, b, c, d, a, b, c, d]
        }
        _ => {
            let low = dwords_of_bytes([a, b, c, d]);
            let high = if planes.len() > 128 {
                dwords_of_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
            } else {
                [bytes[4]; 4]
            };
            for i in 0..4 {
                let [low, high] = [quads_joined(low[i]), quads_joined(high[i])];
                bytes[2 * i] = _mm256_unpacklo_epi32(low, high);
                bytes[2 * i + 1] = _mm256_unpackhi_epi32(low, high);
            }
            bytes
        }
    }
}

/// A byte of each of 32 words from up to eight planes.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of_planes(planes: &[u8]) -> __m256i {
    let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(planes.len() as i32 / 4), numbers);
    // SAFETY: the mask covers whole planes of the slice only; others are not touched.
    let planes = unsafe { _mm256_maskload_epi32(planes.as_ptr().cast(), mask) };
    // Eight planes of the same eight words in each 64 bits.
    let fours = _mm256_shuffle_epi8(planes, load256(const { &four_by_four() }));
    let eights = _mm256_permutevar8x32_epi32(fours, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    bits_turned(eights)
}

/// In each 64 bits: bit i of byte m of the result is bit m of byte i.
#[inline]
#[target_feature(enable = "avx2")]
fn bits_turned(rows: __m256i) -> __m256i {
    let pairs = swapped::<7>(rows, 0x00aa_00aa_00aa_00aa);
    let fours = swapped::<14>(pairs, 0x0000_cccc_0000_cccc);
    swapped::<28>(fours, 0x0000_0000_f0f0_f0f0)
}

/// Swaps the bits of `mask` in each 64 bits with those `BY` bits above them.
#[inline]
#[target_feature(enable = "avx2")]
fn swapped<const BY: i32>(x: __m256i, mask: i64) -> __m256i {
    let differing = _mm256_xor_si256(x, _mm256_srli_epi64::<BY>(x));
    let swap = _mm256_and_si256(differing, _mm256_set1_epi64x(mask));
    _mm256_xor_si256(_mm256_xor_si256(x, swap), _mm256_slli_epi64::<BY>(swap))
}

/// 32 words from their bytes, byte 0 of all first.
#[inline]
#[target_feature(enable = "avx2")]
fn dwords_of_bytes(bytes: [__m256i; 4]) -> [__m256i; 4] {
    // Words 8i to 8i + 3 in the lower half, and the other four in the upper.
    let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    let [a, b, c, d] = bytes;
    let [a, b] = [_mm256_permutevar8x32_epi32(a, order), _mm256_permutevar8x32_epi32(b, order)];
    let [c, d] = [_mm256_permutevar8x32_epi32(c, order), _mm256_permutevar8x32_epi32(d, order)];
    let (ab, ab_high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let (cd, cd_high) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
    [
        _mm256_unpacklo_epi16(ab, cd),
        _mm256_unpackhi_epi16(ab, cd),
        _mm256_unpacklo_epi16(ab_high, cd_high),
        _mm256_unpackhi_epi16(ab_high, cd_high),
    ]
}

/// Quarters 0 2 1 3: what packing and unpacking within halves leaves apart.
#[inline]
#[target_feature(enable = "avx2")]
fn quads_joined(vector: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(vector)
}

/// Turns four by four bytes round in each half.
const fn four_by_four() -> [u8; 32] {
    let mut index = [0; 32];
    let mut at = 0;
    while at < 32 {
        index[at] = (at % 4 * 4 + at % 16 / 4) as u8;
        at += 1;
    }
    index
}
