//! How fast the codec is and how much it saves.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::data;
use crate::error::{BenchError, printable};

/// What a codec does to a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CodecRates {
    /// Where the figures come from.
    pub(super) source: String,
    pub(super) ratio: f64,
    /// 10⁹ bytes of uncompressed data per second.
    pub(super) encode_gbytes: f64,
    pub(super) decode_gbytes: f64,
}

/// The keys of `mgcomp-bench codec --json` that matter here.
#[derive(Debug, Deserialize)]
struct Row {
    algorithm: String,
    dataset: String,
    isa: String,
    threads: usize,
    bytes: usize,
    encode_gbps: f64,
    decode_gbps: f64,
    ratio: f64,
}

/// Why a file tells no rates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum RatesError {
    #[error("line {line} is no row of a codec")]
    Row { line: usize, source: serde_json::Error },
    #[error("line {line}: {key} is {value}, but must be from {} to {}", PLAUSIBLE.0, PLAUSIBLE.1)]
    Value { line: usize, key: &'static str, value: f64 },
    #[error("none of its {rows} rows is of {algorithm:?}")]
    NoRow { rows: usize, algorithm: String },
    #[error("it is not text")]
    Text(#[from] std::string::FromUtf8Error),
}

/// Rates, ratios and times are in this range: nothing beyond it is measured or built, and what is reckoned of such numbers
/// would be infinite.
pub(crate) const PLAUSIBLE: (f64, f64) = (1e-6, 1e6);

/// A flag that no rate, ratio or time is.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0:?} is no number from {least} to {most}", least = PLAUSIBLE.0, most = PLAUSIBLE.1)]
pub(crate) struct NotPositive(String);

/// A number above zero.
pub(crate) fn positive(text: &str) -> Result<f64, NotPositive> {
    match text.parse::<f64>() {
        Ok(value) if is_plausible(value) => Ok(value),
        _ => Err(NotPositive(text.to_owned())),
    }
}

fn is_plausible(value: f64) -> bool {
    (PLAUSIBLE.0..=PLAUSIBLE.1).contains(&value)
}

/// A text that does not say how much slower links are.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0:?} is no taper: links above the leaves are from 1 to {most} times slower", most = PLAUSIBLE.1)]
pub(super) struct NotTaper(String);

/// What `--taper` takes.
pub(super) fn parse_taper(text: &str) -> Result<f64, NotTaper> {
    match text.parse::<f64>() {
        Ok(taper) if (1.0..=PLAUSIBLE.1).contains(&taper) => Ok(taper),
        _ => Err(NotTaper(text.to_owned())),
    }
}

/// The one in the middle by `value`: of an even number the lower of two, of equal ones the first.
pub(crate) fn middle<T>(mut all: Vec<T>, value: impl Fn(&T) -> f64) -> Option<T> {
    all.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let middle = all.len().checked_sub(1)? / 2;
    Some(all.swap_remove(middle))
}

/// The rates of `algorithm` in the output of `mgcomp-bench codec --json`.
pub(super) fn read(path: &Path, algorithm: &str) -> Result<CodecRates, BenchError> {
    let bytes = data::read(path)?;
    parse(bytes, algorithm).map_err(|source| BenchError::Rates { path: PathBuf::from(path), source })
}

fn parse(bytes: Vec<u8>, algorithm: &str) -> Result<CodecRates, RatesError> {
    let text = String::from_utf8(bytes)?;
    let mut rows = Vec::new();
    for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = line + 1;
        let row: Row = serde_json::from_str(text).map_err(|source| RatesError::Row { line, source })?;
        let values =
            [("ratio", row.ratio), ("encode_gbps", row.encode_gbps), ("decode_gbps", row.decode_gbps)];
        if let Some((key, value)) = values.into_iter().find(|(_, value)| !is_plausible(*value)) {
            return Err(RatesError::Value { line, key, value });
        }
        rows.push(row);
    }
    let count = rows.len();
    rows.retain(|row| row.algorithm == algorithm);
    let Some(row) = typical(rows) else {
        return Err(RatesError::NoRow { rows: count, algorithm: algorithm.to_owned() });
    };
    Ok(CodecRates {
        source: printable(&format!(
            "{} on {}, {}, {} threads, {} bytes",
            row.algorithm, row.dataset, row.isa, row.threads, row.bytes
        )),
        ratio: row.ratio,
        encode_gbytes: row.encode_gbps,
        decode_gbytes: row.decode_gbps,
    })
}

