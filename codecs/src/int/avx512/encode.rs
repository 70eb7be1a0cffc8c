//! Encoding: a tile of residuals, then its blocks.

// Vectors go to the coded bytes through pointers; their room is checked once.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::header::Header;
use super::super::layout::{most_patch_bytes, planes_offset, room, staging_offset};
use super::forms::{Forms, Limits};
use super::patches::store_patches;
use super::plan::choose;
use super::planes::{planes_of, planes_of_short_longs, unit_words};
use super::residuals::Residuals;
use super::tile::Tile;
use super::vector::{lanes, shifted_right};
use crate::cpu::Avx512;

#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn encode<const B: usize>(cpu: Avx512, raw: &[u8], coded: &mut [u8]) -> usize {
    assert!(coded.len() >= room::<B>(raw.len()), "{} bytes of room", coded.len());
    let (words, tail) = raw.as_chunks::<B>();
    let header = choose(cpu, words);
    let planes_offset = planes_offset::<B>(words.len());
    coded[..planes_offset].fill(0);
    header.write::<B>(coded);
    let staging = staging_offset::<B>(raw.len());
    let mut out = Output {
        coded: coded.as_mut_ptr(),
        codes: Header::len::<B>(),
        planes: planes_offset,
        patches: staging,
    };
    // SAFETY: `coded` has the room.
    unsafe { store_all::<B>(&header, words, &mut out) };
    let Output { planes, patches, .. } = out;
    coded.copy_within(staging..patches, planes);
    let len = planes + (patches - staging);
    coded[len..len + tail.len()].copy_from_slice(tail);
    len + tail.len()
}

/// The length of the code of `raw`.
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn len<const B: usize>(cpu: Avx512, raw: &[u8]) -> usize {
    let (words, tail) = raw.as_chunks::<B>();
    let header = choose(cpu, words);
    let residuals = Residuals::new(&header, words);
    let mut limits = Limits::new::<B>(header.low_bits, most_patch_bytes(B * words.len()));
    let (mut tile, mut forms) = (Tile::new(), Forms::new());
    let mut data_len = 0;
    for start in (0..words.len()).step_by(Tile::words::<B>()) {
        residuals.fill(&mut tile, start);
        forms.take::<B>(&tile, &mut limits);
        data_len += 4 * forms.planes + forms.patch_bytes;
    }
    planes_offset::<B>(words.len()) + data_len + tail.len()
}

/// Where the parts of a chunk go on.
struct Output {
    coded: *mut u8,
    codes: usize,
    planes: usize,
    patches: usize,
}

/// Writes all blocks.
///
/// Each tile is made before the one ahead of it is written, so that neither waits for the other's last step.
///
/// # Safety
/// `out` must have room for them as [`room`] says.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
unsafe fn store_all<const B: usize>(header: &Header, words: &[[u8; B]], out: &mut Output) {
    let residuals = Residuals::new(header, words);
    let mut limits = Limits::new::<B>(header.low_bits, most_patch_bytes(B * words.len()));
    let (mut tiles, mut forms) = ([const { Tile::new() }; 2], Forms::new());
    if words.is_empty() {
        return;
    }
    let [mut tile, mut next] = tiles.each_mut();
    residuals.fill(tile, 0);
    forms.take::<B>(tile, &mut limits);
    for start in (0..words.len()).step_by(Tile::words::<B>()) {
        let next_start = start + Tile::words::<B>();
        if next_start < words.len() {
            residuals.fill(next, next_start);
        }
        let units = (words.len() - start).min(Tile::words::<B>()).div_ceil(unit_words::<B>());
        // SAFETY: the caller's word, for all units.
        unsafe { out.store::<B>(tile, &forms, units, header.low_bits) };
        if next_start < words.len() {
            forms.take::<B>(next, &mut limits);
        }
        std::mem::swap(&mut tile, &mut next);
    }
}

/// The vectors of unit `index` of a tile.
#[inline]
#[target_feature(enable = "avx512bw")]
fn tile_unit<const B: usize>(tile: &Tile, index: usize) -> [__m512i; 4] {
    let mut unit = [_mm512_setzero_si512(); 4];
    let vectors = unit_words::<B>() / lanes::<B>();
    for (i, vector) in unit[..vectors].iter_mut().enumerate() {
        *vector = tile.vector(index * vectors + i);
    }
    unit
}

