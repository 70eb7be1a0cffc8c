//! Whose memory an address is in, as the driver knows it.
#![allow(unsafe_code)] // calls into the driver

#[cfg(target_os = "linux")]
use std::ffi::CStr;
use std::ffi::{c_int, c_uint, c_void};
use std::mem;
use std::ptr;
use std::sync::OnceLock;
#[cfg(target_os = "linux")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};

use libloading::os::unix::{Library, RTLD_NOW};

use super::driver::Driver;
use super::{Device, DeviceError};

/// A driver that nobody has initialized yet, or that is done, has no memory.
const NOT_INITIALIZED: u32 = 3;
const DEINITIALIZED: u32 = 4;

/// `CU_POINTER_ATTRIBUTE_CONTEXT`, `_MEMORY_TYPE`, `_IS_MANAGED` and `_DEVICE_ORDINAL`.
const ATTRIBUTES: [c_int; 4] = [1, 2, 8, 9];
/// `CU_MEMORYTYPE_DEVICE`.
const ON_DEVICE: u32 = 2;

type GetAttributes = unsafe extern "C" fn(c_uint, *const c_int, *mut *mut c_void, u64) -> u32;

/// Who has the memory at an address: a CUDA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number of the device.
    pub ordinal: u32,
    /// Whether the host has it as well (`cudaMallocManaged`).
    pub is_managed: bool,
    /// Its context that the memory was allocated in; 0 for memory of none, as that of pools and of files is.
    context: u64,
}

impl Holder {
    /// Whether work of `device` may use the memory as its own.
    #[must_use]
    pub fn is(&self, device: &Device) -> bool {
        self.ordinal == device.info().ordinal && (self.context == 0 || self.context == device.context_id())
    }
}

/// The device that has the memory at `address`. `None` for memory of the host, also where it is page-locked, and for all memory of
/// a process that has not loaded the driver: to ask does not load it.
///
/// # Errors
/// Whatever the driver says, where the host cannot read the memory either. What it can read is its own then.
pub fn holder(address: u64) -> Result<Option<Holder>, DeviceError> {
    let Some(get_attributes) = loaded() else { return Ok(None) };
    let mut context = ptr::null_mut::<c_void>();
    let (mut memory_type, mut is_managed, mut ordinal) = (0u32, 0u32, 0i32);
    let mut answers: [*mut c_void; 4] = [
        (&raw mut context).cast(),
        (&raw mut memory_type).cast(),
        (&raw mut is_managed).cast(),
        (&raw mut ordinal).cast(),
    ];
    let count = ATTRIBUTES.len() as c_uint;
    // SAFETY: as many attributes as places for answers, each a live variable of the width that cuda.h says, or wider; any
    // address may be asked about.
    let code = unsafe { get_attributes(count, ATTRIBUTES.as_ptr(), answers.as_mut_ptr(), address) };
    match code {
        0 => {
            let ordinal = u32::try_from(ordinal).ok().filter(|_| memory_type == ON_DEVICE);
            let (is_managed, context) = (is_managed != 0, context as u64);
            Ok(ordinal.map(|ordinal| Holder { ordinal, is_managed, context }))
        }
        NOT_INITIALIZED | DEINITIALIZED => Ok(None),
        _ if is_readable(address) => Ok(None),
        code => Err(match Driver::instance() {
            Ok(driver) => driver.error("cuPointerGetAttributes", code),
            Err(error) => error,
        }),
    }
}

