//! Encoding, a block at a time.

// Planes go to the coded bytes through pointers; their room is checked once.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::BLOCK;
use super::super::header::Header;
use super::super::layout::{Form, most_patch_bytes, planes_offset, room, staging_offset};
use super::super::word::bit_len;
use super::patches::{store_bytes, store_patches};
use super::plan::choose;
use super::planes::{Block, store_planes};
use super::residuals::{Residuals, Tile};
use super::vector::{equal, mask_bits, or_of, shifted_right};
use crate::cpu::Avx2;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn encode<const B: usize>(cpu: Avx2, raw: &[u8], coded: &mut [u8]) -> usize {
    assert!(coded.len() >= room::<B>(raw.len()), "{} bytes of room", coded.len());
    let (words, tail) = raw.as_chunks::<B>();
    let header = choose(cpu, words);
    let planes_offset = planes_offset::<B>(words.len());
    coded[..planes_offset].fill(0);
    header.write::<B>(coded);
    let staging = staging_offset::<B>(raw.len());
    let mut out =
        Output { coded: coded.as_mut_ptr(), planes: planes_offset, patches: staging, patch_bytes: 0 };
    // SAFETY: `coded` has the room, and zeros where codes go.
    unsafe { run::<B, true>(&header, words, &mut out) };
    let Output { planes, patches, .. } = out;
    coded.copy_within(staging..patches, planes);
    let len = planes + (patches - staging);
    coded[len..len + tail.len()].copy_from_slice(tail);
    len + tail.len()
}

/// The length of the code of `raw`.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn len<const B: usize>(cpu: Avx2, raw: &[u8]) -> usize {
    let (words, tail) = raw.as_chunks::<B>();
    let header = choose(cpu, words);
    let planes = planes_offset::<B>(words.len());
    let mut out = Output { coded: std::ptr::null_mut(), planes, patches: 0, patch_bytes: 0 };
    // SAFETY: nothing is written.
    unsafe { run::<B, false>(&header, words, &mut out) };
    out.planes + out.patches + tail.len()
}

/// Where the parts of a chunk go on; nothing is written if only their lengths are asked for.
struct Output {
    coded: *mut u8,
    planes: usize,
    patches: usize,
    /// Bytes of all patches that blocks have wanted.
    patch_bytes: usize,
}

/// Codes all blocks; `STORE`: writes them.
///
/// # Safety
/// If `STORE`, `out` must have room for them as [`room`] says, and zeros where codes go.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn run<const B: usize, const STORE: bool>(header: &Header, words: &[[u8; B]], out: &mut Output) {
    let residuals = Residuals::new(header, words);
    let most_patch_bytes = most_patch_bytes(B * words.len());
    let mut tile = Tile::new();
    for start in (0..words.len()).step_by(Tile::words::<B>()) {
        residuals.fill(&mut tile, start);
        let here = (words.len() - start).min(Tile::words::<B>());
        for first in (0..here).step_by(BLOCK) {
            let index = (start + first) / BLOCK;
            // SAFETY: the caller's word, for all blocks and their codes.
            unsafe {
                let code = code_block::<B, STORE>(header.low_bits, &tile, first, most_patch_bytes, out);
                if STORE && B == 1 {
                    *out.coded.add(Header::len::<B>() + index / 2) |= code << (4 * (index % 2));
                } else if STORE {
                    *out.coded.add(Header::len::<B>() + index) = code;
                }
            }
        }
    }
}

/// Codes the block that starts with word `first` of a tile and returns its code.
///
/// # Safety
/// If `STORE`, `out` must have room for it as [`room`] says.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn code_block<const B: usize, const STORE: bool>(
    low_bits: u32,
    tile: &Tile,
    first: usize,
    most_patch_bytes: usize,
    out: &mut Output,
) -> u8 {
    let block = &tile.block::<B>(first);
    let mut any = block[0];
    for &vector in &block[1..B] {
        any = _mm256_or_si256(any, vector);
    }
    let longest = bit_len(or_of::<B>(any));
    let marks = if longest > low_bits { marks::<B>(block, low_bits) } else { 0 };
    let (mut form, patch_bytes) = Form::cheapest(longest, low_bits, marks.count_ones());
    out.patch_bytes += patch_bytes as usize;
    if out.patch_bytes > most_patch_bytes {
        form = Form::Planes(longest);
    }
    // SAFETY: the caller's word. Marks lie behind planes that have just been stored, or among them; patches of all
    // blocks fit behind the staging offset, and an overshoot behind them.
    unsafe {
        if let Form::Patched(patch_len) = form {
            if STORE {
                let to = out.coded.add(out.planes);
                store_planes::<B>(block, low_bits as usize, to);
                to.add(4 * low_bits as usize).cast::<u32>().write_unaligned(marks);
                let place = out.coded.add(out.patches);
                if patch_len == 1 {
                    store_bytes::<B>(block, marks, low_bits, place);
                } else {
                    let words = tile.block_words::<B>(first);
                    store_patches(words, marks, low_bits, patch_len as usize, place);
                }
            }
            out.patches += patch_bytes as usize;
        } else if STORE {
            store_planes::<B>(block, longest as usize, out.coded.add(out.planes));
        }
    }
    out.planes += 4 * form.planes(low_bits);
    form.code::<B>()
}

/// A bit for each word of a block: whether it is longer than `low_bits`.
#[inline]
#[target_feature(enable = "avx2")]
fn marks<const B: usize>(block: &Block, low_bits: u32) -> u32 {
    let mut short = *block;
    for vector in &mut short[..B] {
        *vector = equal::<B>(shifted_right::<B>(*vector, low_bits), _mm256_setzero_si256());
    }
    !mask_bits::<B>(&short)
}
