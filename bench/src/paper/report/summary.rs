//! The averages of the paper's abstract beside ours.

use mgcomp_selector::Lambda;

use super::super::fabric::Distance;
use super::super::published::{ENERGY_PERCENT, PERFORMANCE_PERCENT, TRAFFIC_PERCENT};
use super::super::runs::Scheme;
use super::{Matrix, Quantity, Report};

/// Means over all workloads of a run, relative to no compression.
pub(super) struct Summary {
    pub(super) lambda: Lambda,
    pub(super) workloads: usize,
    pub(super) payload: f64,
    pub(super) traffic: f64,
    pub(super) time: f64,
    /// By distance.
    pub(super) energy: [f64; 3],
}

impl Summary {
    /// At λ = 6 if that was run, else at the smallest.
    pub(super) fn new(report: &Report) -> Self {
        let lambdas = &report.plan.lambdas;
        let lambda = *lambdas.iter().find(|&&lambda| lambda == Lambda::PAPER).unwrap_or(&lambdas[0]);
        let scheme = [Scheme::Adaptive(lambda)];
        let mean = |quantity| Matrix::new(quantity, &report.done, &scheme, report.system()).means()[0];
        Self {
            lambda,
            workloads: report.done.len(),
            payload: mean(Quantity::Payload),
            traffic: mean(Quantity::Traffic),
            time: mean(Quantity::Time),
            energy: Distance::ALL.map(|distance| mean(Quantity::Energy(distance))),
        }
    }

    /// How much more is done in a time, in percent.
    pub(super) fn performance_percent(&self) -> f64 {
        100.0 * (1.0 / self.time - 1.0)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let less = |share: f64| format!("{:+.0} %", 100.0 * (share - 1.0));
        let [inter_die, board, node] = self.energy.map(less);
        vec![
            format!("\nMeans over {} at λ = {}, beside the paper's at λ = 6", self.workloads, self.lambda),
            format!(
                "traffic      {} payloads, {} with headers; paper {TRAFFIC_PERCENT:+} %",
                less(self.payload),
                less(self.traffic)
            ),
            format!(
                "performance  {:+.0} % (time {}); paper {PERFORMANCE_PERCENT:+} %, in its text also +53 %",
                self.performance_percent(),
                less(self.time)
            ),
            format!(
                "energy       {inter_die} inter-die, {board} board, {node} node; paper {ENERGY_PERCENT:+} % inter-die"
            ),
        ]
    }
}
