//! What a stream may spend on samples.

use super::AdaptiveConfig;

/// An account in nanoseconds: each transfer pays in a share of what it takes, each sample is paid from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    credit: f64,
    /// What transfers pay in on average.
    usual: f64,
    /// What can be had for the last one at most.
    at_once: f64,
    share: f64,
    /// What may be borrowed now.
    loan: f64,
    urgent_share: f64,
    trials: f64,
    /// For trials of what has been tried before.
    late_trials: f64,
    /// What of that can be had now: what transfers of minutes have saved is not for those of microseconds to lose.
    most_for_trials: f64,
    /// Whether nothing is known of the stream yet: what finds that out is not paid back.
    founding: bool,
    /// What there is for a sample even while a debt is paid back: data may change again before that is done.
    watch: f64,
    /// What there is for estimators that are dear, or for slow ones where no dear one is wanted.
    dear: f64,
    dear_share: f64,
    /// What dear estimators may take for the last transfer at most.
    dear_at_once: f64,
    quiet_share: f64,
    /// What there is for glances, and what one may take for the last transfer at most.
    glances: f64,
    glance_at_once: f64,
    /// What transfers cost on average.
    usual_cost: f64,
}

/// Transfers whose share can be saved up: a stream that was long quiet must not spend it all at once. Nor may a short
/// transfer wait for what long ones have saved.
const MOST_SAVED_TRANSFERS: f64 = 64.0;
/// The same for estimators that are dear.
const MOST_SAVED_FOR_DEAR: f64 = 256.0;
/// What is left of their share while the data stays what it is.
const LEAST_DEAR: f64 = 0.25;
/// Weight of a transfer in what is usual.
const WEIGHT: f64 = 1.0 / 32.0;
/// The part of the transfers since it became urgent that a sample may take on credit.
const URGENT_SHARE: f64 = 0.03;
/// How much of that comes back with each transfer that is not urgent.
const CALM: f64 = 1.05;
/// The same while a stream is new.
const FOUNDING_SHARE: f64 = 0.04;
/// The part of all transfers that trials may lose.
const TRIAL_SHARE: f64 = 0.01;
/// The same of trials of what has been tried before.
const LATE_TRIAL_SHARE: f64 = 0.001;
/// Transfers whose time can be saved up for trials.
const MOST_SAVED_FOR_TRIALS: f64 = 4.0;

/// What all streams together may spend once there are many: the first samples of a stream are not paid back, and a program may have
/// a great many streams of a few transfers each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joint {
    share: f64,
    credit: f64,
}

/// So few streams need not ask the others.
const FEW_STREAMS: usize = 16;
/// The part of all time that samples of all streams may take, as a multiple of the share of one.
const JOINT_SHARES: f64 = 2.0;
/// What can be saved up together, in nanoseconds.
const MOST_SAVED_TOGETHER: f64 = 1e6;

impl Joint {
    pub(super) fn new(config: &AdaptiveConfig) -> Self {
        Self { share: JOINT_SHARES * config.sampling_share, credit: 0.0 }
    }

    /// Pays in for a transfer of this cost.
    pub(super) fn earn(&mut self, cost: f64) {
        self.credit = (self.credit + self.share * cost).min(MOST_SAVED_TOGETHER);
    }

    /// Pays for a sample where there are so many streams, or for what it has taken beyond what was expected.
    pub(super) fn spend(&mut self, cost: f64, streams: usize) {
        if streams > FEW_STREAMS {
            self.credit -= cost;
        }
    }

    /// What a sample may cost.
    pub(super) fn affordable(&self, streams: usize) -> f64 {
        if streams > FEW_STREAMS { self.credit } else { f64::INFINITY }
    }
}

