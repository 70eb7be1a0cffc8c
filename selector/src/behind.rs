//! Decisions one transfer behind, where to look at data first would hold a transfer up.

use std::collections::HashMap;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use crate::{CheapFacts, Cycles, Decision, Estimate, Plan, Policy, Reason, SampleSize, StreamId, table3};

/// Streams that are remembered at most. Beyond them all are forgotten, and looked at again.
const MOST_STREAMS: usize = 4096;

/// What a policy chose when it last heard of the data of each stream.
///
/// A transfer that the policy wants to sample goes as an earlier one was found to be best, raw if there was none, and is
/// looked at on its way. What is found decides about those after it.
///
/// ```
/// use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
/// use mgcomp_selector::{Behind, CheapFacts, Estimate, Lambda, PolicySpec, Reason, Steering, StreamId};
///
/// let mut policy = "paper".parse::<PolicySpec>()?.build(&Steering::from(Lambda::try_new(6.0)?));
/// let allowed = AlgorithmSet::supported();
/// let facts = CheapFacts {
///     peer: 1, stream: StreamId(0), raw_bytes: 4096, element: Element::U32, allowed, link: None, lambda: None,
///     is_observed: true,
/// };
/// let mut behind = Behind::default();
/// let (first, look) = behind.plan(policy.as_mut(), &facts);
/// assert_eq!((first.algorithm, first.reason, look.is_some()), (Algorithm::None, Reason::FirstLook, true));
///
/// // Later, when somebody has looked at it.
/// behind.hear(policy.as_mut(), &facts, &[Estimate { algorithm: Algorithm::Bdi, bits: 1000 }]);
/// assert_eq!(behind.plan(policy.as_mut(), &facts).0.algorithm, Algorithm::Bdi);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Behind {
    known: HashMap<(u32, StreamId, Element), Decision>,
}

/// What a policy wants to know of a transfer.
pub type Look = (AlgorithmSet, SampleSize);

impl Behind {
    /// How a transfer goes, without a look at its bytes; and what is to be found out about it meanwhile, if anything is.
    pub fn plan(&self, policy: &mut dyn Policy, facts: &CheapFacts) -> (Decision, Option<Look>) {
        match policy.plan(facts) {
            Plan::Use(decision) => (decision, None),
            Plan::Sample { algorithms, size } => {
                let known = self.known.get(&key(facts)).copied();
                // The peer may be another one by now.
                let known = known.filter(|decision| facts.allows(decision.algorithm));
                // What is charged is charged for this length.
                let known = known.map(|known| Decision { charged: charged(known.algorithm, facts), ..known });
                let decision = known.unwrap_or_else(|| Decision::bypass(facts, Reason::FirstLook));
                (decision, Some((algorithms, size)))
            }
        }
    }

    /// Hears what was found about the transfer with these facts, of which [`plan`](Self::plan) wanted to know.
    pub fn hear(&mut self, policy: &mut dyn Policy, facts: &CheapFacts, estimates: &[Estimate]) {
        // That one has left, and who tries something on those after it wants to know which.
        let decision = policy.choose(&CheapFacts { is_observed: false, ..*facts }, estimates);
        if self.known.len() >= MOST_STREAMS && !self.known.contains_key(&key(facts)) {
            self.known.clear();
        }
        // What is expected of it is expected of that length.
        self.known.insert(key(facts), Decision { predicted_bits: None, predicted_ns: None, ..decision });
    }
}

/// What a transfer costs in the paper's hardware that goes so.
fn charged(algorithm: Algorithm, facts: &CheapFacts) -> Option<Cycles> {
    table3(algorithm).map(|line| line.times(facts.lines()))
}

