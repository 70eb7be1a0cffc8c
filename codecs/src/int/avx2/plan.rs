//! The choice of [`super::super::plan`], two vectors for each run of the sample.

// Words are loaded through pointers, and the token is what vouches for instructions in a trait's functions.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::header::{Header, Map};
use super::super::plan::{
    self, RUN_LEN, RUNS, SHORT_LAGS, Sampled, cheapest_low_bits, choose_predictor, probes, run_starts,
    two_smallest,
};
use super::super::word::{bit_len, truncated, word, word_bits};
use super::transform::residuals;
use super::vector::{
    Words, add, equal, lanes, leading_zeros, max, min, or_of, splat, sub, sum, to_bytes, to_words,
    trailing_zeros, zigzag,
};
use crate::cpu::{Avx2, load256};

/// Vectors in a sample.
const VECTORS: usize = RUNS * RUN_LEN / 32;

/// Bits of all words of a sample.
const SAMPLED_BITS: u32 = (8 * RUNS * RUN_LEN) as u32;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn choose<const B: usize>(cpu: Avx2, words: &[[u8; B]]) -> Header {
    let Some(starts) = run_starts::<B>(words.len()) else {
        return plan::choose(words);
    };
    let mut sample = Sample { cpu, source: Words::new(words, word(&words[0])), starts };
    let (map, lags) = choose_predictor(&mut sample, words.len());
    let mut header = Header { map, rotation: 0, low_bits: 0, lags, base: word(&words[0]) };
    if lags == [0, 0] {
        (header.base, header.rotation) = scan_all(&sample.source, map);
    }
    let sample = Sample { cpu, source: Words::new(words, header.base), starts };
    let differences = sample.differences(lags);
    if lags != [0, 0] {
        let mut any = _mm256_setzero_si256();
        for vector in differences {
            any = _mm256_or_si256(any, residuals::<B>(vector, &header));
        }
        header.rotation = rotation_of(or_of::<B>(any));
    }
    let mut sampled = differences;
    for vector in &mut sampled {
        *vector = residuals::<B>(*vector, &header);
    }
    header.low_bits = low_bits::<B>(&sampled);
    header
}

const fn rotation_of(any: u64) -> u32 {
    if any == 0 { 0 } else { any.trailing_zeros() }
}

