//! Codes of 64 symbols at a time. Symbols stay where they stand in the tops of their values.

use std::arch::x86_64::*;

use super::cut::Symbols;
use super::lanes::{
    compress_control, expand_control, high_bits, in_order, load, load64, load128, low_bits, of_words,
    spread_bits, store, store64, store128, take_planes,
};
use crate::xp::vector::cut::{Codes, escapes_of, last_planes_at, planes_at};

/// The symbols of one tier, each in every lane; unused ones are never looked at.
#[derive(Clone, Copy)]
pub(super) struct Tier {
    lanes: [__m256i; 7],
    /// Byte *i* or word *i* is symbol *i* in either half; zero for the escape.
    list: __m256i,
}

impl Tier {
    /// The tier of these symbols, as bytes or words.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new<const TOP: usize>(tops: &[u16]) -> Self {
        let (mut list, mut lanes) = ([0; 16], [_mm256_setzero_si256(); 7]);
        for (i, (lane, &top)) in lanes.iter_mut().zip(tops).enumerate() {
            if TOP == 1 {
                list[i] = top as u8;
                *lane = _mm256_set1_epi8(top as i8);
            } else {
                list[2 * i..2 * i + 2].copy_from_slice(&top.to_le_bytes());
                *lane = _mm256_set1_epi16(top as i16);
            }
        }
        // SAFETY: the list has sixteen bytes.
        let list = unsafe { load128(list.as_ptr()) };
        Self { lanes, list: _mm256_broadcastsi128_si256(list) }
    }
}

/// Which of `symbols` are the `i`-th of the tier.
#[inline]
#[target_feature(enable = "avx2")]
fn matches<const TOP: usize>(symbols: Symbols, tier: &Tier, i: usize) -> u64 {
    let [a, b, c, d] = symbols;
    let symbol = tier.lanes[i];
    if TOP == 1 {
        return high_bits(_mm256_cmpeq_epi8(a, symbol), _mm256_cmpeq_epi8(b, symbol));
    }
    let low = _mm256_packs_epi16(_mm256_cmpeq_epi16(a, symbol), _mm256_cmpeq_epi16(b, symbol));
    let high = _mm256_packs_epi16(_mm256_cmpeq_epi16(c, symbol), _mm256_cmpeq_epi16(d, symbol));
    high_bits(in_order(low), in_order(high))
}

/// The codes of the symbols of `live` in a tier of `CODE` bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn codes<const TOP: usize, const CODE: usize>(symbols: Symbols, tier: &Tier, live: u64) -> Codes {
    // A set bit of `after[i]`: the code is over i. The first symbol that matches counts.
    let mut after = [live; 8];
    for i in 0..(1 << CODE) - 1 {
        after[i + 1] = after[i] & !matches::<TOP>(symbols, tier, i);
    }
    if CODE == 2 {
        return Codes { planes: [after[1] ^ after[2] ^ after[3], after[2], 0], escapes: after[3] };
    }
    let low = after[1] ^ after[2] ^ after[3] ^ after[4] ^ after[5] ^ after[6] ^ after[7];
    Codes { planes: [low, after[2] ^ after[4] ^ after[6], after[4]], escapes: after[7] }
}

/// Moves the symbols of `kept` together to `to`, and returns where the next ones go.
///
/// # Safety
/// `to` has room for 64 symbols and 16 bytes.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn keep<const TOP: usize>(symbols: Symbols, kept: u64, mut to: *mut u8) -> *mut u8 {
    for (i, vector) in symbols[..2 * TOP].iter().enumerate() {
        for half in 0..2 {
            let sixteen = if half == 0 {
                _mm256_castsi256_si128(*vector)
            } else {
                _mm256_extracti128_si256::<1>(*vector)
            };
            let masks = kept >> (32 / TOP * i + 16 / TOP * half);
            // SAFETY: each store starts behind what was kept of fewer than 64 symbols.
            unsafe {
                if TOP == 1 {
                    for (mask, eight) in
                        [(masks as u8, sixteen), ((masks >> 8) as u8, _mm_srli_si128::<8>(sixteen))]
                    {
                        store64(to, _mm_shuffle_epi8(eight, compress_control(mask)));
                        to = to.add(mask.count_ones() as usize);
                    }
                } else {
                    let mask = masks as u8;
                    store128(to, _mm_shuffle_epi8(sixteen, of_words(compress_control(mask))));
                    to = to.add(2 * mask.count_ones() as usize);
                }
            }
        }
    }
    to
}

/// # Safety
/// `from` has 64 symbols.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn symbols_at<const TOP: usize>(from: *const u8) -> Symbols {
    let mut symbols = [_mm256_setzero_si256(); 4];
    for (i, vector) in symbols[..2 * TOP].iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *vector = unsafe { load(from.add(32 * i)) };
    }
    symbols
}

/// See [`Vectors::put_tier`](crate::xp::vector::Vectors::put_tier).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn encode<const TOP: usize, const CODE: usize, const WRITE: bool>(
    symbols: *mut u8,
    count: usize,
    tops: &[u16],
    to: *mut u8,
) -> usize {
    let tier = Tier::new::<TOP>(tops);
    let (mut kept, mut to, groups) = (symbols, to, count / 64);
    // SAFETY: each group starts before `count`, so its 64 symbols are there. What is kept goes to the place
    // of symbols that were read: `kept` is never over `64 * group` symbols.
    unsafe {
        for group in 0..groups {
            let here = symbols_at::<TOP>(symbols.add(64 * group * TOP));
            let codes = codes::<TOP, CODE>(here, &tier, u64::MAX);
            if WRITE {
                to = codes.put::<CODE>(64, to);
            }
            kept = keep::<TOP>(here, codes.escapes, kept);
        }
        let left = count % 64;
        if left > 0 {
            let here = symbols_at::<TOP>(symbols.add(64 * groups * TOP));
            let codes = codes::<TOP, CODE>(here, &tier, low_bits(left));
            if WRITE {
                codes.put::<CODE>(left, to);
            }
            kept = keep::<TOP>(here, codes.escapes, kept);
        }
        kept.offset_from_unsigned(symbols) / TOP
    }
}

