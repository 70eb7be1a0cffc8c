//! Which devices there are.
#![allow(unsafe_code)] // calls into the driver

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute};

use super::driver::{Driver, call};
use super::{Capability, DeviceError};

/// What there is to know of a device without using it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its number, from 0, among those that the driver shows to this process.
    pub ordinal: u32,
    /// The driver's name for it.
    pub name: String,
    /// Its compute capability.
    pub capability: Capability,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Shared memory in bytes that a block can have.
    pub shared_bytes: u32,
    /// Its second-level cache in bytes; 0 if it has none.
    pub l2_bytes: u32,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// The version of CUDA that the driver knows: 13000 is 13.0.
    pub driver_version: u32,
}

/// The devices of this machine, by number.
///
/// # Errors
/// [`DeviceError::NoDriver`] where there is no driver, and whatever the driver says.
pub fn devices() -> Result<Vec<DeviceInfo>, DeviceError> {
    let driver = Driver::instance()?;
    (0..count(driver)?).map(|ordinal| info(driver, ordinal, handle(driver, ordinal)?)).collect()
}

/// The device with number `ordinal`.
pub(super) fn find(driver: &Driver, ordinal: u32) -> Result<(CUdevice, DeviceInfo), DeviceError> {
    let count = count(driver)?;
    if ordinal >= count {
        return Err(DeviceError::NoDevice { ordinal, count });
    }
    let device = handle(driver, ordinal)?;
    Ok((device, info(driver, ordinal, device)?))
}

fn count(driver: &Driver) -> Result<u32, DeviceError> {
    let mut count = 0;
    // SAFETY: the arguments are a number and a live variable.
    unsafe {
        call!(driver, cuInit(0))?;
        call!(driver, cuDeviceGetCount(&raw mut count))?;
    }
    Ok(count.max(0) as u32)
}

fn handle(driver: &Driver, ordinal: u32) -> Result<CUdevice, DeviceError> {
    let mut device = 0;
    // SAFETY: `device` is a live variable; the driver checks the number.
    unsafe { call!(driver, cuDeviceGet(&raw mut device, ordinal as i32))? };
    Ok(device)
}

fn info(driver: &Driver, ordinal: u32, device: CUdevice) -> Result<DeviceInfo, DeviceError> {
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: `value` is a live variable; the driver gave `device`.
        unsafe { call!(driver, cuDeviceGetAttribute(&raw mut value, attribute, device)) }?;
        Ok(value.max(0) as u32)
    };
    let mut memory_bytes = 0;
    // SAFETY: as above.
    unsafe { call!(driver, cuDeviceTotalMem_v2(&raw mut memory_bytes, device))? };
    let mut version = 0;
    // SAFETY: `version` is a live variable.
    unsafe { call!(driver, cuDriverGetVersion(&raw mut version))? };
    Ok(DeviceInfo {
        ordinal,
        name: name(driver, device)?,
        capability: Capability {
            major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        },
        sm_count: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        memory_bytes: memory_bytes as u64,
        driver_version: version.max(0) as u32,
    })
}

fn name(driver: &Driver, device: CUdevice) -> Result<String, DeviceError> {
    let mut name = [0u8; 256];
    // One byte less than there is, so that a zero follows whatever the driver does.
    let room = name.len() as i32 - 1;
    // SAFETY: `name` has more than `room` bytes.
    unsafe { call!(driver, cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), room, device))? };
    Ok(CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned())
}
