//! Codes of 64 symbols at a time. Symbols stay where they stand in the tops of their values.

use std::arch::x86_64::*;

use super::cut::Symbols;
use super::lanes::{bytes_of_planes, load, store, store256};
use crate::cpu::low_bits;
use crate::xp::vector::cut::{Codes, escapes_of, last_planes_at, planes_at};

/// The symbols of one tier, each in every lane; unused ones are never looked at.
#[derive(Clone, Copy)]
pub(super) struct Tier {
    lanes: [__m512i; 7],
    /// Byte *i* or word *i* is symbol *i*.
    list: __m512i,
}

impl Tier {
    /// The tier of these symbols, as bytes or words.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn new<const TOP: usize>(tops: &[u16]) -> Self {
        let mut list = [0; 64];
        for (place, top) in list.as_chunks_mut::<2>().0.iter_mut().zip(tops) {
            *place = top.to_le_bytes();
        }
        let words = crate::cpu::load512(&list);
        let mut lanes = [_mm512_setzero_si512(); 7];
        for (lane, &top) in lanes.iter_mut().zip(tops) {
            *lane = if TOP == 1 { _mm512_set1_epi8(top as i8) } else { _mm512_set1_epi16(top as i16) };
        }
        // The same sixteen bytes four times: a byte shuffle looks no further.
        let bytes = _mm512_broadcast_i32x4(_mm256_castsi256_si128(_mm512_cvtepi16_epi8(words)));
        Self { lanes, list: if TOP == 1 { bytes } else { words } }
    }
}

/// Which of `symbols` are not the `i`-th of the tier, among those of `live`.
#[inline]
#[target_feature(enable = "avx512bw")]
fn others<const TOP: usize>(symbols: Symbols, tier: &Tier, i: usize, live: u64) -> u64 {
    if TOP == 1 {
        return _mm512_mask_cmpneq_epi8_mask(live, symbols[0], tier.lanes[i]);
    }
    let low = _mm512_mask_cmpneq_epi16_mask(live as u32, symbols[0], tier.lanes[i]);
    let high = _mm512_mask_cmpneq_epi16_mask((live >> 32) as u32, symbols[1], tier.lanes[i]);
    u64::from(high) << 32 | u64::from(low)
}

/// The codes of the symbols of `live` in a tier of `CODE` bits.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn codes<const TOP: usize, const CODE: usize>(symbols: Symbols, tier: &Tier, live: u64) -> Codes {
    if CODE == 2 {
        // What is left behind each symbol; the first that matches counts.
        let after_0 = others::<TOP>(symbols, tier, 0, live);
        let after_1 = others::<TOP>(symbols, tier, 1, after_0);
        let escapes = others::<TOP>(symbols, tier, 2, after_1);
        return Codes { planes: [after_0 ^ after_1 ^ escapes, after_1, 0], escapes };
    }
    // A set bit of `after[i]`: the code is over i.
    let mut after = [live; 8];
    for i in 0..7 {
        after[i + 1] = others::<TOP>(symbols, tier, i, after[i]);
    }
    let escapes = after[7];
    let low = after[1] ^ after[2] ^ after[3] ^ after[4] ^ after[5] ^ after[6] ^ after[7];
    let middle = after[2] ^ after[4] ^ after[6];
    Codes { planes: [low, middle, after[4]], escapes }
}

/// Moves the symbols of `kept` together to `to`, and returns where the next ones go.
///
/// # Safety
/// `to` has room for 64 symbols and 64 bytes.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn keep<const TOP: usize>(symbols: Symbols, kept: u64, to: *mut u8) -> *mut u8 {
    // SAFETY: each store is 64 bytes, the second at most 64 bytes behind the first.
    unsafe {
        if TOP == 1 {
            let (number, symbols) =
                (kept.count_ones() as usize, _mm512_maskz_compress_epi8(kept, symbols[0]));
            store256(to, _mm512_castsi512_si256(symbols));
            if number > 32 {
                store(to, symbols);
            }
            return to.add(number);
        }
        store(to, _mm512_maskz_compress_epi16(kept as u32, symbols[0]));
        let to = to.add(2 * (kept as u32).count_ones() as usize);
        store(to, _mm512_maskz_compress_epi16((kept >> 32) as u32, symbols[1]));
        to.add(2 * (kept >> 32).count_ones() as usize)
    }
}

