//! What the policy keeps of one stream.

mod asked;
mod seen;
mod sizes;
mod trials;

use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use self::asked::{Asked, AskedSamples};
use self::seen::{Seen, UnderWay};
use self::sizes::Moves;
use self::trials::Trials;
use super::AdaptiveConfig;
use super::budget::Budget;
use super::choice::{Choice, Scene, Way};
use super::choices::Choices;
use super::framing::Framing;
use super::knowledge::{Knowledge, band};
use super::model::Goal;
use super::priors::Priors;
use super::sample::{Looks, Wanted};
use crate::speeds::{CodecTimes, Speeds};
use crate::{CheapFacts, Decision, Outcome, Overlap, Reason, SampleSize};

/// What is left of what a sample waits for, with each transfer that cannot afford that: those to come may all be shorter.
const PATIENCE: f64 = 1023.0 / 1024.0;
/// Where nothing can be afforded, so many transfers go by before that is reckoned again.
const PAUSE: u32 = 16;
/// Samples that may go by until all sizes are known.
const FIRST_SAMPLES: u32 = 16;
/// A sample or trial that does not come back within so many transfers is lost.
pub(super) const LOST_AFTER: u32 = 32;
/// How much longer than expected a sample can take.
const MOST_LATE: f64 = 4.0;
/// Guesses under way before one has come back.
const MOST_GUESSES: u32 = 4;
/// A codec that was timed so often is timed on every fourth transfer only.
const WELL_TIMED: u32 = 16;
/// After so many transfers codecs that were not timed meanwhile are taken to have recovered a little.
pub(super) const RECOVERY: u32 = 1024;
/// So many times in a row that are off in the same direction are no accident.
const OFF_IN_A_ROW: i8 = 3;

/// One kind of data on its way to one peer.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    knowledge: Knowledge,
    /// For transfers that codecs do not overlap with the link, and for those that they do: streams may have both in turn.
    choices: [Choices; 2],
    framing: Framing,
    /// What `choices` were worked out under.
    settings: [Option<Setting>; 2],
    budget: Budget,
    looks: Looks,
    /// Transfers since a sample was asked for that has not come back.
    awaited: Option<u32>,
    asked: AskedSamples,
    /// What must be affordable before it is worth looking what a sample would be, in nanoseconds.
    due_ns: f64,
    /// Transfers that go by before anything is reckoned.
    pause: u32,
    /// What the last sample was to confirm.
    before: Option<Algorithm>,
    /// What the last sample said.
    seen: Seen,
    under_way: UnderWay,
    /// What was known before the last sample and since, as long as it is not known what its transfer became.
    moved: Option<Box<Moves>>,
    trials: Trials,
    /// The last sample has found other data.
    changed: bool,
    /// How far samples were from what their transfers became: the mean of logarithms, of which later ones count more.
    sampled_off: f64,
    off_times: OffTimes,
    /// Nothing is known, or what was known turned out wrong.
    urgent: bool,
    samples: u32,
    guesses: u32,
    observed: u32,
    /// Transfers since codecs were last taken to recover.
    passed: u32,
}

/// What choices are made under.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// No choice is older than this.
    first: Goal,
    last: Goal,
    allowed: AlgorithmSet,
}

/// Times of one codec on transfers of about one length that were far from what was predicted, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct OffTimes {
    /// How many were far longer in a row, or as a negative number far shorter.
    count: i8,
    /// Whose they are, and how much longer than measured it was predicted to take before any of them.
    of: Option<(Algorithm, usize, CodecTimes)>,
}

/// What is the same for all streams of a policy.
pub(super) struct Common<'a> {
    pub(super) config: &'a AdaptiveConfig,
    pub(super) speeds: &'a Speeds,
    pub(super) priors: &'a Priors,
    /// How much longer estimators take than was measured.
    pub(super) estimate_factor: f64,
    /// How many streams there are.
    pub(super) streams: usize,
    /// What they leave for a sample together, in nanoseconds.
    pub(super) joint_ns: f64,
}

/// Why a way is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Best,
    Guess,
    Trial,
}

/// What a stream asks for.
pub(super) struct Ask {
    pub(super) algorithms: AlgorithmSet,
    pub(super) size: SampleSize,
    /// What that is expected to take, in nanoseconds.
    pub(super) ns: f64,
}

/// What a sample took beside what was expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampled {
    /// So many times as long.
    pub(super) pace: f64,
    /// So many nanoseconds more, or less.
    pub(super) more_ns: f64,
}

