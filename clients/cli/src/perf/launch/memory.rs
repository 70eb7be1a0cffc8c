//! Whether there is memory for all that is asked for.

use std::fs;

use super::super::error::PerfError;
use super::super::options::Args;

/// Refuses what `local_ranks` of `ranks` could not have in memory here. Does not refuse where the system does not say
/// how much it has.
pub(super) fn check(args: &Args, ranks: usize, local_ranks: u32) -> Result<(), PerfError> {
    if args.devices().is_some() {
        return Ok(()); // there it is the driver that says so
    }
    let buffers = if args.needs_aside() { 2 } else { 1 };
    let needed = (args.longest(ranks) as u64).saturating_mul(buffers).saturating_mul(local_ranks.into());
    match available_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default()) {
        Some(available) if needed > available => {
            Err(PerfError::Memory { ranks: local_ranks, needed, available })
        }
        _ => Ok(()),
    }
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(1024 * line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read() {
        let text = "MemTotal:       24000 kB\nMemAvailable:   12345 kB\nBuffers: 1 kB\n";
        assert_eq!(available_bytes(text), Some(12_345 * 1024));
        assert_eq!(available_bytes(""), None);
    }
}
