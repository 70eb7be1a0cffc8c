//! The memory behind a page: a sealed file that two processes have mapped.
//!
//! A file that can shrink would kill whoever touches the lost part. So a file is mapped only if it is in ordinary
//! memory (not in huge pages, which may run out), has its full length and can never change it again.
#![allow(unsafe_code)] // maps memory that another process writes

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::layout::{PAGE_BYTES, WORDS};

/// What the system maps at least.
const SYSTEM_PAGE_BYTES: usize = 4096;
/// What `fstatfs` says of memory files in ordinary pages.
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Without these seals the file could still change its length, or lose the seals.
const NEEDED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A mapped page. Words are atomics, since the other side may write them at any moment.
#[derive(Debug)]
pub(super) struct Map {
    base: NonNull<AtomicU64>,
    file: (u64, u64),
}

// SAFETY: the mapping belongs to the value alone, lives as long as it, and is only reached as atomics.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// A new file of zeros, sealed; returned as well, to be handed over.
    pub(super) fn create() -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know that a file may be of no use as a program.
        let file = rustix::fs::memfd_create(c"mgcomp-control", flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create(c"mgcomp-control", flags))?;
        rustix::fs::ftruncate(&file, PAGE_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&file, NEEDED)?;
        Ok((Self::of_file(&file)?, file))
    }

    /// Maps a file that somebody handed over.
    pub(super) fn adopt(file: impl AsFd) -> Result<Self, MapError> {
        let file = file.as_fd();
        // Asked first, since nobody but the system answers it. What else is asked goes to the file system, and that of a file
        // which knows no seals may be somebody's program, which never answers.
        let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| MapError::NotMemory { kind: None })?;
        let kind = rustix::fs::fstatfs(file).map_err(|error| MapError::System(error.into()))?.f_type as i64;
        if kind != TMPFS_MAGIC {
            return Err(MapError::NotMemory { kind: Some(kind) });
        }
        if !seals.contains(NEEDED) {
            return Err(MapError::NotSealed { seals: seals.bits() });
        }
        // Only now, when it can no longer change.
        let len = rustix::fs::fstat(file).map_err(|error| MapError::System(error.into()))?.st_size;
        if len != PAGE_BYTES as i64 {
            return Err(MapError::Length { got_bytes: len });
        }
        Self::of_file(file).map_err(MapError::System)
    }

    /// All words.
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `of_file` has mapped WORDS words for reading and writing, page-aligned, until this value is dropped; the
        // file has that length for good by its seals. Atomics may be written by others meanwhile.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), WORDS) }
    }

    /// Device and number of the file.
    pub(super) fn file(&self) -> (u64, u64) {
        self.file
    }

    /// No longer counts the memory of `words` as this process's; whoever looks there again finds what was there.
    pub(super) fn let_go(&self, words: Range<usize>) {
        let words = &self.words()[words];
        let first = words.as_ptr().addr().next_multiple_of(SYSTEM_PAGE_BYTES);
        let bytes =
            (words.as_ptr_range().end.addr().saturating_sub(first)) / SYSTEM_PAGE_BYTES * SYSTEM_PAGE_BYTES;
        let start = self.base.as_ptr().cast::<std::ffi::c_void>().with_addr(first);
        // SAFETY: the range lies inside the mapping, since `words` does; the mapping is shared, so its file keeps every word.
        let done = unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxDontNeed) };
        if let Err(error) = done {
            tracing::debug!(%error, "memory is kept that could be let go");
        }
    }

    /// `file` must be PAGE_BYTES long and sealed.
    fn of_file(file: impl AsFd) -> io::Result<Self> {
        let file = file.as_fd();
        let known = rustix::fs::fstat(file)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the system's choice touches no memory that is in use.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGE_BYTES, access, flags, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { base, file: (known.st_dev, known.st_ino) })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: `base` is what `of_file` mapped, with this length, and nothing borrows from it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), PAGE_BYTES) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Why a file is not mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// Not a file in ordinary memory.
    #[error("not a memory file: {}", why_none(*kind))]
    NotMemory {
        /// What `fstatfs` said; `None` = it knows no seals, and nothing else was asked.
        kind: Option<i64>,
    },
    /// It could still change its length.
    #[error("not sealed: it has seals {seals:#x}, but must be sealed against shrinking, growing and sealing")]
    NotSealed {
        /// What it has.
        seals: u32,
    },
    /// It is no page of this layout.
    #[error("{got_bytes} bytes long, but a page is {PAGE_BYTES}")]
    Length {
        /// What it is.
        got_bytes: i64,
    },
    /// The system said no.
    #[error("cannot map it")]
    System(#[source] io::Error),
}

fn why_none(kind: Option<i64>) -> String {
    match kind {
        None => "it knows no seals".to_owned(),
        Some(kind) => format!("its file system is of type {kind:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn file(len: usize, seals: SealFlags) -> OwnedFd {
        let file =
            rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, len as u64).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn both_sides_see_the_same_words() {
        let (here, file) = Map::create().unwrap();
        let there = Map::adopt(&file).unwrap();
        drop(file);
        here.words()[WORDS - 1].store(7, Relaxed);
        there.words()[0].store(9, Relaxed);
        assert_eq!((there.words()[WORDS - 1].load(Relaxed), here.words()[0].load(Relaxed)), (7, 9));
    }

    #[test]
    fn what_is_let_go_is_still_there() {
        let (here, file) = Map::create().unwrap();
        let there = Map::adopt(&file).unwrap();
        (0..WORDS).step_by(97).for_each(|word| here.words()[word].store(word as u64, Relaxed));
        for range in [0..0, 1..2, 0..WORDS, 700..5000, WORDS - 1..WORDS] {
            here.let_go(range.clone());
            there.let_go(range);
            for map in [&here, &there] {
                assert!((0..WORDS).step_by(97).all(|word| map.words()[word].load(Relaxed) == word as u64));
            }
        }
    }

    #[test]
    fn a_created_file_cannot_shrink() {
        let (_map, file) = Map::create().unwrap();
        assert!(rustix::fs::ftruncate(&file, 0).is_err());
        assert!(rustix::fs::ftruncate(&file, 2 * PAGE_BYTES as u64).is_err());
        assert!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE).is_err());
    }

    #[test]
    fn what_could_change_or_is_none_is_refused() {
        let adopt = |len, seals| Map::adopt(file(len, seals)).unwrap_err();
        for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::SHRINK | SealFlags::GROW] {
            assert!(matches!(adopt(PAGE_BYTES, seals), MapError::NotSealed { .. }), "{seals:?}");
        }
        for len in [0, 4096, PAGE_BYTES - 1, PAGE_BYTES + 1] {
            let error = adopt(len, NEEDED);
            assert!(matches!(error, MapError::Length { got_bytes } if got_bytes == len as i64), "{error}");
        }
        // Nobody could write settings into it.
        assert!(matches!(adopt(PAGE_BYTES, NEEDED | SealFlags::WRITE), MapError::System(_)));

        let plain = tempfile::tempfile().unwrap();
        plain.set_len(PAGE_BYTES as u64).unwrap();
        let error = Map::adopt(&plain).unwrap_err();
        assert!(matches!(error, MapError::NotMemory { .. } | MapError::NotSealed { .. }), "{error}");
        let (pipe, _other_end) = std::io::pipe().unwrap();
        assert!(matches!(Map::adopt(&pipe), Err(MapError::NotMemory { .. })));
        let error = Map::adopt(&pipe).unwrap_err().to_string();
        assert_eq!(error, "not a memory file: it knows no seals", "nothing else is asked of it");
    }
}
