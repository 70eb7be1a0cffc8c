//! Who uses which bytes of a buffer: any number of readers, or one writer, of each.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::link::driving;

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
    /// Notes that `range` is in use, once it may be. A link may be what uses it, and go on only while this thread waits.
    pub(super) fn hold(&self, range: &Range<usize>, usage: Use) {
        let mut holds = self.lock();
        let waits = !holds.are_free(range, usage);
        while !holds.are_free(range, usage) {
            holds.waiting += 1;
            holds = driving::wait(&self.holds, &self.released, holds, None);
            holds.waiting -= 1;
        }
        holds.list.push(Hold { range: range.clone(), usage });
        drop(holds);
        if waits {
            driving::settle();
        }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    use crate::link::driving::{self, Driven, Headway};
    use crate::memory::{Held, HostBuffer};

    /// Lets go of what it sends, one buffer each time that it is driven.
    struct Sending(Mutex<Vec<Held>>);

    impl Driven for Sending {
        fn drive(&self) -> Headway {
            let sent = self.0.lock().unwrap().pop();
            if sent.is_some() { Headway::Made } else { Headway::Over }
        }

        fn has_queued(&self) -> bool {
            !self.0.lock().unwrap().is_empty()
        }
    }

    #[test]
    fn who_waits_for_memory_lets_links_go_on() {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let (first, last) = (HostBuffer::zeroed(8), HostBuffer::zeroed(8));
            let sending = Arc::new(Sending(Mutex::new(vec![last.all().hold(), first.all().hold()])));
            driving::add(sending.clone());
            first.all().write(|bytes| bytes.fill(7));
            assert!(!sending.has_queued(), "what is queued is handed on");
            last.all().write(|bytes| bytes.fill(8));
            done.send((first.all().to_vec(), last.all().to_vec())).unwrap();
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok((vec![7; 8], vec![8; 8])));
    }
}
