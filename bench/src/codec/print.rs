//! Rows as a table or as JSON, one object a line.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::measure::{Measured, Times};
use super::plan::Combination;
use crate::error::BenchError;
use crate::machine::{Machine, size};

/// The keys of `--json`. Speeds are in 10⁹ bytes of uncompressed data per second.
#[derive(Debug, PartialEq, Serialize)]
struct Row<'a> {
    algorithm: &'static str,
    element: &'static str,
    dataset: &'a str,
    isa: &'static str,
    threads: usize,
    bytes: usize,
    encode_gbps: f64,
    decode_gbps: f64,
    /// None for libraries.
    estimate_gbps: Option<f64>,
    memcpy_gbps: f64,
    /// Raw bytes over bytes of the whole frame.
    ratio: f64,
    #[serde(skip)]
    sampled: Option<Sampled>,
}

/// How the sampled estimator does, in the table only.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sampled {
    /// Its time, in percent of the encoder's.
    time_percent: f64,
    /// How much its length is above that of the frame, in percent.
    error_percent: f64,
}

impl<'a> Row<'a> {
    fn new(combination: &Combination<'a>, measured: &Measured) -> Self {
        let Combination { bytes, item, threads, subject, cpu } = *combination;
        let Measured { coded_len, sampled_len, times } = *measured;
        let Times { memcpy, encode, decode, estimate, sample } = times;
        let sampled = sample.zip(sampled_len).map(|(time, len)| Sampled {
            time_percent: 100.0 * time.as_secs_f64() / encode.as_secs_f64(),
            error_percent: 100.0 * (len as f64 / coded_len as f64 - 1.0),
        });
        Self {
            algorithm: subject.name(),
            element: item.element.name(),
            dataset: &item.label,
            isa: cpu.map_or("library", |cpu| cpu.isa().name()),
            threads,
            bytes,
            encode_gbps: gbps(bytes, encode),
            decode_gbps: gbps(bytes, decode),
            estimate_gbps: estimate.map(|time| gbps(bytes, time)),
            memcpy_gbps: gbps(bytes, memcpy),
            ratio: rounded(bytes as f64 / coded_len as f64),
            sampled,
        }
    }
}

/// 10⁹ bytes per second.
fn gbps(bytes: usize, time: Duration) -> f64 {
    rounded(bytes as f64 / time.as_nanos().max(1) as f64)
}

/// To four decimals: more would be noise.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Prints rows as they come.
pub(super) struct Printer {
    json: bool,
    /// The buffer of the last row: its size and data.
    last: Option<(usize, String)>,
}

impl Printer {
    /// JSON, or a table under a line about the machine and one about the command.
    pub(super) fn new(json: bool, machine: &Machine) -> Result<Self, BenchError> {
        if !json {
            put(&machine.describe())?;
            let command: Vec<String> =
                std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
            put(&format!("mgcomp-bench {}", command.join(" ")))?;
            put(
                "GB/s of uncompressed data, and × memcpy of the same buffer in the same run; best of all rounds;\n\
                 sampled: time of the sampled estimator in % of the encoder's, and how far off its size is",
            )?;
        }
        Ok(Self { json, last: None })
    }

    pub(super) fn print(
        &mut self,
        combination: &Combination<'_>,
        measured: &Measured,
    ) -> Result<(), BenchError> {
        let row = Row::new(combination, measured);
        if self.json {
            return put(&serde_json::to_string(&row).expect("a row has string keys"));
        }
        let buffer = Some((row.bytes, row.dataset.to_owned()));
        if self.last != buffer {
            put(&format!("\n{} ({}), {}", row.dataset, row.element, size(row.bytes)))?;
            put(HEADING)?;
            self.last = buffer;
        }
        put(&line(&row))
    }
}

const HEADING: &str = "algorithm  isa       threads    ratio   encode      ×   decode      ×  estimate      ×   memcpy  sampled in  off by";

