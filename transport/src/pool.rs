//! Buffers that are used again: fresh memory costs more than most codecs do, because the system clears every page of
//! it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Shorter buffers come from the allocator, which keeps them by itself.
const SHORTEST_BYTES: usize = 32 << 10;
/// Longer ones are rare, and too much to keep.
const LONGEST_BYTES: usize = 4 << 20;
/// Bytes that a pool keeps, at most.
const KEPT_BYTES: usize = 32 << 20;

/// A store of buffers that are not in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    shared: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Pool {
    /// An empty buffer with room for `len` bytes.
    pub(crate) fn take(&self, len: usize) -> Pooled {
        let bytes = self.find(len).unwrap_or_else(|| Vec::with_capacity(len));
        Pooled { bytes, pool: self.clone() }
    }

    fn find(&self, len: usize) -> Option<Vec<u8>> {
        if !(SHORTEST_BYTES..=LONGEST_BYTES).contains(&len) {
            return None;
        }
        let mut kept = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one came last, and is the likeliest to be in a cache.
        let found = kept.buffers.iter().rposition(|buffer| buffer.capacity() >= len)?;
        let mut buffer = kept.buffers.remove(found);
        kept.bytes -= buffer.capacity();
        buffer.clear();
        Some(buffer)
    }

    fn keep(&self, buffer: Vec<u8>) {
        let mut kept = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + buffer.capacity() <= KEPT_BYTES {
            kept.bytes += buffer.capacity();
            kept.buffers.push(buffer);
        }
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
        if (SHORTEST_BYTES..=LONGEST_BYTES).contains(&bytes.capacity()) {
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
        let again = pool.take(60_000);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
        assert!(again.capacity() >= 100_000);
        assert_ne!(pool.take(60_000).as_ptr(), at, "it is in use");
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
        let pool = Pool::default();
        let buffers: Vec<_> = (0..20).map(|_| pool.take(LONGEST_BYTES)).collect();
        drop(buffers);
        let kept = pool.shared.lock().unwrap();
        assert_eq!((kept.buffers.len(), kept.bytes), (8, KEPT_BYTES));
        drop(kept);
        drop((pool.take(LONGEST_BYTES + 1), pool.take(SHORTEST_BYTES - 1)));
        assert_eq!(pool.shared.lock().unwrap().buffers.len(), 8);
    }
}
