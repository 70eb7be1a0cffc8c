//! What samples said of several algorithms at the same places.

use std::collections::VecDeque;

use mgcomp_codecs::Algorithm;

use crate::adaptive::knowledge::differ;
use crate::{CheapFacts, Decision};

/// Samples that are remembered until it is known what their transfers became.
const MOST_UNDER_WAY: usize = 8;
/// Places can hardly be further than that from the whole.
const MOST_SCALED: f64 = 16.0;
/// Where one algorithm leaves so many bytes more, another leaves at most so many times as many more.
const MOST_MORE: f64 = 2.0;

/// What one sample said, in coded bytes per raw byte, without framing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    fractions: Vec<(Algorithm, f64)>,
    /// What was in use, and what it was known to become until then.
    in_use: Option<(Algorithm, f64)>,
    /// How much that says of the transfer, of 1.
    pub(super) part: f64,
}

/// How far what one algorithm leaves of the data is from what it was taken to leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::adaptive) struct Change {
    pub(in crate::adaptive) from: f64,
    pub(in crate::adaptive) to: f64,
}

/// Samples whose transfers are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay {
    transfers: VecDeque<(Transfer, Seen)>,
}

/// How a sampled transfer is known again.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Transfer {
    sent: Algorithm,
    raw_bytes: u64,
    predicted_bits: Option<u64>,
}

impl Seen {
    pub(super) const fn new(
        fractions: Vec<(Algorithm, f64)>,
        in_use: Option<(Algorithm, f64)>,
        part: f64,
    ) -> Self {
        Self { fractions, in_use, part }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Algorithm, f64)> {
        self.fractions.iter().copied()
    }

    /// What was said of one algorithm.
    pub(super) fn of(&self, algorithm: Algorithm) -> Option<f64> {
        self.iter().find(|(seen, _)| *seen == algorithm).map(|(_, fraction)| fraction)
    }

    /// Whether a form that was not looked at became just what it always did.
    pub(super) fn is_as_always(&self, sent: Algorithm, fraction: f64, drift: f64) -> bool {
        self.in_use.is_some_and(|(in_use, known)| in_use == sent && differ(known, fraction) <= drift)
    }

    /// Whether what the transfer became is no news: it was looked at in that form, or it is as always.
    pub(super) fn tells_of(&self, sent: Algorithm, fraction: f64, drift: f64) -> bool {
        self.of(sent).is_some() || self.is_as_always(sent, fraction, drift)
    }

    /// What all others are where `one` is known to be `known`: a few places may say too little or too much of the whole, but
    /// then they do so of all. Nothing grows beyond the raw form that was not seen there. `None` if that one was not seen.
    pub(super) fn beside(
        &self,
        one: Algorithm,
        known: f64,
    ) -> Option<impl Iterator<Item = (Algorithm, f64)>> {
        let from = self.of(one)?;
        let to = if from > 0.0 { known.clamp(from / MOST_SCALED, from * MOST_SCALED) } else { known };
        let change = Change { from, to };
        let others = self.iter().filter(move |(algorithm, _)| *algorithm != one);
        Some(others.map(move |(algorithm, fraction)| (algorithm, change.applied_to(fraction))))
    }
}

impl Change {
    /// What another algorithm leaves that was taken to leave `fraction`: it is as many times as much, for what is all zeros or shrinks in
    /// no form is so in every form. But what leaves much does not leave far more for that where next to nothing has become a little.
    /// Nothing grows beyond the raw form that was not there before.
    pub(in crate::adaptive) fn applied_to(self, fraction: f64) -> f64 {
        let Self { from, to } = self;
        let times = to / from;
        if !times.is_finite() || times <= 0.0 {
            return fraction;
        }
        let most = MOST_MORE * (to - from).abs();
        (fraction * times).clamp(fraction - most, fraction + most).min(fraction.max(1.0))
    }
}

impl UnderWay {
    /// Remembers a sample, if what becomes of its transfer will tell more.
    pub(super) fn put(&mut self, facts: &CheapFacts, decision: &Decision, seen: Seen) {
        if decision.algorithm == Algorithm::None {
            return;
        }
        if self.transfers.len() == MOST_UNDER_WAY {
            self.transfers.pop_front(); // what became of it was never told
        }
        self.transfers.push_back((Transfer::of(facts, decision), seen));
    }

