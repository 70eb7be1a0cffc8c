//! What devices do with each other's memory.
#![allow(unsafe_code)] // calls into the driver

use super::driver::call;
use super::{Device, DeviceError, Region, Stream};

/// The `CUresult` of one who may use the memory of a peer already.
const ALREADY_ENABLED: u32 = 704;
/// Those of a device that cannot, or not of one more.
const UNSUPPORTED: u32 = 217;
const TOO_MANY_PEERS: u32 = 711;

impl Device {
    /// Whether both are one context, so that the memory of one is that of the other.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.shared.context.handle == other.shared.context.handle
    }

    /// A number that all devices of this one's context have, and no others.
    #[must_use]
    pub fn context_id(&self) -> u64 {
        self.shared.context.handle as u64
    }

    /// Lets kernels of this device use the memory of `peer`, for as long as both are in use. `false` if they cannot:
    /// copies between the two go on as before then.
    ///
    /// # Errors
    /// Whatever the driver says but "no".
    pub fn reach(&self, peer: &Self) -> Result<bool, DeviceError> {
        if self.is_same(peer) {
            return Ok(true);
        }
        let (own, other) = (&self.shared.context, &peer.shared.context);
        let entered = own.enter()?;
        let mut can = 0;
        // SAFETY: `can` is a live variable; the driver gave the devices.
        unsafe {
            call!(entered.driver, cuDeviceCanAccessPeer(&raw mut can, own.device, other.device))?;
        }
        if can == 0 {
            return Ok(false);
        }
        // SAFETY: `peer` holds the context.
        match unsafe { (entered.driver.cuCtxEnablePeerAccess)(other.handle, 0) } {
            ALREADY_ENABLED => Ok(true),
            UNSUPPORTED | TOO_MANY_PEERS => Ok(false),
            code => entered.driver.check("cuCtxEnablePeerAccess", code).map(|()| true),
        }
    }
}

impl Stream {
    /// Enqueues a copy of `from`, memory of one device, to the front of `to`, memory of another. Neither needs to
    /// [reach](Device::reach) the other.
    ///
    /// # Errors
    /// [`DeviceError::TooShort`] if `to` is shorter, and whatever the driver says.
    pub fn copy_between(
        &self,
        (from_device, from): (&Device, Region<'_>),
        (to_device, to): (&Device, Region<'_>),
    ) -> Result<(), DeviceError> {
        to.check_len("the destination of a copy", from.len())?;
        if from.is_empty() {
            // Wherever it is: memory of others that has no bytes may be nowhere.
            return Ok(());
        }
        let (from_context, to_context) = (&from_device.shared.context, &to_device.shared.context);
        // The driver refuses to record the call below, even within one context (seen with CUDA 13.0). An address alone says where
        // memory is.
        let entered = self.shared.context.enter()?;
        if from_device.is_same(to_device) || self.recording_in(&entered)?.is_some() {
            return self.copy_in(&entered, from, to);
        }
        // SAFETY: as for `copy`; whoever owns the regions holds their contexts.
        unsafe {
            call!(
                entered.driver,
                cuMemcpyPeerAsync(
                    to.address(),
                    to_context.handle,
                    from.address(),
                    from_context.handle,
                    from.len() as usize,
                    self.handle,
                )
            )
        }
    }
}
