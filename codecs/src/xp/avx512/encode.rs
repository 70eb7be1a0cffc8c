//! Writing a chunk, or only counting its bytes.

use std::arch::x86_64::*;

use super::cut::{Cut, RestsMut, cut};
use super::levels::Levels;
use super::masks::leave_out;
use super::survey::{Plan, Survey, has_repeats, tier_parts};
use super::tiers::{self, Codes, Tier, codes, keep, symbols_at};
use super::vector::{index, low_bits, planes_of, store};
use crate::xp::column::{GROUP, column_len, planes_len};
use crate::xp::mode::Mode;
use crate::xp::scratch::Scratch;
use crate::xp::table::{table_len, tier_bits};

/// The code of `raw` at `coded`, and its length. Unless `WRITE`, only the length.
///
/// # Safety
/// If `WRITE`, `coded` has the room that the codec asks for a chunk of `raw.len()` bytes. `raw` is not longer than the scratch memory is made for.
#[target_feature(
    enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,gfni,bmi1,bmi2,popcnt"
)]
pub(super) unsafe fn code<const B: u32, const E: u32, const WRITE: bool>(
    raw: &[u8],
    coded: *mut u8,
    scratch: &mut Scratch,
) -> usize {
    let width = Cut::<B, E, false>::WIDTH;
    let (mut values, mut count) = (raw.as_ptr(), raw.len() / width);
    let tail = &raw[count * width..];
    let (kept, mut levels) = (scratch.values.as_mut_ptr(), Levels::new(&mut scratch.masks[0]));
    let (mut mode, mut end) = (Mode::default(), coded.wrapping_add(Mode::LEN));
    // SAFETY: there are `count` values at `values`, in `raw` or in the scratch, which is as long. Masks and table take less
    // than the quarter of a chunk and 512 bytes that the room is longer than the columns.
    unsafe {
        let mut survey = Survey::of::<B, E>(values, count, &mut scratch.counts);
        if survey.has_zeros::<B, E>() {
            let left = leave_out::<B, false>(values, count, levels.bits(), kept);
            mode.zero_mask = Some(put_mask::<WRITE>(&mut levels, count, &mut end));
            (values, count) = (kept.cast_const(), left);
            survey = Survey::of::<B, E>(values, count, &mut scratch.counts);
        }
        if has_repeats::<B, E>(values, count) {
            let left = leave_out::<B, true>(values, count, levels.bits(), kept);
            mode.change_mask = Some(put_mask::<WRITE>(&mut levels, count, &mut end));
            (values, count) = (kept.cast_const(), left);
            survey = Survey::of::<B, E>(values, count, &mut scratch.counts);
        }
        if count > 0 {
            let plan = survey.plan::<E>();
            (mode.signed, mode.wide) = (plan.signed, plan.wide);
            let symbols = scratch.symbols[0].as_mut_ptr();
            let room = Room { chunk: coded, len: raw.len().saturating_sub(tail.len()) };
            let coded_values = if plan.signed {
                put_values::<B, E, true, WRITE>(values, count, &plan, symbols, end, room)
            } else {
                put_values::<B, E, false, WRITE>(values, count, &plan, symbols, end, room)
            };
            let Some(values_end) = coded_values else { return put_stored::<WRITE>(raw, coded) };
            end = values_end;
        }
        let len = end.addr() - coded.addr() + tail.len();
        if len > raw.len() {
            return put_stored::<WRITE>(raw, coded);
        }
        if WRITE {
            end.copy_from_nonoverlapping(tail.as_ptr(), tail.len());
            coded.copy_from_nonoverlapping(mode.to_bytes().as_ptr(), Mode::LEN);
        }
        len
    }
}

/// Where a code starts, and how long it may get until raw bytes are shorter.
#[derive(Clone, Copy)]
struct Room {
    chunk: *mut u8,
    len: usize,
}

impl Room {
    fn holds(self, end: *mut u8) -> bool {
        end.addr() - self.chunk.addr() <= self.len
    }
}

/// # Safety
/// If `WRITE`, `coded` has room for the mode and `raw`.
unsafe fn put_stored<const WRITE: bool>(raw: &[u8], coded: *mut u8) -> usize {
    if WRITE {
        // SAFETY: the caller's promise.
        unsafe {
            coded.copy_from_nonoverlapping(Mode::STORED.as_ptr(), Mode::LEN);
            coded.add(Mode::LEN).copy_from_nonoverlapping(raw.as_ptr(), raw.len());
        }
    }
    Mode::LEN + raw.len()
}

