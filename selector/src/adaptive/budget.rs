//! What a stream may spend on samples.

use super::AdaptiveConfig;

/// An account in the unit of the goal (nanoseconds, or bits of penalty): each transfer pays in a share of what it
/// costs, each sample is paid from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    credit: f64,
    share: f64,
}

/// Transfers whose share can be saved up: a stream that was long quiet must not spend it all at once.
const MOST_SAVED_TRANSFERS: f64 = 64.0;
/// The part of a transfer that its sample may take on credit, where nothing is known of the stream, or what was known
/// turned out wrong.
const URGENT_SHARE: f64 = 0.05;

impl Budget {
    pub(super) fn new(config: &AdaptiveConfig) -> Self {
        Self { credit: 0.0, share: config.sampling_share }
    }

    /// Pays in for a transfer of this cost.
    pub(super) fn earn(&mut self, cost: f64) {
        let earned = self.share * cost;
        self.credit = (self.credit + earned).min(earned * MOST_SAVED_TRANSFERS);
    }

    /// What a sample of a transfer of this cost may cost now.
    pub(super) fn affordable(&self, cost: f64, urgent: bool) -> f64 {
        if urgent { self.credit.max(URGENT_SHARE * cost) } else { self.credit }
    }

    /// What can be saved up from transfers of this cost.
    pub(super) fn reachable(&self, cost: f64) -> f64 {
        self.share * cost * (MOST_SAVED_TRANSFERS - 1.0)
    }

    /// Pays for a sample, on credit if need be.
    pub(super) fn spend(&mut self, cost: f64) {
        self.credit -= cost;
    }

    /// A sample said what was expected: the next ones can wait longer.
    pub(super) fn confirm(&mut self, least_share: f64) {
        self.share = (self.share / 2.0).max(least_share);
    }

    /// The data has changed: look closely again.
    pub(super) fn surprise(&mut self, config: &AdaptiveConfig) {
        self.share = config.sampling_share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: AdaptiveConfig = AdaptiveConfig {
        least_bytes: 512,
        sampling_share: 0.01,
        quiet_share: 0.002,
        drift: 0.1,
        least_gain: 0.01,
        lambda: None,
    };

    #[test]
    fn samples_cost_the_share_and_no_more() {
        let mut budget = Budget::new(&CONFIG);
        let (mut spent, mut samples) = (0.0, 0);
        for _ in 0..10_000 {
            budget.earn(100.0);
            if budget.affordable(100.0, false) >= 7.0 {
                budget.spend(7.0);
                spent += 7.0;
                samples += 1;
            }
        }
        // One in seven transfers: 1 % of 1,000,000, less what is still saved.
        assert_eq!(samples, 1428);
        assert!(spent <= 0.01 * 1_000_000.0);
    }

    #[test]
    fn urgency_lends_and_the_debt_is_paid_back_first() {
        let mut budget = Budget::new(&CONFIG);
        assert_eq!(budget.affordable(100.0, true), 5.0);
        budget.spend(5.0);
        for _ in 0..5 {
            budget.earn(100.0);
        }
        assert_eq!(budget.affordable(100.0, false), 0.0);
    }

    #[test]
    fn confirmation_lowers_the_share_to_a_floor_and_surprise_restores_it() {
        let mut budget = Budget::new(&CONFIG);
        for expected in [0.005, 0.0025, 0.002, 0.002] {
            budget.confirm(CONFIG.quiet_share);
            assert_eq!(budget.share, expected);
        }
        budget.surprise(&CONFIG);
        assert_eq!(budget.share, 0.01);
    }

    #[test]
    fn what_is_saved_up_is_bounded() {
        let mut budget = Budget::new(&CONFIG);
        for _ in 0..1000 {
            budget.earn(100.0);
        }
        assert_eq!(budget.affordable(100.0, false), 64.0);
        // A short transfer after long ones finds little saved.
        budget.earn(1.0);
        assert_eq!(budget.affordable(1.0, false), 0.64);
    }
}
