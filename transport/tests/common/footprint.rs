//! What this process has, which must be as much after a test as before.

use std::fs;
use std::sync::{Mutex, PoisonError};

use super::fabric::Fabric;
use super::job::{config, nodes};
use super::{wait_until, watched};

/// Threads of the library, descriptors, and maps of memory files. `None` where the system does not tell.
fn footprint() -> Option<[usize; 3]> {
    let entries = |path| fs::read_dir(path).ok().map(Iterator::flatten);
    // Threads of the tests come and go.
    let is_ours = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.starts_with("mgcomp-"))
    };
    let threads = entries("/proc/self/task")?.filter(is_ours).count();
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let shared = maps.lines().filter(|map| map.contains("/memfd:")).count();
    Some([threads, entries("/proc/self/fd")?.count(), shared])
}

/// Descriptors and KiB of memory of this process, where the system tells.
pub(crate) fn descriptors_and_rss_kib() -> Option<(usize, u64)> {
    let [_, descriptors, _] = footprint()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some((descriptors, rss.trim().trim_end_matches(" kB").parse().ok()?))
}

/// Runs `body`, whose ranks are joined by such a link, while no other test runs, and checks that nothing of it is left.
pub(crate) fn leaving_nothing(fabric: Fabric, body: impl FnOnce() + Send + 'static) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // What a process has once for all of its nodes is there from the first one on.
    watched(move || drop(nodes(fabric, 2, "fixed:none", &config())));
    let rested = || footprint().is_none_or(|[threads, ..]| threads == 0);
    wait_until("the nodes are gone", rested);
    let before = footprint();
    watched(body);
    let Some(before) = before else {
        return println!("SKIPPED: the system does not tell what a process has");
    };
    wait_until("threads, descriptors and memory are given back", || {
        footprint().is_some_and(|now| now.iter().zip(&before).all(|(now, before)| now <= before))
    });
}
