//! Encoding, a unit of blocks at a time.

// Vectors go to the coded bytes through pointers; their room is checked once.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::header::Header;
use super::super::layout::{Form, most_patch_bytes, planes_offset, room, staging_offset};
use super::super::plan::residual;
use super::super::word::word_bytes;
use super::plan::choose;
use super::planes::{planes_of, unit_blocks, unit_words};
use super::transform::Forward;
use super::vector::{Words, byte_mask, greater, lanes, low_bytes, shifted_right, splat, sub};
use crate::cpu::load512;

#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn encode<const B: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    assert!(coded.len() >= room::<B>(raw.len()), "{} bytes of room", coded.len());
    let (words, tail) = raw.as_chunks::<B>();
    let header = choose(words);
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
pub(super) fn len<const B: usize>(raw: &[u8]) -> usize {
    let (words, tail) = raw.as_chunks::<B>();
    let header = choose(words);
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
    let units = Units {
        low_bits: header.low_bits,
        limit: splat::<B>((1 << header.low_bits) - 1),
        most_patch_bytes: most_patch_bytes(B * words.len()),
    };
    let residuals =
        Residuals { source: Words::new(words, header.base), transform: Forward::new(header), header };
    let whole = words.len() / unit_words::<B>() * unit_words::<B>();
    for start in (0..whole).step_by(unit_words::<B>()) {
        // SAFETY: a whole unit of words starts here.
        let unit = unsafe { residuals.unit(start) };
        // SAFETY: `out` has room for all units.
        unsafe { units.code::<B, STORE>(unit, unit_blocks::<B>(), out) };
    }
    if whole < words.len() {
        let unit = last_unit(header, words, whole);
        let blocks = (words.len() - whole).div_ceil(super::super::BLOCK);
        // SAFETY: as above.
        unsafe { units.code::<B, STORE>(unit, blocks, out) };
    }
}

/// The residuals of the words from `start` on, fewer than a unit, and zeros.
#[inline]
#[target_feature(enable = "avx512bw")]
fn last_unit<const B: usize>(header: &Header, words: &[[u8; B]], start: usize) -> [__m512i; 4] {
    let mut bytes = [[0; 64]; 4];
    let places = bytes.as_flattened_mut().as_chunks_mut::<B>().0;
    for (index, place) in (start..words.len()).zip(places) {
        *place = word_bytes(residual(header, words, index));
    }
    [0, 1, 2, 3].map(|i| load512(&bytes[i]))
}

/// Makes residuals of words.
struct Residuals<'a, const B: usize> {
    source: Words<'a, B>,
    transform: Forward<B>,
    header: &'a Header,
}

impl<const B: usize> Residuals<'_, B> {
    /// Those of the unit that starts at `start`.
    ///
    /// # Safety
    /// A whole unit must lie there.
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    unsafe fn unit(&self, start: usize) -> [__m512i; 4] {
        let mut unit = [_mm512_setzero_si512(); 4];
        for (i, vector) in unit[..unit_words::<B>() / lanes::<B>()].iter_mut().enumerate() {
            // SAFETY: the vectors of a whole unit lie in it.
            *vector = self.transform.residuals(unsafe { self.differences(start + i * lanes::<B>()) });
        }
        unit
    }

    /// # Safety
    /// A vector of words must lie at `index`.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    unsafe fn differences(&self, index: usize) -> __m512i {
        let source = &self.source;
        // SAFETY: the caller's word.
        unsafe {
            let words = source.at(index);
            match self.header.lags {
                [0, 0] => sub::<B>(words, source.base()),
                [lag, 0] | [0, lag] => sub::<B>(words, source.before(index, lag)),
                [a, b] => {
                    let once = sub::<B>(words, source.before(index, a));
                    let before = sub::<B>(source.before(index, b), source.before(index, a + b));
                    sub::<B>(once, before)
                }
            }
        }
    }
}

/// Codes units of residuals.
struct Units {
    low_bits: u32,
    /// The largest residual that needs no patch.
    limit: __m512i,
    most_patch_bytes: usize,
}

