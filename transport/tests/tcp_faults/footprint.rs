//! What this process has, which must be as much after a test as before.

use std::fs;
use std::sync::{Mutex, PoisonError};

use crate::common::fabric::Fabric;
use crate::common::job::config;
use crate::common::wait_until;

/// Threads of the library, and descriptors. `None` where the system does not tell.
fn footprint() -> Option<[usize; 2]> {
    let entries = |path| fs::read_dir(path).ok().map(Iterator::flatten);
    // Threads of the tests come and go.
    let is_ours = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.starts_with("mgcomp-"))
    };
    let threads = entries("/proc/self/task")?.filter(is_ours).count();
    Some([threads, entries("/proc/self/fd")?.count()])
}

/// Descriptors and KiB of memory of this process, where the system tells.
pub(crate) fn descriptors_and_rss_kib() -> Option<(usize, u64)> {
    let [_, descriptors] = footprint()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some((descriptors, rss.trim().trim_end_matches(" kB").parse().ok()?))
}

/// Runs `body` while no other test runs, and checks that nothing of it is left.
pub(crate) fn leaving_nothing(body: impl FnOnce() + Send + 'static) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // What a process has once for all of its nodes is there from the first one on.
    crate::watched(|| drop(crate::common::job::nodes(Fabric::tcp(), 2, "fixed:none", &config())));
    let rested = || footprint().is_none_or(|[threads, _]| threads == 0);
    wait_until("the nodes are gone", rested);
    let before = footprint();
    crate::watched(body);
    let Some(before) = before else {
        return println!("SKIPPED: the system does not tell what a process has");
    };
    wait_until("threads and descriptors are given back", || {
        footprint().is_some_and(|now| now.iter().zip(&before).all(|(now, before)| now <= before))
    });
}
