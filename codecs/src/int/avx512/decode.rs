//! Decoding, a unit of blocks at a time.

// Vectors come from and go to slices through pointers, each bounded by a mask or a length.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::layout::{Form, Sections, plane};
use super::planes::{unit_words, words_of};
use super::scan::Scan;
use super::transform::Backward;
use super::vector::{add, byte_mask, lanes, load_after, low_bytes, shifted_left, splat, sub};
use crate::cpu::{array_mut, load512_partial, store512, store512_partial};

#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn decode<const B: usize>(sections: &Sections<'_>, raw: &mut [u8]) {
    let header = &sections.header;
    let (words, rest) = raw.as_chunks_mut::<B>();
    rest.copy_from_slice(sections.tail);
    let base = splat::<B>(header.base);
    let [a, b] = header.lags;
    let (short, long, lanes) = (a.min(b), a.max(b), lanes::<B>());
    match (short, long) {
        (0, 0) => run(sections, words, |_, differences| add::<B>(differences, base)),
        (0, lag) if lag < lanes => {
            let mut scan = Scan::<B>::new(lag, base);
            run(sections, words, |_, differences| scan.next(differences));
        }
        (0, lag) => run(sections, words, |done, differences| add::<B>(differences, done.before(lag, base))),
        _ if long < lanes => {
            let (mut outer, mut inner) = (Scan::<B>::new(short, base), Scan::<B>::new(long, splat::<B>(0)));
            run(sections, words, |_, differences| outer.next(inner.next(differences)));
        }
        _ if short < lanes => {
            let (mut scan, mut reached) = (Scan::<B>::new(short, base), base);
            run(sections, words, |done, differences| {
                // Words that both lags reach, without loading what may have been stored only now.
                let words = done.before(long, base);
                let both = scan.shifted(reached, words);
                reached = words;
                scan.next(add::<B>(differences, sub::<B>(words, both)))
            });
        }
        _ => run(sections, words, |done, differences| {
            let both = sub::<B>(done.before(long, base), done.before(short + long, base));
            add::<B>(differences, add::<B>(done.before(short, base), both))
        }),
    }
}

/// The words that have been decoded so far.
struct Done<const B: usize> {
    words: *const [u8; B],
    len: usize,
}

impl<const B: usize> Done<B> {
    /// The words `lag` before the next ones, `base` before the first; `lag` is a vector of words or more.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn before(&self, lag: usize, base: __m512i) -> __m512i {
        debug_assert!(lag >= lanes::<B>());
        if lag <= self.len {
            // SAFETY: `run` has written `len` words, and this vector ends with them or earlier.
            return unsafe { _mm512_loadu_si512(self.words.add(self.len - lag).cast()) };
        }
        // SAFETY: likewise; what lies before the first word is masked out.
        unsafe { load_after::<B>(self.words, self.len, lag, base) }
    }
}

/// Decodes all blocks; `undo` turns differences to words, given the words before.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
fn run<const B: usize>(
    sections: &Sections<'_>,
    words: &mut [[u8; B]],
    mut undo: impl FnMut(&Done<B>, __m512i) -> __m512i,
) {
    let header = &sections.header;
    let backward = Backward::<B>::new(header);
    let mut stored = Stored { low_bits: header.low_bits, planes: sections.planes, patches: sections.patches };
    let mut codes = sections.codes.iter();
    let mut done = Done { words: words.as_ptr(), len: 0 };
    let mut units = words.chunks_exact_mut(unit_words::<B>());
    for (unit, &code) in units.by_ref().zip(codes.by_ref()) {
        let residuals = stored.take::<B>(code);
        for (words, &residuals) in unit.chunks_exact_mut(lanes::<B>()).zip(&residuals) {
            let next = undo(&done, backward.differences(residuals));
            store512(array_mut(words.as_flattened_mut()), next);
            done.len += lanes::<B>();
        }
    }
    if let Some(&code) = codes.next() {
        let residuals = stored.take::<B>(code);
        for (words, &residuals) in units.into_remainder().chunks_mut(lanes::<B>()).zip(&residuals) {
            let next = undo(&done, backward.differences(residuals));
            store512_partial(words.as_flattened_mut(), next);
            done.len += words.len();
        }
    }
}

/// What is left of planes and patches.
struct Stored<'a> {
    low_bits: u32,
    planes: &'a [u8],
    patches: &'a [u8],
}

impl<'a> Stored<'a> {
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
        let planes = self.take_planes(form);
        let Form::Patched(patch_len) = form else {
            return words_of::<B>(load_planes::<B>(planes));
        };
        let (dense, marks) = self.split_marks(planes);
        let mut words = words_of::<B>(load_planes::<B>(dense));
        for (i, words) in words[..32 / lanes::<B>()].iter_mut().enumerate() {
            let marks = u64::from(marks) >> (i * lanes::<B>()) & u64::MAX >> (64 - lanes::<B>());
            *words = self.patched::<B>(*words, marks, patch_len);
        }
        words
    }

    /// The residuals of two blocks of bytes.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,popcnt,bmi1,bmi2"
    )]
    fn take_pair(&mut self, codes: u8) -> __m512i {
        let mut halves = [_mm256_setzero_si256(); 2];
        let mut marks = 0;
        for (i, code) in [codes & 15, codes >> 4].into_iter().enumerate() {
            let form = Form::of_code::<1>(code);
            let mut planes = self.take_planes(form);
            if let Form::Patched(_) = form {
                let (dense, marked) = self.split_marks(planes);
                planes = dense;
                marks |= u64::from(marked) << (32 * i);
            }
            halves[i] = _mm512_castsi512_si256(load_dwords(planes, 0));
        }
        let planes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1]);
        let [words, ..] = words_of::<1>([planes; 4]);
        if marks == 0 { words } else { self.patched::<1>(words, marks, 1) }
    }

    /// The planes of the next block.
    #[inline]
    fn take_planes(&mut self, form: Form) -> &'a [u8] {
        let (planes, rest) = self.planes.split_at(4 * form.planes(self.low_bits));
        self.planes = rest;
        planes
    }

    /// The planes of a patched block without the last, and that one.
    #[inline]
    fn split_marks(&self, planes: &'a [u8]) -> (&'a [u8], u32) {
        let (dense, marks) = planes.split_at(4 * self.low_bits as usize);
        (dense, plane(marks, 0))
    }

    /// `words` with the next patches above the low bits of the marked ones.
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512dq,popcnt,bmi1,bmi2")]
    fn patched<const B: usize>(&mut self, words: __m512i, marks: u64, patch_len: u32) -> __m512i {
        let mask = byte_mask::<B>(marks) & low_bytes::<B>(patch_len);
        let (patches, rest) = self.patches.split_at(mask.count_ones() as usize);
        self.patches = rest;
        let high = _mm512_maskz_expand_epi8(mask, load512_partial(patches));
        _mm512_or_si512(words, shifted_left::<B>(high, self.low_bits))
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
