//! The policy `adaptive`: whatever is predicted to be there first.
//!
//! * **Goal**: the time until the receiver has the raw bytes. One after the other that is latency, encoding,
//!   `N` / link rate, decoding; where the link and codecs overlap, the slowest of the three and the fill of the others; where
//!   codecs store over the link or load over it, the slower of the two stands for both ([`Overlap`]).
//!   If the operator sets a λ, the penalty `P = N + λ (L_C + L_D)` decides instead, with `L` as measured here.
//! * **What it knows**: the link, from the facts of each transfer; how fast codecs are on this machine, from
//!   [`Speeds`]; and of each stream, what its data became and how long that took, apart for short and long transfers; so
//!   also what the peer's decoders take, where it says so.
//!   Sizes are known without framing, so that short transfers and long ones tell of each other. Long ones count more;
//!   what a sample says, an eighth of what the transfer itself does at most, and less if it looked at few bytes.
//! * **Order of work**: the size gate; then what the stream's last transfers of about this length said, which is one
//!   look-up; rarely a sample. An algorithm that would lose even if the data suited it, and it were twice as fast as
//!   measured, is never tried, and where that holds for all of them, nothing is.
//! * **Choices** are worked out again when what they rest on has moved: between transfers, as far as 1/2048 of their
//!   time goes, while the old ones serve. Only the first transfer of a length waits for its choice.
//! * **Cold starts**: a stream to a new peer starts from what the same stream became for the last one, and is sampled as if
//!   nothing were known. Where there is no such stream and no sample can be afforded, the first transfers may go by what
//!   data of their element tends to become (`priors.rs`), if that is worth more than it can lose.
//! * **Samples** are paid from an account: 0.5 % of what a stream's transfers take, down to 0.1 % while samples say
//!   nothing new. Estimators that took longer than measured are taken to recover as codecs are. Until the sizes of all that is promising and quickly looked at are known, they may take 4 % of what was sent until then;
//!   after a surprise 3 % of what was sent since, which is paid back. Whatever is owed, 0.1 % of the time since the last
//!   sample is there for the next one, so long transfers are looked at each time. But where there are more than sixteen streams, the samples of
//!   all together take 1 % at most. A sample tries all that is promising, on
//!   the same places of the data. What takes longer than all others together, as fitting a codebook does, is not waited for, and has
//!   another account besides, 0.1 % at first. What takes far longer, as DEFLATE does, has that one alone, and to itself where it may be worth
//!   it; it is not looked at while it is in use.
//! * **Kinds of data**: of a stream up to four are remembered, with what they become in each form. A transfer that is of a known one
//!   tells of all forms. Whether the next one is of the same kind again, and where transfers of several kinds follow each other by chance,
//!   what they become on average, is told by how much of a distance from the average was there again with the next transfer until now
//!   (`kinds.rs`). Then a transfer of another kind is no surprise, and what is seen of one in a sample decides on that one alone.
//! * **Glances**: where a stream goes raw, nothing but samples tells that data would shrink again. So in between, 0.1 % of the time goes to
//!   looks with what tells known kinds apart soonest; or, if there are none, with one algorithm after the other.
//! * **Few places** may say too little or too much of a whole transfer, but they do so of all algorithms. So what a sample
//!   says of others is scaled by what is known of the one in use, and again by what the transfer became once it has arrived; but by
//!   no more than twice the bytes by which the one in use is off.
//!   Those that it did not look at are taken to change as the one in use does, until the transfer has arrived. Where samples were
//!   often far off, they say less, and only what is further off still is other data.
//! * **Surprise**: a size so far from the expected that the link needs more or less by a tenth of the transfer's time; or times
//!   of its codec that were off by as much three times in a row, though predictions follow them.
//!   The stream is sampled again as soon as that can be afforded. If that finds nothing new, the next surprises are
//!   worth less. Where a sample finds one algorithm far from what was known, the data is other data for all of them.
//! * **Trials**: what was never timed here might be up to twice as fast as measured on other data. What may save most then, by how
//!   likely that is, for what it is predicted to lose, is tried first: as soon as there was so much of this data that as much more is
//!   likely to bring back ten times the loss of one, and on transfers that are short beside all that went before, for it may also be twice as
//!   slow. Once more soon where little is missing, for times may be disturbed; and again now and then, for they may have been so for
//!   long. First trials may lose 1 % of all time, later ones 0.1 %. Where the data has changed, what was timed is tried again, with
//!   less to hope for. Codecs that were not timed for 1,024 transfers are taken to have lost an eighth of what they were slower than
//!   measured: else what was slow while the machine was busy would be given up for good.
//! * **Cold codecs**: one that was not used for 16 transfers takes longer the first two times, for its code is no longer in the
//!   caches, and its buffers may be new to the system. What it takes longer then, up to 50 µs and 1 ns for a raw byte or 1 ms, is not learned,
//!   unless most of its uses are like that; and each trial is three in a row.
//! * **State**: one for each peer, stream and element, at most 1,024. One that was not used while the others were 16,384 times makes room for
//!   the next; streams that find no room share one state for each element until there is some.
//! * **Ties** go to the raw form, then to the lower algorithm number.

