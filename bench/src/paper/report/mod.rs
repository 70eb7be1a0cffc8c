//! What all runs came to, as text, JSON, CSV and pictures.

mod beside;
mod csv;
mod json;
mod matrix;
mod names;
mod notes;
mod pictures;
mod summary;
mod tables;

use std::io::{self, Write};
use std::path::Path;

use super::fabric::{Distance, System};
use super::runs::{Done, Plan, Scheme};
use crate::error::BenchError;
pub(crate) use csv::quoted;
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
    /// `done` is what came of the plan; traces have their paths for names.
    pub(super) fn new(plan: Plan, mut done: Vec<Done>) -> Self {
        names::tell_apart(&mut done);
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

    /// Writes one CSV file for each table and figure, and one of settings, into `folder`.
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
            let outstanding = self.system().outstanding;
            lines.push(format!("\nFigure {number}: {title}, {outstanding} requests outstanding per GPU"));
            for (place, matrix) in matrices.iter().enumerate() {
                lines.extend((place > 0).then(String::new));
                lines.extend(matrix.lines());
                let levels = self.levels(number, matrix.quantity);
                lines.extend(levels.iter().map(|(name, level)| format!("{name}: {level:.3}")));
                lines.extend(beside::nothing_published(number, matrix.quantity).map(str::to_owned));
            }
        }
        lines.extend(self.sweep().map_or(Vec::new(), |sweep| sweep.lines()));
        lines.extend(Summary::new(self, self.system()).lines());
        lines.extend(notes::lines(self));
        lines
    }

    /// What the model assumes.
    fn settings(&self) -> Vec<String> {
        let Plan { phases, as_paper, systems, .. } = &self.plan;
        let others: Vec<String> = systems[1..].iter().map(|system| system.outstanding.to_string()).collect();
        let others =
            if others.is_empty() { String::new() } else { format!(" (swept: {})", others.join(" ")) };
        let unmatched = if *as_paper { 32 } else { 35 };
        let mut lines = vec![
            "IPDPS 2019 in a model: 4 GPUs and a CPU on one bus, 20 bytes per cycle at 1 GHz, whole cycles, round robin, buffers of 4 KB".into(),
            format!(
                "{} requests outstanding per GPU{others}, each sent as soon as that allows (no computation in between); memory answers after {} cycles",
                self.system().outstanding,
                self.system().memory_cycles
            ),
            format!(
                "a compressor and a decompressor per GPU, one line at a time; phases of {} samples and {} transfers, {} votes; FPC counts {unmatched} bits for a word that matches nothing",
                phases.sampling, phases.running, phases.votes
            ),
        ];
        let pages = |sizes| format!("generated: {sizes}, pages of 4 KB round robin over the GPUs");
        lines.extend(self.sizes().map(pages));
        lines
    }

    /// The share of the paper's sizes that was asked for, if anything was generated.
    fn scale(&self) -> Option<f64> {
        let is_generated = self.done.iter().any(|done| !done.is_trace);
        is_generated.then(|| self.plan.share.fraction())
    }

    /// The same in words: small shares are more of some benchmarks.
    fn sizes(&self) -> Option<String> {
        let asked = self.plan.share;
        let benches = self.done.iter().filter(|done| !done.is_trace).filter_map(|done| done.bench);
        let has_more = benches.map(|bench| bench.share(asked)).any(|share| share != asked);
        let at_least = if has_more { "at least " } else { "" };
        self.scale().map(|scale| format!("{at_least}{scale} of the paper's sizes"))
    }

    /// Where payloads are from.
    fn sources(&self) -> String {
        let traces = match self.done.iter().filter(|done| done.is_trace).count() {
            0 => None,
            1 => Some("a trace".to_owned()),
            count => Some(format!("{count} traces")),
        };
        self.sizes().into_iter().chain(traces).collect::<Vec<_>>().join(" and ")
    }

    /// Mean time by the number of outstanding requests, where there are several.
    fn sweep(&self) -> Option<Sweep> {
        let mut systems = self.plan.systems.clone();
        if systems.len() < 2 {
            return None;
        }
        systems.sort_by_key(|system| system.outstanding);
        let base = |done: &Done| done.outcome(Scheme::None, self.system()).cycles as f64;
        let mean = |scheme, system| {
            let shares = self.done.iter().map(|done| done.outcome(scheme, system).cycles as f64 / base(done));
            shares.sum::<f64>() / self.done.len().max(1) as f64
        };
        let schemes = self.plan.swept();
        let row = |&system: &System| {
            (system.outstanding, schemes.iter().map(|&scheme| mean(scheme, system)).collect())
        };
        let rows = systems.iter().map(row).collect();
        Some(Sweep { base: self.system().outstanding, schemes, rows })
    }
}

/// Mean execution time by outstanding requests, relative to that without compression with `base` of them.
struct Sweep {
    base: u32,
    schemes: Vec<Scheme>,
    /// Outstanding requests, and the time under each scheme.
    rows: Vec<(u32, Vec<f64>)>,
}

impl Sweep {
    fn lines(&self) -> Vec<String> {
        let heading: String = self.schemes.iter().map(|scheme| format!(" {:>8}", scheme.label())).collect();
        let mut lines = vec![
            format!(
                "\nMean execution time by outstanding requests / without compression, {} outstanding",
                self.base
            ),
            format!("{:>11}{heading}", "outstanding"),
        ];
        lines.extend(self.rows.iter().map(|(outstanding, values)| {
            let values: String = values.iter().map(|value| format!(" {value:>8.3}")).collect();
            format!("{outstanding:>11}{values}")
        }));
        lines
    }
}
