//! When a stream may try what is not predicted to be best.

use super::LOST_AFTER;
use crate::CheapFacts;
use crate::adaptive::budget::Budget;
use crate::adaptive::choice::{Choice, Trial, Way};
use crate::adaptive::model::Goal;

/// What a trial must be likely to save, as a multiple of what it loses: who tries is also wrong about how long things stay as they are,
/// and about longer transfers by what shorter ones take.
const WORTHWHILE: f64 = 10.0;
/// A codec that was hardly timed may take twice as long as predicted: its trial is predicted to take no more than this part of all time.
/// So where there are shorter transfers as well, it is tried on one of them first.
const BRIEF: f64 = 1.0 / 32.0;

/// Who is tried is tried so often, one right after the other: the first time a codec takes longer than it does from then on.
const TRIES: f64 = 2.0;
/// The second may have so many transfers of other lengths before it.
const SOON: u32 = 4;

/// What decides about trials, beside their account.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    /// Bytes of transfers since other data last made another algorithm best.
    alike_bytes: f64,
    /// What all transfers have taken.
    all_ns: f64,
    /// Transfers since a trial that nothing was heard of.
    trying: Option<u32>,
    again: Option<Again>,
}

/// A trial that is to be made once more.
#[derive(Clone, Debug)]
struct Again {
    way: Way,
    raw_bytes: u64,
    goal: Goal,
    /// Transfers that may go by until then.
    left: u32,
}

impl Trials {
    /// Takes account of a transfer.
    pub(super) fn pass(&mut self, raw_bytes: u64, transfer_ns: f64) {
        self.alike_bytes += raw_bytes as f64;
        self.all_ns += transfer_ns;
        self.trying = self.trying.map(|transfers| transfers.saturating_add(1));
        if let Some(again) = &mut self.again {
            again.left = again.left.saturating_sub(1);
        }
    }

    /// The data is other data.
    pub(super) fn start_again(&mut self) {
        (self.alike_bytes, self.again) = (0.0, None);
    }

    /// The trial under way has come back.
    pub(super) fn hear(&mut self) {
        self.trying = None;
    }

    /// What was just tried, for a transfer like that one, over the same link: that is paid for. Nothing if it is the best by now.
    pub(super) fn once_more(&mut self, choice: &Choice, facts: &CheapFacts, goal: Goal) -> Option<Way> {
        let Again { way, raw_bytes, goal: before, left } = self.again.as_ref()?;
        let (way, is_over) = (*way, *left == 0 || choice.best.algorithm == way.algorithm);
        let is_alike = facts.raw_bytes.abs_diff(*raw_bytes) <= raw_bytes / 4
            && before.is_near(&goal)
            && facts.allowed.contains(way.algorithm);
        if is_over || is_alike {
            self.again = None;
        }
        (is_alike && !is_over).then_some(way)
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
        if self.trying.is_some_and(|transfers| transfers < LOST_AFTER) {
            return false;
        }
        let loss_ns = TRIES * trial.loss_ns(raw_bytes);
        let is_worth_it = trial.worth_ns(self.alike_bytes) >= WORTHWHILE * loss_ns;
        let is_brief = choice.ns(&trial.way, raw_bytes) <= BRIEF * self.all_ns;
        let allowed =
            (trial.is_late || is_worth_it && is_brief) && budget.allows_trial(loss_ns, trial.is_late);
        if allowed {
            self.trying = Some(0);
            self.again = Some(Again { way: trial.way, raw_bytes, goal, left: SOON });
        }
        allowed
    }
}
