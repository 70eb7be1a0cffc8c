//! How many cores a rank has, and how many codec threads unless it is told.

use std::thread;

use crate::control::local_ranks;

/// More hardly help: codecs run beside the link.
const MOST: usize = 2;

/// Codec threads of this process unless it is told otherwise: as many as its CPU affinity and cgroup quota leave for each rank
/// that its launcher says there are on this node, at least one and at most two.
#[must_use]
pub fn usual_codec_threads() -> usize {
    let local_ranks = local_ranks().unwrap_or(1);
    if has_cores_of_its_own(usable(), affinity(), online(), local_ranks) {
        usable().clamp(1, MOST)
    } else {
        shared_codec_threads(local_ranks)
    }
}

/// The same of each of so many ranks that share what this process may use.
#[must_use]
pub fn shared_codec_threads(ranks: u32) -> usize {
    share(usable(), ranks)
}

/// Cores that a rank has, or would have if what there is were shared out among the ranks of this node, of which the link knows
/// `ranks`. They may be less than one.
pub(crate) fn usual_cores(ranks: u32) -> f64 {
    cores((usable(), affinity(), online()), local_ranks().unwrap_or(1), ranks)
}

fn share(usable: usize, ranks: u32) -> usize {
    (usable / usize::try_from(ranks).unwrap_or(usize::MAX).max(1)).clamp(1, MOST)
}

/// Launchers may have bound the ranks that they tell of. Nobody has bound those that the link knows besides.
fn cores((usable, affinity, online): (usize, Option<usize>, Option<usize>), told: u32, known: u32) -> f64 {
    let has_own = known <= told && has_cores_of_its_own(usable, affinity, online, told);
    usable as f64 / if has_own { 1.0 } else { f64::from(told.max(known).max(1)) }
}

/// Whether launchers have bound ranks to cores of their own, as they can have if there are enough of them. Who may use fewer
/// than it is bound to has a quota, which is for all of them.
fn has_cores_of_its_own(
    usable: usize,
    affinity: Option<usize>,
    online: Option<usize>,
    local_ranks: u32,
) -> bool {
    let all = usable.saturating_mul(usize::try_from(local_ranks).unwrap_or(usize::MAX));
    affinity.is_some_and(|affinity| affinity == usable) && online.is_some_and(|online| all <= online)
}

/// Cores that this process may use.
fn usable() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Cores that the system has.
#[expect(unsafe_code)]
fn online() -> Option<usize> {
    // SAFETY: it takes a number and returns one.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(cores).ok().filter(|&cores| cores > 0)
}

/// Cores that this thread is bound to.
#[cfg(target_os = "linux")]
#[expect(unsafe_code)]
fn affinity() -> Option<usize> {
    // SAFETY: all bits zero are a set of no cores; the call gets its size and writes no more than that.
    let cores = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) != 0 {
            return None; // more cores than fit
        }
        libc::CPU_COUNT(&set)
    };
    usize::try_from(cores).ok()
}

/// Cores that this thread is bound to, which cannot be asked here.
#[cfg(not(target_os = "linux"))]
fn affinity() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_what_they_may_use() {
        assert_eq!([1, 2, 3, 4, 5, 8].map(|ranks| share(8, ranks)), [2, 2, 2, 2, 1, 1]);
        assert_eq!([share(2, 1), share(2, 2), share(2, 8)], [2, 1, 1]);
        assert_eq!([share(1, 1), share(64, u32::MAX), share(4, 0)], [1, 1, 2]);
    }

    #[test]
    fn ranks_may_have_cores_of_their_own() {
        let own = |usable, affinity, online, ranks| {
            has_cores_of_its_own(usable, Some(affinity), Some(online), ranks)
        };
        assert!(own(4, 4, 32, 8), "8 ranks, bound to 4 of 32 cores each");
        assert!(!own(16, 16, 32, 16), "bound to 16 each, of which there are not so many");
        assert!(!own(32, 32, 32, 2), "not bound at all");
        assert!(!own(2, 64, 64, 8), "a quota of 2 cores is for all 8");
        assert!(!own(4, 4, 32, u32::MAX));
        assert!(!has_cores_of_its_own(4, None, None, 2), "nothing can be asked");
    }

    #[test]
    fn cores_are_shared_out_unless_ranks_have_their_own() {
        let cores = |usable, affinity, told, known| cores((usable, Some(affinity), Some(32)), told, known);
        assert_eq!([1, 2, 64].map(|told| cores(32, 32, told, 1)), [32.0, 16.0, 0.5]);
        assert_eq!([1, 2, 64].map(|known| cores(32, 32, 1, known)), [32.0, 16.0, 0.5]);
        assert_eq!(cores(4, 4, 8, 8), 4.0, "bound to 4 each");
        assert_eq!(cores(2, 2, 1, 4), 0.5, "bound to 2 together");
        assert_eq!(cores(2, 32, 8, 1), 0.25, "a quota is for all");
        assert_eq!(cores(1, 1, 0, 0), 1.0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_knows_its_cores() {
        let (affinity, online) = (affinity().unwrap(), online().unwrap());
        assert!((1..=online).contains(&affinity), "{affinity} of {online}");
    }
}
