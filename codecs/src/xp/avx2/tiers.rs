//! Codes of 64 symbols at a time. Symbols stay where they stand in the tops of their values.

use std::arch::x86_64::*;

use super::lanes::{compress_control, high_bits, load, load128, ranks, spread_bits, store, store64};
use super::planes::take_planes;
use crate::cpu::low_bits;
use crate::xp::vector::HALF;
use crate::xp::vector::cut::{Codes, escapes_of, last_planes_at, planes_at};

/// Symbols of 64 values, still where they stand in the tops: the high bytes, and the low ones of words. In
/// memory, low bytes are [`HALF`] bytes behind the high ones.
#[derive(Clone, Copy)]
pub(super) struct Symbols {
    pub(super) high: [__m256i; 2],
    pub(super) low: [__m256i; 2],
}

impl Symbols {
    pub(super) const ZERO: Self = {
        // SAFETY: a vector is 32 bytes.
        let zero = [unsafe { std::mem::transmute::<[u8; 32], __m256i>([0; 32]) }; 2];
        Self { high: zero, low: zero }
    };
}

/// The symbols of one tier.
#[derive(Clone, Copy)]
pub(super) struct Tier {
    high: Bytes,
    low: Bytes,
}

/// A byte of each symbol of a tier: each in every lane, where unused ones are never looked at, and each in its
/// place in either half.
#[derive(Clone, Copy)]
struct Bytes {
    lanes: [__m256i; 7],
    list: __m256i,
}

impl Tier {
    /// The tier of these symbols, as bytes or words.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new<const TOP: usize>(tops: &[u16]) -> Self {
        let low = Bytes::new(tops.iter().map(|&top| top as u8));
        if TOP == 1 {
            return Self { high: low, low };
        }
        Self { high: Bytes::new(tops.iter().map(|&top| (top >> 8) as u8)), low }
    }
}

impl Bytes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bytes: impl Iterator<Item = u8>) -> Self {
        let (mut list, mut lanes) = ([0; 16], [_mm256_setzero_si256(); 7]);
        for ((place, lane), byte) in list.iter_mut().zip(&mut lanes).zip(bytes) {
            *place = byte;
            *lane = _mm256_set1_epi8(byte as i8);
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
    let matches_in = |half: usize| {
        let high = _mm256_cmpeq_epi8(symbols.high[half], tier.high.lanes[i]);
        if TOP == 1 {
            return high;
        }
        _mm256_and_si256(high, _mm256_cmpeq_epi8(symbols.low[half], tier.low.lanes[i]))
    };
    high_bits(matches_in(0), matches_in(1))
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
/// `to` is scratch memory for 64 symbols.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn keep<const TOP: usize>(symbols: Symbols, kept: u64, mut to: *mut u8) -> *mut u8 {
    for quarter in 0..4 {
        let sixteen = |bytes: [__m256i; 2]| match quarter % 2 {
            0 => _mm256_castsi256_si128(bytes[quarter / 2]),
            _ => _mm256_extracti128_si256::<1>(bytes[quarter / 2]),
        };
        let (mut high, mut low) = (sixteen(symbols.high), sixteen(symbols.low));
        for eighth in [2 * quarter, 2 * quarter + 1] {
            let mask = (kept >> (8 * eighth)) as u8;
            let control = compress_control(mask);
            // SAFETY: each store starts behind what was kept of fewer than 64 symbols.
            unsafe {
                store64(to, _mm_shuffle_epi8(high, control));
                if TOP == 2 {
                    store64(to.add(HALF), _mm_shuffle_epi8(low, control));
                }
                to = to.add(mask.count_ones() as usize);
            }
            (high, low) = (_mm_srli_si128::<8>(high), _mm_srli_si128::<8>(low));
        }
    }
    to
}

/// # Safety
/// `from` is scratch memory with 64 symbols.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn symbols_at<const TOP: usize>(from: *const u8) -> Symbols {
    // SAFETY: the caller's promise.
    let both = |from: *const u8| unsafe { [load(from), load(from.add(32))] };
    let low = if TOP == 1 { [_mm256_setzero_si256(); 2] } else { both(from.wrapping_add(HALF)) };
    Symbols { high: both(from), low }
}

/// See [`Vectors::put_tier`](crate::xp::vector::Vectors::put_tier).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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
            let here = symbols_at::<TOP>(symbols.add(64 * group));
            let codes = codes::<TOP, CODE>(here, &tier, u64::MAX);
            if WRITE {
                to = codes.put::<CODE>(64, to);
            }
            kept = keep::<TOP>(here, codes.escapes, kept);
        }
        let left = count % 64;
        if left > 0 {
            let here = symbols_at::<TOP>(symbols.add(64 * groups));
            let codes = codes::<TOP, CODE>(here, &tier, low_bits(left));
            if WRITE {
                codes.put::<CODE>(left, to);
            }
            kept = keep::<TOP>(here, codes.escapes, kept);
        }
        kept.offset_from_unsigned(symbols)
    }
}

