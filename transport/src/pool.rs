//! Buffers that are used again: fresh memory costs more than most codecs do, because the system clears every page of
//! it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shorter buffers come from the allocator, which keeps them by itself.
const SHORTEST_BYTES: usize = 32 << 10;
/// Bytes that a pool keeps where nobody says.
const KEPT_BYTES: usize = 32 << 20;

/// A store of buffers that are not in use.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The most bytes that are kept.
    limit: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self::keeping(KEPT_BYTES)
    }
}

impl Pool {
    /// A pool that keeps up to `limit` bytes.
    pub(crate) fn keeping(limit: usize) -> Self {
        Self { kept: Arc::default(), limit }
    }

    /// An empty buffer with room for `len` bytes.
    pub(crate) fn take(&self, len: usize) -> Pooled {
        let bytes = self.find(len).unwrap_or_else(|| Vec::with_capacity(len));
        Pooled { bytes, pool: self.clone() }
    }

    /// Whether there is a buffer that nobody uses.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.kept().is_empty()
    }

    /// Lets go of all buffers that nobody uses.
    pub(crate) fn clear(&self) {
        let kept = std::mem::take(&mut *self.kept());
        drop(kept); // after the lock
    }

    fn find(&self, len: usize) -> Option<Vec<u8>> {
        if len < SHORTEST_BYTES {
            return None;
        }
        let mut kept = self.kept();
        // The one used last: its bytes may still be in the cache. Not one that is much too long.
        let fits = |buffer: &Vec<u8>| (len..=len.saturating_mul(2)).contains(&buffer.capacity());
        let found = kept.iter().rposition(fits)?;
        let mut buffer = kept.remove(found);
        buffer.clear();
        Some(buffer)
    }

    fn keep(&self, buffer: Vec<u8>) {
        let mut kept = self.kept();
        // The oldest make room.
        let mut total: usize = kept.iter().map(Vec::capacity).sum();
        let mut dropped = Vec::new();
        while total + buffer.capacity() > self.limit && !kept.is_empty() {
            let oldest = kept.remove(0);
            total -= oldest.capacity();
            dropped.push(oldest);
        }
        if total + buffer.capacity() <= self.limit {
            kept.push(buffer);
        }
        drop(kept); // before the memory goes back to the system, which takes long
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that goes back to its pool.
#[derive(Debug)]
pub(crate) struct Pooled {
    bytes: Vec<u8>,
    pool: Pool,
}

impl Deref for Pooled {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() >= SHORTEST_BYTES {
            self.pool.keep(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty() {
        let pool = Pool::default();
        let mut first = pool.take(100_000);
        first.extend_from_slice(&[7; 50_000]);
        let at = first.as_ptr();
        drop(first);
        let again = pool.take(99_000);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
        assert_ne!(pool.take(99_000).as_ptr(), at, "it is in use");
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
        let pool = Pool::keeping(300_000);
        let total = || pool.kept().iter().map(Vec::capacity).sum::<usize>();
        let buffers: Vec<_> = (0..4).map(|_| pool.take(100_000)).collect();
        drop(buffers);
        assert!(pool.keeps_any() && total() <= 300_000, "{}", total());
        drop(pool.take(140_000)); // the oldest make room
        assert!(total() <= 300_000 && pool.kept().last().unwrap().capacity() >= 140_000);
        pool.clear();
        assert!(!pool.keeps_any());
        drop((pool.take(400_000), pool.take(10))); // longer than all that may be kept; left to the allocator
        assert!(!pool.keeps_any());
    }
}
