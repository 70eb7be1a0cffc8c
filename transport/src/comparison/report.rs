//! What a rank has seen of a comparison, as ranks tell each other of collectives.
//!
//! ```text
//! byte 0            8              16           24
//!      raw_ns, u64  coded_ns, u64  of_each, u64
//! ```
//! All numbers are little-endian.

use std::time::Duration;

/// Bytes in which a rank tells the others what it has seen.
pub const REPORT_LEN: usize = 24;

/// What a rank has seen, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// What they take raw. Before a comparison, what one would take.
    pub(super) raw_ns: u64,
    /// What they take as the policy would have it; before a comparison, what that one took, or 0 if that is clear.
    pub(super) coded_ns: u64,
    /// How many there were of each way: of none the rank knows nothing. Before a comparison, one if the policy wants to compress any.
    pub(super) of_each: u64,
}

impl Report {
    /// What is to be said of all ranks by those that know anything: a collective is over where it takes longest.
    pub(super) fn of_slowest(reports: &[Self]) -> Self {
        let telling = || reports.iter().filter(|report| report.of_each > 0);
        Self {
            raw_ns: telling().map(|report| report.raw_ns).max().unwrap_or_default(),
            coded_ns: telling().map(|report| report.coded_ns).max().unwrap_or_default(),
            of_each: telling().map(|report| report.of_each).min().unwrap_or_default(),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; REPORT_LEN] {
        let mut bytes = [0; REPORT_LEN];
        for (word, value) in bytes.chunks_exact_mut(8).zip([self.raw_ns, self.coded_ns, self.of_each]) {
            word.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || words.next().unwrap_or_default();
        Self { raw_ns: next(), coded_ns: next(), of_each: next() }
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_three_words() {
        let report = Report { raw_ns: 1, coded_ns: 0x0203, of_each: 4 };
        let mut bytes = [0; 24];
        (bytes[0], bytes[8], bytes[9], bytes[16]) = (1, 3, 2, 4);
        assert_eq!(report.to_bytes(), bytes);
        assert_eq!(Report::of_bytes(&bytes), report);
    }

    #[test]
    fn who_knows_nothing_is_not_heard() {
        let report = |raw_ns, coded_ns, of_each| Report { raw_ns, coded_ns, of_each };
        let told = [report(10, 30, 4), report(99, 99, 0), report(20, 25, 3)];
        assert_eq!(Report::of_slowest(&told), report(20, 30, 3));
        assert_eq!(Report::of_slowest(&[report(99, 99, 0)]), Report::default());
    }
}
