//! Writing a chunk, or only counting its bytes.

use super::Vectors;
use super::cut::Cut;
use super::levels::Levels;
use super::scratch::Scratch;
use super::survey::{Plan, Survey, has_repeats, tier_parts};
use crate::xp::column::column_len;
use crate::xp::mode::Mode;
use crate::xp::table::{table_len, tier_bits};

/// The code of `raw` at `coded`, and its length. Unless `WRITE`, only the length.
///
/// # Safety
/// If `WRITE`, `coded` has the room that the codec asks for a chunk of `raw.len()` bytes. `raw` is not longer
/// than the scratch memory is made for.
pub(super) unsafe fn code<V: Vectors, const B: u32, const E: u32, const WRITE: bool>(
    vectors: V,
    raw: &[u8],
    coded: *mut u8,
    scratch: &mut Scratch,
) -> usize {
    let width = Cut::<B, E, false>::WIDTH;
    let (mut values, mut count) = (raw.as_ptr(), raw.len() / width);
    let tail = &raw[count * width..];
    let (kept, mut levels) = (scratch.values.as_mut_ptr(), Levels::new(&mut scratch.masks[0]));
    let (mut mode, mut end) = (Mode::default(), coded.wrapping_add(Mode::LEN));
    // SAFETY: there are `count` values at `values`, in `raw` or in the scratch, which is as long. The room
    // has place for what is written unseen: see `max_chunk_len`.
    unsafe {
        let mut survey = Survey::of::<B, E>(values, count, &mut scratch.counts);
        if survey.has_zeros::<B, E>() {
            let left = vectors.leave_out::<B, false>(values, count, levels.bits(), kept);
            mode.zero_mask = Some(put_mask::<WRITE>(vectors, &mut levels, count, &mut end));
            (values, count) = (kept.cast_const(), left);
            survey = Survey::of::<B, E>(values, count, &mut scratch.counts);
        }
        if has_repeats::<B, E>(values, count) {
            let left = vectors.leave_out::<B, true>(values, count, levels.bits(), kept);
            mode.change_mask = Some(put_mask::<WRITE>(vectors, &mut levels, count, &mut end));
            (values, count) = (kept.cast_const(), left);
            survey = Survey::of::<B, E>(values, count, &mut scratch.counts);
        }
        if count > 0 {
            let plan = survey.plan::<E>(vectors);
            if plan.hopeless && mode.zero_mask.is_none() && mode.change_mask.is_none() {
                return put_stored::<WRITE>(raw, coded);
            }
            (mode.signed, mode.wide) = (plan.signed, plan.wide);
            let symbols = scratch.symbols[0].as_mut_ptr();
            let room = Room { chunk: coded, len: raw.len().saturating_sub(tail.len()) };
            let coded_values = if plan.signed {
                put_values::<V, B, E, true, WRITE>(vectors, values, count, &plan, symbols, end, room)
            } else {
                put_values::<V, B, E, false, WRITE>(vectors, values, count, &plan, symbols, end, room)
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
unsafe fn put_mask<const WRITE: bool>(
    vectors: impl Vectors,
    levels: &mut Levels<'_>,
    bits: usize,
    end: &mut *mut u8,
) -> u8 {
    // SAFETY: the caller's promise; at its best depth a mask is no longer than at depth 0.
    unsafe {
        let sizes = levels.raise(vectors, bits);
        let depth = sizes.best_depth();
        if WRITE {
            levels.put(vectors, &sizes, depth, *end);
        }
        *end = end.wrapping_add(sizes.len(depth));
        depth
    }
}

/// Puts the table and all columns at `end` and returns where they end, or `None` once they need more than
/// `room`.
///
/// # Safety
/// There are `count` values; `symbols` has room for as many and 256 bytes. If `WRITE`, `end` has room for the
/// table, the first two columns and 64 bytes, and `room` ends 64 bytes before the end of what may be written.
unsafe fn put_values<V: Vectors, const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    vectors: V,
    values: *const u8,
    count: usize,
    plan: &Plan,
    symbols: *mut u8,
    end: *mut u8,
    room: Room,
) -> Option<*mut u8> {
    let [_, second, third] = tier_bits(plan.wide);
    // As they stand in tops.
    let tops = plan.symbols.map(|symbol| symbol << Cut::<B, E, S>::PLANES);
    let [tier_1, tier_2, tier_3] = tier_parts(&tops, plan.wide);
    // SAFETY: the caller's promise: the first two columns have their room, and every other one is checked to
    // end in `room` before it is written.
    unsafe {
        let to = put_table::<B, E, S, WRITE>(plan, end, room);
        let end = to.wrapping_add(column_len(count, 2) + column_len(count, B - Cut::<B, E, S>::SYMBOL_BITS));
        let after_1 = vectors.cut_values::<B, E, S, WRITE>(values, count, tier_1, symbols, to);
        let (to, end) = (end, end.wrapping_add(column_len(after_1, second)));
        if !room.holds(end) {
            return None;
        }
        let after_2 = put_tier::<V, B, E, S, WRITE>(vectors, symbols, after_1, tier_2, to);
        let (to, end) = (end, end.wrapping_add(column_len(after_2, third)));
        if !room.holds(end) {
            return None;
        }
        let after_3 = put_tier::<V, B, E, S, WRITE>(vectors, symbols, after_2, tier_3, to);
        let (to, end) = (end, end.wrapping_add(column_len(after_3, Cut::<B, E, S>::SYMBOL_BITS)));
        if !room.holds(end) {
            return None;
        }
        if WRITE {
            vectors.put_symbols::<B, E, S>(symbols, after_3, to);
        }
        Some(end)
    }
}

/// # Safety
/// As for [`Vectors::put_tier`].
unsafe fn put_tier<V: Vectors, const B: u32, const E: u32, const S: bool, const WRITE: bool>(
    vectors: V,
    symbols: *mut u8,
    count: usize,
    tops: &[u16],
    to: *mut u8,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match (Cut::<B, E, S>::TOP, tops.len()) {
            (1, 3) => vectors.put_tier::<1, 2, WRITE>(symbols, count, tops, to),
            (1, _) => vectors.put_tier::<1, 3, WRITE>(symbols, count, tops, to),
            (_, 3) => vectors.put_tier::<2, 2, WRITE>(symbols, count, tops, to),
            _ => vectors.put_tier::<2, 3, WRITE>(symbols, count, tops, to),
        }
    }
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
