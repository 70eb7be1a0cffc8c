//! What the policy keeps of one stream.

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use super::AdaptiveConfig;
use super::budget::Budget;
use super::choice::{Choice, Choices, Scene, Way};
use super::framing::Framing;
use super::knowledge::Knowledge;
use super::model::Goal;
use super::sample::Sample;
use crate::speeds::Speeds;
use crate::{CheapFacts, Decision, Estimate, Outcome, Reason, SampleSize};

/// One sample in so many tries all that is promising; the others, what is near the best.
const WIDE_EVERY: u32 = 8;
/// Samples that may go by until all sizes are known.
const FIRST_SAMPLES: u32 = 16;
/// A sample that does not come back within so many transfers is lost.
const LOST_AFTER: u32 = 32;
/// A size that a sample finds so far from the known, as a part of it, is that of other data.
const OTHER_DATA: f64 = 0.25;
/// How much longer than expected a sample can take.
const MOST_LATE: f64 = 4.0;
/// What a sample of a transfer says, as a part of what the transfer itself does.
const SAMPLED_EVIDENCE: f64 = 0.125;
/// A codec that was timed so often is timed on every fourth transfer only.
const WELL_TIMED: u32 = 16;

/// One kind of data on its way to one peer.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    knowledge: Knowledge,
    choices: Choices,
    framing: Framing,
    /// What `choices` were worked out under.
    scene: Option<(Goal, AlgorithmSet)>,
    budget: Budget,
    /// Transfers since a sample was asked for that has not come back.
    awaited: Option<u32>,
    /// What that sample was expected to take, in nanoseconds.
    expected_sample_ns: f64,
    /// What must be affordable before it is worth looking what a sample would be, in nanoseconds.
    due_ns: f64,
    /// What the last sample was to confirm.
    before: Option<Algorithm>,
    /// Nothing is known, or what was known turned out wrong.
    urgent: bool,
    samples: u32,
    observed: u32,
}

/// What is the same for all streams of a policy.
pub(super) struct Common<'a> {
    pub(super) config: &'a AdaptiveConfig,
    pub(super) speeds: &'a Speeds,
    /// How much longer estimators take than was measured.
    pub(super) estimate_factor: f64,
}

/// What a stream asks for.
pub(super) struct Ask {
    pub(super) algorithms: AlgorithmSet,
    pub(super) size: SampleSize,
}

/// Observed over measured times of a codec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paces {
    pub(super) encode: Option<f64>,
    pub(super) decode: Option<f64>,
}

impl Stream {
    pub(super) fn new(config: &AdaptiveConfig, element: Element, others: &Knowledge) -> Self {
        Self {
            knowledge: Knowledge::starting_from(others),
            choices: Choices::default(),
            framing: Framing::of(element),
            scene: None,
            budget: Budget::new(config),
            awaited: None,
            expected_sample_ns: 0.0,
            due_ns: 0.0,
            before: None,
            urgent: true,
            samples: 0,
            observed: 0,
        }
    }

    /// The best as far as is known.
    pub(super) fn choice(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) -> Choice {
        let same =
            self.scene.is_some_and(|(before, allowed)| allowed == facts.allowed && before.is_near(&goal));
        if !same {
            self.scene = Some((goal, facts.allowed));
            self.choices = Choices::default();
        }
        let Self { knowledge, choices, framing, .. } = self;
        choices.of(facts.raw_bytes, || {
            let scene = Scene {
                goal,
                speeds: common.speeds,
                element: facts.element,
                allowed: facts.allowed,
                knowledge,
                framing,
                least_gain: common.config.least_gain,
            };
            scene.choose(facts.raw_bytes)
        })
    }

    /// What a transfer is predicted to become, in bits.
    pub(super) fn predicted_bits(&self, way: &Way, facts: &CheapFacts) -> u64 {
        match way.algorithm {
            Algorithm::None => facts.raw_bits(),
            _ => (way.coded_bytes(&self.framing, facts.raw_bytes) * 8.0 + 0.5) as u64,
        }
    }

    /// The way to take: the best one, or now and then another that might turn out better.
    pub(super) fn way(&mut self, choice: &Choice, facts: &CheapFacts) -> Way {
        match choice.trial {
            Some(trial)
                if self.knowledge.timed(trial.way.algorithm, facts.raw_bytes) == 0
                    && self.budget.allows_trial(trial.loss_ns(facts.raw_bytes)) =>
            {
                trial.way
            }
            _ => choice.best,
        }
    }

    /// Takes account of a transfer, and says whether to look at it first, and how closely.
    pub(super) fn ask(&mut self, common: &Common<'_>, facts: &CheapFacts, choice: &Choice) -> Option<Ask> {
        if !choice.is_open() {
            return None; // whatever the data is
        }
        let transfer_ns = choice.ns(&choice.best, facts.raw_bytes);
        self.budget.earn(transfer_ns, self.urgent);
        if let Some(transfers) = &mut self.awaited {
            *transfers += 1;
            // Where nothing is known at all, transfers that overlap with the first are sampled as well.
            if *transfers < LOST_AFTER && choice.is_informed() {
                return None;
            }
        }
        let affordable_ns = self.budget.affordable(self.urgent);
        if affordable_ns < self.due_ns {
            return None;
        }
        let wide = self.urgent || self.samples.is_multiple_of(WIDE_EVERY) || choice.contenders.bits() == 0;
        let wanted = match choice.unknown {
            unknown if self.urgent && unknown.bits() != 0 => unknown,
            _ if wide => choice.promising,
            _ => choice.contenders,
        };
        let sample = Sample::of(common, facts, wanted, affordable_ns);
        // Rather all of them later than some of them now, if it is not too long until then.
        self.due_ns = sample.whole_ns.min(self.budget.reachable(transfer_ns));
        if sample.algorithms.bits() == 0 || affordable_ns < self.due_ns {
            return None;
        }
        let bytes = sample.affordable_bytes(facts.raw_bytes, affordable_ns);
        self.expected_sample_ns = sample.ns(bytes);
        self.budget.spend(self.expected_sample_ns);
        self.awaited = Some(0);
        self.before = choice.is_informed().then_some(choice.best.algorithm);
        self.samples = self.samples.wrapping_add(1);
        Some(Ask { algorithms: sample.algorithms, size: SampleSize::Bytes(bytes) })
    }

