//! What a stream learns of sizes: from samples, and from what their transfers became.

use mgcomp_codecs::{Algorithm, AlgorithmSet};

use super::Stream;
use super::seen::{Change, Seen};
use crate::adaptive::kinds::{NEXT_TO_NOTHING, Turn};
use crate::adaptive::knowledge::differ;
use crate::{CheapFacts, Decision, Estimate};

/// A size that a sample finds so far from the known, as a part of it, is that of other data.
const OTHER_DATA: f64 = 0.25;
/// What a sample of a transfer says, as a part of what the transfer itself does.
const SAMPLED_EVIDENCE: f64 = 0.125;
/// The same, once it is known what the transfer became in the form of another algorithm.
const SCALED_EVIDENCE: f64 = 0.25;
/// A sample of so few bytes says half of that, and may be twice as far off by chance.
const FEW_BYTES: f64 = 16384.0;
/// Samples that are so far off on average say half of that.
const OFF: f64 = 0.1;
/// What is so many times as far off as samples are on average, which is two standard deviations, is hardly chance.
const HARDLY_CHANCE: f64 = 2.5;
/// What is expected follows what is known of kinds each time that another one comes, and else after so many transfers.
const FOLLOWED: u32 = 8;
/// Weight of a sample in how far they are off.
const WEIGHT: f64 = 0.25;

/// What a sample has done to what is known.
#[derive(Clone, Debug)]
pub(super) struct Moves {
    /// By algorithm: what it was known to become before, and since.
    fractions: [Option<(f64, f64)>; 16],
    seen: AlgorithmSet,
}

/// Of what a sample has done, what is taken back.
#[derive(Clone, Copy, PartialEq)]
enum Back {
    All,
    /// Only what was taken to have changed as others have. By how much it has in truth.
    Unseen(Option<Change>),
}

impl Stream {
    /// Learns what a sample says.
    pub(in crate::adaptive) fn learn_sample(&mut self, facts: &CheapFacts, estimates: &[Estimate]) {
        self.awaited = None;
        let asked = self.asked.has_come(facts.raw_bytes);
        self.before = asked.and_then(|asked| asked.before);
        self.glanced = asked.is_some_and(|asked| asked.is_glance);
        let sample_bytes = asked.map_or(0, |asked| asked.sample_bytes);
        let looked_at = sample_bytes.clamp(1, facts.raw_bytes.max(1)) as f64;
        let part = looked_at / (looked_at + FEW_BYTES).min(facts.raw_bytes.max(1) as f64);
        // Who has looked at all of it is not off.
        let off = if part < 1.0 { self.sampled_off } else { 0.0 };
        let evidence = SAMPLED_EVIDENCE * part / (1.0 + (off / OFF).powi(2));
        let other_data = (OTHER_DATA / part).max((HARDLY_CHANCE * off).exp() - 1.0);
        self.put_back(Back::Unseen(None));
        let seen = self.seen(facts, estimates, part);
        let is_other = |(algorithm, fraction): (Algorithm, f64)| {
            self.knowledge
                .latest_fraction(algorithm)
                .is_some_and(|known| differ(known + NEXT_TO_NOTHING, fraction + NEXT_TO_NOTHING) > other_data)
        };
        // What one algorithm says of the data holds for all.
        let changed = seen.iter().any(is_other);
        self.changed = changed;
        if changed {
            self.budget.data_changed();
            self.knowledge.doubt_fractions();
        }
        let evidence_bytes = evidence * facts.raw_bytes as f64;
        // Of a stream that goes raw nothing but samples tells, and a wrong one costs an encoding in vain: few bytes are believed as soon.
        let raw = self.before == Some(Algorithm::None);
        let drift = if changed {
            0.0
        } else if raw {
            OTHER_DATA.max((HARDLY_CHANCE * off).exp() - 1.0)
        } else {
            other_data
        };
        let before = self.knowledge.fractions();
        if let Some((one, fraction)) = self.reference(&seen) {
            let known = self.knowledge.latest_fraction(one);
            self.learn_fraction(one, fraction, evidence_bytes, drift);
            self.learn_beside(one, &seen, evidence_bytes, drift);
            self.move_others(one, known, &seen);
        } else {
            for (algorithm, fraction) in seen.iter() {
                self.learn_fraction(algorithm, fraction, evidence_bytes, drift);
            }
        }
        let since = self.knowledge.fractions();
        let fractions = std::array::from_fn(|at| before[at].zip(since[at]));
        let looked_at = seen.iter().map(|(algorithm, _)| algorithm).collect();
        self.moved = Some(Box::new(Moves { fractions, seen: looked_at }));
        self.seen = seen;
    }

