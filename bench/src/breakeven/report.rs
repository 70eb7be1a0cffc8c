//! What the model says, as text and JSON.

use std::io::{self, Write as _};

use serde_json::{Value, json};

use super::model::{LINKS, Model, Overlap};
use crate::error::BenchError;
use crate::machine::size;

/// All that is asked of the model.
pub(super) struct Report {
    /// One for each GPU.
    pub(super) models: Vec<Model>,
    /// Sizes whose speed-up is shown.
    pub(super) bytes: Vec<usize>,
}

impl Report {
    pub(super) fn print(&self, json: bool) -> Result<(), BenchError> {
        let lines = if json { self.json() } else { self.text() };
        let mut out = io::stdout().lock();
        lines.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(BenchError::Stdout)
    }

    fn text(&self) -> Vec<String> {
        let mut lines = vec![
            "a MODEL: from which message size on compression on a GPU pays; nothing here is measured".into(),
        ];
        for model in &self.models {
            lines.extend(self.table(model));
        }
        lines
    }

    fn table(&self, model: &Model) -> Vec<String> {
        let rates = &model.rates;
        let sizes: String = self.bytes.iter().map(|&bytes| format!(" {:>13}", size(bytes))).collect();
        let mut lines = vec![
            format!(
                "\n{}: ratio {}, encode {} GB/s, decode {} GB/s, launch {} µs; links at {} of their rate",
                rates.source,
                rates.ratio,
                rates.encode_gbytes,
                rates.decode_gbytes,
                model.launch_s * 1e6,
                model.efficiency
            ),
            "break-even and speed-up one after the other / overlapped".into(),
            format!("{:<11} {:>6} {:>23} {sizes}", "link", "GB/s", "pays from"),
        ];
        for link in LINKS {
            let [turn, overlap] = Overlap::BOTH.map(|overlap| shown(model.break_even(link, overlap)));
            let gain = |&bytes: &usize| {
                let [turn, overlap] =
                    Overlap::BOTH.map(|overlap| model.speed_up(link, bytes as f64, overlap));
                format!("   {turn:>5.2}/{overlap:<5.2}")
            };
            let gains: String = self.bytes.iter().map(gain).collect();
            lines.push(format!("{:<11} {:>6} {turn:>11}/{overlap:<11} {gains}", link.name, link.gbytes));
        }
        lines
    }

    fn json(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for model in &self.models {
            let rates = &model.rates;
            rows.push(json!({
                "row": "model", "gpu": rates.source, "ratio": rates.ratio, "encode_gbytes": rates.encode_gbytes,
                "decode_gbytes": rates.decode_gbytes, "launch_us": model.launch_s * 1e6,
                "latency_us": model.latency_s * 1e6, "efficiency": model.efficiency,
            }));
            for link in LINKS {
                let [turn, overlap] = Overlap::BOTH.map(|overlap| model.break_even(link, overlap));
                rows.push(json!({
                    "row": "break-even", "gpu": rates.source, "link": link.name, "link_gbytes": link.gbytes,
                    "in_turn_bytes": turn.map(f64::ceil), "overlapped_bytes": overlap.map(f64::ceil),
                }));
                for &bytes in &self.bytes {
                    let [turn, overlap] =
                        Overlap::BOTH.map(|overlap| model.speed_up(link, bytes as f64, overlap));
                    rows.push(json!({
                        "row": "speed-up", "gpu": rates.source, "link": link.name, "bytes": bytes,
                        "in_turn": turn, "overlapped": overlap,
                    }));
                }
            }
        }
        rows.iter().map(Value::to_string).collect()
    }
}

/// A size in words; "never" where there is none.
fn shown(bytes: Option<f64>) -> String {
    let Some(bytes) = bytes else { return "never".into() };
    let kib = bytes / 1024.0;
    match kib {
        kib if kib < 1.0 => format!("{bytes:.0} B"),
        kib if kib < 1024.0 => format!("{kib:.1} KiB"),
        kib => format!("{:.1} MiB", kib / 1024.0),
    }
}