impl Output {
    /// Writes the first `units` units of a tile.
    ///
    /// # Safety
    /// There must be room for them as [`room`] says.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
    )]
    unsafe fn store<const B: usize>(&mut self, tile: &Tile, forms: &Forms, units: usize, low_bits: u32) {
        // SAFETY: the caller's word; there is room for a code of each unit, and all patches and an overshoot fit
        // behind the staging offset.
        unsafe {
            self.coded.add(self.codes).copy_from_nonoverlapping(forms.codes.as_ptr(), units);
            let planes = self.coded.add(self.planes);
            let patches = self.coded.add(self.patches);
            if B == 1 {
                store_pairs(tile, forms, units, low_bits, planes, patches);
            } else {
                match forms.most_dense {
                    0 => store_blocks::<B, 0>(tile, forms, units, planes),
                    1..=16 => store_blocks::<B, 1>(tile, forms, units, planes),
                    17..=32 => store_blocks::<B, 2>(tile, forms, units, planes),
                    _ => store_blocks::<B, 4>(tile, forms, units, planes),
                }
                store_all_patches::<B>(tile, forms, low_bits, patches);
            }
        }
        self.codes += units;
        self.planes += 4 * forms.planes;
        self.patches += forms.patch_bytes;
    }
}

/// Writes `N` vectors of planes of each of the first `blocks` blocks, which are enough for all, and then the marks
/// behind those planes that are used: if a block is not patched, the next one overwrites its marks.
///
/// # Safety
/// There must be room for them and for those of another block.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
unsafe fn store_blocks<const B: usize, const N: usize>(
    tile: &Tile,
    forms: &Forms,
    blocks: usize,
    to: *mut u8,
) {
    for block in 0..blocks {
        let unit = tile_unit::<B>(tile, block);
        let planes = if B == 8 && N <= 2 { planes_of_short_longs(unit) } else { planes_of::<B>(unit) };
        // SAFETY: the caller's word.
        unsafe {
            let place = to.add(4 * forms.starts.of(block) as usize);
            for (i, &vector) in planes[..N.min(B / 2)].iter().enumerate() {
                _mm512_storeu_si512(place.add(64 * i).cast(), vector);
            }
            to.add(4 * forms.marks_at.of(block) as usize)
                .cast::<u32>()
                .write_unaligned(forms.marks.of(block));
        }
    }
}

/// Writes the high bits of the marked residuals of all patched blocks.
///
/// # Safety
/// There must be room for them, and 256 bytes.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
unsafe fn store_all_patches<const B: usize>(tile: &Tile, forms: &Forms, low_bits: u32, to: *mut u8) {
    let (mut left, mut place) = (forms.patched, to);
    while left != 0 {
        let block = left.trailing_zeros() as usize;
        left &= left - 1;
        let unit = tile_unit::<B>(tile, block);
        // SAFETY: the caller's word.
        unsafe {
            let len =
                store_patches::<B>(unit, forms.marks.of(block), low_bits, forms.patch_lens.of(block), place);
            place = place.add(len);
        }
    }
}

/// Writes planes and patches of blocks of bytes, two at a time; the last one of a chunk may be empty.
///
/// # Safety
/// There must be room for them, and for a vector more of either.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
unsafe fn store_pairs(
    tile: &Tile,
    forms: &Forms,
    pairs: usize,
    low_bits: u32,
    planes_to: *mut u8,
    patches_to: *mut u8,
) {
    let mut place = patches_to;
    for pair in 0..pairs {
        let words = tile.vector(pair);
        let [planes, ..] = planes_of::<1>([words; 4]);
        let halves = [_mm512_castsi512_si256(planes), _mm512_extracti64x4_epi64::<1>(planes)];
        for (block, planes) in (2 * pair..).zip(halves) {
            // SAFETY: the caller's word.
            unsafe {
                _mm256_storeu_si256(planes_to.add(4 * forms.starts.of(block) as usize).cast(), planes);
                let marks_to = planes_to.add(4 * forms.marks_at.of(block) as usize);
                marks_to.cast::<u32>().write_unaligned(forms.marks.of(block));
            }
        }
        let marks = forms.patched_marks.of_pair(pair);
        let patches = _mm512_maskz_compress_epi8(marks, shifted_right::<1>(words, low_bits));
        // SAFETY: as above.
        unsafe {
            _mm512_storeu_si512(place.cast(), patches);
            place = place.add(marks.count_ones() as usize);
        }
    }
}
