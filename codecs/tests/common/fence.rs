//! Buffers between pages that nobody may touch: an access outside of one stops the process.

// Mapping pages takes system calls, and what they give is a pointer.
#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr::NonNull;

/// More than a page on any machine that the tests run on.
const PAGE_LEN: usize = 1 << 16;
const GUARD_LEN: usize = 256;
const GUARD_BYTE: u8 = 0xc3;

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its last byte is the last one that may be touched; its alignment follows from its length.
    End,
    /// So many bytes behind the first one that may be touched, which is aligned to a page.
    Start(usize),
}

/// Room for one buffer, with a page on either side that may be neither read nor written.
pub(crate) struct Fenced {
    mapping: NonNull<u8>,
    room: usize,
    content: Range<usize>,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Fenced {}

impl Fenced {
    /// Room for `room` bytes, rounded up to whole pages.
    pub(crate) fn new(room: usize) -> Self {
        let room = room.next_multiple_of(PAGE_LEN);
        let (flags, len) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, room + 2 * PAGE_LEN);
        // SAFETY: a new mapping of the system's choice touches no memory that is in use.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        assert!(mapping != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        let fenced = Self { mapping: NonNull::new(mapping.cast()).unwrap(), room, content: 0..0 };
        // SAFETY: `room` bytes from one page on lie inside the mapping that was just made.
        let opened =
            unsafe { libc::mprotect(mapping.byte_add(PAGE_LEN), room, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(opened, 0, "mprotect: {}", std::io::Error::last_os_error());
        fenced
    }

    /// A buffer of `len` bytes at `place`, all of them `dirt`.
    pub(crate) fn place(&mut self, place: Place, len: usize, dirt: u8) -> &mut [u8] {
        let start = match place {
            Place::End => self.room - len,
            Place::Start(offset) => offset,
        };
        self.content = start..start + len;
        let (content, [before, after]) = (self.content.clone(), self.guards());
        let room = self.room_mut();
        room[before].fill(GUARD_BYTE);
        room[after].fill(GUARD_BYTE);
        room[content.clone()].fill(dirt);
        &mut room[content]
    }

    /// A copy of `bytes` at `place`.
    pub(crate) fn hold(&mut self, place: Place, bytes: &[u8]) -> &[u8] {
        let copy = self.place(place, bytes.len(), 0);
        copy.copy_from_slice(bytes);
        copy
    }

    /// The buffer placed last.
    pub(crate) fn content(&self) -> &[u8] {
        &self.room()[self.content.clone()]
    }

    /// How far from the buffer's first byte somebody wrote outside of it, if somebody did.
    pub(crate) fn harm(&self) -> Option<isize> {
        let room = self.room();
        let harmed = self.guards().into_iter().flatten().find(|&i| room[i] != GUARD_BYTE);
        harmed.map(|i| i as isize - self.content.start as isize)
    }

    /// Changes the guard byte that is `away` bytes from the buffer's first one, as an overrun would.
    pub(crate) fn harm_byte(&mut self, away: isize) {
        let at = self.content.start.checked_add_signed(away).expect("a guard byte");
        self.room_mut()[at] ^= 0xff;
    }

    /// Reads the byte that is `away` bytes from the buffer's first one, wherever that is.
    pub(crate) fn peek(&self, away: isize) -> u8 {
        assert!(away.unsigned_abs() < PAGE_LEN);
        // SAFETY: within a page of the buffer everything belongs to the mapping; what may not be read ends the
        // process, which is what the caller is after.
        unsafe { self.content().as_ptr().offset(away).read_volatile() }
    }

    fn guards(&self) -> [Range<usize>; 2] {
        let Range { start, end } = self.content;
        [start.saturating_sub(GUARD_LEN)..start, end..self.room.min(end + GUARD_LEN)]
    }

    fn room(&self) -> &[u8] {
        // SAFETY: these bytes of the mapping can be read, hold zeros at first, and nobody writes them while
        // `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().add(PAGE_LEN), self.room) }
    }

    fn room_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `room`, and `self` is borrowed for this slice alone.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.as_ptr().add(PAGE_LEN), self.room) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the whole mapping goes, and nothing borrows from it any more.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.room + 2 * PAGE_LEN) };
    }
}
