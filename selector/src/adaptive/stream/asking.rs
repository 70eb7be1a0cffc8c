//! When a stream's data is looked at, and how closely.

use mgcomp_codecs::Algorithm;

use super::asked::Asked;
use super::{Ask, Common, LOST_AFTER, Stream};
use crate::adaptive::choice::Choice;
use crate::adaptive::sample::Wanted;
use crate::{CheapFacts, SampleSize};

/// What is left of what a sample waits for, with each transfer that cannot afford that: those to come may all be shorter.
const PATIENCE: f64 = 1023.0 / 1024.0;
/// Where nothing can be afforded, so many transfers go by before that is reckoned again.
const PAUSE: u32 = 16;

impl Stream {
    /// Takes account of a transfer, and says whether to look at it first, and how closely.
    pub(in crate::adaptive) fn ask(
        &mut self,
        common: &Common<'_>,
        facts: &CheapFacts,
        choice: &Choice,
    ) -> Option<Ask> {
        let transfer_ns = choice.best_ns(facts.raw_bytes);
        self.choices.iter_mut().for_each(|choices| choices.earn(transfer_ns));
        self.passed = self.passed.saturating_add(1);
        self.trials.tick();
        if !choice.is_open() {
            return None; // whatever the data is
        }
        self.budget.earn(transfer_ns, self.urgent);
        self.trials.pass(facts.raw_bytes, transfer_ns);
        self.asked.pass();
        if let Some(transfers) = &mut self.awaited {
            *transfers = transfers.saturating_add(1);
            // Where nothing is known at all, transfers that overlap with the first are sampled as well.
            if *transfers < LOST_AFTER && choice.is_informed() {
                return None;
            }
        }
        let is_raw = choice.best.algorithm == Algorithm::None && choice.is_informed();
        let sample = self.sample(common, facts, choice);
        sample.or_else(|| if is_raw { self.glance(common, facts, choice) } else { None })
    }

    /// A sample of all that is wanted, if the stream can afford that.
    fn sample(&mut self, common: &Common<'_>, facts: &CheapFacts, choice: &Choice) -> Option<Ask> {
        let affordable_ns = self.budget.affordable(self.urgent).min(common.joint_ns);
        if affordable_ns < self.due_ns {
            self.due_ns *= PATIENCE;
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let wanted = self.wanted(common, facts, choice);
        // Rather all of them later than some of them now, if it is not too long until then.
        self.due_ns =
            self.looks.whole_ns(&wanted).min(self.budget.reachable(choice.best_ns(facts.raw_bytes)));
        if affordable_ns < self.due_ns {
            return None;
        }
        let Some(sample) = self.looks.sample(&wanted, affordable_ns, self.budget.affordable_dear()) else {
            self.pause = PAUSE;
            return None;
        };
        self.budget.spend(sample.ns - sample.dear_ns, sample.dear_ns);
        self.awaited = Some(0);
        self.asked.put(Asked {
            raw_bytes: facts.raw_bytes,
            sample_bytes: sample.bytes,
            before: choice.is_informed().then_some(choice.best.algorithm),
            expected_ns: sample.ns,
            dear_ns: sample.dear_ns,
            is_glance: false,
        });
        self.samples = self.samples.wrapping_add(1);
        Some(Ask { algorithms: sample.algorithms, size: SampleSize::Bytes(sample.bytes), ns: sample.ns })
    }

    /// Whether to look, where a transfer goes raw, for what the stream has carried before that need not.
    fn glance(&mut self, common: &Common<'_>, facts: &CheapFacts, choice: &Choice) -> Option<Ask> {
        let affordable_ns = self.budget.affordable_glance().min(common.joint_ns);
        if affordable_ns < self.glance_ns {
            self.glance_ns *= PATIENCE;
            return None;
        }
        let algorithms = choice.promising;
        let wanted = Wanted { algorithms, raw_bytes: facts.raw_bytes, factor: common.estimate_factor };
        let (telling, most_ns) = (self.knowledge.telling_kinds(), self.budget.reachable_glance());
        let (algorithms, bytes, ns) = self.looks.glance(&wanted, telling, self.glances, most_ns);
        if algorithms.bits() == 0 {
            // Where nothing is quick enough, longer transfers may be what it waits for.
            self.glance_ns = 2.0 * affordable_ns.max(1.0);
            return None;
        }
        if affordable_ns < ns {
            self.glance_ns = ns;
            return None;
        }
        self.glances = self.glances.wrapping_add(1);
        self.budget.spend_glance(ns);
        self.awaited = Some(0);
        self.asked.put(Asked {
            raw_bytes: facts.raw_bytes,
            sample_bytes: bytes,
            before: Some(choice.best.algorithm),
            expected_ns: ns,
            dear_ns: 0.0,
            is_glance: true,
        });
        Some(Ask { algorithms, size: SampleSize::Bytes(bytes), ns })
    }

    /// What a sample is to tell: at first that of which nothing is known, then all that is promising. What a dear codec that
    /// is in use becomes is seen anyway.
    fn wanted(&self, common: &Common<'_>, facts: &CheapFacts, choice: &Choice) -> Wanted {
        let is_first = self.budget.is_founding() && self.looks.quick(choice.unknown).bits() != 0;
        let algorithms = if is_first { choice.unknown } else { choice.promising };
        Wanted {
            algorithms: self.looks.without_dear(algorithms, choice.best.algorithm),
            raw_bytes: facts.raw_bytes,
            factor: common.estimate_factor,
        }
    }
}