    fn seen(&self, facts: &CheapFacts, estimates: &[Estimate], part: f64) -> Seen {
        let fraction = |estimate: &Estimate| {
            self.framing.data_fraction(estimate.algorithm, facts.raw_bytes, estimate.bits as f64 / 8.0)
        };
        let fractions = estimates
            .iter()
            .filter(|estimate| estimate.algorithm != Algorithm::None)
            .map(|estimate| (estimate.algorithm, fraction(estimate)));
        let in_use = self.before.and_then(|before| Some((before, self.knowledge.latest_fraction(before)?)));
        Seen::new(fractions.collect(), in_use, part)
    }

    /// What others are compared with in a sample: what is in use, or if that was not looked at, what is known to become least.
    /// The raw form is what it is everywhere.
    fn reference(&self, seen: &Seen) -> Option<(Algorithm, f64)> {
        let in_use = self.before.filter(|before| *before != Algorithm::None)?;
        let known = |(algorithm, seen)| Some((self.knowledge.latest_fraction(algorithm)?, algorithm, seen));
        let least = |a: &(f64, _, _), b: &(f64, _, _)| a.0.total_cmp(&b.0);
        let all = || seen.iter().filter_map(known);
        let (_, algorithm, fraction) =
            all().find(|(_, algorithm, _)| *algorithm == in_use).or_else(|| all().min_by(least))?;
        Some((algorithm, fraction))
    }

    /// Remembers the last sample until it is known what its transfer became.
    pub(in crate::adaptive) fn remember(&mut self, facts: &CheapFacts, decision: &Decision) {
        let seen = std::mem::take(&mut self.seen);
        if decision.algorithm == Algorithm::None && seen.iter().next().is_some() {
            // Nobody will tell how far off it was, and what was once so need not stay so.
            self.sampled_off *= 1.0 - WEIGHT;
            if facts.is_observed {
                let all: Vec<_> = seen.iter().collect();
                self.learn_kind(&all, seen.part * facts.raw_bytes as f64, OTHER_DATA / seen.part);
            }
        }
        self.under_way.put(facts, decision, seen);
    }

    /// Learns of all others that a sample looked at, beside what is known of `one`.
    fn learn_beside(&mut self, one: Algorithm, seen: &Seen, evidence_bytes: f64, drift: f64) {
        let Some(known) = self.knowledge.latest_fraction(one) else { return };
        for (algorithm, fraction) in seen.beside(one, known).into_iter().flatten() {
            self.learn_fraction(algorithm, fraction, evidence_bytes, drift);
        }
    }

    /// Until it is known what a sampled transfer became, what the sample did not look at is taken to have changed as `one`
    /// has, which was `known` before.
    fn move_others(&mut self, one: Algorithm, known: Option<f64>, seen: &Seen) {
        let Some((known, since)) = known.zip(self.knowledge.latest_fraction(one)) else { return };
        let unseen = |algorithm: &Algorithm| *algorithm != one && seen.of(*algorithm).is_none();
        for algorithm in Algorithm::ALL.into_iter().filter(unseen) {
            self.change(algorithm, Change { from: known, to: since });
        }
    }

