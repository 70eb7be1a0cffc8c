//! Which parts of a peer's window are in use, as this rank knows that sends there.
//!
//! A window has as many slots as there are words. What is sent takes slots that follow each other; the word of the first one
//! tells how often the peer was done with what began there.

use std::collections::BTreeMap;

use super::super::super::shm::guest;

/// Slots of a window.
pub(super) const COUNT: usize = guest::Words::COUNT;

/// The slots of a window.
#[derive(Debug)]
pub(super) struct Slots {
    /// How often each was the first one of something.
    uses: Box<[u64; COUNT]>,
    /// What is in use: how many slots, by the first one.
    taken: BTreeMap<usize, usize>,
    /// Where to look first: behind what was taken last, which the peer is done with last.
    next: usize,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { uses: Box::new([0; COUNT]), taken: BTreeMap::new(), next: 0 }
    }

    /// The first of `count` slots that are in use from now on, if there are so many in a row. `done` is the word of a slot.
    pub(super) fn take(&mut self, count: usize, done: impl Fn(usize) -> u64) -> Option<usize> {
        let uses = &self.uses;
        self.taken.retain(|&first, _| done(first) != uses[first]);
        let first = self.gap(self.next, COUNT, count).or_else(|| self.gap(0, COUNT, count))?;
        self.taken.insert(first, count);
        self.uses[first] += 1;
        self.next = (first + count) % COUNT;
        Some(first)
    }

    /// Slots that were taken and not sent to are free again.
    pub(super) fn give_back(&mut self, first: usize) {
        if self.taken.remove(&first).is_some() {
            self.uses[first] -= 1;
        }
    }

    /// The first place from `start` to `end` with so many free slots in a row.
    fn gap(&self, start: usize, end: usize, count: usize) -> Option<usize> {
        let mut at = start;
        for (&first, &len) in &self.taken {
            if first + len <= at {
                continue;
            }
            if at + count <= first {
                break;
            }
            at = first + len;
        }
        (at + count <= end).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of the peer.
    struct Words([u64; COUNT]);

    impl Words {
        fn take(&self, slots: &mut Slots, count: usize) -> Option<usize> {
            slots.take(count, |slot| self.0[slot])
        }
    }

    #[test]
    fn what_is_done_with_is_taken_again() {
        let (mut slots, mut words) = (Slots::new(), Words([0; COUNT]));
        let firsts: Vec<_> = (0..4).map(|_| words.take(&mut slots, 32)).collect();
        assert_eq!(firsts, [Some(0), Some(32), Some(64), Some(96)]);
        assert_eq!(words.take(&mut slots, 1), None);
        // In any order, and next to each other.
        words.0[64] += 1;
        words.0[32] += 1;
        assert_eq!(words.take(&mut slots, 65), None);
        assert_eq!(words.take(&mut slots, 64), Some(32));
        // Numbers that cannot be free nothing.
        words.0[32] += 5;
        assert_eq!(words.take(&mut slots, 1), None);
        words.0[0] += 1;
        assert_eq!(words.take(&mut slots, 33), None);
        assert_eq!(words.take(&mut slots, 32), Some(0));
        assert_eq!(words.take(&mut slots, COUNT + 1), None);
    }

    #[test]
    fn what_was_not_sent_to_is_free_at_once() {
        let (mut slots, mut words) = (Slots::new(), Words([0; COUNT]));
        for _ in 0..3 {
            assert_eq!(words.take(&mut slots, COUNT), Some(0));
            slots.give_back(0);
        }
        assert_eq!(words.take(&mut slots, COUNT), Some(0));
        words.0[0] += 1;
        assert_eq!(words.take(&mut slots, 1), Some(0));
        slots.give_back(77); // of no effect
    }

    #[test]
    fn no_two_overlap_whatever_comes() {
        let (mut slots, mut words) = (Slots::new(), Words([0; COUNT]));
        let (mut held, mut random) = (Vec::<(usize, usize)>::new(), 1u64);
        for _ in 0..5000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bits = (random >> 33) as usize;
            if bits.is_multiple_of(2) && !held.is_empty() {
                let (first, _) = held.swap_remove(bits / 2 % held.len());
                words.0[first] += 1;
            } else if let Some(first) = words.take(&mut slots, 1 + bits % 40) {
                let count = 1 + bits % 40;
                let apart = |&(other, len): &(usize, usize)| first + count <= other || other + len <= first;
                assert!(first + count <= COUNT && held.iter().all(apart), "{first} {count} {held:?}");
                held.push((first, count));
            }
        }
    }
}
