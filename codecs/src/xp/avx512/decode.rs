//! Reading a chunk.

use std::arch::x86_64::*;

use super::cut::{Cut, Rests, Symbols, join};
use super::levels::Levels;
use super::masks::{put_repeats_back, put_zeros_back};
use super::survey::tier_parts;
use super::tiers::{self, Tier, escapes_of, planes_at, symbols_of};
use super::vector::{bytes_of_planes, load, store};
use crate::chunk::CHUNK_ALIGN;
use crate::cpu::{load512, load512_partial};
use crate::xp::column::{GROUP, column_len, planes_end_in_zeros, planes_len};
use crate::xp::mode::Mode;
use crate::xp::scratch::Scratch;
use crate::xp::table::{table_len, tier_bits};

/// Bytes in front of values, for one that is 0.
const BEFORE: usize = 8;

/// Fills `raw` from `coded`; `None` if that is no code, or one whose raw bytes follow the mode.
#[target_feature(
    enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,popcnt"
)]
pub(super) fn decode<const B: u32, const E: u32>(
    coded: &[u8],
    raw: &mut [u8],
    scratch: &mut Scratch,
) -> Option<()> {
    let mode = Mode::from_bytes(coded.get(..Mode::LEN)?).ok()??;
    let width = Cut::<B, E, false>::WIDTH;
    let (elements, tail) = raw.split_at_mut(raw.len() / width * width);
    let [zero_mask, change_mask] = &mut scratch.masks;
    let (mut zero_mask, mut change_mask) = (Levels::new(zero_mask), Levels::new(change_mask));
    let (mut at, elements_count) = (Mode::LEN, elements.len() / width);
    let mut non_zero = elements_count;
    if let Some(depth) = mode.zero_mask {
        at += zero_mask.take(elements_count, depth, &coded[at..])?;
        // SAFETY: the mask was taken just now.
        non_zero = unsafe { zero_mask.count(elements_count) };
    }
    let mut kept = non_zero;
    if let Some(depth) = mode.change_mask {
        at += change_mask.take(non_zero, depth, &coded[at..])?;
        // SAFETY: as above.
        kept = unsafe { change_mask.count(non_zero) };
    }

    let masked = mode.zero_mask.is_some() || mode.change_mask.is_some();
    scratch.values[..BEFORE].fill(0);
    let to = if masked { scratch.values[BEFORE..].as_mut_ptr() } else { elements.as_mut_ptr() };
    if kept > 0 {
        // SAFETY: there are at most as many values as elements: they have room in either place.
        at = unsafe {
            if mode.signed {
                take_values::<B, E, true>(coded, at, kept, mode.wide, &mut scratch.symbols, to)?
            } else {
                take_values::<B, E, false>(coded, at, kept, mode.wide, &mut scratch.symbols, to)?
            }
        };
    }
    tail.copy_from_slice(coded.get(at..at + tail.len())?);
    let padding = &coded[at + tail.len()..];
    if padding.len() >= CHUNK_ALIGN || padding.iter().any(|&byte| byte != 0) {
        return None;
    }
    if !masked {
        return Some(());
    }
    // SAFETY: each mask has as many set bits as there are values, which slack follows.
    unsafe {
        let mut from = to.cast_const();
        if mode.change_mask.is_some() && mode.zero_mask.is_some() {
            let all = &mut scratch.repeated[..non_zero * width];
            put_repeats_back::<B>(change_mask.bits(), from, all);
            from = scratch.repeated.as_ptr();
        } else if mode.change_mask.is_some() {
            put_repeats_back::<B>(change_mask.bits(), from, elements);
        }
        if mode.zero_mask.is_some() {
            put_zeros_back::<B>(zero_mask.bits(), from, elements);
        }
    }
    Some(())
}

/// The columns of a chunk, checked.
struct Columns {
    tier_1: *const u8,
    rests: Rests,
    tier_2: *const u8,
    tier_3: *const u8,
    symbols: *const u8,
    /// Escapes of the tiers.
    escapes: [usize; 3],
    end: usize,
}