    /// Takes back what the last sample has done, as far as nothing else was learned since.
    fn put_back(&mut self, back: Back) {
        let Some(moved) = self.moved.take() else { return };
        for algorithm in Algorithm::ALL {
            let Some((before, since)) = moved.fractions[usize::from(algorithm.number())] else { continue };
            let change = match back {
                Back::All => None,
                Back::Unseen(change) if !moved.seen.contains(algorithm) => change,
                Back::Unseen(_) => continue,
            };
            if self.knowledge.latest_fraction(algorithm) == Some(since) {
                let fraction = change.map_or(before, |change| change.applied_to(before));
                self.knowledge.set_fraction(algorithm, fraction);
                self.settle(algorithm);
            }
        }
    }

    /// Learns more of a sample once its transfer has become `fraction` in the form in which it was sent.
    pub(super) fn learn_sampled(
        &mut self,
        facts: &CheapFacts,
        tried: Algorithm,
        fraction: f64,
        seen: &Seen,
        drift: f64,
    ) -> Turn {
        if let Some(sampled) = seen.of(tried).filter(|_| seen.part < 1.0) {
            let off = ((sampled + NEXT_TO_NOTHING) / (fraction + NEXT_TO_NOTHING)).ln().abs();
            self.sampled_off += (off - self.sampled_off) * WEIGHT;
        }
        let known = self.moved.as_ref().and_then(|moved| moved.fractions[usize::from(tried.number())]);
        let known = known.map_or(fraction, |(before, _)| before);
        if seen.of(tried).is_some() {
            // Unless the data is other data, all else is what it was before.
            let change = Change { from: known, to: fraction };
            self.put_back(Back::Unseen(Some(change).filter(|_| differ(known, fraction) > drift)));
        } else if seen.is_as_always(tried, fraction, drift) {
            self.put_back(Back::All);
        }
        self.learn_fraction(tried, fraction, facts.raw_bytes as f64, drift);
        let evidence_bytes = SCALED_EVIDENCE * facts.raw_bytes as f64;
        self.learn_beside(tried, seen, evidence_bytes, OTHER_DATA / seen.part);
        let mut all = vec![(tried, fraction)];
        match seen.beside(tried, fraction) {
            Some(others) => all.extend(others),
            None => all.extend(seen.iter()),
        }
        self.learn_kind(&all, facts.raw_bytes as f64, OTHER_DATA / seen.part)
    }

    /// Learns what a transfer became that nobody had looked at.
    pub(super) fn learn_unsampled(
        &mut self,
        facts: &CheapFacts,
        tried: Algorithm,
        fraction: f64,
        drift: f64,
    ) -> Turn {
        let raw_bytes = facts.raw_bytes as f64;
        self.learn_fraction(tried, fraction, raw_bytes, drift);
        self.learn_kind(&[(tried, fraction)], raw_bytes, OTHER_DATA)
    }

    fn learn_kind(&mut self, seen: &[(Algorithm, f64)], bytes: f64, tolerance: f64) -> Turn {
        let turn = self.knowledge.learn_kind(seen, bytes, tolerance);
        if turn != Turn::Same {
            self.glance_ns = 0.0;
        }
        self.unfollowed += u32::from(self.knowledge.kinds_matter());
        if turn != Turn::Same || self.unfollowed >= FOLLOWED {
            self.unfollowed = 0;
            self.knowledge.expect();
            AlgorithmSet::supported().iter().for_each(|algorithm| self.settle(algorithm));
        }
        turn
    }

    /// Takes an algorithm to have changed as another one has.
    fn change(&mut self, algorithm: Algorithm, change: Change) {
        if let Some(known) = self.knowledge.latest_fraction(algorithm) {
            self.knowledge.set_fraction(algorithm, change.applied_to(known));
        }
        self.settle(algorithm);
    }

    fn learn_fraction(&mut self, algorithm: Algorithm, fraction: f64, evidence_bytes: f64, drift: f64) {
        self.knowledge.learn_fraction(algorithm, fraction, evidence_bytes, drift);
        self.settle(algorithm);
    }
}
