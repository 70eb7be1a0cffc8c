//! Columns of symbols and values in.

use std::arch::x86_64::*;

use super::cut::{Symbols, join};
use super::lanes::{interleave, load, store, take_planes};
use super::tiers::{Tier, symbols_of};
use crate::xp::column::GROUP;
use crate::xp::vector::cut::{Cut, Last, Rests, escapes_of, last_planes_at, planes_at, take_last_planes};

/// See [`Vectors::count_escapes`](crate::xp::vector::Vectors::count_escapes).
#[target_feature(enable = "popcnt")]
pub(super) fn count_escapes<const CODE: usize>(column: &[u8], count: usize) -> usize {
    let (groups, left) = (count / GROUP, count % GROUP);
    let mut escapes = 0;
    // SAFETY: the column has that many codes.
    unsafe {
        for group in 0..groups {
            escapes += escapes_of::<CODE>(planes_at::<CODE>(column.as_ptr(), group)).count_ones() as usize;
        }
        let last = last_planes_at::<CODE>(column.as_ptr(), groups, left);
        escapes + escapes_of::<CODE>(last).count_ones() as usize
    }
}

/// See [`Vectors::take_symbols`](crate::xp::vector::Vectors::take_symbols).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2")]
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
            let (high_a, high_b) = take_planes::<8>(planes.as_ptr());
            for (half, high) in [high_a, high_b].into_iter().enumerate() {
                let low = load(whole.as_ptr().add(32 * half));
                if top == 1 {
                    // Symbols of less than eight bits have no whole byte, those of eight no plane.
                    let tops = _mm256_sll_epi16(_mm256_or_si256(low, high), shift);
                    store(to.add(GROUP * group + 32 * half), tops);
                } else {
                    let (a, b) = interleave::<1>(low, high);
                    let to = to.add(2 * GROUP * group + 64 * half);
                    store(to, _mm256_sll_epi16(a, shift));
                    store(to.add(32), _mm256_sll_epi16(b, shift));
                }
            }
        }
    }
}

/// See [`Vectors::join_values`](crate::xp::vector::Vectors::join_values).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
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
            join::<B, E, S>(symbols, rests.group::<B, E, S>(group), to.add(group_len * group));
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
#[target_feature(enable = "avx2,popcnt")]
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
