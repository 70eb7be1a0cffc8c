//! Buffers that are used again: fresh memory costs more than most codecs do, because the system clears every page of
//! it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shorter buffers come from the allocator, which keeps them by itself.
const SHORTEST_BYTES: usize = 32 << 10;
/// Bytes that a pool keeps where nobody says.
const KEPT_BYTES: usize = 32 << 20;
/// And what a link keeps for what it receives from all peers together.
const KEPT_BYTES_OF_LINK: usize = 64 << 20;

/// The length that memory for `len` bytes has in a pool of blocks: at most an eighth more, so that what is given back
/// fits what is taken next.
pub(crate) const fn block_len(len: usize) -> usize {
    if len < SHORTEST_BYTES {
        return len;
    }
    len.next_multiple_of((1 << len.ilog2()) / 8)
}

/// A store of buffers that are not in use.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    state: Arc<Mutex<State>>,
    limit: Limit,
    fit: Fit,
}

/// Which buffers do for a length.
#[derive(Clone, Copy, Debug)]
enum Fit {
    /// Those that are not much too long: for lengths that differ, and buffers that are soon given back.
    Loose,
    /// Those of [`block_len`]: for buffers that are held for long.
    Block,
}

/// The most that a pool may hold.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Bytes of buffers that nobody uses.
    Kept(usize),
    /// Bytes of these and of those in use together, as far as those that nobody uses can make room.
    All(usize),
}

#[derive(Debug, Default)]
struct State {
    /// Those that nobody uses, the one used last at the end.
    kept: Vec<Vec<u8>>,
    kept_bytes: usize,
    lent_bytes: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self::keeping(KEPT_BYTES)
    }
}

impl Pool {
    /// A pool that keeps up to `limit` bytes.
    pub(crate) fn keeping(limit: usize) -> Self {
        Self { state: Arc::default(), limit: Limit::Kept(limit), fit: Fit::Loose }
    }

    /// A pool for messages of up to so many bytes that a link receives: it keeps 64 MiB at most, or as much as the longest has.
    pub(crate) fn of_link(longest_bytes: u64) -> Self {
        Self::keeping(usize::try_from(longest_bytes).unwrap_or(usize::MAX).max(KEPT_BYTES_OF_LINK))
    }

    /// A pool for buffers that are held for long, whose memory is [`block_len`] long.
    pub(crate) fn of_blocks() -> Self {
        Self { fit: Fit::Block, ..Self::default() }
    }

    /// The same, but what it keeps is what `limit` bytes leave beside the buffers in use.
    pub(crate) fn of_blocks_within(limit: usize) -> Self {
        Self { limit: Limit::All(limit), ..Self::of_blocks() }
    }

    /// An empty buffer with room for `len` bytes.
    pub(crate) fn take(&self, len: usize) -> Pooled {
        let mut buffer = self.lend(len, Vec::with_capacity);
        buffer.bytes.clear();
        buffer
    }

    /// A buffer of `len` bytes or more that may be anything: filling them first takes as long as some codecs do.
    pub(crate) fn take_room(&self, len: usize) -> Pooled {
        let mut buffer = self.lend(len, |len| vec![0; len]);
        if buffer.bytes.len() < len {
            buffer.bytes.resize(len, 0);
        }
        buffer
    }

    /// A buffer with room for `len` bytes, and in it what the last user has left; one that is `new` if none is there.
    fn lend(&self, len: usize, new: impl FnOnce(usize) -> Vec<u8>) -> Pooled {
        // Within a bound short ones count as well, though none is kept.
        if len < SHORTEST_BYTES && matches!(self.limit, Limit::Kept(_)) {
            return Pooled { bytes: new(len), lent: 0, pool: self.clone() };
        }
        let (len, most) = match self.fit {
            Fit::Loose => (len, len.saturating_mul(2)),
            Fit::Block => (block_len(len), block_len(len)),
        };
        let found = self.find(len, most);
        let lent = found.as_ref().map_or(len, Vec::capacity);
        Pooled { bytes: found.unwrap_or_else(|| new(len)), lent, pool: self.clone() }
    }

