//! What the model says, and what was measured beside it, as text, JSON and CSV.

mod csv;
mod json;
mod text;

use std::io::{self, Write as _};
use std::path::Path;

use super::compared::Compared;
use super::model::{Link, Model, Overlap};
use crate::error::BenchError;

/// A GPU's codec on one kind of data.
pub(super) struct Case {
    pub(super) model: Model,
    /// Copies with that algorithm, on any data.
    pub(super) copies: Vec<Compared>,
}

/// All that is asked of the model.
pub(super) struct Report {
    pub(super) cases: Vec<Case>,
    /// Sizes whose speed-up is shown.
    pub(super) bytes: Vec<usize>,
}

impl Report {
    pub(super) fn print(&self, json: bool) -> Result<(), BenchError> {
        let lines = if json { json::lines(self) } else { text::lines(self) };
        let mut out = io::stdout().lock();
        lines.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(BenchError::Stdout)
    }

    /// Writes `break_even.csv`, `speed_up.csv` and `copies.csv` into `folder`.
    pub(super) fn write_csv(&self, folder: &Path) -> Result<(), BenchError> {
        csv::write(self, folder)
    }
}

impl Case {
    /// By [`Overlap::BOTH`].
    fn break_even(&self, link: Link) -> [Option<f64>; 2] {
        Overlap::BOTH.map(|overlap| self.model.break_even(self.model.wire(link), overlap))
    }

    /// By [`Overlap::BOTH`].
    fn speed_up(&self, link: Link, bytes: usize) -> [f64; 2] {
        Overlap::BOTH.map(|overlap| self.model.speed_up(self.model.wire(link), bytes as f64, overlap))
    }
}
