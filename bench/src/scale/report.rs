//! What the model says, as text, JSON and CSV.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::collective::{Collective, Fabric};
use super::time::{Case, Model, PAYS, Sending};
use crate::error::BenchError;
use crate::machine::size;

const HEADING: &str =
    "a MODEL of collectives on many GPUs: nothing here is measured but the codec's rates, where said so";
/// In turn and overlapped.
const COMPRESSED: [Sending; 2] = [Sending::InTurn, Sending::Overlapped];

/// All that was asked for.
pub(super) struct Report {
    pub(super) model: Model,
    pub(super) fabrics: [Fabric; 3],
    pub(super) collectives: [Collective; 3],
    pub(super) gpus: Vec<u64>,
    pub(super) bytes: Vec<usize>,
    pub(super) link_gbps: Vec<f64>,
}

impl Report {
    pub(super) fn print(&self, json: bool) -> Result<(), BenchError> {
        let lines = if json { self.json() } else { self.text() };
        let mut out = io::stdout().lock();
        lines.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(BenchError::Stdout)
    }

    /// Every combination but that of link rates.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &collective in &self.collectives {
            for &bytes in &self.bytes {
                for &gpus in &self.gpus {
                    let case = |&fabric: &Fabric| Case { collective, fabric, gpus, bytes };
                    cases.extend(self.fabrics.iter().map(case));
                }
            }
        }
        cases
    }

    fn text(&self) -> Vec<String> {
        let Model { rates, latency_s, codec_s, segment_bytes } = &self.model;
        let tree = self.tree().map_or(String::new(), |(leaf, taper)| {
            format!("; fat tree with {leaf} GPUs per leaf, links above {taper} times slower")
        });
        let mut lines = vec![
            HEADING.to_owned(),
            format!(
                "ratio {}, encode {} GB/s, decode {} GB/s per GPU: {}",
                rates.ratio, rates.encode_gbytes, rates.decode_gbytes, rates.source
            ),
            format!(
                "{} µs latency per link, {} µs per codec call, segments of {}{tree}",
                shown(Some(latency_s * 1e6)),
                shown(Some(codec_s * 1e6)),
                size(*segment_bytes as usize)
            ),
            format!(
                "speed-up over raw, codec and wire in turn / overlapped; compression pays where that is {PAYS} or more;\n\
                 break-even: the fastest link with which it pays; needed: the codec rate, encoder and decoder alike, with which\n\
                 it pays on the fastest link shown, overlapped"
            ),
        ];
        for group in self.cases().chunks(self.fabrics.len() * self.gpus.len()) {
            lines.extend(self.group(group));
        }
        lines
    }

    /// GPUs per leaf, and how much slower the links above are.
    fn tree(&self) -> Option<(u64, f64)> {
        self.fabrics.iter().find_map(|fabric| match *fabric {
            Fabric::FatTree { leaf, taper } => Some((leaf, taper)),
            Fabric::Ring | Fabric::Switch => None,
        })
    }

    /// The table of one collective and one size.
    fn group(&self, cases: &[Case]) -> Vec<String> {
        let Some(first) = cases.first() else { return Vec::new() };
        let rates: String = self.link_gbps.iter().map(|gbps| format!(" {gbps:>11}")).collect();
        let mut lines = vec![
            format!("\n{}, {} per GPU; link rate in Gb/s:", first.collective.name(), size(first.bytes)),
            format!("{:>7} {:<8}{rates}  {:>19}  {:>11}", "GPUs", "fabric", "break-even Gb/s", "needed GB/s"),
        ];
        for case in cases {
            let gains: String = self
                .link_gbps
                .iter()
                .map(|&gbps| {
                    let [turn, overlap] = COMPRESSED.map(|sending| self.model.speed_up(case, gbps, sending));
                    format!(" {turn:>5.2}/{overlap:<5.2}")
                })
                .collect();
            let [turn, overlap] = COMPRESSED.map(|sending| shown(self.model.break_even_gbps(case, sending)));
            let needed = shown(self.needed(case));
            let name = case.fabric.name();
            lines.push(format!("{:>7} {name:<8}{gains}  {turn:>9}/{overlap:<9}  {needed:>11}", case.gpus));
        }
        lines
    }

    fn needed(&self, case: &Case) -> Option<f64> {
        let fastest = self.link_gbps.iter().copied().fold(0.0, f64::max);
        self.model.needed_gbytes(case, fastest, Sending::Overlapped)
    }

    fn json(&self) -> Vec<String> {
        let rates = &self.model.rates;
        let (leaf, taper) = self.tree().unzip();
        let mut rows = vec![json!({
            "row": "model", "ratio": rates.ratio, "encode_gbytes": rates.encode_gbytes,
            "decode_gbytes": rates.decode_gbytes, "source": rates.source, "latency_us": self.model.latency_s * 1e6,
            "codec_us": self.model.codec_s * 1e6, "segment_bytes": self.model.segment_bytes,
            "leaf_gpus": leaf, "taper": taper, "pays_from_speed_up": PAYS,
        })];
        for case in self.cases() {
            let head = |row: &str| {
                json!({
                    "row": row, "collective": case.collective.name(), "fabric": case.fabric.name(),
                    "gpus": case.gpus, "bytes": case.bytes,
                })
            };
            for &gbps in &self.link_gbps {
                let [raw, turn, overlap] = [Sending::Raw, Sending::InTurn, Sending::Overlapped]
                    .map(|sending| 1e3 * self.model.seconds(&case, gbps, sending));
                let mut row = head("time");
                row["link_gbps"] = gbps.into();
                row["raw_ms"] = raw.into();
                row["in_turn_ms"] = turn.into();
                row["overlapped_ms"] = overlap.into();
                rows.push(row);
            }
            let mut row = head("break-even");
            let [turn, overlap] = COMPRESSED.map(|sending| self.model.break_even_gbps(&case, sending));
            row["in_turn_gbps"] = turn.into();
            row["overlapped_gbps"] = overlap.into();
            row["needed_gbytes"] = self.needed(&case).into();
            rows.push(row);
        }
        rows.iter().map(Value::to_string).collect()
    }

    /// Writes `scale.csv` and `break_even.csv` into `folder`.
    pub(super) fn write_csv(&self, folder: &Path) -> Result<(), BenchError> {
        let mut times =
            "collective,fabric,gpus,buffer/byte,link/(Gb/s),raw/s,in_turn/s,overlapped/s\n".to_owned();
        let mut limits = "collective,fabric,gpus,buffer/byte,in_turn_break_even/(Gb/s),overlapped_break_even/(Gb/s),needed/(GB/s)\n".to_owned();
        for case in self.cases() {
            let head =
                format!("{},{},{},{}", case.collective.name(), case.fabric.name(), case.gpus, case.bytes);
            for &gbps in &self.link_gbps {
                let [raw, turn, overlap] = [Sending::Raw, Sending::InTurn, Sending::Overlapped]
                    .map(|sending| self.model.seconds(&case, gbps, sending));
                let _ = writeln!(times, "{head},{gbps},{raw:e},{turn:e},{overlap:e}");
            }
            let [turn, overlap] = COMPRESSED.map(|sending| self.model.break_even_gbps(&case, sending));
            let number = |value: Option<f64>| match value {
                None => String::new(),
                Some(value) if value >= 1.0 => format!("{value:.3}"),
                Some(value) => format!("{value:.3e}"),
            };
            let needed = number(self.needed(&case));
            let _ = writeln!(limits, "{head},{},{},{needed}", number(turn), number(overlap));
        }
        for (name, text) in [("scale.csv", times), ("break_even.csv", limits)] {
            let path = folder.join(name);
            mgcomp_plot::write_file(&path, text.as_bytes())?;
        }
        Ok(())
    }
}

/// Three digits at least; "never" where there is no number.
fn shown(value: Option<f64>) -> String {
    match value {
        None => "never".into(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 1.0 => format!("{value:.2}"),
        Some(value) if value >= 1e-3 => {
            let zeros = (-value.log10()).floor() as usize;
            format!("{value:.*}", 3 + zeros)
        }
        Some(value) => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_keep_their_digits() {
        let cases = [
            (1234.5, "1234"),
            (26.14, "26.14"),
            (1.0, "1.00"),
            (0.5, "0.500"),
            (0.0123, "0.0123"),
            (0.001_234, "0.00123"),
            (2.614e-4, "2.61e-4"),
        ];
        for (value, text) in cases {
            assert_eq!(shown(Some(value)), text);
        }
        assert_eq!(shown(None), "never");
    }
}