impl Units {
    /// Codes the first `blocks` blocks of a unit.
    ///
    /// # Safety
    /// If `STORE`, `out` must have room for them as [`room`] says.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
    )]
    unsafe fn code<const B: usize, const STORE: bool>(
        &self,
        unit: [__m512i; 4],
        blocks: usize,
        out: &mut Output,
    ) {
        let planes = planes_of::<B>(unit);
        let used = used_planes::<B>(planes);
        let marks = self.marks::<B>(unit);
        let mut codes = 0;
        for block in 0..blocks {
            let (longest, marks, planes) = if B == 1 {
                let used = used >> (8 * block) & 0xff;
                let planes =
                    if block == 0 { planes } else { [_mm512_maskz_compress_epi64(0xf0, planes[0]); 4] };
                (64 - used.leading_zeros(), (marks >> (32 * block)) as u32, planes)
            } else {
                (64 - used.leading_zeros(), marks as u32, planes)
            };
            let form = self.form(longest, marks, out);
            codes |= form.code::<B>() << (4 * block);
            if STORE {
                // SAFETY: the caller's word.
                unsafe {
                    store_planes::<B>(planes, out);
                    if let Form::Patched(patch_len) = form {
                        let place = out.coded.add(out.planes + 4 * self.low_bits as usize);
                        place.cast::<u32>().write_unaligned(marks);
                        self.store_patches::<B>(unit, block, marks, patch_len, out);
                    }
                }
            } else if let Form::Patched(patch_len) = form {
                out.patches += (marks.count_ones() * patch_len) as usize;
            }
            out.planes += 4 * form.planes(self.low_bits);
        }
        if STORE {
            // SAFETY: there is a code for each unit.
            unsafe { *out.coded.add(out.codes) = codes };
            out.codes += 1;
        }
    }

    /// A bit for each residual of the unit: whether it is longer than the low bits.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn marks<const B: usize>(&self, unit: [__m512i; 4]) -> u64 {
        let mut marks = 0;
        for (i, &vector) in unit[..unit_words::<B>() / lanes::<B>()].iter().enumerate() {
            marks |= greater::<B>(vector, self.limit) << (i * lanes::<B>());
        }
        marks
    }

    #[inline]
    #[target_feature(enable = "avx512bw,popcnt")]
    fn form(&self, longest: u32, marks: u32, out: &mut Output) -> Form {
        let (form, patch_bytes) = Form::cheapest(longest, self.low_bits, marks.count_ones());
        out.patch_bytes += patch_bytes as usize;
        if out.patch_bytes <= self.most_patch_bytes { form } else { Form::Planes(longest) }
    }

    /// Appends the high bits of the marked residuals of block `block` of a unit.
    ///
    /// # Safety
    /// `out` must have room as [`room`] says.
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512dq,popcnt")]
    unsafe fn store_patches<const B: usize>(
        &self,
        unit: [__m512i; 4],
        block: usize,
        marks: u32,
        patch_len: u32,
        out: &mut Output,
    ) {
        let marks = u64::from(marks) << (32 * block);
        for (i, &vector) in unit[..unit_words::<B>() / lanes::<B>()].iter().enumerate() {
            let marks = marks >> (i * lanes::<B>()) & u64::MAX >> (64 - lanes::<B>());
            let mask = byte_mask::<B>(marks) & low_bytes::<B>(patch_len);
            let high = shifted_right::<B>(vector, self.low_bits);
            let packed = _mm512_maskz_compress_epi8(mask, high);
            // SAFETY: patches of all blocks fit behind the staging offset, and a vector's overshoot behind them.
            unsafe { _mm512_storeu_si512(out.coded.add(out.patches).cast(), packed) };
            out.patches += mask.count_ones() as usize;
        }
    }
}

/// A bit for each plane that is not zero; of two blocks, the second one's from bit 8 on.
#[inline]
#[target_feature(enable = "avx512bw")]
fn used_planes<const B: usize>(planes: [__m512i; 4]) -> u64 {
    let [a, b, c, d] = planes.map(|planes| u64::from(_mm512_test_epi32_mask(planes, planes)));
    match B {
        1 | 2 => a,
        4 => a | b << 16,
        _ => a | b << 16 | c << 32 | d << 48,
    }
}

/// Writes all planes of a block, used or not.
///
/// # Safety
/// `out` must have room for them.
#[inline]
#[target_feature(enable = "avx512bw")]
unsafe fn store_planes<const B: usize>(planes: [__m512i; 4], out: &mut Output) {
    for (i, &vector) in planes[..B.div_ceil(2)].iter().enumerate() {
        // SAFETY: the caller's word: the planes of a block of bytes are half a vector, which overshoots.
        unsafe { _mm512_storeu_si512(out.coded.add(out.planes + 64 * i).cast(), vector) };
    }
}