/// The smallest word of the chunk and the rotation of all offsets from it.
#[inline]
#[target_feature(enable = "avx2")]
fn scan_all<const B: usize>(source: &Words<'_, B>, map: Map) -> (u64, u32) {
    let first = splat::<B>(word(&source.words()[0]));
    let (mut least, mut most, mut any) = (first, first, _mm256_setzero_si256());
    let last = source.words().len() - lanes::<B>();
    let mut index = 0;
    loop {
        // SAFETY: `index` is at most a vector before the end.
        let words = unsafe { source.at(index) };
        least = min::<B>(least, words);
        if map == Map::Identity {
            any = _mm256_or_si256(any, _mm256_xor_si256(words, first));
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
struct Sample<'a, const B: usize> {
    cpu: Avx2,
    source: Words<'a, B>,
    starts: [usize; RUNS],
}

impl<const B: usize> Sampled for Sample<'_, B> {
    fn cost_of_words(&mut self) -> (Map, u32) {
        let _: Avx2 = self.cpu;
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

impl<const B: usize> Sample<'_, B> {
    /// What the lags leave of the sample.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn differences(&self, lags: [usize; 2]) -> [__m256i; VECTORS] {
        let mut vectors = [_mm256_setzero_si256(); VECTORS];
        for (pair, &start) in vectors.chunks_exact_mut(2).zip(&self.starts) {
            for (i, vector) in pair.iter_mut().enumerate() {
                // SAFETY: a run is two vectors of words in the chunk, and starts ascend.
                *vector = unsafe { self.source.difference(start + i * lanes::<B>(), lags) };
            }
        }
        vectors
    }

    #[target_feature(enable = "avx2")]
    fn vector_cost_of_lags(&self, lags: [usize; 2]) -> u32 {
        let source = &self.source;
        // SAFETY: as in `differences`.
        unsafe {
            match lags {
                [a, b] if self.starts[0] < a + b => self.cost(|i| source.difference(i, lags)),
                [a, 0] => self.cost(|i| sub::<B>(source.at(i), source.at(i - a))),
                [a, b] => self.cost(|i| {
                    let once = sub::<B>(source.at(i), source.at(i - a));
                    add::<B>(sub::<B>(once, source.at(i - b)), source.at(i - (a + b)))
                }),
            }
        }
    }

    /// The bits of the zigzag differences of the sample.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn cost(&self, difference: impl Fn(usize) -> __m256i) -> u32 {
        let mut leading = _mm256_setzero_si256();
        for &start in &self.starts {
            for index in [start, start + lanes::<B>()] {
                leading = add::<B>(leading, leading_zeros::<B>(zigzag::<B>(difference(index))));
            }
        }
        SAMPLED_BITS - sum::<B>(leading)
    }

    #[target_feature(enable = "avx2,popcnt")]
    fn vector_cost_of_words(&self) -> (Map, u32) {
        let zero = _mm256_setzero_si256();
        let vectors = self.sampled_words();
        let mut least = splat::<B>(u64::MAX);
        for &vector in &vectors {
            least = min::<B>(least, vector);
        }
        let least = splat::<B>(to_words::<B>(least).min().unwrap_or(0));
        let (mut leading, mut trailing, mut any, mut zeros) = (zero, zero, zero, zero);
        for vector in vectors {
            let offsets = sub::<B>(vector, least);
            any = _mm256_or_si256(any, offsets);
            zeros = sub::<B>(zeros, equal::<B>(offsets, zero));
            leading = add::<B>(leading, leading_zeros::<B>(offsets));
            trailing = add::<B>(trailing, trailing_zeros::<B>(offsets));
        }
        let (highest, zeros) = (bit_len(or_of::<B>(any)), sum::<B>(zeros));
        let from_top = SAMPLED_BITS - sum::<B>(leading);
        // All trailing zeros, without those of zero words.
        let non_zeros = SAMPLED_BITS / word_bits::<B>() - zeros;
        let from_bottom = non_zeros * highest - (sum::<B>(trailing) - zeros * word_bits::<B>());
        if from_bottom < from_top { (Map::Reversed, from_bottom) } else { (Map::Identity, from_top) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn sampled_words(&self) -> [__m256i; VECTORS] {
        let mut vectors = [_mm256_setzero_si256(); VECTORS];
        for (pair, &start) in vectors.chunks_exact_mut(2).zip(&self.starts) {
            for (i, vector) in pair.iter_mut().enumerate() {
                // SAFETY: a run is two vectors of words in the chunk.
                *vector = unsafe { self.source.at(start + i * lanes::<B>()) };
            }
        }
        vectors
    }

    /// Each lane stands for a lag here.
    #[target_feature(enable = "avx2")]
    fn vector_best_short_lags(&self, lag: usize) -> [usize; 2] {
        let mut leading = [_mm256_setzero_si256(); 8];
        let mut count = 0;
        for probe in probes::<B>(self.starts, lag) {
            self.add_leading_zeros(&mut leading, probe, lag);
            count += 1;
        }
        let mut costs = [0; SHORT_LAGS];
        let mut places = costs.iter_mut().rev();
        // The first lane holds the longest lag.
        for vector in &leading[..B] {
            for zeros in to_words::<B>(*vector) {
                if let Some(cost) = places.next() {
                    *cost = count * word_bits::<B>() - zeros as u32;
                }
            }
        }
        two_smallest(&costs).map(|index| index + 1)
    }

    /// Adds the leading zeros of the differences between word `probe` and the 32 before it.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_leading_zeros(&self, leading: &mut [__m256i; 8], probe: usize, lag: usize) {
        let at = |index: usize| word(&self.source.words()[index]);
        let before = if lag == 0 { 0 } else { at(probe - lag) };
        let own = splat::<B>(truncated::<B>(at(probe).wrapping_sub(before)));
        for (i, sum) in leading[..B].iter_mut().enumerate() {
            let index = probe - SHORT_LAGS + i * lanes::<B>();
            // SAFETY: these 32 words end where the probe is, and it has as many and the lag before it.
            let others = unsafe {
                let others = self.source.at(index);
                if lag == 0 { others } else { sub::<B>(others, self.source.at(index - lag)) }
            };
            *sum = add::<B>(*sum, leading_zeros::<B>(zigzag::<B>(sub::<B>(own, others))));
        }
    }
}

/// See [`plan`].
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn low_bits<const B: usize>(residuals: &[__m256i; VECTORS]) -> u32 {
    // The lengths of all residuals, a byte each.
    let mut lengths = [[0; 32]; VECTORS];
    let mut any = _mm256_setzero_si256();
    let mut places = lengths.as_flattened_mut().iter_mut();
    for &vector in residuals {
        any = _mm256_or_si256(any, vector);
        let bytes = to_bytes(leading_zeros::<B>(vector));
        for (zeros, place) in bytes.as_chunks::<B>().0.iter().zip(places.by_ref()) {
            *place = word_bits::<B>() as u8 - zeros[0];
        }
    }
    let total = VECTORS * lanes::<B>();
    let mut vectors = [_mm256_setzero_si256(); VECTORS];
    for (vector, lengths) in vectors.iter_mut().zip(&lengths) {
        *vector = load256(lengths);
    }
    let longer_than = |bits: u32| {
        // Lengths are small, so their order is that of signed bytes.
        let limit = _mm256_set1_epi8(bits as i8);
        let longer = vectors[..total / 32]
            .iter()
            .map(|&v| (_mm256_movemask_epi8(_mm256_cmpgt_epi8(v, limit)) as u32).count_ones());
        longer.sum()
    };
    cheapest_low_bits::<B>(total as u32, bit_len(or_of::<B>(any)), longer_than)
}