impl Budget {
    pub(super) fn new(config: &AdaptiveConfig) -> Self {
        Self {
            credit: 0.0,
            usual: 0.0,
            at_once: 0.0,
            share: config.sampling_share,
            loan: 0.0,
            urgent_share: URGENT_SHARE,
            trials: 0.0,
            late_trials: 0.0,
            most_for_trials: 0.0,
            founding: true,
            watch: 0.0,
            dear: 0.0,
            dear_share: config.quiet_share.min(config.sampling_share),
            dear_at_once: 0.0,
            quiet_share: config.quiet_share.min(config.sampling_share),
            glances: 0.0,
            glance_at_once: 0.0,
            usual_cost: 0.0,
        }
    }

    /// Pays in for a transfer of this cost.
    pub(super) fn earn(&mut self, cost: f64, urgent: bool) {
        let earned = self.share * cost;
        self.usual = if self.usual == 0.0 { earned } else { self.usual + (earned - self.usual) * WEIGHT };
        self.credit = (self.credit + earned).min(self.usual * MOST_SAVED_TRANSFERS);
        self.at_once = earned * MOST_SAVED_TRANSFERS;
        self.earn_quietly(cost);
        if !urgent {
            self.urgent_share = (self.urgent_share * CALM).min(URGENT_SHARE);
        } else {
            self.loan += if self.founding { FOUNDING_SHARE } else { self.urgent_share } * cost;
        }
        self.most_for_trials = MOST_SAVED_FOR_TRIALS * self.usual_cost.max(cost);
        let most = |saved: f64| self.most_for_trials.max(saved);
        self.trials = (self.trials + TRIAL_SHARE * cost).min(most(self.trials));
        self.late_trials = (self.late_trials + LATE_TRIAL_SHARE * cost).min(most(self.late_trials));
    }

    /// Pays in what is there whatever is owed.
    fn earn_quietly(&mut self, cost: f64) {
        let weight = if self.usual_cost == 0.0 { 1.0 } else { WEIGHT };
        self.usual_cost += (cost - self.usual_cost) * weight;
        let usual = self.quiet_share * self.usual_cost;
        self.watch = (self.watch + self.quiet_share * cost).min(usual * MOST_SAVED_TRANSFERS);
        self.dear = (self.dear + self.dear_share * cost).min(usual * MOST_SAVED_FOR_DEAR);
        self.dear_at_once = self.quiet_share * cost * MOST_SAVED_FOR_DEAR;
        self.glances = (self.glances + self.quiet_share * cost).min(usual * MOST_SAVED_TRANSFERS);
        self.glance_at_once = self.quiet_share * cost * MOST_SAVED_TRANSFERS;
    }

    /// Whether so many trials may lose so much each.
    pub(super) const fn allows_trials(&self, times: f64, loss: f64, is_late: bool) -> bool {
        let saved = if is_late { self.late_trials } else { self.trials };
        times * loss <= saved.min(self.most_for_trials)
    }

    /// Pays for a trial.
    pub(super) const fn pay_trial(&mut self, loss: f64, is_late: bool) {
        *if is_late { &mut self.late_trials } else { &mut self.trials } -= loss;
    }

    /// All that the first samples can say is known.
    pub(super) fn is_founded(&mut self) {
        self.founding = false;
    }

    /// Whether the first samples are still being taken.
    pub(super) const fn is_founding(&self) -> bool {
        self.founding
    }

    /// What a sample may cost now. Who borrows pays the last debt first.
    pub(super) fn affordable(&self, urgent: bool) -> f64 {
        let saved = self.credit.max(self.watch).min(self.at_once);
        if urgent { saved.max(self.loan + self.credit.min(0.0)) } else { saved }
    }

    /// What dear estimators may cost now.
    pub(super) const fn affordable_dear(&self) -> f64 {
        self.dear.min(self.dear_at_once)
    }

    /// What a glance may cost now.
    pub(super) const fn affordable_glance(&self) -> f64 {
        self.glances.min(self.glance_at_once)
    }

    /// What can be saved up for one from transfers like the last.
    pub(super) fn reachable_glance(&self) -> f64 {
        self.glance_at_once * (MOST_SAVED_TRANSFERS - 1.0) / MOST_SAVED_TRANSFERS
    }

