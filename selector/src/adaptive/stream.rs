//! What the policy keeps of one stream.

use mgcomp_codecs::{Algorithm, AlgorithmSet};

use super::AdaptiveConfig;
use super::budget::Budget;
use super::choice::{Choice, Choices, Scene};
use super::knowledge::{Knowledge, differ};
use super::model::Goal;
use crate::speeds::{CodecTimes, Speeds};
use crate::{CheapFacts, Estimate, SampleSize};

/// The fewest bytes that say anything.
const LEAST_SAMPLE_BYTES: u64 = 4 << 10;
/// More bytes say little more.
const MOST_SAMPLE_BYTES: u64 = 256 << 10;
/// What an estimate costs whatever its length, in nanoseconds.
const ESTIMATE_CALL_NS: f64 = 200.0;
/// One sample in so many tries all that is promising; the others, what is near the best.
const WIDE_EVERY: u32 = 8;
/// A sample that does not come back within so many transfers is lost.
const LOST_AFTER: u32 = 32;

/// One kind of data on its way to one peer.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    knowledge: Knowledge,
    choices: Choices,
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

impl Stream {
    pub(super) fn new(config: &AdaptiveConfig, others: &Knowledge) -> Self {
        Self {
            knowledge: Knowledge::starting_from(others),
            choices: Choices::default(),
            scene: None,
            budget: Budget::new(config),
            awaited: None,
            expected_sample_ns: 0.0,
            due_ns: 0.0,
            before: None,
            urgent: true,
            samples: 0,
        }
    }

    /// The best as far as is known.
    pub(super) fn choice(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) -> Choice {
        let same =
            self.scene.is_some_and(|(before, allowed)| before.is_near(&goal) && allowed == facts.allowed);
        if !same {
            self.scene = Some((goal, facts.allowed));
            self.choices.clear();
        }
        if let Some(choice) = self.choices.of(facts.raw_bytes) {
            return *choice;
        }
        let scene = Scene {
            goal,
            speeds: common.speeds,
            element: facts.element,
            allowed: facts.allowed,
            knowledge: &self.knowledge,
            least_gain: common.config.least_gain,
        };
        *self.choices.of(facts.raw_bytes).insert(scene.choose(facts.raw_bytes))
    }

    /// Whether to look at this transfer first, and how closely.
    pub(super) fn ask(&mut self, common: &Common<'_>, facts: &CheapFacts, choice: &Choice) -> Option<Ask> {
        if choice.promising.bits() == 0 {
            return None; // whatever the data is
        }
        let transfer_ns = choice.ns_per_byte * facts.raw_bytes as f64;
        self.budget.earn(transfer_ns);
        if let Some(transfers) = &mut self.awaited {
            *transfers += 1;
            // Where nothing is known at all, transfers that overlap with the first are sampled as well.
            if *transfers < LOST_AFTER && choice.informed {
                return None;
            }
        }
        let affordable_ns = self.budget.affordable(transfer_ns, self.urgent);
        if affordable_ns < self.due_ns {
            return None;
        }
        let wide = self.urgent || self.samples.is_multiple_of(WIDE_EVERY) || choice.contenders.bits() == 0;
        let wanted = if wide { choice.promising } else { choice.contenders };
        let Sample { algorithms, ns_per_byte, calls_ns, whole_ns } =
            Sample::of(common, facts, wanted, affordable_ns);
        // Rather all of them later than some of them now, if it is not too long until then.
        self.due_ns = whole_ns.min(self.budget.reachable(transfer_ns));
        if algorithms.bits() == 0 || (!self.urgent && affordable_ns < self.due_ns) {
            return None;
        }
        let bytes = ((affordable_ns - calls_ns) / ns_per_byte) as u64;
        let bytes = bytes.clamp(LEAST_SAMPLE_BYTES, MOST_SAMPLE_BYTES).min(facts.raw_bytes);
        self.expected_sample_ns = ns_per_byte * bytes as f64 + calls_ns;
        self.budget.spend(self.expected_sample_ns);
        self.awaited = Some(0);
        self.before = choice.informed.then_some(choice.algorithm);
        self.samples += 1;
        Some(Ask { algorithms, size: SampleSize::Bytes(bytes) })
    }

