//! Words to bit-planes and back, whole blocks at a time.
//!
//! Eight words give eight bytes of each plane: a byte permute brings byte k of eight words together, and a
//! multiplication of 8 by 8 bits turns these round. Further permutes join the bytes of a plane.

use std::arch::x86_64::*;

use crate::cpu::load512;

/// Blocks that are worked on at once.
pub(super) const fn unit_blocks<const B: usize>() -> usize {
    if B == 1 { 2 } else { 1 }
}

/// Words of them.
pub(super) const fn unit_words<const B: usize>() -> usize {
    super::super::BLOCK * unit_blocks::<B>()
}

/// The planes of the words in the first vectors of `words`, as many as a unit has: 32 bits each, plane 0 first. Of
/// two blocks, the second one's are in the upper half of the vector.
#[inline]
#[target_feature(enable = "avx512vbmi,gfni")]
pub(super) fn planes_of<const B: usize>(words: [__m512i; 4]) -> [__m512i; 4] {
    let zero = _mm512_setzero_si512();
    match B {
        1 => {
            let turned = transposed(_mm512_permutexvar_epi8(load512(&REVERSED_EIGHTS), words[0]));
            [_mm512_permutexvar_epi8(load512(&JOIN_1), turned), zero, zero, zero]
        }
        2 => {
            let turned = transposed(_mm512_permutexvar_epi8(load512(&SPLIT_2), words[0]));
            [_mm512_permutexvar_epi8(load512(&JOIN_2), turned), zero, zero, zero]
        }
        4 => {
            let split = load512(&SPLIT_4);
            let low = transposed(_mm512_permutexvar_epi8(split, words[0]));
            let high = transposed(_mm512_permutexvar_epi8(split, words[1]));
            let front = _mm512_permutex2var_epi8(low, load512(&JOIN_4[0]), high);
            [front, _mm512_permutex2var_epi8(low, load512(&JOIN_4[1]), high), zero, zero]
        }
        _ => planes_of_longs(words),
    }
}

#[inline]
#[target_feature(enable = "avx512vbmi,gfni")]
fn planes_of_longs(words: [__m512i; 4]) -> [__m512i; 4] {
    // Four planes of eight words in each 32 bits: lane l gets planes 16j + 4l.
    let mut turned = words;
    for vector in &mut turned {
        *vector = transposed(_mm512_permutexvar_epi8(load512(&SPLIT_8), *vector));
        *vector = _mm512_permutexvar_epi32(dwords_turned(), *vector);
    }
    let [a, b, c, d] = turned;
    let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
    [
        _mm512_unpacklo_epi16(ab, cd),
        _mm512_unpackhi_epi16(ab, cd),
        _mm512_unpacklo_epi16(ab_high, cd_high),
        _mm512_unpackhi_epi16(ab_high, cd_high),
    ]
}

/// Half the planes of 64-bit words, of which no others are asked for.
#[inline]
#[target_feature(enable = "avx512vbmi,gfni")]
pub(super) fn planes_of_short_longs(words: [__m512i; 4]) -> [__m512i; 4] {
    let [a, b, c, d] = words;
    let low_halves = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let low = _mm512_permutex2var_epi32(a, low_halves, b);
    let high = _mm512_permutex2var_epi32(c, low_halves, d);
    planes_of::<4>([low, high, low, high])
}

/// The words of a block whose longest has 32 bits, from half the planes.
#[inline]
#[target_feature(enable = "avx512vbmi,gfni")]
pub(super) fn short_longs_of(planes: [__m512i; 4]) -> [__m512i; 4] {
    let [low, high, ..] = words_of::<4>(planes);
    [
        _mm512_cvtepu32_epi64(_mm512_castsi512_si256(low)),
        _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(low)),
        _mm512_cvtepu32_epi64(_mm512_castsi512_si256(high)),
        _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(high)),
    ]
}

/// The inverse of [`planes_of`].
#[inline]
#[target_feature(enable = "avx512vbmi,gfni")]
pub(super) fn words_of<const B: usize>(planes: [__m512i; 4]) -> [__m512i; 4] {
    let zero = _mm512_setzero_si512();
    match B {
        1 => [transposed(_mm512_permutexvar_epi8(load512(&UNJOIN_1), planes[0])), zero, zero, zero],
        2 => {
            let turned = transposed(_mm512_permutexvar_epi8(load512(&UNJOIN_2), planes[0]));
            [_mm512_permutexvar_epi8(load512(&UNSPLIT_2), turned), zero, zero, zero]
        }
        4 => {
            let [front, back, ..] = planes;
            let low = transposed(_mm512_permutex2var_epi8(front, load512(&UNJOIN_4[0]), back));
            let high = transposed(_mm512_permutex2var_epi8(front, load512(&UNJOIN_4[1]), back));
            let unsplit = load512(&UNSPLIT_4);
            [_mm512_permutexvar_epi8(unsplit, low), _mm512_permutexvar_epi8(unsplit, high), zero, zero]
        }
        _ => longs_of(planes),
    }
}

