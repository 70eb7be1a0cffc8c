//! BDI with AVX2: lines are classified four at a time, and written and read form by form.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

mod classify;
mod lanes;

use std::arch::x86_64::*;

use super::plan::{BLOCK_LINES, Plan, number};
use super::{DATA_LENS, MASK_LENS, RAW, RAW_LINES, REPEATED, Tally, ZERO, data_len, mask_len, portable};
use crate::Avx2;
use crate::cpu::{array, array_mut, load256, store256, store256_low};
use crate::line::{LINE_LEN, Line};
use crate::packed::packed_field;
use lanes::*;

pub(super) fn classify(_: Avx2, raw: &[u8], forms: &mut [u8]) {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { classify::classify(raw, forms) }
}

pub(super) fn tally(_: Avx2, forms: &[u8]) -> Tally {
    // SAFETY: as above.
    unsafe { tally_vectors(forms) }
}

pub(super) fn encode(_: Avx2, raw: &[u8], forms: &[u8], masks: &mut [u8], data: &mut [u8]) {
    // SAFETY: as above.
    unsafe { encode_blocks(raw, forms, masks, data) }
}

pub(super) fn decode(_: Avx2, forms: &[u8], masks: &[u8], data: &[u8], raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode_blocks(forms, masks, data, raw) }
}

#[target_feature(enable = "avx2")]
fn tally_vectors(forms: &[u8]) -> Tally {
    let zero = _mm256_setzero_si256();
    let (mut mask_len, mut data_len, mut raw_lines, mut largest) = (zero, zero, zero, zero);
    for bytes in forms.chunks(32) {
        let mut padded = [0; 32];
        let pairs = load256(bytes.first_chunk().unwrap_or_else(|| {
            padded[..bytes.len()].copy_from_slice(bytes);
            &padded
        }));
        let nibble = _mm256_set1_epi8(0xf);
        for forms in
            [_mm256_and_si256(pairs, nibble), _mm256_and_si256(_mm256_srli_epi16::<4>(pairs), nibble)]
        {
            let sum_of = |lens| _mm256_sad_epu8(_mm256_shuffle_epi8(table(lens), forms), zero);
            mask_len = _mm256_add_epi64(mask_len, sum_of(&MASK_LENS));
            data_len = _mm256_add_epi64(data_len, sum_of(&DATA_LENS));
            raw_lines = _mm256_add_epi64(raw_lines, sum_of(&RAW_LINES));
            largest = _mm256_max_epu8(largest, forms);
        }
    }
    let sum = |lanes| {
        let pair = _mm_add_epi64(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
        (_mm_cvtsi128_si64(pair) + _mm_extract_epi64::<1>(pair)) as usize
    };
    let unknown = _mm256_cmpgt_epi8(largest, _mm256_set1_epi8(RAW as i8));
    Tally {
        mask_len: sum(mask_len),
        data_len: sum(data_len),
        raw_lines: sum(raw_lines),
        all_known: _mm256_testz_si256(unknown, unknown) == 1,
    }
}

/// A table of 16 bytes in each half of a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn table(bytes: &[u8; 16]) -> __m256i {
    _mm256_broadcastsi128_si256(load128(bytes))
}

