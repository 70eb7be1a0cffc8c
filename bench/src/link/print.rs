//! Rows as a table or as JSON, one object a line.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::error::BenchError;
use crate::machine::{Machine, size};

/// The keys of `--json`. Speeds are in 10⁹ bytes per second.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Row {
    link: &'static str,
    bytes: usize,
    latency_ns: u64,
    gbps: f64,
    memcpy_gbps: f64,
    /// Of memcpy's speed.
    of_memcpy: f64,
}

impl Row {
    pub(super) fn new(
        link: &'static str,
        bytes: usize,
        latency: Duration,
        gbps: f64,
        memcpy_gbps: f64,
    ) -> Self {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        Self { link, bytes, latency_ns, gbps, memcpy_gbps, of_memcpy: gbps / memcpy_gbps }
    }
}

/// Prints rows as they come.
pub(super) struct Printer {
    json: bool,
}

impl Printer {
    pub(super) fn start(json: bool) -> Result<Self, BenchError> {
        if !json {
            let machine = Machine::detect().describe();
            line(&format!("{machine}\n\n   bytes  link      latency ns     GB/s   memcpy  of memcpy"))?;
        }
        Ok(Self { json })
    }

    pub(super) fn row(&self, row: &Row) -> Result<(), BenchError> {
        if self.json {
            return line(&serde_json::to_string(row).map_err(|error| BenchError::Stdout(error.into()))?);
        }
        let Row { link, bytes, latency_ns, gbps, memcpy_gbps, of_memcpy } = row;
        let bytes = size(*bytes);
        line(&format!(
            "{bytes:>8}  {link:<8} {latency_ns:>11} {gbps:>8.2} {memcpy_gbps:>8.2} {of_memcpy:>10.3}"
        ))
    }
}

fn line(text: &str) -> Result<(), BenchError> {
    writeln!(io::stdout(), "{text}").map_err(BenchError::Stdout)
}
