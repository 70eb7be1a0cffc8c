//! Who uses which bytes of a buffer: any number of readers, or one writer, of each.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Ranges of a buffer that are in use.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    holds: Mutex<Holds>,
    released: Condvar,
}

/// What is in use.
#[derive(Debug, Default)]
struct Holds {
    list: Vec<Hold>,
    /// Threads that wait for something to be released: telling nobody would be a call of the system all the same.
    waiting: usize,
}

/// A range that somebody is using.
#[derive(Debug)]
struct Hold {
    range: Range<usize>,
    usage: Use,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Shared,
    Exclusive,
}

impl Ranges {
    /// Notes that `range` is in use, once it may be.
    pub(super) fn hold(&self, range: &Range<usize>, usage: Use) {
        let mut holds = self.lock();
        while !holds.are_free(range, usage) {
            holds.waiting += 1;
            holds = self.released.wait(holds).unwrap_or_else(PoisonError::into_inner);
            holds.waiting -= 1;
        }
        holds.list.push(Hold { range: range.clone(), usage });
    }

    /// As [`hold`](Self::hold), but `false` where that would have to wait.
    pub(super) fn try_hold(&self, range: &Range<usize>, usage: Use) -> bool {
        let mut holds = self.lock();
        let free = holds.are_free(range, usage);
        if free {
            holds.list.push(Hold { range: range.clone(), usage });
        }
        free
    }

    /// The end of such a use.
    pub(super) fn release(&self, range: &Range<usize>, usage: Use) {
        let mut holds = self.lock();
        if let Some(i) = holds.list.iter().position(|h| h.range == *range && h.usage == usage) {
            holds.list.swap_remove(i);
        }
        let waiting = holds.waiting > 0;
        drop(holds);
        if waiting {
            self.released.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Holds> {
        // The list is whole whenever the lock is free: nothing between lock and unlock can panic halfway.
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holds {
    fn are_free(&self, range: &Range<usize>, usage: Use) -> bool {
        let excludes = |held: &Hold| held.usage == Use::Exclusive || usage == Use::Exclusive;
        !self.list.iter().any(|held| excludes(held) && overlap(&held.range, range))
    }
}

pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}
