//! The memory that two ranks share: two rings and what is said of each.
//!
//! Nothing in it is believed. The other process may change any byte at any moment, so bytes are copied out once,
//! through raw pointers, and only the copy is looked at; no reference to them is ever made but to atomic words.
//! The file behind the memory is sealed against becoming shorter, so no access to it can fault.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs,
    memfd_create,
};

/// Bytes that a ring can have: a power of two.
pub(super) const RING_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

/// Bytes before the rings: the words of both, and the rest of the page.
const WORDS_BYTES: usize = 4096;
/// Bytes between one ring's words and the other's.
const RING_WORDS_BYTES: usize = 512;
/// Bytes between words: processors fetch lines of 64 bytes in pairs.
const WORD_BYTES: usize = 128;

/// Words of each direction that links on top of this one have for themselves.
pub(super) const SLOTS: usize = 128;
/// Where those begin, behind the words of the rings.
const SLOTS_START: usize = 1024;

/// Seals without which a file could be made shorter while it is used.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// What `statfs` says of the file system that memory files of ordinary pages are in.
const TMPFS: i64 = 0x0102_1994;

/// Which way a ring carries bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the rank that made the memory.
    FromMaker,
    /// To it.
    ToMaker,
}

/// What is said of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// Bytes written since the beginning; the writer's.
    Written,
    /// Bytes read since the beginning; the reader's.
    Read,
    /// Not 0 if the reader sleeps until it is told that there is more to read.
    ReaderSleeps,
    /// Not 0 if the writer sleeps until it is told that there is room.
    WriterSleeps,
}

/// Two rings in shared memory.
pub(super) struct Segment {
    map: MmapRaw,
    ring_bytes: usize,
}

/// Why memory that a peer made is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadSegment {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("rings of {0} bytes")]
    RingBytes(u64),
    #[error("{got} bytes instead of {expected}")]
    Len { got: i64, expected: u64 },
    #[error("not memory of ordinary pages that cannot become shorter")]
    Unsealed,
}