/// The driver's function, once the program has loaded the driver, which it may do late.
fn loaded() -> Option<GetAttributes> {
    static FOUND: OnceLock<GetAttributes> = OnceLock::new();
    /// How many libraries had been loaded when there was no driver among them; the search takes some microseconds.
    static IN_VAIN: AtomicU64 = AtomicU64::new(u64::MAX);
    if let Some(found) = FOUND.get() {
        return Some(*found);
    }
    let loads = loads();
    if loads.is_some_and(|loads| loads == IN_VAIN.load(Ordering::Relaxed)) {
        return None;
    }
    let found = find().map(|function| *FOUND.get_or_init(|| function));
    if found.is_none() {
        IN_VAIN.store(loads.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
    found
}

fn find() -> Option<GetAttributes> {
    // SAFETY: nothing is loaded that is not there already.
    let driver = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | libc::RTLD_NOLOAD) }.ok()?;
    // SAFETY: the function of that name has these arguments.
    let function = unsafe { driver.get::<GetAttributes>(b"cuPointerGetAttributes\0") }.ok()?;
    let function = *function;
    mem::forget(driver); // it stays, whoever else lets it go
    Some(function)
}

/// Whether the host can read the byte at `address`, as the kernel says when it is to write it to a pipe.
fn is_readable(address: u64) -> bool {
    let mut ends = [0; 2];
    #[cfg(target_os = "linux")]
    // SAFETY: `ends` is a live array of two.
    let status = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    #[cfg(not(target_os = "linux"))]
    // SAFETY: as above.
    let status = unsafe { libc::pipe(ends.as_mut_ptr()) };
    if status != 0 {
        return false;
    }
    // SAFETY: the kernel looks at the address, and says whether it may; both ends are this function's.
    unsafe {
        let written = libc::write(ends[1], address as *const c_void, 1);
        libc::close(ends[0]);
        libc::close(ends[1]);
        written == 1
    }
}

/// Runtimes of devices that are not CUDA's: HIP's and Level Zero's.
#[cfg(target_os = "linux")]
const OTHERS: [&[u8]; 2] = [b"libamdhip64.so", b"libze_loader.so"];

/// Whether the process has loaded the runtime of devices that are not CUDA's. Whose memory an address is in is not known then.
#[must_use]
pub fn are_others_loaded() -> bool {
    #[cfg(target_os = "linux")]
    {
        static FOUND: AtomicBool = AtomicBool::new(false);
        /// How many libraries had been loaded when there was none of them.
        static IN_VAIN: AtomicU64 = AtomicU64::new(u64::MAX);

        /// Called for one library after the other until it is one of them.
        unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, _: *mut c_void) -> c_int {
            // SAFETY: the loader gives what it knows of a library.
            let name = unsafe { (*info).dlpi_name };
            if name.is_null() {
                return 0;
            }
            // SAFETY: a text that ends with NUL.
            let path = unsafe { CStr::from_ptr(name) }.to_bytes();
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            c_int::from(OTHERS.iter().any(|other| name.starts_with(other)))
        }

        let loads = loads();
        if !FOUND.load(Ordering::Relaxed) && loads != Some(IN_VAIN.load(Ordering::Relaxed)) {
            // SAFETY: `look` takes nothing but what the loader gives.
            let found = unsafe { libc::dl_iterate_phdr(Some(look), ptr::null_mut()) } != 0;
            match found {
                true => FOUND.store(true, Ordering::Relaxed),
                false => IN_VAIN.store(loads.unwrap_or(u64::MAX), Ordering::Relaxed),
            }
        }
        FOUND.load(Ordering::Relaxed)
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// How many libraries the process has loaded so far, where the system counts them.
fn loads() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        /// Called for the first of them.
        unsafe extern "C" fn look(
            library: *mut libc::dl_phdr_info,
            _size: usize,
            loads: *mut c_void,
        ) -> c_int {
            // SAFETY: the loader gives what it knows of a library, and `loads` as it was given.
            unsafe { *loads.cast::<u64>() = (*library).dlpi_adds };
            1 // no further one
        }

        let mut loads = 0u64;
        // SAFETY: `look` writes to `loads`, which lives.
        let stopped = unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut loads).cast()) };
        (stopped == 1).then_some(loads)
    }
    #[cfg(not(target_os = "linux"))]
    None
}
