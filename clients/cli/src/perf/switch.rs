//! A policy that can be switched off between two iterations, so that raw and compressed ones can take turns over the
//! same connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgcomp_selector::{CheapFacts, Decision, Estimate, Fixed, Outcome, Plan, Policy};

/// Turns the policy off and on.
#[derive(Clone, Debug, Default)]
pub(super) struct Switch {
    is_off: Arc<AtomicBool>,
}

impl Switch {
    /// `policy` as long as it is on, and otherwise the one that compresses nothing. Only between two operations that all
    /// ranks have finished may it be switched.
    pub(super) fn over(&self, policy: Box<dyn Policy>) -> Box<dyn Policy> {
        Box::new(Switched { switch: self.clone(), policy, raw: Fixed::BYPASS })
    }

    pub(super) fn turn(&self, off: bool) {
        self.is_off.store(off, Ordering::SeqCst);
    }

    fn is_off(&self) -> bool {
        self.is_off.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Switched {
    switch: Switch,
    policy: Box<dyn Policy>,
    raw: Fixed,
}

impl Switched {
    fn current(&mut self) -> &mut dyn Policy {
        if self.switch.is_off() { &mut self.raw } else { self.policy.as_mut() }
    }
}

impl Policy for Switched {
    fn name(&self) -> String {
        self.policy.name()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        self.current().plan(facts)
    }

    fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        self.current().choose(facts, estimates)
    }

    fn observe(&mut self, facts: &CheapFacts, decision: &Decision, outcome: &Outcome) {
        self.current().observe(facts, decision, outcome);
    }

    fn decoded(&mut self, facts: &CheapFacts, decision: &Decision, coded_bytes: u64, took: Duration) {
        self.policy.decoded(facts, decision, coded_bytes, took);
    }

    fn goes_by_time(&self) -> bool {
        self.policy.goes_by_time()
    }
}
