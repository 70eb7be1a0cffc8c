//! The averages of the paper's abstract beside ours.

use mgcomp_selector::Lambda;

use super::super::fabric::{Distance, System};
use super::super::published::{
    ENERGY_PERCENT, PERFORMANCE_IN_TEXT_PERCENT, PERFORMANCE_PERCENT, TRAFFIC_PERCENT,
};
use super::super::runs::Scheme;
use super::{Matrix, Quantity, Report};

/// Means over all workloads on a system, relative to no compression.
pub(super) struct Summary {
    pub(super) lambda: Lambda,
    pub(super) outstanding: u32,
    pub(super) workloads: usize,
    pub(super) payload: f64,
    pub(super) traffic: f64,
    pub(super) time: f64,
    /// By distance.
    pub(super) energy: [f64; 3],
    /// Whether the paper prints means of the same.
    has_published: bool,
}

impl Summary {
    /// One for each system, the figures' first.
    pub(super) fn all(report: &Report) -> Vec<Self> {
        report.plan.systems.iter().map(|&system| Self::new(report, system)).collect()
    }

    /// At λ = 6 if that was run, else at the smallest.
    pub(super) fn new(report: &Report, system: System) -> Self {
        let lambda = report.plan.central_lambda();
        let scheme = [Scheme::Adaptive(lambda)];
        let mean = |quantity| Matrix::new(quantity, &report.done, &scheme, system).means()[0];
        Self {
            lambda,
            outstanding: system.outstanding,
            workloads: report.done.len(),
            payload: mean(Quantity::Payload),
            traffic: mean(Quantity::Traffic),
            time: mean(Quantity::Time),
            energy: Distance::ALL.map(|distance| mean(Quantity::Energy(distance))),
            has_published: report.has_published_means(),
        }
    }

    /// How much more is done in a time, in percent.
    pub(super) fn performance_percent(&self) -> f64 {
        100.0 * (1.0 / self.time - 1.0)
    }

    /// Less traffic, more performance and less energy between dies in percent, as the paper has them; none where its means
    /// are of something else.
    pub(super) fn published(&self) -> Option<[f64; 3]> {
        self.has_published.then_some([TRAFFIC_PERCENT, PERFORMANCE_PERCENT, ENERGY_PERCENT])
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let less = |share: f64| format!("{:+.0} %", 100.0 * (share - 1.0));
        let [inter_die, board, node] = self.energy.map(less);
        let beside = match self.published() {
            Some(_) => "beside the paper's at λ = 6",
            None => "without the paper's, which are over its seven benchmarks at λ = 6",
        };
        let [traffic, performance, energy] = self.published().map_or([const { String::new() }; 3], |paper| {
            let [traffic, performance, energy] = paper.map(|percent| format!("; paper {percent:+} %"));
            let in_text = format!(", in its text also {PERFORMANCE_IN_TEXT_PERCENT:+} %");
            [traffic, performance + &in_text, energy + " inter-die"]
        });
        vec![
            format!(
                "\nMeans over {} at λ = {}, {} requests outstanding per GPU, {beside}",
                self.workloads, self.lambda, self.outstanding
            ),
            format!(
                "traffic      {} payloads, {} with headers{traffic}",
                less(self.payload),
                less(self.traffic)
            ),
            format!(
                "performance  {:+.0} % (time {}){performance}",
                self.performance_percent(),
                less(self.time)
            ),
            format!("energy       {inter_die} inter-die, {board} board, {node} node{energy}"),
        ]
    }
}
