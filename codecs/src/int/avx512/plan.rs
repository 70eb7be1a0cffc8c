//! The choice of [`super::super::plan`], a vector of the sample at a time.

use std::arch::x86_64::*;

use super::super::header::{Header, Map};
use super::super::plan::{
    self, MARGIN_BITS, RUN_LEN, RUNS, SHORT_LAGS, cheapest_low_bits, row_lags, run_starts,
};
use super::super::word::{bit_len, truncated, word, word_bits};
use super::transform::Forward;
use super::vector::{
    Words, add, lanes, leading_zeros, max, min, splat, sub, sum, to_words, trailing_zeros, zigzag,
};

/// One vector for each run of the sample.
type Sample = [__m512i; RUNS];

#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,bmi1,bmi2"
)]
pub(super) fn choose<const B: usize>(words: &[[u8; B]]) -> Header {
    let Some(starts) = run_starts::<B>(words.len()) else {
        return plan::choose(words);
    };
    let source = Words::new(words, word(&words[0]));
    let sampled = Sampled { source, starts, sample: starts.map(|start| at_run(&source, start)) };
    let (map, lags, differences) = sampled.choose_predictor();
    let mut header = Header { map, rotation: 0, low_bits: 0, lags, base: word(&words[0]) };
    let differences = if lags == [0, 0] {
        let (least, rotation) = scan_all(&source, map);
        header.base = least;
        header.rotation = rotation;
        sampled.sample.map(|words| sub::<B>(words, splat::<B>(least)))
    } else {
        let mut any = _mm512_setzero_si512();
        let mapped = Forward::<B>::new(&header);
        for run in differences {
            any = _mm512_or_si512(any, mapped.residuals(run));
        }
        header.rotation = rotation_of(to_words::<B>(any).fold(0, |any, word| any | word));
        differences
    };
    let transform = Forward::<B>::new(&header);
    let residuals = differences.map(|run| transform.residuals(run));
    header.low_bits = low_bits::<B>(residuals);
    header
}

const fn rotation_of(any: u64) -> u32 {
    if any == 0 { 0 } else { any.trailing_zeros() }
}

/// The run of a sample that starts at `start`.
#[inline]
#[target_feature(enable = "avx512bw")]
fn at_run<const B: usize>(source: &Words<'_, B>, start: usize) -> __m512i {
    // SAFETY: a run is a vector of words, and `run_starts` gives none that ends behind the last word.
    unsafe { source.at(start) }
}

/// The smallest word of the chunk and the rotation of all offsets from it.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
fn scan_all<const B: usize>(source: &Words<'_, B>, map: Map) -> (u64, u32) {
    let first = source.base();
    let (mut least, mut most, mut any) = (first, first, _mm512_setzero_si512());
    let last = source.len() - lanes::<B>();
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
        index = (index + lanes::<B>()).min(last);
    }
    let least = to_words::<B>(least).min().unwrap_or(0);
    let rotation = match map {
        Map::Identity => rotation_of(to_words::<B>(any).fold(0, |any, word| any | word)),
        _ => {
            let most = to_words::<B>(most).max().unwrap_or(0);
            (word_bits::<B>() - bit_len(most - least)) % word_bits::<B>()
        }
    };
    (least, rotation)
}

/// The words of a chunk with the runs of its sample.
struct Sampled<'a, const B: usize> {
    source: Words<'a, B>,
    starts: [usize; RUNS],
    sample: Sample,
}

