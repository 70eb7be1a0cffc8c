//! Differences to words, in place: every word plus the one a lag before it.

// Vectors are loaded and stored through pointers inside one slice.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::vector::{add, after, lanes, splat};
use crate::cpu::{load256, store256};

/// Adds to each word the word `lag` before it, which has been changed itself; `before` lies before the first.
#[target_feature(enable = "avx2")]
pub(super) fn add_before<const B: usize>(words: &mut [[u8; B]], lag: usize, before: u64) {
    let before = splat::<B>(before);
    if lag == 1 {
        let mut carry = before;
        each_vector(words, |_, differences| {
            let words = add::<B>(sums_of::<B>(differences), carry);
            carry = last_splat::<B>(words);
            words
        });
    } else if lag < lanes::<B>() {
        let mut scan = Scan::<B>::new(lag, before);
        each_vector(words, |_, differences| scan.next(differences));
    } else {
        each_vector(words, |done: &[[u8; B]], differences| {
            let reached = match done.len().checked_sub(lag) {
                // SAFETY: the lag is a vector or more, so this one lies in what is done.
                Some(index) => unsafe { _mm256_loadu_si256(done.as_ptr().add(index).cast()) },
                None => after::<B>(before, lag - done.len(), done),
            };
            add::<B>(differences, reached)
        });
    }
}

/// Each word plus all those before it in the vector.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of<const B: usize>(words: __m256i) -> __m256i {
    let mut sums = words;
    if B <= 1 {
        sums = add::<B>(sums, _mm256_slli_si256::<1>(sums));
    }
    if B <= 2 {
        sums = add::<B>(sums, _mm256_slli_si256::<2>(sums));
    }
    if B <= 4 {
        sums = add::<B>(sums, _mm256_slli_si256::<4>(sums));
    }
    sums = add::<B>(sums, _mm256_slli_si256::<8>(sums));
    // The sum of the lower half to all of the upper one.
    let lower = _mm256_permute2x128_si256::<0x08>(sums, sums);
    add::<B>(sums, _mm256_shuffle_epi8(lower, load256(const { &last_of_half::<B>() })))
}

/// The last word in all places.
#[inline]
#[target_feature(enable = "avx2")]
fn last_splat<const B: usize>(words: __m256i) -> __m256i {
    let upper = _mm256_permute2x128_si256::<0x11>(words, words);
    _mm256_shuffle_epi8(upper, load256(const { &last_of_half::<B>() }))
}

/// Shuffle control: the last word of each half in all its places.
const fn last_of_half<const B: usize>() -> [u8; 32] {
    let mut control = [0; 32];
    let mut at = 0;
    while at < 32 {
        control[at] = (16 - B + at % B) as u8;
        at += 1;
    }
    control
}

/// Replaces each vector of `words` by what `change` makes of it, given all words before.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn each_vector<const B: usize>(
    words: &mut [[u8; B]],
    mut change: impl FnMut(&[[u8; B]], __m256i) -> __m256i,
) {
    let whole = words.len() / lanes::<B>() * lanes::<B>();
    for index in (0..whole).step_by(lanes::<B>()) {
        let (done, next) = words.split_at_mut(index);
        let place = next.as_mut_ptr().cast();
        // SAFETY: whole vectors lie before `whole`.
        let changed = change(done, unsafe { _mm256_loadu_si256(place) });
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(place, changed) };
    }
    let (done, next) = words.split_at_mut(whole);
    if !next.is_empty() {
        let mut bytes = [0; 32];
        let next = next.as_flattened_mut();
        bytes[..next.len()].copy_from_slice(next);
        let changed = change(done, load256(&bytes));
        store256(&mut bytes, changed);
        next.copy_from_slice(&bytes[..next.len()]);
    }
}

/// A lag shorter than a vector.
struct Scan<const B: usize> {
    /// The lag, its double and so on, as shifts of a vector.
    steps: [Moved; 5],
    used: usize,
    /// From each lane of the vector before to those that lie a multiple of the lag behind it.
    carry_move: Moved,
    carry: __m256i,
}

impl<const B: usize> Scan<B> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(lag: usize, before: __m256i) -> Self {
        let mut steps = [Moved::none(); 5];
        let (mut used, mut distance) = (0, lag);
        while distance < lanes::<B>() {
            steps[used] = Moved::up(distance * B);
            used += 1;
            distance *= 2;
        }
        Self { steps, used, carry_move: Moved::last(lag * B), carry: before }
    }

    /// The words of the next differences.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn next(&mut self, differences: __m256i) -> __m256i {
        let mut sums = differences;
        // Unrolled, so that controls stay in registers.
        for step in 0..lanes::<B>().ilog2() as usize {
            if step < self.used {
                sums = add::<B>(sums, self.steps[step].apply(sums));
            }
        }
        let words = add::<B>(sums, self.carry);
        self.carry = self.carry_move.apply(words);
        words
    }
}

/// A move of bytes across a vector: what comes from the same half of it, and what from the other one.
#[derive(Clone, Copy)]
struct Moved {
    same: __m256i,
    other: __m256i,
}

impl Moved {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn none() -> Self {
        Self { same: _mm256_set1_epi8(-1), other: _mm256_set1_epi8(-1) }
    }

    /// Each byte to `distance` places further up, zeros below.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn up(distance: usize) -> Self {
        Self::from(|to| to.checked_sub(distance))
    }

    /// The last `len` bytes, over and over.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn last(len: usize) -> Self {
        let mut rest = 0;
        Self::from(|_| {
            let from = 32 - len + rest;
            rest = if rest + 1 == len { 0 } else { rest + 1 };
            Some(from)
        })
    }

    /// To each byte the one that `source` tells, or zero.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn from(mut source: impl FnMut(usize) -> Option<usize>) -> Self {
        let (mut same, mut other) = ([0x80; 32], [0x80; 32]);
        for to in 0..32 {
            if let Some(from) = source(to) {
                let control = if from / 16 == to / 16 { &mut same } else { &mut other };
                control[to] = (from % 16) as u8;
            }
        }
        Self { same: load256(&same), other: load256(&other) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn apply(&self, vector: __m256i) -> __m256i {
        let turned = _mm256_permute2x128_si256::<0x01>(vector, vector);
        _mm256_or_si256(_mm256_shuffle_epi8(vector, self.same), _mm256_shuffle_epi8(turned, self.other))
    }
}
