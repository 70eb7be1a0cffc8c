//! Sums over every `lag`-th word, for lags shorter than a vector.

use std::arch::x86_64::*;

use super::vector::{add, lanes, permuted, permuted2, splat};
use crate::cpu::load512;

/// Turns differences to the word `lag` before into words.
pub(super) struct Scan<const B: usize> {
    /// Lanes from `distance` on, and where each gets what lies that distance before it.
    steps: [(u64, __m512i); 6],
    used: usize,
    /// For each lane, the lane of the vector before that lies a multiple of the lag before it.
    carry_index: __m512i,
    carry: __m512i,
    /// For [`shifted`](Self::shifted).
    shift_index: __m512i,
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

impl<const B: usize> Scan<B> {
    /// All words before the first are `before`.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    pub(super) fn new(lag: usize, before: __m512i) -> Self {
        let lanes = lanes::<B>();
        let mut steps = [(0, splat::<B>(0)); 6];
        let (mut used, mut distance) = (0, lag);
        while distance < lanes {
            let index = lane_index::<B>(|lane| lane.wrapping_sub(distance) % lanes);
            steps[used] = (u64::MAX >> (64 - lanes) & u64::MAX << distance, index);
            used += 1;
            distance *= 2;
        }
        Self {
            steps,
            used,
            carry_index: lane_index::<B>(|lane| lanes - lag + lane % lag),
            carry: before,
            shift_index: lane_index::<B>(|lane| lanes + lane - lag),
        }
    }

    /// The words of the next differences.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    pub(super) fn next(&mut self, differences: __m512i) -> __m512i {
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

    /// The words `lag` before those of `high`, which follow those of `low`.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    pub(super) fn shifted(&self, low: __m512i, high: __m512i) -> __m512i {
        permuted2::<B>(low, self.shift_index, high)
    }
}