#[inline]
#[target_feature(enable = "avx512vbmi,gfni")]
fn longs_of(planes: [__m512i; 4]) -> [__m512i; 4] {
    // In each lane of 128 bits, four planes of the same eight words in 32 bits.
    let mut fours = planes;
    for vector in &mut fours {
        *vector = _mm512_shuffle_epi8(*vector, load512(&FOUR_BY_FOUR));
    }
    let [a, b, c, d] = fours;
    let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    let mut words = [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ];
    for vector in &mut words {
        let turned = transposed(_mm512_permutexvar_epi8(load512(&UNJOIN_8), *vector));
        *vector = _mm512_permutexvar_epi8(load512(&UNSPLIT_8), turned);
    }
    words
}

/// In each 64 bits: bit i of byte m of the result is bit m of byte 7 − i.
#[inline]
#[target_feature(enable = "avx512bw,gfni")]
fn transposed(rows: __m512i) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64), rows)
}

/// Dword 4j + l to place 4l + j.
#[inline]
#[target_feature(enable = "avx512bw")]
fn dwords_turned() -> __m512i {
    _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
}

/// Where each byte of a vector comes from.
type Index = [u8; 64];

/// Bytes of words of `B` bytes, byte k of eight words together: k by k, in it eight by eight, the last word first.
const fn split<const B: usize>() -> Index {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (k, word) = (at / (64 / B), at % (64 / B));
        index[at] = ((word / 8 * 8 + 7 - word % 8) * B + k) as u8;
        at += 1;
    }
    index
}

/// What undoes the order of [`split`], but for the last word first.
const fn unsplit<const B: usize>() -> Index {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (word, k) = (at / B, at % B);
        index[at] = (k * (64 / B) + word) as u8;
        at += 1;
    }
    index
}

const REVERSED_EIGHTS: Index = split::<1>();
static SPLIT_2: Index = split::<2>();
static SPLIT_4: Index = split::<4>();
static SPLIT_8: Index = split::<8>();
static UNSPLIT_2: Index = unsplit::<2>();
static UNSPLIT_4: Index = unsplit::<4>();
static UNSPLIT_8: Index = unsplit::<8>();

/// After [`split`] and [`transposed`], byte m of eight words' part of byte k is plane 8k + m. Of `vectors`
/// vectors of words of `B` bytes, gathers the bytes of plane `first` and of those that follow.
const fn join<const B: usize>(vectors: usize, first: usize) -> Index {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (plane, eight) = (first + at / 4, at % 4);
        let per_vector = 8 / B;
        let (vector, part) = (eight / per_vector, eight % per_vector);
        index[at] = (64 * (vector % vectors) + plane / 8 * (64 / B) + 8 * part + plane % 8) as u8;
        at += 1;
    }
    index
}

/// Of two blocks of bytes, planes of the first, then of the second.
const fn join_bytes() -> Index {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (block, plane, eight) = (at / 32, at % 32 / 4, at % 4);
        index[at] = (8 * (4 * block + eight) + plane) as u8;
        at += 1;
    }
    index
}

/// The inverse of a permutation of a vector, each eight bytes in reverse for [`transposed`].
const fn unjoin(join: &Index) -> Index {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        let to = join[at] as usize;
        index[to / 8 * 8 + 7 - to % 8] = at as u8;
        at += 1;
    }
    index
}

/// [`unjoin`] for two vectors of 32-bit words.
const fn unjoin_4(vector: usize) -> Index {
    let joins = [join::<4>(2, 0), join::<4>(2, 16)];
    let mut index = [0; 64];
    let mut at = 0;
    while at < 128 {
        let to = joins[at / 64][at % 64] as usize;
        if to / 64 == vector {
            index[to % 64 / 8 * 8 + 7 - to % 8] = at as u8;
        }
        at += 1;
    }
    index
}

/// Behind the last unpack, place 16j + 4q + r holds plane 16q + 4j + r.
const fn unjoin_8() -> Index {
    let mut index = [0; 64];
    let mut plane = 0;
    while plane < 64 {
        let (q, j, r) = (plane / 16, plane % 16 / 4, plane % 4);
        index[plane / 8 * 8 + 7 - plane % 8] = (16 * j + 4 * q + r) as u8;
        plane += 1;
    }
    index
}

/// Turns four by four bytes round in each lane of 128 bits.
const fn four_by_four() -> Index {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        index[at] = (at % 4 * 4 + at % 16 / 4) as u8;
        at += 1;
    }
    index
}

static JOIN_1: Index = join_bytes();
static JOIN_2: Index = join::<2>(1, 0);
static JOIN_4: [Index; 2] = [join::<4>(2, 0), join::<4>(2, 16)];
static UNJOIN_1: Index = unjoin(&JOIN_1);
static UNJOIN_2: Index = unjoin(&JOIN_2);
static UNJOIN_4: [Index; 2] = [unjoin_4(0), unjoin_4(1)];
static UNJOIN_8: Index = unjoin_8();
static FOUR_BY_FOUR: Index = four_by_four();
