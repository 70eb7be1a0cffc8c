//! What is given back at the end, or left where it is.

use std::mem;
use std::ops::{Deref, DerefMut};

/// Something that can be left for good: what memory and streams a device may still use cannot be given back without a wait
/// for it, however long that takes.
#[derive(Debug)]
pub(super) struct Own<T>(Option<T>);

impl<T> Own<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Gives it back: nobody looks at it any more.
    pub(super) fn give_back(&mut self) {
        self.0 = None;
    }

    /// Leaves it: nobody looks at it any more.
    pub(super) fn leave(&mut self) {
        mem::forget(self.0.take());
    }
}

impl<T> Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there up to the end")
    }
}

impl<T> DerefMut for Own<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there up to the end")
    }
}
