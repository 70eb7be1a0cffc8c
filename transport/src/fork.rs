//! Whether this process is a child of the one that something was made in.
//!
//! A child made by `fork` has its parent's memory but none of its other threads: what they held is held for ever, and
//! what they would have done is never done. So nothing that depends on threads is touched there.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Forks between the first process that asked and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A process, as far as its own memory tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// This one.
    #[must_use]
    pub fn current() -> Self {
        static REGISTERED: Once = Once::new();

        REGISTERED.call_once(|| {
            // SAFETY: the function only changes an atomic, which is allowed whatever other threads were doing. If it
            // cannot be registered, for want of memory, children are as before.
            #[cfg(unix)]
            unsafe {
                libc::pthread_atfork(None, None, Some(count_fork));
            }
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still the same process.
    #[must_use]
    pub fn is_current(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// Runs in every child, before anything else of it.
#[cfg(unix)]
unsafe extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