/// # Safety
/// `from` has 64 symbols.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) unsafe fn symbols_at<const TOP: usize>(from: *const u8) -> Symbols {
    // SAFETY: the caller's promise; words take two vectors.
    unsafe { [load(from), if TOP == 1 { _mm512_setzero_si512() } else { load(from.add(64)) }] }
}

/// See [`Vectors::put_tier`](crate::xp::vector::Vectors::put_tier).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
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
/// `escaped` has the escapes' symbols and 128 bytes more.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,gfni,popcnt")]
pub(super) unsafe fn symbols_of<const TOP: usize, const CODE: usize>(
    planes: [u64; 3],
    tier: &Tier,
    escaped: *const u8,
) -> Symbols {
    let [low, middle, high] = planes;
    let escapes = if CODE == 2 { low & middle } else { low & middle & high };
    let named = if CODE == 2 {
        named_by_two::<TOP>(low, middle, tier)
    } else {
        let planes = _mm512_castsi256_si512(_mm256_setr_epi64x(low as i64, middle as i64, high as i64, 0));
        // The upper half of `planes` is not used: planes 4 to 7 are masked away.
        let codes = _mm512_and_si512(bytes_of_planes(planes), _mm512_set1_epi8(7));
        named_by_bytes::<TOP>(codes, tier)
    };
    // SAFETY: the caller's promise; the second 32 words start behind the escapes of the first.
    unsafe {
        if TOP == 1 {
            return [_mm512_mask_expand_epi8(named[0], escapes, load(escaped)), named[1]];
        }
        let first = _mm512_mask_expand_epi16(named[0], escapes as u32, load(escaped));
        let escaped = escaped.add(2 * (escapes as u32).count_ones() as usize);
        [first, _mm512_mask_expand_epi16(named[1], (escapes >> 32) as u32, load(escaped))]
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn named_by_two<const TOP: usize>(low: u64, high: u64, tier: &Tier) -> Symbols {
    let [zero, one, two, ..] = tier.lanes;
    if TOP == 1 {
        let named = _mm512_mask_mov_epi8(_mm512_mask_blend_epi8(low, zero, one), high, two);
        return [named, _mm512_setzero_si512()];
    }
    let first = _mm512_mask_mov_epi16(_mm512_mask_blend_epi16(low as u32, zero, one), high as u32, two);
    let (low, high) = ((low >> 32) as u32, (high >> 32) as u32);
    [first, _mm512_mask_mov_epi16(_mm512_mask_blend_epi16(low, zero, one), high, two)]
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn named_by_bytes<const TOP: usize>(codes: __m512i, tier: &Tier) -> Symbols {
    if TOP == 1 {
        return [_mm512_shuffle_epi8(tier.list, codes), _mm512_setzero_si512()];
    }
    let low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(codes));
    let high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64::<1>(codes));
    [_mm512_permutexvar_epi16(low, tier.list), _mm512_permutexvar_epi16(high, tier.list)]
}

/// See [`Vectors::take_tier`](crate::xp::vector::Vectors::take_tier).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,gfni,popcnt")]
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
#[target_feature(enable = "avx512bw")]
unsafe fn put_symbols<const TOP: usize>(symbols: Symbols, to: *mut u8) {
    // SAFETY: the caller's promise; words take two vectors.
    unsafe {
        store(to, symbols[0]);
        if TOP == 2 {
            store(to.add(64), symbols[1]);
        }
    }
}