    /// Pays for a glance.
    pub(super) const fn spend_glance(&mut self, cost: f64) {
        self.glances -= cost;
    }

    /// What can be saved up from transfers of this cost.
    pub(super) fn reachable(&self, cost: f64) -> f64 {
        self.share * cost * (MOST_SAVED_TRANSFERS - 1.0)
    }

    /// Pays for a sample, on credit if need be; and for what is dear in it.
    pub(super) fn spend(&mut self, cost: f64, dear: f64) {
        // Else debts would never be paid back at a share that samples use up.
        let watch_pays = !self.founding && self.credit < cost && cost <= self.watch;
        self.correct(if watch_pays { 0.0 } else { cost }, dear);
        self.watch = 0.0;
        if dear > 0.0 {
            self.dear_share = (self.dear_share / 2.0).max(self.quiet_share * LEAST_DEAR);
        }
        if !self.founding {
            self.loan = 0.0;
        }
    }

    /// A sample has taken so much longer than it was paid for, and what is dear in it.
    pub(super) fn correct(&mut self, cost: f64, dear: f64) {
        self.dear -= dear;
        if self.founding {
            self.loan -= cost;
        } else {
            self.credit -= cost;
        }
    }

    /// A sample changed nothing: the next ones can wait longer. If it was urgent, the next are less so than they may
    /// look.
    pub(super) fn confirm(&mut self, urgent: bool) {
        self.share = (self.share / 2.0).max(self.quiet_share);
        if urgent {
            self.urgent_share = (self.urgent_share / 2.0).max(self.quiet_share);
        }
    }

    /// The data has changed: look closely again.
    pub(super) fn surprise(&mut self, config: &AdaptiveConfig) {
        self.share = config.sampling_share;
        self.urgent_share = URGENT_SHARE;
        self.data_changed();
    }

