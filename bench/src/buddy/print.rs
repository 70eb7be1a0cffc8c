//! Tables, or JSON, one object a line.

use std::io::{self, Write};

use serde_json::json;

use super::THRESHOLDS;
use super::measure::{Forms, Row};
use super::snapshot::Class;
use super::speed::Speed;
use crate::error::BenchError;
use crate::machine::{Machine, size};

/// The threshold of the paper, and a lower one at which few accesses overflow.
const SHOWN: [u8; 2] = [10, 30];

const WHY: &str = "\
Capacity is raw bytes per byte of device memory, metadata counted (0.4 % of bpc). Overflow is the share of raw bytes in
entries of which a part lies in buddy memory; every read or write of such an entry touches buddy memory.
Why ours differs from the paper: its means are over whole programs, with allocations that stay zero or hold small
integers beside their floats; these snapshots are single tensors. Differences of dense floats look like noise to BPC,
so it finds 1.0 to 1.1 on fields and nothing on weights and gradients, whatever the threshold. Entries of xp code
exponents and zeros instead, 32 KiB at a time.";

/// Sums over snapshots.
#[derive(Clone, Copy, Default)]
pub(super) struct Total {
    raw_bytes: f64,
    device_bytes: f64,
    overflowing_bytes: f64,
}

impl Total {
    /// Of the rows of a class, or of all.
    pub(super) fn of(rows: &[Row], class: Option<Class>, forms: Forms, threshold: u8) -> Self {
        let is_meant = |row: &&Row| {
            class.is_none_or(|class| row.class == class) && row.forms == forms && row.threshold == threshold
        };
        rows.iter().filter(is_meant).fold(Self::default(), |sum, Row { choice, .. }| Self {
            raw_bytes: sum.raw_bytes + choice.raw_bytes as f64,
            device_bytes: sum.device_bytes
                + (choice.footprint.device_bytes + choice.footprint.metadata_bytes) as f64,
            overflowing_bytes: sum.overflowing_bytes + choice.overflow_share() * choice.raw_bytes as f64,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.raw_bytes == 0.0
    }

    pub(super) fn capacity(&self) -> f64 {
        self.raw_bytes / self.device_bytes
    }

    fn overflow_share(&self) -> f64 {
        self.overflowing_bytes / self.raw_bytes
    }
}

pub(super) fn print(rows: &[Row], speeds: &[Speed], json: bool) -> Result<(), BenchError> {
    let text = if json { lines(rows, speeds) } else { tables(rows, speeds) };
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(BenchError::Stdout)
}

fn lines(rows: &[Row], speeds: &[Speed]) -> String {
    let rows = rows.iter().map(|Row { label, class, threshold, forms, choice }| {
        json!({
            "snapshot": label,
            "class": class.name(),
            "threshold_percent": threshold,
            "forms": forms.name(),
            "form": choice.form.name(),
            "target": choice.target.name(),
            "raw_bytes": choice.raw_bytes,
            "device_bytes": choice.footprint.device_bytes,
            "metadata_bytes": choice.footprint.metadata_bytes,
            "effective_capacity": choice.effective_capacity(),
            "entries": choice.entries,
            "overflowing_entries": choice.overflowing_entries,
            "overflow_share": choice.overflow_share(),
        })
    });
    let speeds = speeds.iter().map(|speed| {
        json!({
            "snapshot": speed.label,
            "form": speed.form.name(),
            "target": speed.target.name(),
            "bytes": speed.bytes,
            "write_gbps": speed.write_gbps,
            "read_gbps": speed.read_gbps,
            "memcpy_gbps": speed.memcpy_gbps,
        })
    });
    rows.chain(speeds).map(|line| format!("{line}\n")).collect()
}

fn tables(rows: &[Row], speeds: &[Speed]) -> String {
    [snapshots(rows), classes(rows), format!("{WHY}\n\n"), speed_lines(speeds)].concat()
}

/// A line per snapshot: target and overflow of each form at two thresholds.
fn snapshots(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
    let mut text = format!("{:width$}", "target, overflow in %");
    for threshold in SHOWN {
        text += &format!(" | {:>11} {:>11}", format!("bpc at {threshold}"), format!("xp at {threshold}"));
    }
    for group in rows.chunk_by(|a, b| a.label == b.label) {
        text += &format!("\n{:width$}", group[0].label);
        for threshold in SHOWN {
            text += " |";
            for forms in [Forms::Bpc, Forms::Xp] {
                let row = group.iter().find(|row| (row.forms, row.threshold) == (forms, threshold));
                text += &row.map_or(String::new(), |Row { choice, .. }| {
                    format!(" {:>5} {:>5.1}", choice.target, 100.0 * choice.overflow_share())
                });
            }
        }
    }
    text + "\n\n"
}

/// Capacity and overflow per class and threshold, with the paper's beside them.
fn classes(rows: &[Row]) -> String {
    let mut text = format!("{:16}", "capacity (%)");
    for threshold in THRESHOLDS {
        text += &format!(" {:>14}", format!("{threshold} %"));
    }
    text += "  paper, 30 %\n";
    for class in Class::ALL.map(Some).into_iter().chain([None]) {
        if Total::of(rows, class, Forms::Best, SHOWN[0]).is_empty() {
            continue;
        }
        for forms in Forms::ALL {
            text += &format!("{:10} {:5}", class.map_or("together", Class::name), forms.name());
            for threshold in THRESHOLDS {
                let total = Total::of(rows, class, forms, threshold);
                let overflow = format!("({:.1})", 100.0 * total.overflow_share());
                text += &format!(" {:>7.3} {overflow:>6}", total.capacity());
            }
            let published = class.and_then(Class::published).filter(|_| forms == Forms::Bpc);
            text += &published.map_or("\n".into(), |published| format!("  {published}\n"));
        }
    }
    text + "\n"
}

fn speed_lines(speeds: &[Speed]) -> String {
    let mut text = format!("{}; one thread, GB/s of raw bytes\n", Machine::detect().describe());
    for speed in speeds {
        text += &format!(
            "{:3} at {:3}: write {:.2}, read {:.2}, memcpy {:.2} ({}, {})\n",
            speed.form,
            speed.target,
            speed.write_gbps,
            speed.read_gbps,
            speed.memcpy_gbps,
            speed.label,
            size(speed.bytes)
        );
    }
    text
}