mod bands;
mod budget;
mod choice;
mod choices;
mod config;
mod framing;
mod kinds;
mod knowledge;
mod model;
mod priors;
mod sample;
mod stream;
mod streams;
mod uses;

use std::sync::Arc;
use std::time::Duration;

use mgcomp_codecs::Algorithm;

use self::budget::Joint;
use self::choice::Choice;
pub use self::config::{AdaptiveConfig, AdaptiveConfigError};
use self::knowledge::{Knowledge, RECOVERED};
use self::model::Goal;
use self::priors::Priors;
use self::stream::{Ask, Common, Kind, LOST_AFTER, RECOVERY, Sampled, Stream};
use self::streams::{Key, Streams};
use self::uses::Uses;
use crate::speeds::Speeds;
use crate::{CheapFacts, Decision, Estimate, LinkFacts, Outcome, Overlap, Plan, Policy, Reason};

/// Weight of a new time of an estimator against the known.
const WEIGHT: f64 = 0.25;

/// The policy that predicts.
#[derive(Clone, Debug)]
pub struct Adaptive {
    config: AdaptiveConfig,
    speeds: Arc<Speeds>,
    streams: Streams,
    /// How codecs did on all streams: where new ones start.
    others: Knowledge,
    priors: Priors,
    estimate_factor: f64,
    joint: Joint,
    uses: Uses,
    /// Some stream has something to work out again once its transfer is on its way; so many outcomes are asked whether it is
    /// theirs.
    due: u32,
    /// Transfers since codecs were last taken to recover.
    passed: u32,
}

impl Adaptive {
    /// The policy with default settings.
    #[must_use]
    pub fn new(speeds: Arc<Speeds>) -> Self {
        Self::from_checked(AdaptiveConfig::default(), speeds)
    }

