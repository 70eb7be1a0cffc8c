//! When a stream may try what is not predicted to be best.

use mgcomp_codecs::Algorithm;

use super::LOST_AFTER;
use crate::CheapFacts;
use crate::adaptive::budget::Budget;
use crate::adaptive::choice::{Choice, Trial};
use crate::adaptive::model::Goal;
use crate::adaptive::uses::{COLD_AFTER, WARMING};

/// What a trial must be likely to save, as a multiple of what it loses each time: who tries is also wrong about how long things stay
/// as they are, and about longer transfers by what shorter ones take.
const WORTHWHILE: f64 = 10.0;
/// A codec that was hardly timed may take twice as long as predicted: its trial is predicted to take no more than this part of all time.
/// So where there are shorter transfers as well, it is tried on one of them first.
const BRIEF: f64 = 1.0 / 32.0;
/// Who is tried is tried so often, one soon after the other: the first times a codec takes longer than it does from then on.
const TRIES: u32 = WARMING + 1;

/// What decides about trials, beside their account.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    /// Bytes of transfers since other data last made another algorithm best.
    alike_bytes: f64,
    /// What all transfers have taken.
    all_ns: f64,
    /// Transfers since the last trial, while nothing was heard of so many.
    trying: Option<u32>,
    under_way: u32,
    again: Option<Again>,
}

/// A trial that is to be made again.
#[derive(Clone, Debug)]
struct Again {
    trial: Trial,
    raw_bytes: u64,
    goal: Goal,
    /// So often.
    times: u32,
    /// Transfers that may go by until then.
    left: u32,
}

impl Trials {
    /// A transfer comes. After too many of other lengths a codec is cold again.
    pub(super) fn tick(&mut self) {
        if let Some(again) = &mut self.again {
            match again.left.checked_sub(1) {
                Some(left) => again.left = left,
                None => self.again = None,
            }
        }
    }

    /// Takes account of a transfer for which anything might be better than the raw form.
    pub(super) fn pass(&mut self, raw_bytes: u64, transfer_ns: f64) {
        self.alike_bytes += raw_bytes as f64;
        self.all_ns += transfer_ns;
        self.trying = self.trying.map(|transfers| transfers.saturating_add(1));
    }

    /// The data is other data.
    pub(super) fn start_again(&mut self) {
        (self.alike_bytes, self.again) = (0.0, None);
    }

    /// A trial under way has come back.
    pub(super) fn hear(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.trying = None;
        }
    }

    /// What was just tried, for a transfer like that one, over the same link, if it is not the best by now. `fraction` is what is left of
    /// the data.
    pub(super) fn once_more(
        &mut self,
        choice: &Choice,
        facts: &CheapFacts,
        goal: Goal,
        fraction: impl Fn(Algorithm) -> Option<f64>,
    ) -> Option<Trial> {
        let is_alike = |again: &mut Again| facts.raw_bytes.abs_diff(again.raw_bytes) <= again.raw_bytes / 4;
        let Again { mut trial, goal: before, times, .. } = self.again.take_if(is_alike)?;
        let algorithm = trial.way.algorithm;
        let is_open = choice.promising.contains(algorithm) && choice.best.algorithm != algorithm;
        let is_same = before.is_similar(&goal) && facts.allowed.contains(algorithm);
        trial.way = trial.way.of_fraction(fraction(algorithm)?).filter(|_| is_open && is_same)?;
        self.start(trial, facts.raw_bytes, goal, times - 1);
        Some(trial)
    }

    /// Makes a trial, and so many more.
    fn start(&mut self, trial: Trial, raw_bytes: u64, goal: Goal, times: u32) {
        (self.trying, self.under_way) = (Some(0), self.under_way + 1);
        self.again = (times > 0).then_some(Again { trial, raw_bytes, goal, times, left: COLD_AFTER });
    }

    /// Whether a trial is likely to pay for itself, if there is as much to come as there was, and `budget` can pay it. If so, it does.
    /// One is heard of before there is another.
    pub(super) fn allow(
        &mut self,
        trial: &Trial,
        choice: &Choice,
        (raw_bytes, goal): (u64, Goal),
        budget: &mut Budget,
    ) -> bool {
        if self.trying.is_some_and(|transfers| transfers < LOST_AFTER) || self.again.is_some() {
            return false;
        }
        let loss_ns = trial.loss_ns(raw_bytes);
        let is_worth_it = trial.worth_ns(self.alike_bytes) >= WORTHWHILE * loss_ns;
        let is_brief = choice.ns(&trial.way, raw_bytes) <= BRIEF * self.all_ns;
        let allowed = (trial.is_late || is_worth_it && is_brief)
            && budget.allows_trials(f64::from(TRIES), loss_ns, trial.is_late);
        if allowed {
            budget.pay_trial(loss_ns, trial.is_late);
            self.under_way = 0; // what was not heard of for so long is lost
            self.start(*trial, raw_bytes, goal, TRIES - 1);
        }
        allowed
    }
}
