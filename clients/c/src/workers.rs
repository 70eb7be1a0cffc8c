//! Threads for large buffers.
#![allow(unsafe_code)] // called from C

use std::sync::Arc;

use mgcomp_codecs::frame::{Workers, WorkersError};

use crate::error::{Failure, call, making, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::memory::Out;

static WORKERS: Handles<Workers> = Handles::new(Kind::Workers);

/// Threads that work on one frame together. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompWorkers {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// Starts threads that encode and decode frames together with the one that asks. Frames are the same bytes whatever the
/// number of threads.
///
/// @param threads 1 to 1024, the caller's counted.
/// @param workers set to the handle, to be given to mgcompDestroyWorkers.
///
/// Any number of threads may call this at once. They may also use the same workers at once; all but one of them work
/// alone then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompCreateWorkers(threads: u32, workers: *mut mgcompWorkers) -> mgcompResult {
    making(|| {
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("workers", workers) }?;
        out.set(mgcompWorkers { id: WORKERS.insert(Workers::new(threads as usize)?)? });
        Ok(())
    })
}

/// Ends the threads, once no call uses them any more.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyWorkers(workers: mgcompWorkers) -> mgcompResult {
    call(|| WORKERS.remove(workers.id).map(drop))
}

/// The workers of a handle; none if it is all zero.
pub(crate) fn workers(handle: mgcompWorkers) -> Result<Option<Arc<Workers>>, Failure> {
    if handle.id == 0 { Ok(None) } else { WORKERS.get(handle.id).map(Some) }
}

impl From<WorkersError> for Failure {
    fn from(error: WorkersError) -> Self {
        let code = match &error {
            WorkersError::Number { .. } => mgcompResult::InvalidArgument,
            _ => mgcompResult::System,
        };
        Self::new(code, error)
    }
}