    /// The policy with settings of one's own.
    ///
    /// # Errors
    /// As [`AdaptiveConfig::check`].
    pub fn try_new(config: AdaptiveConfig, speeds: Arc<Speeds>) -> Result<Self, AdaptiveConfigError> {
        config.check()?;
        Ok(Self::from_checked(config, speeds))
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &AdaptiveConfig {
        &self.config
    }

    pub(crate) fn from_checked(config: AdaptiveConfig, speeds: Arc<Speeds>) -> Self {
        Self {
            config,
            speeds,
            streams: Streams::default(),
            others: Knowledge::default(),
            priors: Priors::default(),
            estimate_factor: 1.0,
            joint: Joint::new(&config),
            uses: Uses::default(),
            due: 0,
            passed: 0,
        }
    }

    /// What decides; `None` if nothing is known of the link and no λ is set.
    fn goal(&self, facts: &CheapFacts) -> Option<Goal> {
        let lambda = facts.lambda.or(self.config.lambda);
        match facts.link {
            Some(link) => Some(Goal { link, lambda }),
            // The penalty needs no link; what samples may take is then reckoned against a fast one.
            None if lambda.is_some() => {
                Some(Goal { link: LinkFacts::try_new(100.0, 0, Overlap::None).ok()?, lambda })
            }
            None => None,
        }
    }

    /// The stream of a transfer, and what all streams share.
    fn stream(&mut self, facts: &CheapFacts) -> (&mut Stream, Common<'_>) {
        let (config, speeds) = (&self.config, &*self.speeds);
        let (others, element) = (&self.others, facts.element);
        let (stream, streams) =
            self.streams.of(key(facts), |sibling| Stream::new(config, speeds, element, sibling, others));
        let common = Common {
            config,
            speeds,
            priors: &self.priors,
            estimate_factor: self.estimate_factor,
            streams,
            joint_ns: self.joint.affordable(streams),
        };
        (stream, common)
    }
}

impl Policy for Adaptive {
    fn name(&self) -> String {
        "adaptive".to_owned()
    }

    fn goes_by_time(&self) -> bool {
        true
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        let bypass = |reason| Plan::Use(Decision::bypass(facts, reason));
        if facts.raw_bytes == 0 {
            return bypass(Reason::Empty);
        }
        if facts.raw_bytes < self.config.least_bytes {
            return bypass(Reason::TooShort { least_bytes: self.config.least_bytes });
        }
        let Some(goal) = self.goal(facts) else {
            return bypass(Reason::LinkUnknown);
        };
        let (stream, common) = self.stream(facts);
        let choice = stream.choice(&common, facts, goal);
        let (streams, mut sample_ns) = (common.streams, 0.0);
        let plan = match stream.ask(&common, facts, &choice) {
            Some(Ask { algorithms, size, ns }) => {
                sample_ns = ns;
                Plan::Sample { algorithms, size }
            }
            None => Plan::Use(decision(stream, facts, &choice, goal)),
        };
        if stream.has_due(facts, goal) {
            self.due = LOST_AFTER;
        }
        self.uses.pass();
        self.passed += 1;
        if self.passed == RECOVERY {
            self.passed = 0;
            self.others.recover();
            // As codecs do: what cannot be afforded any more is not timed again.
            self.estimate_factor -= RECOVERED * (self.estimate_factor - 1.0).max(0.0);
        }
        self.joint.earn(choice.best_ns(facts.raw_bytes));
        self.joint.spend(sample_ns, streams);
        plan
    }

    fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        let Some(goal) = self.goal(facts) else {
            return Decision::bypass(facts, Reason::LinkUnknown);
        };
        let (stream, common) = self.stream(facts);
        stream.learn_sample(facts, estimates);
        let choice = stream.choose_now(&common, facts, goal);
        // Who could not look has confirmed nothing.
        if !estimates.is_empty() {
            stream.chosen(common.config, &choice);
        }
        let decision = decision(stream, facts, &choice, goal);
        stream.remember(facts, &decision);
        let known = |algorithm: Algorithm| Some((algorithm, stream.fraction(algorithm)?));
        let seen: Vec<_> = estimates.iter().filter_map(|estimate| known(estimate.algorithm)).collect();
        for (algorithm, fraction) in seen {
            self.priors.learn(facts.element, algorithm, fraction);
        }
        decision
    }

    /// What a peer's decoders take is its own affair: nothing of it is expected of another. It comes late, and the link may be
    /// another by now, so the next transfers see to what rests on it.
    fn decoded(&mut self, facts: &CheapFacts, decision: &Decision, coded_bytes: u64, took: Duration) {
        if decision.algorithm == Algorithm::None || facts.raw_bytes == 0 {
            return;
        }
        let is_cold = self.uses.decoded(decision.algorithm);
        if let Some(stream) = self.streams.own(key(facts)) {
            let decoded = (coded_bytes, took);
            stream.learn_decoding(&self.speeds, facts, decision.algorithm, decoded, is_cold);
        }
    }