/// Puts the mask in `levels` at `end`, moves `end` behind it, and returns its depth.
///
/// # Safety
/// As for [`Levels::raise`]; if `WRITE`, `end` has room for an eighth of `bits` and 128 bytes.
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
unsafe fn put_mask<const WRITE: bool>(levels: &mut Levels<'_>, bits: usize, end: &mut *mut u8) -> u8 {
    // SAFETY: the caller's promise; at its best depth a mask is no longer than at depth 0.
    unsafe {
        let sizes = levels.raise(bits);
        let depth = sizes.best_depth();
        if WRITE {
            levels.put(&sizes, depth, *end);
        }
        *end = end.wrapping_add(sizes.len(depth));
        depth
    }
}

/// Puts the table and all columns at `end` and returns where they end, or `None` once they need more than `room`.
///
/// # Safety
/// There are `count` values; `symbols` has room for as many and 256 bytes. If `WRITE`, `end` has room for the table,
/// the first two columns, three eighths of a byte per value, and 256 bytes.
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
unsafe fn put_values<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    values: *const u8,
    count: usize,
    plan: &Plan,
    symbols: *mut u8,
    end: *mut u8,
    room: Room,
) -> Option<*mut u8> {
    let (planes, [_, second, third]) = (Cut::<B, E, S>::PLANES, tier_bits(plan.wide));
    let [tier_1, tier_2, tier_3] = tier_parts(&plan.symbols, plan.wide);
    // SAFETY: the caller's promise: what is put before a check of `room` is promised, and what is put after one ends where the room
    // was checked to reach, or three eighths of a byte per value behind it.
    unsafe {
        let mut end = put_table::<B, E, S, WRITE>(plan, end, room);
        let tier = new_tier::<B, E, S>(tier_1, planes);
        let escapes = cut_values::<B, E, S, WRITE>(values, count, tier, symbols, end);
        end = end.wrapping_add(column_len(count, 2) + column_len(count, B - Cut::<B, E, S>::SYMBOL_BITS));
        if !room.holds(end) {
            return None;
        }
        let tier = new_tier::<B, E, S>(tier_2, planes);
        let (after_1, to) = (escapes, end);
        end = end.wrapping_add(column_len(after_1, second));
        let after_2 = put_tier::<B, E, S, WRITE>(symbols, after_1, tier, plan.wide, to);
        if !room.holds(end) {
            return None;
        }
        let tier = new_tier::<B, E, S>(tier_3, planes);
        let to = end;
        end = end.wrapping_add(column_len(after_2, third));
        let after_3 = put_tier::<B, E, S, WRITE>(symbols, after_2, tier, true, to);
        let to = end;
        end = end.wrapping_add(column_len(after_3, Cut::<B, E, S>::SYMBOL_BITS));
        if !room.holds(end) {
            return None;
        }
        if WRITE {
            put_symbols::<B, E, S>(symbols, after_3, to);
        }
        Some(end)
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn new_tier<const B: u32, const E: u32, const S: bool>(symbols: &[u16], planes: usize) -> Tier {
    if Cut::<B, E, S>::TOP == 1 { Tier::new::<1>(symbols, planes) } else { Tier::new::<2>(symbols, planes) }
}

/// Puts the table and its padding at `end` and returns where they end.
///
/// # Safety
/// If `WRITE`, `end` has room for 41 bytes.
#[inline]
unsafe fn put_table<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    plan: &Plan,
    end: *mut u8,
    room: Room,
) -> *mut u8 {
    let top = Cut::<B, E, S>::TOP;
    let len = table_len(plan.wide) * top;
    let padded = (end.addr() - room.chunk.addr() + len).next_multiple_of(8);
    let padded = room.chunk.wrapping_add(padded);
    if WRITE {
        // SAFETY: 34 bytes at most, and seven of padding.
        unsafe {
            padded.wrapping_sub(8).write_bytes(0, 8);
            for (i, symbol) in plan.symbols[..table_len(plan.wide)].iter().enumerate() {
                end.add(i * top).copy_from_nonoverlapping(symbol.to_le_bytes().as_ptr(), top);
            }
        }
    }
    padded
}

/// Puts the codes of the first tier and the rests at `to`, the symbols of the escapes at `escapes`, and returns their
/// number.
///
/// # Safety
/// As for [`put_values`].
// On its own, so that its registers are.
#[inline(never)]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
unsafe fn cut_values<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    values: *const u8,
    count: usize,
    tier: Tier,
    escapes: *mut u8,
    to: *mut u8,
) -> usize {
    let [first, second] = Cut::<B, E, S>::PIECES;
    let piece_0 = to.wrapping_add(planes_len(count, 2));
    let piece_1 = piece_0.wrapping_add(first * count);
    let rests = RestsMut { pieces: [piece_0, piece_1], planes: piece_1.wrapping_add(second * count) };
    let (mut kept, groups) = (escapes, count / GROUP);
    // SAFETY: group by group, everything goes behind what came before; the planes of the last group are followed by 64
    // bytes of room. Escapes are never more than the values cut so far.
    unsafe {
        for group in 0..groups {
            let rests = rests_of_group::<B, E, S>(rests, group);
            let symbols = cut::<B, E, S, WRITE>(values.add(GROUP * Cut::<B, E, S>::WIDTH * group), rests);
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
            let rests = rests_of_group::<B, E, S>(rests, groups);
            let left = count - GROUP * groups;
            kept = cut_last::<B, E, S, WRITE>(values, left, &tier, kept, to.wrapping_add(16 * groups), rests);
        }
        kept.offset_from_unsigned(escapes) / Cut::<B, E, S>::TOP
    }
}

