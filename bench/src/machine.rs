//! What the figures were measured on, as far as the system tells.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread;

use crate::error::BenchError;

/// Where Linux describes the caches of the first core.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// A data cache of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    pub(crate) level: u32,
    pub(crate) bytes: usize,
}

/// A machine, with what it does not tell left out.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) model: Option<String>,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// By level.
    pub(crate) caches: Vec<Cache>,
    /// Threads that ran or wanted to in the last minute, on average.
    pub(crate) load: Option<f64>,
}

impl Machine {
    /// This machine.
    pub(crate) fn detect() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            model: field(&cpuinfo, "model name").map(str::to_owned),
            cores: thread::available_parallelism().map_or(1, NonZero::get),
            caches: caches(Path::new(CACHES)),
            load: load(&fs::read_to_string("/proc/loadavg").unwrap_or_default()),
        }
    }

    /// Size of the last-level cache.
    pub(crate) fn last_cache_bytes(&self) -> Option<usize> {
        self.caches.last().map(|cache| cache.bytes)
    }

    /// Size of the second-level cache.
    pub(crate) fn l2_bytes(&self) -> Option<usize> {
        self.caches.iter().find(|cache| cache.level == 2).map(|cache| cache.bytes)
    }

    /// One line that names the machine.
    pub(crate) fn describe(&self) -> String {
        let mut text = self.model.clone().unwrap_or_else(|| "unknown processor".into());
        text += &format!(", {} {}", self.cores, if self.cores == 1 { "core" } else { "cores" });
        for Cache { level, bytes } in &self.caches {
            text += &format!(", L{level} {}", size(*bytes));
        }
        if let Some(load) = self.load {
            text += &format!(", load {load:.2}");
        }
        text
    }
}

/// Fails if the system could not hand out the `needed` bytes that a run with buffers of `bytes` bytes takes.
pub(crate) fn check_memory(bytes: usize, needed: u64) -> Result<(), BenchError> {
    match available_bytes() {
        Some(available) if available < needed => Err(BenchError::Memory { bytes, needed, available }),
        _ => Ok(()),
    }
}

/// Memory that the system could hand out now; none where it does not say.
fn available_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = field(&meminfo, "MemAvailable")?.strip_suffix(" kB")?;
    Some(1024 * kib.parse::<u64>().ok()?)
}

/// `bytes` in the largest binary unit that divides it.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 30 && b.is_multiple_of(1 << 30) => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.trim_start().strip_prefix(':').map(str::trim);
    text.lines().find_map(value)
}

fn load(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

fn caches(folder: &Path) -> Vec<Cache> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut caches: Vec<Cache> = entries.filter_map(|entry| cache(&entry.ok()?.path())).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn cache(folder: &Path) -> Option<Cache> {
    let read = |name| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
    if read("type")? == "Instruction" {
        return None;
    }
    Some(Cache { level: read("level")?.parse().ok()?, bytes: cache_bytes(&read("size")?)? })
}

/// A size as the system writes it, such as `32K`.
fn cache_bytes(text: &str) -> Option<usize> {
    let (digits, unit) = match text.strip_suffix(['K', 'M']) {
        Some(digits) => (digits, if text.ends_with('K') { 1 << 10 } else { 1 << 20 }),
        None => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        let cases = [("32K", 32_768, "32 KiB"), ("2M", 2_097_152, "2 MiB"), ("1000", 1000, "1000 B")];
        for (text, bytes, shown) in cases {
            assert_eq!(cache_bytes(text), Some(bytes));
            assert_eq!(size(bytes), shown);
        }
        assert_eq!(cache_bytes("K"), None);
        assert_eq!(size(1 << 30), "1 GiB");
        assert_eq!(size((1 << 30) + 1), "1073741825 B");
    }

    #[test]
    fn fields_are_found() {
        let text = "vendor_id\t: x\nmodel name\t: Some CPU: fast\nmodel name\t: other\n";
        assert_eq!(field(text, "model name"), Some("Some CPU: fast"));
        assert_eq!(field(text, "model"), None);
    }

    #[test]
    fn a_machine_is_described_in_one_line() {
        let caches = vec![Cache { level: 1, bytes: 32 << 10 }, Cache { level: 2, bytes: 1 << 20 }];
        let mut machine =
            Machine { model: Some("CPU".into()), cores: 2, caches, load: load("5.764 3.08 1.62 8/151 2") };
        assert_eq!(machine.describe(), "CPU, 2 cores, L1 32 KiB, L2 1 MiB, load 5.76");
        assert_eq!((machine.l2_bytes(), machine.last_cache_bytes()), (Some(1 << 20), Some(1 << 20)));
        machine = Machine { model: None, cores: 1, caches: Vec::new(), load: load("") };
        assert_eq!(machine.describe(), "unknown processor, 1 core");
        assert_eq!((machine.l2_bytes(), machine.last_cache_bytes()), (None, None));
    }
}
