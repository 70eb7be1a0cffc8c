//! What is best for a transfer of a certain length, worked out once for all transfers of about that length.

use std::cmp::Ordering;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use super::framing::Framing;
use super::knowledge::Knowledge;
use super::model::Goal;
use super::priors::Priors;
use crate::speeds::{CodecTimes, Speeds};

/// What a codec may turn out to take that was never timed here, whatever the data, as a part of what was measured before all.
const HOPED: f64 = 0.5;
/// The same of one that was timed, but on other lengths or other data.
const HOPED_ELSEWHERE: f64 = 0.8;
/// The same of one that was timed on this data and length once: that time may have been disturbed.
const HOPED_AGAIN: f64 = 0.85;
/// The same, now and then, of one that was timed: all its times may have been disturbed, or the machine be another now.
const HOPED_LATER: f64 = 0.6;
/// Trying such a codec counts as if it lost at least so much of the transfer's time: else who is about as good would be tried
/// for ever.
const LEAST_LOSS: f64 = 0.2;
/// How likely it is that a codec turns out to be so far of the way to the least that it may take: two standard deviations.
const ODDS: [(f64, f64); 4] = [(0.25, 0.175), (0.5, 0.121), (0.75, 0.066), (1.0, 0.04)];
/// What trying is reckoned to lose at least, as a part of what the best costs.
const LEAST_RISK: f64 = 0.01;
/// What data may shrink to.
const FRACTIONS: [f64; 2] = [0.0, 0.6];
/// More than a week is nobody's time.
const MOST_NS: f64 = 1e15;
/// What a guess is taken to be worth: it is right so often.
const GUESSED_RIGHT: f64 = 0.7;

/// The best way for transfers of one stream and about one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) best: Way,
    raw_ns_per_byte: f64,
    latency_ns: f64,
    /// Algorithms that would win if the data suited them, but for their own time.
    pub(super) promising: AlgorithmSet,
    /// Those of the promising of whose size nothing is known.
    pub(super) unknown: AlgorithmSet,
}

/// What might be better than a choice, though it is not predicted to be: apart, for each transfer has its choice copied.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Chances {
    /// Of what was hardly timed, and of what has been tried before.
    pub(super) trials: [Option<Trial>; 2],
    /// What is worth taking while nothing is known of any size.
    pub(super) guess: Option<Way>,
}

/// An algorithm, and what it is predicted to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) algorithm: Algorithm,
    /// Coded bytes per raw byte, without framing; 1 for the raw form.
    fraction: f64,
    /// Time until it is there beyond the latency.
    ns_per_byte: f64,
}

/// A way that is only taken to see what it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) way: Way,
    /// How much longer than the best it is predicted to take; at least [`LEAST_LOSS`] if it has been tried before.
    loss_ns_per_byte: f64,
    /// What it may save, by how likely that is.
    gain_ns_per_byte: f64,
    /// It has been tried before.
    pub(super) is_late: bool,
}

impl Choice {
    /// What a transfer is predicted to take.
    pub(super) fn ns(&self, way: &Way, raw_bytes: u64) -> f64 {
        self.latency_ns + way.ns_per_byte * raw_bytes as f64
    }

    /// What the best way is predicted to take, for accounts.
    pub(super) fn best_ns(&self, raw_bytes: u64) -> f64 {
        self.ns(&self.best, raw_bytes).min(MOST_NS)
    }

    /// What it would take raw.
    pub(super) fn raw_ns(&self, raw_bytes: u64) -> f64 {
        self.latency_ns + self.raw_ns_per_byte * raw_bytes as f64
    }

    /// Whether any algorithm might be better than the raw form, whatever the data.
    pub(super) fn is_open(&self) -> bool {
        self.promising.bits() != 0
    }

    /// Whether the size of any of the promising is known.
    pub(super) fn is_informed(&self) -> bool {
        self.unknown != self.promising
    }
}

impl Way {
    /// The same of data of which another fraction is left; nothing if that is more than a tenth more.
    pub(super) fn of_fraction(self, fraction: f64) -> Option<Self> {
        (fraction <= 1.1 * self.fraction).then_some(Self { fraction, ..self })
    }

    /// What a transfer is predicted to become.
    pub(super) fn coded_bytes(&self, framing: &Framing, raw_bytes: u64) -> f64 {
        match self.algorithm {
            Algorithm::None => raw_bytes as f64,
            algorithm => self.fraction * raw_bytes as f64 + framing.bytes(algorithm, raw_bytes),
        }
    }
}

impl Trial {
    /// What trying is predicted to cost.
    pub(super) fn loss_ns(&self, raw_bytes: u64) -> f64 {
        self.loss_ns_per_byte * raw_bytes as f64
    }

    /// What it may save on so many bytes, by how likely that is.
    pub(super) fn worth_ns(&self, bytes: f64) -> f64 {
        self.gain_ns_per_byte * bytes
    }
}

