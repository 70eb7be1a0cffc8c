//! Buffers for messages, used again and again: fresh memory costs as much as a copy.

use std::sync::{Mutex, PoisonError};

use crate::engine::AT_ONCE;

/// Buffers that are kept: as many as an exchange has under way at once.
const MOST_KEPT: usize = 3 * AT_ONCE;
/// Longer ones are not, nor those that hold a word.
const LONGEST_KEPT: usize = 64 << 20;
const SHORTEST_KEPT: usize = 64;

/// Buffers that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Vec<u8>>>);

impl Pool {
    /// A buffer of `len` bytes, which hold anything.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(mut buffer) if buffer.capacity() >= len => {
                buffer.resize(len, 0);
                buffer
            }
            _ => vec![0; len],
        }
    }

    /// Gives a buffer back.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT && (SHORTEST_KEPT..=LONGEST_KEPT).contains(&buffer.capacity()) {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;

    #[test]
    fn buffers_come_back() {
        let pool = Pool::default();
        let buffer = pool.take(1000);
        let at = buffer.as_ptr();
        pool.give(buffer);
        let shorter = pool.take(500);
        assert_eq!((shorter.as_ptr(), shorter.len()), (at, 500));
        pool.give(shorter);
        assert_eq!(pool.take(2000).len(), 2000);
        pool.give(Vec::new());
        assert_eq!(pool.take(3), [0; 3]);
    }
}
