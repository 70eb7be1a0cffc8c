//! What the demo prints: a table, or a JSON object a line.

use std::io::{self, Write};

use mgcomp_proto::v1::AlgorithmTraffic;
use mgcomp_transport::link::Shaping;
use serde_json::json;

use super::Args;
use super::dataset::Dataset;
use super::measure::{Carried, Row, by_number};
use crate::error::CliError;
use crate::show::{self, OFF};

/// Prints rows as they come.
pub(super) struct Table<'a> {
    args: &'a Args,
    shaping: Shaping,
    device: Option<&'a str>,
    name_width: usize,
    has_head: bool,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        args: &'a Args,
        shaping: Shaping,
        device: Option<&'a str>,
        datasets: &[Dataset],
    ) -> Self {
        let name_width = datasets.iter().map(|set| set.name.len()).max().unwrap_or(0).max("data set".len());
        Self { args, shaping, device, name_width, has_head: false }
    }

    pub(super) fn print(&mut self, row: &Row) -> Result<(), CliError> {
        if self.args.json {
            return print(&json_line(row));
        }
        if !std::mem::replace(&mut self.has_head, true) {
            self.head(row).iter().try_for_each(|line| print(line))?;
        }
        print(&text_line(row, self.name_width))?;
        row.decisions.iter().try_for_each(|(line, _)| print(&format!("  {line}")))
    }

    /// Prints what all rows come to.
    pub(super) fn finish(&mut self, rows: &[Row]) -> Result<(), CliError> {
        if self.args.json || rows.is_empty() {
            return Ok(());
        }
        let sum = |field: fn(&Row) -> f64| rows.iter().map(field).sum::<f64>();
        let (raw_ms, compressed_ms) = (sum(|row| row.raw_ms), sum(|row| row.compressed_ms));
        let equal = rows.iter().all(|row| row.equal);
        print("")?;
        print(&format!(
            "all together: {raw_ms:.1} ms raw, {compressed_ms:.1} ms compressed, {:.2} times as fast",
            raw_ms / compressed_ms
        ))?;
        print(if equal { "every byte arrived equal" } else { "NOT every byte arrived equal" })
    }

    /// What goes before the first row.
    fn head(&self, row: &Row) -> Vec<String> {
        let Self { args, shaping, name_width, .. } = *self;
        let device = self.device.map(|name| format!(", memory of {name}")).unwrap_or_default();
        let link = if args.tcp { "processes over TCP" } else { "threads over loopback" };
        vec![
            format!(
                "{} ranks ({link}{device}), each sends at {} Gb/s, {} µs latency; {}",
                args.ranks,
                shaping.rate_gbps(),
                shaping.latency().as_micros(),
                choice(args, &row.mode)
            ),
            "each rank reads the next rank's tensor and writes its own to the rank before".to_owned(),
            String::new(),
            format!(
                "{:<name_width$} {:>9} {:>9} {:>13} {:>8} {:>8} {:>6}  carried by (share of raw bytes)",
                "data set", "KiB", "raw/ms", "compressed/ms", "speed-up", "traffic", "equal"
            ),
        ]
    }
}

/// How codecs are chosen.
fn choice(args: &Args, mode: &str) -> String {
    if mode == OFF {
        return "compression is switched off".to_owned();
    }
    // What the policy goes by if nobody says otherwise is in its own documentation.
    let lambda = args.lambda.map(|lambda| format!(", λ = {lambda} Gb/s")).unwrap_or_default();
    format!("policy {}{lambda}", args.policy)
}

fn text_line(row: &Row, name_width: usize) -> String {
    let raw_bytes = row.algorithms.values().map(|carried| carried.raw_bytes).sum::<u64>().max(1);
    let shares: Vec<String> = by_number(&row.algorithms)
        .map(|(name, carried)| format!("{name} {:.0} %", 100.0 * carried.raw_bytes as f64 / raw_bytes as f64))
        .collect();
    format!(
        "{:<name_width$} {:>9.1} {:>9.2} {:>13.2} {:>8.2} {:>8.3} {:>6}  {}",
        row.dataset,
        row.bytes as f64 / 1024.0,
        row.raw_ms,
        row.compressed_ms,
        row.speedup(),
        row.traffic,
        if row.equal { "yes" } else { "NO" },
        shares.join(", ")
    )
}

fn json_line(row: &Row) -> String {
    let algorithms: Vec<AlgorithmTraffic> = by_number(&row.algorithms)
        .map(|(algorithm, &Carried { transfers, raw_bytes, coded_bytes })| {
            let algorithm = algorithm.name().to_owned();
            AlgorithmTraffic { algorithm, transfers, raw_bytes, coded_bytes }
        })
        .collect();
    let Row { dataset, mode, raw_ms, compressed_ms, traffic, equal, .. } = row;
    let mut object = json!({
        "dataset": dataset, "mode": mode, "raw_ms": raw_ms, "compressed_ms": compressed_ms, "speedup": row.speedup(),
        "traffic": traffic, "equal": equal, "algorithms": show::algorithms(&algorithms),
    });
    if !row.decisions.is_empty() {
        object["decisions"] = row.decisions.iter().map(|(_, object)| object.clone()).collect();
    }
    object.to_string()
}

fn print(line: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|source| CliError::Write { name: "standard output".into(), source })
}
