//! Reading a chunk.

use super::Vectors;
use super::cut::Cut;
use super::levels::Levels;
use super::scratch::{MAX_RAW_LEN, Scratch};
use super::survey::tier_parts;
use crate::chunk::CHUNK_ALIGN;
use crate::xp::column::{column_len, little_endian, planes_end_in_zeros};
use crate::xp::mode::Mode;
use crate::xp::table::{table_len, tier_bits};

/// Bytes in front of values, for one that is 0.
const BEFORE: usize = 8;

/// Fills `raw` from `coded`; `None` if that is no code, or one whose raw bytes follow the mode.
pub(super) fn decode<V: Vectors, const B: u32, const E: u32>(
    vectors: V,
    coded: &[u8],
    raw: &mut [u8],
    scratch: &mut Scratch,
) -> Option<()> {
    assert!(raw.len() <= MAX_RAW_LEN, "{} bytes in a chunk", raw.len());
    let mode = Mode::from_bytes(coded.get(..Mode::LEN)?).ok()??;
    let width = Cut::<B, E, false>::WIDTH;
    let (elements, tail) = raw.split_at_mut(raw.len() / width * width);
    let [zero_mask, change_mask] = &mut scratch.masks;
    let (mut zero_mask, mut change_mask) = (Levels::new(zero_mask), Levels::new(change_mask));
    let (mut at, elements_count) = (Mode::LEN, elements.len() / width);
    let mut non_zero = elements_count;
    if let Some(depth) = mode.zero_mask {
        at += zero_mask.take(vectors, elements_count, depth, &coded[at..])?;
        // SAFETY: the mask was taken just now.
        non_zero = unsafe { zero_mask.count(vectors, elements_count) };
    }
    let mut kept = non_zero;
    if let Some(depth) = mode.change_mask {
        at += change_mask.take(vectors, non_zero, depth, &coded[at..])?;
        // SAFETY: as above.
        kept = unsafe { change_mask.count(vectors, non_zero) };
    }

    let masked = mode.zero_mask.is_some() || mode.change_mask.is_some();
    scratch.values[..BEFORE].fill(0);
    let to = if masked { scratch.values[BEFORE..].as_mut_ptr() } else { elements.as_mut_ptr() };
    if kept > 0 {
        // SAFETY: there are at most as many values as elements: they have room in either place.
        at = unsafe {
            if mode.signed {
                take_values::<V, B, E, true>(vectors, coded, at, kept, mode.wide, &mut scratch.symbols, to)?
            } else {
                take_values::<V, B, E, false>(vectors, coded, at, kept, mode.wide, &mut scratch.symbols, to)?
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
            vectors.put_repeats_back::<B>(change_mask.bits(), from, all);
            from = scratch.repeated.as_ptr();
        } else if mode.change_mask.is_some() {
            vectors.put_repeats_back::<B>(change_mask.bits(), from, elements);
        }
        if mode.zero_mask.is_some() {
            vectors.put_zeros_back::<B>(zero_mask.bits(), from, elements);
        }
    }
    Some(())
}

/// The columns of a chunk, checked.
struct Columns {
    tier_1: *const u8,
    rests: *const u8,
    tier_2: *const u8,
    tier_3: *const u8,
    symbols: *const u8,
    /// Escapes of the tiers.
    escapes: [usize; 3],
    end: usize,
}

/// Takes table and columns of `count` values at `at`, writes the values to `to`, and returns where the
/// columns end.
///
/// # Safety
/// `to` has room for the values, and each of `symbols` for the symbols of as many and slack.
unsafe fn take_values<V: Vectors, const B: u32, const E: u32, const S: bool>(
    vectors: V,
    coded: &[u8],
    at: usize,
    count: usize,
    wide: bool,
    symbols: &mut [Box<[u8]>; 2],
    to: *mut u8,
) -> Option<usize> {
    let (tops, at) = take_table::<B, E, S>(coded, at, wide)?;
    let columns = take_columns::<V, B, E, S>(vectors, coded, at, count, wide)?;
    let [tier_1, tier_2, tier_3] = tier_parts(&tops, wide);
    let [one, other] = symbols;
    let (one, other) = (one.as_mut_ptr(), other.as_mut_ptr());
    let [after_1, after_2, after_3] = columns.escapes;
    // SAFETY: the columns are there, and each has as many numbers as the one before has escapes, none more
    // than `count`, for which the buffers have room.
    unsafe {
        vectors.take_symbols::<B, E, S>(columns.symbols, after_3, one);
        take_tier::<V, B, E, S>(vectors, columns.tier_3, after_2, tier_3, one, other);
        take_tier::<V, B, E, S>(vectors, columns.tier_2, after_1, tier_2, other, one);
        let rests = Cut::<B, E, S>::rests(columns.rests, count);
        vectors.join_values::<B, E, S>(columns.tier_1, rests, count, tier_1, one, to);
    }
    Some(columns.end)
}

/// # Safety
/// As for [`Vectors::take_tier`].
unsafe fn take_tier<V: Vectors, const B: u32, const E: u32, const S: bool>(
    vectors: V,
    column: *const u8,
    count: usize,
    tops: &[u16],
    escaped: *const u8,
    to: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (Cut::<B, E, S>::TOP, tops.len()) {
            (1, 3) => vectors.take_tier::<1, 2>(column, count, tops, escaped, to),
            (1, _) => vectors.take_tier::<1, 3>(column, count, tops, escaped, to),
            (_, 3) => vectors.take_tier::<2, 2>(column, count, tops, escaped, to),
            _ => vectors.take_tier::<2, 3>(column, count, tops, escaped, to),
        }
    }
}

