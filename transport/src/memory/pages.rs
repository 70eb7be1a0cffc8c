//! Pages of memory that is read here and there.

/// Asks for large pages under the whole ones of `bytes`, where the system has them: finding a page that was not read lately
/// takes as long as decoding a row. Nothing but speed depends on the answer.
#[cfg(target_os = "linux")]
pub(crate) fn enlarge(bytes: &[u8]) {
    if bytes.len() < LARGE_PAGE_BYTES || !are_allowed() {
        return;
    }
    let Some(first) = bytes.as_ptr().addr().checked_next_multiple_of(LARGE_PAGE_BYTES) else { return };
    let end = bytes.as_ptr_range().end.addr() / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    let len = end.saturating_sub(first);
    let start = bytes.as_ptr().with_addr(first).cast_mut().cast();
    // SAFETY: the range lies inside `bytes`; pages change their size and their place, but not what is read or written there.
    let done = len == 0 || unsafe { libc::madvise(start, len, MADV_COLLAPSE) } == 0;
    if !done {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, len, "no large pages");
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn enlarge(_: &[u8]) {}

/// Where pages are larger than this, they need no help.
#[cfg(target_os = "linux")]
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// Since Linux 6.1; not in all C libraries' headers.
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: i32 = 25;

/// Whether whoever runs the machine lets programs have them; the call alone does not ask.
#[cfg(target_os = "linux")]
fn are_allowed() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| !setting.contains("[never]"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Bytes of large pages that the system says are under any of `bytes`.
    fn large_bytes(bytes: &[u8]) -> usize {
        let (mut inside, mut sum) = (false, 0);
        for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            let (first, rest) = line.split_once([' ', '-']).unwrap_or((line, ""));
            if let (Ok(start), Some(end)) = (usize::from_str_radix(first, 16), rest.split(' ').next()) {
                let end = usize::from_str_radix(end, 16).unwrap_or(0);
                inside = start < bytes.as_ptr_range().end.addr() && bytes.as_ptr().addr() < end;
            } else if first == "AnonHugePages:" && inside {
                sum += 1024 * rest.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
            }
        }
        sum
    }

    #[test]
    fn large_pages_are_under_what_is_large_and_change_nothing() {
        let bytes: Vec<u8> = (0..5 * LARGE_PAGE_BYTES + 12_345).map(|i| (i / 7) as u8).collect();
        let before = large_bytes(&bytes);
        enlarge(&bytes);
        assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == (i / 7) as u8));
        let after = large_bytes(&bytes);
        assert!(after >= before, "{before} {after}");
        if after == before && before < 4 * LARGE_PAGE_BYTES {
            println!(
                "SKIPPED: this system gives no large pages when asked (never, an old kernel, or none free)"
            );
        }
    }

    #[test]
    fn what_is_smaller_than_a_page_or_nothing_is_left_alone() {
        for len in [0, 1, LARGE_PAGE_BYTES - 1, LARGE_PAGE_BYTES] {
            enlarge(&vec![1; len]);
        }
        enlarge(&[]);
    }
}
