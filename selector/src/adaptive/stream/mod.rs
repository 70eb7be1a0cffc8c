//! What the policy keeps of one stream.

mod asked;
mod asking;
mod learning;
mod seen;
mod sizes;
mod trials;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use self::asked::AskedSamples;
use self::learning::OffTimes;
pub(super) use self::seen::Change;
use self::seen::{Seen, UnderWay};
use self::sizes::Moves;
use self::trials::Trials;
use super::AdaptiveConfig;
use super::budget::Budget;
use super::choice::{Choice, Scene, Trial, Way};
use super::choices::Choices;
use super::framing::Framing;
use super::knowledge::Knowledge;
use super::model::Goal;
use super::priors::Priors;
use super::sample::Looks;
use crate::speeds::Speeds;
use crate::{CheapFacts, Overlap, SampleSize};

/// Samples that may go by until all sizes are known.
const FIRST_SAMPLES: u32 = 16;
/// A sample or trial that does not come back within so many transfers is lost.
pub(super) const LOST_AFTER: u32 = 32;
/// Guesses under way before one has come back.
const MOST_GUESSES: u32 = 4;
/// After so many transfers codecs that were not timed meanwhile are taken to have recovered a little.
pub(super) const RECOVERY: u32 = 1024;

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
    /// What must be affordable before it is worth looking what a glance would be, in nanoseconds.
    glance_ns: f64,
    /// What the last sample was to confirm.
    before: Option<Algorithm>,
    /// How many glances there were.
    glances: usize,
    /// The last sample was a glance.
    glanced: bool,
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
    /// Transfers since what is expected last followed what is known of kinds of data.
    unfollowed: u32,
    samples: u32,
    guesses: u32,
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
            Some(sibling) => sibling.knowledge.for_another_peer(others),
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
            glance_ns: 0.0,
            before: None,
            glances: 0,
            glanced: false,
            seen: Seen::default(),
            under_way: UnderWay::default(),
            moved: None,
            trials: Trials::default(),
            changed: false,
            sampled_off: 0.0,
            off_times: OffTimes::default(),
            urgent: true,
            unfollowed: 0,
            samples: 0,
            guesses: 0,
            passed: 0,
        }
    }

    /// The best as far as is known. Only the first transfer of a length waits until that is worked out.
    pub(super) fn choice(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) -> Choice {
        self.set_scene(facts, goal);
        let (raw_bytes, overlap) = (facts.raw_bytes, goal.link.overlap());
        let Self { knowledge, choices, framing, .. } = self;
        let scene = || scene(common, (facts.element, facts.allowed), goal, knowledge, framing);
        choices[place(goal)].of(raw_bytes, overlap, || scene().choose(raw_bytes))
    }

    /// The best as far as is known by now. Of a transfer that nobody hears of, which may have left before, for those that are sent now, if
    /// the peer still has the same codecs.
    pub(super) fn choose_now(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) -> Choice {
        // What is decided of one that nobody hears of is for others.
        if facts.is_observed && self.knowledge.comes_by_chance() && self.seen.iter().next().is_some() {
            let is_raw = self.before == Some(Algorithm::None);
            let knowledge = self.knowledge.of_this_one(|algorithm| self.seen.of(algorithm), is_raw);
            let allowed = (facts.element, facts.allowed);
            return scene(common, allowed, goal, &knowledge, &self.framing).choose(facts.raw_bytes).0;
        }
        match self.settings[place(goal)] {
            Some(Setting { last, allowed, .. }) if !facts.is_observed && allowed == facts.allowed => {
                self.work_out(common, facts, last.with_overlap(goal.link.overlap()))
            }
            _ => {
                self.set_scene(facts, goal);
                self.work_out(common, facts, goal)
            }
        }
    }

    /// The same, of a transfer that has left before: only if those to come are still sent as it was, over the same link to a peer with
    /// the same codecs.
    pub(super) fn choose_as_before(
        &mut self,
        common: &Common<'_>,
        facts: &CheapFacts,
        goal: Goal,
    ) -> Option<Choice> {
        let is_same = |setting: &Setting| setting.allowed == facts.allowed && setting.last.is_near(&goal);
        self.settings[place(goal)].as_ref().is_some_and(is_same).then(|| self.work_out(common, facts, goal))
    }

    fn work_out(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) -> Choice {
        let (raw_bytes, overlap) = (facts.raw_bytes, goal.link.overlap());
        let Self { knowledge, choices, framing, .. } = self;
        let scene = scene(common, (facts.element, facts.allowed), goal, knowledge, framing);
        choices[place(goal)].put(raw_bytes, overlap, scene.choose(raw_bytes))
    }

    /// What data is known to become by now.
    pub(super) fn fraction(&self, algorithm: Algorithm) -> Option<f64> {
        self.knowledge.expected_fraction(algorithm)
    }

    /// Whether there is something to [choose again](Self::choose_again) after a transfer like this.
    pub(super) fn has_due(&self, facts: &CheapFacts, goal: Goal) -> bool {
        self.passed >= RECOVERY || self.choices[place(goal)].has_due(facts.raw_bytes)
    }

    /// Works choices out again that rest on what is no longer known, as far as the stream can afford it; that of
    /// transfers like this one first. They are for transfers to come: whatever the link and the peer's codecs were for this one.
    pub(super) fn choose_again(&mut self, common: &Common<'_>, facts: &CheapFacts, goal: Goal) {
        if self.passed >= RECOVERY {
            self.passed = 0;
            self.knowledge.recover();
            AlgorithmSet::supported().iter().for_each(|algorithm| self.settle(algorithm));
        }
        let Self { knowledge, choices, framing, settings, .. } = self;
        let (Some(setting), choices) = (&settings[place(goal)], &mut choices[place(goal)]) else { return };
        while let Some((raw_bytes, overlap)) = choices.next_due(facts.raw_bytes) {
            let goal = setting.last.with_overlap(overlap);
            let scene = scene(common, (facts.element, setting.allowed), goal, knowledge, framing);
            choices.put(raw_bytes, overlap, scene.choose(raw_bytes));
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

    /// The way to take: the best one, or now and then another that might turn out better, if anybody sees whether it does.
    pub(super) fn way(&mut self, choice: &Choice, facts: &CheapFacts, goal: Goal) -> (Way, Kind) {
        let Self { choices, trials, budget, guesses, knowledge, .. } = self;
        let best = (choice.best, Kind::Best);
        let chances = choices[place(goal)].chances(facts.raw_bytes);
        let Some(chances) = chances.filter(|_| facts.is_observed && choice.is_open()) else {
            return best;
        };
        if let Some(guess) = chances.guess.filter(|_| *guesses < MOST_GUESSES) {
            *guesses += 1;
            return (guess, Kind::Guess);
        }
        if let Some(trial) = trials.once_more(choice, facts, goal, |tried| knowledge.expected_fraction(tried))
        {
            budget.pay_trial(trial.loss_ns(facts.raw_bytes), trial.is_late);
            return (trial.way, Kind::Trial);
        }
        let allowed = |trial: &&Trial| trials.allow(trial, choice, (facts.raw_bytes, goal), budget);
        chances.trials.iter().flatten().find(allowed).map_or(best, |trial| (trial.way, Kind::Trial))
    }

    /// Hears what was chosen after a sample.
    pub(super) fn chosen(&mut self, config: &AdaptiveConfig, choice: &Choice) {
        // Until all sizes are known that are quickly looked at, the others are to be found out soon.
        let urgent = self.urgent;
        // A glance has not seen what there is to find out.
        self.urgent &=
            self.glanced || self.looks.quick(choice.unknown).bits() != 0 && self.samples < FIRST_SAMPLES;
        if !self.urgent {
            self.budget.is_founded();
        }
        match self.before {
            Some(before) if before == choice.best.algorithm => {
                // Who has only glanced has not confirmed much.
                if !self.glanced {
                    self.budget.confirm(urgent);
                }
            }
            // Of transfers that follow each other by chance each is another, which is no news.
            _ if self.knowledge.comes_by_chance() => {}
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
}

/// Where choices for such a goal are.
fn place(goal: Goal) -> usize {
    usize::from(goal.link.overlap() != Overlap::None)
}

/// What choices of a stream are made from.
fn scene<'a>(
    common: &'a Common<'_>,
    (element, allowed): (Element, AlgorithmSet),
    goal: Goal,
    knowledge: &'a Knowledge,
    framing: &'a Framing,
) -> Scene<'a> {
    let Common { config, speeds, priors, .. } = *common;
    Scene { goal, speeds, element, allowed, knowledge, priors, framing, least_gain: config.least_gain }
}