/// The symbols that 64 codes name, with the escapes filled up from `escaped`.
///
/// # Safety
/// `escaped` has the escapes' symbols and 16 bytes more.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn symbols_of<const TOP: usize, const CODE: usize>(
    planes: [u64; 3],
    tier: &Tier,
    mut escaped: *const u8,
) -> Symbols {
    // SAFETY: planes are eight bytes each.
    let (a, b) = unsafe {
        if CODE == 2 {
            let [low, high, _] = planes;
            (two_bits(low as u32, high as u32), two_bits((low >> 32) as u32, (high >> 32) as u32))
        } else {
            take_planes::<3>(planes.as_ptr().cast())
        }
    };
    let escapes = escapes_of::<CODE>(planes);
    let mut symbols = [_mm256_setzero_si256(); 4];
    for (i, vector) in symbols[..2 * TOP].iter_mut().enumerate() {
        let codes = if i < TOP { a } else { b };
        let named = if TOP == 1 {
            _mm256_shuffle_epi8(tier.list, codes)
        } else {
            let half =
                if i % 2 == 0 { _mm256_castsi256_si128(codes) } else { _mm256_extracti128_si256::<1>(codes) };
            // Byte 2c and byte 2c + 1 for code c.
            let twice = _mm256_cvtepu8_epi16(_mm_add_epi8(half, half));
            let pairs = _mm256_add_epi8(
                _mm256_or_si256(twice, _mm256_slli_epi16::<8>(twice)),
                _mm256_set1_epi16(0x100),
            );
            _mm256_shuffle_epi8(tier.list, pairs)
        };
        // SAFETY: the caller's promise.
        let (filled, next) = unsafe { filled::<TOP>(escapes >> (32 / TOP * i), escaped) };
        escaped = next;
        // The list names an escape zero, and what is filled is zero elsewhere.
        *vector = _mm256_or_si256(named, filled);
    }
    symbols
}

/// Codes of two bits as bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn two_bits(low: u32, high: u32) -> __m256i {
    let low = _mm256_and_si256(spread_bits(low), _mm256_set1_epi8(1));
    _mm256_or_si256(low, _mm256_and_si256(spread_bits(high), _mm256_set1_epi8(2)))
}

/// A vector with the next symbols of `escaped` where the low bits of `escapes` are set, and where the
/// following are.
///
/// # Safety
/// `escaped` has them and 16 bytes more.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn filled<const TOP: usize>(escapes: u64, mut escaped: *const u8) -> (__m256i, *const u8) {
    let mut halves = [_mm_setzero_si128(); 2];
    for (half, sixteen) in halves.iter_mut().enumerate() {
        let masks = escapes >> (16 / TOP * half);
        // SAFETY: the caller's promise.
        unsafe {
            if TOP == 1 {
                let (low, high) = (masks as u8, (masks >> 8) as u8);
                let first = _mm_shuffle_epi8(load64(escaped), expand_control(low));
                escaped = escaped.add(low.count_ones() as usize);
                let second = _mm_shuffle_epi8(load64(escaped), expand_control(high));
                escaped = escaped.add(high.count_ones() as usize);
                *sixteen = _mm_unpacklo_epi64(first, second);
            } else {
                let mask = masks as u8;
                *sixteen = _mm_shuffle_epi8(load128(escaped), of_words(expand_control(mask)));
                escaped = escaped.add(2 * mask.count_ones() as usize);
            }
        }
    }
    (_mm256_set_m128i(halves[1], halves[0]), escaped)
}

/// See [`Vectors::take_tier`](crate::xp::vector::Vectors::take_tier).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn decode<const TOP: usize, const CODE: usize>(
    column: *const u8,
    count: usize,
    tops: &[u16],
    mut escaped: *const u8,
    to: *mut u8,
) {
    let (tier, groups, left) = (Tier::new::<TOP>(tops), count / 64, count % 64);
    // SAFETY: the planes of a group lie in the column; its escapes are followed by slack; its symbols have
    // room.
    unsafe {
        for group in 0..groups {
            let planes = planes_at::<CODE>(column, group);
            put_symbols::<TOP>(symbols_of::<TOP, CODE>(planes, &tier, escaped), to.add(64 * group * TOP));
            escaped = escaped.add(TOP * escapes_of::<CODE>(planes).count_ones() as usize);
        }
        if left > 0 {
            let planes = last_planes_at::<CODE>(column, groups, left);
            put_symbols::<TOP>(symbols_of::<TOP, CODE>(planes, &tier, escaped), to.add(64 * groups * TOP));
        }
    }
}

/// # Safety
/// `to` has room for 64 symbols.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put_symbols<const TOP: usize>(symbols: Symbols, to: *mut u8) {
    for (i, vector) in symbols[..2 * TOP].iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { store(to.add(32 * i), *vector) };
    }
}
