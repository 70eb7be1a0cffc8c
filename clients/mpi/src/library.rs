//! The MPI library that this process has loaded.
//!
//! Unsafe because symbols are looked up by name. What is done with them is the affair of who asks.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use crate::abi::Family;

/// Names that libraries of known binary interfaces go by, the most telling first.
const NAMES: [(&CStr, Family); 4] = [
    (c"libmpi_abi.so.1", Family::Standard),
    (c"libmpi.so.40", Family::OpenMpi),
    (c"libmpich.so.12", Family::Mpich),
    (c"libmpi.so.12", Family::Mpich),
];

/// Where symbols of MPI are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
    family: Option<Family>,
}

impl Library {
    /// The one that is loaded; if none is known, whatever comes behind this library.
    pub(crate) fn find() -> Self {
        let loaded = NAMES.iter().find_map(|&(name, family)| {
            // SAFETY: the name ends with NUL; nothing is loaded that is not there already.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
            let library = Self { handle, family: Some(family) };
            let is_it = !handle.is_null() && library.symbol(family.landmark()).is_some();
            is_it.then_some(library)
        });
        loaded.unwrap_or(Self { handle: libc::RTLD_NEXT, family: None })
    }

    /// Which binary interface it has, if that is known.
    pub(crate) fn family(&self) -> Option<Family> {
        self.family
    }

    /// The address of what it exports under that name.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is one of `dlopen`, never closed, or a constant; the name ends with NUL.
        NonNull::new(unsafe { libc::dlsym(self.handle, name.as_ptr()) })
    }
}

/// What other libraries, behind this one, export under that name.
pub(crate) fn next_symbol(name: &CStr) -> Option<NonNull<c_void>> {
    Library { handle: libc::RTLD_NEXT, family: None }.symbol(name)
}

/// What the program, or a library, exports under that name.
pub(crate) fn global_symbol(name: &CStr) -> Option<NonNull<c_void>> {
    Library { handle: libc::RTLD_DEFAULT, family: None }.symbol(name)
}