/// The symbols of the table at `at`, as they stand in tops, and where the columns start.
fn take_table<const B: u32, const E: u32, const S: bool>(
    coded: &[u8],
    at: usize,
    wide: bool,
) -> Option<([u16; 17], usize)> {
    let top = Cut::<B, E, S>::TOP;
    let table_end = at + table_len(wide) * top;
    let columns_start = table_end.next_multiple_of(8);
    let (stored, padding) = coded.get(at..columns_start)?.split_at(table_end - at);
    if little_endian(padding) != 0 {
        return None;
    }
    let (mut tops, mut all) = ([0; 17], 0);
    for (i, place) in tops[..table_len(wide)].iter_mut().enumerate() {
        let symbol = if top == 1 {
            u16::from(stored[i])
        } else {
            u16::from_le_bytes([stored[2 * i], stored[2 * i + 1]])
        };
        *place = symbol << Cut::<B, E, S>::PLANES;
        all |= symbol;
    }
    (u32::from(all) >> Cut::<B, E, S>::SYMBOL_BITS == 0).then_some((tops, columns_start))
}

/// Finds the columns of `count` values and checks that they are all there and end in zeros.
fn take_columns<V: Vectors, const B: u32, const E: u32, const S: bool>(
    vectors: V,
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
    let after_1 = vectors.count_escapes::<2>(tier_1, count);
    let tier_2 = take(after_1, second)?;
    let after_2 = if wide {
        vectors.count_escapes::<3>(tier_2, after_1)
    } else {
        vectors.count_escapes::<2>(tier_2, after_1)
    };
    let tier_3 = take(after_2, third)?;
    let after_3 = vectors.count_escapes::<3>(tier_3, after_2);
    let symbols = take(after_3, symbol_bits)?;

    Some(Columns {
        tier_1: tier_1.as_ptr(),
        rests: rests.as_ptr(),
        tier_2: tier_2.as_ptr(),
        tier_3: tier_3.as_ptr(),
        symbols: symbols.as_ptr(),
        escapes: [after_1, after_2, after_3],
        end,
    })
}
