//! The calls by which programs free communicators, in C: they are only looked at, and go on to whatever is next.
//!
//! Unsafe because programs call these.
#![allow(unsafe_code)]
#![allow(non_snake_case)] // MPI's names

use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::sync::OnceLock;

use crate::calls::calls;
use crate::freed::while_freed;
use crate::layer;
use crate::library::next_symbol;
use crate::types::Comm;

macro_rules! frees {
    ($( $name:ident $call:ident $symbol:literal; )*) => {$(
        /// # Safety
        /// As MPI's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(comm: *mut Comm) -> c_int {
            static NEXT: OnceLock<Free> = OnceLock::new();
            let next = next(&NEXT, $symbol);
            // SAFETY: passed on.
            let free = || unsafe { next.map_or_else(|| calls().$call(comm), |next| next(comm)) };
            // SAFETY: the program has a handle there.
            let freed = layer::active().and_then(|layer| Some((layer, unsafe { layer.mpi.comm_at(comm) }?)));
            freed.map_or_else(free, |(layer, freed)| while_freed(layer, freed, free))
        }
    )*};
}

frees! {
    MPI_Comm_free comm_free c"MPI_Comm_free";
    MPI_Comm_disconnect comm_disconnect c"MPI_Comm_disconnect";
}

type Free = unsafe extern "C-unwind" fn(*mut Comm) -> c_int;

/// The function of that name behind this library, once there is one.
fn next(known: &OnceLock<Free>, name: &CStr) -> Option<Free> {
    known.get().copied().or_else(|| {
        let next = next_symbol(name)?.as_ptr();
        // SAFETY: functions of these names have that argument.
        Some(*known.get_or_init(|| unsafe { mem::transmute::<*mut c_void, Free>(next) }))
    })
}
