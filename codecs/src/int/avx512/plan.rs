//! The choice of [`super::super::plan`], a vector of the sample at a time.

// Words are loaded through pointers, and the token is what vouches for instructions in a trait's functions.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::header::{Header, Map};
use super::super::plan::{
    self, RUN_LEN, RUNS, SHORT_LAGS, Sampled, cheapest_low_bits, choose_predictor, probes, run_starts,
};
use super::super::word::{bit_len, truncated, word, word_bits};
use super::patches::to_halves;
use super::transform::Forward;
use super::vector::{
    Words, add, greater, lanes, leading_zeros, max, min, splat, store_low_bytes, sub, sum, to_words,
    trailing_zeros, zigzag_leading_zeros,
};
use crate::cpu::{Avx512, array, load256, load512};

#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
)]
pub(super) fn choose<const B: usize>(cpu: Avx512, words: &[[u8; B]]) -> Header {
    let Some(starts) = run_starts::<B>(words.len()) else {
        return plan::choose(words);
    };
    let source = Words::new(words, word(&words[0]));
    let (map, lags) = choose_predictor(&mut Sample::new(cpu, source, starts), words.len());
    let mut header = Header { map, rotation: 0, low_bits: 0, lags, base: word(&words[0]) };
    if lags == [0, 0] {
        (header.base, header.rotation) = scan_all(&source, map);
    }
    let source = Words::new(words, header.base);
    let mut differences = [_mm512_setzero_si512(); RUNS];
    for (run, &start) in differences.iter_mut().zip(&starts) {
        // SAFETY: a run is a vector of words, and `run_starts` gives none that ends behind the last word.
        *run = unsafe { source.difference(start, lags) };
    }
    if lags != [0, 0] {
        let mapped = Forward::<B>::new(&header);
        let mut any = _mm512_setzero_si512();
        for run in differences {
            any = _mm512_or_si512(any, mapped.residuals(run));
        }
        header.rotation = rotation_of(or_of::<B>(any));
    }
    let transform = Forward::<B>::new(&header);
    let mut residuals = differences;
    for run in &mut residuals {
        *run = transform.residuals(*run);
    }
    header.low_bits = low_bits::<B>(residuals);
    header
}

const fn rotation_of(any: u64) -> u32 {
    if any == 0 { 0 } else { any.trailing_zeros() }
}

/// The smallest word of the chunk and the rotation of all offsets from it.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
fn scan_all<const B: usize>(source: &Words<'_, B>, map: Map) -> (u64, u32) {
    let first = source.base();
    let (mut least, mut most, mut any) = (first, first, _mm512_setzero_si512());
    let last = source.len() - lanes::<B>();
    let to_line = lanes::<B>() - source.words().as_ptr().addr() / B % lanes::<B>();
    let mut index = 0;
    loop {
        // SAFETY: `index` is at most a vector before the end.
        let words = unsafe { source.at(index) };
        least = min::<B>(least, words);
        if map == Map::Identity {
            // any | words ^ first
            any = _mm512_ternarylogic_epi64::<0b1111_0110>(any, words, first);
        } else {
            most = max::<B>(most, words);
        }
        if index == last {
            break;
        }
        // A load across two lines takes twice as long.
        let ahead = if index == 0 { to_line } else { lanes::<B>() };
        index = (index + ahead).min(last);
    }
    let least = to_words::<B>(least).min().unwrap_or(0);
    let rotation = match map {
        Map::Identity => rotation_of(or_of::<B>(any)),
        _ => {
            let most = to_words::<B>(most).max().unwrap_or(0);
            (word_bits::<B>() - bit_len(most - least)) % word_bits::<B>()
        }
    };
    (least, rotation)
}

/// The words of a chunk with the runs of its sample: a vector of words each.
struct Sample<'a, const B: usize> {
    cpu: Avx512,
    source: Words<'a, B>,
    starts: [usize; RUNS],
    runs: [__m512i; RUNS],
    /// The runs less what lies `once_lag` words before them; 0 before there are any.
    once: [__m512i; RUNS],
    once_lag: usize,
}

impl<const B: usize> Sampled for Sample<'_, B> {
    fn cost_of_words(&mut self) -> (Map, u32) {
        let _: Avx512 = self.cpu;
        // SAFETY: the token says that this machine has the instructions.
        unsafe { self.vector_cost_of_words() }
    }

    fn cost_of_lags(&mut self, lags: [usize; 2]) -> u32 {
        // SAFETY: as above.
        unsafe { self.vector_cost_of_lags(lags) }
    }

    fn best_short_lags(&mut self, lag: usize) -> [usize; 2] {
        // SAFETY: as above.
        unsafe { self.vector_best_short_lags(lag) }
    }
}

