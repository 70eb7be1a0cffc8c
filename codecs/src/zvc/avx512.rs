//! ZVC with AVX-512: one test makes a vector's mask, one compress or expand moves its elements.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

use super::portable::Sections;
use super::{mask_len, mask_of, masks_len};
use crate::Avx512;
use crate::cpu::{
    array_mut, compress512, expand512, load512, load512_partial, non_zeros512, store512, store512_partial,
};

pub(super) fn encode<const W: usize>(_: Avx512, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_vectors::<W>(raw, coded) }
}

pub(super) fn non_zeros<const W: usize>(_: Avx512, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { count_vectors::<W>(raw) }
}

pub(super) fn decode<const W: usize>(_: Avx512, sections: Sections<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode_vectors::<W>(sections, raw) }
}

#[target_feature(enable = "avx512bw,avx512vbmi2,bmi2,popcnt")]
fn encode_vectors<const W: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    let (elements, tail) = raw.split_at(raw.len() - raw.len() % W);
    let masks_end = masks_len::<W>(raw.len()).next_multiple_of(8);
    let (masks, kept) = coded.split_at_mut(masks_end);
    if let Some(last) = masks.last_chunk_mut::<8>() {
        *last = [0; 8]; // padding, and the bits behind the last element
    }
    let (vectors, rest) = elements.as_chunks();
    let (mut at, mut mask_at) = (0, 0);
    for vector in vectors {
        let vector = load512(vector);
        let mask = non_zeros512(W, vector);
        masks[mask_at..mask_at + mask_len::<W>()].copy_from_slice(&mask.to_le_bytes()[..mask_len::<W>()]);
        mask_at += mask_len::<W>();
        store512(array_mut(&mut kept[at..]), compress512(W, mask, vector));
        at += W * mask.count_ones() as usize;
    }
    if !rest.is_empty() {
        let vector = load512_partial(rest);
        let mask = non_zeros512(W, vector);
        let len = (rest.len() / W).div_ceil(8);
        masks[mask_at..mask_at + len].copy_from_slice(&mask.to_le_bytes()[..len]);
        store512_partial(&mut kept[at..], compress512(W, mask, vector));
        at += W * mask.count_ones() as usize;
    }
    kept[at..at + tail.len()].copy_from_slice(tail);
    masks_end + at + tail.len()
}

#[target_feature(enable = "avx512bw,bmi2,popcnt")]
fn count_vectors<const W: usize>(raw: &[u8]) -> usize {
    let (vectors, rest) = raw[..raw.len() - raw.len() % W].as_chunks();
    let whole = vectors.iter().map(|vector| non_zeros512(W, load512(vector)).count_ones() as usize);
    whole.sum::<usize>() + non_zeros512(W, load512_partial(rest)).count_ones() as usize
}

#[target_feature(enable = "avx512bw,avx512vbmi2,bmi2,popcnt")]
fn decode_vectors<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    let Sections { masks, kept, tail } = sections;
    let (elements, raw_tail) = raw.split_at_mut(raw.len() - raw.len() % W);
    raw_tail.copy_from_slice(tail);
    let (vectors, rest) = elements.as_chunks_mut();
    let (vector_masks, last_mask) = masks.split_at(vectors.len() * mask_len::<W>());
    let mut at = 0;
    for (vector, mask) in vectors.iter_mut().zip(vector_masks.chunks_exact(mask_len::<W>())) {
        let mask = mask_of(mask);
        let stored = match kept[at..].first_chunk() {
            Some(front) => load512(front),
            None => load512_partial(&kept[at..]),
        };
        store512(vector, expand512(W, mask, stored));
        at += W * mask.count_ones() as usize;
    }
    if !rest.is_empty() {
        // No bit is set behind the last element.
        let mask = mask_of(&last_mask[..(rest.len() / W).div_ceil(8)]);
        store512_partial(rest, expand512(W, mask, load512_partial(&kept[at..])));
    }
}
