//! Decoding: planes to differences for the whole chunk, then the sums that each lag asks for.

// Vectors come from slices through pointers, each bounded by a mask.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::BLOCK;
use super::super::layout::{Form, Sections, plane};
use super::patches::patched;
use super::planes::{short_longs_of, unit_words, words_of};
use super::sums::{Done, Pass, add_earlier, add_earlier_twice};
use super::tile::Tile;
use super::transform::Backward;
use super::vector::{add, lanes, splat};
use crate::cpu::{load512_partial, low_bits, store512};

#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn decode<const B: usize>(sections: &Sections<'_>, raw: &mut [u8]) {
    let header = &sections.header;
    let (words, rest) = raw.as_chunks_mut::<B>();
    rest.copy_from_slice(sections.tail);
    let [a, b] = header.lags;
    let (short, long) = (a.min(b), a.max(b));
    let pass = Pass { sections, words };
    match (short, long) {
        (0, 0) => unpack_offsets(pass),
        (0, lag) => add_earlier::<B, true>(pass, lag, header.base, |differences| differences),
        _ => add_earlier_twice(pass, short, long, header.base),
    }
}

/// Fills `words` with what `change` makes of each vector of differences, given those before.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn unpack<const B: usize>(
    sections: &Sections<'_>,
    words: &mut [[u8; B]],
    mut change: impl FnMut(&Done<B>, __m512i) -> __m512i,
) {
    let mut stored = Stored::of::<B>(sections);
    let (backward, none) = (Backward::<B>::new(&sections.header), splat::<B>(0));
    let mut tile = Tile::new();
    let mut left = words.len();
    let mut place = words.as_mut_ptr();
    let mut done = Done::none_of(place);
    for codes in sections.codes.chunks(tile_units::<B>()) {
        stored.take_units(codes, &backward, none, tile.bytes());
        for index in 0..(left / lanes::<B>()).min(Tile::VECTORS) {
            let changed = change(&done, tile.vector(index));
            // SAFETY: a vector of words is left.
            unsafe {
                _mm512_storeu_si512(place.cast(), changed);
                place = place.add(lanes::<B>());
                done.advance();
            }
        }
        if left < Tile::words::<B>() && !left.is_multiple_of(lanes::<B>()) {
            let changed = change(&done, tile.vector(left / lanes::<B>()));
            let mask = low_bits(left % lanes::<B>() * B);
            // SAFETY: the mask covers the words that are left.
            unsafe { _mm512_mask_storeu_epi8(place.cast(), mask, changed) };
        }
        left = left.saturating_sub(Tile::words::<B>());
    }
}

/// Fills the words of `pass` with differences plus the base.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
fn unpack_offsets<const B: usize>(pass: Pass<'_, B>) {
    let sections = pass.sections;
    let (backward, base) = (Backward::<B>::new(&sections.header), splat::<B>(sections.header.base));
    let mut stored = Stored::of::<B>(sections);
    let (units, rest) = pass.words.split_at_mut(pass.words.len() / unit_words::<B>() * unit_words::<B>());
    let (codes, last_code) = sections.codes.split_at(units.len() / unit_words::<B>());
    stored.take_units(codes, &backward, base, units.as_flattened_mut());
    let mut tile = Tile::new();
    stored.take_units(last_code, &backward, base, tile.bytes());
    let rest = rest.as_flattened_mut();
    rest.copy_from_slice(&tile.bytes()[..rest.len()]);
}

/// Units of a tile.
const fn tile_units<const B: usize>() -> usize {
    Tile::words::<B>() / unit_words::<B>()
}

/// What is left of planes and patches.
struct Stored<'a> {
    low_bits: u32,
    planes: &'a [u8],
    patches: &'a [u8],
}

impl<'a> Stored<'a> {
    const fn of<const B: usize>(sections: &Sections<'a>) -> Self {
        Self { low_bits: sections.header.low_bits, planes: sections.planes, patches: sections.patches }
    }

