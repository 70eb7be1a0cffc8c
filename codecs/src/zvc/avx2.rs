//! ZVC with AVX2: a comparison makes a vector's mask, and shuffles from a table of 256 masks move its elements.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable::Sections;
use super::{mask_len, mask_of, masks_len};
use crate::Avx2;
use crate::cpu::array;
use crate::cpu::groups::{
    PACKED_LEN, VECTOR_LEN, compress_vector, expand_vector, lane_mask, vector as half_at, zero_lanes,
};

pub(super) fn encode<const W: usize>(_: Avx2, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_vectors::<W>(raw, coded) }
}

pub(super) fn non_zeros<const W: usize>(_: Avx2, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { count_vectors::<W>(raw) }
}

pub(super) fn decode<const W: usize>(_: Avx2, sections: Sections<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode_vectors::<W>(sections, raw) }
}

#[target_feature(enable = "avx2,popcnt")]
fn encode_vectors<const W: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    let (elements, tail) = raw.split_at(raw.len() - raw.len() % W);
    let masks_end = masks_len::<W>(raw.len()).next_multiple_of(8);
    let (masks, kept) = coded.split_at_mut(masks_end);
    if let Some(last) = masks.last_chunk_mut::<8>() {
        *last = [0; 8]; // padding, and the bits behind the last element
    }
    let (vectors, rest) = elements.as_chunks();
    let (vector_masks, last_mask) = masks.split_at_mut(vectors.len() * mask_len::<W>());
    let (mut at, done) = compress_vectors::<W>(vectors, vector_masks, kept);
    assert!(done == vectors.len(), "less room than max_chunk_len");
    if !rest.is_empty() {
        let vector = padded(rest);
        let mask = non_zeros_of::<W>(&vector);
        let mask_len = (rest.len() / W).div_ceil(8);
        last_mask[..mask_len].copy_from_slice(&mask.to_le_bytes()[..mask_len]);
        let (mut packed, len) = ([0; PACKED_LEN], W * mask.count_ones() as usize);
        compress_vector::<W>(mask, &vector, &mut packed);
        kept[at..at + len].copy_from_slice(&packed[..len]);
        at += len;
    }
    kept[at..at + tail.len()].copy_from_slice(tail);
    masks_end + at + tail.len()
}

/// Compresses vectors while `kept` has room for all that may be written. Returns how many bytes are kept of how
/// many vectors.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn compress_vectors<const W: usize>(
    vectors: &[[u8; VECTOR_LEN]],
    masks: &mut [u8],
    kept: &mut [u8],
) -> (usize, usize) {
    let (mut at, mut done) = (0, 0);
    for (vector, to) in vectors.iter().zip(masks.chunks_exact_mut(mask_len::<W>())) {
        let Some(room) = kept[at..].first_chunk_mut() else { break };
        let mask = non_zeros_of::<W>(vector);
        to.copy_from_slice(&mask.to_le_bytes()[..mask_len::<W>()]);
        compress_vector::<W>(mask, vector, room);
        at += W * mask.count_ones() as usize;
        done += 1;
    }
    (at, done)
}

#[target_feature(enable = "avx2,popcnt")]
fn count_vectors<const W: usize>(raw: &[u8]) -> usize {
    let (vectors, rest) = raw[..raw.len() - raw.len() % W].as_chunks();
    // The padding counts as zeros.
    let zero_bytes = vectors.chunks(127).map(|some| zero_bytes::<W>(some)).sum::<usize>()
        + zero_bytes::<W>(&[padded(rest)]);
    (VECTOR_LEN * (vectors.len() + 1) - zero_bytes) / W
}

/// The bytes of zero elements, of up to 127 vectors: each lane counts two per vector.
#[target_feature(enable = "avx2")]
fn zero_bytes<const W: usize>(vectors: &[[u8; VECTOR_LEN]]) -> usize {
    let mut counts = _mm256_setzero_si256();
    for vector in vectors {
        let [low, high] = [0, 32].map(|at| zero_lanes::<W>(half_at(vector, at)));
        counts = _mm256_sub_epi8(counts, _mm256_add_epi8(low, high));
    }
    let sums = _mm256_sad_epu8(counts, _mm256_setzero_si256());
    let sum = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    (_mm_cvtsi128_si64(sum) + _mm_extract_epi64::<1>(sum)) as usize
}

#[target_feature(enable = "avx2,popcnt")]
fn decode_vectors<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    let Sections { masks, kept, tail } = sections;
    let (elements, raw_tail) = raw.split_at_mut(raw.len() - raw.len() % W);
    raw_tail.copy_from_slice(tail);
    let (vectors, rest) = elements.as_chunks_mut();
    let (vector_masks, last_mask) = masks.split_at(vectors.len() * mask_len::<W>());
    let (at, done) = expand_vectors::<W>(vector_masks, kept, vectors);
    // What is left may have less behind it than is read.
    let mut last = [0; 2 * PACKED_LEN];
    last[..kept.len() - at].copy_from_slice(&kept[at..]);
    let (at, _) = expand_vectors::<W>(&vector_masks[done * mask_len::<W>()..], &last, &mut vectors[done..]);
    if !rest.is_empty() {
        // No bit is set behind the last element.
        let mask = mask_of(&last_mask[..(rest.len() / W).div_ceil(8)]);
        let mut vector = [0; VECTOR_LEN];
        expand_vector::<W>(mask, array(&last[at..]), &mut vector);
        rest.copy_from_slice(&vector[..rest.len()]);
    }
}

/// Expands vectors while `kept` has all that may be read. Returns how many of its bytes and how many vectors.
#[target_feature(enable = "avx2,popcnt")]
fn expand_vectors<const W: usize>(
    masks: &[u8],
    kept: &[u8],
    vectors: &mut [[u8; VECTOR_LEN]],
) -> (usize, usize) {
    let (mut at, mut done) = (0, 0);
    for (vector, mask) in vectors.iter_mut().zip(masks.chunks_exact(mask_len::<W>())) {
        let Some(packed) = kept[at..].first_chunk() else { break };
        let mask = mask_of(mask);
        expand_vector::<W>(mask, packed, vector);
        at += W * mask.count_ones() as usize;
        done += 1;
    }
    (at, done)
}

/// Bit i = element i of the vector is not zero.
#[inline]
#[target_feature(enable = "avx2")]
fn non_zeros_of<const W: usize>(vector: &[u8; VECTOR_LEN]) -> u64 {
    let zeros = lane_mask::<W>([0, 32].map(|at| zero_lanes::<W>(half_at(vector, at))));
    !zeros & u64::MAX >> (64 - VECTOR_LEN / W)
}

/// The last elements, and zeros.
fn padded(rest: &[u8]) -> [u8; VECTOR_LEN] {
    let mut vector = [0; VECTOR_LEN];
    vector[..rest.len()].copy_from_slice(rest);
    vector
}