    /// The sample of a transfer that has arrived.
    pub(super) fn take(&mut self, facts: &CheapFacts, decision: &Decision) -> Option<Seen> {
        let transfer = Transfer::of(facts, decision);
        let place = self.transfers.iter().rposition(|(sampled, _)| *sampled == transfer)?;
        self.transfers.remove(place).map(|(_, seen)| seen)
    }
}

impl Transfer {
    const fn of(facts: &CheapFacts, decision: &Decision) -> Self {
        let Decision { algorithm: sent, predicted_bits, .. } = *decision;
        Self { sent, raw_bytes: facts.raw_bytes, predicted_bits }
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::AlgorithmSet;

    use super::*;
    use crate::Reason;
    use crate::facts::tests::facts;

    fn seen() -> Seen {
        let fractions = vec![(Algorithm::Zvc, 0.1), (Algorithm::Xp, 0.05), (Algorithm::Bdi, 1.25)];
        Seen::new(fractions, Some((Algorithm::Ibp, 0.2)), 1.0)
    }

    fn transfer(raw_bytes: u64, algorithm: Algorithm) -> (CheapFacts, Decision) {
        let facts = facts(raw_bytes, AlgorithmSet::from_bits(u16::MAX));
        let decision = Decision { algorithm, ..Decision::bypass(&facts, Reason::NotSampled) };
        (facts, decision)
    }

    #[test]
    fn others_are_scaled_by_what_is_known_of_one() {
        let beside = |known| seen().beside(Algorithm::Xp, known).unwrap().collect::<Vec<_>>();
        // Four times as much as at the places that were looked at; what did not shrink there does so nowhere.
        assert_eq!(beside(0.2), [(Algorithm::Zvc, 0.4), (Algorithm::Bdi, 1.25)]);
        assert_eq!(beside(1.0), [(Algorithm::Zvc, 1.0), (Algorithm::Bdi, 1.25)]);
        // Half as much as there, but by no more than twice these bytes.
        assert_eq!(beside(0.025), [(Algorithm::Zvc, 0.05), (Algorithm::Bdi, 1.2)]);
        assert!(seen().beside(Algorithm::Ibp, 0.2).is_none());
        // Four bytes of a hundred more are at most eight of what leaves far more.
        let sorted = Seen::new(vec![(Algorithm::Int, 0.04), (Algorithm::Xp, 0.75)], None, 1.0);
        let xp = |known| sorted.beside(Algorithm::Int, known).unwrap().next().unwrap().1;
        assert!((xp(0.08) - 0.83).abs() < 1e-9 && (xp(0.03) - 0.73).abs() < 1e-9);
        // Other data may be any number of times as much: what was all zeros, and is none now.
        assert_eq!(Change { from: 0.03125, to: 1.0 }.applied_to(0.03), 0.96);
        let nothing = Seen::new(vec![(Algorithm::Zvc, 0.0), (Algorithm::Xp, 0.05)], None, 1.0);
        assert_eq!(nothing.beside(Algorithm::Zvc, 0.2).unwrap().collect::<Vec<_>>(), [(Algorithm::Xp, 0.05)]);
    }

    #[test]
    fn what_was_not_looked_at_tells_only_that_all_is_as_before() {
        let tells_of = |sent, fraction| seen().tells_of(sent, fraction, 0.1);
        assert!(tells_of(Algorithm::Xp, 0.9) && tells_of(Algorithm::Ibp, 0.21));
        assert!(!tells_of(Algorithm::Ibp, 0.3), "other data");
        assert!(!tells_of(Algorithm::Int, 0.2), "neither looked at nor in use");
    }

    #[test]
    fn a_sample_is_found_again_by_its_transfer() {
        let mut under_way = UnderWay::default();
        let (long, short) = (transfer(1 << 20, Algorithm::Xp), transfer(1 << 10, Algorithm::Zvc));
        under_way.put(&long.0, &long.1, seen());
        under_way.put(&short.0, &short.1, seen());
        let raw = transfer(1 << 20, Algorithm::None);
        under_way.put(&raw.0, &raw.1, seen());
        assert_eq!(under_way.take(&raw.0, &raw.1), None);
        assert_eq!(under_way.take(&short.0, &short.1), Some(seen()));
        assert_eq!(under_way.take(&short.0, &short.1), None);
        // What is never heard of makes room for others.
        for _ in 0..MOST_UNDER_WAY {
            under_way.put(&short.0, &short.1, seen());
        }
        assert_eq!(under_way.take(&long.0, &long.1), None);
    }
}
