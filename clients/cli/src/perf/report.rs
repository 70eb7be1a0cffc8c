//! What is printed: a table, or a JSON object a line.

use serde_json::{Map, Value, json};

use super::error::PerfError;
use super::operation::Op;
use super::options::Args;
use super::row::{Row, Ways};
use crate::output::print;
use crate::size::shown;

/// Prints rows as they come.
pub(super) struct Table<'a> {
    args: &'a Args,
    ranks: usize,
    op: Option<Op>,
}

impl<'a> Table<'a> {
    pub(super) fn new(args: &'a Args, ranks: usize) -> Self {
        Self { args, ranks, op: None }
    }

    pub(super) fn print(&mut self, row: &Row) -> Result<(), PerfError> {
        if self.args.json {
            return Ok(print(&format!("{}\n", json_line(row)))?);
        }
        if self.op != Some(row.op) {
            let gap = if self.op.is_some() { "\n" } else { "" };
            print(&format!("{gap}{}", head(self.args, self.ranks, row)))?;
            self.op = Some(row.op);
        }
        Ok(print(&text_line(row))?)
    }
}

fn head(args: &Args, ranks: usize, row: &Row) -> String {
    let op = row.op;
    let device = row.device.as_ref().map(|name| format!(", memory of {name}")).unwrap_or_default();
    let reduction = if op.reduces() { format!(" ({})", args.reduction) } else { String::new() };
    let off = if row.is_off { "; compression is switched off" } else { "" };
    let (values, data, link) = (args.values(), args.data_name(), args.link.describe());
    format!(
        "{}{reduction} of {values} ({data}), {ranks} ranks ({link}{device}){off}\n{:>10} {:>12} {:>7} {:>11} {:>11} {:>10} {:>10} {:>6} {:>7} {:>7}  {:<12} {}\n",
        op.name(),
        "size",
        "count",
        "element",
        "time/µs",
        "min/µs",
        "alg/GB/s",
        "bus/GB/s",
        "wrong",
        "ratio",
        "window",
        "mode",
        "carried by (share of raw bytes)"
    )
}

fn text_line(row: &Row) -> String {
    let raw_bytes = row.algorithms().map(|(_, tally)| tally.raw_bytes).sum::<u64>().max(1);
    let share = |bytes: u64| 100.0 * bytes as f64 / raw_bytes as f64;
    let shares: Vec<String> =
        row.algorithms().map(|(name, tally)| format!("{name} {:.0} %", share(tally.raw_bytes))).collect();
    format!(
        "{:>10} {:>12} {:>7} {:>11.3} {:>11.3} {:>10.4} {:>10.4} {:>6} {:>7.3} {:>7}  {:<12} {}\n",
        shown(row.bytes as u64),
        row.bytes / row.width,
        row.element,
        micros(row.median_ns),
        micros(row.min_ns),
        row.algorithm_bandwidth(),
        row.bus_bandwidth(),
        row.wrong,
        row.ratio(),
        by_window(row),
        row.mode,
        shares.join(", ")
    )
}

/// How much of what devices have made went into windows of others.
fn by_window(row: &Row) -> String {
    let share = row.ways.and_then(Ways::window_share);
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

fn json_line(row: &Row) -> Value {
    let ways = |ways: Ways| json!({ "window_bytes": ways.window_bytes, "host_bytes": ways.host_bytes });
    let algorithms: Map<String, Value> = row
        .algorithms()
        .map(|(algorithm, tally)| (algorithm.name().to_owned(), tally.transfers.into()))
        .collect();
    json!({
        "op": row.op.name(), "link": row.link, "ranks": row.ranks, "bytes": row.bytes, "element": row.element,
        "time_us": micros(row.median_ns), "algbw_gbps": row.algorithm_bandwidth(),
        "busbw_gbps": row.bus_bandwidth(), "wrong": row.wrong, "ratio": row.ratio(),
        "algorithms": algorithms, "mode": row.mode, "device": row.device, "ways": row.ways.map(ways),
    })
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_what_is_promised() {
        let value = json_line(&Row::example(Op::AllReduce, 4, 1_000_000, 500_000));
        let expected = json!({
            "op": "all_reduce", "link": "tcp", "ranks": 4, "bytes": 1_000_000, "element": "f32", "time_us": 500.0,
            "algbw_gbps": 2.0, "busbw_gbps": 3.0, "wrong": 0, "ratio": 2.5,
            "algorithms": { "none": 1, "xp": 3 }, "mode": "adaptive", "device": null, "ways": null,
        });
        assert_eq!(value, expected);
        let mut row = Row::example(Op::AllReduce, 4, 1, 1);
        row.device = Some("a GPU".into());
        row.ways = Some(Ways { window_bytes: 7, host_bytes: 5 });
        assert_eq!(json_line(&row)["device"], "a GPU");
        assert_eq!(json_line(&row)["ways"], json!({ "window_bytes": 7, "host_bytes": 5 }));
    }

    #[test]
    fn a_line_has_all_columns() {
        let line = text_line(&Row::example(Op::AllReduce, 4, 1 << 20, 1_048_576));
        let columns: Vec<&str> = line.split_whitespace().collect();
        let expected = [
            "1", "MiB", "262144", "f32", "1048.576", "0.900", "1.0000", "1.5000", "0", "2.500", "-",
            "adaptive",
        ];
        assert_eq!(columns[..12], expected);
        assert!(line.ends_with("none 25 %, xp 75 %\n"), "{line}");
        let mut row = Row::example(Op::AllReduce, 4, 1 << 20, 1_048_576);
        row.ways = Some(Ways { window_bytes: 3, host_bytes: 1 });
        assert!(text_line(&row).contains("  2.500    75 %  adaptive"), "{}", text_line(&row));
    }
}
