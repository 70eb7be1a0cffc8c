//! What all runs came to, as text, JSON, CSV and pictures.

mod csv;
mod json;
mod matrix;
mod notes;
mod pictures;
mod summary;
mod tables;

use std::io::{self, Write};
use std::path::Path;

use super::fabric::{Distance, System};
use super::runs::{Done, Plan, Scheme};
use crate::error::BenchError;
use matrix::{Matrix, Quantity};
use summary::Summary;

/// The results of a plan.
pub(super) struct Report {
    plan: Plan,
    done: Vec<Done>,
}

/// A figure with bars.
struct Figure {
    number: u32,
    title: &'static str,
    matrices: Vec<Matrix>,
}

impl Report {
    pub(super) fn new(plan: Plan, done: Vec<Done>) -> Self {
        Self { plan, done }
    }

    /// The system that figures are about.
    fn system(&self) -> System {
        self.plan.systems[0]
    }

    fn figures(&self) -> Vec<Figure> {
        let schemes = self.plan.schemes();
        let (codecs, adaptive) = schemes[1..].split_at(3);
        let matrix = |quantity, schemes: &[Scheme]| Matrix::new(quantity, &self.done, schemes, self.system());
        let moved = [Quantity::Payload, Quantity::Traffic, Quantity::Time];
        vec![
            Figure {
                number: 5,
                title: "traffic and execution time with one codec",
                matrices: moved.map(|quantity| matrix(quantity, codecs)).into(),
            },
            Figure {
                number: 6,
                title: "traffic and execution time with the adaptive scheme",
                matrices: moved.map(|quantity| matrix(quantity, adaptive)).into(),
            },
            Figure {
                number: 7,
                title: "energy of links and codecs",
                matrices: Distance::ALL
                    .map(|distance| matrix(Quantity::Energy(distance), &schemes[1..]))
                    .into(),
            },
        ]
    }

    pub(super) fn print(&self, json: bool) -> Result<(), BenchError> {
        let lines = if json { json::lines(self) } else { self.text() };
        let mut out = io::stdout().lock();
        lines.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(BenchError::Stdout)
    }

    /// Writes one CSV file for each table and figure into `folder`.
    pub(super) fn write_csv(&self, folder: &Path) -> Result<(), BenchError> {
        csv::write(self, folder)
    }

    /// Draws each figure into `folder`, as SVG and as PNG.
    pub(super) fn draw(&self, folder: &Path) -> Result<(), BenchError> {
        pictures::draw(self, folder)
    }

    fn text(&self) -> Vec<String> {
        let mut lines = self.settings();
        lines.extend(tables::table_v(&self.done));
        lines.extend(tables::table_vi(&self.done));
        lines.extend(tables::figure_1(&self.done));
        for Figure { number, title, matrices } in self.figures() {
            lines.push(format!("\nFigure {number}: {title}"));
            let mut parts = matrices.iter().map(Matrix::lines);
            lines.extend(parts.next().unwrap_or_default());
            parts.for_each(|part| lines.extend([String::new()].into_iter().chain(part)));
        }
        lines.extend(self.sweep());
        lines.extend(Summary::new(self).lines());
        lines.extend(notes::lines(&self.done));
        lines
    }

    /// What the model assumes.
    fn settings(&self) -> Vec<String> {
        let Plan { phases, share, as_paper, systems, .. } = &self.plan;
        let outstanding: Vec<String> = systems.iter().map(|system| system.outstanding.to_string()).collect();
        let unmatched = if *as_paper { 32 } else { 35 };
        vec![
            "IPDPS 2019 in a model: 4 GPUs and a CPU on one bus, 20 bytes per cycle at 1 GHz, whole cycles, round robin, buffers of 4 KB".into(),
            format!(
                "{} requests outstanding per GPU, each sent as soon as that allows (no computation in between); memory answers after {} cycles",
                outstanding.join(" "),
                self.system().memory_cycles
            ),
            format!(
                "a compressor and a decompressor per GPU, one line at a time; phases of {} samples and {} transfers, {} votes; FPC counts {unmatched} bits for a word that matches nothing",
                phases.sampling, phases.running, phases.votes
            ),
            format!("generated: {} of the paper's sizes, pages of 4 KB round robin over the GPUs", share.fraction()),
        ]
    }

    /// Time by the number of outstanding requests, where there are several.
    fn sweep(&self) -> Vec<String> {
        if self.plan.systems.len() < 2 {
            return Vec::new();
        }
        let schemes = self.plan.schemes();
        let heading: String = schemes.iter().map(|scheme| format!(" {:>8}", scheme.label())).collect();
        let mut lines = vec![
            format!(
                "\nMean execution time by outstanding requests / without compression, {} outstanding",
                self.system().outstanding
            ),
            format!("{:>11}{heading}", "outstanding"),
        ];
        for &system in &self.plan.systems {
            let mean = |&scheme: &Scheme| {
                let share = |done: &Done| {
                    let base = done.outcome(Scheme::None, self.system()).cycles;
                    done.outcome(scheme, system).cycles as f64 / base as f64
                };
                self.done.iter().map(share).sum::<f64>() / self.done.len().max(1) as f64
            };
            let values: String = schemes.iter().map(|scheme| format!(" {:>8.3}", mean(scheme))).collect();
            lines.push(format!("{:>11}{values}", system.outstanding));
        }
        lines
    }
}
