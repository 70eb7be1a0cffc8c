//! Rows as tables or as JSON, one object a line.

use std::io::{self, Write};

use mgcomp_codecs::Algorithm;
use mgcomp_selector::PolicySpec;
use serde::Serialize;

use super::args::Args;
use super::completion::Link;
use super::goals::{Goal, Goals};
use super::replay::Replayed;
use super::sequence::Course;
use super::table::DEFLATED_BYTES;
use crate::error::BenchError;
use crate::machine::{Machine, size};

/// Every policy on one sequence over one link.
pub(super) struct Row {
    pub(super) sequence: String,
    pub(super) course: Course,
    /// Whether no codec shortens anything in it.
    pub(super) is_noise: bool,
    pub(super) link: Link,
    /// What the best algorithm of each transfer takes.
    pub(super) oracle_ns: f64,
    pub(super) policies: Vec<(PolicySpec, Replayed)>,
}

impl Row {
    pub(super) fn adaptive(&self) -> Option<&Replayed> {
        self.of(PolicySpec::Adaptive)
    }

    fn paper(&self) -> Option<&Replayed> {
        self.policies
            .iter()
            .find(|(spec, _)| matches!(spec, PolicySpec::Paper(_)))
            .map(|(_, replayed)| replayed)
    }

    pub(super) fn of(&self, wanted: PolicySpec) -> Option<&Replayed> {
        self.policies.iter().find(|(spec, _)| *spec == wanted).map(|(_, replayed)| replayed)
    }

    /// Never to compress.
    pub(super) fn raw_ns(&self) -> f64 {
        self.fixed().next().map_or(f64::INFINITY, |(_, replayed)| replayed.time_ns)
    }

    /// The same algorithm for all transfers, the raw form first.
    pub(super) fn fixed(&self) -> impl Iterator<Item = (Algorithm, &Replayed)> {
        self.policies.iter().filter_map(|(spec, replayed)| match spec {
            PolicySpec::Fixed(fixed) => Some((fixed.algorithm(), replayed)),
            _ => None,
        })
    }

    /// The best of those.
    pub(super) fn best_fixed_ns(&self) -> f64 {
        self.fixed().map(|(_, replayed)| replayed.time_ns).fold(f64::INFINITY, f64::min)
    }

    /// How much longer than the oracle something takes, as a part of it.
    pub(super) fn regret(&self, time_ns: f64) -> f64 {
        time_ns / self.oracle_ns - 1.0
    }
}

/// The keys of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    sequence: &'a str,
    link_gbps: f64,
    overlap: bool,
    policy: String,
    time_ms: f64,
    oracle_ms: f64,
    /// None where every decision is the first for a length, or takes a sample.
    decision_ns: Option<f64>,
    sampling_share: f64,
}

/// Prints rows as they come.
pub(super) struct Printer {
    json: bool,
    /// Sequence and overlap of the last row.
    last: Option<(String, bool)>,
}

impl Printer {
    /// JSON, or tables under a few lines that say what they are.
    pub(super) fn new(args: &Args, machine: &Machine) -> Result<Self, BenchError> {
        if !args.json {
            let command: Vec<String> =
                std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
            put(&format!(
                "{}\nmgcomp-bench {}\n\
                 {} transfers of {} to {} a sequence, all of one stream; latency {} ns; segments of {} where codecs and link overlap\n\
                 oracle: ms with the best algorithm of each transfer; the others: % longer than that. decide: ns a decision that takes\n\
                 no sample, but for the first of each length, the median; slow: the slowest of a hundred of those; -: there are none;\n\
                 observe: ns a transfer, the median, while it is on its way; sample: % of the time of adaptive\n\
                 deflate is timed once, not {} times, on the first {} of a transfer: its times and sizes of longer ones are scaled up from those",
                machine.describe(),
                command.join(" "),
                args.transfers(),
                size(args.shortest),
                size(args.longest()),
                args.latency_ns(),
                size(args.segment() as usize),
                args.rounds(),
                size(DEFLATED_BYTES),
            ))?;
        }
        Ok(Self { json: args.json, last: None })
    }

