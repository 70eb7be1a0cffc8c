//! Memory for what is received. Fresh memory costs more than the copy that fills it: the system hands it out page by
//! page, and zeroed. So long buffers are used again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Shorter buffers are left to the allocator, which keeps those.
const LEAST_BYTES: usize = 64 << 10;

/// Buffers that nobody uses at the moment.
pub(super) struct Pool {
    kept: Mutex<Vec<Vec<u8>>>,
    /// The most bytes that are kept.
    limit: usize,
}

/// A received payload; goes back to the pool when nobody looks at it any more.
struct Lent {
    bytes: Vec<u8>,
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), limit: usize::try_from(limit).unwrap_or(usize::MAX) })
    }

    /// An empty buffer with room for `len` bytes.
    pub(super) fn take(&self, len: usize) -> Vec<u8> {
        if len < LEAST_BYTES {
            return Vec::with_capacity(len);
        }
        let mut kept = self.kept();
        // The one used last: its bytes may still be in the cache. Not one that is much too long.
        let fitting =
            kept.iter().rposition(|buffer| (len..=len.saturating_mul(2)).contains(&buffer.capacity()));
        let found = fitting.map(|i| kept.remove(i));
        drop(kept);
        found.unwrap_or_else(|| Vec::with_capacity(len))
    }

    /// Makes `bytes`, which came from [`take`](Self::take), a payload.
    pub(super) fn freeze(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        if bytes.capacity() < LEAST_BYTES {
            return Bytes::from(bytes);
        }
        Bytes::from_owner(Lent { bytes, pool: self.clone() })
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
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.bytes);
        buffer.clear();
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
            assert!(buffer.is_empty() && buffer.capacity() >= len);
            buffer.resize(len, 7);
            pool.freeze(buffer)
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
        drop(lend(10));
        assert!(!pool.keeps_any());
    }
}
