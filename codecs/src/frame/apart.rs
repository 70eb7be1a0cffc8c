//! Values that keep to cache lines of their own.

use std::ops::Deref;

/// A value that shares no cache line, nor the line that processors bring along with it, with anything else: a
/// thread that writes to it takes nothing from others but this.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
