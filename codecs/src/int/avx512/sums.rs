//! Differences to words, in place: every word plus the one a lag before it.

// Vectors are loaded and stored through pointers inside one slice.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::layout::Sections;
use super::decode::unpack;
use super::vector::{add, lane_numbers, lanes, min, permuted, permuted2, shift_index, splat, sub};
use crate::cpu::{load512_partial, store512_partial};

/// Turns differences to words: adds to what `before` makes of each the word `lag` before it, which has been
/// changed itself; `base` lies before the first.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn add_earlier<const B: usize, const UNPACK: bool>(
    pass: Pass<'_, B>,
    lag: usize,
    base: u64,
    mut before: impl FnMut(__m512i) -> __m512i,
) {
    let base = splat::<B>(base);
    match lag / lanes::<B>() {
        0 => {
            let mut scan = Scan::<B>::new(lag, base);
            pass.each::<UNPACK>(|_, differences| scan.next(before(differences)));
        }
        1 => add_near::<B, 2, UNPACK>(pass, lag, base, before),
        2 => add_near::<B, 3, UNPACK>(pass, lag, base, before),
        3 => add_near::<B, 4, UNPACK>(pass, lag, base, before),
        4 => add_near::<B, 5, UNPACK>(pass, lag, base, before),
        _ => pass.each::<UNPACK>(|done, differences| add::<B>(before(differences), done.before(lag, base))),
    }
}

/// Turns differences of differences to words: [`add_earlier`] for two lags, in the order that takes the fewest
/// steps. Whichever comes first, the differences before the first word are zero, since the words there are all
/// the same.
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn add_earlier_twice<const B: usize>(mut pass: Pass<'_, B>, short: usize, long: usize, base: u64) {
    let (is_short, is_long) = (short < lanes::<B>(), long >= lanes::<B>());
    if is_short && (is_long || B == 8) {
        // A few steps have room in the registers, and do not wait for those of the other lag.
        let mut scan = Scan::<B>::new(short, splat::<B>(0));
        add_earlier::<B, true>(pass, long, base, |differences| scan.next(differences));
    } else {
        add_earlier::<B, true>(pass.again(), long, 0, |differences| differences);
        add_earlier::<B, false>(pass, short, base, |differences| differences);
    }
}

/// [`add_earlier`] for a lag of one vector to four.
///
/// The last `RECENT` vectors stay in registers: a load across two that have not reached the cache would wait.
#[inline]
#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
fn add_near<const B: usize, const RECENT: usize, const UNPACK: bool>(
    pass: Pass<'_, B>,
    lag: usize,
    base: __m512i,
    mut before: impl FnMut(__m512i) -> __m512i,
) {
    let index = shift_index::<B>(lag % lanes::<B>());
    let mut recent = [base; 5];
    pass.each::<UNPACK>(|_, differences| {
        let reached = permuted2::<B>(recent[5 - RECENT], index, recent[6 - RECENT]);
        let words = add::<B>(before(differences), reached);
        let [_, a, b, c, d] = recent;
        recent = [a, b, c, d, words];
        words
    });
}

/// The words of a chunk, and what they are unpacked from.
pub(super) struct Pass<'a, const B: usize> {
    pub(super) sections: &'a Sections<'a>,
    pub(super) words: &'a mut [[u8; B]],
}

impl<const B: usize> Pass<'_, B> {
    /// The same, to go through once more.
    pub(super) const fn again(&mut self) -> Pass<'_, B> {
        Pass { sections: self.sections, words: self.words }
    }

    /// Replaces each vector of the words by what `change` makes of it, given those before. `UNPACK`: of the
    /// differences that are stored for it.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
    )]
    pub(super) fn each<const UNPACK: bool>(self, change: impl FnMut(&Done<B>, __m512i) -> __m512i) {
        if UNPACK {
            unpack(self.sections, self.words, change);
        } else {
            each_vector(self.words, change);
        }
    }
}

/// The vectors that have been changed already.
pub(super) struct Done<const B: usize> {
    words: *const [u8; B],
    len: usize,
}

impl<const B: usize> Done<B> {
    /// None of the words that start at `words`.
    pub(super) const fn none_of(words: *const [u8; B]) -> Self {
        Self { words, len: 0 }
    }

    /// Another vector of them.
    ///
    /// # Safety
    /// A vector of words must lie there, to be loaded as long as this value lives.
    pub(super) const unsafe fn advance(&mut self) {
        self.len += lanes::<B>();
    }

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
    let mut done = Done::none_of(start);
    while done.len < whole {
        // SAFETY: a whole vector of the slice starts here.
        let place = unsafe { start.add(done.len) };
        // SAFETY: as above.
        let differences = unsafe { _mm512_loadu_si512(place.cast()) };
        let changed = change(&done, differences);
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(place.cast(), changed) };
        // SAFETY: as above.
        unsafe { done.advance() };
    }
    if whole < words.len() {
        let changed = change(&done, load512_partial(words[whole..].as_flattened()));
        store512_partial(words[whole..].as_flattened_mut(), changed);
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
    /// Whether a vector is a multiple of the lag.
    periodic: bool,
}

impl<const B: usize> Scan<B> {
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn new(lag: usize, before: __m512i) -> Self {
        let lanes = lanes::<B>();
        let mut steps = [(0, splat::<B>(0)); 6];
        let (mut used, mut distance) = (0, lag);
        while distance < lanes {
            // Lanes count modulo the vector.
            let index = sub::<B>(lane_numbers::<B>(), splat::<B>(distance as u64));
            steps[used] = (u64::MAX >> (64 - lanes) & u64::MAX << distance, index);
            used += 1;
            distance *= 2;
        }
        // Lane numbers modulo the lag: what can be taken off is, and what cannot becomes large.
        let mut rest = lane_numbers::<B>();
        while distance > lag {
            distance /= 2;
            rest = min::<B>(rest, sub::<B>(rest, splat::<B>(distance as u64)));
        }
        let carry_index = add::<B>(rest, splat::<B>((lanes - lag) as u64));
        Self { steps, used, carry_index, carry: before, periodic: lanes.is_multiple_of(lag) }
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
        self.carry = if B == 8 && self.periodic {
            // The carry is its own permutation: only one addition has to wait for the vector before. Where a vector
            // takes more steps than these, they take longer than the wait.
            add::<B>(self.carry, permuted::<B>(u64::MAX, self.carry_index, sums))
        } else {
            permuted::<B>(u64::MAX, self.carry_index, words)
        };
        words
    }
}