/// Observed over measured times of a codec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paces {
    pub(super) encode: Option<f64>,
    pub(super) decode: Option<f64>,
}

impl Stream {
    /// A stream that nothing was sent on, beside the same stream to another peer if there is one, and all others.
    pub(super) fn new(
        config: &AdaptiveConfig,
        speeds: &Speeds,
        element: Element,
        sibling: Option<&Self>,
        others: &Knowledge,
    ) -> Self {
        let knowledge = match sibling {
            Some(sibling) => sibling.knowledge.for_another_peer(),
            None => Knowledge::starting_from(others),
        };
        Self {
            knowledge,
            choices: Default::default(),
            framing: Framing::of(element),
            settings: [None; 2],
            budget: Budget::new(config),
            looks: Looks::of(speeds, element),
            awaited: None,
            asked: AskedSamples::default(),
            due_ns: 0.0,
            pause: 0,
            before: None,
            seen: Seen::default(),
            under_way: UnderWay::default(),
            moved: None,
            trials: Trials::default(),
            changed: false,
            sampled_off: 0.0,
            off_times: OffTimes::default(),
            urgent: true,
            samples: 0,
            guesses: 0,
            observed: 0,
            passed: 0,
        }
    }

    /// The best as far as is known. Only the first transfer of a length waits until that is worked out.
    pub(super) fn choice(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) -> Choice {
        self.set_scene(facts, goal);
        let Self { knowledge, choices, framing, .. } = self;
        choices[place(goal)]
            .of(facts.raw_bytes, || scene(common, facts, goal, knowledge, framing).choose(facts.raw_bytes))
    }

    /// The best as far as is known by now.
    pub(super) fn choose_now(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) -> Choice {
        self.set_scene(facts, goal);
        let Self { knowledge, choices, framing, .. } = self;
        let choice = scene(common, facts, goal, knowledge, framing).choose(facts.raw_bytes);
        choices[place(goal)].put(facts.raw_bytes, choice)
    }

    /// What data was last known to become.
    pub(super) fn fraction(&self, algorithm: Algorithm) -> Option<f64> {
        self.knowledge.latest_fraction(algorithm)
    }

    /// Whether there is something to [choose again](Self::choose_again) after a transfer like this.
    pub(super) fn has_due(&self, facts: &CheapFacts, goal: Goal) -> bool {
        self.passed >= RECOVERY || self.choices[place(goal)].has_due(facts.raw_bytes)
    }

    /// Works choices out again that rest on what is no longer known, as far as the stream can afford it; that of
    /// transfers like this one first.
    pub(super) fn choose_again(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) {
        if self.passed >= RECOVERY {
            self.passed = 0;
            self.knowledge.recover();
            AlgorithmSet::supported().iter().for_each(|algorithm| self.settle(algorithm));
        }
        let Self { knowledge, choices, framing, .. } = self;
        let scene = scene(common, facts, goal, knowledge, framing);
        let choices = &mut choices[place(goal)];
        while let Some(raw_bytes) = choices.next_due(facts.raw_bytes) {
            choices.put(raw_bytes, scene.choose(raw_bytes));
        }
    }

    /// Choices are made for one link and one peer's codecs. Where the link has turned out a little other than it seemed,
    /// they serve until they are worked out again.
    fn set_scene(&mut self, facts: &CheapFacts, goal: Goal) {
        let (setting, choices) = (&mut self.settings[place(goal)], &mut self.choices[place(goal)]);
        match setting.as_mut().filter(|setting| setting.allowed == facts.allowed) {
            Some(setting) if setting.last.is_near(&goal) => {}
            Some(setting) => {
                // A link that goes on changing little by little is far from where it was in the end.
                if !choices.has_doubts() {
                    setting.first = setting.last;
                }
                if setting.first.is_similar(&goal) {
                    choices.start_again();
                } else {
                    *choices = Choices::default();
                    setting.first = goal;
                }
                setting.last = goal;
            }
            None => {
                *choices = Choices::default();
                *setting = Some(Setting { first: goal, last: goal, allowed: facts.allowed });
            }
        }
    }

    /// What a transfer is predicted to become, in bits.
    pub(super) fn predicted_bits(&self, way: &Way, facts: &CheapFacts) -> u64 {
        match way.algorithm {
            Algorithm::None => facts.raw_bits(),
            _ => (way.coded_bytes(&self.framing, facts.raw_bytes) * 8.0 + 0.5) as u64,
        }
    }