/// Takes table and columns of `count` values at `at`, writes the values to `to`, and returns where the columns end.
///
/// # Safety
/// `to` has room for the values, and each of `symbols` for the symbols of as many and slack.
#[target_feature(
    enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,popcnt,bmi2"
)]
unsafe fn take_values<const B: u32, const E: u32, const S: bool>(
    coded: &[u8],
    at: usize,
    count: usize,
    wide: bool,
    symbols: &mut [Box<[u8]>; 2],
    to: *mut u8,
) -> Option<usize> {
    let top = Cut::<B, E, S>::TOP;
    let (table, at) = take_table::<B, E, S>(coded, at, wide)?;
    let columns = take_columns::<B, E, S>(coded, at, count, wide)?;
    let [tier_1, tier_2, tier_3] = tier_parts(&table, wide);
    let tier_1 = new_tier::<B, E, S>(tier_1);
    let tier_2 = new_tier::<B, E, S>(tier_2);
    let tier_3 = new_tier::<B, E, S>(tier_3);
    let [one, other] = symbols;
    let (one, other) = (one.as_mut_ptr(), other.as_mut_ptr());
    let [after_1, after_2, after_3] = columns.escapes;
    // SAFETY: the columns are there, and each has as many numbers as the one before has escapes, none more than `count`, for
    // which the buffers have room.
    unsafe {
        take_symbols::<B, E, S>(columns.symbols, after_3, one);
        match (top, wide) {
            (1, false) => {
                tiers::decode::<1, 3>(columns.tier_3, after_2, tier_3, one, other);
                tiers::decode::<1, 2>(columns.tier_2, after_1, tier_2, other, one);
            }
            (1, true) => {
                tiers::decode::<1, 3>(columns.tier_3, after_2, tier_3, one, other);
                tiers::decode::<1, 3>(columns.tier_2, after_1, tier_2, other, one);
            }
            (_, false) => {
                tiers::decode::<2, 3>(columns.tier_3, after_2, tier_3, one, other);
                tiers::decode::<2, 2>(columns.tier_2, after_1, tier_2, other, one);
            }
            (_, true) => {
                tiers::decode::<2, 3>(columns.tier_3, after_2, tier_3, one, other);
                tiers::decode::<2, 3>(columns.tier_2, after_1, tier_2, other, one);
            }
        }
        join_values::<B, E, S>(&columns, count, tier_1, one, to);
    }
    Some(columns.end)
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn new_tier<const B: u32, const E: u32, const S: bool>(symbols: &[u16]) -> Tier {
    let planes = Cut::<B, E, S>::PLANES;
    if Cut::<B, E, S>::TOP == 1 { Tier::new::<1>(symbols, planes) } else { Tier::new::<2>(symbols, planes) }
}

/// The table at `at` and where the columns start.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
fn take_table<const B: u32, const E: u32, const S: bool>(
    coded: &[u8],
    at: usize,
    wide: bool,
) -> Option<([u16; 32], usize)> {
    let top = Cut::<B, E, S>::TOP;
    let table_end = at + table_len(wide) * top;
    let columns_start = table_end.next_multiple_of(8);
    let stored = load512_partial(coded.get(at..columns_start)?.get(..table_end - at)?);
    let words = if top == 1 { _mm512_cvtepu8_epi16(_mm512_castsi512_si256(stored)) } else { stored };
    let unused = _mm512_set1_epi16((u32::MAX << Cut::<B, E, S>::SYMBOL_BITS) as i16);
    let mut table = [0u16; 32];
    // SAFETY: the table has 64 bytes.
    unsafe { store(table.as_mut_ptr().cast(), words) };
    let padding = &coded[table_end..columns_start];
    let fits = _mm512_test_epi16_mask(words, unused) == 0 && padding.iter().all(|&byte| byte == 0);
    fits.then_some((table, columns_start))
}

/// Finds the columns of `count` values and checks that they are all there and end in zeros.
#[inline]
#[target_feature(enable = "avx512bw,avx512vpopcntdq,popcnt,bmi2")]
fn take_columns<const B: u32, const E: u32, const S: bool>(
    coded: &[u8],
    at: usize,
    count: usize,
    wide: bool,
) -> Option<Columns> {
    let [_, second, third] = tier_bits(wide);
    let symbol_bits = Cut::<B, E, S>::SYMBOL_BITS;
    let mut end = at;
    let mut take = |numbers: usize, bits: u32| {
        let start = end;
        end += column_len(numbers, bits);
        let column = coded.get(start..end)?;
        let planes = &column[numbers * (bits as usize / 8)..];
        planes_end_in_zeros(planes, numbers, bits as usize % 8).then_some(column)
    };
    let tier_1 = take(count, 2)?;
    let rests = take(count, B - symbol_bits)?;
    let after_1 = count_pairs(tier_1, count);
    let tier_2 = take(after_1, second)?;
    let after_2 = if wide { count_triples(tier_2, after_1) } else { count_pairs(tier_2, after_1) };
    let tier_3 = take(after_2, third)?;
    let after_3 = count_triples(tier_3, after_2);
    let symbols = take(after_3, symbol_bits)?;

    let [first, second] = Cut::<B, E, S>::PIECES;
    let piece_0 = rests.as_ptr();
    let piece_1 = piece_0.wrapping_add(first * count);
    let planes = piece_1.wrapping_add(second * count);
    Some(Columns {
        tier_1: tier_1.as_ptr(),
        rests: Rests { pieces: [piece_0, piece_1], planes },
        tier_2: tier_2.as_ptr(),
        tier_3: tier_3.as_ptr(),
        symbols: symbols.as_ptr(),
        escapes: [after_1, after_2, after_3],
        end,
    })
}

/// The escapes in a column of `count` codes of two bits.
#[inline]
#[target_feature(enable = "avx512bw,avx512vpopcntdq,popcnt,bmi2")]
fn count_pairs(column: &[u8], count: usize) -> usize {
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
fn count_triples(column: &[u8], count: usize) -> usize {
    let mut escapes = 0;
    for group in 0..count.div_ceil(GROUP) {
        // SAFETY: the column has that many codes.
        let planes = unsafe { planes_at::<3>(column.as_ptr(), group, count) };
        escapes += escapes_of::<3>(planes).count_ones() as usize;
    }
    escapes
}

/// Writes the symbols without a code to `to`, shifted to where they stand in tops.
///
/// # Safety
/// The column has `count` symbols; `to` has room for the next multiple of 64.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,gfni")]
unsafe fn take_symbols<const B: u32, const E: u32, const S: bool>(
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
            let plane_len = left.div_ceil(8);
            for (i, plane) in planes.as_chunks_mut::<8>().0[..number].iter_mut().enumerate() {
                let from = planes_start.add(8 * number * group + i * plane_len);
                plane.as_mut_ptr().copy_from_nonoverlapping(from, plane_len);
            }
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

/// Writes `count` values to `to`.
///
/// # Safety
/// The columns are there; `escaped` has the symbols of the first tier's escapes and 128 bytes more; `to` has room.
// On its own, so that its registers are.
#[inline(never)]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
unsafe fn join_values<const B: u32, const E: u32, const S: bool>(
    columns: &Columns,
    count: usize,
    tier: Tier,
    mut escaped: *const u8,
    to: *mut u8,
) {
    let (groups, group_len) = (count / GROUP, GROUP * Cut::<B, E, S>::WIDTH);
    let Columns { tier_1, rests: all_rests, .. } = *columns;
    // SAFETY: group by group what the columns have; escapes as far as there are.
    unsafe {
        for group in 0..groups {
            let planes = tier_1.add(16 * group).cast::<u64>();
            let planes = [planes.read_unaligned(), planes.add(1).read_unaligned(), 0];
            let symbols = first_symbols::<B, E, S>(planes, &tier, escaped);
            escaped = escaped.add(Cut::<B, E, S>::TOP * escapes_of::<2>(planes).count_ones() as usize);
            let rests = rests_of_group::<B, E, S>(all_rests, group);
            join::<B, E, S>(symbols, rests, to.add(group_len * group));
        }
        if count > GROUP * groups {
            let symbols = first_symbols::<B, E, S>(planes_at::<2>(tier_1, groups, count), &tier, escaped);
            let rests = rests_of_group::<B, E, S>(all_rests, groups);
            join_last::<B, E, S>(symbols, rests, count - GROUP * groups, to.add(group_len * groups));
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

#[inline]
fn rests_of_group<const B: u32, const E: u32, const S: bool>(rests: Rests, group: usize) -> Rests {
    let [first, second] = Cut::<B, E, S>::PIECES;
    let [piece_0, piece_1] = rests.pieces;
    Rests {
        pieces: [piece_0.wrapping_add(GROUP * first * group), piece_1.wrapping_add(GROUP * second * group)],
        planes: rests.planes.wrapping_add(8 * Cut::<B, E, S>::PLANES * group),
    }
}

/// Writes the last `left` values to `to`.
///
/// # Safety
/// The rests of the group are there, and room for the values.
#[cold]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni")]
unsafe fn join_last<const B: u32, const E: u32, const S: bool>(
    symbols: Symbols,
    rests: Rests,
    left: usize,
    to: *mut u8,
) {
    let (mut pieces, mut planes, mut values) = ([[0u8; GROUP * 4]; 2], [0u8; 64], [0u8; GROUP * 8]);
    let plane_len = left.div_ceil(8);
    // SAFETY: what `left` values have goes to arrays that have room for a whole group, and back.
    unsafe {
        for (i, piece) in Cut::<B, E, S>::PIECES.into_iter().enumerate() {
            pieces[i].as_mut_ptr().copy_from_nonoverlapping(rests.pieces[i], piece * left);
        }
        for (i, plane) in planes.as_chunks_mut::<8>().0[..Cut::<B, E, S>::PLANES].iter_mut().enumerate() {
            plane.as_mut_ptr().copy_from_nonoverlapping(rests.planes.add(i * plane_len), plane_len);
        }
        let staged = Rests { pieces: pieces.each_ref().map(|p| p.as_ptr()), planes: planes.as_ptr() };
        join::<B, E, S>(symbols, staged, values.as_mut_ptr());
        to.copy_from_nonoverlapping(values.as_ptr(), left * Cut::<B, E, S>::WIDTH);
    }
}
