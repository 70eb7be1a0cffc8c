//! Columns of symbols and values in.

use std::arch::x86_64::*;

use super::join::join;
use super::lanes::{bytes_of_words, interleave, load};
use super::planes::take_planes;
use super::tiers::{Symbols, Tier, put_symbols, symbols_of};
use crate::xp::column::GROUP;
use crate::xp::vector::cut::{Cut, Last, Rests, escapes_of, last_planes_at, planes_at, take_last_planes};

/// Groups whose symbols are found before their values are joined: two short loops keep more in flight than
/// a long one.
const BLOCK: usize = 8;

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
        if left == 0 {
            return escapes;
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
            let (low_a, low_b) = (load(whole.as_ptr()), load(whole.as_ptr().add(32)));
            let to = to.add(GROUP * group);
            if top == 1 {
                // Symbols of less than eight bits have no whole byte, those of eight no plane.
                let top = |low, high| _mm256_sll_epi16(_mm256_or_si256(low, high), shift);
                let tops = [top(low_a, high_a), top(low_b, high_b)];
                put_symbols::<1>(Symbols { high: tops, low: tops }, to);
            } else {
                let shifted = |low, high| {
                    let (a, b) = interleave::<1>(low, high);
                    bytes_of_words(_mm256_sll_epi16(a, shift), _mm256_sll_epi16(b, shift))
                };
                let ((low_a, high_a), (low_b, high_b)) = (shifted(low_a, high_a), shifted(low_b, high_b));
                put_symbols::<2>(Symbols { high: [high_a, high_b], low: [low_a, low_b] }, to);
            }
        }
    }
}

/// See [`Vectors::join_values`](crate::xp::vector::Vectors::join_values).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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
        let mut block = [Symbols::ZERO; BLOCK];
        for start in (0..groups).step_by(BLOCK) {
            let len = BLOCK.min(groups - start);
            for (i, place) in block[..len].iter_mut().enumerate() {
                let (symbols, escapes) =
                    first_symbols::<B, E, S>(codes.add(16 * (start + i)), &tier, escaped);
                escaped = escaped.add(escapes);
                place.high = symbols.high;
                if Cut::<B, E, S>::TOP == 2 {
                    place.low = symbols.low;
                }
            }
            for (i, symbols) in block[..len].iter().enumerate() {
                let group = start + i;
                join::<B, E, S>(*symbols, rests.group::<B, E, S>(group), to.add(group_len * group));
            }
        }
        let left = count - GROUP * groups;
        if left > 0 {
            let planes = last_planes_at::<2>(codes, groups, left);
            let (symbols, _) = first_symbols::<B, E, S>(planes.as_ptr().cast(), &tier, escaped);
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
    planes: *const u8,
    tier: &Tier,
    escaped: *const u8,
) -> (Symbols, usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if Cut::<B, E, S>::TOP == 1 {
            symbols_of::<1, 2>(planes, tier, escaped)
        } else {
            symbols_of::<2, 2>(planes, tier, escaped)
        }
    }
}
