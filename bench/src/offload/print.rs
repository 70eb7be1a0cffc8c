//! Tables, or JSON, one object a line.

use std::io::{self, Write};

use mgcomp_codecs::Algorithm;
use serde::Serialize;

use super::layout::Layout;
use super::maps::Map;
use super::notes::notes;
use super::published;
use super::ratio::{Row, sums};
use super::throughput::Throughput;
use crate::error::BenchError;
use crate::machine::{Machine, size};

pub(super) struct Printer<'a> {
    json: bool,
    label_width: usize,
    algorithms: &'a [Algorithm],
}

/// The keys of `--json` for ratios.
#[derive(Serialize)]
struct RatioJson<'a> {
    map: &'a str,
    generated: bool,
    element: &'static str,
    zero_share: f64,
    layout: &'static str,
    algorithm: &'static str,
    raw_bytes: u64,
    coded_bytes: u64,
}

/// The keys of `--json` for throughput. Rates in 10⁹ bytes per second, that of the link too.
#[derive(Serialize)]
struct ThroughputJson<'a> {
    map: &'a str,
    algorithm: &'static str,
    threads: usize,
    bytes: u64,
    simulated_link_gbytes: f64,
    ratio: f64,
    encode_gbps: f64,
    decode_gbps: f64,
    raw_offload_gbps: f64,
    offload_gbps: f64,
    most_offload_gbps: f64,
    prefetch_gbps: f64,
    most_prefetch_gbps: f64,
}

impl<'a> Printer<'a> {
    pub(super) fn start(json: bool, maps: &[Map], algorithms: &'a [Algorithm]) -> Result<Self, BenchError> {
        let widths = maps.iter().map(|map| map.label.chars().count());
        let label_width = widths.chain(["paper, mean".len()]).max().unwrap_or(0);
        let printer = Self { json, label_width, algorithms };
        if !json {
            line(&Machine::detect().describe())?;
            line("\nratios: frames with chunks of 4 KiB, every one decoded and compared\n")?;
            printer.heading()?;
        }
        Ok(printer)
    }

    /// The rows of one map.
    pub(super) fn ratios(&self, rows: &[Row<'_>]) -> Result<(), BenchError> {
        if self.json {
            return rows.iter().try_for_each(|row| object(&ratio_json(row)));
        }
        for layout in Layout::ALL {
            let of_layout = || rows.iter().filter(|row| row.layout == layout);
            let Some(first) = of_layout().next() else { continue };
            let figures: Vec<f64> = of_layout().map(Row::ratio).collect();
            let zeros = format!("{:.1} %", 100.0 * first.map.zero_share());
            self.row(&first.map.label, &zeros, layout, figures.into_iter().map(Some))?;
        }
        Ok(())
    }

    /// All maps together, the paper's figures, and why they differ.
    pub(super) fn sums(&self, rows: &[Row<'_>]) -> Result<(), BenchError> {
        if self.json || rows.is_empty() {
            return Ok(());
        }
        let sums = sums(rows, self.algorithms);
        let of = |layout| sums.iter().filter(move |sum| sum.layout == layout);
        let paper = |layout| self.algorithms.iter().map(move |a| published::mean_ratio(*a, layout));
        line("")?;
        for layout in Layout::ALL {
            self.row("all, mean", "", layout, of(layout).map(|sum| Some(sum.mean)))?;
            self.row("paper, mean", "", layout, paper(layout))?;
        }
        for layout in Layout::ALL {
            self.row("largest", "", layout, of(layout).map(|sum| Some(sum.most)))?;
        }
        let most = self.algorithms.iter().map(|algorithm| published::most_ratio(*algorithm));
        self.row("paper, largest", "", Layout::Nchw, most)?;
        line("")?;
        notes(rows, &sums).iter().try_for_each(|note| line(note))
    }

    pub(super) fn throughput(&self, of: &Throughput) -> Result<(), BenchError> {
        if self.json {
            return object(&throughput_json(of));
        }
        let Throughput { label, algorithm, threads, raw_bytes, ratio, link, encode, decode, raw, .. } = of;
        let bytes = size(*raw_bytes as usize);
        line(&format!(
            "\n{algorithm}, {bytes} of {label}, {threads} codec threads, over a simulated link of {link} GB/s each way:"
        ))?;
        line(&format!(
            "  ratio {ratio:.2}; the codec alone encodes {encode:.2} GB/s and decodes {decode:.2}"
        ))?;
        line(&format!("  raw offload          {raw:>7.2} GB/s (simulated)"))?;
        let reached = |name, rate: f64, most: f64| {
            let share = rate / most;
            line(&format!(
                "  compressed {name} {rate:>7.2} GB/s (simulated), {share:.2} of the most that can be had, {most:.2}"
            ))
        };
        reached("offload  ", of.offload, of.most_offload())?;
        reached("prefetch ", of.prefetch, of.most_prefetch())
    }

    fn heading(&self) -> Result<(), BenchError> {
        let names = self.algorithms.iter().map(|algorithm| format!("{:>9}", algorithm.name()));
        let width = self.label_width;
        line(&format!("{:<width$}  {:>7}  layout{}", "map", "zeros", names.collect::<String>()))
    }

    fn row(
        &self,
        label: &str,
        zeros: &str,
        layout: Layout,
        figures: impl Iterator<Item = Option<f64>>,
    ) -> Result<(), BenchError> {
        let shown = figures.map(|figure| figure.map_or(format!("{:>9}", "–"), |f| format!("{f:>9.3}")));
        let (width, layout) = (self.label_width, layout.name());
        line(&format!("{label:<width$}  {zeros:>7}  {layout:<6}{}", shown.collect::<String>()))
    }
}

fn ratio_json<'a>(row: &Row<'a>) -> RatioJson<'a> {
    RatioJson {
        map: &row.map.label,
        generated: row.map.is_generated,
        element: row.map.element.name(),
        zero_share: row.map.zero_share(),
        layout: row.layout.name(),
        algorithm: row.algorithm.name(),
        raw_bytes: row.raw_bytes,
        coded_bytes: row.coded_bytes,
    }
}

fn throughput_json(of: &Throughput) -> ThroughputJson<'_> {
    ThroughputJson {
        map: &of.label,
        algorithm: of.algorithm.name(),
        threads: of.threads,
        bytes: of.raw_bytes,
        simulated_link_gbytes: of.link,
        ratio: of.ratio,
        encode_gbps: of.encode,
        decode_gbps: of.decode,
        raw_offload_gbps: of.raw,
        offload_gbps: of.offload,
        most_offload_gbps: of.most_offload(),
        prefetch_gbps: of.prefetch,
        most_prefetch_gbps: of.most_prefetch(),
    }
}

fn object(row: &impl Serialize) -> Result<(), BenchError> {
    line(&serde_json::to_string(row).map_err(|error| BenchError::Stdout(error.into()))?)
}

fn line(text: &str) -> Result<(), BenchError> {
    writeln!(io::stdout(), "{text}").map_err(BenchError::Stdout)
}