    /// The data is other data, whether or not something else is best now: what is dear may be worth it.
    pub(super) fn data_changed(&mut self) {
        self.dear_share = self.quiet_share;
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

    fn founded() -> Budget {
        let mut budget = Budget::new(&CONFIG);
        budget.is_founded();
        budget
    }

    #[test]
    fn what_a_new_stream_spends_is_not_paid_back() {
        let mut budget = Budget::new(&CONFIG);
        budget.earn(100.0, true);
        assert_eq!(budget.affordable(true), 4.0);
        budget.spend(1.0, 0.0);
        assert_eq!(budget.affordable(true), 3.0);
        budget.is_founded();
        assert_eq!(budget.affordable(false), 1.0);
    }

    #[test]
    fn many_streams_share_what_all_pay_in_and_few_need_not() {
        let mut joint = Joint::new(&CONFIG);
        assert_eq!((joint.affordable(16), joint.affordable(17)), (f64::INFINITY, 0.0));
        joint.spend(100.0, 16);
        joint.earn(1000.0);
        // Twice the share of one.
        assert_eq!(joint.affordable(17), 20.0);
        joint.spend(15.0, 17);
        joint.spend(10.0, 17); // it has taken longer
        assert_eq!(joint.affordable(17), -5.0);
        // A week of few transfers does not pay for a burst of new streams.
        joint.earn(6e14);
        assert_eq!(joint.affordable(1000), 1e6);
    }

    #[test]
    fn samples_cost_the_share_and_no_more() {
        let mut budget = founded();
        let (mut spent, mut samples) = (0.0, 0);
        for _ in 0..10_000 {
            budget.earn(100.0, false);
            if budget.affordable(false) >= 7.0 {
                budget.spend(7.0, 0.0);
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
        let mut budget = founded();
        budget.earn(100.0, true);
        assert_eq!(budget.affordable(true), 3.0);
        // What could not be spent on one transfer can be on the next.
        budget.earn(100.0, true);
        assert_eq!(budget.affordable(true), 6.0);
        budget.spend(6.0, 0.0);
        for _ in 0..4 {
            budget.earn(100.0, false);
        }
        assert!((budget.affordable(false) - 4.0 * 0.2).abs() < 1e-9, "{budget:?}");
        // Urgent again while in debt: there is less to be had.
        budget.spend(3.0, 0.0);
        budget.earn(100.0, true);
        assert_eq!(budget.affordable(true), 1.0);
    }

    #[test]
    fn debts_leave_something_to_look_with() {
        let mut budget = founded();
        budget.earn(1000.0, true);
        budget.spend(50.0, 0.0);
        assert_eq!(budget.affordable(false), 0.0);
        // 50 are owed, of which the share has paid 10 before and pays 10 for each of these; 2 of 1000 are there meanwhile.
        budget.earn(1000.0, false);
        assert_eq!(budget.affordable(false), 2.0);
        budget.earn(1000.0, false);
        assert_eq!(budget.affordable(false), 4.0);
        budget.spend(4.0, 0.0);
        assert_eq!(budget.affordable(false), 0.0);
        // A short transfer may spend little of what long ones have saved, and leaves them the rest.
        budget.earn(1000.0, false);
        budget.earn(1.0, false);
        assert!((budget.affordable(false) - 64.0 * 0.01).abs() < 1e-9, "{budget:?}");
        budget.earn(1000.0, false);
        assert!((budget.affordable(false) - 4.002).abs() < 1e-9, "{budget:?}");
    }

    #[test]
    fn dear_estimators_have_an_account_of_their_own() {
        let mut budget = founded();
        let mut saved = |dear| {
            budget.spend(1000.0, dear);
            (0..50).for_each(|_| budget.earn(100.0, false));
            budget.affordable_dear()
        };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a}, not {b}");
        // 0.2 % of 5,000, and half as much each time, but no less than a quarter; nothing that is not dear counts.
        near(saved(0.0), 10.0);
        near(saved(10.0), 5.0);
        near(saved(0.0), 10.0);
        for expected in [2.5, 2.5] {
            let all = saved(0.0);
            near(saved(all), expected);
        }
    }

    #[test]
    fn what_is_dear_is_looked_at_again_where_the_data_changed() {
        let mut budget = founded();
        (0..1000).for_each(|_| budget.earn(100.0, false));
        // What is saved up is bounded.
        assert!((budget.affordable_dear() - 256.0 * 0.2).abs() < 1e-9, "{budget:?}");
        budget.spend(0.0, budget.affordable_dear());
        budget.earn(100.0, false);
        assert!((budget.affordable_dear() - 0.1).abs() < 1e-9, "{budget:?}");
        budget.data_changed();
        budget.earn(100.0, false);
        assert!((budget.affordable_dear() - 0.3).abs() < 1e-9, "{budget:?}");
        // A short transfer is not looked at for as long as a long one.
        (0..1000).for_each(|_| budget.earn(100.0, false));
        budget.earn(1.0, false);
        assert!((budget.affordable_dear() - 256.0 * 0.002).abs() < 1e-9, "{budget:?}");
    }

    #[test]
    fn what_is_there_whatever_is_owed_leaves_debts_to_be_paid_back() {
        let mut budget = founded();
        budget.earn(1000.0, true);
        budget.spend(30.0, 0.0);
        assert_eq!(budget.credit, -20.0);
        for credit in [-10.0, 0.0] {
            budget.earn(1000.0, false);
            budget.spend(2.0, 0.0);
            assert_eq!(budget.credit, credit);
        }
        // Who has saved enough pays as always.
        budget.earn(1000.0, false);
        budget.spend(2.0, 0.0);
        assert_eq!(budget.credit, 8.0);
    }

    #[test]
    fn confirmation_lowers_the_shares_to_a_floor_and_surprise_restores_them() {
        let mut budget = Budget::new(&CONFIG);
        for expected in [0.005, 0.0025, 0.002, 0.002] {
            budget.confirm(true);
            assert_eq!(budget.share, expected);
        }
        assert_eq!(budget.urgent_share, CONFIG.quiet_share);
        budget.surprise(&CONFIG);
        assert_eq!((budget.share, budget.urgent_share), (0.01, 0.03));
    }

    /// Makes a trial if it is allowed.
    fn tries(budget: &mut Budget, loss: f64, is_late: bool) -> bool {
        let allowed = budget.allows_trials(1.0, loss, is_late);
        assert!(!budget.allows_trials(2.0, loss, is_late) || allowed);
        if allowed {
            budget.pay_trial(loss, is_late);
        }
        allowed
    }

    #[test]
    fn trials_lose_their_share_and_no_more() {
        let mut budget = Budget::new(&CONFIG);
        let mut lost = |is_late| {
            let allowed = |_: &u32| {
                budget.earn(100.0, false);
                tries(&mut budget, 10.0, is_late)
            };
            (0..1000).filter(allowed).count()
        };
        // 1 % of 100,000, and 0.1 % on what has been tried before, of twice as much by then.
        assert!((99..=100).contains(&lost(false)));
        assert!((19..=20).contains(&lost(true)));
    }

    #[test]
    fn trials_of_what_has_been_tried_are_paid_for_by_themselves() {
        let mut budget = Budget::new(&CONFIG);
        budget.earn(1000.0, false);
        assert!(!tries(&mut budget, 1.1, true) && tries(&mut budget, 1.0, true));
        assert!(!tries(&mut budget, 0.1, true) && tries(&mut budget, 10.0, false));
        // What is saved up is bounded: four transfers' time.
        (0..1_000_000).for_each(|_| budget.earn(1000.0, false));
        assert!(!tries(&mut budget, 4001.0, true) && !tries(&mut budget, 4001.0, false));
        assert!(!budget.allows_trials(2.0, 2001.0, true) && budget.allows_trials(2.0, 2000.0, true));
        assert!(tries(&mut budget, 4000.0, true) && tries(&mut budget, 4000.0, false));
    }

    #[test]
    fn what_is_saved_up_is_bounded() {
        let mut budget = Budget::new(&CONFIG);
        for _ in 0..1000 {
            budget.earn(100.0, false);
        }
        assert_eq!(budget.affordable(false), 64.0);
        // A short transfer after long ones may spend little, and leaves the others what they have saved.
        budget.earn(1.0, false);
        assert_eq!(budget.affordable(false), 0.64);
        budget.earn(100.0, false);
        assert!(budget.affordable(false) > 60.0, "{budget:?}");
    }

    #[test]
    fn what_long_transfers_have_saved_for_trials_is_not_for_short_ones_to_lose() {
        let mut budget = founded();
        (0..4000).for_each(|_| budget.earn(1e9, false));
        assert!(budget.allows_trials(1.0, 4e9, true));
        // Of the usual billion, 31/32 are left with each: a millionth after 436.
        (0..436).for_each(|_| budget.earn(1.0, false));
        assert!(!budget.allows_trials(1.0, 4500.0, true) && budget.allows_trials(1.0, 3500.0, true));
    }

    #[test]
    fn glances_have_an_account_of_their_own() {
        let mut budget = founded();
        (0..1000).for_each(|_| budget.earn(1000.0, false));
        // The quiet share of 64 transfers.
        assert!((budget.affordable_glance() - 128.0).abs() < 1e-9);
        let others = budget.affordable(false);
        budget.spend_glance(128.0);
        budget.earn(1000.0, false);
        assert!((budget.affordable_glance() - 2.0).abs() < 1e-9);
        assert!(budget.affordable(false) >= others);
        // Nor may a short one take what long ones have saved.
        (0..64).for_each(|_| budget.earn(1000.0, false));
        budget.earn(1.0, false);
        assert!(budget.affordable_glance() <= 0.128);
    }
}