#[target_feature(enable = "avx2")]
fn encode_blocks(raw: &[u8], forms: &[u8], masks: &mut [u8], data: &mut [u8]) {
    let (lines, rest) = raw.as_chunks::<LINE_LEN>();
    let (mut masks, mut data) = (masks, data);
    let mut plan = Plan::new();
    for (lines, forms) in lines.chunks(BLOCK_LINES).zip(forms.chunks(BLOCK_LINES / 2)) {
        let (mask_len, data_len) = plan.fill(forms, lines.len());
        for place in plan.places(REPEATED) {
            array_mut::<8>(&mut data[place.data_at..]).copy_from_slice(&lines[place.line][..8]);
        }
        encode_form::<8, 1>(&plan, 2, lines, masks, data);
        encode_form::<8, 2>(&plan, 3, lines, masks, data);
        encode_form::<8, 4>(&plan, 4, lines, masks, data);
        encode_form::<4, 1>(&plan, 5, lines, masks, data);
        encode_form::<4, 2>(&plan, 6, lines, masks, data);
        encode_form::<2, 1>(&plan, 7, lines, masks, data);
        for place in plan.places(RAW) {
            store_line(array_mut(&mut data[place.data_at..]), load_line(&lines[place.line]));
        }
        masks = &mut masks[mask_len..];
        data = &mut data[data_len..];
    }
    if !rest.is_empty() {
        let mut line = [0; LINE_LEN];
        line[..rest.len()].copy_from_slice(rest);
        portable::encode_line(packed_field::<4>(forms, lines.len()), &line, masks, data);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn encode_form<const B: usize, const D: usize>(
    plan: &Plan,
    form: u8,
    lines: &[Line],
    masks: &mut [u8],
    data: &mut [u8],
) {
    let (mask_len, data_len) = (mask_len(form), data_len(form));
    let half = 1 << (8 * D - 1);
    let above_delta = splat::<B>(u64::MAX << (8 * D));
    let flip = if B == 8 { 1 << 63 } else { 0u64 };
    for place in plan.places(form) {
        let line = load_line(&lines[place.line]);
        let short = line.map(|part| {
            let above = _mm256_and_si256(add::<B>(part, splat::<B>(half)), above_delta);
            equal::<B>(above, _mm256_setzero_si256())
        });
        let explicit = !bits::<B>(short) & (u32::MAX >> (32 - LINE_LEN / B));
        // As in `fits`; without elements that need it, the base is 0.
        let smallest = lowest::<B>(line.map(|part| add::<B>(part, splat::<B>(flip.wrapping_sub(half)))));
        let base = if explicit == 0 { 0 } else { smallest.wrapping_add(half) };
        let own_base = short.map(|short| _mm256_andnot_si256(short, splat::<B>(base)));
        let deltas = truncate::<B, D>([sub::<B>(line[0], own_base[0]), sub::<B>(line[1], own_base[1])]);
        let mask = &mut masks[place.mask_at..place.mask_at + mask_len];
        mask.copy_from_slice(&explicit.to_le_bytes()[..mask_len]);
        let data = &mut data[place.data_at..place.data_at + data_len];
        data[..B].copy_from_slice(&base.to_le_bytes()[..B]);
        store256_low(&mut data[B..], deltas);
    }
}

#[target_feature(enable = "avx2")]
fn decode_blocks(forms: &[u8], masks: &[u8], data: &[u8], raw: &mut [u8]) {
    let (lines, rest) = raw.as_chunks_mut::<LINE_LEN>();
    let line_count = lines.len();
    let (mut masks, mut data) = (masks, data);
    let mut plan = Plan::new();
    for (lines, forms) in lines.chunks_mut(BLOCK_LINES).zip(forms.chunks(BLOCK_LINES / 2)) {
        let (mask_len, data_len) = plan.fill(forms, lines.len());
        for place in plan.places(ZERO) {
            store_line(&mut lines[place.line], [_mm256_setzero_si256(); 2]);
        }
        for place in plan.places(REPEATED) {
            let word = _mm256_set1_epi64x(i64::from_le_bytes(*array(&data[place.data_at..])));
            store_line(&mut lines[place.line], [word; 2]);
        }
        decode_form::<8, 1>(&plan, 2, masks, data, lines);
        decode_form::<8, 2>(&plan, 3, masks, data, lines);
        decode_form::<8, 4>(&plan, 4, masks, data, lines);
        decode_form::<4, 1>(&plan, 5, masks, data, lines);
        decode_form::<4, 2>(&plan, 6, masks, data, lines);
        decode_form::<2, 1>(&plan, 7, masks, data, lines);
        for place in plan.places(RAW) {
            store_line(&mut lines[place.line], load_line(array(&data[place.data_at..])));
        }
        masks = &masks[mask_len..];
        data = &data[data_len..];
    }
    if !rest.is_empty() {
        let form = packed_field::<4>(forms, line_count);
        rest.copy_from_slice(&portable::decode_line(form, masks, data)[..rest.len()]);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn decode_form<const B: usize, const D: usize>(
    plan: &Plan,
    form: u8,
    masks: &[u8],
    data: &[u8],
    lines: &mut [Line],
) {
    let (mask_len, data_len) = (mask_len(form), data_len(form));
    let delta = splat::<B>(u64::MAX >> (64 - 8 * D));
    for place in plan.places(form) {
        let mask = &masks[place.mask_at..place.mask_at + mask_len];
        let (base, deltas) = data[place.data_at..place.data_at + data_len].split_at(B);
        let (explicit, base) = (number(mask) as u32, splat::<B>(number(base)));
        let [low, high] = widen::<B, D>(deltas);
        let element = |signed, explicit| {
            let sum = add::<B>(_mm256_and_si256(signed, delta), base);
            _mm256_blendv_epi8(signed, sum, lanes::<B>(explicit))
        };
        store_line(&mut lines[place.line], [element(low, explicit), element(high, explicit >> (32 / B))]);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_line(line: &Line) -> Halves {
    [0, 32].map(|at| load256(array(&line[at..])))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_line(line: &mut Line, halves: Halves) {
    for (at, half) in [0, 32].into_iter().zip(halves) {
        store256(array_mut(&mut line[at..]), half);
    }
}
