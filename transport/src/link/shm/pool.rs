//! Memory for what is received. Fresh memory costs more than the copy that fills it: the system hands it out page by
//! page, and zeroed. So long buffers are used again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::ring::LINE;

/// Shorter buffers are left to the allocator, which keeps those.
const LEAST_BYTES: usize = 64 << 10;
/// Longer buffers begin at a line, as payloads in rings do.
const UNALIGNED_BYTES: usize = 512;

/// Buffers that nobody uses at the moment.
pub(super) struct Pool {
    kept: Mutex<Vec<Vec<u8>>>,
    /// The most bytes that are kept.
    limit: usize,
}

/// Memory that a payload is received into.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// Where the payload begins.
    start: usize,
}

/// A received payload; goes back to the pool when nobody looks at it any more.
struct Lent {
    buffer: Buffer,
    pool: Arc<Pool>,
}

impl Buffer {
    /// What the payload is added to.
    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Uses `bytes` for a payload, which begins at a line if `aligned`.
    fn begin(mut bytes: Vec<u8>, aligned: bool) -> Self {
        bytes.clear();
        let start = if aligned { bytes.as_ptr().align_offset(LINE).min(LINE) } else { 0 };
        bytes.resize(start, 0);
        Self { bytes, start }
    }
}

impl Pool {
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), limit: usize::try_from(limit).unwrap_or(usize::MAX) })
    }

    /// A buffer with room for a payload of `len` bytes.
    pub(super) fn take(&self, len: usize) -> Buffer {
        if len < UNALIGNED_BYTES {
            return Buffer::begin(Vec::with_capacity(len), false);
        }
        let len = len + LINE;
        if len < LEAST_BYTES {
            return Buffer::begin(Vec::with_capacity(len), true);
        }
        let mut kept = self.kept();
        // The one used last: its bytes may still be in the cache. Not one that is much too long.
        let fits = |buffer: &Vec<u8>| (len..=len.saturating_mul(2)).contains(&buffer.capacity());
        let found = kept.iter().rposition(fits).map(|i| kept.remove(i));
        drop(kept);
        Buffer::begin(found.unwrap_or_else(|| Vec::with_capacity(len)), true)
    }

    /// Makes a payload of what `buffer`, which came from [`take`](Self::take), was filled with.
    pub(super) fn freeze(self: &Arc<Self>, buffer: Buffer) -> Bytes {
        if buffer.bytes.capacity() < LEAST_BYTES {
            let Buffer { bytes, start } = buffer;
            return if start == 0 { Bytes::from(bytes) } else { Bytes::from(bytes).slice(start..) };
        }
        Bytes::from_owner(Lent { buffer, pool: self.clone() })
    }

    /// Whether there is a buffer that nobody uses.
    pub(super) fn keeps_any(&self) -> bool {
        !self.kept().is_empty()
    }

    /// Lets go of all buffers that nobody uses.
    pub(super) fn clear(&self) {
        let kept = std::mem::take(&mut *self.kept());
        drop(kept); // after the lock
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.bytes[self.buffer.start..]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer.bytes);
        let mut kept = self.pool.kept();
        // The oldest make room.
        let mut total: usize = kept.iter().map(Vec::capacity).sum();
        let mut dropped = Vec::new();
        while total + buffer.capacity() > self.pool.limit && !kept.is_empty() {
            let oldest = kept.remove(0);
            total -= oldest.capacity();
            dropped.push(oldest);
        }
        if total + buffer.capacity() <= self.pool.limit {
            kept.push(buffer);
        }
        drop(kept); // before the memory goes back to the system, which takes long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_no_more_than_the_limit() {
        let pool = Pool::new(300_000);
        let lend = |len: usize| {
            let mut buffer = pool.take(len);
            let bytes = buffer.bytes_mut();
            assert!(bytes.capacity() - bytes.len() >= len);
            bytes.resize(bytes.len() + len, 7);
            let payload = pool.freeze(buffer);
            assert!(payload.len() == len && payload.iter().all(|&byte| byte == 7));
            assert!(len < 512 || (payload.as_ptr() as usize).is_multiple_of(64), "copies begin alike");
            payload
        };
        let first = lend(100_000);
        assert_eq!(first.len(), 100_000);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(lend(99_000).as_ptr(), address, "used again");
        let all = [lend(100_000), lend(100_000), lend(100_000), lend(100_000)];
        drop(all);
        assert!(pool.kept().iter().map(Vec::capacity).sum::<usize>() <= 300_000);
        assert!(pool.keeps_any());
        pool.clear();
        assert!(!pool.keeps_any());
        drop(lend(400_000)); // longer than all that may be kept
        assert!(!pool.keeps_any());
        for len in [0, 1, 511, 512, 4096, 65_471, 65_472] {
            pool.clear();
            drop(lend(len));
        }
        pool.clear();
        drop(lend(10));
        assert!(!pool.keeps_any());
    }
}
