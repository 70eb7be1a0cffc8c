//! Rows as a table or as JSON, one object a line.

use std::io::{self, Write};

use mgcomp_transport::simulated::SimulatedLink;
use serde::Serialize;

use super::measure::Times;
use super::published::{DIFFERENCES, Kind, OF_IDEAL_AT_90};
use super::rows::Rows;
use crate::error::BenchError;
use crate::machine::Machine;

/// Space saved, by how many rows the invariant bits were found from.
#[derive(Debug, Serialize)]
pub(super) struct Space {
    pub(super) bench: &'static str,
    pub(super) data: String,
    pub(super) rows: u64,
    pub(super) row_bytes: usize,
    pub(super) samples: Vec<Sampled>,
    /// Ratio from a tenth of the rows, or the sample nearest to it, divided by that from all.
    pub(super) tenth_of_all: Option<f64>,
    pub(super) paper_saved_percent: Option<f64>,
    pub(super) paper_tenth_of_all: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sampled {
    pub(super) percent: f64,
    pub(super) rows: u64,
    pub(super) saved_percent: f64,
    pub(super) ratio: f64,
}

/// A gather.
#[derive(Debug, Serialize)]
pub(super) struct Gather {
    pub(super) bench: &'static str,
    /// That it is simulated, and how fast.
    pub(super) link: String,
    pub(super) data: String,
    pub(super) row_bytes: usize,
    pub(super) threads: usize,
    /// Whether the system gave large pages for all rows, plain and packed.
    pub(super) large_pages: bool,
    pub(super) saved_percent: f64,
    pub(super) link_bytes_percent: f64,
    pub(super) plain_gbps: f64,
    pub(super) packed_gbps: f64,
    pub(super) speed_up: f64,
    pub(super) of_ideal: f64,
    pub(super) plain_local_gbps: f64,
    pub(super) packed_local_gbps: f64,
    pub(super) paper_speed_up: Option<f64>,
    pub(super) paper_of_ideal: Option<f64>,
}

impl Gather {
    pub(super) fn new(
        rows: &Rows,
        saved_percent: f64,
        threads: usize,
        large_pages: bool,
        times: &Times,
        link: &SimulatedLink,
    ) -> Self {
        let of_ideal = OF_IDEAL_AT_90.iter().find(|row| row.0 == rows.row_len).map(|row| row.1);
        Self {
            bench: "gather",
            link: link.to_string(),
            data: rows.name.clone(),
            row_bytes: rows.row_len,
            threads,
            large_pages,
            saved_percent,
            link_bytes_percent: 100.0 * times.link_bytes as f64 / times.plain_link_bytes as f64,
            plain_gbps: times.gbps(times.plain),
            packed_gbps: times.gbps(times.packed),
            speed_up: times.speed_up(),
            of_ideal: times.of_ideal(link),
            plain_local_gbps: times.gbps(times.plain_local),
            packed_local_gbps: times.gbps(times.packed_local),
            paper_speed_up: rows.kind.map(|kind| kind.published().speed_up),
            paper_of_ideal: of_ideal.filter(|_| rows.name == "90 % saved"),
        }
    }
}

/// Prints rows as they come.
pub(super) struct Printer {
    pub(super) json: bool,
}

impl Printer {
    pub(super) fn start(&self) -> Result<(), BenchError> {
        if self.json { Ok(()) } else { line(&Machine::detect().describe()) }
    }

    pub(super) fn space_head(&self, percents: &[f64]) -> Result<(), BenchError> {
        if self.json {
            return Ok(());
        }
        let percents: String =
            percents.iter().map(|percent| format!("{:>8}", format!("{percent} %"))).collect();
        line("\nspace saved in % of all rows, by the part of the rows that invariant bits are found from")?;
        line(&format!(
            "{:<24} {:>8} {:>8}{percents}   10 %/all  paper: saved  10 %/all",
            "data", "rows", "row/B"
        ))
    }

    pub(super) fn space(&self, space: &Space) -> Result<(), BenchError> {
        if self.json {
            return object(space);
        }
        let Space { data, rows, row_bytes, samples, tenth_of_all, .. } = space;
        let saved: String = samples.iter().map(|sample| format!("{:>8.2}", sample.saved_percent)).collect();
        let [tenth, paper_saved, paper_tenth] = [
            tenth_of_all.map(|part| format!("{part:.3}")),
            space.paper_saved_percent.map(|saved| format!("{saved:.1}")),
            space.paper_tenth_of_all.map(|part| format!("{part:.3}")),
        ]
        .map(|cell| cell.unwrap_or_else(|| "–".into()));
        line(&format!(
            "{data:<24} {rows:>8} {row_bytes:>8}{saved}   {tenth:>8}  {paper_saved:>12}  {paper_tenth:>8}"
        ))
    }

    pub(super) fn gather_head(
        &self,
        link: &SimulatedLink,
        batch: usize,
        bytes: usize,
    ) -> Result<(), BenchError> {
        if self.json {
            return Ok(());
        }
        line(&format!(
            "\ngathers of {batch} rows by chance from {:.0} MB over a {link}; GB/s of rows, best of rounds in turn",
            bytes as f64 / 1e6
        ))?;
        line(
            "`local` is the cores' part alone, without the link; `ideal` is the link alone, with nothing to decode;\n\
             plain and packed rows lie in large pages, where the system gives them",
        )?;
        line(&format!(
            "{:<24} {:>8} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>13} {:>15}",
            "data",
            "row/B",
            "threads",
            "saved/%",
            "link/%",
            "plain",
            "packed",
            "speed-up",
            "of ideal",
            "local: plain",
            "packed, paper"
        ))
    }

    pub(super) fn gather(&self, row: &Gather) -> Result<(), BenchError> {
        if self.json {
            return object(row);
        }
        let paper = match (row.paper_speed_up, row.paper_of_ideal) {
            (Some(speed_up), _) => format!("{speed_up} times"),
            (_, Some(of_ideal)) => format!("{of_ideal} of ideal"),
            _ => "–".into(),
        };
        line(&format!(
            "{:<24} {:>8} {:>7} {:>7.1} {:>7.1} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>13.2} {:>8.2}, {paper}",
            row.data,
            row.row_bytes,
            row.threads,
            row.saved_percent,
            row.link_bytes_percent,
            row.plain_gbps,
            row.packed_gbps,
            row.speed_up,
            row.of_ideal,
            row.plain_local_gbps,
            row.packed_local_gbps
        ))
    }

    pub(super) fn notes(&self, kinds: impl Iterator<Item = Kind>) -> Result<(), BenchError> {
        if self.json {
            return Ok(());
        }
        let kinds: Vec<&str> = kinds.map(|kind| kind.published().name).collect();
        if !kinds.is_empty() {
            line(&format!("\nin the paper the data is called, in this order: {}", kinds.join(", ")))?;
        }
        line("")?;
        DIFFERENCES.iter().try_for_each(|text| line(text))
    }
}

fn object(row: &impl Serialize) -> Result<(), BenchError> {
    line(&serde_json::to_string(row).map_err(|error| BenchError::Stdout(error.into()))?)
}

fn line(text: &str) -> Result<(), BenchError> {
    writeln!(io::stdout(), "{text}").map_err(BenchError::Stdout)
}
