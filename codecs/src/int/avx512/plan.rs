//! The choice of [`super::super::plan`], a vector of the sample at a time.

use std::arch::x86_64::*;

use super::super::header::{Header, Map};
use super::super::plan::{
    self, MARGIN_BITS, RUN_LEN, RUNS, SHORT_LAGS, cheapest_low_bits, row_lags, run_starts,
};
use super::super::word::{bit_len, truncated, word, word_bits};
use super::patches::to_halves;
use super::transform::Forward;
use super::vector::{
    Words, add, greater, lanes, leading_zeros, max, min, splat, store_low_bytes, sub, sum, to_words,
    trailing_zeros, zigzag,
};
use crate::cpu::{load512, load512_partial};

/// One vector for each run of the sample.
type Sample = [__m512i; RUNS];

#[target_feature(
    enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
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
        header.rotation = rotation_of(or_of::<B>(any));
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
        Map::Identity => rotation_of(or_of::<B>(any)),
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
        let (mut best, mut first) = (unpredicted, 0);
        let [nearest, second] = self.best_short_lags(0);
        for lag in [1, nearest, second].into_iter().chain(row_lags(words)) {
            let cost = self.cost(|i, start| self.minus_before(self.sample[i], start, lag));
            if cost + MARGIN_BITS < best {
                (best, first) = (cost, lag);
            }
        }
        if first == 0 {
            return (map, [0, 0], self.sample);
        }
        let once = self.each_run(|i, start| self.minus_before(self.sample[i], start, first));
        let mut other = 0;
        let [nearest, _] = self.best_short_lags(first);
        for lag in [1, nearest].into_iter().chain(row_lags(words)) {
            let cost = self.cost(|i, start| self.minus_difference_before(once[i], start, first, lag));
            if cost + MARGIN_BITS < best {
                (best, other) = (cost, lag);
            }
        }
        if other == 0 {
            return (Map::Zigzag, [first, 0], once);
        }
        let twice = self.each_run(|i, start| self.minus_difference_before(once[i], start, first, other));
        (Map::Zigzag, [first.min(other), first.max(other)], twice)
    }

    /// What `differences` makes of each run, given its number and where it starts.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn each_run(&self, differences: impl Fn(usize, usize) -> __m512i) -> Sample {
        let mut runs = self.sample;
        for (i, run) in runs.iter_mut().enumerate() {
            *run = differences(i, self.starts[i]);
        }
        runs
    }

    /// The bits of the zigzag differences of the sample.
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni")]
    fn cost(&self, differences: impl Fn(usize, usize) -> __m512i) -> u32 {
        let mut leading = _mm512_setzero_si512();
        for (i, &start) in self.starts.iter().enumerate() {
            leading = add::<B>(leading, leading_zeros::<B>(zigzag::<B>(differences(i, start))));
        }
        SAMPLED_BITS - sum::<B>(leading)
    }

    /// The run that starts at `start`, which may be changed, less the words `lag` before.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn minus_before(&self, run: __m512i, start: usize, lag: usize) -> __m512i {
        // SAFETY: a run is a vector of words in the chunk.
        sub::<B>(run, unsafe { self.source.before(start, lag) })
    }

    /// The run that starts at `start` less what it was predicted from `first` words before, so less the same `lag`
    /// before.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn minus_difference_before(&self, run: __m512i, start: usize, first: usize, lag: usize) -> __m512i {
        // SAFETY: a run is a vector of words in the chunk.
        add::<B>(self.minus_before(run, start, lag), unsafe { self.source.before(start, first + lag) })
    }

    /// See [`plan`]: the better map for words without prediction, and its cost.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni"
    )]
    fn cost_of_words(&self) -> (Map, u32) {
        let mut least = self.sample[0];
        for &run in &self.sample[1..] {
            least = min::<B>(least, run);
        }
        let least = splat::<B>(to_words::<B>(least).min().unwrap_or(0));
        let zero = _mm512_setzero_si512();
        let (mut leading, mut trailing, mut any, mut zeros) = (zero, zero, zero, 0);
        for &run in &self.sample {
            let offsets = sub::<B>(run, least);
            any = _mm512_or_si512(any, offsets);
            zeros += lanes::<B>() as u32 - greater::<B>(offsets, zero).count_ones();
            leading = add::<B>(leading, leading_zeros::<B>(offsets));
            trailing = add::<B>(trailing, trailing_zeros::<B>(offsets));
        }
        let bits = word_bits::<B>();
        let highest = bit_len(or_of::<B>(any));
        let from_top = SAMPLED_BITS - sum::<B>(leading);
        // All trailing zeros, without those of zero words.
        let non_zeros = (RUNS * lanes::<B>()) as u32 - zeros;
        let from_bottom = non_zeros * highest - (sum::<B>(trailing) - zeros * bits);
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
        let costs =
            _mm512_sub_epi16(_mm512_set1_epi16((probes * word_bits::<B>()) as i16), halves::<B>(leading));
        two_smallest(costs)
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
            *sum = add::<B>(*sum, leading_zeros::<B>(zigzag::<B>(sub::<B>(own, others))));
        }
    }

    /// The 32 words from `index` on, or a vector if that is less.
    #[inline]
    #[target_feature(enable = "avx512bw,bmi2")]
    fn near(&self, index: usize) -> __m512i {
        let words = &self.source.words()[index..][..lanes::<B>().min(SHORT_LAGS)];
        load512_partial(words.as_flattened())
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
fn low_bits<const B: usize>(residuals: Sample) -> u32 {
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
