//! BPC with AVX2: the sign bits of 32 bytes are a plane, and by shifting the next one.
//!
//! Planes are in memory in the order of their codes, plane 32 first.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

mod decode;
mod encode;

use std::arch::x86_64::*;

use self::decode::decode_entry;
use self::encode::{encode_entry, entry_size};
use super::ENTRY_LEN;
use super::portable::Sections;
use super::vector::ENTRY_ROOM;
use crate::cpu::array_mut;
use crate::{Avx2, ChunkError};

pub(super) fn encode(_: Avx2, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_entries(raw, coded) }
}

pub(super) fn chunk_len(_: Avx2, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { count_entries(raw) }
}

pub(super) fn decode(_: Avx2, sections: &Sections<'_>, raw: &mut [u8]) -> Result<(), ChunkError> {
    // SAFETY: as above.
    unsafe { decode_entries(sections, raw) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn encode_entries(raw: &[u8], coded: &mut [u8]) -> usize {
    let (sizes, strings) = coded.split_at_mut(raw.len().div_ceil(ENTRY_LEN));
    let (entries, rest) = raw.as_chunks();
    let mut at = 0;
    for (entry, size) in entries.iter().zip(sizes.iter_mut()) {
        *size = encode_entry(entry, array_mut(&mut strings[at..]));
        at += usize::from(*size);
    }
    if let (false, Some(size)) = (rest.is_empty(), sizes.last_mut()) {
        let mut entry = [0; ENTRY_LEN];
        entry[..rest.len()].copy_from_slice(rest);
        *size = encode_entry(&entry, array_mut(&mut strings[at..]));
        at += usize::from(*size);
    }
    sizes.len() + at
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn count_entries(raw: &[u8]) -> usize {
    let (entries, rest) = raw.as_chunks();
    let mut len = raw.len().div_ceil(ENTRY_LEN);
    for entry in entries {
        len += entry_size(entry);
    }
    if !rest.is_empty() {
        let mut entry = [0; ENTRY_LEN];
        entry[..rest.len()].copy_from_slice(rest);
        len += entry_size(&entry);
    }
    len
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn decode_entries(sections: &Sections<'_>, raw: &mut [u8]) -> Result<(), ChunkError> {
    let (mut at, mut padded) = (0, [0; ENTRY_ROOM]);
    let (entries, rest) = raw.as_chunks_mut();
    for (i, out) in entries.iter_mut().enumerate() {
        at = decode_entry(sections, i, at, &mut padded, out)?;
    }
    if !rest.is_empty() {
        let mut out = [0; ENTRY_LEN];
        decode_entry(sections, entries.len(), at, &mut padded, &mut out)?;
        rest.copy_from_slice(&out[..rest.len()]);
    }
    Ok(())
}

/// The numbers 0 to 7.
#[inline]
#[target_feature(enable = "avx2")]
fn iota() -> __m256i {
    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
}

/// Bytes 0, 1, 2 and 3 of 32 words, each in a vector of its own.
///
/// The words come four at a time, 0 and 16, 4 and 20, 8 and 24, 12 and 28; `within` picks byte 0 of each of four
/// words, then their bytes 1, 2 and 3.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of(words: [__m256i; 4], within: __m256i) -> [__m256i; 4] {
    let [a, b] = [_mm256_shuffle_epi8(words[0], within), _mm256_shuffle_epi8(words[1], within)];
    let [c, d] = [_mm256_shuffle_epi8(words[2], within), _mm256_shuffle_epi8(words[3], within)];
    let low = [_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d)];
    let high = [_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d)];
    [
        _mm256_unpacklo_epi64(low[0], low[1]),
        _mm256_unpackhi_epi64(low[0], low[1]),
        _mm256_unpacklo_epi64(high[0], high[1]),
        _mm256_unpackhi_epi64(high[0], high[1]),
    ]
}

/// Bit `BIT` of each of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn plane<const UP: i32>(bytes: __m256i) -> u32 {
    // Bits that come over from the byte below do not reach the top one.
    _mm256_movemask_epi8(_mm256_slli_epi16::<UP>(bytes)) as u32
}

/// Bits 0 to 7 of each of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn planes(bytes: __m256i) -> [u32; 8] {
    [
        plane::<7>(bytes),
        plane::<6>(bytes),
        plane::<5>(bytes),
        plane::<4>(bytes),
        plane::<3>(bytes),
        plane::<2>(bytes),
        plane::<1>(bytes),
        plane::<0>(bytes),
    ]
}
