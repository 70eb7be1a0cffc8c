//! Where the rates of a GPU's codecs come from.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::data;
use crate::error::BenchError;
use crate::scale::{CodecRates, RatesError, positive};

/// A text that is no GPU with its rates.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0:?} is not a name, two rates in GB/s and a ratio, as in H100:800:1200:1.48")]
pub(super) struct NotRates(String);

/// What `--gpu` takes.
pub(super) fn parse_gpu(text: &str) -> Result<CodecRates, NotRates> {
    let not_rates = || NotRates(text.to_owned());
    let parts: Vec<&str> = text.split(':').collect();
    let [name, numbers @ ..] = &parts[..] else { return Err(not_rates()) };
    let numbers: Vec<f64> = numbers.iter().filter_map(|number| positive(number).ok()).collect();
    match numbers[..] {
        [encode_gbytes, decode_gbytes, ratio] if !name.is_empty() && parts.len() == 4 => {
            Ok(CodecRates { source: (*name).to_owned(), ratio, encode_gbytes, decode_gbytes })
        }
        _ => Err(not_rates()),
    }
}

/// What matters here of the lines of `mgcomp-bench gpu`.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Row {
    Run {
        device: String,
    },
    Time {
        subject: String,
        dataset: String,
        bytes: usize,
        ratio: f64,
        encode_gbps: f64,
        decode_gbps: f64,
    },
    #[serde(other)]
    Other,
}

/// The rates of `algorithm` in a file of `mgcomp-bench gpu`: those of the largest buffers, and among them of the fastest
/// encoder.
pub(super) fn read(path: &Path, algorithm: &str) -> Result<CodecRates, BenchError> {
    let bytes = data::read(path)?;
    parse(bytes, algorithm).map_err(|source| BenchError::Rates { path: PathBuf::from(path), source })
}

fn parse(bytes: Vec<u8>, algorithm: &str) -> Result<CodecRates, RatesError> {
    let text = String::from_utf8(bytes)?;
    let (mut rows, mut gpu) = (0, "a GPU".to_owned());
    let mut best: Option<(usize, CodecRates)> = None;
    for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = line + 1;
        rows += 1;
        match serde_json::from_str(text).map_err(|source| RatesError::Row { line, source })? {
            Row::Run { device } => gpu = device,
            Row::Time { subject, dataset, bytes, ratio, encode_gbps, decode_gbps }
                if subject == algorithm =>
            {
                for (key, value) in
                    [("ratio", ratio), ("encode_gbps", encode_gbps), ("decode_gbps", decode_gbps)]
                {
                    if value.is_nan() || value <= 0.0 {
                        return Err(RatesError::Value { line, key, value });
                    }
                }
                let source = format!("{gpu}, {algorithm} on {dataset}, {bytes} bytes");
                let rates =
                    CodecRates { source, ratio, encode_gbytes: encode_gbps, decode_gbytes: decode_gbps };
                let better = best.as_ref().is_none_or(|(most, fastest)| {
                    (bytes, rates.encode_gbytes) > (*most, fastest.encode_gbytes)
                });
                if better {
                    best = Some((bytes, rates));
                }
            }
            Row::Time { .. } | Row::Other => {}
        }
    }
    best.map(|best| best.1).ok_or_else(|| RatesError::NoRow { rows, algorithm: algorithm.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_a_name_and_three_numbers() {
        let rates = parse_gpu("H100 SXM:800:1200.5:1.5").unwrap();
        assert_eq!((rates.encode_gbytes, rates.decode_gbytes, rates.ratio), (800.0, 1200.5, 1.5));
        assert_eq!(rates.source, "H100 SXM");
        for text in ["", "x", ":1:2:3", "x:1:2", "x:1:2:3:4", "x:1:0:3", "x:1:-2:3", "x:1:nan:3", "x:1:y:3:4"]
        {
            assert_eq!(parse_gpu(text), Err(NotRates(text.into())));
        }
    }

    #[test]
    fn the_largest_buffers_of_a_results_file_count() {
        let time = |subject: &str, bytes: usize, encode: f64| {
            format!(
                "{{\"kind\":\"time\",\"subject\":\"{subject}\",\"dataset\":\"d\",\"bytes\":{bytes},\"ratio\":1.5,\
                 \"encode_gbps\":{encode},\"decode_gbps\":7,\"copy_gbps\":1}}\n"
            )
        };
        let run = "{\"kind\":\"run\",\"device\":\"Some GPU\",\"version\":\"1\"}\n{\"kind\":\"check\",\"check\":\"x\"}\n";
        let rows = [time("xp", 64, 9.0), time("xp", 128, 5.0), time("xp", 128, 6.0), time("zvc", 256, 8.0)];
        let text = format!("{run}{}", rows.concat());
        let rates = parse(text.clone().into(), "xp").unwrap();
        assert_eq!((rates.encode_gbytes, rates.decode_gbytes, rates.ratio), (6.0, 7.0, 1.5));
        assert_eq!(rates.source, "Some GPU, xp on d, 128 bytes");
        let message = |text: String| parse(text.into(), "rle").unwrap_err().to_string();
        assert_eq!(message(text), "none of its 6 rows is of \"rle\"");
        assert_eq!(message(time("rle", 1, -1.0)), "line 1: encode_gbps is -1, but must be above 0");
        assert_eq!(message("{}".into()), "line 1 is no row of a codec");
    }
}
