//! What was found: printed as it comes, and kept for files.

mod files;
mod line;
mod markdown;
mod picture;
mod row;

use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mgcomp_codecs::device::{Compiler, DeviceInfo};

use crate::error::BenchError;
use crate::machine::{Machine, size};
pub(super) use row::{
    Buddied, Checked, Gathered, Linked, Method, Offloaded, PeerCopied, Reduced, Seconds, Shared, ShortCopied,
    Timed, rounded,
};
use row::{Row, Run, Skipped};

/// The rows so far.
pub(super) struct Report {
    json: bool,
    rows: Vec<Row>,
    /// The buffer of the last row with times.
    last: Option<(String, usize)>,
}

impl Report {
    /// A report about `device`.
    pub(super) fn new(device: &DeviceInfo, json: bool) -> Result<Self, BenchError> {
        let run = Run {
            version: env!("CARGO_PKG_VERSION"),
            date: today(),
            device: device.name.clone(),
            capability: device.capability.to_string(),
            sm_count: device.sm_count,
            l2_bytes: device.l2_bytes,
            memory_bytes: device.memory_bytes,
            driver_cuda: cuda_version(device.driver_version),
            nvrtc: Compiler::instance().ok().map(|nvrtc| {
                let (major, minor) = nvrtc.version();
                format!("{major}.{minor}")
            }),
            cpu: Machine::detect().describe(),
        };
        let mut report = Self { json, rows: Vec::new(), last: None };
        report.add(Row::Run(run))?;
        Ok(report)
    }

    pub(super) fn checked(&mut self, checked: Checked) -> Result<(), BenchError> {
        self.add(Row::Check(checked))
    }

    pub(super) fn timed(&mut self, timed: Timed) -> Result<(), BenchError> {
        let buffer = (timed.dataset.clone(), timed.bytes);
        if !self.json && self.last.as_ref() != Some(&buffer) {
            put(&format!("\n{} ({}), {}", timed.dataset, timed.element, size(timed.bytes)))?;
            put(line::HEADING)?;
            self.last = Some(buffer);
        }
        self.add(Row::Time(timed))
    }

    pub(super) fn linked(&mut self, linked: Linked) -> Result<(), BenchError> {
        self.add(Row::Link(linked))
    }

    pub(super) fn peer_copied(&mut self, copied: PeerCopied) -> Result<(), BenchError> {
        self.add(Row::Peer(copied))
    }

    pub(super) fn short_copied(&mut self, copied: ShortCopied) -> Result<(), BenchError> {
        self.add(Row::Short(copied))
    }

    pub(super) fn shared(&mut self, shared: Shared) -> Result<(), BenchError> {
        self.add(Row::Shared(shared))
    }

    pub(super) fn offloaded(&mut self, offloaded: Offloaded) -> Result<(), BenchError> {
        self.add(Row::Offload(offloaded))
    }

    pub(super) fn buddied(&mut self, buddied: Buddied) -> Result<(), BenchError> {
        self.add(Row::Buddy(buddied))
    }

    pub(super) fn gathered(&mut self, gathered: Gathered) -> Result<(), BenchError> {
        self.add(Row::Gather(gathered))
    }

    pub(super) fn reduced(&mut self, reduced: Reduced) -> Result<(), BenchError> {
        self.add(Row::Reduce(reduced))
    }

    /// Says that `what` was left out.
    pub(super) fn skipped(&mut self, what: &str, why: &str) -> Result<(), BenchError> {
        self.add(Row::Skipped(Skipped { what: what.into(), why: why.into() }))
    }

    fn add(&mut self, row: Row) -> Result<(), BenchError> {
        put(&if self.json { row.json() } else { row.to_string() })?;
        self.rows.push(row);
        Ok(())
    }

    /// Writes all rows, a table and a picture into `folder`, beside those of earlier runs.
    pub(super) fn write(&self, folder: &Path) -> Result<(), BenchError> {
        let Some(Row::Run(run)) = self.rows.first() else { return Ok(()) };
        let stem = format!("{}_{}", run.date, slug(&run.device));
        let json: String = self.rows.iter().map(|row| row.json() + "\n").collect();
        let mut files = vec![("json", json), ("md", markdown::table(run, &self.rows))];
        files.extend(picture::draw(run, &self.rows).map(|svg| ("svg", svg)));
        files::write(folder, &stem, &files)
    }
}

fn put(line: &str) -> Result<(), BenchError> {
    writeln!(io::stdout(), "{line}").map_err(BenchError::Stdout)
}

/// `13000` as `13.0`.
fn cuda_version(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// A name as part of a file's.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// The date in Greenwich, as in `2026-05-31`.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    date(seconds / 86_400)
}

/// The date so many days after 1970-01-01.
fn date(mut days: u64) -> String {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < len {
            break;
        }
        days -= len;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        let cases = [
            (0, "1970-01-01"),
            (30, "1970-01-31"),
            (31, "1970-02-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ];
        for (days, expected) in cases {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn names_fit_into_files() {
        assert_eq!(slug("NVIDIA H100 80GB HBM3"), "nvidia-h100-80gb-hbm3");
        assert_eq!(slug("../x (y)"), "x-y");
        assert_eq!((cuda_version(13_000), cuda_version(12_080)), ("13.0".into(), "12.8".into()));
    }
}
