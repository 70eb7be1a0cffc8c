//! BDI with AVX-512: lines are classified eight at a time, and written and read form by form.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

mod classify;
mod lanes;
mod sort;

use std::arch::x86_64::*;

use super::plan::{BLOCK_LINES, Plan, number};
use super::{RAW, REPEATED, Tally, ZERO, data_len, mask_len, portable};
use crate::Avx512;
use crate::cpu::{array, array_mut, load512, store256_low, store512};
use crate::line::{LINE_LEN, Line};
use crate::packed::packed_field;
use lanes::*;

pub(super) fn classify(_: Avx512, raw: &[u8], forms: &mut [u8]) {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { classify::classify(raw, forms) }
}

pub(super) fn tally(_: Avx512, forms: &[u8]) -> Tally {
    // SAFETY: as above.
    unsafe { sort::tally(forms) }
}

pub(super) fn encode(_: Avx512, raw: &[u8], forms: &[u8], masks: &mut [u8], data: &mut [u8]) {
    // SAFETY: as above.
    unsafe { encode_blocks(raw, forms, masks, data) }
}

pub(super) fn decode(_: Avx512, forms: &[u8], masks: &[u8], data: &[u8], raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode_blocks(forms, masks, data, raw) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn encode_blocks(raw: &[u8], forms: &[u8], masks: &mut [u8], data: &mut [u8]) {
    let (lines, rest) = raw.as_chunks::<LINE_LEN>();
    let (mut masks, mut data) = (masks, data);
    let mut plan = Plan::new();
    for (lines, forms) in lines.chunks(BLOCK_LINES).zip(forms.chunks(BLOCK_LINES / 2)) {
        let (mask_len, data_len) = sort::fill(&mut plan, forms, lines.len());
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
            store512(array_mut(&mut data[place.data_at..]), load512(&lines[place.line]));
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")]
fn encode_form<const B: usize, const D: usize>(
    plan: &Plan,
    form: u8,
    lines: &[Line],
    masks: &mut [u8],
    data: &mut [u8],
) {
    let (mask_len, data_len) = (mask_len(form), data_len(form));
    for place in plan.places(form) {
        let line = load512(&lines[place.line]);
        let half = splat::<B>(1 << (8 * D - 1));
        let explicit = not_below::<B>(add::<B>(line, half), splat::<B>(1 << (8 * D)));
        // As in `fits`; without elements that need it, the base is 0.
        let smallest = lowest::<B>(sub::<B>(line, half)).wrapping_add(1 << (8 * D - 1));
        let base = if explicit == 0 { 0 } else { smallest };
        let deltas = truncate::<B, D>(sub_where::<B>(line, explicit, splat::<B>(base)));
        let mask = &mut masks[place.mask_at..place.mask_at + mask_len];
        mask.copy_from_slice(&explicit.to_le_bytes()[..mask_len]);
        let data = &mut data[place.data_at..place.data_at + data_len];
        data[..B].copy_from_slice(&base.to_le_bytes()[..B]);
        store256_low(&mut data[B..], deltas);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn decode_blocks(forms: &[u8], masks: &[u8], data: &[u8], raw: &mut [u8]) {
    let (lines, rest) = raw.as_chunks_mut::<LINE_LEN>();
    let line_count = lines.len();
    let (mut masks, mut data) = (masks, data);
    let mut plan = Plan::new();
    for (lines, forms) in lines.chunks_mut(BLOCK_LINES).zip(forms.chunks(BLOCK_LINES / 2)) {
        let (mask_len, data_len) = sort::fill(&mut plan, forms, lines.len());
        for place in plan.places(ZERO) {
            store512(&mut lines[place.line], _mm512_setzero_si512());
        }
        for place in plan.places(REPEATED) {
            let word = i64::from_le_bytes(*array(&data[place.data_at..]));
            store512(&mut lines[place.line], _mm512_set1_epi64(word));
        }
        decode_form::<8, 1>(&plan, 2, masks, data, lines);
        decode_form::<8, 2>(&plan, 3, masks, data, lines);
        decode_form::<8, 4>(&plan, 4, masks, data, lines);
        decode_form::<4, 1>(&plan, 5, masks, data, lines);
        decode_form::<4, 2>(&plan, 6, masks, data, lines);
        decode_form::<2, 1>(&plan, 7, masks, data, lines);
        for place in plan.places(RAW) {
            store512(&mut lines[place.line], load512(array(&data[place.data_at..])));
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")]
fn decode_form<const B: usize, const D: usize>(
    plan: &Plan,
    form: u8,
    masks: &[u8],
    data: &[u8],
    lines: &mut [Line],
) {
    let (mask_len, data_len) = (mask_len(form), data_len(form));
    for place in plan.places(form) {
        let mask = &masks[place.mask_at..place.mask_at + mask_len];
        let (base, deltas) = data[place.data_at..place.data_at + data_len].split_at(B);
        let explicit = number(mask) as u32;
        let deltas = widen::<B, D>(deltas);
        let unsigned = _mm512_and_si512(deltas, splat::<B>((1 << (8 * D)) - 1));
        store512(
            &mut lines[place.line],
            add_where::<B>(deltas, explicit, unsigned, splat::<B>(number(base))),
        );
    }
}
