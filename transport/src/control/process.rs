//! What an operator sets for a process as a whole, for those of its parts that have no streams.

use std::sync::Arc;

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
}

impl OfProcess {
    /// This process, which the daemon sees from now on if there is one.
    pub(crate) fn attach() -> Self {
        Self { attachment: attach(), is_switched_off: is_switched_off() }
    }

    /// As if it had this page.
    #[cfg(test)]
    pub(crate) fn on(attachment: Arc<Attachment>) -> Self {
        Self { attachment: Some(attachment), is_switched_off: false }
    }

    /// Whether nothing is to be compressed now.
    pub(crate) fn is_off(&self) -> bool {
        let set = || self.attachment.as_ref().map(|attachment| attachment.page().default_word());
        let is_off = |word| Settings::unpack(word).is_ok_and(|settings| settings.compress == Some(false));
        self.is_switched_off || set().is_some_and(is_off)
    }

    /// The rate at which device memory may be read now, if one is set.
    pub(crate) fn read_cap(&self) -> Option<ReadCap> {
        self.attachment.as_ref()?.page().read_cap()
    }
}