    /// Whether `len` bytes more in use would be within the bound.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_room_beside(&self, len: usize) -> bool {
        len <= self.most_kept(&self.state())
    }

    /// Counts `len` bytes of other memory as in use, until they are [given back](Self::give_back): what nobody uses makes room.
    #[cfg(feature = "cuda")]
    pub(crate) fn lend_elsewhere(&self, len: usize) {
        let mut state = self.state();
        state.lent_bytes += len;
        let most = self.most_kept(&state);
        let dropped = state.drop_to(most);
        drop(state);
        drop(dropped); // after the lock
    }

    /// As many bytes of other memory are gone.
    #[cfg(feature = "cuda")]
    pub(crate) fn give_back(&self, len: usize) {
        self.state().lent_bytes -= len;
    }

    /// Whether there is a buffer that nobody uses.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.state().kept.is_empty()
    }

    /// Lets go of all buffers that nobody uses.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        let dropped = state.drop_to(0);
        drop(state);
        drop(dropped); // after the lock
    }

    /// A buffer for `len` to `most` bytes; one that is to be allocated counts as in use already.
    fn find(&self, len: usize, most: usize) -> Option<Vec<u8>> {
        let mut state = self.state();
        // The one used last: its bytes may still be in the cache.
        let found = state.kept.iter().rposition(|buffer| (len..=most).contains(&buffer.capacity()));
        let buffer = found.map(|found| state.kept.remove(found));
        let bytes = buffer.as_ref().map_or(len, Vec::capacity);
        state.kept_bytes -= buffer.as_ref().map_or(0, Vec::capacity);
        state.lent_bytes += bytes;
        let most = self.most_kept(&state);
        let dropped = state.drop_to(most);
        drop(state);
        drop(dropped); // before more memory is asked for
        buffer
    }

    /// Takes a buffer back for which `lent` bytes were counted.
    fn keep(&self, buffer: Vec<u8>, lent: usize) {
        let mut state = self.state();
        state.lent_bytes -= lent;
        let most = self.most_kept(&state);
        // The oldest make room.
        let dropped = state.drop_to(most.saturating_sub(buffer.capacity()));
        if buffer.capacity() >= SHORTEST_BYTES && state.kept_bytes + buffer.capacity() <= most {
            state.kept_bytes += buffer.capacity();
            state.kept.push(buffer);
        }
        drop(state); // before the memory goes back to the system, which takes long
        drop(dropped);
    }

    /// Bytes that may be kept now.
    fn most_kept(&self, state: &State) -> usize {
        match self.limit {
            Limit::Kept(limit) => limit,
            Limit::All(limit) => limit.saturating_sub(state.lent_bytes),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes out the oldest until no more than `bytes` bytes are kept. To be dropped after the lock.
    fn drop_to(&mut self, bytes: usize) -> Vec<Vec<u8>> {
        let mut left = self.kept_bytes;
        let keeps_less = |buffer: &&Vec<u8>| {
            let is_too_much = left > bytes;
            left -= if is_too_much { buffer.capacity() } else { 0 };
            is_too_much
        };
        let count = self.kept.iter().take_while(keeps_less).count();
        self.kept_bytes = left;
        self.kept.drain(..count).collect()
    }
}

/// A buffer that goes back to its pool.
#[derive(Debug)]
pub(crate) struct Pooled {
    bytes: Vec<u8>,
    /// What its pool counts for it.
    lent: usize,
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
        if self.lent > 0 {
            self.pool.keep(std::mem::take(&mut self.bytes), self.lent);
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
    fn room_is_what_was_there() {
        let pool = Pool::default();
        pool.take_room(60_000)[..3].copy_from_slice(&[1, 2, 3]);
        let again = pool.take_room(50_000);
        assert_eq!((again.len(), &again[..4]), (60_000, &[1, 2, 3, 0][..]));
        drop(again);
        let mut shorter = pool.take(40_000);
        shorter.extend_from_slice(&[9; 10]);
        drop(shorter);
        let longer = pool.take_room(50_000); // what is behind the ten bytes is not known any more
        assert_eq!((longer.len(), longer[9], longer[10]), (50_000, 9, 0));
        assert_eq!(pool.take_room(10).len(), 10);
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
        let pool = Pool::keeping(300_000);
        let total = || pool.state().kept.iter().map(Vec::capacity).sum::<usize>();
        let buffers: Vec<_> = (0..4).map(|_| pool.take(100_000)).collect();
        drop(buffers);
        assert!(pool.keeps_any() && total() <= 300_000, "{}", total());
        drop(pool.take(140_000)); // the oldest make room
        assert!(total() <= 300_000 && pool.state().kept.last().unwrap().capacity() >= 140_000);
        pool.clear();
        assert!(!pool.keeps_any());
        drop((pool.take(400_000), pool.take(10))); // longer than all that may be kept; left to the allocator
        assert!(!pool.keeps_any());
    }

    #[test]
    fn a_pool_with_a_bound_keeps_what_buffers_in_use_leave() {
        let pool = Pool::of_blocks_within(300_000);
        let kept = || pool.state().kept_bytes;
        let (first, second) = (pool.take(100_000), pool.take(98_305)); // both of 106,496 bytes
        assert_eq!((first.capacity(), second.capacity()), (106_496, 106_496));
        drop((first, second));
        assert_eq!(kept(), 212_992);
        let third = pool.take(150_000); // of 163,840: one of them has to go
        assert_eq!((third.capacity(), kept()), (163_840, 106_496));
        let fourth = pool.take(106_496);
        let fifth = pool.take(200_000); // beyond the bound, which who asks has to keep
        assert_eq!(kept(), 0);
        drop((fourth, third)); // no room beside 212,992 but for neither
        assert_eq!(kept(), 0);
        drop(fifth);
        assert_eq!((kept(), pool.state().lent_bytes), (212_992, 0));
    }

    #[test]
    fn short_buffers_count_within_a_bound() {
        let pool = Pool::of_blocks_within(300_000);
        drop(pool.take(200_000));
        let bytes = || {
            let state = pool.state();
            (state.kept_bytes, state.lent_bytes)
        };
        let short: Vec<_> = (0..10).map(|_| pool.take(30_000)).collect();
        assert_eq!(bytes(), (0, 300_000));
        drop(short);
        assert_eq!(bytes(), (0, 0), "short ones are not kept");
    }

    #[test]
    fn blocks_are_at_most_an_eighth_longer_than_asked_for() {
        let known = [
            (0, 0),
            (32_767, 32_767),
            (32_768, 32_768),
            (32_769, 36_864),
            (65_535, 65_536),
            (65_537, 73_728),
        ];
        for (len, block) in known {
            assert_eq!(block_len(len), block, "{len}");
        }
        assert!((1..1 << 22).step_by(997).all(|len| (len..=len + len / 8).contains(&block_len(len))));
    }
}
