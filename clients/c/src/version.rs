//! Which library this is.
#![allow(unsafe_code)] // names for C

use std::ffi::c_char;

/// The ABI that this header describes. It changes when programs have to be compiled anew.
pub const MGCOMP_ABI_VERSION: u32 = 1;

/// The same as a symbol: what the library was built with, to be compared with MGCOMP_ABI_VERSION.
#[unsafe(no_mangle)]
pub static mgcompAbi: u32 = MGCOMP_ABI_VERSION;

/// The ABI of the library that the program runs with. Where it is not MGCOMP_ABI_VERSION, nothing else is to be called.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompAbiVersion() -> u32 {
    MGCOMP_ABI_VERSION
}

/// The version of the library, such as "0.1.0". It lives as long as the program.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompVersion() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
