//! ZVC with AVX2: eight elements at a time, one mask byte, moved by shuffles from a table of 256 masks.

// The entry points promise the instructions that their token stands for; loads and stores take pointers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::masks_len;
use super::portable::Sections;
use crate::Avx2;
use crate::cpu::groups::{GROUP, GROUP_LEN, compress, expand, load64, load128, vector};

/// Groups whose bounds are checked together.
const BATCH: usize = 4;

pub(super) fn encode<const W: usize>(_: Avx2, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_groups::<W>(raw, coded) }
}

pub(super) fn non_zeros<const W: usize>(_: Avx2, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { count_groups::<W>(raw) }
}

pub(super) fn decode<const W: usize>(_: Avx2, sections: Sections<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode_groups::<W>(sections, raw) }
}

#[target_feature(enable = "avx2,popcnt")]
fn encode_groups<const W: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    let (elements, tail) = raw.split_at(raw.len() - raw.len() % W);
    let masks_end = masks_len::<W>(raw.len()).next_multiple_of(8);
    let (masks, kept) = coded.split_at_mut(masks_end);
    if let Some(last) = masks.last_chunk_mut::<8>() {
        *last = [0; 8]; // padding, and the bits behind the last element
    }
    let groups = elements.chunks_exact(GROUP * W);
    let rest = groups.remainder();
    let mut at = 0;
    let mut mask_bytes = masks.iter_mut();
    for (group, mask_byte) in groups.zip(&mut mask_bytes) {
        let mask = group_mask::<W>(group);
        *mask_byte = mask;
        compress::<W>(mask, group, &mut kept[at..at + GROUP_LEN]);
        at += W * mask.count_ones() as usize;
    }
    if let (Some(mask_byte), false) = (mask_bytes.next(), rest.is_empty()) {
        let mut group = [0; GROUP_LEN];
        group[..rest.len()].copy_from_slice(rest);
        let mask = group_mask::<W>(&group);
        *mask_byte = mask;
        compress::<W>(mask, &group, &mut kept[at..at + GROUP_LEN]);
        at += W * mask.count_ones() as usize;
    }
    kept[at..at + tail.len()].copy_from_slice(tail);
    masks_end + at + tail.len()
}

#[target_feature(enable = "avx2,popcnt")]
fn count_groups<const W: usize>(raw: &[u8]) -> usize {
    let groups = raw[..raw.len() - raw.len() % W].chunks_exact(GROUP * W);
    let rest = groups.remainder().chunks_exact(W).filter(|element| element.iter().any(|&b| b != 0)).count();
    groups.map(|group| group_mask::<W>(group).count_ones() as usize).sum::<usize>() + rest
}

#[target_feature(enable = "avx2,popcnt")]
fn decode_groups<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    let Sections { masks, kept, tail } = sections;
    let (elements, raw_tail) = raw.split_at_mut(raw.len() - raw.len() % W);
    raw_tail.copy_from_slice(tail);
    let mut batches = elements.chunks_exact_mut(BATCH * GROUP * W);
    let mut batch_masks = masks.as_chunks::<BATCH>().0.iter();
    let (mut at, mut done) = (0, 0);
    // The rest are near the end of the chunk.
    while let Some(stored) = kept.get(at..at + BATCH * GROUP * W + GROUP_LEN) {
        let (Some(batch), Some(masks)) = (batches.next(), batch_masks.next()) else { break };
        let mut taken = 0;
        for (group, &mask) in batch.chunks_exact_mut(GROUP * W).zip(masks) {
            expand::<W>(mask, &stored[taken..taken + GROUP_LEN], group);
            taken += W * mask.count_ones() as usize;
        }
        at += taken;
        done += BATCH;
    }
    for (group, &mask) in elements.chunks_mut(GROUP * W).zip(masks).skip(done) {
        let next = at + W * mask.count_ones() as usize;
        let mut stored = [0; GROUP_LEN];
        stored[..next - at].copy_from_slice(&kept[at..next]);
        expand_group::<W>(mask, &stored, group);
        at = next;
    }
}

/// Fills a group, which the end of the elements may cut.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn expand_group<const W: usize>(mask: u8, stored: &[u8], group: &mut [u8]) {
    if group.len() == GROUP * W {
        expand::<W>(mask, stored, group);
    } else {
        let mut out = [0; GROUP_LEN];
        expand::<W>(mask, stored, &mut out);
        group.copy_from_slice(&out[..group.len()]);
    }
}

/// Bit i = element i of the group is not zero.
#[inline]
#[target_feature(enable = "avx2")]
fn group_mask<const W: usize>(group: &[u8]) -> u8 {
    let zero = _mm256_setzero_si256();
    let zeros = match W {
        1 => {
            let bytes = load64(group);
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()))
        }
        2 => {
            let equal = _mm_cmpeq_epi16(load128(group), _mm_setzero_si128());
            _mm_movemask_epi8(_mm_packs_epi16(equal, equal))
        }
        4 => _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(vector(group, 0), zero))),
        _ => {
            let [low, high] = [0, 32].map(|at| {
                let equal = _mm256_cmpeq_epi64(vector(group, at), zero);
                _mm256_movemask_pd(_mm256_castsi256_pd(equal))
            });
            low | high << 4
        }
    };
    !zeros as u8
}
