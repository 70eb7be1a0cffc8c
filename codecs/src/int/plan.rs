//! The definition of how an encoder chooses: predictor, map, rotation and low bits of a chunk, from a sample
//! of 512 bytes and in integers alone, so that every encoder chooses the same.

use super::header::{Header, Map};
use super::word::{bit_len, truncated, word, word_bits, zigzag};

/// Runs of neighbouring words in a sample, spread over the chunk.
pub(super) const RUNS: usize = 8;

/// Bytes of a run.
pub(super) const RUN_LEN: usize = 64;

/// Short lags are searched from 1 to here.
pub(super) const SHORT_LAGS: usize = 32;

/// Long lags to try: common lengths of a row.
const ROW_LAGS: [usize; 5] = [64, 128, 256, 512, 1024];

/// Bits by which a predictor must beat the one before it on the sample: less may be chance.
const MARGIN_BITS: u32 = 32;

/// The first words of the runs of the sample of `words` words of `B` bytes; `None` if they are too few.
pub(super) fn run_starts<const B: usize>(words: usize) -> Option<[usize; RUNS]> {
    let run = RUN_LEN / B;
    (words >= RUNS * run)
        .then(|| std::array::from_fn(|i| ((2 * i + 1) * words / (2 * RUNS)).min(words - run)))
}

/// The long lags to try in a chunk of `words` words.
fn row_lags(words: usize) -> impl Iterator<Item = usize> {
    ROW_LAGS.into_iter().filter(move |lag| 2 * lag <= words)
}

/// How to code a chunk of these words.
pub(super) fn choose<const B: usize>(words: &[[u8; B]]) -> Header {
    let Some(first) = words.first() else {
        return Header { map: Map::Identity, rotation: 0, low_bits: 0, lags: [0, 0], base: 0 };
    };
    let starts = run_starts::<B>(words.len());
    let sample: Vec<usize> = match starts {
        Some(starts) => starts.into_iter().flat_map(|start| start..start + RUN_LEN / B).collect(),
        None => (0..words.len()).collect(),
    };
    let (map, lags) = match starts {
        Some(starts) => choose_predictor(&mut Sample { words, starts, indices: &sample }, words.len()),
        None => (Map::Identity, [0, 0]),
    };
    let mut header = Header { map, rotation: 0, low_bits: 0, lags, base: word(first) };
    if lags == [0, 0] {
        header.base = words.iter().map(word).min().unwrap_or(0);
    }
    header.rotation = rotation(&header, words, &sample);
    let residuals: Vec<u64> = sample.iter().map(|&i| residual(&header, words, i)).collect();
    header.low_bits = low_bits::<B>(&residuals);
    header
}

/// The residual of word `index`.
pub(super) fn residual<const B: usize>(header: &Header, words: &[[u8; B]], index: usize) -> u64 {
    let prediction = header.prediction(words, index);
    header.residual::<B>(truncated::<B>(word(&words[index]).wrapping_sub(prediction)))
}

/// What has to be known of a sample to choose a predictor.
pub(super) trait Sampled {
    /// The better map for words without prediction, and what the sample costs then, in bits.
    fn cost_of_words(&mut self) -> (Map, u32);

    /// What the sample costs with these lags: the bits of its zigzag differences.
    fn cost_of_lags(&mut self, lags: [usize; 2]) -> u32;

    /// The two short lags that predict best, the better one first, after a first prediction from `lag` words
    /// before (0: none). Two words of each run decide; ties go to the shorter lag.
    fn best_short_lags(&mut self, lag: usize) -> [usize; 2];
}

/// The cheapest predictor on a sample of `words` words: none, or one lag, and then a second one.
pub(super) fn choose_predictor(sample: &mut impl Sampled, words: usize) -> (Map, [usize; 2]) {
    let (map, unpredicted) = sample.cost_of_words();
    let mut best = Best { cost: unpredicted, lags: [0, 0] };
    if best.is_beyond_beating() {
        return (map, [0, 0]);
    }
    let [nearest, second] = sample.best_short_lags(0);
    for lag in [1, nearest, second].into_iter().chain(row_lags(words)) {
        best.try_lags(sample, [lag, 0]);
    }
    let first = best.lags[0];
    if first == 0 {
        return (map, [0, 0]);
    }
    if !best.is_beyond_beating() {
        let [nearest, _] = sample.best_short_lags(first);
        for lag in [1, nearest].into_iter().chain(row_lags(words)) {
            best.try_lags(sample, [first.min(lag), first.max(lag)]);
        }
    }
    (Map::Zigzag, best.lags)
}

/// The predictor that is cheapest so far.
struct Best {
    cost: u32,
    lags: [usize; 2],
}

impl Best {
    /// Whether any other would have to cost less than nothing.
    const fn is_beyond_beating(&self) -> bool {
        self.cost <= MARGIN_BITS
    }

