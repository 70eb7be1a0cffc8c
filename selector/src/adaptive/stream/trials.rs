//! When a stream may try what is not predicted to be best.

use super::LOST_AFTER;
use crate::adaptive::budget::Budget;
use crate::adaptive::choice::{Choice, Trial};

/// What a trial must be likely to save, as a multiple of what it loses: who tries is also wrong about how long things stay as they are,
/// and about longer transfers by what shorter ones take.
const WORTHWHILE: f64 = 10.0;
/// A codec that was hardly timed may take twice as long as predicted: its trial is predicted to take no more than this part of all time.
/// So where there are shorter transfers as well, it is tried on one of them first.
const BRIEF: f64 = 1.0 / 32.0;

/// What decides about trials, beside their account.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    /// Bytes of transfers since other data last made another algorithm best.
    alike_bytes: f64,
    /// What all transfers have taken.
    all_ns: f64,
    /// Transfers since a trial that nothing was heard of.
    trying: Option<u32>,
}

impl Trials {
    /// Takes account of a transfer.
    pub(super) fn pass(&mut self, raw_bytes: u64, transfer_ns: f64) {
        self.alike_bytes += raw_bytes as f64;
        self.all_ns += transfer_ns;
        self.trying = self.trying.map(|transfers| transfers.saturating_add(1));
    }

    /// The data is other data.
    pub(super) fn start_again(&mut self) {
        self.alike_bytes = 0.0;
    }

    /// The trial under way has come back.
    pub(super) fn hear(&mut self) {
        self.trying = None;
    }

    /// Whether a trial is likely to pay for itself, if there is as much to come as there was, and `budget` can pay it. If so, it does.
    /// One is heard of before there is another.
    pub(super) fn allow(
        &mut self,
        trial: &Trial,
        choice: &Choice,
        raw_bytes: u64,
        budget: &mut Budget,
    ) -> bool {
        if self.trying.is_some_and(|transfers| transfers < LOST_AFTER) {
            return false;
        }
        let loss_ns = trial.loss_ns(raw_bytes);
        let is_worth_it = trial.worth_ns(self.alike_bytes) >= WORTHWHILE * loss_ns;
        let is_brief = choice.ns(&trial.way, raw_bytes) <= BRIEF * self.all_ns;
        let allowed =
            (trial.is_late || is_worth_it && is_brief) && budget.allows_trial(loss_ns, trial.is_late);
        if allowed {
            self.trying = Some(0);
        }
        allowed
    }
}