fn line(row: &Row<'_>) -> String {
    let times = |gbps: f64| gbps / row.memcpy_gbps;
    let (estimate, estimate_times) = match row.estimate_gbps {
        Some(gbps) => (format!("{gbps:.2}"), format!("{:.2}", times(gbps))),
        None => ("-".into(), "-".into()),
    };
    let (time, error) = match row.sampled {
        Some(Sampled { time_percent, error_percent }) => {
            (format!("{time_percent:.2} %"), format!("{error_percent:+.1}%"))
        }
        None => ("-".into(), "-".into()),
    };
    format!(
        "{:<9}  {:<8}  {:>7}  {:>7.3}  {:>7.2}  {:>5.2}  {:>7.2}  {:>5.2}  {estimate:>8}  {estimate_times:>5}  {:>7.2}  {time:>10}  {error:>6}",
        row.algorithm,
        row.isa,
        row.threads,
        row.ratio,
        row.encode_gbps,
        times(row.encode_gbps),
        row.decode_gbps,
        times(row.decode_gbps),
        row.memcpy_gbps,
    )
}

pub(super) fn put(line: &str) -> Result<(), BenchError> {
    writeln!(io::stdout(), "{line}").map_err(BenchError::Stdout)
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{Algorithm, Cpu, Element};

    use super::*;
    use crate::baseline::Library;
    use crate::codec::subject::Subject;
    use crate::data::Item;

    fn row(subject: Subject, estimate: Option<Duration>) -> serde_json::Value {
        let item = Item { label: "x.bin".into(), path: "x.bin".into(), element: Element::F32, kind: None };
        let cpu = matches!(subject, Subject::Codec(_)).then_some(Cpu::Portable);
        let combination = Combination { bytes: 1 << 20, item: &item, threads: 2, subject, cpu };
        // 2^20 bytes in 2^17 ns: 8 bytes per ns.
        let [memcpy, encode, decode] = [1 << 17, 1 << 18, 1 << 16].map(Duration::from_nanos);
        let times = Times { memcpy, encode, decode, estimate, sample: estimate };
        let measured = Measured { coded_len: 400_000, sampled_len: Some(390_000), times };
        serde_json::to_value(Row::new(&combination, &measured)).unwrap()
    }

    #[test]
    fn speeds_are_bytes_per_nanosecond() {
        let codec = row(Subject::Codec(Algorithm::Zvc), Some(Duration::from_nanos(1 << 15)));
        let expected = serde_json::json!({
            "algorithm": "zvc", "element": "f32", "dataset": "x.bin", "isa": "portable", "threads": 2,
            "bytes": 1_048_576, "encode_gbps": 4.0, "decode_gbps": 16.0, "estimate_gbps": 32.0,
            "memcpy_gbps": 8.0, "ratio": 2.6214,
        });
        assert_eq!(codec, expected);
        let library = row(Subject::Library(Library::Zstd1), None);
        assert_eq!((&library["algorithm"], &library["isa"]), (&"zstd-1".into(), &"library".into()));
        assert!(library["estimate_gbps"].is_null());
    }

    #[test]
    fn a_time_of_nothing_is_no_division_by_zero() {
        assert_eq!(gbps(7, Duration::ZERO), 7.0);
        assert_eq!(gbps(1 << 28, Duration::from_micros(26_844)), 9.9998);
    }

    #[test]
    fn lines_are_as_wide_as_the_heading() {
        let mut row = Row {
            algorithm: "cpackz",
            element: "f32",
            dataset: "x",
            isa: "portable",
            threads: 256,
            bytes: 1,
            encode_gbps: 4.0,
            decode_gbps: 16.0,
            estimate_gbps: Some(1.0),
            memcpy_gbps: 8.0,
            ratio: 100.0,
            sampled: Some(Sampled { time_percent: 12.5, error_percent: -2.5 }),
        };
        assert_eq!(line(&row).chars().count(), HEADING.chars().count());
        let columns: Vec<String> = line(&row).split_whitespace().map(str::to_owned).collect();
        let expected =
            ["cpackz", "portable", "256", "100.000", "4.00", "0.50", "16.00", "2.00", "1.00", "0.12"];
        assert_eq!(columns[..10], expected);
        assert_eq!(columns[10..], ["8.00", "12.50", "%", "-2.5%"]);
        (row.estimate_gbps, row.sampled) = (None, None);
        assert_eq!(line(&row).chars().count(), HEADING.chars().count());
    }
}