impl<const B: usize> Sampled<'_, B> {
    /// Map and lags, and what the lags leave of the sample.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,bmi2"
    )]
    fn choose_predictor(&self) -> (Map, [usize; 2], Sample) {
        let words = self.source.len();
        let (map, unpredicted) = self.cost_of_words();
        let (mut best, mut first, mut differences) = (unpredicted, 0, self.sample);
        let [nearest, second] = self.best_short_lags(0);
        for lag in [1, nearest, second].into_iter().chain(row_lags(words)) {
            let left = self.minus_before(&self.sample, lag);
            let cost = cost::<B>(&left);
            if cost + MARGIN_BITS < best {
                (best, first, differences) = (cost, lag, left);
            }
        }
        if first == 0 {
            return (map, [0, 0], differences);
        }
        let (once, mut lags) = (differences, [first, 0]);
        let [nearest, _] = self.best_short_lags(first);
        for lag in [1, nearest].into_iter().chain(row_lags(words)) {
            let left = self.minus_difference_before(&once, first, lag);
            let cost = cost::<B>(&left);
            if cost + MARGIN_BITS < best {
                (best, lags, differences) = (cost, [first.min(lag), first.max(lag)], left);
            }
        }
        (Map::Zigzag, lags, differences)
    }

    /// `of` less the words `lag` before.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn minus_before(&self, of: &Sample, lag: usize) -> Sample {
        let mut left = *of;
        for (run, &start) in left.iter_mut().zip(&self.starts) {
            // SAFETY: a run is a vector of words in the chunk.
            *run = sub::<B>(*run, unsafe { self.source.before(start, lag) });
        }
        left
    }

    /// `of`, differences to `first` words before, less those `lag` before.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn minus_difference_before(&self, of: &Sample, first: usize, lag: usize) -> Sample {
        let mut left = *of;
        for (run, &start) in left.iter_mut().zip(&self.starts) {
            // SAFETY: a run is a vector of words in the chunk.
            let [word, before] =
                unsafe { [self.source.before(start, lag), self.source.before(start, first + lag)] };
            *run = add::<B>(sub::<B>(*run, word), before);
        }
        left
    }

    /// See [`plan`]: the better map for words without prediction, and its cost.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,bmi2"
    )]
    fn cost_of_words(&self) -> (Map, u32) {
        let mut least = self.sample[0];
        for &run in &self.sample[1..] {
            least = min::<B>(least, run);
        }
        let least = splat::<B>(to_words::<B>(least).min().unwrap_or(0));
        let zero = _mm512_setzero_si512();
        let (mut leading, mut trailing, mut most, mut zeros) = (zero, zero, zero, 0);
        for &run in &self.sample {
            let offsets = sub::<B>(run, least);
            most = max::<B>(most, offsets);
            zeros += lanes::<B>() as u32 - super::vector::greater::<B>(offsets, zero).count_ones();
            leading = add::<B>(leading, leading_zeros::<B>(offsets));
            trailing = add::<B>(trailing, trailing_zeros::<B>(offsets));
        }
        let bits = word_bits::<B>();
        let highest = to_words::<B>(most).map(bit_len).max().unwrap_or(0);
        let sampled = (RUNS * lanes::<B>()) as u32;
        let from_top = sampled * bits - sum::<B>(leading);
        // All trailing zeros, without those of zero words.
        let from_bottom = (sampled - zeros) * highest - (sum::<B>(trailing) - zeros * bits);
        if from_bottom < from_top { (Map::Reversed, from_bottom) } else { (Map::Identity, from_top) }
    }

    /// See [`plan`]. Each lane stands for a lag here.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,bmi2"
    )]
    fn best_short_lags(&self, lag: usize) -> [usize; 2] {
        let run = RUN_LEN / B;
        let mut leading = [_mm512_setzero_si512(); 4];
        let mut probes = 0;
        for &start in &self.starts {
            for probe in [start + run / 4, start + 3 * run / 4] {
                if probe >= lag + SHORT_LAGS {
                    self.add_leading_zeros(&mut leading, probe, lag);
                    probes += 1;
                }
            }
        }
        let mut costs = [0; SHORT_LAGS];
        // The first lane holds the longest lag.
        let zeros = leading.into_iter().flat_map(|zeros| to_words::<B>(zeros));
        for (cost, zeros) in costs.iter_mut().rev().zip(zeros) {
            *cost = probes * word_bits::<B>() - zeros as u32;
        }
        plan::two_smallest(&costs).map(|index| index + 1)
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
            let others = self.source.near(index);
            let others = if lag == 0 { others } else { sub::<B>(others, self.source.near(index - lag)) };
            *sum = add::<B>(*sum, leading_zeros::<B>(zigzag::<B>(sub::<B>(own, others))));
        }
    }
}

/// The bits of the zigzag differences of a sample.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,bmi2")]
fn cost<const B: usize>(differences: &Sample) -> u32 {
    let mut leading = _mm512_setzero_si512();
    for &run in differences {
        leading = add::<B>(leading, leading_zeros::<B>(zigzag::<B>(run)));
    }
    (RUNS * lanes::<B>()) as u32 * word_bits::<B>() - sum::<B>(leading)
}

/// See [`plan`].
#[inline]
#[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,gfni")]
fn low_bits<const B: usize>(residuals: Sample) -> u32 {
    let mut counts = [0; 65];
    for run in residuals {
        for zeros in to_words::<B>(leading_zeros::<B>(run)) {
            counts[(word_bits::<B>() - zeros as u32) as usize] += 1;
        }
    }
    cheapest_low_bits::<B>(&counts)
}
