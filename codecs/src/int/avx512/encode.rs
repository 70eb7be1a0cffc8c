//! Encoding: a tile of residuals, then its blocks.

// Vectors go to the coded bytes through pointers; their room is checked once.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::BLOCK;
use super::super::header::Header;
use super::super::layout::{Form, most_patch_bytes, planes_offset, room, staging_offset};
use super::patches::store_patches;
use super::plan::choose;
use super::planes::{planes_of, unit_blocks, unit_words};
use super::residuals::Residuals;
use super::tile::Tile;
use super::vector::{greater, lanes, shifted_right, splat};
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
        patch_bytes: 0,
    };
    run::<B, true>(&header, words, &mut out);
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
    let planes = planes_offset::<B>(words.len());
    let mut out = Output { coded: std::ptr::null_mut(), codes: 0, planes, patches: 0, patch_bytes: 0 };
    run::<B, false>(&header, words, &mut out);
    out.planes + out.patches + tail.len()
}

/// Where the parts of a chunk go on; nothing is written if only their lengths are asked for.
struct Output {
    coded: *mut u8,
    codes: usize,
    planes: usize,
    patches: usize,
    /// Bytes of all patches that blocks have wanted.
    patch_bytes: usize,
}

/// Codes all blocks; `STORE`: writes them, for which `out` must have room as [`room`] says.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
fn run<const B: usize, const STORE: bool>(header: &Header, words: &[[u8; B]], out: &mut Output) {
    let blocks = Blocks {
        low_bits: header.low_bits,
        limit: splat::<B>((1 << header.low_bits) - 1),
        most_patch_bytes: most_patch_bytes(B * words.len()),
    };
    let residuals = Residuals::new(header, words);
    let mut tile = Tile::new();
    for start in (0..words.len()).step_by(Tile::words::<B>()) {
        residuals.fill(&mut tile, start);
        let end = words.len().min(start + Tile::words::<B>());
        for unit in (start..end).step_by(unit_words::<B>()) {
            let here = (end - unit).div_ceil(BLOCK).min(unit_blocks::<B>());
            // SAFETY: `out` has room for all units.
            unsafe { blocks.code_unit::<B, STORE>(tile_unit::<B>(&tile, unit), here, out) };
        }
    }
}

/// The vectors of the unit that starts with word `start` of the chunk.
#[inline]
#[target_feature(enable = "avx512bw")]
fn tile_unit<const B: usize>(tile: &Tile, start: usize) -> [__m512i; 4] {
    let mut unit = [_mm512_setzero_si512(); 4];
    for (i, vector) in unit[..unit_words::<B>() / lanes::<B>()].iter_mut().enumerate() {
        *vector = tile.vector(start / lanes::<B>() + i);
    }
    unit
}

/// What there is to know for the blocks of a chunk.
struct Blocks {
    low_bits: u32,
    /// The largest residual that needs no patch.
    limit: __m512i,
    most_patch_bytes: usize,
}

