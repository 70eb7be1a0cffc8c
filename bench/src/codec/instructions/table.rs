//! Counts as a table or as JSON, one object a line.

use serde::Serialize;

use super::super::print::put;
use super::{OPERATIONS, Subject};
use crate::error::BenchError;

/// The raw bytes that counts are given for.
const PER_BYTES: f64 = 64.0;

/// The keys of `--json`. Counts are instructions per 64 bytes of uncompressed data.
#[derive(Serialize)]
struct Row<'a> {
    algorithm: &'static str,
    element: &'static str,
    dataset: &'a str,
    isa: &'static str,
    bytes: usize,
    encode_instructions: f64,
    decode_instructions: f64,
    estimate_instructions: f64,
}

pub(super) fn heading(json: bool) -> Result<(), BenchError> {
    if json {
        return Ok(());
    }
    put("Instructions per 64 bytes of uncompressed data, of codecs on chunks of 16 KiB, counted one by one")?;
    put("algorithm  element  isa       encode   decode  estimate  data")
}

pub(super) fn print(json: bool, subject: &Subject, counts: [u64; OPERATIONS]) -> Result<(), BenchError> {
    let bytes = subject.raw.len();
    let [encode, decode, estimate] =
        counts.map(|count| (count as f64 * PER_BYTES / bytes as f64 * 10.0).round() / 10.0);
    let row = Row {
        algorithm: subject.algorithm.name(),
        element: subject.element.name(),
        dataset: &subject.dataset,
        isa: subject.cpu.isa().name(),
        bytes,
        encode_instructions: encode,
        decode_instructions: decode,
        estimate_instructions: estimate,
    };
    if json {
        return put(&serde_json::to_string(&row).expect("a row has string keys"));
    }
    put(&format!(
        "{:<9}  {:<7}  {:<8}  {encode:>6.1}  {decode:>7.1}  {estimate:>8.1}  {}",
        row.algorithm, row.element, row.isa, row.dataset
    ))
}
