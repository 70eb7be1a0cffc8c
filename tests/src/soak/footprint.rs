//! What a process has of the system, and whether that grows.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

/// What a process has at a moment at which it should have next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Memory that is there (`VmRSS`), in KiB.
    pub rss_kib: u64,
    /// Threads.
    pub threads: u64,
    /// Open files, sockets among them.
    pub descriptors: u64,
}

impl Footprint {
    /// That of this process.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn own() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let descriptors = fs::read_dir("/proc/self/fd")?.count() as u64;
        Ok(Self { rss_kib: field("VmRSS:"), threads: field("Threads:"), descriptors })
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.rss_kib, self.threads, self.descriptors)
    }
}

impl FromStr for Footprint {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let mut number = || words.next().unwrap_or_default().parse();
        Ok(Self { rss_kib: number()?, threads: number()?, descriptors: number()? })
    }
}

/// How much memory may be more in the last quarter than in the second one, by medians: an allocator does not give all
/// back at once.
const GROWTH_KIB: u64 = 16 << 10;

/// Fewer generations than four times as many tell nothing: what an allocator keeps grows through the first dozens.
const LEAST_QUARTER: usize = 15;

/// By how much memory grows over `footprints`, from the second quarter of them on: in the first one, buffers and arenas are
/// made that stay. `None` if there are too few to tell.
pub(super) fn growth_kib(footprints: &[Footprint]) -> Option<u64> {
    let quarter = footprints.len() / 4;
    if quarter < LEAST_QUARTER {
        return None;
    }
    let median = |part: &[Footprint]| {
        let mut rss: Vec<u64> = part.iter().map(|footprint| footprint.rss_kib).collect();
        rss.sort_unstable();
        rss[rss.len() / 2]
    };
    let (second, last) = (&footprints[quarter..2 * quarter], &footprints[footprints.len() - quarter..]);
    Some(median(last).saturating_sub(median(second)))
}

/// The same as a verdict.
pub(super) fn is_flat(growth_kib: u64) -> bool {
    growth_kib <= GROWTH_KIB
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprints(rss_kib: impl Iterator<Item = u64>) -> Vec<Footprint> {
        rss_kib.map(|rss_kib| Footprint { rss_kib, threads: 1, descriptors: 4 }).collect()
    }

    #[test]
    fn a_leak_is_told_from_a_start() {
        assert_eq!(growth_kib(&footprints(0..59)), None);
        let settled = footprints((0..100).map(|i| if i < 20 { i * 1000 } else { 50_000 + i % 3 }));
        assert!(is_flat(growth_kib(&settled).unwrap()));
        let leaking = footprints((0..100).map(|i| 50_000 + i * 400));
        assert_eq!(growth_kib(&leaking), Some(50 * 400));
        assert!(!is_flat(growth_kib(&leaking).unwrap()));
    }

    #[test]
    fn footprints_go_through_text() {
        let own = Footprint::own().unwrap();
        assert!(own.rss_kib > 100 && own.threads >= 1 && own.descriptors >= 3, "{own}");
        assert_eq!(own.to_string().parse(), Ok(own));
        assert!("1 2".parse::<Footprint>().is_err());
    }
}
