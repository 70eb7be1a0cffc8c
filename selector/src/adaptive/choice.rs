//! What is best for a transfer of a certain length, worked out once for all transfers of about that length.

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use super::knowledge::Knowledge;
use super::model::Goal;
use crate::speeds::{CodecTimes, Speeds};

/// Lengths from 2^first on are told apart, two classes an octave.
const FIRST_OCTAVE: u32 = 6;
const CLASSES: usize = 64;
/// What costs at most so many times the best is worth comparing with it again.
const CONTENDER: f64 = 1.25;

/// The best way for transfers of one stream and about one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) algorithm: Algorithm,
    /// Time until it is there, for a raw byte.
    pub(super) ns_per_byte: f64,
    /// The same of the raw form.
    pub(super) raw_ns_per_byte: f64,
    /// Coded bytes per raw byte; 1 for the raw form.
    pub(super) fraction: f64,
    /// Algorithms that would win if the data suited them, but for their own time.
    pub(super) promising: AlgorithmSet,
    /// Those of them that are near the best as far as is known, the best included.
    pub(super) contenders: AlgorithmSet,
    /// Whether the size of any of the promising is known.
    pub(super) informed: bool,
}

/// Choices by length.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    by_class: [Option<Choice>; CLASSES],
}

impl Default for Choices {
    fn default() -> Self {
        Self { by_class: [None; CLASSES] }
    }
}

impl Choices {
    pub(super) fn of(&mut self, raw_bytes: u64) -> &mut Option<Choice> {
        &mut self.by_class[class(raw_bytes)]
    }

    pub(super) fn clear(&mut self) {
        self.by_class = [None; CLASSES];
    }
}

fn class(raw_bytes: u64) -> usize {
    let raw_bytes = raw_bytes.max(1);
    let octave = raw_bytes.ilog2();
    let upper_half = if octave == 0 { 0 } else { raw_bytes >> (octave - 1) & 1 };
    let class = 2 * octave.saturating_sub(FIRST_OCTAVE) as usize + upper_half as usize;
    class.min(CLASSES - 1)
}

/// What a choice is made from.
pub(super) struct Scene<'a> {
    pub(super) goal: Goal,
    pub(super) speeds: &'a Speeds,
    pub(super) element: Element,
    pub(super) allowed: AlgorithmSet,
    pub(super) knowledge: &'a Knowledge,
    /// What a codec must save of the raw cost, as a part of it.
    pub(super) least_gain: f64,
}

impl Scene<'_> {
    /// The cheapest way for `raw_bytes`. Of equals the lower number goes first, and the raw form before all.
    pub(super) fn choose(&self, raw_bytes: u64) -> Choice {
        let raw_bits = raw_bytes as f64 * 8.0;
        let raw_cost = self.goal.cost(raw_bytes, raw_bits, CodecTimes::default());
        let limit = raw_cost * (1.0 - self.least_gain);
        let (mut best, mut best_cost, mut fraction) = (Algorithm::None, raw_cost, 1.0);
        let mut best_times = CodecTimes::default();
        let mut promising = 0u16;
        let mut known = [f64::INFINITY; 16];
        for algorithm in self.allowed.iter() {
            let Some(times) = self.times(algorithm, raw_bytes, 0.0) else { continue };
            if self.goal.cost(raw_bytes, 0.0, times) >= limit {
                continue;
            }
            promising |= 1 << algorithm.number();
            let Some(coded) = self.knowledge.fraction(algorithm) else { continue };
            let times = self.times(algorithm, raw_bytes, coded).unwrap_or_default();
            let cost = self.goal.cost(raw_bytes, raw_bits * coded, times);
            known[usize::from(algorithm.number())] = cost;
            if cost < best_cost && cost < limit {
                (best, best_cost, fraction, best_times) = (algorithm, cost, coded, times);
            }
        }
        let near = |number: &u16| known[usize::from(*number)] <= best_cost * CONTENDER;
        let ns_per_byte = |fraction, times| {
            self.goal.completion_ns(raw_bytes, raw_bits * fraction, times) / raw_bytes as f64
        };
        let contenders = (0..16u16).filter(near).fold(0, |set, number| set | 1 << number);
        Choice {
            algorithm: best,
            ns_per_byte: ns_per_byte(fraction, best_times),
            raw_ns_per_byte: ns_per_byte(1.0, CodecTimes::default()),
            fraction,
            promising: AlgorithmSet::from_bits(promising),
            contenders: AlgorithmSet::from_bits(contenders),
            informed: known.iter().any(|cost| cost.is_finite()),
        }
    }

    fn times(&self, algorithm: Algorithm, raw_bytes: u64, fraction: f64) -> Option<CodecTimes> {
        let times = self.speeds.times(algorithm, self.element, raw_bytes, fraction)?;
        Some(self.knowledge.corrected(algorithm, times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_half_octaves() {
        assert_eq!([1, 2, 3, 64, 95, 96, 127, 128].map(class), [0, 0, 1, 0, 0, 1, 1, 2]);
        assert_eq!(class(3 << 20), class((4 << 20) - 1));
        assert_ne!(class(3 << 20), class((3 << 20) - 1));
        assert_eq!(class(u64::MAX), CLASSES - 1);
        assert_eq!(class(0), 0);
    }
}
