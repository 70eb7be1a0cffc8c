//! The decisions of an encoder: see `table.rs`, which says the same in plain words.

use super::Vectors;
use super::cut::Cut;
use crate::xp::table::{PROBE, TIER_1, sample_stride, table_len};

/// What the samples of some values tell.
pub(super) struct Survey<'a> {
    samples: usize,
    zeros: usize,
    /// How many samples have each sign and exponent, as many as the float has.
    counts: &'a mut [u8],
}

/// The table an encoder writes, and how it cuts the values.
pub(super) struct Plan {
    pub(super) signed: bool,
    pub(super) wide: bool,
    pub(super) hopeless: bool,
    pub(super) symbols: [u16; 17],
}

/// A value as a number.
///
/// # Safety
/// There is a value of `B` bits at `from`.
unsafe fn number_at<const B: u32>(from: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match B {
            8 => u64::from(*from),
            16 => u64::from(from.cast::<u16>().read_unaligned()),
            32 => u64::from(from.cast::<u32>().read_unaligned()),
            _ => from.cast::<u64>().read_unaligned(),
        }
    }
}

impl<'a> Survey<'a> {
    /// # Safety
    /// `values` has `count` values.
    pub(super) unsafe fn of<const B: u32, const E: u32>(
        values: *const u8,
        count: usize,
        counts: &'a mut [u8],
    ) -> Self {
        let (width, shift) = (Cut::<B, E, false>::WIDTH, B - 1 - E);
        // Two tables in turn, so that equal samples in a row do not wait for each other. A large one is
        // enough.
        let (symbols, tables) = (2usize << E, if E <= 8 { 2 } else { 1 });
        let counts = &mut counts[..tables * symbols];
        counts.fill(0);
        let first = counts.as_mut_ptr();
        let second = first.wrapping_add((tables - 1) * symbols);
        let stride = sample_stride(count);
        let (mut i, step) = (stride / 2, stride * width);
        let (mut from, mut zeros, mut samples) = (values.wrapping_add(i * width), 0, 0);
        // SAFETY: a symbol is below `symbols`, the length of a table; a value is read only where its index is
        // below `count`.
        unsafe {
            while i + stride < count {
                let (a, b) = (number_at::<B>(from), number_at::<B>(from.wrapping_add(step)));
                *first.add((a >> shift) as usize) += 1;
                *second.add((b >> shift) as usize) += 1;
                zeros += usize::from(a == 0) + usize::from(b == 0);
                samples += 2;
                from = from.wrapping_add(2 * step);
                i += 2 * stride;
            }
            if i < count {
                let a = number_at::<B>(from);
                *first.add((a >> shift) as usize) += 1;
                zeros += usize::from(a == 0);
                samples += 1;
            }
        }
        let (counts, others) = counts.split_at_mut(symbols);
        for (count, other) in counts.iter_mut().zip(others) {
            *count += *other;
        }
        Self { samples, zeros, counts }
    }

    /// See `table::has_zeros`.
    pub(super) fn has_zeros<const B: u32, const E: u32>(&self) -> bool {
        self.zeros * saved_bits::<B, E>() > self.samples
    }

    /// See `table::Table::of`.
    pub(super) fn plan<const E: u32>(&mut self, vectors: impl Vectors) -> Plan {
        let (positive, negative) = self.counts.split_at_mut(1 << E);
        let mut difference = 0;
        for (a, b) in positive.iter().zip(negative.iter()) {
            difference += u32::from(a.abs_diff(*b));
        }
        if 2 * difference as usize > self.samples + 16 {
            return plan_of(&vectors.rank(self.counts), self.counts, E + 1, self.samples, true);
        }
        for (a, b) in positive.iter_mut().zip(negative) {
            *a += *b;
        }
        plan_of(&vectors.rank(positive), positive, E, self.samples, false)
    }
}

/// See `table::saved_bits`.
const fn saved_bits<const B: u32, const E: u32>() -> usize {
    (B - E + 2) as usize
}

/// See `table::has_repeats`.
///
/// # Safety
/// `values` has `count` values.
pub(super) unsafe fn has_repeats<const B: u32, const E: u32>(values: *const u8, count: usize) -> bool {
    let stride = sample_stride(count);
    let width = Cut::<B, E, false>::WIDTH;
    let (mut probes, mut repeats) = (0, 0);
    let mut i = stride / 2;
    while i < count {
        // SAFETY: `i` is below `count`.
        unsafe {
            let value = number_at::<B>(values.add(i * width));
            let before = if i == 0 { 0 } else { number_at::<B>(values.add((i - 1) * width)) };
            repeats += usize::from(value == before);
        }
        probes += 1;
        i += PROBE * stride;
    }
    repeats * saved_bits::<B, E>() > probes
}

/// Keys of the commonest symbols, and how many symbols there are in all.
pub(in crate::xp) struct Ranked {
    pub(in crate::xp) keys: [u32; RANKED],
    pub(in crate::xp) found: usize,
}

/// Symbols that are ranked: as many as the largest table has.
pub(in crate::xp) const RANKED: usize = table_len(true);

/// The symbol of a key. Larger keys are commoner, or equally common and lower: the count is above the
/// symbol's complement.
pub(in crate::xp) const fn symbol_of_key(key: u32) -> u16 {
    !(key as u16)
}

/// The plan of a table of these symbols.
fn plan_of(ranked: &Ranked, counts: &[u8], symbol_bits: u32, samples: usize, signed: bool) -> Plan {
    let mut symbols = ranked.keys.map(symbol_of_key);
    let mut beyond = [samples; 18];
    for i in 0..17 {
        beyond[i + 1] = beyond[i] - (ranked.keys[i] >> 16) as usize;
    }
    let uncoded_bits = symbol_bits as usize;
    let narrow_bits = 2 * beyond[3] + 3 * beyond[6] + uncoded_bits * beyond[13];
    let wide_bits = 3 * beyond[3] + 3 * beyond[10] + uncoded_bits * beyond[17];
    let wide = wide_bits < narrow_bits;
    let hopeless = 2 * samples + wide_bits.min(narrow_bits) >= samples * uncoded_bits;

    let (len, all) = (table_len(wide), 1u16 << symbol_bits);
    let mut filled = ranked.found.min(len);
    let mut symbol = symbols[0];
    for _ in 1..all {
        if filled == len {
            break;
        }
        symbol = symbol.wrapping_sub(1) & (all - 1);
        if counts[usize::from(symbol)] == 0 {
            symbols[filled] = symbol;
            filled += 1;
        }
    }
    symbols[filled..].fill(0);
    Plan { signed, wide, hopeless, symbols }
}

/// The parts of the table that belong to each tier.
pub(super) fn tier_parts(symbols: &[u16], wide: bool) -> [&[u16]; 3] {
    let second = if wide { 7 } else { 3 };
    let (first, others) = symbols.split_at(TIER_1);
    [first, &others[..second], &others[second..second + 7]]
}
