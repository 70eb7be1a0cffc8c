//! What a plan says about the granules of one vector.

use std::arch::x86_64::*;

use crate::ibp::plan::Plan;

/// Tables are for encoding.
pub(super) const GATHER: u8 = 0;
/// For decoding chunks.
pub(super) const SCATTER: u8 = 1;
/// For decoding whole tensors.
pub(super) const ROW: u8 = 2;

/// The phases of one vector after the other.
pub(super) struct Phases {
    phase: usize,
    period: usize,
    step: usize,
    /// Whether the next vector has another phase than the one before it, or is the first.
    moves: bool,
}

impl Phases {
    /// From `phase` on, in steps of `step` bytes.
    pub(super) fn new(plan: &Plan, phase: usize, step: usize) -> Self {
        Self { phase, period: plan.period, step: step % plan.period.max(1), moves: true }
    }

    /// The phase of the next vector, unless it is that of the one before it.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<usize> {
        if !self.moves {
            return None;
        }
        let phase = self.phase;
        self.phase += self.step;
        if self.phase >= self.period {
            self.phase -= self.period;
        }
        self.moves = self.step != 0;
        Some(phase)
    }
}

/// What a plan says about the granules of a vector, in as many registers.
#[derive(Clone, Copy)]
pub(super) struct Tables<const P: usize> {
    masks: __m512i,
    pub(super) bitvals: __m512i,
    /// A byte per granule.
    pub(super) savings: __m128i,
    /// Starts and keeps of each field.
    pub(super) fields: [[__m512i; 2]; P],
}

impl<const P: usize> Tables<P> {
    /// Before the first vector.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn none() -> Self {
        let zero = _mm512_setzero_si512();
        let savings = _mm_setzero_si128();
        Self { masks: zero, bitvals: zero, savings, fields: [[zero; 2]; P] }
    }

    /// For granules of `G` bytes, the first of them at `phase`; with the first `P` fields that gather their bits, or
    /// those that scatter them. (That makes a function of it for each use, with one caller, to be inlined there.)
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl")]
    pub(super) fn at<const G: usize, const USE: u8>(plan: &Plan, phase: usize) -> Self {
        let fields = if USE == GATHER { plan.gather } else { plan.scatter };
        let there = phase < plan.period && fields.first + 2 * P <= plan.lines.tables();
        assert!(there, "no such place in the tables");
        let (first, stride) = plan.lines.first();
        let table = |index: usize| {
            // SAFETY: the table is one of the plan's and has 64 bytes from the phase on, both checked above.
            unsafe { _mm512_loadu_si512(first.add(index * stride + phase).cast()) }
        };
        // Two granules of four bytes share a word.
        let upper = _mm512_set1_epi64(if G == 4 { 0x2020_2020_0000_0000 } else { 0 });
        Self {
            masks: table(Plan::MASKS),
            bitvals: table(Plan::BITVALS),
            savings: _mm512_castsi512_si128(savings(plan, phase)),
            fields: std::array::from_fn(|i| {
                let starts = table(fields.first + 2 * i);
                [_mm512_add_epi8(starts, upper), table(fields.first + 2 * i + 1)]
            }),
        }
    }

    /// One bit per granule of `raw`, set where its invariant bits are there.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn participants<const G: usize>(&self, raw: __m512i) -> u16 {
        let others = _mm512_ternarylogic_epi64::<0x6a>(raw, self.masks, self.bitvals); // (raw & mask) ^ bitval
        match G {
            8 => u16::from(_mm512_testn_epi64_mask(others, others)),
            _ => _mm512_testn_epi32_mask(others, others),
        }
    }

    /// `bits` and those that the fields take from the granules.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    pub(super) fn pick(&self, bits: __m512i, granules: __m512i) -> __m512i {
        let mut picked = bits;
        for [starts, keeps] in self.fields {
            let moved = _mm512_multishift_epi64_epi8(starts, granules);
            picked = _mm512_ternarylogic_epi64::<0xf8>(picked, moved, keeps); // picked | (moved & keeps)
        }
        picked
    }
}

/// What each of 64 granules saves, the first of them at `phase`.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn savings(plan: &Plan, phase: usize) -> __m512i {
    let first = phase / plan.granule;
    let savings: &[u8; 64] = crate::cpu::array(&plan.savings[first..]);
    crate::cpu::load512(savings)
}
