//! What a stream learns of what came of its transfers and samples.

use std::time::Duration;

use mgcomp_codecs::Algorithm;

use super::asked::Asked;
use super::{Common, Goal, Paces, Sampled, Stream};
use crate::adaptive::bands::band;
use crate::adaptive::choices::Choices;
use crate::adaptive::kinds::Turn;
use crate::adaptive::uses::lesson_ns;
use crate::speeds::{CodecTimes, Speeds};
use crate::{CheapFacts, Decision, Outcome, Reason};

/// How much longer than expected a sample can take.
const MOST_LATE: f64 = 4.0;
/// So many times in a row that are off in the same direction are no accident.
const OFF_IN_A_ROW: i8 = 3;

/// Times of one codec on transfers of about one length that were far from what was predicted, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OffTimes {
    /// How many were far longer in a row, or as a negative number far shorter.
    count: i8,
    /// Whose they are, and how much longer than measured it was predicted to take before any of them.
    of: Option<(Algorithm, usize, CodecTimes)>,
}

impl Stream {
    /// The data is no longer what codecs were timed on.
    pub(super) fn doubt_times(&mut self) {
        self.knowledge.doubt_times();
        self.trials.start_again();
    }

    /// Learns what a transfer became. If that was not expected, or times have not been for a while, the stream is to be looked
    /// at again.
    pub(in crate::adaptive) fn learn_outcome(
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
        let turn = match &sample {
            Some(seen) => self.learn_sampled(facts, tried, fraction, seen, drift),
            None => self.learn_unsampled(facts, tried, fraction, drift),
        };
        self.settle(tried);
        let (Some(goal), Some(bits), Some(ns)) = (goal, decision.predicted_bits, decision.predicted_ns)
        else {
            return;
        };
        let off_ns = (coded_bytes * 8.0 - bits as f64).abs() / goal.link.rate_gbps();
        if let Reason::Guessed { .. } = decision.reason {
            return; // which was to be no more than that
        }
        // What was sampled has just been looked at, if the form in which it was sent was.
        let looked_at = sample.is_some_and(|seen| seen.tells_of(tried, fraction, drift));
        let is_usual = turn != Turn::New && self.knowledge.comes_by_chance();
        let surprising = !looked_at && off_ns > drift * ns as f64 && !is_usual;
        if !surprising && !trial {
            return;
        }
        // What was tried, and not for being cold alone, is no first trial any more, even if nothing has moved.
        let best = self.choose_as_before(common, facts, goal).map(|choice| choice.best.algorithm);
        if surprising {
            (self.urgent, self.pause) = (true, 0);
            if best.is_some_and(|best| best != tried) && !trial {
                self.budget.surprise(common.config);
                self.doubt_times();
                self.choices.iter_mut().for_each(Choices::start_again);
            }
        }
    }

    /// Learns how long codecs took, as far as that is not for they were cold; returns how it compares with what was measured before all.
    /// The codecs that are known well are looked at now and then only, but for trials.
    pub(in crate::adaptive) fn learn_times(
        &mut self,
        common: &Common<'_>,
        facts: &CheapFacts,
        decision: &Decision,
        outcome: &Outcome,
        is_cold: bool,
    ) -> Option<Paces> {
        let algorithm = decision.algorithm;
        let is_trial = matches!(decision.reason, Reason::Trial { .. });
        if !self.knowledge.is_to_show_times(algorithm, facts.raw_bytes) && !is_trial {
            return None;
        }
        let fraction = outcome.coded_bytes as f64 / facts.raw_bytes as f64;
        let measured = common.speeds.times(algorithm, facts.element, facts.raw_bytes, fraction)?;
        let expected = self.knowledge.corrected(algorithm, facts.raw_bytes, measured);
        let pace = |took: Option<Duration>, expected_ns: f64, ns: f64| {
            Some(lesson_ns(took?.as_nanos() as f64, expected_ns, facts.raw_bytes, is_cold)? / ns)
        };
        let paces = Paces {
            encode: pace(outcome.encode, expected.encode_ns, measured.encode_ns),
            decode: pace(outcome.decode, expected.decode_ns, measured.decode_ns),
        };
        if !is_trial {
            let far_ns = common.config.drift * decision.predicted_ns.unwrap_or(0) as f64;
            self.compare_times((algorithm, facts.raw_bytes), measured, outcome, far_ns);
        }
        // What was seen and taught nothing was as if it had not been, of a trial, too.
        let is_lesson = paces.encode.is_some() || outcome.encode.is_none();
        self.knowledge.learn_times(algorithm, facts.raw_bytes, paces, is_trial && is_lesson);
        Some(paces)
    }

    /// Learns how long the peer has taken to decode a transfer, as far as that is not for its decoder was cold.
    pub(in crate::adaptive) fn learn_decoding(
        &mut self,
        speeds: &Speeds,
        facts: &CheapFacts,
        algorithm: Algorithm,
        (coded_bytes, took): (u64, Duration),
        is_cold: bool,
    ) {
        let fraction = coded_bytes as f64 / facts.raw_bytes as f64;
        let measured = speeds.times(algorithm, facts.element, facts.raw_bytes, fraction);
        let Some(measured) = measured else { return };
        let expected = self.knowledge.corrected(algorithm, facts.raw_bytes, measured);
        if let Some(decode_ns) =
            lesson_ns(took.as_nanos() as f64, expected.decode_ns, facts.raw_bytes, is_cold)
        {
            self.knowledge.learn_decoding(algorithm, facts.raw_bytes, decode_ns / measured.decode_ns);
            self.settle(algorithm);
        }
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
        if outcome.encode.is_none() && outcome.decode.is_none() {
            return; // it is as if it had not been
        }
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
    pub(in crate::adaptive) fn learn_sampling(
        &mut self,
        facts: &CheapFacts,
        took_ns: f64,
    ) -> Option<Sampled> {
        let asked = self.asked.pay_off(facts.raw_bytes).filter(|asked| asked.expected_ns > 0.0);
        let Asked { expected_ns, dear_ns, is_glance, .. } = asked?;
        // More than that was an interrupt, and is nobody's fault.
        let more = (took_ns / expected_ns).min(MOST_LATE) - 1.0;
        if is_glance {
            self.budget.spend_glance(expected_ns * more);
        } else {
            self.budget.correct((expected_ns - dear_ns) * more, dear_ns * more);
        }
        Some(Sampled { pace: took_ns / expected_ns, more_ns: expected_ns * more })
    }

    /// Lets choices rest on what was learned of an algorithm.
    pub(super) fn settle(&mut self, algorithm: Algorithm) {
        let moved = self.knowledge.settle(algorithm);
        self.choices.iter_mut().for_each(|choices| choices.renew(moved));
    }
}