    /// Learns what a sample says.
    pub(super) fn learn_sample(&mut self, facts: &CheapFacts, estimates: &[Estimate]) {
        self.awaited = None;
        for &Estimate { algorithm, bits } in estimates {
            if algorithm == Algorithm::None {
                continue;
            }
            let fraction = self.framing.data_fraction(algorithm, facts.raw_bytes, bits as f64 / 8.0);
            let evidence_bytes = SAMPLED_EVIDENCE * facts.raw_bytes as f64;
            self.knowledge.learn_fraction(algorithm, fraction, evidence_bytes, OTHER_DATA);
            self.settle(algorithm);
        }
        self.choices.forget(facts.raw_bytes);
    }

    /// Hears what was chosen after a sample.
    pub(super) fn chosen(&mut self, config: &AdaptiveConfig, choice: &Choice, sampled: bool) {
        // Until all sizes are known, the others are to be found out soon.
        let urgent = self.urgent;
        self.urgent &= !sampled || (choice.unknown.bits() != 0 && self.samples < FIRST_SAMPLES);
        if !self.urgent {
            self.budget.is_founded();
        }
        match self.before {
            Some(before) if before == choice.best.algorithm => {
                self.budget.confirm(config.quiet_share, urgent);
            }
            _ => {
                self.budget.surprise(config);
                self.knowledge.doubt_times();
                self.choices.start_again();
            }
        }
    }

    /// Learns what a transfer became. If that was not expected, the stream is to be looked at again.
    pub(super) fn learn_outcome(
        &mut self,
        common: &Common<'_>,
        facts: &CheapFacts,
        goal: Option<Goal>,
        decision: &Decision,
        outcome: &Outcome,
    ) {
        let (tried, coded_bytes) = (decision.algorithm, outcome.coded_bytes as f64);
        let fraction = self.framing.data_fraction(tried, facts.raw_bytes, coded_bytes);
        self.knowledge.learn_fraction(tried, fraction, facts.raw_bytes as f64, common.config.drift);
        let (Some(goal), Some(bits), Some(ns)) = (goal, decision.predicted_bits, decision.predicted_ns)
        else {
            return;
        };
        self.settle(tried);
        let off_ns = (coded_bytes * 8.0 - bits as f64).abs() / goal.link.rate_gbps();
        let surprising = off_ns > common.config.drift * ns as f64;
        let trial = matches!(decision.reason, Reason::Trial { .. });
        if !surprising && !trial {
            return;
        }
        self.choices.forget(facts.raw_bytes);
        let still_best = self.choice(common, facts, goal).best.algorithm == tried;
        if trial {
            self.budget.tried(still_best);
        }
        if surprising {
            self.urgent = true;
            if !still_best && !trial {
                self.budget.surprise(common.config);
                self.knowledge.doubt_times();
                self.choices.start_again();
            }
        }
    }

    /// Learns how long codecs took; returns how that compares with what was measured before all. The codecs that are
    /// known well are looked at now and then only.
    pub(super) fn learn_times(
        &mut self,
        common: &Common<'_>,
        facts: &CheapFacts,
        algorithm: Algorithm,
        outcome: &Outcome,
    ) -> Option<Paces> {
        self.observed = self.observed.wrapping_add(1);
        let well_timed = self.knowledge.timed(algorithm, facts.raw_bytes) >= WELL_TIMED;
        if well_timed && !self.observed.is_multiple_of(4) {
            return None;
        }
        let fraction = outcome.coded_bytes as f64 / facts.raw_bytes as f64;
        let measured = common.speeds.times(algorithm, facts.element, facts.raw_bytes, fraction)?;
        let pace = |took: Option<std::time::Duration>, ns: f64| took.map(|took| took.as_nanos() as f64 / ns);
        let paces = Paces {
            encode: pace(outcome.encode, measured.encode_ns),
            decode: pace(outcome.decode, measured.decode_ns),
        };
        self.knowledge.learn_times(algorithm, facts.raw_bytes, paces);
        self.settle(algorithm);
        Some(paces)
    }

    /// Learns what a sample took. Returns how that compares with what was expected.
    pub(super) fn learn_sampling(&mut self, took_ns: f64) -> Option<f64> {
        let expected_ns = std::mem::take(&mut self.expected_sample_ns);
        if expected_ns <= 0.0 {
            return None; // of another sample, already accounted for
        }
        // More than that was an interrupt, and is nobody's fault.
        self.budget.spend(took_ns.min(expected_ns * MOST_LATE) - expected_ns);
        Some(took_ns / expected_ns)
    }

    /// Lets choices rest on what was learned of an algorithm.
    fn settle(&mut self, algorithm: Algorithm) {
        self.choices.renew(self.knowledge.settle(algorithm));
    }
}
