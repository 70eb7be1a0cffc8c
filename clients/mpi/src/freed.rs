//! Communicators that the program frees. MPI calls functions of the program then, which may use the communicator, in an order that
//! differs from rank to rank: what is known of it here may be gone by then, and what were made anew would never go. So all of
//! its collectives are left alone meanwhile.
//!
//! MPICH calls these functions when the last request on the communicator is over: within the call that frees it, or long after it
//! on any thread, and not on all ranks alike. By then it may have let go of attributes in which it still looks, so it is not asked
//! for them.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::layer::Layer;
use crate::mpi::Mpi;
use crate::types::Comm;

/// The attribute of a communicator that is freed is the address of this.
static NOTHING: u8 = 0;

/// What a communicator is called while its attributes go after the call that freed it. That tells it from a later one of the same
/// handle.
const NAME: &CStr = c"freed under libmgcomp-mpi.so";

thread_local! {
    /// Communicators that the program frees on this thread, each within the call for the one before it.
    static FREED: RefCell<Vec<Comm>> = const { RefCell::new(Vec::new()) };
}

/// Those that MPI may still have after that, each once.
static LATE: Mutex<Vec<Late>> = Mutex::new(Vec::new());
/// So many: collectives look there only if there are any.
static ARE_LATE: AtomicUsize = AtomicUsize::new(0);

struct Late {
    comm: Comm,
    /// MPI takes its attributes away, or has done so.
    is_going: bool,
}

/// Does `free`, in which the program frees `comm`. A handle may stand for another communicator right after MPI has called the
/// functions.
pub(crate) fn while_freed<T>(layer: &Layer, comm: Comm, free: impl FnOnce() -> T) -> T {
    /// Takes the last one away, also where the program's own function throws.
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = FREED.try_with(|freed| freed.borrow_mut().pop());
        }
    }

    let constants = &layer.mpi.constants;
    let _ = FREED.try_with(|freed| freed.borrow_mut().push(comm));
    let _last = Last;
    // Nobody may free those that are always there, which MPI says.
    let is_one = ![constants.comm_null, constants.comm_world, constants.comm_self].contains(&comm);
    if is_one && constants.frees_late {
        // What was there goes now, on all ranks in the same order. Noted after that: where a call has failed that was to free it,
        // what goes is this very attribute.
        if layer.mpi.set_attribute(comm, layer.keyval, nothing()).is_ok() {
            note(comm, false);
        }
    }
    free()
}

/// Whether the program is freeing it, or has freed it and MPI still has it.
pub(crate) fn is_freed(mpi: &Mpi, comm: Comm) -> bool {
    is_freed_here(comm) || is_late(mpi, comm)
}

/// What the attribute of a communicator is that is freed.
pub(crate) fn nothing() -> *mut c_void {
    ptr::from_ref(&NOTHING).cast_mut().cast()
}

/// That attribute goes: MPI calls the functions now.
pub(crate) fn goes(mpi: &Mpi, comm: Comm) {
    if is_freed_here(comm) {
        forget(comm);
    } else {
        mpi.set_name(comm, NAME);
        note(comm, true);
    }
}

fn is_freed_here(comm: Comm) -> bool {
    FREED.try_with(|freed| freed.borrow().contains(&comm)).unwrap_or(false)
}

fn is_late(mpi: &Mpi, comm: Comm) -> bool {
    if ARE_LATE.load(Ordering::Acquire) == 0 {
        return false;
    }
    // MPI is not called under the lock: it may hold one of its own where it calls what takes this one.
    let is_going = late().iter().find(|late| late.comm == comm).map(|late| late.is_going);
    let is_freed = is_going.is_some_and(|is_going| !is_going || mpi.has_name(comm, NAME));
    if is_going.is_some() && !is_freed {
        forget(comm);
    }
    is_freed
}

fn note(comm: Comm, is_going: bool) {
    let mut late = late();
    late.retain(|late| late.comm != comm);
    late.push(Late { comm, is_going });
    ARE_LATE.store(late.len(), Ordering::Release);
}

fn forget(comm: Comm) {
    let mut late = late();
    late.retain(|late| late.comm != comm);
    ARE_LATE.store(late.len(), Ordering::Release);
}

fn late() -> MutexGuard<'static, Vec<Late>> {
    LATE.lock().unwrap_or_else(PoisonError::into_inner)
}
