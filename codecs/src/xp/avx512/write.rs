//! Columns of values and symbols out.

use std::arch::x86_64::*;

use super::cut::{Symbols, cut};
use super::lanes::{index, planes_of, prefetch_lines, store};
use super::tiers::{Tier, codes, keep, symbols_at};
use crate::cpu::low_bits;
use crate::xp::column::GROUP;
use crate::xp::vector::cut::{Codes, Cut, Last, RestsMut, put_last_planes};

/// See [`Vectors::cut_values`](crate::xp::vector::Vectors::cut_values).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
pub(super) unsafe fn cut_values<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    values: *const u8,
    count: usize,
    tops: &[u16],
    escapes: *mut u8,
    to: *mut u8,
) -> usize {
    let tier = if Cut::<B, E, S>::TOP == 1 { Tier::new::<1>(tops) } else { Tier::new::<2>(tops) };
    let rests = Cut::<B, E, S>::rests_mut(to, count);
    let (mut kept, groups) = (escapes, count / GROUP);
    // SAFETY: group by group, everything goes behind what came before; the planes of the last group are
    // followed by 64 bytes of room. Escapes are never more than the values cut so far.
    unsafe {
        for group in 0..groups {
            let rests = rests.group::<B, E, S>(group);
            let group_values = values.add(GROUP * Cut::<B, E, S>::WIDTH * group);
            // Chunks mostly follow each other. Without a mask these values are the chunk.
            prefetch_lines::<B>(group_values.wrapping_add(count * Cut::<B, E, S>::WIDTH));
            let symbols = cut::<B, E, S, WRITE>(group_values, rests);
            let codes = first_codes::<B, E, S>(symbols, &tier, u64::MAX);
            if WRITE {
                let planes = to.add(16 * group).cast::<u64>();
                planes.write_unaligned(codes.planes[0]);
                planes.add(1).write_unaligned(codes.planes[1]);
            }
            kept = keep_symbols::<B, E, S>(symbols, codes.escapes, kept);
        }
        if count > GROUP * groups {
            let values = values.add(GROUP * Cut::<B, E, S>::WIDTH * groups);
            let rests = rests.group::<B, E, S>(groups);
            let left = count - GROUP * groups;
            kept = cut_last::<B, E, S, WRITE>(values, left, &tier, kept, to.wrapping_add(16 * groups), rests);
        }
        kept.offset_from_unsigned(escapes) / Cut::<B, E, S>::TOP
    }
}

/// What [`cut_values`] does, for a last group of `left` values.
///
/// # Safety
/// As for [`cut_values`]; the pointers are those of the group.
#[cold]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
unsafe fn cut_last<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    values: *const u8,
    left: usize,
    tier: &Tier,
    escapes: *mut u8,
    to: *mut u8,
    rests: RestsMut,
) -> *mut u8 {
    let mut last = Last::new();
    // SAFETY: there is room for a whole group; from it goes what `left` values have.
    unsafe {
        last.take_values(values, left, Cut::<B, E, S>::WIDTH);
        let symbols = cut::<B, E, S, WRITE>(last.values(), last.rests_mut());
        let codes = first_codes::<B, E, S>(symbols, tier, low_bits(left));
        if WRITE {
            codes.put_last(left, to);
            last.put_rests::<B, E, S>(rests, left);
        }
        keep_symbols::<B, E, S>(symbols, codes.escapes, escapes)
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn first_codes<const B: u32, const E: u32, const S: bool>(symbols: Symbols, tier: &Tier, live: u64) -> Codes {
    if Cut::<B, E, S>::TOP == 1 {
        codes::<1, 2>(symbols, tier, live)
    } else {
        codes::<2, 2>(symbols, tier, live)
    }
}

/// # Safety
/// As for [`keep`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
unsafe fn keep_symbols<const B: u32, const E: u32, const S: bool>(
    symbols: Symbols,
    kept: u64,
    to: *mut u8,
) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        if Cut::<B, E, S>::TOP == 1 { keep::<1>(symbols, kept, to) } else { keep::<2>(symbols, kept, to) }
    }
}

/// See [`Vectors::put_symbols`](crate::xp::vector::Vectors::put_symbols).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,gfni")]
pub(super) unsafe fn put_symbols<const B: u32, const E: u32, const S: bool>(
    symbols: *const u8,
    count: usize,
    to: *mut u8,
) {
    let top = Cut::<B, E, S>::TOP;
    let bits = Cut::<B, E, S>::SYMBOL_BITS as usize;
    let planes_start = if bits < 8 { to } else { to.wrapping_add(count) };
    for group in 0..count.div_ceil(GROUP) {
        let left = (count - GROUP * group).min(GROUP);
        let mut planes = [0; 64];
        // SAFETY: the group starts before `count`. 64 bytes behind the column are room.
        unsafe {
            let (low, high);
            if top == 1 {
                let tops = symbols_at::<1>(symbols.add(GROUP * group))[0];
                low = shift_bytes_right(tops, Cut::<B, E, S>::PLANES);
                high = low;
            } else {
                let shift = _mm_cvtsi32_si128(Cut::<B, E, S>::PLANES as i32);
                let [a, b] = symbols_at::<2>(symbols.add(2 * GROUP * group));
                let (a, b) = (_mm512_srl_epi16(a, shift), _mm512_srl_epi16(b, shift));
                low = _mm512_permutex2var_epi8(a, index!(|i| (2 * i)), b);
                high = _mm512_permutex2var_epi8(a, index!(|i| (2 * i + 1)), b);
            }
            if bits >= 8 {
                let mut whole = [0; 64];
                store(whole.as_mut_ptr(), low);
                to.add(GROUP * group).copy_from_nonoverlapping(whole.as_ptr(), left);
            }
            if bits != 8 {
                // Behind the last symbol there is anything.
                let high = _mm512_maskz_mov_epi8(low_bits(left), high);
                store(planes.as_mut_ptr(), planes_of(high));
                let number = bits % 8;
                put_last_planes(&planes, number, left, planes_start.add(8 * number * group));
            }
        }
    }
}

/// Each byte shifted right.
#[inline]
#[target_feature(enable = "avx512bw")]
fn shift_bytes_right(bytes: __m512i, by: usize) -> __m512i {
    let words = _mm512_srl_epi16(bytes, _mm_cvtsi32_si128(by as i32));
    _mm512_and_si512(words, _mm512_set1_epi8((0xff >> by) as i8))
}
