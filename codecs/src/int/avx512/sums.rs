//! Differences to words, in place: every word plus the one a lag before it.

// Vectors are loaded and stored through pointers inside one slice.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::vector::{add, lanes, permuted, permuted2, splat};
use crate::cpu::{load512, load512_partial, store512_partial};

/// From here on, vectors back, what was stored has reached the cache.
const SETTLED: usize = 8;

/// Adds to each word the word `lag` before it, which has been changed itself; `before` lies before the first.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512dq,avx512vl,bmi2")]
pub(super) fn add_before<const B: usize>(words: &mut [[u8; B]], lag: usize, before: u64) {
    let before = splat::<B>(before);
    if lag < lanes::<B>() {
        let mut scan = Scan::<B>::new(lag, before);
        each_vector(words, |_, differences| scan.next(differences));
    } else if lag < SETTLED * lanes::<B>() {
        let near = Near::<B>::new(lag, before);
        each_vector(words, |done, differences| add::<B>(differences, near.words(done)));
    } else {
        each_vector(words, |done, differences| add::<B>(differences, done.before(lag, before)));
    }
}

/// The vectors that have been changed already.
struct Done<const B: usize> {
    words: *const [u8; B],
    len: usize,
}

impl<const B: usize> Done<B> {
    /// The words `lag` before the next vector, `before` where there are none; `lag` is a vector or more.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn before(&self, lag: usize, before: __m512i) -> __m512i {
        debug_assert!(lag >= lanes::<B>());
        if self.len >= lag {
            // SAFETY: the vector ends where the next one starts, or earlier.
            return unsafe { _mm512_loadu_si512(self.words.add(self.len - lag).cast()) };
        }
        let missing = lag - self.len;
        if missing >= lanes::<B>() {
            return before;
        }
        // SAFETY: as `len` is a multiple of a vector and not zero here, there is a first vector.
        let first = unsafe { _mm512_loadu_si512(self.words.cast()) };
        permuted2::<B>(before, shift_index::<B>(missing), first)
    }
}

/// Replaces each vector of `words` by what `change` makes of it, given those before.
#[inline]
#[target_feature(enable = "avx512vbmi,bmi2")]
fn each_vector<const B: usize>(words: &mut [[u8; B]], mut change: impl FnMut(&Done<B>, __m512i) -> __m512i) {
    let whole = words.len() / lanes::<B>() * lanes::<B>();
    let start = words.as_mut_ptr();
    let mut done = Done { words: start, len: 0 };
    while done.len < whole {
        // SAFETY: a whole vector of the slice starts here.
        let place = unsafe { start.add(done.len) };
        // SAFETY: as above.
        let differences = unsafe { _mm512_loadu_si512(place.cast()) };
        let changed = change(&done, differences);
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(place.cast(), changed) };
        done.len += lanes::<B>();
    }
    if whole < words.len() {
        let changed = change(&done, load512_partial(words[whole..].as_flattened()));
        store512_partial(words[whole..].as_flattened_mut(), changed);
    }
}

/// A lag of one to a few vectors.
///
/// Words are put together from vectors as they were stored: a load across two that have not reached the cache
/// waits for both.
struct Near<const B: usize> {
    /// The lag in words, rounded down and up to vectors.
    lags: [usize; 2],
    index: __m512i,
    before: __m512i,
}

impl<const B: usize> Near<B> {
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn new(lag: usize, before: __m512i) -> Self {
        let rest = lag % lanes::<B>();
        let lags = [lag - rest, (lag - rest) + lanes::<B>() * usize::from(rest > 0)];
        Self { lags, index: shift_index::<B>(rest), before }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn words(&self, done: &Done<B>) -> __m512i {
        let [high, low] = [done.before(self.lags[0], self.before), done.before(self.lags[1], self.before)];
        permuted2::<B>(low, self.index, high)
    }
}

/// A lag shorter than a vector.
struct Scan<const B: usize> {
    /// Lanes from `distance` on, and where each gets what lies that distance before it.
    steps: [(u64, __m512i); 6],
    used: usize,
    /// For each lane, the lane of the vector before that lies a multiple of the lag before it.
    carry_index: __m512i,
    carry: __m512i,
}

impl<const B: usize> Scan<B> {
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn new(lag: usize, before: __m512i) -> Self {
        let lanes = lanes::<B>();
        let mut steps = [(0, splat::<B>(0)); 6];
        let (mut used, mut distance) = (0, lag);
        while distance < lanes {
            let index = lane_index::<B>(|lane| lane.wrapping_sub(distance) % lanes);
            steps[used] = (u64::MAX >> (64 - lanes) & u64::MAX << distance, index);
            used += 1;
            distance *= 2;
        }
        let carry_index = lane_index::<B>(|lane| lanes - lag + lane % lag);
        Self { steps, used, carry_index, carry: before }
    }

    /// The words of the next differences.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn next(&mut self, differences: __m512i) -> __m512i {
        let mut sums = differences;
        // Unrolled, so that masks and indices stay in registers.
        for step in 0..lanes::<B>().ilog2() as usize {
            if step < self.used {
                let (mask, index) = self.steps[step];
                sums = add::<B>(sums, permuted::<B>(mask, index, sums));
            }
        }
        let words = add::<B>(sums, self.carry);
        self.carry = permuted::<B>(u64::MAX, self.carry_index, words);
        words
    }
}

/// A vector of lane numbers.
#[inline]
#[target_feature(enable = "avx512bw")]
fn lane_index<const B: usize>(number: impl Fn(usize) -> usize) -> __m512i {
    let mut bytes = [0; 64];
    for (lane, place) in bytes.as_chunks_mut::<B>().0.iter_mut().enumerate() {
        place[0] = number(lane) as u8;
    }
    load512(&bytes)
}

/// Where in two neighbouring vectors the words lie that come `lag` before those of the second.
#[inline]
#[target_feature(enable = "avx512bw")]
fn shift_index<const B: usize>(lag: usize) -> __m512i {
    lane_index::<B>(|lane| lanes::<B>() + lane - lag)
}