impl Blocks {
    /// Codes the first `blocks` blocks of a unit.
    ///
    /// # Safety
    /// If `STORE`, `out` must have room for them as [`room`] says.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
    )]
    unsafe fn code_unit<const B: usize, const STORE: bool>(
        &self,
        unit: [__m512i; 4],
        blocks: usize,
        out: &mut Output,
    ) {
        let planes = planes_of::<B>(unit);
        // SAFETY: the caller's word.
        let codes = unsafe {
            if B > 1 {
                self.code_block::<B, STORE>(planes, unit, out)
            } else {
                let low = self.code_block::<1, STORE>(planes, unit, out);
                if blocks == 1 {
                    low
                } else {
                    let [planes, unit] = [upper_half(planes[0]), upper_half(unit[0])];
                    low | self.code_block::<1, STORE>([planes; 4], [unit; 4], out) << 4
                }
            }
        };
        if STORE {
            // SAFETY: there is room for a code of each unit.
            unsafe { *out.coded.add(out.codes) = codes };
            out.codes += 1;
        }
    }

    /// Codes a block; one of bytes is the lower half of `planes` and `unit`.
    ///
    /// # Safety
    /// As above.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
    )]
    unsafe fn code_block<const B: usize, const STORE: bool>(
        &self,
        planes: [__m512i; 4],
        unit: [__m512i; 4],
        out: &mut Output,
    ) -> u8 {
        let longest = 64 - used_planes::<B>(planes).leading_zeros();
        let marks = self.marks::<B>(unit);
        let (mut form, patch_bytes) = Form::cheapest(longest, self.low_bits, marks.count_ones());
        out.patch_bytes += patch_bytes as usize;
        if out.patch_bytes > self.most_patch_bytes {
            form = Form::Planes(longest);
        }
        if STORE {
            // SAFETY: the caller's word.
            unsafe { store_planes::<B>(planes, out) };
        }
        if let Form::Patched(patch_len) = form {
            if STORE {
                // SAFETY: the marks lie behind planes that have just been stored, or among them. Patches of all blocks
                // fit behind the staging offset, and an overshoot behind them.
                unsafe {
                    let place = out.coded.add(out.planes + 4 * self.low_bits as usize);
                    place.cast::<u32>().write_unaligned(marks);
                    self.store_patches::<B>(unit, marks, patch_len, out.coded.add(out.patches));
                }
            }
            out.patches += patch_bytes as usize;
        }
        out.planes += 4 * form.planes(self.low_bits);
        form.code::<B>()
    }

    /// Writes the high bits of the marked residuals of a block.
    ///
    /// # Safety
    /// There must be room for them, and 256 bytes, at `to`.
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512dq,avx512vl,popcnt")]
    unsafe fn store_patches<const B: usize>(
        &self,
        unit: [__m512i; 4],
        marks: u32,
        patch_len: u32,
        to: *mut u8,
    ) {
        // SAFETY: the caller's word.
        unsafe {
            if B == 1 {
                let high = _mm512_castsi512_si256(shifted_right::<1>(unit[0], self.low_bits));
                _mm256_storeu_si256(to.cast(), _mm256_maskz_compress_epi8(marks, high));
            } else {
                store_patches::<B>(unit, marks, self.low_bits, patch_len, to);
            }
        }
    }

    /// A bit for each residual of a block: whether it is longer than the low bits.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl")]
    fn marks<const B: usize>(&self, unit: [__m512i; 4]) -> u32 {
        if B == 1 {
            let [bytes, limit] = [_mm512_castsi512_si256(unit[0]), _mm512_castsi512_si256(self.limit)];
            return _mm256_cmpgt_epu8_mask(bytes, limit);
        }
        let mut marks = 0;
        for (i, &vector) in unit[..B / 2].iter().enumerate() {
            marks |= (greater::<B>(vector, self.limit) as u32) << (i * lanes::<B>());
        }
        marks
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn upper_half(vector: __m512i) -> __m512i {
    _mm512_castsi256_si512(_mm512_extracti64x4_epi64::<1>(vector))
}

/// A bit for each plane of a block that is not zero.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn used_planes<const B: usize>(planes: [__m512i; 4]) -> u64 {
    if B == 1 {
        let planes = _mm512_castsi512_si256(planes[0]);
        return u64::from(_mm256_test_epi32_mask(planes, planes));
    }
    let mut used = 0;
    for (i, &planes) in planes[..B / 2].iter().enumerate() {
        used |= u64::from(_mm512_test_epi32_mask(planes, planes)) << (16 * i);
    }
    used
}

/// Writes all planes of a block, used or not.
///
/// # Safety
/// `out` must have room for them.
#[inline]
#[target_feature(enable = "avx512bw")]
unsafe fn store_planes<const B: usize>(planes: [__m512i; 4], out: &mut Output) {
    // SAFETY: the caller's word.
    unsafe {
        let place = out.coded.add(out.planes);
        if B == 1 {
            _mm256_storeu_si256(place.cast(), _mm512_castsi512_si256(planes[0]));
        } else {
            for (i, &vector) in planes[..B / 2].iter().enumerate() {
                _mm512_storeu_si512(place.add(64 * i).cast(), vector);
            }
        }
    }
}