    /// The way to take: the best one, or now and then another that might turn out better.
    pub(super) fn way(&mut self, choice: &Choice, facts: &CheapFacts) -> (Way, Kind) {
        if let Some(guess) = choice.guess.filter(|_| self.guesses < MOST_GUESSES) {
            self.guesses += 1;
            return (guess, Kind::Guess);
        }
        let Self { trials, budget, .. } = self;
        match choice
            .trials
            .iter()
            .flatten()
            .find(|trial| trials.allow(trial, choice, facts.raw_bytes, budget))
        {
            Some(trial) => (trial.way, Kind::Trial),
            None => (choice.best, Kind::Best),
        }
    }

    /// Takes account of a transfer, and says whether to look at it first, and how closely.
    pub(super) fn ask(&mut self, common: &Common<'_>, facts: &CheapFacts, choice: &Choice) -> Option<Ask> {
        let transfer_ns = choice.best_ns(facts.raw_bytes);
        self.choices.iter_mut().for_each(|choices| choices.earn(transfer_ns));
        self.passed = self.passed.saturating_add(1);
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
        self.due_ns = self.looks.whole_ns(&wanted).min(self.budget.reachable(transfer_ns));
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
        });
        self.samples = self.samples.wrapping_add(1);
        Some(Ask { algorithms: sample.algorithms, size: SampleSize::Bytes(sample.bytes), ns: sample.ns })
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

    /// Hears what was chosen after a sample.
    pub(super) fn chosen(&mut self, config: &AdaptiveConfig, choice: &Choice) {
        // Until all sizes are known that are quickly looked at, the others are to be found out soon.
        let urgent = self.urgent;
        self.urgent &= self.looks.quick(choice.unknown).bits() != 0 && self.samples < FIRST_SAMPLES;
        if !self.urgent {
            self.budget.is_founded();
        }
        match self.before {
            Some(before) if before == choice.best.algorithm => {
                self.budget.confirm(urgent);
            }
            _ => {
                self.budget.surprise(config);
                // Else they were about as good as each other.
                if self.changed {
                    self.doubt_times();
                }
                self.choices.iter_mut().for_each(Choices::start_again);
            }
        }
    }

    /// The data is no longer what codecs were timed on.
    fn doubt_times(&mut self) {
        self.knowledge.doubt_times();
        self.trials.start_again();
    }

    /// Learns what a transfer became. If that was not expected, or times have not been for a while, the stream is to be looked
    /// at again.
    pub(super) fn learn_outcome(
        &mut self,
        common: &Common<'_>,
        facts: &CheapFacts,
        goal: Option<Goal>,
        decision: &Decision,
        outcome: &Outcome,
    ) {
        let drift = common.config.drift;
        let (tried, coded_bytes) = (decision.algorithm, outcome.coded_bytes as f64);
        let trial = matches!(decision.reason, Reason::Trial { .. });
        if trial {
            self.trials.hear();
        }
        if self.off_times.count.abs() == OFF_IN_A_ROW {
            // Samples tell sizes; what codecs take is known already.
            (self.urgent, self.pause, self.off_times) = (true, 0, OffTimes::default());
        }
        let fraction = self.framing.data_fraction(tried, facts.raw_bytes, coded_bytes);
        let sample = outcome.sampling.and_then(|_| self.under_way.take(facts, decision));
        match &sample {
            Some(seen) => self.learn_sampled(facts, tried, fraction, seen, drift),
            None => self.knowledge.learn_fraction(tried, fraction, facts.raw_bytes as f64, drift),
        }
        let (Some(goal), Some(bits), Some(ns)) = (goal, decision.predicted_bits, decision.predicted_ns)
        else {
            return;
        };
        self.settle(tried);
        let off_ns = (coded_bytes * 8.0 - bits as f64).abs() / goal.link.rate_gbps();
        if let Reason::Guessed { .. } = decision.reason {
            return; // which was to be no more than that
        }
        // What was sampled has just been looked at, if the form in which it was sent was.
        let looked_at = sample.is_some_and(|seen| seen.tells_of(tried, fraction, drift));
        let surprising = !looked_at && off_ns > drift * ns as f64;
        if !surprising && !trial {
            return;
        }
        // What was tried is no first trial any more, even if nothing has moved.
        let still_best = self.choose_now(common, facts, goal).best.algorithm == tried;
        if surprising {
            (self.urgent, self.pause) = (true, 0);
            if !still_best && !trial {
                self.budget.surprise(common.config);
                self.doubt_times();
                self.choices.iter_mut().for_each(Choices::start_again);
            }
        }
    }

    /// Learns how long codecs took; returns how that compares with what was measured before all. The codecs that are
    /// known well are looked at now and then only, but for trials.
    pub(super) fn learn_times(
        &mut self,
        common: &Common<'_>,
        facts: &CheapFacts,
        decision: &Decision,
        outcome: &Outcome,
    ) -> Option<Paces> {
        let algorithm = decision.algorithm;
        self.observed = self.observed.wrapping_add(1);
        let is_trial = matches!(decision.reason, Reason::Trial { .. });
        let well_timed = !is_trial && self.knowledge.timed(algorithm, facts.raw_bytes) >= WELL_TIMED;
        if well_timed && !self.observed.is_multiple_of(4) {
            return None;
        }
        let fraction = outcome.coded_bytes as f64 / facts.raw_bytes as f64;
        let measured = common.speeds.times(algorithm, facts.element, facts.raw_bytes, fraction)?;
        let pace = |took: Option<Duration>, ns: f64| took.map(|took| took.as_nanos() as f64 / ns);
        let paces = Paces {
            encode: pace(outcome.encode, measured.encode_ns),
            decode: pace(outcome.decode, measured.decode_ns),
        };
        if !is_trial {
            let far_ns = common.config.drift * decision.predicted_ns.unwrap_or(0) as f64;
            self.compare_times((algorithm, facts.raw_bytes), measured, outcome, far_ns);
        }
        self.knowledge.learn_times(algorithm, facts.raw_bytes, paces);
        self.settle(algorithm);
        Some(paces)
    }

    /// Counts times that are off by more than `far_ns` from what was predicted for the first one like it. Predictions
    /// follow each time, also one that was disturbed.
    fn compare_times(
        &mut self,
        (algorithm, raw_bytes): (Algorithm, u64),
        measured: CodecTimes,
        outcome: &Outcome,
        far_ns: f64,
    ) {
        let OffTimes { count, of } = &mut self.off_times;
        let place = (algorithm, band(raw_bytes));
        let before = of.filter(|(algorithm, band, _)| (*algorithm, *band) == place);
        let (.., pace) = *of.insert(before.unwrap_or_else(|| {
            *count = 0;
            let one = CodecTimes { encode_ns: 1.0, decode_ns: 1.0 };
            (place.0, place.1, self.knowledge.corrected(algorithm, raw_bytes, one))
        }));
        let off = |took: Option<Duration>, ns: f64| took.map_or(0.0, |took| took.as_nanos() as f64 - ns);
        let off_ns = off(outcome.encode, measured.encode_ns * pace.encode_ns)
            + off(outcome.decode, measured.decode_ns * pace.decode_ns);
        *count = if far_ns <= 0.0 || off_ns.abs() <= far_ns {
            0
        } else if off_ns > 0.0 {
            (*count).max(0) + 1
        } else {
            (*count).min(0) - 1
        };
    }

    /// Learns what the sample of a transfer took.
    pub(super) fn learn_sampling(&mut self, facts: &CheapFacts, took_ns: f64) -> Option<Sampled> {
        let asked = self.asked.pay_off(facts.raw_bytes).filter(|asked| asked.expected_ns > 0.0);
        let Asked { expected_ns, dear_ns, .. } = asked?;
        // More than that was an interrupt, and is nobody's fault.
        let more = (took_ns / expected_ns).min(MOST_LATE) - 1.0;
        self.budget.correct((expected_ns - dear_ns) * more, dear_ns * more);
        Some(Sampled { pace: took_ns / expected_ns, more_ns: expected_ns * more })
    }

    /// Lets choices rest on what was learned of an algorithm.
    fn settle(&mut self, algorithm: Algorithm) {
        let moved = self.knowledge.settle(algorithm);
        self.choices.iter_mut().for_each(|choices| choices.renew(moved));
    }
}

/// Where choices for such a goal are.
fn place(goal: Goal) -> usize {
    usize::from(goal.link.overlap() != Overlap::None)
}

/// What choices of a stream are made from.
fn scene<'a>(
    common: &'a Common<'_>,
    facts: &CheapFacts,
    goal: Goal,
    knowledge: &'a Knowledge,
    framing: &'a Framing,
) -> Scene<'a> {
    let Common { config, speeds, priors, .. } = *common;
    Scene {
        goal,
        speeds,
        element: facts.element,
        allowed: facts.allowed,
        knowledge,
        priors,
        framing,
        least_gain: config.least_gain,
    }
}