    pub(super) fn row(&mut self, row: &Row) -> Result<(), BenchError> {
        if self.json {
            return row.policies.iter().try_for_each(|(spec, replayed)| put(&json(row, *spec, replayed)));
        }
        let table = Some((row.sequence.clone(), row.link.segment.is_some()));
        if self.last != table {
            let course = match row.course {
                Course::Phases(1) => "one phase".to_owned(),
                Course::Phases(phases) => format!("{phases} phases"),
                Course::Mixed => "each of any data".to_owned(),
            };
            put(&format!("\n{}, {course}, overlap: {}", row.sequence, row.link.overlap()))?;
            put(&heading(row))?;
            self.last = table;
        }
        put(&line(row))
    }

    /// What the figures say about the goals.
    pub(super) fn goals(&self, goals: &Goals) -> Result<(), BenchError> {
        if self.json {
            return Ok(());
        }
        put("\ngoals of adaptive, each with the worst figure of all rows")?;
        goals.0.iter().try_for_each(|Goal { name, limit, unit, worst }| match worst {
            Some((figure, place)) => {
                let verdict = if figure <= limit { "holds" } else { "FAILS" };
                put(&format!("{verdict}  {name:<62} {figure:>8.2} {unit}, goal {limit} {unit}   {place}"))
            }
            None => put(&format!("-      {name:<62} no such row")),
        })
    }
}

fn json(row: &Row, spec: PolicySpec, replayed: &Replayed) -> String {
    let line = Line {
        sequence: &row.sequence,
        link_gbps: row.link.rate_gbps,
        overlap: row.link.segment.is_some(),
        policy: spec.to_string(),
        time_ms: replayed.time_ns / 1e6,
        oracle_ms: row.oracle_ns / 1e6,
        decision_ns: replayed.costs.plan_ns,
        sampling_share: replayed.sampling_ns / replayed.time_ns,
    };
    serde_json::to_string(&line).expect("a line has string keys")
}

fn heading(row: &Row) -> String {
    let fixed: String = row.fixed().map(|(algorithm, _)| format!(" {:>7}", algorithm.name())).collect();
    format!(
        "  Gb/s     oracle{fixed}   paper adaptive  decide   slow observe  sample  adaptive takes (share of raw bytes)"
    )
}

fn line(row: &Row) -> String {
    let percent = |time_ns: f64| {
        let percent = 100.0 * row.regret(time_ns);
        if percent < 1000.0 { format!("{percent:.1}") } else { format!("{percent:.0}") }
    };
    let fixed: String =
        row.fixed().map(|(_, replayed)| format!(" {:>7}", percent(replayed.time_ns))).collect();
    let paper = row.paper().map_or(String::new(), |paper| percent(paper.time_ns));
    let Some(adaptive) = row.adaptive() else { return String::new() };
    format!(
        "{:>6}  {:>9.2}{fixed} {paper:>7} {:>8.2}  {:>6} {:>6} {:>7.0}  {:>6.2}  {}",
        row.link.rate_gbps,
        row.oracle_ns / 1e6,
        100.0 * row.regret(adaptive.time_ns),
        shown(adaptive.costs.plan_ns),
        shown(adaptive.costs.slow_plan_ns),
        adaptive.costs.observe_ns,
        100.0 * adaptive.sampling_ns / adaptive.time_ns,
        mix(&adaptive.carried),
    )
}

fn shown(ns: Option<f64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{ns:.0}"))
}

/// Algorithms by the share of the raw bytes that they carried.
fn mix(carried: &[u64; 16]) -> String {
    let all: u64 = carried.iter().sum();
    let mut shares: Vec<(u64, Algorithm)> = Algorithm::ALL
        .into_iter()
        .map(|algorithm| (carried[usize::from(algorithm.number())], algorithm))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    shares.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let shown: Vec<String> = shares
        .into_iter()
        .map(|(bytes, algorithm)| format!("{algorithm} {:.0}", 100.0 * bytes as f64 / all as f64))
        .collect();
    shown.join(", ")
}

fn put(line: &str) -> Result<(), BenchError> {
    writeln!(io::stdout(), "{line}").map_err(BenchError::Stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_largest_first() {
        let mut carried = [0; 16];
        (carried[0], carried[9]) = (1, 3);
        assert_eq!(mix(&carried), "xp 75, none 25");
    }

    #[test]
    fn what_there_is_none_of_is_no_zero() {
        assert_eq!((shown(None), shown(Some(0.4))), ("-".into(), "0".into()));
    }
}
