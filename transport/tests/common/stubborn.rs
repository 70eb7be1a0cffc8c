//! A policy that always wants the same.

use std::thread;
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{CheapFacts, Decision, Estimate, Outcome, Plan, Policy, Reason};

/// Always ZVC for the same reason.
#[derive(Debug)]
pub(crate) struct Stubborn {
    pub(crate) reason: Reason,
    /// After what was sent so, it takes its time.
    pub(crate) slow: Option<Algorithm>,
}

/// How long. Far longer than a transfer takes otherwise, even where others run meanwhile, and short enough for it to be compared.
pub(crate) const SLOW: Duration = Duration::from_millis(20);
/// Predicted times speak for it.
pub(crate) const FASTEST: Reason = Reason::Fastest { predicted_ns: 1, raw_ns: 2 };

impl Policy for Stubborn {
    fn name(&self) -> String {
        "stubborn".to_owned()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        let decision = Decision::bypass(facts, self.reason);
        Plan::Use(Decision { algorithm: Algorithm::Zvc, ..decision })
    }

    fn choose(&mut self, facts: &CheapFacts, _: &[Estimate]) -> Decision {
        Decision::bypass(facts, self.reason)
    }

    fn observe(&mut self, _: &CheapFacts, decision: &Decision, _: &Outcome) {
        if Some(decision.algorithm) == self.slow {
            thread::sleep(SLOW);
        }
    }
}
