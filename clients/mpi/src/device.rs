//! Whether an address is in the memory of a device.
//!
//! Unsafe because it asks the CUDA driver, if the program has loaded it. MPI takes such addresses where it was built for it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::types::Address;

type GetAttribute = unsafe extern "C" fn(value: *mut c_void, attribute: c_int, address: u64) -> c_int;

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
const MEMORY_TYPE: c_int = 2;
/// `CU_MEMORYTYPE_DEVICE`.
const DEVICE: u32 = 2;

/// Whether it is. Memory that host and device both use counts as host memory.
pub(crate) fn holds(address: Address) -> bool {
    let Some(get_attribute) = driver() else { return false };
    let mut kind = 0u32;
    // SAFETY: writes a number of that size; any address may be asked about.
    let known = unsafe { get_attribute((&raw mut kind).cast(), MEMORY_TYPE, address as u64) } == 0;
    known && kind == DEVICE
}

/// The driver's function, once the driver is loaded, which programs may do late.
fn driver() -> Option<GetAttribute> {
    static FOUND: OnceLock<GetAttribute> = OnceLock::new();
    static IS_FOUND: AtomicBool = AtomicBool::new(false);
    if !IS_FOUND.load(Ordering::Acquire) {
        // SAFETY: the names end with NUL; nothing is loaded that is not there already; the driver is never unloaded.
        let function = unsafe {
            let driver = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
            if driver.is_null() {
                return None;
            }
            libc::dlsym(driver, c"cuPointerGetAttribute".as_ptr())
        };
        if function.is_null() {
            return None;
        }
        // SAFETY: the function of that name has these arguments.
        let _ = FOUND.set(unsafe { mem::transmute::<*mut c_void, GetAttribute>(function) });
        IS_FOUND.store(true, Ordering::Release);
    }
    FOUND.get().copied()
}
