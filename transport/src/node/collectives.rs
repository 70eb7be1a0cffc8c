//! Collectives that are under way on this rank, and go raw though the policy would compress what they send.
//!
//! What ranks tell each other about them is nothing for a policy: it is short, and no data of the program.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mgcomp_selector::{CheapFacts, Decision, Reason};

use crate::comparison::Expected;

/// The collectives that are under way, at most one of each group.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    under_way: Mutex<Vec<UnderWay>>,
    /// How many these are: what is too short to be compared takes no lock. Who sends for a collective has begun it, or has heard of it
    /// from who has.
    count: AtomicUsize,
}

#[derive(Debug)]
struct UnderWay {
    group: u32,
    what: What,
    expected: Expected,
}

/// What is under way.
#[derive(Clone, Copy, Debug)]
enum What {
    /// With a reason, it goes raw where predicted times speak against that.
    Collective { raw: Option<Reason> },
    /// What members tell each other of collectives.
    Reports,
}

/// A collective under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct CollectiveUnderWay<'a> {
    collectives: &'a Collectives,
    group: u32,
}

impl Collectives {
    /// What collectives of `group` send from now on is one collective's. With `raw`, it goes raw where predicted times speak against
    /// that.
    pub(crate) fn begin(&self, group: u32, raw: Option<Reason>) -> CollectiveUnderWay<'_> {
        self.start(group, What::Collective { raw })
    }

    /// What collectives of `group` send from now on are reports of its members.
    pub(crate) fn begin_reports(&self, group: u32) -> CollectiveUnderWay<'_> {
        self.start(group, What::Reports)
    }

    /// Whether that is so, and no policy is asked.
    pub(super) fn are_reports(&self, group: u32) -> bool {
        self.are_any()
            && self.lock().iter().any(|one| one.group == group && matches!(one.what, What::Reports))
    }

    /// What becomes of a decision on something that a collective of `group` sends. `is_looked_at`: a sample is taken for that.
    pub(super) fn decide(
        &self,
        group: u32,
        facts: &CheapFacts,
        decision: Decision,
        is_looked_at: bool,
    ) -> Decision {
        if !self.are_any() {
            return decision;
        }
        let mut under_way = self.lock();
        let Some(UnderWay { what, expected, .. }) = under_way.iter_mut().find(|one| one.group == group)
        else {
            return decision;
        };
        let is_faster = expected.note(facts, &decision, is_looked_at);
        match *what {
            What::Collective { raw: Some(reason) } if is_faster => decision.raw_instead(facts, reason),
            _ => decision,
        }
    }

    fn start(&self, group: u32, what: What) -> CollectiveUnderWay<'_> {
        let mut under_way = self.lock();
        under_way.push(UnderWay { group, what, expected: Expected::default() });
        self.count.store(under_way.len(), Ordering::Release);
        drop(under_way);
        CollectiveUnderWay { collectives: self, group }
    }

    fn are_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Vec<UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CollectiveUnderWay<'_> {
    /// What was sent and expected so far.
    pub(crate) fn expected(&self) -> Expected {
        let under_way = self.collectives.lock();
        let own = under_way.iter().find(|one| one.group == self.group);
        own.map_or_else(Expected::default, |one| one.expected)
    }
}

impl Drop for CollectiveUnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.collectives.lock();
        under_way.retain(|one| one.group != self.group);
        self.collectives.count.store(under_way.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
    use mgcomp_selector::StreamId;

    use super::*;

    const FACTS: CheapFacts = CheapFacts {
        peer: 1,
        stream: StreamId(2),
        raw_bytes: 4096,
        element: Element::F32,
        allowed: AlgorithmSet::from_bits(0),
        link: None,
        lambda: None,
        is_observed: true,
    };
    const FASTEST: Reason = Reason::Fastest { predicted_ns: 1, raw_ns: 2 };

    fn decision(algorithm: Algorithm, reason: Reason) -> Decision {
        Decision { algorithm, reason, predicted_bits: Some(16_000), predicted_ns: None, charged: None }
    }

    #[test]
    fn only_what_is_predicted_to_be_faster_goes_raw() {
        let collectives = Collectives::default();
        let decide = |group, decision| collectives.decide(group, &FACTS, decision, false);
        let fastest = decision(Algorithm::Xp, FASTEST);
        let others = [
            decision(Algorithm::Xp, Reason::Fixed),
            decision(Algorithm::Zvc, Reason::Won { votes: 3, of: 7 }),
            decision(Algorithm::None, Reason::NoGain { raw_ns: 2 }),
        ];
        let raw = collectives.begin(7, Some(Reason::CollectiveTimed));
        let free = collectives.begin(8, None);
        for other in others {
            assert_eq!(decide(7, other), other);
        }
        assert_eq!(raw.expected(), Expected { sent_bytes: 3 * 4096, ..Expected::default() });
        let bypass = Decision::bypass(&FACTS, Reason::CollectiveTimed);
        assert_eq!(decide(7, fastest), Decision { predicted_ns: Some(2), ..bypass });
        assert_eq!(decide(7, fastest).algorithm, Algorithm::None);
        assert_eq!(decide(8, fastest), fastest);
        assert_eq!(decide(9, fastest), fastest, "no collective is known");
        let twice = Expected {
            sent_bytes: 5 * 4096,
            raw_bytes: 8192,
            known_bytes: 8192,
            coded_bytes: 4000,
            link_ns: 4,
            peers: 1 << 1,
            learning_bytes: 0,
        };
        assert_eq!(raw.expected(), twice);
        assert_eq!(free.expected().coded_bytes, 2000);
        drop(raw);
        assert_eq!(decide(7, fastest), fastest, "it is over");
        assert_eq!(free.expected().raw_bytes, 4096);
    }

    #[test]
    fn what_is_tried_or_looked_at_is_told_apart() {
        let collectives = Collectives::default();
        let raw = collectives.begin(7, Some(Reason::CollectiveTimed));
        for reason in
            [Reason::Trial { predicted_ns: 3, raw_ns: 2 }, Reason::Guessed { predicted_ns: 1, raw_ns: 2 }]
        {
            let tried = Decision { predicted_bits: None, ..decision(Algorithm::Zvc, reason) };
            assert_eq!(collectives.decide(7, &FACTS, tried, false), tried);
        }
        let sampled = collectives.decide(7, &FACTS, decision(Algorithm::Zvc, FASTEST), true);
        assert_eq!(sampled.algorithm, Algorithm::None);
        let all = Expected {
            sent_bytes: 12_288,
            raw_bytes: 12_288,
            known_bytes: 4096,
            coded_bytes: 2000,
            link_ns: 2,
            peers: 1 << 1,
            learning_bytes: 12_288,
        };
        assert_eq!(raw.expected(), all);
    }

    #[test]
    fn reports_are_those_of_one_group_while_they_are_under_way() {
        let collectives = Collectives::default();
        let collective = collectives.begin(7, Some(Reason::CollectiveTimed));
        let reports = collectives.begin_reports(8);
        assert_eq!([7, 8, 9].map(|group| collectives.are_reports(group)), [false, true, false]);
        drop((collective, reports));
        assert!(!collectives.are_reports(8));
    }
}