impl Segment {
    /// Makes memory for two rings of `ring_bytes` bytes, and the file to hand it over with.
    pub(super) fn create(ring_bytes: u64) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("mgcomp", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        // Now, where it can fail: a page that is missing later would end the process.
        fallocate(&file, FallocateFlags::empty(), 0, file_len(ring_bytes))?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::map(&file, ring_bytes)?, file))
    }

    /// Takes over memory that a peer made.
    pub(super) fn adopt(file: &OwnedFd, ring_bytes: u64) -> Result<Self, BadSegment> {
        if !RING_BYTES.contains(&ring_bytes) || !ring_bytes.is_power_of_two() {
            return Err(BadSegment::RingBytes(ring_bytes));
        }
        let seals = fcntl_get_seals(file).map_err(|_| BadSegment::Unsealed)?;
        // Pages of another size come from a pool, which may be empty when they are needed again.
        let file_system = fstatfs(file).map_err(io::Error::from)?.f_type;
        if !seals.contains(SEALS) || file_system != TMPFS {
            return Err(BadSegment::Unsealed);
        }
        let (got, expected) = (fstat(file).map_err(io::Error::from)?.st_size, file_len(ring_bytes));
        if u64::try_from(got) != Ok(expected) {
            return Err(BadSegment::Len { got, expected });
        }
        Ok(Self::map(file, ring_bytes)?)
    }

    fn map(file: &impl AsFd, ring_bytes: u64) -> io::Result<Self> {
        let file = file.as_fd();
        let map = MmapOptions::new()
            .len(file_len(ring_bytes) as usize)
            .populate()
            .map_raw(std::os::fd::AsRawFd::as_raw_fd(&file))?;
        Ok(Self { map, ring_bytes: ring_bytes as usize })
    }

    /// Bytes that each ring holds.
    pub(super) fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// One of the words that both sides read and write.
    pub(super) fn word(&self, direction: Direction, word: Word) -> &AtomicU64 {
        let offset = direction as usize * RING_WORDS_BYTES + word as usize * WORD_BYTES;
        // SAFETY: the offset is at most 512 + 3 * 128, in the first page of the map, and a multiple of 8 from the
        // start of a page. The word lives as long as the map, and nobody here reaches it but as an atomic.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// One of the words that say what became of memory beside the rings.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only devices have such memory"))]
    pub(super) fn slot(&self, direction: Direction, slot: usize) -> &AtomicU64 {
        assert!(slot < SLOTS, "slot {slot} of {SLOTS}");
        let offset = SLOTS_START + (direction as usize * SLOTS + slot) * size_of::<u64>();
        // SAFETY: the offset is at most 1024 + 255 * 8, in the first page of the map, and a multiple of 8 from the start of
        // a page. The word lives as long as the map, and nobody here reaches it but as an atomic.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// Puts `bytes` into a ring from byte `at` on, counted from the beginning of all bytes; past the caches if it
    /// `streams`.
    pub(super) fn write(&self, direction: Direction, at: u64, bytes: &[u8], streams: bool) {
        let (start, before_end) = self.place(at, bytes.len());
        let (first, second) = bytes.split_at(before_end);
        let ring = self.ring(direction);
        let copy = if streams { stream } else { copy };
        // SAFETY: `place` gives a start in the ring and how much fits behind it, and checks that the rest fits in
        // front of it. `bytes` is no shared memory: slices of that are never made.
        unsafe {
            copy(first, ring.add(start));
            copy(second, ring);
        }
    }

    /// Fills `bytes` from a ring, from byte `at` on.
    pub(super) fn read(&self, direction: Direction, at: u64, bytes: &mut [u8]) {
        // SAFETY: as many bytes as the slice has.
        unsafe { self.copy_out(direction, at, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Adds `len` bytes of a ring to `bytes`, which must have room for them.
    pub(super) fn append(&self, direction: Direction, at: u64, len: usize, bytes: &mut Vec<u8>) {
        let room = bytes.spare_capacity_mut();
        assert!(len <= room.len(), "{len} bytes do not fit in {}", room.len());
        // SAFETY: there is room for `len` bytes, and all of them are written before they count as filled.
        unsafe {
            self.copy_out(direction, at, room.as_mut_ptr().cast(), len);
            bytes.set_len(bytes.len() + len);
        }
    }

    /// Copies `len` bytes from byte `at` of a ring on.
    ///
    /// # Safety
    /// There must be `len` bytes to write at `to`, in memory that is not shared.
    unsafe fn copy_out(&self, direction: Direction, at: u64, to: *mut u8, len: usize) {
        let (start, before_end) = self.place(at, len);
        let ring = self.ring(direction);
        // SAFETY: `place` gives a start in the ring and how much there is behind it, and checks that the rest is in
        // front of it; the caller gives room for both.
        unsafe {
            std::ptr::copy_nonoverlapping(ring.add(start), to, before_end);
            std::ptr::copy_nonoverlapping(ring, to.add(before_end), len - before_end);
        }
    }

    /// Where byte `at` is in a ring, and how many of `len` bytes there are from there to its end.
    fn place(&self, at: u64, len: usize) -> (usize, usize) {
        assert!(len <= self.ring_bytes, "{len} bytes in a ring of {}", self.ring_bytes);
        let start = at as usize & (self.ring_bytes - 1);
        (start, len.min(self.ring_bytes - start))
    }

    fn ring(&self, direction: Direction) -> *mut u8 {
        let offset = WORDS_BYTES + direction as usize * self.ring_bytes;
        // SAFETY: the map has `WORDS_BYTES` and twice `ring_bytes` bytes.
        unsafe { self.map.as_mut_ptr().add(offset) }
    }
}

/// Copies `bytes` to `to`.
///
/// # Safety
/// There must be room for them, apart from them.
unsafe fn copy(bytes: &[u8], to: *mut u8) {
    // SAFETY: the caller gives the room.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
}

/// The same past the caches. Where two cores share no cache, a line that the other has read last is written several
/// times slower than memory; where they do, this costs little.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn stream(bytes: &[u8], to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    /// Bytes that go out at once: a line, so that it need not be read first.
    const LINE: usize = 64;
    // Vectors are stored to multiples of their length alone.
    let before = to.align_offset(LINE).min(bytes.len());
    let (head, rest) = bytes.split_at(before);
    let (lines, tail) = rest.split_at(rest.len() / LINE * LINE);
    // SAFETY: head, lines and tail follow each other, and the caller gives the room for all; `lines` goes to a multiple
    // of 64 and is one long. Every x86-64 has these instructions. The fence puts what was stored before all that
    // is stored from now on.
    unsafe {
        copy(head, to);
        let to = to.add(before);
        for (i, line) in lines.chunks_exact(LINE).enumerate() {
            let (from, to) = (line.as_ptr().cast::<__m128i>(), to.add(i * LINE).cast::<__m128i>());
            let vectors = [0, 1, 2, 3].map(|j| _mm_loadu_si128(from.add(j)));
            for (j, vector) in vectors.into_iter().enumerate() {
                _mm_stream_si128(to.add(j), vector);
            }
        }
        copy(tail, to.add(lines.len()));
        _mm_sfence();
    }
}

#[cfg(not(target_arch = "x86_64"))]
use copy as stream;

/// Length of the file behind two rings of `ring_bytes` bytes.
fn file_len(ring_bytes: u64) -> u64 {
    WORDS_BYTES as u64 + 2 * ring_bytes
}

#[cfg(test)]
mod tests {
    use rustix::fs::ftruncate;

    use super::*;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let (made, file) = Segment::create(4096).unwrap();
        let adopted = Segment::adopt(&file, 4096).unwrap();
        // The last bytes of the ring and its first ones.
        made.write(Direction::FromMaker, 4090, &[1, 2, 3, 4, 5, 6, 7, 8], false);
        adopted.write(Direction::ToMaker, 4090, &[9; 8], true);
        let mut bytes = Vec::with_capacity(8);
        adopted.append(Direction::FromMaker, 4090, 7, &mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7]);
        let mut front = [0; 2];
        adopted.read(Direction::FromMaker, 8192, &mut front);
        assert_eq!(front, [7, 8]);
        made.word(Direction::ToMaker, Word::WriterSleeps).store(5, std::sync::atomic::Ordering::SeqCst);
        let word = adopted.word(Direction::ToMaker, Word::WriterSleeps);
        assert_eq!(word.load(std::sync::atomic::Ordering::SeqCst), 5);
    }

    #[test]
    fn bytes_past_the_caches_arrive_the_same() {
        let (segment, _) = Segment::create(4096).unwrap();
        for (at, len) in
            [(0, 4096), (0, 0), (0, 63), (1, 64), (63, 200), (64, 129), (4000, 1000), (4095, 4096)]
        {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + at) as u8).collect();
            segment.write(Direction::FromMaker, at as u64, &vec![0xee; 4096], false);
            segment.write(Direction::FromMaker, at as u64, &bytes, true);
            let mut back = vec![0; 4096];
            segment.read(Direction::FromMaker, at as u64, &mut back);
            assert!(back[..len] == bytes && back[len..].iter().all(|&byte| byte == 0xee), "{len} at {at}");
        }
    }

    #[test]
    fn memory_that_could_fault_is_not_taken() {
        let (_, good) = Segment::create(8192).unwrap();
        for ring_bytes in [0, 4095, 6000, 2048, 1 << 31, u64::MAX] {
            assert!(matches!(Segment::adopt(&good, ring_bytes), Err(BadSegment::RingBytes(_))));
        }
        assert!(matches!(
            Segment::adopt(&good, 4096),
            Err(BadSegment::Len { got: 20_480, expected: 12_288 })
        ));
        assert!(ftruncate(&good, 0).is_err() && ftruncate(&good, 1 << 20).is_err());

        let unsealed = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, 12_288).unwrap();
        assert!(matches!(Segment::adopt(&unsealed, 4096), Err(BadSegment::Unsealed)));
        let on_disk = tempfile::tempfile().unwrap();
        on_disk.set_len(12_288).unwrap();
        assert!(matches!(Segment::adopt(&on_disk.into(), 4096), Err(BadSegment::Unsealed)));
        // Sealed, but nobody may write to it.
        ftruncate(&unsealed, 12_288).unwrap();
        fcntl_add_seals(&unsealed, SEALS | SealFlags::WRITE).unwrap();
        assert!(matches!(Segment::adopt(&unsealed, 4096), Err(BadSegment::Io(_))));
    }
}