    /// Learns what a sample says.
    pub(super) fn learn_sample(&mut self, common: &Common<'_>, facts: &CheapFacts, estimates: &[Estimate]) {
        self.awaited = None;
        self.urgent &= estimates.is_empty();
        for estimate in estimates.iter().filter(|estimate| estimate.algorithm != Algorithm::None) {
            let fraction = estimate.bits as f64 / facts.raw_bits() as f64;
            self.knowledge.learn_fraction(estimate.algorithm, fraction, common.config.drift);
        }
        self.settle();
    }

    /// Hears what was chosen after a sample.
    pub(super) fn chosen(&mut self, config: &AdaptiveConfig, algorithm: Algorithm) {
        match self.before {
            Some(before) if before == algorithm => self.budget.confirm(config.quiet_share),
            _ => self.budget.surprise(config),
        }
    }

    /// Learns what a transfer became. Returns whether that was expected.
    pub(super) fn learn_size(
        &mut self,
        config: &AdaptiveConfig,
        algorithm: Algorithm,
        expected: f64,
        achieved: f64,
    ) {
        self.knowledge.learn_fraction(algorithm, achieved, config.drift);
        if differ(expected, achieved) > config.drift {
            self.urgent = true;
            self.budget.surprise(config);
        }
        self.settle();
    }

    /// Learns how long codecs took, as parts of what was measured before all.
    pub(super) fn learn_times(&mut self, algorithm: Algorithm, encode: Option<f64>, decode: Option<f64>) {
        self.knowledge.learn_times(algorithm, encode, decode);
        self.settle();
    }

    /// Learns what a sample took. Returns how that compares with what was expected.
    pub(super) fn learn_sampling(&mut self, took_ns: f64) -> Option<f64> {
        let expected_ns = std::mem::take(&mut self.expected_sample_ns);
        if expected_ns <= 0.0 {
            return None; // of another sample, already accounted for
        }
        self.budget.spend(took_ns - expected_ns);
        Some(took_ns / expected_ns)
    }

    /// The times of a transfer as they were measured before all, for comparison.
    pub(super) fn measured(
        common: &Common<'_>,
        facts: &CheapFacts,
        algorithm: Algorithm,
        fraction: f64,
    ) -> CodecTimes {
        common.speeds.times(algorithm, facts.element, facts.raw_bytes, fraction).unwrap_or_default()
    }

    fn settle(&mut self) {
        if self.knowledge.settle() {
            self.choices.clear();
        }
    }
}

/// What is to be tried.
struct Sample {
    /// Those of the wanted that can be afforded, the quickest first.
    algorithms: AlgorithmSet,
    /// What a byte takes with all of them.
    ns_per_byte: f64,
    /// What they take whatever the length.
    calls_ns: f64,
    /// What the smallest sample with all of the wanted takes.
    whole_ns: f64,
}

impl Sample {
    fn of(common: &Common<'_>, facts: &CheapFacts, wanted: AlgorithmSet, affordable_ns: f64) -> Self {
        let rate = |algorithm| {
            let ns = common.speeds.estimate_ns_per_byte(algorithm, facts.element)?;
            Some((ns * common.estimate_factor, algorithm))
        };
        let mut by_rate: Vec<(f64, Algorithm)> = wanted.iter().filter_map(rate).collect();
        by_rate.sort_by(|a, b| a.0.total_cmp(&b.0));
        let least_bytes = LEAST_SAMPLE_BYTES.min(facts.raw_bytes) as f64;
        let (mut set, mut whole_ns) = (0, 0.0);
        let mut sample =
            Self { algorithms: AlgorithmSet::from_bits(0), ns_per_byte: 0.0, calls_ns: 0.0, whole_ns };
        for (ns, algorithm) in by_rate {
            whole_ns += ns * least_bytes + ESTIMATE_CALL_NS;
            if whole_ns <= affordable_ns {
                set |= 1 << algorithm.number();
                sample.ns_per_byte += ns;
                sample.calls_ns += ESTIMATE_CALL_NS;
            }
        }
        Self { algorithms: AlgorithmSet::from_bits(set), whole_ns, ..sample }
    }
}
