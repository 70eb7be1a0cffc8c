//! Groups of eight elements with AVX2: a mask byte, and shuffles from a table of 256 masks. Whole vectors of
//! them go faster: several groups share an instruction, and none waits for the place of the one before.

// Loads and stores take pointers; each gets its bounds from a slice.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{COMPRESS, EXPAND};
use super::{array, array_mut, load256, store256};

/// Elements that share a mask byte.
pub(crate) const GROUP: usize = 8;
/// Room for eight of the widest elements.
pub(crate) const GROUP_LEN: usize = 64;

/// Bytes of a vector, which is one to eight groups.
pub(crate) const VECTOR_LEN: usize = 64;
/// The elements of a vector that are left, and what a group is too long.
pub(crate) type Packed = [u8; PACKED_LEN];
pub(crate) const PACKED_LEN: usize = VECTOR_LEN + GROUP_LEN;

/// Moves the elements of `vector` whose bit is set to the front of `out`, and anything behind them.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn compress_vector<const W: usize>(mask: u64, vector: &[u8; VECTOR_LEN], out: &mut Packed) {
    match W {
        1 => compress_bytes(mask, vector, out),
        2 => compress_halfwords(mask as u32, vector, out),
        _ => {
            for i in 0..VECTOR_LEN / (GROUP * W) {
                let at = W * ones_below(mask as u32, GROUP * i);
                compress::<W>((mask >> (GROUP * i)) as u8, &vector[GROUP * W * i..], &mut out[at..]);
            }
        }
    }
}

/// The inverse of [`compress_vector`]: zero where the bit is clear.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn expand_vector<const W: usize>(mask: u64, stored: &Packed, out: &mut [u8; VECTOR_LEN]) {
    match W {
        1 => expand_bytes(mask, stored, out),
        2 => expand_halfwords(mask as u32, stored, out),
        _ => {
            for i in 0..VECTOR_LEN / (GROUP * W) {
                let at = W * ones_below(mask as u32, GROUP * i);
                expand::<W>((mask >> (GROUP * i)) as u8, &stored[at..], &mut out[GROUP * W * i..]);
            }
        }
    }
}

/// All bits of each element of `W` bytes that is zero.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn zero_lanes<const W: usize>(half: __m256i) -> __m256i {
    let zero = _mm256_setzero_si256();
    match W {
        1 => _mm256_cmpeq_epi8(half, zero),
        2 => _mm256_cmpeq_epi16(half, zero),
        4 => _mm256_cmpeq_epi32(half, zero),
        _ => _mm256_cmpeq_epi64(half, zero),
    }
}

/// One bit per element of a vector, given as halves, of which all bits are set.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn lane_mask<const W: usize>([low, high]: [__m256i; 2]) -> u64 {
    let halves = match W {
        1 => [_mm256_movemask_epi8(low), _mm256_movemask_epi8(high)],
        2 => {
            // Packing works within 128 bits each.
            let in_turn = _mm256_packs_epi16(low, high);
            return u64::from(_mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(in_turn)) as u32);
        }
        4 => [low, high].map(|half| _mm256_movemask_ps(_mm256_castsi256_ps(half))),
        _ => [low, high].map(|half| _mm256_movemask_pd(_mm256_castsi256_pd(half))),
    };
    u64::from(halves[0] as u32) | u64::from(halves[1] as u32) << (VECTOR_LEN / 2 / W)
}

#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn compress_bytes(mask: u64, from: &[u8; VECTOR_LEN], out: &mut Packed) {
    let tables = &COMPRESS_BYTES;
    let mut at = 0;
    for (half, mask) in [mask as u32, (mask >> 32) as u32].into_iter().enumerate() {
        // A byte shuffle works within 128 bits.
        let controls = group_controls(tables.controls.each_ref(), mask);
        let apart = _mm256_shuffle_epi8(vector(from, 32 * half), controls);
        // Stores are dear here: one for two groups.
        let packed = _mm256_shuffle_epi8(apart, by_first_mask(&tables.close, mask));
        store128(&mut out[at..], _mm256_castsi256_si128(packed));
        store128(&mut out[at + ones_below(mask, 16)..], _mm256_extracti128_si256::<1>(packed));
        at += mask.count_ones() as usize;
    }
}

