//! Initialization and finalization, in C.
//!
//! Unsafe because programs call these.
#![allow(unsafe_code)]
#![allow(non_snake_case)] // MPI's names

use std::ffi::c_int;

use crate::calls::calls;
use crate::layer;
use crate::types::Address;

/// # Safety
/// As MPI's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Init(argc: Address, argv: Address) -> c_int {
    // SAFETY: passed on.
    begun(unsafe { calls().init(argc, argv) })
}

/// # Safety
/// As MPI's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Init_thread(
    argc: Address,
    argv: Address,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: passed on.
    begun(unsafe { calls().init_thread(argc, argv, required, provided) })
}

/// # Safety
/// As MPI's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Finalize() -> c_int {
    ending();
    // SAFETY: passed on.
    unsafe { calls().finalize() }
}

/// MPI has been initialized, if `code` says so.
pub(super) fn begun(code: c_int) -> c_int {
    if code == 0 {
        let _ = std::panic::catch_unwind(layer::start);
    }
    code
}

/// MPI is about to be finalized.
pub(super) fn ending() {
    let _ = std::panic::catch_unwind(layer::end);
}
