//! Memory to measure in.

use std::hint::black_box;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Size of a huge page on the machines that have them, in bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Size of the smallest page, in bytes.
const PAGE_BYTES: usize = 4096;

/// Bytes that are there already and lie in huge pages where the system grants them, so that neither page
/// faults nor walks of the page table are measured. The start is a multiple of the huge page.
pub(crate) struct Buffer {
    map: MmapMut,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` bytes.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let mut map = MmapMut::map_anon(len.saturating_add(HUGE_PAGE_BYTES))?;
        // A system without huge pages refuses; then the pages are small, and the figures still right.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let start = map.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // Any other value than zero: the compiler must not conclude that nothing happens.
        map[start..start + len].fill(0x5a);
        Ok(Self { map, start, len })
    }
}

/// Has the system bring back what it has taken of this memory since it was last used, as hosts of virtual machines do: whose turn comes
/// first would pay a tenth of a millisecond and more for that. No more than a line of each page comes into caches.
pub(crate) fn bring_back(bytes: &[u8]) {
    let pages = bytes.iter().step_by(PAGE_BYTES).chain(bytes.last()); // which may be on one more
    black_box(pages.fold(0, |all, byte| all ^ byte));
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_as_long_as_asked() {
        for len in [1, 4096, HUGE_PAGE_BYTES + 1] {
            let mut buffer = Buffer::new(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            buffer.fill(1);
            assert!(buffer.iter().all(|&b| b == 1));
        }
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(Buffer::new(usize::MAX).is_err());
        assert!(Buffer::new(1 << 60).is_err());
    }
}