/// What bytes are compressed by, side by side: one address leads to all of it.
struct CompressTables {
    /// [`COMPRESS`] for the lower eight of 16 bytes and for the upper eight.
    controls: [[[u8; 8]; 256]; 2],
    /// `close[mask]`: a control for 16 bytes that moves the upper eight behind as many as `mask` has bits.
    close: [[u8; 16]; 256],
}

static COMPRESS_BYTES: CompressTables =
    CompressTables { controls: [COMPRESS, upper_controls()], close: by_mask(true) };

const fn upper_controls() -> [[u8; 8]; 256] {
    let mut table = COMPRESS;
    let mut at = 0;
    while at < 256 * GROUP {
        table[at / GROUP][at % GROUP] |= GROUP as u8; // "no lane" stays that
        at += 1;
    }
    table
}

/// `BEHIND[mask]`: what leads the upper eight controls of 16 behind as many bytes as `mask` has bits. "No lane"
/// stays that.
static BEHIND: [[u8; 16]; 256] = by_mask(false);

const fn by_mask(close: bool) -> [[u8; 16]; 256] {
    let mut table = [[0; 16]; 256];
    let mut mask = 0;
    while mask < 256 {
        let count = (mask as u8).count_ones() as usize;
        let mut i = 0;
        while i < 16 {
            table[mask][i] = match close {
                true if i < count => i as u8,
                true => (i + GROUP - count) as u8, // past 15 what comes is behind the elements
                false if i < GROUP => 0,
                false => count as u8,
            };
            i += 1;
        }
        mask += 1;
    }
    table
}

#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn expand_bytes(mask: u64, stored: &Packed, out: &mut [u8; VECTOR_LEN]) {
    let mut at = 0;
    for (half, mask) in [mask as u32, (mask >> 32) as u32].into_iter().enumerate() {
        let upper = load128(&stored[at + ones_below(mask, 16)..]);
        let from = _mm256_set_m128i(upper, load128(&stored[at..]));
        let control = _mm256_add_epi8(group_controls([&EXPAND; 2], mask), by_first_mask(&BEHIND, mask));
        store_at(out, 32 * half, _mm256_shuffle_epi8(from, control));
        at += mask.count_ones() as usize;
    }
}

#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn compress_halfwords(mask: u32, from: &[u8; VECTOR_LEN], out: &mut Packed) {
    for start in [0, 2 * GROUP] {
        let control = halfword_controls(&COMPRESS, mask >> start);
        let packed = _mm256_shuffle_epi8(vector(from, 2 * start), control);
        let at = [start, start + GROUP].map(|group| 2 * ones_below(mask, group));
        store128(&mut out[at[0]..], _mm256_castsi256_si128(packed));
        store128(&mut out[at[1]..], _mm256_extracti128_si256::<1>(packed));
    }
}

#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn expand_halfwords(mask: u32, stored: &Packed, out: &mut [u8; VECTOR_LEN]) {
    for start in [0, 2 * GROUP] {
        let at = [start, start + GROUP].map(|group| 2 * ones_below(mask, group));
        let groups = _mm256_set_m128i(load128(&stored[at[1]..]), load128(&stored[at[0]..]));
        let control = halfword_controls(&EXPAND, mask >> start);
        store_at(out, 2 * start, _mm256_shuffle_epi8(groups, control));
    }
}

/// Set bits of `mask` below bit `end`, which is less than 32.
#[inline]
#[target_feature(enable = "popcnt")]
fn ones_below(mask: u32, end: usize) -> usize {
    (mask & ((1 << end) - 1)).count_ones() as usize
}

/// The tables' entries for four groups: the first table's for the lower ones of 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn group_controls(tables: [&[[u8; 8]; 256]; 2], mask: u32) -> __m256i {
    let pair = |bit: u32| {
        let [low, high] = [0, 1].map(|i| &tables[i][usize::from((mask >> (bit + 8 * i as u32)) as u8)]);
        _mm_insert_epi64::<1>(load64(low), i64::from_le_bytes(*high))
    };
    _mm256_set_m128i(pair(16), pair(0))
}

/// For each pair of groups the table's entry for the first one.
#[inline]
#[target_feature(enable = "avx2")]
fn by_first_mask(table: &[[u8; 16]; 256], mask: u32) -> __m256i {
    let [low, high] = [mask, mask >> 16].map(|mask| load128(&table[usize::from(mask as u8)]));
    _mm256_set_m128i(high, low)
}

