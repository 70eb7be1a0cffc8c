//! What the paper prints that may stand beside our figures.

use mgcomp_selector::{Lambda, PaperConfig};

use super::super::fabric::Distance;
use super::super::generate::Bench;
use super::super::published::{
    ENERGY_PERCENT, PERFORMANCE_IN_TEXT_PERCENT, PERFORMANCE_PERCENT, TRAFFIC_PERCENT, share, time,
};
use super::{Quantity, Report};

impl Report {
    /// Whether the paper's means are of what was run: its seven benchmarks, each generated once, λ = 6 and phases of its lengths. Nothing
    /// tells of a trace what it is of.
    pub(super) fn has_published_means(&self) -> bool {
        let times = |bench| self.done.iter().filter(|one| one.bench == Some(bench) && !one.is_trace).count();
        self.done.len() == Bench::ALL.len()
            && Bench::ALL.into_iter().all(|bench| times(bench) == 1)
            && self.plan.lambdas.contains(&Lambda::PAPER)
            && self.plan.phases == PaperConfig::default()
    }

    /// The paper's means of a quantity of a figure and their names; none where they are of something else.
    pub(super) fn levels(&self, figure: u32, quantity: Quantity) -> Vec<(String, f64)> {
        if !self.has_published_means() {
            return Vec::new();
        }
        let mean = |percent: f64| format!("paper's mean at λ = {}, {percent:+} %", Lambda::PAPER);
        match (figure, quantity) {
            (6, Quantity::Payload | Quantity::Traffic) => {
                vec![(mean(TRAFFIC_PERCENT), share(TRAFFIC_PERCENT))]
            }
            (6, Quantity::Time) => [PERFORMANCE_PERCENT, PERFORMANCE_IN_TEXT_PERCENT]
                .map(|percent| (format!("{} performance", mean(percent)), time(percent)))
                .into(),
            (7, Quantity::Energy(Distance::InterDie)) => vec![(mean(ENERGY_PERCENT), share(ENERGY_PERCENT))],
            _ => Vec::new(),
        }
    }
}

/// Why nothing stands beside a quantity of a figure, whatever was run.
pub(super) const fn nothing_published(figure: u32, quantity: Quantity) -> Option<&'static str> {
    match (figure, quantity) {
        (5, _) => Some("nothing beside: the paper draws its Figure 5 without numbers"),
        (7, Quantity::Energy(Distance::Board | Distance::Node)) => {
            Some("nothing beside: the paper's Figure 7 is of links between dies")
        }
        _ => None,
    }
}
