//! The policy `adaptive`: whatever is predicted to be there first.
//!
//! * **Goal**: the time until the receiver has the raw bytes. One after the other that is latency, encoding,
//!   `N` / link rate, decoding; where the link and codecs overlap, the slowest of the three and the fill of the others.
//!   If the operator sets a λ, the penalty `P = N + λ (L_C + L_D)` decides instead, with `L` as measured here.
//! * **What it knows**: the link, from the facts of each transfer; how fast codecs are on this machine, from
//!   [`Speeds`]; and of each stream, what its data became and how long that took.
//! * **Order of work**: the size gate; then what the stream's last transfers of about this length said, which is one
//!   look-up; rarely a sample. An algorithm that would lose even if its code were empty is never tried, and where that
//!   holds for all of them, nothing is.
//! * **Samples** are paid from an account: 0.5 % of what a stream's transfers take, down to 0.1 % while samples say
//!   nothing new. The first sample of a stream, and one after a surprise, may take 5 % of its transfer and is paid back.
//!   Long transfers can afford one each. Most samples try what is near the best; one in eight, all that is promising.
//! * **Surprise**: a size that is off by more than a tenth. The stream is sampled again at once.
//! * **State**: one for each peer, stream and element, at most 1,024; later ones share one for each element.
//! * **Ties** go to the raw form, then to the lower algorithm number.

mod budget;
mod choice;
mod config;
mod knowledge;
mod model;
mod stream;

use std::collections::HashMap;
use std::sync::Arc;

use mgcomp_codecs::Algorithm;

use self::choice::Choice;
pub use self::config::{AdaptiveConfig, AdaptiveConfigError};
use self::knowledge::Knowledge;
use self::model::Goal;
use self::stream::{Ask, Common, Stream};
use crate::speeds::Speeds;
use crate::{CheapFacts, Decision, Estimate, Lambda, LinkFacts, Outcome, Overlap, Plan, Policy, Reason};

/// Streams that have a state of their own.
const MOST_STREAMS: usize = 1024;
/// Weight of a new time of an estimator against the known.
const WEIGHT: f64 = 0.25;

/// The policy that predicts.
#[derive(Clone, Debug)]
pub struct Adaptive {
    config: AdaptiveConfig,
    speeds: Arc<Speeds>,
    streams: HashMap<Key, Stream>,
    /// How codecs did on all streams: where new ones start.
    others: Knowledge,
    estimate_factor: f64,
}

/// Peer, stream and number of the element. The streams that come too late have none but the element.
type Key = (Option<(u32, u32)>, u8);

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
        Self { config, speeds, streams: HashMap::new(), others: Knowledge::default(), estimate_factor: 1.0 }
    }

    /// What decides; `None` if nothing is known of the link and no λ is set.
    fn goal(&self, facts: &CheapFacts) -> Option<Goal> {
        let lambda = self.config.lambda;
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
        let element = facts.element.number();
        let own: Key = (Some((facts.peer, facts.stream.0)), element);
        let full = self.streams.len() >= MOST_STREAMS;
        let key = if full && !self.streams.contains_key(&own) { (None, element) } else { own };
        let (config, others) = (&self.config, &self.others);
        let stream = self.streams.entry(key).or_insert_with(|| Stream::new(config, others));
        (stream, Common { config, speeds: &self.speeds, estimate_factor: self.estimate_factor })
    }
}

impl Policy for Adaptive {
    fn name(&self) -> String {
        "adaptive".to_owned()
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
        match stream.ask(&common, facts, &choice) {
            Some(Ask { algorithms, size }) => Plan::Sample { algorithms, size },
            None => Plan::Use(decision(facts, &choice, goal.lambda)),
        }
    }

    fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        let Some(goal) = self.goal(facts) else {
            return Decision::bypass(facts, Reason::LinkUnknown);
        };
        let (stream, common) = self.stream(facts);
        stream.learn_sample(&common, facts, estimates);
        let choice = stream.choice(&common, facts, goal);
        stream.chosen(common.config, choice.algorithm);
        decision(facts, &choice, goal.lambda)
    }

    fn observe(&mut self, facts: &CheapFacts, decision: &Decision, outcome: &Outcome) {
        if facts.raw_bytes < self.config.least_bytes.max(1) {
            return;
        }
        let (stream, common) = self.stream(facts);
        let sampled = outcome.sampling.and_then(|took| stream.learn_sampling(took.as_nanos() as f64));
        let tried = decision.algorithm;
        if tried != Algorithm::None {
            let achieved = outcome.coded_bytes as f64 / facts.raw_bytes as f64;
            let measured = Stream::measured(&common, facts, tried, achieved);
            let ratio =
                |took: Option<std::time::Duration>, ns: f64| took.map(|took| took.as_nanos() as f64 / ns);
            let encode = ratio(outcome.encode, measured.encode_ns);
            let decode = ratio(outcome.decode, measured.decode_ns);
            let expected =
                decision.predicted_bits.map_or(achieved, |bits| bits as f64 / facts.raw_bits() as f64);
            stream.learn_size(common.config, tried, expected, achieved);
            stream.learn_times(tried, encode, decode);
            self.others.learn_times(tried, encode, decode);
            self.others.settle();
        }
        if let Some(sampled) = sampled {
            let factor = self.estimate_factor * sampled.clamp(0.5, 2.0);
            let moved = self.estimate_factor + (factor - self.estimate_factor) * WEIGHT;
            self.estimate_factor = moved.clamp(1.0 / 16.0, 16.0);
        }
    }
}

fn decision(facts: &CheapFacts, choice: &Choice, lambda: Option<Lambda>) -> Decision {
    let ns = |per_byte: f64| (per_byte * facts.raw_bytes as f64).round() as u64;
    let (predicted_ns, raw_ns) = (ns(choice.ns_per_byte), ns(choice.raw_ns_per_byte));
    let reason = match (choice.algorithm, lambda) {
        (Algorithm::None, None) if choice.promising.bits() == 0 => Reason::LinkTooFast { raw_ns },
        (Algorithm::None, _) if !choice.informed && choice.promising.bits() != 0 => Reason::NotSampled,
        (_, Some(lambda)) => Reason::LowestPenalty { lambda },
        (Algorithm::None, None) => Reason::NoGain { raw_ns },
        (_, None) => Reason::Fastest { predicted_ns, raw_ns },
    };
    let bits = (choice.fraction * facts.raw_bits() as f64).round() as u64;
    let predicted_bits = Some(if choice.algorithm == Algorithm::None { facts.raw_bits() } else { bits });
    let charged = crate::table3(choice.algorithm).map(|line| line.times(facts.lines()));
    Decision {
        algorithm: choice.algorithm,
        reason,
        predicted_bits,
        predicted_ns: Some(predicted_ns),
        charged,
    }
}
