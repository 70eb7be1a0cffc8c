//! How fast device memory is read.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::link::Shaping;
use crate::pace::TokenBucket;

/// The pace at which all copies together may read device memory.
#[derive(Debug)]
pub(super) struct Cap {
    bucket: Mutex<Option<TokenBucket>>,
}

impl Cap {
    /// No limit without a rate.
    pub(super) fn new(shaping: Option<Shaping>) -> Self {
        Self { bucket: Mutex::new(shaping.map(TokenBucket::new)) }
    }

    /// When `bytes` bytes may be read.
    pub(super) fn turn(&self, bytes: u64) -> Option<Instant> {
        let mut bucket = self.lock();
        let now = Instant::now(); // under the lock: turns are in its order
        bucket.as_mut().map(|bucket| bucket.turn(bytes, now).0)
    }

    /// Changes the rate; turns that were given stay.
    pub(super) fn set(&self, shaping: Shaping) {
        match &mut *self.lock() {
            Some(bucket) => bucket.set_shaping(shaping),
            none => *none = Some(TokenBucket::new(shaping)),
        }
    }

    pub(super) fn gbps(&self) -> Option<f64> {
        self.lock().as_ref().map(|bucket| bucket.shaping().rate_gbps())
    }

    fn lock(&self) -> MutexGuard<'_, Option<TokenBucket>> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
