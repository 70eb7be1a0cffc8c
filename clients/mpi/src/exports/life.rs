//! Initialization and finalization, in C. Tools that stand behind the layer begin and end there as well, so these calls go to
//! whatever is next, and to MPI itself where that is loaded for a part of the program alone.
//!
//! Unsafe because programs call these.
#![allow(unsafe_code)]
#![allow(non_snake_case)] // MPI's names

use std::ffi::{c_int, c_void};
use std::mem;

use crate::calls::calls;
use crate::layer;
use crate::library::next_symbol;
use crate::types::Address;

/// # Safety
/// As MPI's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn MPI_Init(argc: Address, argv: Address) -> c_int {
    type Init = unsafe extern "C-unwind" fn(Address, Address) -> c_int;
    // SAFETY: functions of that name have these arguments.
    let next =
        next_symbol(c"MPI_Init").map(|next| unsafe { mem::transmute::<*mut c_void, Init>(next.as_ptr()) });
    // SAFETY: passed on.
    begun(unsafe { next.map_or_else(|| calls().init(argc, argv), |next| next(argc, argv)) })
}

/// # Safety
/// As MPI's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn MPI_Init_thread(
    argc: Address,
    argv: Address,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    type InitThread = unsafe extern "C-unwind" fn(Address, Address, c_int, *mut c_int) -> c_int;
    let next = next_symbol(c"MPI_Init_thread");
    // SAFETY: functions of that name have these arguments.
    let next = next.map(|next| unsafe { mem::transmute::<*mut c_void, InitThread>(next.as_ptr()) });
    // SAFETY: passed on.
    begun(unsafe {
        match next {
            Some(next) => next(argc, argv, required, provided),
            None => calls().init_thread(argc, argv, required, provided),
        }
    })
}

/// # Safety
/// As MPI's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn MPI_Finalize() -> c_int {
    type Finalize = unsafe extern "C-unwind" fn() -> c_int;
    ending();
    let next = next_symbol(c"MPI_Finalize");
    // SAFETY: functions of that name have no arguments.
    let next = next.map(|next| unsafe { mem::transmute::<*mut c_void, Finalize>(next.as_ptr()) });
    // SAFETY: passed on.
    unsafe { next.map_or_else(|| calls().finalize(), |next| next()) }
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
