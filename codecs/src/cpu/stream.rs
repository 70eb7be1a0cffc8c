//! Copies that go past the caches.
//!
//! A store to memory that is not in a cache first reads the line it lands on. Where the destination is far
//! larger than the caches, streaming stores save that read: a third of the traffic of a plain copy.

// Streaming stores take pointers; each gets a line of 64 bytes cut from a slice.
#![allow(unsafe_code)]

/// Buffers from this length on are written past the caches: they would only push everything else out.
const STREAM_MIN_LEN: usize = 8 << 20;

/// Bytes of a cache line.
const LINE_LEN: usize = 64;

/// Copies into one destination, by plain or by streaming stores.
///
/// Streaming stores are not ordered with later stores of this thread, not even atomic ones; dropping the value
/// orders them, so it has to go before another thread is told that the bytes are there.
pub(crate) struct Streamer {
    streams: bool,
}

impl Streamer {
    /// Streams if a destination of `len` bytes is better written past the caches.
    pub(crate) const fn for_len(len: usize) -> Self {
        Self { streams: len >= STREAM_MIN_LEN && cfg!(target_arch = "x86_64") }
    }

    /// Never streams.
    pub(crate) const fn plain() -> Self {
        Self { streams: false }
    }

    /// Whether copies go past the caches.
    pub(crate) const fn streams(&self) -> bool {
        self.streams
    }

    /// Copies `from` to `to`, which has the same length, and meanwhile asks for `next`, which is read after that.
    ///
    /// Memory reads and writes at the same time, but drops most of what is asked of it in one burst.
    pub(crate) fn copy(&self, to: &mut [u8], from: &[u8], next: &[u8]) {
        assert_eq!(to.len(), from.len());
        if !self.streams {
            to.copy_from_slice(from);
            return;
        }
        #[cfg(target_arch = "x86_64")]
        {
            let (to_head, to_lines, to_tail) = lines(to);
            let (from_head, from) = from.split_at(to_head.len());
            let (from_lines, from_tail) = from.as_chunks();
            to_head.copy_from_slice(from_head);
            let mut ahead = Ahead::new(next, to_lines.len());
            for (to, from) in to_lines.iter_mut().zip(from_lines) {
                store_line(to, from);
                ahead.ask();
            }
            to_tail.copy_from_slice(from_tail);
        }
    }
}

impl Drop for Streamer {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if self.streams {
            // SAFETY: SSE is part of x86-64.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }
}

/// Lines that are asked for in even steps.
#[cfg(target_arch = "x86_64")]
struct Ahead<'a> {
    lines: std::slice::Chunks<'a, u8>,
    /// Lines per step, in 1/256.
    pace: usize,
    due: usize,
}

#[cfg(target_arch = "x86_64")]
impl<'a> Ahead<'a> {
    /// More lines than these at a time would be dropped.
    const MOST_AT_ONCE: usize = 4;

    /// Spreads the lines of `bytes` over `steps`.
    fn new(bytes: &'a [u8], steps: usize) -> Self {
        let lines = bytes.chunks(LINE_LEN);
        let pace = (lines.len() * 256).div_ceil(steps.max(1)).min(Self::MOST_AT_ONCE * 256);
        Self { lines, pace, due: 0 }
    }

    #[inline]
    fn ask(&mut self) {
        self.due += self.pace;
        while self.due >= 256 {
            self.due -= 256;
            let Some(line) = self.lines.next() else { return };
            prefetch_line(line.as_ptr());
        }
    }
}

/// Asks for `bytes` to be brought near, without waiting for them.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    let before = bytes.as_ptr().addr() % LINE_LEN; // in the first line
    for line in (0..before + bytes.len()).step_by(LINE_LEN) {
        prefetch_line(bytes.as_ptr().wrapping_sub(before).wrapping_add(line));
    }
}

/// Asks for the line at `address` to be brought near, wherever that is, without waiting for it.
#[inline]
pub(crate) fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A whole cache line at its own address.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct AlignedLine([u8; LINE_LEN]);

/// The whole aligned lines of `bytes`, and what lies before and behind them.
#[cfg(target_arch = "x86_64")]
fn lines(bytes: &mut [u8]) -> (&mut [u8], &mut [AlignedLine], &mut [u8]) {
    // SAFETY: every bit pattern is an AlignedLine, and every AlignedLine is 64 bytes.
    unsafe { bytes.align_to_mut() }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn store_line(to: &mut AlignedLine, from: &[u8; LINE_LEN]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let (to, from) = (to.0.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
    for quarter in 0..4 {
        // SAFETY: SSE2 is part of x86-64; both have 64 bytes, and an AlignedLine's quarters are aligned.
        unsafe { _mm_stream_si128(to.add(quarter), _mm_loadu_si128(from.add(quarter))) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_and_length_is_copied_exactly() {
        let from: Vec<u8> = (0..400u32).map(|i| (i * 7 + 3) as u8).collect();
        for streams in [false, true] {
            for start in 0..70 {
                for len in (0..200).chain([330]) {
                    let mut to = vec![0xee; start + len + 70];
                    let next = &from[..len * 3 % 400];
                    Streamer { streams }.copy(&mut to[start..start + len], &from[..len], next);
                    assert_eq!(to[start..start + len], from[..len]);
                    assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0xee));
                }
            }
        }
    }
}