fn key(facts: &CheapFacts) -> (u32, StreamId, Element) {
    (facts.peer, facts.stream, facts.element)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    /// Samples every transfer, and takes the first algorithm that was found.
    #[derive(Debug)]
    struct Curious;

    impl Policy for Curious {
        fn name(&self) -> String {
            "curious".to_owned()
        }

        fn plan(&mut self, facts: &CheapFacts) -> Plan {
            Plan::Sample { algorithms: facts.allowed, size: SampleSize::Whole }
        }

        fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
            let found = estimates.first().map_or(Algorithm::None, |estimate| estimate.algorithm);
            let decision = Decision::bypass(facts, Reason::NotSampled);
            Decision { algorithm: found, predicted_bits: Some(1), predicted_ns: Some(2), ..decision }
        }

        fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {}
    }

    fn facts(peer: u32, stream: u32, element: Element) -> CheapFacts {
        let allowed = AlgorithmSet::from_iter([Algorithm::None, Algorithm::Zvc, Algorithm::Xp]);
        CheapFacts {
            peer,
            stream: StreamId(stream),
            raw_bytes: 100,
            element,
            allowed,
            link: None,
            lambda: None,
            is_observed: true,
        }
    }

    fn found(algorithm: Algorithm) -> [Estimate; 1] {
        [Estimate { algorithm, bits: 8 }]
    }

    #[test]
    fn a_transfer_goes_as_the_last_of_its_stream_was_found_to_be_best() {
        let mut behind = Behind::default();
        let one = facts(1, 0, Element::F32);
        let others = [facts(2, 0, Element::F32), facts(1, 1, Element::F32), facts(1, 0, Element::F16)];
        for facts in std::iter::once(&one).chain(&others) {
            let (decision, look) = behind.plan(&mut Curious, facts);
            assert_eq!((decision.algorithm, decision.reason), (Algorithm::None, Reason::FirstLook));
            assert_eq!(look, Some((facts.allowed, SampleSize::Whole)));
        }
        behind.hear(&mut Curious, &one, &found(Algorithm::Xp));
        behind.hear(&mut Curious, &one, &found(Algorithm::Zvc));
        let (decision, look) = behind.plan(&mut Curious, &one);
        assert_eq!((decision.algorithm, decision.reason), (Algorithm::Zvc, Reason::NotSampled));
        assert_eq!((decision.predicted_bits, decision.predicted_ns), (None, None));
        assert!(look.is_some());
        for facts in &others {
            assert_eq!(behind.plan(&mut Curious, facts).0.reason, Reason::FirstLook);
        }
        // To a peer that cannot decode it.
        let alone = CheapFacts { allowed: AlgorithmSet::from_iter([Algorithm::None]), ..one };
        assert_eq!(behind.plan(&mut Curious, &alone).0.reason, Reason::FirstLook);
        // What was found to be best raw stays so for its reason, whatever the peer can decode.
        behind.hear(&mut Curious, &one, &[]);
        let coders = CheapFacts { allowed: AlgorithmSet::from_iter([Algorithm::Xp]), ..one };
        let (decision, _) = behind.plan(&mut Curious, &coders);
        assert_eq!((decision.algorithm, decision.reason), (Algorithm::None, Reason::NotSampled));
    }

    #[test]
    fn what_is_charged_is_of_the_transfer_s_own_length() {
        let mut behind = Behind::default();
        let of = |raw_bytes| CheapFacts {
            raw_bytes,
            allowed: AlgorithmSet::supported(),
            ..facts(1, 0, Element::F32)
        };
        behind.hear(&mut Curious, &of(64), &found(Algorithm::Bdi));
        let (decision, _) = behind.plan(&mut Curious, &of(640));
        assert_eq!(decision.charged, Some(Cycles { compress: 20, decompress: 10 }));
        behind.hear(&mut Curious, &of(64), &found(Algorithm::Xp));
        assert_eq!(behind.plan(&mut Curious, &of(640)).0.charged, None);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut behind = Behind::default();
        for stream in 0..MOST_STREAMS as u32 {
            behind.hear(&mut Curious, &facts(1, stream, Element::U8), &found(Algorithm::Zvc));
        }
        // One that is known makes no room.
        behind.hear(&mut Curious, &facts(1, 7, Element::U8), &found(Algorithm::Xp));
        assert_eq!(behind.plan(&mut Curious, &facts(1, 7, Element::U8)).0.algorithm, Algorithm::Xp);
        assert_eq!(behind.plan(&mut Curious, &facts(1, 0, Element::U8)).0.algorithm, Algorithm::Zvc);
        behind.hear(&mut Curious, &facts(2, 0, Element::U8), &found(Algorithm::Zvc));
        assert_eq!(behind.known.len(), 1);
    }
}
