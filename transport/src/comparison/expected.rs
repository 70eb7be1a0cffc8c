//! What a policy expected of what was sent for something.

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{CheapFacts, Decision, Reason};

/// Beside what is as long, a look at a sample takes no time.
pub(crate) const LONG_BYTES: u64 = 4 << 20;

/// What this rank sends for something, and what the policy expected of that where it found compression faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// All of it.
    pub(crate) sent_bytes: u64,
    /// What the policy would compress.
    pub(crate) raw_bytes: u64,
    /// That of which it knows what it becomes, and that.
    pub(crate) known_bytes: u64,
    pub(crate) coded_bytes: u64,
    /// What the links alone would take for that raw, one behind the other, in nanoseconds,
    pub(crate) link_ns: u64,
    /// and to how many peers it goes: a bit for each, up to 64 of them.
    pub(crate) peers: u64,
    /// What it looks at, or tries, to learn something. That takes longer.
    pub(crate) learning_bytes: u64,
}

impl Expected {
    /// Takes in a decision on something that is sent. `is_looked_at`: a sample is taken for that. Returns whether predicted times speak
    /// for compression: that may go raw instead. What is to be learned is not learned from raw bytes.
    pub(crate) fn note(&mut self, facts: &CheapFacts, decision: &Decision, is_looked_at: bool) -> bool {
        self.sent_bytes += facts.raw_bytes;
        let is_tried = matches!(decision.reason, Reason::Trial { .. } | Reason::Guessed { .. });
        let is_faster = matches!(decision.reason, Reason::Fastest { .. });
        if let Reason::Fastest { raw_ns, .. } = decision.reason {
            self.link_ns = self.link_ns.saturating_add(raw_ns);
            self.peers |= 1 << (facts.peer % 64);
        }
        if decision.algorithm == Algorithm::None || !(is_tried || is_faster) {
            return false;
        }
        self.raw_bytes += facts.raw_bytes;
        if let Some(bits) = decision.predicted_bits {
            self.known_bytes += facts.raw_bytes;
            self.coded_bytes = self.coded_bytes.saturating_add(bits / 8);
        }
        if is_tried || is_looked_at && facts.raw_bytes < LONG_BYTES {
            self.learning_bytes += facts.raw_bytes;
        }
        is_faster
    }

    /// Takes in what was expected of something else.
    pub(crate) fn add(&mut self, other: Self) {
        self.sent_bytes += other.sent_bytes;
        self.raw_bytes += other.raw_bytes;
        self.known_bytes += other.known_bytes;
        self.coded_bytes = self.coded_bytes.saturating_add(other.coded_bytes);
        self.link_ns = self.link_ns.saturating_add(other.link_ns);
        self.peers |= other.peers;
        self.learning_bytes += other.learning_bytes;
    }

    /// What is expected to be left of what the policy would compress, as a part of it.
    pub(crate) fn fraction(&self) -> Option<f64> {
        (self.known_bytes > 0).then(|| self.coded_bytes as f64 / self.known_bytes as f64)
    }

    /// What the link to one peer alone would take raw, in nanoseconds: those to several may work at the same time.
    pub(crate) fn link_ns_of_one(&self) -> u64 {
        self.link_ns / u64::from(self.peers.count_ones().max(1))
    }

    /// Whether its time says something about compression: not where this rank would have sent all raw anyway, nor where it learns,
    /// which takes longer.
    pub(crate) fn says_something(&self) -> bool {
        if self.raw_bytes == 0 { self.sent_bytes == 0 } else { self.learning_bytes <= self.raw_bytes / 16 }
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{AlgorithmSet, Element};
    use mgcomp_selector::StreamId;

    use super::*;

    #[test]
    fn a_look_at_what_is_long_is_nothing_and_a_trial_of_it_is_something() {
        let learning = |raw_bytes, reason, is_looked_at| {
            let facts = CheapFacts {
                peer: 1,
                stream: StreamId(2),
                raw_bytes,
                element: Element::F32,
                allowed: AlgorithmSet::from_bits(0),
                link: None,
                lambda: None,
                is_observed: true,
            };
            let algorithm = Algorithm::Xp;
            let decision =
                Decision { algorithm, reason, predicted_bits: None, predicted_ns: None, charged: None };
            let mut expected = Expected::default();
            expected.note(&facts, &decision, is_looked_at);
            expected.learning_bytes
        };
        let (fastest, trial) =
            (Reason::Fastest { predicted_ns: 1, raw_ns: 2 }, Reason::Trial { predicted_ns: 1, raw_ns: 2 });
        let (short, long) = ((4 << 20) - 1, 4 << 20);
        assert_eq!([learning(short, fastest, true), learning(long, fastest, true)], [short, 0]);
        assert_eq!([learning(short, trial, false), learning(long, trial, true)], [short, long]);
        assert_eq!(learning(short, fastest, false), 0);
    }

    #[test]
    fn links_to_several_peers_may_work_at_once() {
        let expected = |link_ns, peers| Expected { link_ns, peers, ..Expected::default() }.link_ns_of_one();
        assert_eq!([expected(90, 0), expected(90, 0b100), expected(90, 0b1101)], [90, 90, 30]);
    }
}
