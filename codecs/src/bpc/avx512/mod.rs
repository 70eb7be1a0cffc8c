//! BPC with AVX-512: planes by byte permutes and 8×8 bit transposes, kinds by compares, codes joined in lanes.
//!
//! The 32 planes below plane 32 are two vectors of 16, in the order of their codes: planes 31 to 16, 15 to 0.

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
use crate::{Avx512, ChunkError};

pub(super) fn encode(_: Avx512, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_entries(raw, coded) }
}

pub(super) fn chunk_len(_: Avx512, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { count_entries(raw) }
}

pub(super) fn decode(_: Avx512, sections: &Sections<'_>, raw: &mut [u8]) -> Result<(), ChunkError> {
    // SAFETY: as above.
    unsafe { decode_entries(sections, raw) }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt"
)]
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

#[target_feature(
    enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt"
)]
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

#[target_feature(
    enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt"
)]
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

/// The numbers 0 to 15.
#[inline]
#[target_feature(enable = "avx512f")]
fn iota() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

/// Transposes each 64-bit lane, as eight rows of eight bits, the last row first.
#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn transpose8(rows: __m512i) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64), rows)
}
