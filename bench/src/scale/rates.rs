//! How fast the codec is and how much it saves.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::data;
use crate::error::BenchError;

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
    #[error("line {line}: {key} is {value}, but must be above 0")]
    Value { line: usize, key: &'static str, value: f64 },
    #[error("none of its {rows} rows is of {algorithm:?}")]
    NoRow { rows: usize, algorithm: String },
    #[error("it is not text")]
    Text(#[from] std::string::FromUtf8Error),
}

/// A flag that no rate, ratio or time is.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0:?} is no number above 0 and up to 1000000")]
pub(crate) struct NotPositive(String);

/// A number above zero.
pub(crate) fn positive(text: &str) -> Result<f64, NotPositive> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err(NotPositive(text.to_owned())),
    }
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
        if let Some((key, value)) = values.into_iter().find(|(_, value)| *value <= 0.0) {
            return Err(RatesError::Value { line, key, value });
        }
        rows.push(row);
    }
    let of_algorithm = rows.iter().filter(|row| row.algorithm == algorithm);
    let best = of_algorithm.max_by(|a, b| {
        (a.bytes, a.threads).cmp(&(b.bytes, b.threads)).then(a.encode_gbps.total_cmp(&b.encode_gbps))
    });
    let Some(row) = best else {
        return Err(RatesError::NoRow { rows: rows.len(), algorithm: algorithm.to_owned() });
    };
    Ok(CodecRates {
        source: format!(
            "{} on {}, {}, {} threads, {} bytes",
            row.algorithm, row.dataset, row.isa, row.threads, row.bytes
        ),
        ratio: row.ratio,
        encode_gbytes: row.encode_gbps,
        decode_gbytes: row.decode_gbps,
    })
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
    fn files_without_rates_say_why() {
        let message = |text: &str| parse(text.into(), "xp").unwrap_err().to_string();
        assert_eq!(message(""), "none of its 0 rows is of \"xp\"");
        assert_eq!(message(&row("bdi", 1, 1, 1.0)), "none of its 1 rows is of \"xp\"");
        assert_eq!(message("{}"), "line 1 is no row of a codec");
        assert_eq!(message(&row("xp", 1, 1, 0.0)), "line 1: encode_gbps is 0, but must be above 0");
        assert_eq!(parse(vec![0xff], "xp").unwrap_err().to_string(), "it is not text");
        for text in ["0", "-1", "nan", "inf", "", "x", "1e7"] {
            assert_eq!(positive(text), Err(NotPositive(text.into())));
        }
    }
}
