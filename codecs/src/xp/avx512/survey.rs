//! The decisions of an encoder: see `table.rs`, which says the same in plain words.

use std::arch::x86_64::*;

use super::cut::Cut;
use super::vector::{load, store};
use crate::cpu::load512_partial;
use crate::xp::table::{MAX_SAMPLES, PROBE, TIER_1, sample_stride, table_len};

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
    pub(super) symbols: [u16; 17],
}

/// A value as a number.
///
/// # Safety
/// There is a value of `B` bits at `from`.
#[inline]
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
    #[inline]
    #[target_feature(enable = "avx512bw,popcnt")]
    pub(super) unsafe fn of<const B: u32, const E: u32>(
        values: *const u8,
        count: usize,
        counts: &'a mut [u8],
    ) -> Self {
        let (width, shift) = (Cut::<B, E, false>::WIDTH, B - 1 - E);
        // Two tables in turn, so that equal samples in a row do not wait for each other. A large one is enough.
        let (symbols, tables) = (2usize << E, if E <= 8 { 2 } else { 1 });
        let counts = &mut counts[..tables * symbols];
        counts.fill(0);
        let first = counts.as_mut_ptr();
        let second = first.wrapping_add((tables - 1) * symbols);
        let stride = sample_stride(count);
        let (mut i, step) = (stride / 2, stride * width);
        let (mut from, mut zeros, mut samples) = (values.wrapping_add(i * width), 0, 0);
        // SAFETY: a symbol is below `symbols`, the length of a table; a value is read only where its index is below `count`.
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
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi2,popcnt,bmi1,bmi2")]
    pub(super) fn plan<const E: u32>(&mut self) -> Plan {
        let (positive, negative) = self.counts.split_at_mut(1 << E);
        let mut difference = 0;
        for (a, b) in positive.iter().zip(negative.iter()) {
            difference += u32::from(a.abs_diff(*b));
        }
        if 2 * difference as usize > self.samples + 16 {
            return rank(self.counts, E + 1, self.samples, true);
        }
        for (a, b) in positive.iter_mut().zip(negative) {
            *a += *b;
        }
        rank(positive, E, self.samples, false)
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
#[inline]
#[target_feature(enable = "avx512bw")]
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

/// The table of the commonest of `counts.len()` symbols.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt,bmi1,bmi2")]
fn rank(counts: &[u8], symbol_bits: u32, samples: usize, signed: bool) -> Plan {
    // Larger keys are commoner, or equally common and lower.
    let mut keys = [0u32; MAX_SAMPLES + 64];
    let mut found = 0;
    let sixteen = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (block, counts) in counts.chunks(64).enumerate() {
        let here = load512_partial(counts);
        if _mm512_test_epi8_mask(here, here) == 0 {
            continue;
        }
        for quarter in 0..4 {
            let here = match quarter {
                0 => _mm512_castsi512_si128(here),
                1 => _mm512_extracti32x4_epi32::<1>(here),
                2 => _mm512_extracti32x4_epi32::<2>(here),
                _ => _mm512_extracti32x4_epi32::<3>(here),
            };
            let here = _mm512_slli_epi32::<16>(_mm512_cvtepu8_epi32(here));
            let seen = _mm512_test_epi32_mask(here, here);
            let first = 0xffff - (64 * block + 16 * quarter) as i32;
            let here = _mm512_or_si512(here, _mm512_sub_epi32(_mm512_set1_epi32(first), sixteen));
            // SAFETY: no more are seen than there are samples; behind them are 64 places.
            unsafe { store(keys.as_mut_ptr().add(found).cast(), _mm512_maskz_compress_epi32(seen, here)) };
            found += seen.count_ones() as usize;
        }
    }
    let mut ranked = [0u32; 17];
    // Behind the last key are zeros, from the last compress.
    let vectors = found.div_ceil(16);
    for &key in &keys[..found] {
        let mut larger = 0;
        for vector in &keys.as_chunks::<16>().0[..vectors] {
            let larger_here = _mm512_cmpgt_epu32_mask(load_keys(vector), _mm512_set1_epi32(key as i32));
            larger += larger_here.count_ones() as usize;
        }
        if let Some(place) = ranked.get_mut(larger) {
            *place = key;
        }
    }
    plan_of(&ranked, found, counts, symbol_bits, samples, signed)
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn load_keys(keys: &[u32; 16]) -> __m512i {
    // SAFETY: sixteen keys are 64 bytes.
    unsafe { load(keys.as_ptr().cast()) }
}

/// The plan of a table whose keys are `ranked`, of `found` symbols in all.
#[inline]
fn plan_of(
    ranked: &[u32; 17],
    found: usize,
    counts: &[u8],
    symbol_bits: u32,
    samples: usize,
    signed: bool,
) -> Plan {
    let mut symbols = ranked.map(|key| 0xffff - (key & 0xffff) as u16);
    let mut beyond = [samples; 18];
    for i in 0..17 {
        beyond[i + 1] = beyond[i] - (ranked[i] >> 16) as usize;
    }
    let uncoded_bits = symbol_bits as usize;
    let narrow_bits = 2 * beyond[3] + 3 * beyond[6] + uncoded_bits * beyond[13];
    let wide_bits = 3 * beyond[3] + 3 * beyond[10] + uncoded_bits * beyond[17];
    let wide = wide_bits < narrow_bits;

    let (len, all) = (table_len(wide), 1u16 << symbol_bits);
    let mut filled = found.min(len);
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
    Plan { signed, wide, symbols }
}

/// The parts of the table that belong to each tier.
pub(super) fn tier_parts(symbols: &[u16], wide: bool) -> [&[u16]; 3] {
    let second = if wide { 7 } else { 3 };
    let (first, others) = symbols.split_at(TIER_1);
    [first, &others[..second], &others[second..second + 7]]
}
