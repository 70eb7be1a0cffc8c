//! Columns of symbols and values in.

use std::arch::x86_64::*;

use super::cut::{Symbols, join};
use super::lanes::{bytes_of_planes, load, store};
use super::tiers::{Tier, symbols_of};
use crate::cpu::{load512, load512_partial};
use crate::xp::column::{GROUP, planes_len};
use crate::xp::vector::cut::{Cut, Last, Rests, escapes_of, last_planes_at, planes_at, take_last_planes};

/// The escapes in a column of `count` codes of two bits.
#[inline]
#[target_feature(enable = "avx512bw,avx512vpopcntdq,popcnt,bmi2")]
pub(super) fn count_pairs(column: &[u8], count: usize) -> usize {
    let (whole, last) = column.split_at(planes_len(count - count % GROUP, 2));
    let mut sum = _mm512_setzero_si512();
    let (vectors, rest) = whole.as_chunks();
    for planes in vectors {
        sum = _mm512_add_epi64(sum, pairs_of(load512(planes)));
    }
    sum = _mm512_add_epi64(sum, pairs_of(load512_partial(rest)));
    let (low, high) = last.split_at(last.len() / 2);
    let last = low.iter().zip(high).map(|(low, high)| (low & high).count_ones() as usize).sum::<usize>();
    // Either plane was joined with the other.
    _mm512_reduce_add_epi64(sum) as usize / 2 + last
}

/// For each of two planes in turn the bits that are set in both.
#[inline]
#[target_feature(enable = "avx512bw,avx512vpopcntdq")]
fn pairs_of(planes: __m512i) -> __m512i {
    let others = _mm512_shuffle_epi32::<0b01_00_11_10>(planes);
    _mm512_popcnt_epi64(_mm512_and_si512(planes, others))
}

/// The escapes in a column of `count` codes of three bits.
#[inline]
#[target_feature(enable = "popcnt")]
pub(super) fn count_triples(column: &[u8], count: usize) -> usize {
    let (groups, left) = (count / GROUP, count % GROUP);
    let mut escapes = 0;
    // SAFETY: the column has that many codes.
    unsafe {
        for group in 0..groups {
            escapes += escapes_of::<3>(planes_at::<3>(column.as_ptr(), group)).count_ones() as usize;
        }
        let last = last_planes_at::<3>(column.as_ptr(), groups, left);
        escapes + escapes_of::<3>(last).count_ones() as usize
    }
}

/// See [`Vectors::take_symbols`](crate::xp::vector::Vectors::take_symbols).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,gfni")]
pub(super) unsafe fn take_symbols<const B: u32, const E: u32, const S: bool>(
    column: *const u8,
    count: usize,
    to: *mut u8,
) {
    let (top, bits) = (Cut::<B, E, S>::TOP, Cut::<B, E, S>::SYMBOL_BITS as usize);
    let number = bits % 8;
    let planes_start = if bits < 8 { column } else { column.wrapping_add(count) };
    let shift = _mm_cvtsi32_si128(Cut::<B, E, S>::PLANES as i32);
    for group in 0..count.div_ceil(GROUP) {
        let left = (count - GROUP * group).min(GROUP);
        let (mut whole, mut planes) = ([0; 64], [0; 64]);
        // SAFETY: the group's bytes and planes are in the column; the arrays have room for a whole group.
        unsafe {
            if bits >= 8 {
                whole.as_mut_ptr().copy_from_nonoverlapping(column.add(GROUP * group), left);
            }
            take_last_planes(&mut planes, number, left, planes_start.add(8 * number * group));
            let (whole, high) = (load(whole.as_ptr()), bytes_of_planes(load(planes.as_ptr())));
            if top == 1 {
                // Symbols of less than eight bits have no whole byte, those of eight no plane.
                let numbers = _mm512_or_si512(whole, high);
                store(to.add(GROUP * group), _mm512_sll_epi16(numbers, shift));
            } else {
                let halves = [_mm512_castsi512_si256(whole), _mm512_extracti64x4_epi64::<1>(whole)];
                let highs = [_mm512_castsi512_si256(high), _mm512_extracti64x4_epi64::<1>(high)];
                for half in 0..2 {
                    let high = _mm512_slli_epi16::<8>(_mm512_cvtepu8_epi16(highs[half]));
                    let words = _mm512_or_si512(_mm512_cvtepu8_epi16(halves[half]), high);
                    store(to.add(2 * GROUP * group + 64 * half), _mm512_sll_epi16(words, shift));
                }
            }
        }
    }
}

/// See [`Vectors::join_values`](crate::xp::vector::Vectors::join_values).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
pub(super) unsafe fn join_values<const B: u32, const E: u32, const S: bool>(
    codes: *const u8,
    rests: Rests,
    count: usize,
    tops: &[u16],
    mut escaped: *const u8,
    to: *mut u8,
) {
    let (groups, group_len) = (count / GROUP, GROUP * Cut::<B, E, S>::WIDTH);
    let tier = if Cut::<B, E, S>::TOP == 1 { Tier::new::<1>(tops) } else { Tier::new::<2>(tops) };
    // SAFETY: group by group what the columns have; escapes as far as there are.
    unsafe {
        for group in 0..groups {
            let planes = planes_at::<2>(codes, group);
            let symbols = first_symbols::<B, E, S>(planes, &tier, escaped);
            escaped = escaped.add(Cut::<B, E, S>::TOP * escapes_of::<2>(planes).count_ones() as usize);
            let rests = rests.group::<B, E, S>(group);
            join::<B, E, S>(symbols, rests, to.add(group_len * group));
        }
        let left = count - GROUP * groups;
        if left > 0 {
            let planes = last_planes_at::<2>(codes, groups, left);
            let symbols = first_symbols::<B, E, S>(planes, &tier, escaped);
            let mut last = Last::new();
            last.take_rests::<B, E, S>(rests.group::<B, E, S>(groups), left);
            join::<B, E, S>(symbols, last.rests(), last.values());
            last.put_values(to.add(group_len * groups), left, Cut::<B, E, S>::WIDTH);
        }
    }
}

/// # Safety
/// As for [`symbols_of`].
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,gfni,popcnt")]
unsafe fn first_symbols<const B: u32, const E: u32, const S: bool>(
    planes: [u64; 3],
    tier: &Tier,
    escaped: *const u8,
) -> Symbols {
    // SAFETY: the caller's promise.
    unsafe {
        if Cut::<B, E, S>::TOP == 1 {
            symbols_of::<1, 2>(planes, tier, escaped)
        } else {
            symbols_of::<2, 2>(planes, tier, escaped)
        }
    }
}