/// What a choice is made from.
pub(super) struct Scene<'a> {
    pub(super) goal: Goal,
    pub(super) speeds: &'a Speeds,
    pub(super) element: Element,
    pub(super) allowed: AlgorithmSet,
    pub(super) knowledge: &'a Knowledge,
    pub(super) priors: &'a Priors,
    pub(super) framing: &'a Framing,
    /// What a codec must save of the raw cost, as a part of it, unless an operator's λ decides.
    pub(super) least_gain: f64,
}

/// What an algorithm is known to do with a transfer.
#[derive(Clone, Copy)]
struct Known {
    algorithm: Algorithm,
    fraction: f64,
    coded_bits: f64,
    times: CodecTimes,
    cost: f64,
}

/// What there is to hope for from a codec.
#[derive(Clone, Copy)]
struct Hope {
    /// Only now and then: it has been tried before.
    is_late: bool,
    /// If so, how many times were learned since then.
    since: u32,
    /// What it may save, by how likely that is.
    gain: f64,
}

impl Scene<'_> {
    /// The cheapest way for `raw_bytes`, and what might be better. Of equals the lower number goes first, and the raw form
    /// before all.
    pub(super) fn choose(&self, raw_bytes: u64) -> (Choice, Chances) {
        let raw = self.raw(raw_bytes);
        // An operator's λ decides alone: whatever makes its penalty less is better.
        let least_gain = if self.goal.lambda.is_some() { 0.0 } else { self.least_gain };
        let limit = raw.cost * (1.0 - least_gain);
        let (mut best, mut guess, mut hopes) = (raw, None, [None::<Known>; 16]);
        let (mut promising, mut unknown) = (0u16, 0u16);
        for algorithm in self.allowed.iter() {
            // Most that are too slow are so for all data, which is quickly seen.
            if !self.is_quick_enough(algorithm, raw_bytes, limit) {
                continue;
            }
            let at = usize::from(algorithm.number());
            let known = self.known(algorithm, raw_bytes);
            // What saves something as it is needs no other data for that.
            let saves = known.is_some_and(|known| known.cost < limit);
            if !saves && !self.is_promising(algorithm, raw_bytes, limit) {
                continue;
            }
            promising |= 1 << at;
            let Some(known) = known else {
                unknown |= 1 << at;
                guess = self.better_guess(guess, algorithm, &raw, raw_bytes);
                continue;
            };
            hopes[at] = Some(known);
            if saves && known.cost < best.cost {
                best = known;
            }
        }
        let below = best.cost.min(limit);
        let (best_cost, least_risk) = (best.cost, LEAST_RISK * best.cost);
        let promise = |(hope, known): &(Hope, Known)| hope.gain / (known.cost - best_cost).max(least_risk);
        // What promises most for what it may lose is tried first, and what has been tried before in turn.
        let is_sooner = |new: &(Hope, Known), old: &(Hope, Known)| match new.0.since.cmp(&old.0.since) {
            Ordering::Equal => promise(new) > promise(old),
            order => order.is_gt(),
        };
        let mut trials = [None; 2];
        for known in hopes.into_iter().flatten().filter(|known| known.algorithm != best.algorithm) {
            for hope in self.hopes(&known, raw_bytes, below).into_iter().flatten() {
                let (place, new) = (&mut trials[usize::from(hope.is_late)], (hope, known));
                if place.as_ref().is_none_or(|old| is_sooner(&new, old)) {
                    *place = Some(new);
                }
            }
        }
        let way = |known: &Known| self.way(known, raw_bytes);
        let best = way(&best);
        let as_trial = |(hope, known): (Hope, Known)| {
            let least = if hope.is_late { LEAST_LOSS } else { LEAST_RISK } * best.ns_per_byte;
            let way = way(&known);
            let loss_ns_per_byte = (way.ns_per_byte - best.ns_per_byte).max(least);
            let gain_ns_per_byte = hope.gain / raw_bytes as f64;
            Trial { way, loss_ns_per_byte, gain_ns_per_byte, is_late: hope.is_late }
        };
        let choice = Choice {
            best,
            raw_ns_per_byte: way(&raw).ns_per_byte,
            latency_ns: self.goal.latency_ns(),
            promising: AlgorithmSet::from_bits(promising),
            unknown: AlgorithmSet::from_bits(unknown),
        };
        let chances = Chances {
            trials: trials.map(|trial| trial.map(as_trial)),
            guess: guess.filter(|_| unknown == promising).map(|known| way(&known)),
        };
        (choice, chances)
    }

    /// The better of a guess and another one, if that is worth anything: as far as it is right it saves something, and
    /// else encoding was in vain.
    fn better_guess(
        &self,
        guess: Option<Known>,
        algorithm: Algorithm,
        raw: &Known,
        raw_bytes: u64,
    ) -> Option<Known> {
        // An operator's λ asks for what is known.
        let fraction = self.priors.fraction(self.element, algorithm).filter(|_| self.goal.lambda.is_none());
        let Some(guessed) = fraction.and_then(|fraction| self.at(algorithm, raw_bytes, fraction)) else {
            return guess;
        };
        let in_vain = CodecTimes { decode_ns: 0.0, ..guessed.times };
        let lost = self.goal.cost(raw_bytes, raw.coded_bits, in_vain) - raw.cost;
        let worth = GUESSED_RIGHT * (raw.cost - guessed.cost) > (1.0 - GUESSED_RIGHT) * lost;
        let better = guess.is_none_or(|known| guessed.cost < known.cost);
        if worth && better { Some(guessed) } else { guess }
    }

    /// Whether an algorithm would keep below a cost if nothing were left of the data.
    fn is_quick_enough(&self, algorithm: Algorithm, raw_bytes: u64, limit: f64) -> bool {
        let Some(least) = self.speeds.least_times(algorithm, self.element, raw_bytes) else { return false };
        let least = hoped(self.knowledge.corrected(algorithm, raw_bytes, least), HOPED);
        self.goal.cost(raw_bytes, 0.0, least) < limit
    }

    /// Whether it would if the data suited it. Data that shrinks more may take longer.
    fn is_promising(&self, algorithm: Algorithm, raw_bytes: u64, limit: f64) -> bool {
        FRACTIONS.into_iter().any(|fraction| {
            let times = self.times(algorithm, raw_bytes, fraction).map(|times| hoped(times, HOPED));
            times.is_some_and(|times| {
                self.goal.cost(raw_bytes, raw_bytes as f64 * 8.0 * fraction, times) < limit
            })
        })
    }

    fn raw(&self, raw_bytes: u64) -> Known {
        let (coded_bits, times) = (raw_bytes as f64 * 8.0, CodecTimes::default());
        let cost = self.goal.cost(raw_bytes, coded_bits, times);
        Known { algorithm: Algorithm::None, fraction: 1.0, coded_bits, times, cost }
    }

    /// `None` where nothing is known of the size.
    fn known(&self, algorithm: Algorithm, raw_bytes: u64) -> Option<Known> {
        self.at(algorithm, raw_bytes, self.knowledge.fraction(algorithm)?)
    }

    /// What becomes of data that shrinks to this fraction.
    fn at(&self, algorithm: Algorithm, raw_bytes: u64, fraction: f64) -> Option<Known> {
        let raw = raw_bytes as f64;
        let coded_bytes = fraction * raw + self.framing.bytes(algorithm, raw_bytes);
        let times = self.times(algorithm, raw_bytes, coded_bytes / raw)?;
        let coded_bits = 8.0 * coded_bytes;
        let cost = self.goal.cost(raw_bytes, coded_bits, times);
        Some(Known { algorithm, fraction, coded_bits, times, cost })
    }

    fn times(&self, algorithm: Algorithm, raw_bytes: u64, fraction: f64) -> Option<CodecTimes> {
        let times = self.speeds.times(algorithm, self.element, raw_bytes, fraction)?;
        Some(self.knowledge.corrected(algorithm, raw_bytes, times))
    }

    /// What a codec may save of `below`, if anything; who does not try will never know. What was timed is also tried now and then, whatever
    /// the odds. Nothing is tried where the operator's λ decides.
    fn hopes(&self, known: &Known, raw_bytes: u64, below: f64) -> [Option<Hope>; 2] {
        if self.goal.lambda.is_some() {
            return [None; 2];
        }
        let hope = |least: f64, is_late| {
            let saved = |of_the_way: f64| {
                let times = hoped(known.times, 1.0 - (1.0 - least) * of_the_way);
                (below - self.goal.cost(raw_bytes, known.coded_bits, times)).max(0.0)
            };
            let gain: f64 = ODDS.into_iter().map(|(of_the_way, odds)| odds * saved(of_the_way)).sum();
            let since = if is_late { self.knowledge.since_timed(known.algorithm, raw_bytes) } else { 0 };
            (gain > 0.0).then_some(Hope { is_late, since, gain })
        };
        let least = match self.knowledge.timed(known.algorithm, raw_bytes) {
            0 if !self.knowledge.is_timed(known.algorithm) => return [hope(HOPED, false), None],
            0 => Some(HOPED_ELSEWHERE),
            1 => Some(HOPED_AGAIN),
            _ => None,
        };
        [least.and_then(|least| hope(least, false)), hope(HOPED_LATER, true)]
    }

    fn way(&self, known: &Known, raw_bytes: u64) -> Way {
        let Known { algorithm, fraction, coded_bits, times, .. } = *known;
        let ns = self.goal.completion_ns(raw_bytes, coded_bits, times) - self.goal.latency_ns();
        Way { algorithm, fraction, ns_per_byte: ns / raw_bytes as f64 }
    }
}

/// What a codec may take at best.
fn hoped(CodecTimes { encode_ns, decode_ns }: CodecTimes, part: f64) -> CodecTimes {
    CodecTimes { encode_ns: encode_ns * part, decode_ns: decode_ns * part }
}

#[cfg(test)]
impl Choice {
    /// Of transfers that take no time.
    pub(super) fn nothing() -> Self {
        let nothing = AlgorithmSet::from_bits(0);
        Self {
            best: Way { algorithm: Algorithm::None, fraction: 1.0, ns_per_byte: 0.0 },
            raw_ns_per_byte: 0.0,
            latency_ns: 0.0,
            promising: nothing,
            unknown: nothing,
        }
    }
}
