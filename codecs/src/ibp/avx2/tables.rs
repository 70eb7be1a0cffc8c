//! What a plan says about the granules of one vector.

// Tables are read at any byte; a walk checks once that its places are there.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::moves::{MOVES, SAVINGS, STAGES};
use super::{LINE, VECTOR, equal, shift_down, shift_up};
use crate::cpu::array;
use crate::ibp::plan::Plan;

/// The places in the tables of one line after the other, with `P` runs to move, or 0 for the stages.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a, const P: usize> {
    first: *const u8,
    stride: usize,
    savings: &'a [u8],
    /// Always below the period.
    phase: usize,
    period: usize,
    /// From line to line.
    step: usize,
}

impl<'a, const P: usize> Walk<'a, P> {
    const TABLES: usize = MOVES + if P == 0 { STAGES } else { 2 * P };

    /// From `phase` on.
    ///
    /// # Panics
    /// If the plan has no such phase, or tables of other moves.
    pub(super) fn new(plan: &'a Plan, phase: usize) -> Self {
        assert!(phase < plan.period && Self::TABLES <= plan.lines.tables(), "no such place in the tables");
        let (first, stride) = plan.lines.first();
        let Plan { ref savings, period, .. } = *plan;
        Self { first, stride, savings, phase, period, step: LINE % period }
    }

    /// Those of the vectors of the line.
    #[inline]
    pub(super) fn places(&self) -> [Place<'a, P>; 2] {
        let place = |behind: usize| {
            let first = self.first.wrapping_add(self.phase + behind);
            Place { first, stride: self.stride, plan: PhantomData }
        };
        [place(0), place(VECTOR)]
    }

    /// What up to 16 granules of the line save if they participate, a byte each.
    #[inline]
    pub(super) fn savings<const G: usize>(&self) -> &'a [u8; 16] {
        array(&self.savings[self.phase / G..])
    }

    /// To the next line.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.phase += self.step;
        if self.phase >= self.period {
            self.phase -= self.period;
        }
    }
}

/// Where a vector starts in the tables.
#[derive(Clone, Copy)]
pub(super) struct Place<'a, const P: usize> {
    first: *const u8,
    stride: usize,
    plan: PhantomData<&'a Plan>,
}

impl<const P: usize> Place<'_, P> {
    /// A vector of table number `table`, which is one of the walk's.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(self, table: usize) -> __m256i {
        debug_assert!(table < Walk::<P>::TABLES);
        // SAFETY: the walk checked that the plan has the table, and is at a phase below its period, from where on
        // every table has 64 bytes, those of both vectors.
        unsafe { _mm256_loadu_si256(self.first.wrapping_add(table * self.stride).cast()) }
    }

    /// Which granules of `raw` have their invariant bits: all ones or zero each.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn participants<const G: usize>(self, raw: __m256i) -> __m256i {
        equal::<G>(_mm256_and_si256(raw, self.load(Plan::MASKS)), self.load(Plan::BITVALS))
    }

    /// How many bits each granule saves if it participates.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn savings(self) -> __m256i {
        self.load(SAVINGS)
    }

    /// The kept bits of each granule, together at its low end.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn gather<const G: usize>(self, raw: __m256i) -> __m256i {
        if P == 0 {
            let mut bits = _mm256_andnot_si256(self.load(Plan::MASKS), raw);
            for stage in 0..stages(G) {
                let movers = _mm256_and_si256(bits, self.load(MOVES + stage));
                let moved = _mm256_srl_epi64(movers, _mm_cvtsi32_si128(1 << stage));
                bits = _mm256_or_si256(_mm256_xor_si256(bits, movers), moved);
            }
            return bits;
        }
        let mut bits = _mm256_setzero_si256();
        for i in 0..P {
            let run = _mm256_and_si256(raw, self.load(MOVES + 2 * i));
            bits = _mm256_or_si256(bits, shift_down::<G>(run, self.load(MOVES + 2 * i + 1)));
        }
        bits
    }

    /// The inverse, with the values of the invariant bits. What else there is above the kept bits does not matter.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn scatter<const G: usize>(self, bits: __m256i) -> __m256i {
        if P == 0 {
            let mut bits = bits;
            for stage in (0..stages(G)).rev() {
                let movers = self.load(MOVES + stage);
                let moved = _mm256_sll_epi64(bits, _mm_cvtsi32_si128(1 << stage));
                bits = _mm256_or_si256(_mm256_andnot_si256(movers, bits), _mm256_and_si256(moved, movers));
            }
            let kept = _mm256_andnot_si256(self.load(Plan::MASKS), bits);
            return _mm256_or_si256(kept, self.load(Plan::BITVALS));
        }
        let mut scattered = self.load(Plan::BITVALS);
        for i in 0..P {
            let moved = shift_up::<G>(bits, self.load(MOVES + 2 * i + 1));
            scattered = _mm256_or_si256(scattered, _mm256_and_si256(moved, self.load(MOVES + 2 * i)));
        }
        scattered
    }
}

/// Stages that bits of a granule have to go through.
const fn stages(granule: usize) -> usize {
    if granule == 8 { STAGES } else { STAGES - 1 }
}
