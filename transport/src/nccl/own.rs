//! What is given back at the end, or left where it is.

use std::mem;
use std::ops::{Deref, DerefMut};

/// Something that is left for good unless it is given back: what memory and streams a device may still use cannot be given
/// back without a wait for it, however long that takes.
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
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_not_given_back_is_left() {
        let thing = Arc::new(());
        Own::new(Arc::clone(&thing)).give_back();
        assert_eq!(Arc::strong_count(&thing), 1);
        drop(Own::new(Arc::clone(&thing)));
        assert_eq!(Arc::strong_count(&thing), 2);
        let own = Own::new(Arc::clone(&thing));
        let panics = AssertUnwindSafe(|| {
            let _own = own;
            panic!("on purpose");
        });
        assert!(catch_unwind(panics).is_err());
        assert_eq!(Arc::strong_count(&thing), 3);
    }
}
