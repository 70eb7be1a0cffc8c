//! Pages of memory that is read here and there.

/// Asks for large pages under the whole ones of `bytes` now, where the system has them; whether it gave all. Nothing but speed
/// depends on that.
#[cfg(target_os = "linux")]
pub(crate) fn enlarge(bytes: &[u8]) -> std::io::Result<()> {
    let (first, end) = (bytes.as_ptr().addr(), bytes.as_ptr_range().end.addr());
    let first = first.next_multiple_of(LARGE_PAGE_BYTES);
    let len = (end / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES).saturating_sub(first);
    if len == 0 {
        return Ok(());
    }
    if !are_allowed() {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    let start = bytes.as_ptr().with_addr(first).cast_mut().cast();
    // SAFETY: the range lies inside `bytes`; pages change their size and their place, but not what is read or written there.
    if unsafe { libc::madvise(start, len, MADV_COLLAPSE) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn enlarge(_: &[u8]) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// What large pages have where others have 4 KiB; where all are larger, less is to be had.
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
        match enlarge(&bytes) {
            Ok(()) => assert!(large_bytes(&bytes) >= 4 * LARGE_PAGE_BYTES, "{}", large_bytes(&bytes)),
            Err(error) => println!("SKIPPED: this system gives no large pages: {error}"),
        }
        assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == (i / 7) as u8));
    }

    #[test]
    fn what_has_no_whole_large_page_needs_none() {
        for len in [0, 1, LARGE_PAGE_BYTES - 1] {
            assert!(enlarge(&vec![1; len]).is_ok(), "{len}");
        }
    }
}