impl<'a, const B: usize> Sample<'a, B> {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn new(cpu: Avx512, source: Words<'a, B>, starts: [usize; RUNS]) -> Self {
        // SAFETY: a run is a vector of words, and `run_starts` gives none that ends behind the last word.
        let runs = starts.map(|start| unsafe { source.at(start) });
        Self { cpu, source, starts, runs, once: runs, once_lag: 0 }
    }

    /// The words `lag` before those of run `index`.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn before(&self, index: usize, lag: usize) -> __m512i {
        let start = self.starts[index];
        // SAFETY: as in `new`; the words of the first line lie before the run.
        unsafe { if lag <= start { self.source.at(start - lag) } else { self.source.before(start, lag) } }
    }

    /// Takes the differences that one lag leaves, for lags that come on top.
    #[target_feature(enable = "avx512vbmi")]
    fn take_once(&mut self, lag: usize) {
        for index in 0..RUNS {
            self.once[index] = sub::<B>(self.runs[index], self.before(index, lag));
        }
        self.once_lag = lag;
    }

    #[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni")]
    fn vector_cost_of_lags(&mut self, [a, b]: [usize; 2]) -> u32 {
        if b == 0 {
            return self.cost(|index| sub::<B>(self.runs[index], self.before(index, a)));
        }
        if self.once_lag != a && self.once_lag != b {
            self.take_once(a);
        }
        let (first, second) = (self.once_lag, a + b - self.once_lag);
        self.cost(|index| {
            let once_before = sub::<B>(self.before(index, second), self.before(index, first + second));
            sub::<B>(self.once[index], once_before)
        })
    }

    /// The bits of the zigzag differences of the sample.
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni")]
    fn cost(&self, difference: impl Fn(usize) -> __m512i) -> u32 {
        let mut leading = _mm512_setzero_si512();
        for index in 0..RUNS {
            leading = add::<B>(leading, zigzag_leading_zeros::<B>(difference(index)));
        }
        SAMPLED_BITS - sum::<B>(leading)
    }

    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,popcnt"
    )]
    fn vector_cost_of_words(&self) -> (Map, u32) {
        let zero = _mm512_setzero_si512();
        let mut least = splat::<B>(u64::MAX);
        for run in self.runs {
            least = min::<B>(least, run);
        }
        let least = splat::<B>(to_words::<B>(least).min().unwrap_or(0));
        let (mut leading, mut trailing, mut any, mut zeros) = (zero, zero, zero, 0);
        for run in self.runs {
            let offsets = sub::<B>(run, least);
            any = _mm512_or_si512(any, offsets);
            zeros += lanes::<B>() as u32 - greater::<B>(offsets, zero).count_ones();
            leading = add::<B>(leading, leading_zeros::<B>(offsets));
            trailing = add::<B>(trailing, trailing_zeros::<B>(offsets));
        }
        let highest = bit_len(or_of::<B>(any));
        let from_top = SAMPLED_BITS - sum::<B>(leading);
        // All trailing zeros, without those of zero words.
        let non_zeros = (RUNS * lanes::<B>()) as u32 - zeros;
        let from_bottom = non_zeros * highest - (sum::<B>(trailing) - zeros * word_bits::<B>());
        if from_bottom < from_top { (Map::Reversed, from_bottom) } else { (Map::Identity, from_top) }
    }

    /// Each lane stands for a lag here.
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,bmi2"
    )]
    fn vector_best_short_lags(&mut self, lag: usize) -> [usize; 2] {
        if lag > 0 {
            self.take_once(lag);
        }
        let mut leading = [_mm512_setzero_si512(); 4];
        let mut count = 0;
        for probe in probes::<B>(self.starts, lag) {
            self.add_leading_zeros(&mut leading, probe, lag);
            count += 1;
        }
        let all = _mm512_set1_epi16((count * word_bits::<B>()) as i16);
        two_smallest(_mm512_sub_epi16(all, halves::<B>(leading)))
    }

    /// Adds the leading zeros of the differences between word `probe` and the 32 before it.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,bmi2"
    )]
    fn add_leading_zeros(&self, leading: &mut [__m512i; 4], probe: usize, lag: usize) {
        let at = |index: usize| word(&self.source.words()[index]);
        let before = if lag == 0 { 0 } else { at(probe - lag) };
        let own = splat::<B>(truncated::<B>(at(probe).wrapping_sub(before)));
        let vectors = (SHORT_LAGS / lanes::<B>()).max(1);
        for (i, sum) in leading[..vectors].iter_mut().enumerate() {
            let index = probe - SHORT_LAGS + i * lanes::<B>();
            let mut others = self.near(index);
            if lag > 0 {
                others = sub::<B>(others, self.near(index - lag));
            }
            *sum = add::<B>(*sum, zigzag_leading_zeros::<B>(sub::<B>(own, others)));
        }
    }

    /// The 32 words from `index` on, or a vector if that is less.
    #[inline]
    #[target_feature(enable = "avx512bw,bmi2")]
    fn near(&self, index: usize) -> __m512i {
        let words = &self.source.words()[index..][..lanes::<B>().min(SHORT_LAGS)];
        match B {
            1 => _mm512_castsi256_si512(load256(array(words.as_flattened()))),
            _ => load512(array(words.as_flattened())),
        }
    }
}

