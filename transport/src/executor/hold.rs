//! The host memory that a piece of work is on, held for it.

use super::Work;
use super::waiting::InUse;
use crate::memory::{Held, HeldMut};

/// Memory that is held, or why none is.
pub(super) enum Memory {
    Source(Held),
    Destination(HeldMut),
    /// What is to be decoded is where it goes already.
    InPlace,
    /// The payload is somewhere else.
    Elsewhere,
}

impl Memory {
    /// Holds what `work` needs if nobody else does.
    pub(super) fn try_hold(work: &Work) -> Result<Self, InUse> {
        match work {
            work if work.is_in_place() => Ok(Self::InPlace),
            Work::Estimate { source, .. } | Work::Encode { source, .. } => match source.memory() {
                Some(source) => source.try_hold().map(Self::Source).ok_or(InUse),
                None => Ok(Self::Elsewhere),
            },
            Work::Decode { destination, .. } => match destination.memory() {
                Some(into) => into.try_hold_mut().map(Self::Destination).ok_or(InUse),
                None => Ok(Self::Elsewhere),
            },
        }
    }
}