    fn try_lags(&mut self, sample: &mut impl Sampled, lags: [usize; 2]) {
        // The same lags again are no cheaper.
        if lags == self.lags {
            return;
        }
        let cost = sample.cost_of_lags(lags);
        if cost + MARGIN_BITS < self.cost {
            *self = Self { cost, lags };
        }
    }
}

/// The sample of a chunk, word by word.
struct Sample<'a, const B: usize> {
    words: &'a [[u8; B]],
    starts: [usize; RUNS],
    indices: &'a [usize],
}

impl<const B: usize> Sampled for Sample<'_, B> {
    /// Either the bits from each word's highest set bit down, or those from the highest of the sample down to
    /// each word's lowest.
    fn cost_of_words(&mut self) -> (Map, u32) {
        let words = self.indices.iter().map(|&i| word(&self.words[i]));
        let least = words.clone().min().unwrap_or(0);
        let offsets = words.map(|word| word - least);
        let highest = offsets.clone().map(bit_len).max().unwrap_or(0);
        let from_top = offsets.clone().map(bit_len).sum();
        let non_zeros = offsets.filter(|&offset| offset != 0);
        let from_bottom = non_zeros.map(|offset| highest - offset.trailing_zeros()).sum();
        if from_bottom < from_top { (Map::Reversed, from_bottom) } else { (Map::Identity, from_top) }
    }

    fn cost_of_lags(&mut self, lags: [usize; 2]) -> u32 {
        let base = word(&self.words[0]);
        let header = Header { map: Map::Zigzag, rotation: 0, low_bits: 0, lags, base };
        self.indices.iter().map(|&i| bit_len(residual(&header, self.words, i))).sum()
    }

    fn best_short_lags(&mut self, lag: usize) -> [usize; 2] {
        let at = |i: usize| {
            let before = if lag == 0 { 0 } else { word(&self.words[i - lag]) };
            word(&self.words[i]).wrapping_sub(before)
        };
        let mut costs = [0; SHORT_LAGS];
        for i in probes::<B>(self.starts, lag) {
            for (short, cost) in (1..).zip(&mut costs) {
                *cost += bit_len(zigzag::<B>(truncated::<B>(at(i).wrapping_sub(at(i - short)))));
            }
        }
        two_smallest(&costs).map(|index| index + 1)
    }
}

/// The words that decide on a short lag, two in each run: those with enough words before them.
pub(super) fn probes<const B: usize>(starts: [usize; RUNS], lag: usize) -> impl Iterator<Item = usize> {
    let run = RUN_LEN / B;
    let probes = starts.into_iter().flat_map(move |start| [start + run / 4, start + 3 * run / 4]);
    probes.filter(move |&probe| probe >= lag + SHORT_LAGS)
}

/// The indices of the smallest number and of the smallest other one, the first where there are several.
pub(super) fn two_smallest(costs: &[u32; SHORT_LAGS]) -> [usize; 2] {
    let smallest = |but: usize| (0..SHORT_LAGS).filter(|&i| i != but).min_by_key(|&i| costs[i]).unwrap_or(0);
    let first = smallest(SHORT_LAGS);
    [first, smallest(first)]
}

/// The rotation that brings bits which are always zero, at the low end of mapped differences, to the high end.
///
/// Without a prediction all words count, since one that breaks the rule makes its whole block wide; with one,
/// the sample does, since its differences are small numbers that seldom share low zeros.
fn rotation<const B: usize>(header: &Header, words: &[[u8; B]], sample: &[usize]) -> u32 {
    let any = if header.lags == [0, 0] {
        (0..words.len()).fold(0, |any, i| any | residual(header, words, i))
    } else {
        sample.iter().fold(0, |any, &i| any | residual(header, words, i))
    };
    if any == 0 { 0 } else { any.trailing_zeros() }
}

/// The number of low bits that is cheapest if the sample were one block.
fn low_bits<const B: usize>(residuals: &[u64]) -> u32 {
    let longest = residuals.iter().copied().map(bit_len).max().unwrap_or(0);
    let longer_than = |bits| residuals.iter().filter(|&&r| bit_len(r) > bits).count() as u32;
    cheapest_low_bits::<B>(residuals.len() as u32, longest, longer_than)
}

/// The number of low bits for `total` residuals in one block that is cheapest: planes for all of them, and whole
/// bytes for the `longer_than(bits)` of them that are longer. Ties go to fewer bits, but last of all to those of
/// the longest, which need no bytes.
#[inline]
pub(super) fn cheapest_low_bits<const B: usize>(
    total: u32,
    longest: u32,
    longer_than: impl Fn(u32) -> u32,
) -> u32 {
    let mut best = (total * longest, longest.min(word_bits::<B>() - 1));
    for bits in 0..longest {
        let cost = total * (bits + 1) + 8 * longer_than(bits) * (longest - bits).div_ceil(8);
        if cost < best.0 {
            best = (cost, bits);
        }
    }
    best.1
}
