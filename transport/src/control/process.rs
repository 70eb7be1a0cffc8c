//! What an operator sets for a process as a whole, for those of its parts that have no streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::attachment::{Attachment, attach};
use super::settings::{ReadCap, Settings};
use super::switch::is_switched_off;

/// Where a process finds what holds for all of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfProcess {
    /// None = nobody can set anything.
    attachment: Option<Arc<Attachment>>,
    /// Whether `MGCOMP=off`.
    is_switched_off: bool,
    seen: Arc<Seen>,
}

/// What was made of an operator's settings.
#[derive(Debug, Default)]
struct Seen {
    /// Whether the last that made sense turn compression off.
    off: AtomicBool,
    /// The last that made none.
    nonsense: AtomicU64,
}

impl OfProcess {
    /// This process, which the daemon sees from now on if there is one.
    pub(crate) fn attach() -> Self {
        Self { attachment: attach(), is_switched_off: is_switched_off(), seen: Arc::default() }
    }

    /// As if it had this page.
    #[cfg(test)]
    pub(crate) fn on(attachment: Arc<Attachment>) -> Self {
        Self { attachment: Some(attachment), is_switched_off: false, seen: Arc::default() }
    }

    /// Whether nothing is to be compressed now.
    pub(crate) fn is_off(&self) -> bool {
        self.is_switched_off || self.attachment.as_ref().is_some_and(|attachment| self.is_set_off(attachment))
    }

    /// As settings say that make sense. Others are counted, and those before them stay.
    fn is_set_off(&self, attachment: &Attachment) -> bool {
        let (page, Seen { off, nonsense }) = (attachment.page(), &*self.seen);
        let word = page.default_word();
        match Settings::unpack(word) {
            Ok(settings) => off.store(settings.compress == Some(false), Ordering::Relaxed),
            Err(_) if nonsense.swap(word, Ordering::Relaxed) == word => {}
            Err(_) => page.count_not_understood(),
        }
        off.load(Ordering::Relaxed)
    }

    /// The rate at which device memory may be read now, if one is set.
    pub(crate) fn read_cap(&self) -> Option<ReadCap> {
        self.attachment.as_ref()?.page().read_cap()
    }
}