/// Of those with the largest buffer and the most threads, the one whose encoder has the median rate: no data that flatters it
/// stands for all.
fn typical(mut rows: Vec<Row>) -> Option<Row> {
    let most = rows.iter().map(|row| (row.bytes, row.threads)).max()?;
    rows.retain(|row| (row.bytes, row.threads) == most);
    middle(rows, |row| row.encode_gbps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(algorithm: &str, threads: usize, bytes: usize, encode: f64) -> String {
        format!(
            "{{\"algorithm\":\"{algorithm}\",\"element\":\"bf16\",\"dataset\":\"w\",\"isa\":\"avx2\",\"threads\":{threads},\
             \"bytes\":{bytes},\"encode_gbps\":{encode},\"decode_gbps\":9,\"estimate_gbps\":null,\"memcpy_gbps\":1,\"ratio\":1.5}}\n"
        )
    }

    #[test]
    fn the_largest_buffer_and_the_most_threads_count() {
        let text =
            [row("xp", 2, 64, 7.0), row("xp", 1, 128, 4.0), row("xp", 2, 128, 6.0), row("zvc", 4, 256, 8.0)];
        let rates = parse(text.concat().into(), "xp").unwrap();
        assert_eq!((rates.encode_gbytes, rates.decode_gbytes, rates.ratio), (6.0, 9.0, 1.5));
        assert_eq!(rates.source, "xp on w, avx2, 2 threads, 128 bytes");
    }

    #[test]
    fn of_rows_that_tie_the_middle_one_counts() {
        let encode = |rates: &[f64]| {
            let rows: String = rates.iter().map(|&rate| row("xp", 2, 128, rate)).collect();
            parse((rows + &row("xp", 1, 128, 8.0)).into(), "xp").unwrap().encode_gbytes
        };
        assert_eq!(encode(&[7.0, 1.0, 4.0]), 4.0);
        // The second of four, and the first of two.
        assert_eq!(encode(&[7.0, 1.0, 4.0, 3.0]), 3.0);
        assert_eq!(encode(&[7.0, 1.0]), 1.0);
    }

    #[test]
    fn links_above_leaves_are_no_faster() {
        assert_eq!((parse_taper("1"), parse_taper("2.5")), (Ok(1.0), Ok(2.5)));
        for text in ["0.1", "0.999", "0", "-2", "1e7", "nan", "x", ""] {
            assert_eq!(parse_taper(text), Err(NotTaper(text.into())));
        }
        let message = parse_taper("0.1").unwrap_err().to_string();
        assert_eq!(message, "\"0.1\" is no taper: links above the leaves are from 1 to 1000000 times slower");
    }

    #[test]
    fn files_without_rates_say_why() {
        let message = |text: &str| parse(text.into(), "xp").unwrap_err().to_string();
        assert_eq!(message(""), "none of its 0 rows is of \"xp\"");
        assert_eq!(message(&row("bdi", 1, 1, 1.0)), "none of its 1 rows is of \"xp\"");
        assert_eq!(message("{}"), "line 1 is no row of a codec");
        let zero = message(&row("xp", 1, 1, 0.0));
        assert_eq!(zero, "line 1: encode_gbps is 0, but must be from 0.000001 to 1000000");
        assert_eq!(parse(vec![0xff], "xp").unwrap_err().to_string(), "it is not text");
    }

    #[test]
    fn flags_are_numbers_of_which_none_is_infinite() {
        for (text, value) in [("0.000001", 1e-6), ("1", 1.0), ("1e6", 1e6)] {
            assert_eq!(positive(text), Ok(value));
        }
        for text in ["0", "-1", "1e-310", "9e-7", "nan", "inf", "", "x", "1e7"] {
            assert_eq!(positive(text), Err(NotPositive(text.into())));
        }
        assert_eq!(positive("0").unwrap_err().to_string(), "\"0\" is no number from 0.000001 to 1000000");
    }
}
