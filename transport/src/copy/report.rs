//! What a copy came to.

use std::fmt;
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::Reason;

/// What a copy came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyReport {
    /// Bytes that were copied.
    pub raw_bytes: u64,
    /// Bytes that went over the link, or are kept: all frames, and the raw bytes of segments that did not shrink.
    pub coded_bytes: u64,
    /// How they were coded; `none` if no segment shrank.
    pub algorithm: Algorithm,
    /// Why the policy chose that; none for what was expanded.
    pub reason: Option<Reason>,
    /// Time that codecs took to encode, all threads together.
    pub encode: Duration,
    /// Time that codecs took to decode.
    pub decode: Duration,
    /// From the call to the end.
    pub took: Duration,
    /// Gb/s of the simulated link that carried it; none if no link did.
    pub simulated_gbps: Option<f64>,
}

impl CopyReport {
    /// Raw bytes per coded byte; 1 of no bytes.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.coded_bytes == 0 { 1.0 } else { self.raw_bytes as f64 / self.coded_bytes as f64 }
    }
}

impl fmt::Display for CopyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { raw_bytes, coded_bytes, algorithm, took, .. } = self;
        write!(f, "{raw_bytes} bytes as {coded_bytes} ({algorithm}) in {took:.1?}")?;
        match self.simulated_gbps {
            Some(gbps) => write!(f, " over a simulated link of {} GB/s", gbps / 8.0),
            None => Ok(()),
        }
    }
}
