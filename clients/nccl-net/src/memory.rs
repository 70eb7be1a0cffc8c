//! Buffers that NCCL lends until a request is done, its memory is deregistered or its end is closed.
//!
//! Where NCCL aborts, it deregisters memory that requests are under way in, frees it, and closes the ends last. It asks nothing
//! of these ends between: so nothing but threads of ours might still use the memory, and to deregister it waits for these.
#![allow(unsafe_code)] // memory that only NCCL knows the bounds of, and that its kernels look at while it is written

use std::mem::MaybeUninit;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::error::NetError;

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    start: *const u8,
    len: usize,
}

/// Where to receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    start: *mut u8,
    len: usize,
}

// SAFETY: whoever made it says that it may be read for as long as it is lent, from whatever thread.
unsafe impl Send for Source {}
// SAFETY: as above, and written.
unsafe impl Send for Destination {}

/// Checks what can be checked of a buffer.
fn check(is_null: bool, bytes: usize) -> Result<(), NetError> {
    if bytes > isize::MAX as usize {
        return Err(NetError::Bytes { bytes });
    }
    if is_null && bytes > 0 { Err(NetError::Null { what: "the data" }) } else { Ok(()) }
}

impl Source {
    /// # Safety
    /// If `start` is not null, the bytes may be read until the request that they are lent to is done, their memory is
    /// deregistered or the end is closed, and nobody writes them.
    pub(crate) unsafe fn new(start: *const u8, len: usize) -> Result<Self, NetError> {
        check(start.is_null(), len)?;
        Ok(Self { start, len })
    }

    /// Nothing.
    pub(crate) const fn empty() -> Self {
        Self { start: std::ptr::null(), len: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: not null, no longer than memory can be, and readable as `new` demands; slots forget it before the request is
        // done.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl Destination {
    /// # Safety
    /// If `start` is not null, the bytes may be written until the request that they are lent to is done, their memory is
    /// deregistered or the end is closed, and nobody else does. They may be looked at meanwhile by what is no part of this program.
    pub(crate) unsafe fn new(start: *mut u8, len: usize) -> Result<Self, NetError> {
        check(start.is_null(), len)?;
        Ok(Self { start, len })
    }

    /// Nothing.
    pub(crate) const fn empty() -> Self {
        Self { start: std::ptr::null_mut(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first `len` bytes from `at` on, for the system to write.
    pub(crate) fn room(&mut self, at: usize, len: usize) -> &mut [MaybeUninit<u8>] {
        assert!(at <= len && len <= self.len, "bytes {at} to {len} of {}", self.len);
        if len == at {
            return &mut [];
        }
        // SAFETY: within the buffer by the check above, not null since that is not empty, and writable as `new` demands.
        unsafe { slice::from_raw_parts_mut(self.start.add(at).cast(), len - at) }
    }

    /// The first `len` bytes, which the system has written.
    pub(crate) fn written(&self, len: usize) -> &[u8] {
        assert!(len <= self.len, "{len} bytes of {}", self.len);
        if len == 0 {
            return &[];
        }
        // SAFETY: within the buffer by the check above; initialised, since the caller has received so many bytes into it; and
        // nobody else writes there, as `new` demands.
        unsafe { slice::from_raw_parts(self.start, len) }
    }

    /// Copies `bytes` to the front, in rising order and by whole words where they lie on words, and writes nothing else.
    ///
    /// NCCL's kernels may look at the buffer before the request is done, and take each word of 8 bytes that has the right flag in
    /// it for good. So no word may be seen half written, or after a later one: its protocol LL128 has one flag for 15 words. Stores
    /// that release are that; on x86-64 they are plain ones.
    pub(crate) fn write_in_order(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "{} bytes of {}", bytes.len(), self.len);
        let before_words = self.start.align_offset(size_of::<u64>()).min(bytes.len());
        let (head, rest) = bytes.split_at(before_words);
        let (words, tail) = rest.as_chunks::<{ size_of::<u64>() }>();
        self.write_bytes(0, head);
        for (i, word) in words.iter().enumerate() {
            let at = before_words + i * size_of::<u64>();
            // SAFETY: `at` and the 7 bytes behind it lie within `bytes.len()`, so within the buffer; and on a word, since as
            // many bytes were left out before as that takes.
            // Whoever else looks there does so atomically.
            let place = unsafe { AtomicU64::from_ptr(self.start.add(at).cast()) };
            place.store(u64::from_ne_bytes(*word), Ordering::Release);
        }
        self.write_bytes(bytes.len() - tail.len(), tail);
    }

    fn write_bytes(&mut self, at: usize, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: `at` and so many bytes behind it lie within what `write_in_order` has checked. Whoever else looks there does so
            // atomically.
            let place = unsafe { AtomicU8::from_ptr(self.start.add(at + i)) };
            place.store(*byte, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_around_the_bytes() {
        for offset in 0..9 {
            for len in 0..40usize {
                let bytes: Vec<u8> = (1..=len as u8).collect();
                let mut room = vec![0xeeu8; 64];
                // SAFETY: within `room`.
                let mut destination = unsafe { Destination::new(room.as_mut_ptr().add(offset), 50) }.unwrap();
                destination.write_in_order(&bytes);
                assert!(room[..offset].iter().chain(&room[offset + len..]).all(|&byte| byte == 0xee));
                assert_eq!(room[offset..offset + len], bytes, "{len} bytes at {offset}");
            }
        }
    }

    #[test]
    fn what_is_no_buffer_is_refused() {
        // SAFETY: null pointers and lengths that no memory has are what is tried.
        let tried = unsafe {
            [Source::new(std::ptr::null(), 1).err(), Source::new([0u8].as_ptr(), usize::MAX).err()]
        };
        assert_eq!(
            tried,
            [Some(NetError::Null { what: "the data" }), Some(NetError::Bytes { bytes: usize::MAX })]
        );
        // SAFETY: no bytes may lie anywhere.
        assert!(unsafe { Source::new(std::ptr::null(), 0) }.unwrap().bytes().is_empty());
    }
}
