//! What the flags of `mgcomp-bench select` may say.

use std::path::PathBuf;

use crate::codec::{Data, parse_bytes};
use crate::error::BenchError;

/// Time, oracle and regret of every policy on sequences of transfers, over links of several rates.
///
/// Without flags, transfers of 256 B to 64 MiB are cut from samples in the repository, one file for each of dense
/// floats, ReLU maps, indices and noise; in each sequence all belong to one stream. `phases` goes from one kind of data
/// to the next; `bytes` does, and declares all of it as bytes; `short` does with transfers of up to 64 KiB.
/// `mixed` goes through no phases: each transfer is any of all, declared as bytes.
/// What encoding and decoding take and how long frames are is measured once for each transfer; every policy replays
/// that. What it decides and what it samples really takes place, is timed, and counts.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folders, of which one file of each kind of data is taken, and files, as FILE:ELEMENT or as their folder's
    /// corpus.json or their names say: each is a sequence, and all of them in order are one with phases. Names that
    /// are taken get their element, as in FILE:u8 [default: the samples in the repository]
    #[arg(long, num_args = 1..)]
    pub(super) data: Vec<Data>,
    /// Only these sequences
    #[arg(long, num_args = 1.., value_name = "NAME")]
    pub(super) sequence: Vec<String>,
    /// Transfers of a sequence [default: 400, with --quick 80]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    transfers: Option<u32>,
    /// Bytes of the shortest transfers
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = parse_bytes)]
    pub(super) shortest: usize,
    /// Bytes of the longest transfers [default: 64M, with --quick 1M]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    longest: Option<usize>,
    /// Rates of the link in Gb/s
    #[arg(long, num_args = 1.., value_name = "GBPS", value_parser = parse_rate, allow_negative_numbers = true,
          default_values = ["1", "10", "25", "50", "100", "400"])]
    pub(super) link_gbps: Vec<f64>,
    /// Latency of the link in microseconds
    #[arg(long, value_name = "US", default_value = "2", value_parser = parse_latency, allow_negative_numbers = true)]
    latency_us: f64,
    /// Only with codecs and link at work at the same time, or only with one after the other [default: both]
    #[arg(long, value_name = "WHETHER", value_parser = ["yes", "no"], num_args = 0..=1, default_missing_value = "yes")]
    overlap: Option<String>,
    /// Bytes of the segments in which codecs and link overlap [default: 1M]
    #[arg(long, value_name = "BYTES", value_parser = parse_segment)]
    segment: Option<u64>,
    /// Threads that code a transfer together
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: u16,
    /// What chance depends on: which files, which transfers
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Few and short transfers, timed less often: seconds instead of a minute
    #[arg(long)]
    pub(super) quick: bool,
    /// Draw the regret over the link rates into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub(super) plot: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    /// Fails if a flag is there that means nothing beside another.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        if self.segment.is_some() && self.overlaps() == [false] {
            return Err(BenchError::NoUse { flag: "segment", with: "--overlap no" });
        }
        Ok(())
    }

    pub(super) fn segment(&self) -> u64 {
        self.segment.unwrap_or(1 << 20)
    }

    pub(super) fn transfers(&self) -> usize {
        self.transfers.unwrap_or(if self.quick { 80 } else { 400 }) as usize
    }

    pub(super) fn longest(&self) -> usize {
        self.longest.unwrap_or(if self.quick { 1 << 20 } else { 64 << 20 })
    }

    /// How often each time is taken.
    pub(super) const fn rounds(&self) -> usize {
        if self.quick { 3 } else { 5 }
    }

    pub(super) fn latency_ns(&self) -> u64 {
        (self.latency_us * 1000.0).round() as u64
    }

    pub(super) fn overlaps(&self) -> &'static [bool] {
        match self.overlap.as_deref() {
            Some("yes") => &[true],
            Some(_) => &[false],
            None => &[false, true],
        }
    }
}

/// A value that is none of its flag's, or several that do not fit together.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ArgError {
    #[error("{0:?} is no link rate: it must be a number of Gb/s from 0.001 to 1000000")]
    Rate(String),
    #[error("{0:?} is no latency: it must be a number of microseconds from 0 to 1000000")]
    Latency(String),
    #[error("transfers of {shortest} to {longest} bytes: --shortest is above --longest")]
    Lengths { shortest: usize, longest: usize },
    #[error("no sequence is called {name:?}; names are {known}")]
    Sequence { name: String, known: String },
}

fn parse_rate(text: &str) -> Result<f64, ArgError> {
    match text.parse::<f64>() {
        Ok(rate) if (1e-3..=1e6).contains(&rate) => Ok(rate),
        _ => Err(ArgError::Rate(text.to_owned())),
    }
}

fn parse_latency(text: &str) -> Result<f64, ArgError> {
    match text.parse::<f64>() {
        Ok(us) if (0.0..=1e6).contains(&us) => Ok(us),
        _ => Err(ArgError::Latency(text.to_owned())),
    }
}

fn parse_segment(text: &str) -> Result<u64, crate::codec::ArgError> {
    parse_bytes(text).map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_links() {
        for (text, rate) in [("0.001", 1e-3), ("0.5", 0.5), ("1000000", 1e6)] {
            assert_eq!(parse_rate(text), Ok(rate));
        }
        for text in ["0", "-1", "1e-310", "0.0009", "1000001", "NaN", "inf", "x", ""] {
            assert_eq!(parse_rate(text), Err(ArgError::Rate(text.into())), "{text}");
        }
    }

    #[test]
    fn latencies_are_from_zero_on() {
        assert_eq!(parse_latency("0"), Ok(0.0));
        for text in ["-1", "NaN", "inf", "1000001", ""] {
            assert_eq!(parse_latency(text), Err(ArgError::Latency(text.into())), "{text}");
        }
    }
}
