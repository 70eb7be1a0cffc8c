//! Threads that share the rows of one call.

use std::sync::{Mutex, PoisonError};

use mgcomp_codecs::frame::Workers;

/// Bytes of rows that a thread takes at a time.
const PIECE_BYTES: usize = 32 << 10;
/// Fewer bytes than this, one thread is done with before another has come.
const ALONE_BYTES: usize = 64 << 10;

/// How many rows a thread takes at a time: a multiple of 8, so that their bits share no byte.
pub(super) fn piece_rows(row_len: usize) -> usize {
    (PIECE_BYTES / row_len).next_multiple_of(8).max(8)
}

/// Gives each of `pieces` to `work` once, on any of the threads; `bytes` is how many bytes of rows there are.
pub(super) fn share<P: Send>(
    workers: &Workers,
    bytes: usize,
    pieces: impl Iterator<Item = P> + Send,
    work: impl Fn(P) + Sync,
) {
    if bytes <= ALONE_BYTES || workers.threads() == 1 {
        return pieces.for_each(work);
    }
    let pieces = Mutex::new(pieces);
    // The guard is gone before the piece is worked on.
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    workers.run(&|_| {
        while let Some(piece) = next() {
            work(piece);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn every_piece_is_done_once() {
        for (threads, bytes) in [(1, usize::MAX), (3, usize::MAX), (3, 1)] {
            let workers = Workers::new(threads).unwrap();
            let sum = AtomicU64::new(0);
            share(&workers, bytes, 1..=1000_u64, |piece| {
                sum.fetch_add(piece, Relaxed);
            });
            assert_eq!(sum.into_inner(), 500_500);
        }
    }

    #[test]
    fn pieces_are_whole_bytes_of_the_mask() {
        assert_eq!([1, 1000, 1024, 5000, 100_000].map(piece_rows), [32 << 10, 32, 32, 8, 8]);
    }
}