/// Bits of all words of a sample.
const SAMPLED_BITS: u32 = (8 * RUNS * RUN_LEN) as u32;

/// All words or-ed.
#[inline]
#[target_feature(enable = "avx512bw")]
fn or_of<const B: usize>(vector: __m512i) -> u64 {
    to_words::<B>(vector).fold(0, |any, word| any | word)
}

/// The first 32 words, as 16 bits each.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn halves<const B: usize>(words: [__m512i; 4]) -> __m512i {
    match B {
        1 => _mm512_cvtepu8_epi16(_mm512_castsi512_si256(words[0])),
        _ => to_halves::<B>(words),
    }
}

/// The lags of the smallest cost and of the second smallest; the first lane is that of the longest lag, and of equal
/// costs the shorter lag's is smaller.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn two_smallest(costs: __m512i) -> [usize; 2] {
    // The lag, less one, in the low five bits.
    let mut lags = [0; 64];
    for (lane, lag) in lags.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        lag[0] = (SHORT_LAGS - 1 - lane) as u8;
    }
    let keys = _mm512_or_si512(_mm512_slli_epi16::<5>(costs), load512(&lags));
    let first = smallest(keys);
    let others = _mm512_cmpneq_epi16_mask(keys, _mm512_set1_epi16(first as i16));
    let second = smallest(_mm512_mask_blend_epi16(others, _mm512_set1_epi16(-1), keys));
    [first, second].map(|key| usize::from(key) % SHORT_LAGS + 1)
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn smallest(keys: __m512i) -> u16 {
    let [low, high] = [_mm512_castsi512_si256(keys), _mm512_extracti64x4_epi64::<1>(keys)];
    let half = _mm256_min_epu16(low, high);
    let quarter = _mm_min_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    _mm_cvtsi128_si32(_mm_minpos_epu16(quarter)) as u16
}

/// See [`plan`].
#[inline]
#[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,avx512vl,gfni,popcnt")]
fn low_bits<const B: usize>(residuals: [__m512i; RUNS]) -> u32 {
    // The lengths of all residuals, a byte each.
    let mut lengths = [[0; 64]; RUNS];
    let mut any = _mm512_setzero_si512();
    for (run, place) in residuals.iter().zip(lengths.as_flattened_mut().chunks_exact_mut(lanes::<B>())) {
        any = _mm512_or_si512(any, *run);
        let zeros = leading_zeros::<B>(*run);
        store_low_bytes::<B>(sub::<B>(splat::<B>(u64::from(word_bits::<B>())), zeros), place);
    }
    let total = RUNS * lanes::<B>();
    let mut vectors = [_mm512_setzero_si512(); RUNS];
    for (vector, lengths) in vectors[..total / 64].iter_mut().zip(&lengths) {
        *vector = load512(lengths);
    }
    let longer_than = |bits: u32| {
        let limit = _mm512_set1_epi8(bits as i8);
        let longer = vectors[..total / 64].iter().map(|&v| _mm512_cmpgt_epu8_mask(v, limit).count_ones());
        longer.sum()
    };
    cheapest_low_bits::<B>(total as u32, bit_len(or_of::<B>(any)), longer_than)
}