    fn observe(&mut self, facts: &CheapFacts, decision: &Decision, outcome: &Outcome) {
        let tried = decision.algorithm;
        // Raw forms teach nothing.
        let is_lesson = tried != Algorithm::None || outcome.sampling.is_some();
        let is_off = decision.reason == Reason::SwitchedOff;
        if is_off || facts.raw_bytes < self.config.least_bytes.max(1) || !(is_lesson || self.due > 0) {
            return;
        }
        let goal = self.goal(facts);
        let is_cold = match (tried, outcome.encode) {
            (Algorithm::None, _) => false,
            (_, Some(_)) => self.uses.encoded(tried, matches!(decision.reason, Reason::Trial { .. })),
            (_, None) => {
                self.uses.passed_on(tried);
                false
            }
        };
        let (stream, common) = self.stream(facts);
        let streams = common.streams;
        let sampled = outcome.sampling.and_then(|took| stream.learn_sampling(facts, took.as_nanos() as f64));
        let mut paces = None;
        if tried != Algorithm::None {
            paces = stream.learn_times(&common, facts, decision, outcome, is_cold);
            stream.learn_outcome(&common, facts, goal, decision, outcome);
        }
        let due = goal.filter(|goal| stream.has_due(facts, *goal));
        if let Some(goal) = due {
            stream.choose_again(&common, facts, goal);
        }
        let seen = stream.fraction(tried);
        // Where several streams have something due, the others say so again.
        self.due = if due.is_some() { 0 } else { self.due.saturating_sub(1) };
        if let Some(fraction) = seen {
            self.priors.learn(facts.element, tried, fraction);
        }
        if let Some(paces) = paces {
            self.others.learn_times(tried, facts.raw_bytes, paces, false);
        }
        if let Some(Sampled { pace, more_ns }) = sampled {
            self.joint.spend(more_ns, streams);
            let factor = self.estimate_factor * pace.clamp(0.5, 2.0);
            let moved = self.estimate_factor + (factor - self.estimate_factor) * WEIGHT;
            self.estimate_factor = moved.clamp(1.0 / 16.0, 16.0);
        }
    }
}

/// Whose state a transfer has.
fn key(facts: &CheapFacts) -> Key {
    Key { peer: facts.peer, stream: facts.stream.0, element: facts.element }
}

fn decision(stream: &mut Stream, facts: &CheapFacts, choice: &Choice, goal: Goal) -> Decision {
    let rounded = |ns: f64| (ns + 0.5) as u64;
    let raw_ns = rounded(choice.raw_ns(facts.raw_bytes));
    if !choice.is_open() {
        let reason = match goal.lambda {
            Some(lambda) => Reason::LowestPenalty { lambda },
            None => Reason::LinkTooFast { raw_ns },
        };
        return Decision { predicted_ns: Some(raw_ns), ..Decision::bypass(facts, reason) };
    }
    let (way, kind) = stream.way(choice, facts, goal);
    let predicted_ns = rounded(choice.ns(&way, facts.raw_bytes));
    let reason = match (way.algorithm, goal.lambda) {
        (_, None) if kind == Kind::Guess => Reason::Guessed { predicted_ns, raw_ns },
        (Algorithm::None, _) if !choice.is_informed() => Reason::NotSampled,
        (_, Some(lambda)) => Reason::LowestPenalty { lambda },
        (Algorithm::None, None) => Reason::NoGain { raw_ns },
        (_, None) if kind == Kind::Trial => Reason::Trial { predicted_ns, raw_ns },
        (_, None) => Reason::Fastest { predicted_ns, raw_ns },
    };
    Decision {
        algorithm: way.algorithm,
        reason,
        predicted_bits: Some(stream.predicted_bits(&way, facts)),
        predicted_ns: Some(predicted_ns),
        charged: crate::table3(way.algorithm).map(|line| line.times(facts.lines())),
    }
}