/// The controls of two groups of halfwords. Saturation keeps the "no lane" bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn halfword_controls(table: &[[u8; 8]; 256], mask: u32) -> __m256i {
    let [low, high] = [0, 8].map(|bit| load64(&table[usize::from((mask >> bit) as u8)]));
    let controls = _mm256_set_m128i(high, low);
    let pairs = _mm256_unpacklo_epi8(controls, controls);
    _mm256_or_si256(_mm256_adds_epu8(pairs, pairs), _mm256_set1_epi16(0x100))
}

/// Moves the elements of `group` whose bit is set to the front of `out`, and anything behind them.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn compress<const W: usize>(mask: u8, group: &[u8], out: &mut [u8]) {
    let control = &COMPRESS[usize::from(mask)];
    match W {
        1 => store128(out, _mm_shuffle_epi8(load64(group), load64(control))),
        2 => store128(out, _mm_shuffle_epi8(load128(group), byte_pairs(load64(control)))),
        4 => {
            let lanes = _mm256_cvtepu8_epi32(load64(control));
            store_at(out, 0, _mm256_permutevar8x32_epi32(vector(group, 0), lanes));
        }
        _ => {
            let mut at = 0;
            for half in 0..2 {
                let mask = doubled(mask >> (4 * half));
                let lanes = _mm256_cvtepu8_epi32(load64(&COMPRESS[usize::from(mask)]));
                store_at(out, at, _mm256_permutevar8x32_epi32(vector(group, 32 * half), lanes));
                at += 4 * mask.count_ones() as usize;
            }
        }
    }
}

/// The inverse of [`compress`]: zero where the bit is clear.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn expand<const W: usize>(mask: u8, stored: &[u8], out: &mut [u8]) {
    let control = &EXPAND[usize::from(mask)];
    match W {
        1 => {
            let bytes = _mm_cvtsi128_si64(_mm_shuffle_epi8(load64(stored), load64(control)));
            out[..8].copy_from_slice(&bytes.to_le_bytes());
        }
        2 => store128(out, _mm_shuffle_epi8(load128(stored), byte_pairs(load64(control)))),
        4 => store_at(out, 0, expanded_words(load64(control), vector(stored, 0))),
        _ => {
            let mut at = 0;
            for half in 0..2 {
                let mask = doubled(mask >> (4 * half));
                store_at(
                    out,
                    32 * half,
                    expanded_words(load64(&EXPAND[usize::from(mask)]), vector(stored, at)),
                );
                at += 4 * mask.count_ones() as usize;
            }
        }
    }
}

/// Eight words of 32 bits after an expand control, which is eight bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn expanded_words(control: __m128i, stored: __m256i) -> __m256i {
    let lanes = _mm256_cvtepu8_epi32(control);
    let none = _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(7));
    _mm256_andnot_si256(none, _mm256_permutevar8x32_epi32(stored, lanes))
}

/// Each of the low four bits twice: a mask of 64-bit lanes as one of 32-bit lanes.
pub(crate) const fn doubled(mask: u8) -> u8 {
    let spread = mask & 1 | (mask & 2) << 1 | (mask & 4) << 2 | (mask & 8) << 3;
    spread | spread << 1
}

/// A control for eight bytes as one for eight halfwords. Saturation keeps the "no lane" bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn byte_pairs(control: __m128i) -> __m128i {
    let twice = _mm_adds_epu8(control, control);
    let upper = _mm_adds_epu8(twice, _mm_set1_epi8(1));
    _mm_unpacklo_epi8(twice, upper)
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load64(from: &[u8]) -> __m128i {
    let mut word = [0; 8];
    word.copy_from_slice(&from[..8]);
    _mm_cvtsi64_si128(i64::from_le_bytes(word))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load128(from: &[u8]) -> __m128i {
    let from = &from[..16];
    // SAFETY: the slice has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store128(to: &mut [u8], value: __m128i) {
    let to = &mut to[..16];
    // SAFETY: the slice has the 16 bytes that are written.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn vector(from: &[u8], at: usize) -> __m256i {
    load256(array(&from[at..]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_at(to: &mut [u8], at: usize, value: __m256i) {
    store256(array_mut(&mut to[at..]), value);
}