#[inline]
fn rests_of_group<const B: u32, const E: u32, const S: bool>(rests: RestsMut, group: usize) -> RestsMut {
    let [first, second] = Cut::<B, E, S>::PIECES;
    let [piece_0, piece_1] = rests.pieces;
    RestsMut {
        pieces: [piece_0.wrapping_add(GROUP * first * group), piece_1.wrapping_add(GROUP * second * group)],
        planes: rests.planes.wrapping_add(8 * Cut::<B, E, S>::PLANES * group),
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
    let mut whole = [0; GROUP * 8];
    let (mut pieces, mut planes) = ([[0; GROUP * 4]; 2], [0; 64]);
    let staged = RestsMut { pieces: pieces.each_mut().map(|p| p.as_mut_ptr()), planes: planes.as_mut_ptr() };
    // SAFETY: the arrays have room for a whole group; from them goes what `left` values have.
    unsafe {
        whole.as_mut_ptr().copy_from_nonoverlapping(values, left * Cut::<B, E, S>::WIDTH);
        let symbols = cut::<B, E, S, WRITE>(whole.as_ptr(), staged);
        let codes = first_codes::<B, E, S>(symbols, tier, low_bits(left));
        if WRITE {
            // Exactly these bytes: behind them are the rests of the groups before.
            let [low, high, _] = codes.planes;
            let mut code_planes = [0; 64];
            code_planes[..8].copy_from_slice(&low.to_le_bytes());
            code_planes[8..16].copy_from_slice(&high.to_le_bytes());
            put_last_planes(&code_planes, 2, left, to);
            for (i, piece) in Cut::<B, E, S>::PIECES.into_iter().enumerate() {
                rests.pieces[i].copy_from_nonoverlapping(pieces[i].as_ptr(), piece * left);
            }
            put_last_planes(&planes, Cut::<B, E, S>::PLANES, left, rests.planes);
        }
        keep_symbols::<B, E, S>(symbols, codes.escapes, escapes)
    }
}

/// Puts the first `number` of eight planes of `left` bits at `to`.
///
/// # Safety
/// There is room for them.
unsafe fn put_last_planes(planes: &[u8; 64], number: usize, left: usize, to: *mut u8) {
    let plane_len = left.div_ceil(8);
    for (i, plane) in planes.as_chunks::<8>().0[..number].iter().enumerate() {
        // SAFETY: the caller's promise; a plane has eight bytes.
        unsafe { to.add(i * plane_len).copy_from_nonoverlapping(plane.as_ptr(), plane_len) };
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn first_codes<const B: u32, const E: u32, const S: bool>(
    symbols: super::cut::Symbols,
    tier: &Tier,
    live: u64,
) -> Codes {
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
    symbols: super::cut::Symbols,
    kept: u64,
    to: *mut u8,
) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        if Cut::<B, E, S>::TOP == 1 { keep::<1>(symbols, kept, to) } else { keep::<2>(symbols, kept, to) }
    }
}

/// # Safety
/// As for [`tiers::encode`].
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
unsafe fn put_tier<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    symbols: *mut u8,
    count: usize,
    tier: Tier,
    wide: bool,
    to: *mut u8,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match (Cut::<B, E, S>::TOP, wide) {
            (1, false) => tiers::encode::<1, 2, WRITE>(symbols, count, tier, to),
            (1, true) => tiers::encode::<1, 3, WRITE>(symbols, count, tier, to),
            (_, false) => tiers::encode::<2, 2, WRITE>(symbols, count, tier, to),
            (_, true) => tiers::encode::<2, 3, WRITE>(symbols, count, tier, to),
        }
    }
}

/// Puts the column of `count` symbols at `to`.
///
/// # Safety
/// `symbols` has the next multiple of 64; `to` has room for the column and 64 bytes.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,gfni")]
unsafe fn put_symbols<const B: u32, const E: u32, const S: bool>(
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
