//! What an encoder decides from a sample: masks or not, sign with exponent or not, and the table of symbols.
//!
//! All of it is integers, so that every machine decides alike. A decoder does not need to know any of this.

use super::float::{Float, Split};

/// The most samples: what a byte counts.
pub(super) const MAX_SAMPLES: usize = 255;

/// Every how many-eth sample is compared with the value before it.
pub(super) const PROBE: usize = 4;

/// Symbols in the first tier of codes: all that two bits name but the escape.
pub(super) const TIER_1: usize = 3;

/// The samples of `count` values, spread evenly. The stride is odd, so that it does not stay in one column of
/// a matrix whose rows are a power of two.
pub(super) fn samples(count: usize) -> impl Iterator<Item = usize> {
    let stride = sample_stride(count);
    (stride / 2..count).step_by(stride)
}

/// The distance between samples of `count` values.
pub(super) const fn sample_stride(count: usize) -> usize {
    (count / MAX_SAMPLES + 1) | 1
}

/// Whether a mask of the non-zero values is likely to save more than the bit per value that it costs.
pub(super) fn has_zeros(values: &[u64], float: Float) -> bool {
    let zeros = samples(values.len()).filter(|&i| values[i] == 0).count();
    zeros * saved_bits(float) > samples(values.len()).count()
}

/// Whether a mask of the values that differ from the one before is likely to save more than it costs.
pub(super) fn has_repeats(values: &[u64], float: Float) -> bool {
    let probes = || samples(values.len()).step_by(PROBE);
    let repeats = probes().filter(|&i| values[i] == before(values, i)).count();
    repeats * saved_bits(float) > probes().count()
}

/// The value before value `i`; zero before the first.
pub(super) fn before(values: &[u64], i: usize) -> u64 {
    if i == 0 { 0 } else { values[i - 1] }
}

/// What a value costs at least that is left out: the rest and a code of the first tier.
const fn saved_bits(float: Float) -> usize {
    (float.split(false).rest_bits() + 2) as usize
}

/// The symbols that have codes, the commonest first, and how they fall into tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The sign goes with the exponent.
    pub(super) signed: bool,
    /// The second tier has 3 bits and 7 symbols, not 2 and 3.
    pub(super) wide: bool,
    /// Codes are no shorter than symbols.
    pub(super) hopeless: bool,
    pub(super) symbols: Vec<u64>,
}

/// Bits of a code in each of the three tiers; the highest code of each is the escape to the next.
pub(super) const fn tier_bits(wide: bool) -> [u32; 3] {
    [2, if wide { 3 } else { 2 }, 3]
}

/// Symbols in a table.
pub(super) const fn table_len(wide: bool) -> usize {
    if wide { TIER_1 + 7 + 7 } else { TIER_1 + 3 + 7 }
}

impl Table {
    /// The table for `values`.
    pub(super) fn of(values: &[u64], float: Float) -> Self {
        let sampled: Vec<u64> = samples(values.len()).map(|i| values[i]).collect();
        let signed = sign_follows_exponent(&sampled, float);
        let split = float.split(signed);
        let mut counts = vec![0; 1 << split.symbol_bits];
        sampled.iter().for_each(|&value| counts[split.apart(value).0 as usize] += 1);

        let mut symbols: Vec<u64> = (0..1 << split.symbol_bits).filter(|&s| counts[s as usize] > 0).collect();
        symbols.sort_by_key(|&s| std::cmp::Reverse(counts[s as usize])); // stable: smaller symbols first
        let coded = |wide| code_bits(&symbols, &counts, sampled.len(), split, wide);
        let wide = coded(true) < coded(false);
        let hopeless = coded(wide) >= sampled.len() * split.symbol_bits as usize;
        symbols.truncate(table_len(wide));
        fill(&mut symbols, table_len(wide), split);
        Self { signed, wide, hopeless, symbols }
    }
}

/// Whether exponents differ much by sign: the counts of an exponent with either sign differ, summed up, by
/// half the samples and by 16 / 2 more.
fn sign_follows_exponent(sampled: &[u64], float: Float) -> bool {
    let mut balance = vec![0i32; 1 << float.exponent_bits];
    for &value in sampled {
        let (symbol, _) = float.split(true).apart(value);
        let negative = symbol >> float.exponent_bits == 1;
        balance[(symbol & !(u64::MAX << float.exponent_bits)) as usize] += if negative { -1 } else { 1 };
    }
    let difference: u32 = balance.into_iter().map(i32::unsigned_abs).sum();
    2 * difference as usize > sampled.len() + 16
}

/// Bits of the codes of the samples in all tiers, and of the symbols without a code.
fn code_bits(symbols: &[u64], counts: &[usize], samples: usize, split: Split, wide: bool) -> usize {
    let mut in_table = symbols.iter();
    let (mut left, mut bits) = (samples, 0);
    for tier in tier_bits(wide) {
        bits += left * tier as usize;
        let here = in_table.by_ref().take((1 << tier) - 1);
        left -= here.map(|&symbol| counts[symbol as usize]).sum::<usize>();
    }
    bits + left * split.symbol_bits as usize
}

/// Fills up `symbols` with those below the commonest, as far as there are any, since exponents thin out
/// downwards.
fn fill(symbols: &mut Vec<u64>, len: usize, split: Split) {
    let Some(&commonest) = symbols.first() else { return };
    let all = 1 << split.symbol_bits;
    for below in 1..all {
        if symbols.len() >= len {
            return;
        }
        let symbol = (commonest + all - below) % all;
        if !symbols.contains(&symbol) {
            symbols.push(symbol);
        }
    }
    symbols.resize(len, 0);
}
