//! The rows of such a file that matter here.

use serde::Deserialize;

use super::ResultsError;
use crate::breakeven::codec::Rates;
use crate::breakeven::model::Stages;
use crate::scale::PLAUSIBLE;

/// A line of the file.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Row {
    Run {
        device: String,
    },
    Time(Timed),
    Link(Linked),
    Offload(Offloaded),
    Peer(PeerCopied),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub(super) struct Timed {
    pub(super) subject: String,
    pub(super) dataset: String,
    pub(super) bytes: usize,
    ratio: f64,
    encode_gbps: f64,
    decode_gbps: f64,
}

#[derive(Deserialize)]
pub(super) struct Linked {
    pub(super) subject: String,
    dataset: String,
    bytes: usize,
    to_host_plain_gbps: f64,
    to_host_gbps: f64,
    to_device_plain_gbps: f64,
    to_device_gbps: f64,
}

#[derive(Deserialize)]
pub(super) struct Offloaded {
    pub(super) subject: String,
    dataset: String,
    bytes: usize,
    offload_raw_gbps: f64,
    offload_gbps: f64,
    return_raw_gbps: f64,
    return_gbps: f64,
}

#[derive(Deserialize)]
pub(super) struct PeerCopied {
    pub(super) subject: String,
    dataset: String,
    bytes: usize,
    to: String,
    is_direct: bool,
    plain_gbps: f64,
    gbps: f64,
}

/// A copy that was timed plain and compressed.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::breakeven) struct Copied {
    /// Where to, and by what.
    pub(in crate::breakeven) way: String,
    pub(in crate::breakeven) dataset: String,
    /// What a codec did while it was timed.
    pub(in crate::breakeven) stages: Stages,
    pub(in crate::breakeven) bytes: usize,
    /// 10⁹ uncompressed bytes per second, both.
    pub(in crate::breakeven) plain_gbytes: f64,
    pub(in crate::breakeven) gbytes: f64,
}

impl Timed {
    pub(super) fn rates(&self, line: usize) -> Result<Rates, ResultsError> {
        check_bytes(line, self.bytes)?;
        Ok(Rates {
            ratio: checked(line, "ratio", self.ratio)?,
            encode_gbytes: checked(line, "encode_gbps", self.encode_gbps)?,
            decode_gbytes: checked(line, "decode_gbps", self.decode_gbps)?,
        })
    }
}

impl Linked {
    pub(super) fn copies(&self, line: usize) -> Result<[Copied; 2], ResultsError> {
        check_bytes(line, self.bytes)?;
        let place = Place { dataset: &self.dataset, bytes: self.bytes };
        Ok([
            place.copied(
                "to the host",
                Stages::Encode,
                checked(line, "to_host_plain_gbps", self.to_host_plain_gbps)?,
                checked(line, "to_host_gbps", self.to_host_gbps)?,
            ),
            place.copied(
                "to the device",
                Stages::Decode,
                checked(line, "to_device_plain_gbps", self.to_device_plain_gbps)?,
                checked(line, "to_device_gbps", self.to_device_gbps)?,
            ),
        ])
    }
}

impl Offloaded {
    pub(super) fn copies(&self, line: usize) -> Result<[Copied; 2], ResultsError> {
        check_bytes(line, self.bytes)?;
        let place = Place { dataset: &self.dataset, bytes: self.bytes };
        Ok([
            place.copied(
                "offload",
                Stages::Encode,
                checked(line, "offload_raw_gbps", self.offload_raw_gbps)?,
                checked(line, "offload_gbps", self.offload_gbps)?,
            ),
            place.copied(
                "return",
                Stages::Decode,
                checked(line, "return_raw_gbps", self.return_raw_gbps)?,
                checked(line, "return_gbps", self.return_gbps)?,
            ),
        ])
    }
}

impl PeerCopied {
    pub(super) fn copy(&self, line: usize) -> Result<Copied, ResultsError> {
        check_bytes(line, self.bytes)?;
        let place = Place { dataset: &self.dataset, bytes: self.bytes };
        let through = if self.is_direct { "" } else { " through the host" };
        let plain_gbytes = checked(line, "plain_gbps", self.plain_gbps)?;
        let gbytes = checked(line, "gbps", self.gbps)?;
        Ok(place.copied(&format!("to {}{through}", self.to), Stages::Both, plain_gbytes, gbytes))
    }
}

/// What the copies of a row have in common.
struct Place<'a> {
    dataset: &'a str,
    bytes: usize,
}

impl Place<'_> {
    fn copied(&self, way: &str, stages: Stages, plain_gbytes: f64, gbytes: f64) -> Copied {
        let (way, dataset) = (way.to_owned(), self.dataset.to_owned());
        Copied { way, dataset, stages, bytes: self.bytes, plain_gbytes, gbytes }
    }
}

fn check_bytes(line: usize, bytes: usize) -> Result<(), ResultsError> {
    if bytes == 0 { Err(ResultsError::NoBytes { line }) } else { Ok(()) }
}

/// `value`, if it can have been measured.
fn checked(line: usize, key: &'static str, value: f64) -> Result<f64, ResultsError> {
    let (low, high) = PLAUSIBLE;
    if (low..=high).contains(&value) { Ok(value) } else { Err(ResultsError::Value { line, key, value }) }
}
