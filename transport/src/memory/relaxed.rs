//! What is given back to a device whoever records meanwhile.

use std::ops::{Deref, DerefMut};

use mgcomp_codecs::device::Device;

/// Something of a device that is dropped by [relaxed](Device::relaxed) rules. Whoever drops it last does not know whether some
/// thread records: by the rules of others the driver would refuse to wait then, and the recording would be spoiled.
#[derive(Debug)]
pub(crate) struct Relaxed<T> {
    device: Device,
    /// There until it is dropped.
    inner: Option<T>,
}

impl<T> Relaxed<T> {
    pub(crate) fn new(device: &Device, inner: T) -> Self {
        Self { device: device.clone(), inner: Some(inner) }
    }
}

impl<T> Deref for Relaxed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("there until it is dropped")
    }
}

impl<T> DerefMut for Relaxed<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("there until it is dropped")
    }
}

impl<T> Drop for Relaxed<T> {
    fn drop(&mut self) {
        let inner = self.inner.take();
        self.device.relaxed(|| drop(inner));
    }
}