    /// Fills `to` with the differences of the units with these codes, plus `offset`; it has room for them.
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
    )]
    fn take_units<const B: usize>(
        &mut self,
        codes: &[u8],
        backward: &Backward<B>,
        offset: __m512i,
        to: &mut [u8],
    ) {
        for (&code, unit) in codes.iter().zip(to.chunks_exact_mut(B * unit_words::<B>())) {
            let residuals = self.take::<B>(code);
            for (vector, &residuals) in unit.as_chunks_mut().0.iter_mut().zip(&residuals) {
                store512(vector, add::<B>(backward.differences(residuals), offset));
            }
        }
    }

    /// The residuals of a unit with these codes.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,popcnt,bmi1,bmi2"
    )]
    fn take<const B: usize>(&mut self, code: u8) -> [__m512i; 4] {
        if B == 1 {
            return [self.take_pair(code); 4];
        }
        let form = Form::of_code::<B>(code);
        let (dense, marks) = self.take_planes(form);
        let words = if B == 8 && dense.len() <= 4 * 32 {
            short_longs_of(load_planes::<4>(dense))
        } else {
            words_of::<B>(load_planes::<B>(dense))
        };
        let Form::Patched(patch_len) = form else { return words };
        let patches = self.take_patches(marks.count_ones() as usize * patch_len as usize);
        patched::<B>(words, marks, self.low_bits, patch_len, patches)
    }

    /// The residuals of two blocks of bytes.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,popcnt,bmi1,bmi2"
    )]
    fn take_pair(&mut self, codes: u8) -> __m512i {
        let (low, low_marks) = self.take_planes(Form::of_code::<1>(codes & 15));
        let (high, high_marks) = self.take_planes(Form::of_code::<1>(codes >> 4));
        let [low, high] = [load_dwords(low, 0), load_dwords(high, 0)];
        let planes = _mm512_inserti64x4::<1>(low, _mm512_castsi512_si256(high));
        let [words, ..] = words_of::<1>([planes; 4]);
        let marks = u64::from(low_marks) | u64::from(high_marks) << BLOCK;
        if marks == 0 {
            return words;
        }
        let patches = self.take_patches(marks.count_ones() as usize);
        let high = _mm512_maskz_expand_epi8(marks, load512_partial(patches));
        _mm512_or_si512(words, super::vector::shifted_left::<1>(high, self.low_bits))
    }

    /// The planes of the next block without the one of marks, and that one or zero.
    #[inline]
    fn take_planes(&mut self, form: Form) -> (&'a [u8], u32) {
        let (planes, rest) = self.planes.split_at(4 * form.planes(self.low_bits));
        self.planes = rest;
        match form {
            Form::Planes(_) => (planes, 0),
            Form::Patched(_) => {
                let (dense, marks) = planes.split_at(4 * self.low_bits as usize);
                (dense, plane(marks, 0))
            }
        }
    }

    #[inline]
    fn take_patches(&mut self, len: usize) -> &'a [u8] {
        let (patches, rest) = self.patches.split_at(len);
        self.patches = rest;
        patches
    }
}

/// The planes of a block, zero where there are none.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
fn load_planes<const B: usize>(planes: &[u8]) -> [__m512i; 4] {
    let mut vectors = [_mm512_setzero_si512(); 4];
    for (i, vector) in vectors[..B.div_ceil(2)].iter_mut().enumerate() {
        *vector = load_dwords(planes, i);
    }
    vectors
}

/// Vector `index` of up to 64 words of 32 bits, zeros behind the last.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
fn load_dwords(dwords: &[u8], index: usize) -> __m512i {
    let mask = _bzhi_u64(u64::MAX, dwords.len() as u32 / 4) >> (16 * index);
    // SAFETY: the mask covers words of the slice only; masked-out words are not touched.
    unsafe { _mm512_maskz_loadu_epi32(mask as u16, dwords.as_ptr().wrapping_add(64 * index).cast()) }
}