/// The symbols that 64 codes name, with the escapes filled up from `escaped`, and their number.
///
/// # Safety
/// The planes are there; `escaped` has the escapes' symbols and 16 bytes more.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn symbols_of<const TOP: usize, const CODE: usize>(
    planes: *const u8,
    tier: &Tier,
    escaped: *const u8,
) -> (Symbols, usize) {
    // SAFETY: the caller's promise.
    let (named, escapes) = unsafe {
        let escapes = escapes_of::<CODE>(planes_at::<CODE>(planes, 0));
        let named = if CODE == 2 {
            named_by_two::<TOP>(load128(planes), tier)
        } else {
            let (a, b) = take_planes::<3>(planes);
            [named_by_three::<TOP>(a, tier), named_by_three::<TOP>(b, tier)]
        };
        (named, escapes)
    };
    // What goes to each sixteen lanes starts behind the escapes of those before.
    let starts =
        [[0, (escapes as u16).count_ones()], [(escapes as u32).count_ones(), (escapes << 16).count_ones()]];
    let mut symbols = Symbols::ZERO;
    for (half, named) in named.into_iter().enumerate() {
        let ranks = ranks(named.escapes);
        let filled = |bytes, escaped: *const u8| {
            let [first, second] = starts[half].map(|start| escaped.wrapping_add(start as usize));
            // SAFETY: none starts behind the escapes.
            let stored = unsafe { _mm256_set_m128i(load128(second), load128(first)) };
            _mm256_blendv_epi8(bytes, _mm256_shuffle_epi8(stored, ranks), named.escapes)
        };
        symbols.high[half] = filled(named.high, escaped);
        if TOP == 2 {
            symbols.low[half] = filled(named.low, escaped.wrapping_add(HALF));
        }
    }
    (symbols, escapes.count_ones() as usize)
}

/// The symbols that 32 codes name, and ones for escapes.
struct Named {
    high: __m256i,
    low: __m256i,
    escapes: __m256i,
}

#[inline]
#[target_feature(enable = "avx2")]
fn named_by_two<const TOP: usize>(planes: __m128i, tier: &Tier) -> [Named; 2] {
    let planes = _mm256_broadcastsi128_si256(planes);
    let low_bits = [spread_bits::<0>(planes), spread_bits::<4>(planes)];
    let high_bits = [spread_bits::<8>(planes), spread_bits::<12>(planes)];
    [0, 1].map(|half| {
        let (low_bit, high_bit) = (low_bits[half], high_bits[half]);
        let named = |bytes: &Bytes| {
            let [zero, one, two, ..] = bytes.lanes;
            _mm256_blendv_epi8(_mm256_blendv_epi8(zero, one, low_bit), two, high_bit)
        };
        let high = named(&tier.high);
        let low = if TOP == 1 { high } else { named(&tier.low) };
        Named { high, low, escapes: _mm256_and_si256(low_bit, high_bit) }
    })
}

#[inline]
#[target_feature(enable = "avx2")]
fn named_by_three<const TOP: usize>(codes: __m256i, tier: &Tier) -> Named {
    let high = _mm256_shuffle_epi8(tier.high.list, codes);
    let low = if TOP == 1 { high } else { _mm256_shuffle_epi8(tier.low.list, codes) };
    Named { high, low, escapes: _mm256_cmpeq_epi8(codes, _mm256_set1_epi8(7)) }
}

/// See [`Vectors::take_tier`](crate::xp::vector::Vectors::take_tier).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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
            let (symbols, escapes) = symbols_of::<TOP, CODE>(column.add(8 * CODE * group), &tier, escaped);
            put_symbols::<TOP>(symbols, to.add(64 * group));
            escaped = escaped.add(escapes);
        }
        if left > 0 {
            let planes = last_planes_at::<CODE>(column, groups, left);
            let (symbols, _) = symbols_of::<TOP, CODE>(planes.as_ptr().cast(), &tier, escaped);
            put_symbols::<TOP>(symbols, to.add(64 * groups));
        }
    }
}

/// # Safety
/// `to` is scratch memory for 64 symbols.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn put_symbols<const TOP: usize>(symbols: Symbols, to: *mut u8) {
    for half in 0..2 {
        // SAFETY: the caller's promise.
        unsafe {
            store(to.add(32 * half), symbols.high[half]);
            if TOP == 2 {
                store(to.add(HALF + 32 * half), symbols.low[half]);
            }
        }
    }
}
