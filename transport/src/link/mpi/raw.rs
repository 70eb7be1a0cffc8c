//! Calls of MPI.
//!
//! Unsafe because MPI keeps pointers to buffers after its calls return, and its handles are pointers. What makes it
//! sound: a buffer that MPI knows belongs to [`Operations`] until MPI says that it is done with it, and is never freed
//! if it does not; a handle is used by one thread at a time, through `&mut`; and whoever calls has seen to it that MPI
//! runs and may be called from this thread (`Mpi::new`, `finalizing.rs`).
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::mem;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mpi::ffi;

use super::error::{MpiError, MpiFailure};

/// What MPI is given time for when operations are broken off.
const CANCELLING: Duration = Duration::from_millis(50);
/// Longer than the longest text of any MPI.
const ERROR_TEXT_BYTES: usize = 4096;

/// Which threads may call MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callers {
    Any,
    One,
}

/// Finds out whether and from where MPI may be called.
pub(super) fn callers() -> Result<Callers, MpiError> {
    let (mut initialized, mut finalized, mut level, mut is_main) = (0, 0, 0, 0);
    // SAFETY: these may be called at any time from any thread, and write to the integer given.
    unsafe {
        check("MPI_Initialized", ffi::MPI_Initialized(&mut initialized))?;
        check("MPI_Finalized", ffi::MPI_Finalized(&mut finalized))?;
    }
    if finalized != 0 {
        return Err(MpiError::Finalized);
    }
    if initialized == 0 {
        return Err(MpiError::NotInitialized);
    }
    // SAFETY: these may be called from any thread while MPI runs, and write to the integer given. The constants are
    // never written.
    unsafe {
        check("MPI_Query_thread", ffi::MPI_Query_thread(&mut level))?;
        check("MPI_Is_thread_main", ffi::MPI_Is_thread_main(&mut is_main))?;
        if level == ffi::RSMPI_THREAD_MULTIPLE {
            Ok(Callers::Any)
        } else if level == ffi::RSMPI_THREAD_SINGLE {
            Err(MpiError::SingleThread)
        } else if level == ffi::RSMPI_THREAD_FUNNELED && is_main == 0 {
            Err(MpiError::OtherThread)
        } else {
            Ok(Callers::One)
        }
    }
}

/// A communicator of the link's own, and what MPI was asked to do on it; `T` says what for.
pub(super) struct Operations<T> {
    comm: ffi::MPI_Comm,
    /// Null where no operation is under way.
    requests: Vec<ffi::MPI_Request>,
    held: Vec<Option<(T, Held)>>,
    free: Vec<usize>,
    /// Room for what MPI reports.
    indices: Vec<c_int>,
    statuses: Vec<ffi::MPI_Status>,
}

// SAFETY: MPI's handles may be used from any thread that may call MPI, and those of `Operations` only through `&mut`.
unsafe impl<T: Send> Send for Operations<T> {}

/// A communicator that nobody uses any more.
pub(super) struct Unused(ffi::MPI_Comm);

// SAFETY: MPI's handles may be used from any thread that may call MPI.
unsafe impl Send for Unused {}

impl Unused {
    /// Gives the communicator back to MPI.
    pub(super) fn free(mut self) {
        // SAFETY: the communicator was a link's own, and nothing is under way on it.
        let _ = unsafe { ffi::MPI_Comm_free(&mut self.0) };
    }
}

/// A buffer that MPI knows.
enum Held {
    Send(#[allow(dead_code, reason = "MPI reads it")] Bytes),
    Receive(BytesMut),
}

/// An operation that is over: what it was for, and the bytes that came if it was to receive some.
pub(super) type Completion<T> = (T, Result<BytesMut, MpiFailure>);

impl<T> Operations<T> {
    /// Duplicates `comm`, which all its members do at the same time. Errors of the duplicate are returned.
    pub(super) fn on_duplicate(comm: ffi::MPI_Comm) -> Result<Self, MpiFailure> {
        // SAFETY: the null communicator is a constant. `comm` belongs to a communicator that lives, and may be
        // duplicated. The handle is written before it is used.
        let duplicate = unsafe {
            let mut duplicate = ffi::RSMPI_COMM_NULL;
            check("MPI_Comm_dup", ffi::MPI_Comm_dup(comm, &mut duplicate))?;
            let set = ffi::MPI_Comm_set_errhandler(duplicate, ffi::RSMPI_ERRORS_RETURN);
            check("MPI_Comm_set_errhandler", set)?;
            duplicate
        };
        let (requests, held, free) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { comm: duplicate, requests, held, free, indices: Vec::new(), statuses: Vec::new() })
    }

    /// Brings the bytes of rank 0 to all, which call this at the same time.
    pub(super) fn broadcast<const N: usize>(&mut self, mut bytes: [u8; N]) -> Result<[u8; N], MpiFailure> {
        // SAFETY: `bytes` has N bytes, which MPI reads or writes before it returns.
        let code = unsafe {
            ffi::MPI_Bcast(bytes.as_mut_ptr().cast(), N as c_int, ffi::RSMPI_UINT8_T, 0, self.comm)
        };
        check("MPI_Bcast", code)?;
        Ok(bytes)
    }

    /// Starts to send `bytes`, which is over when the receiver has begun to take them.
    pub(super) fn send(&mut self, bytes: Bytes, to: u32, tag: c_int, what: T) -> Result<(), MpiFailure> {
        let slot = self.slot();
        let len = checked_len(bytes.len())?;
        // SAFETY: `bytes` lie still until they are dropped, which is not before MPI has reported the request as
        // complete; `checked_len` is their length.
        let code = unsafe {
            let data = bytes.as_ptr().cast();
            let request = &mut self.requests[slot];
            ffi::MPI_Issend(data, len, ffi::RSMPI_UINT8_T, to as c_int, tag, self.comm, request)
        };
        self.begun("MPI_Issend", code, slot, (what, Held::Send(bytes)))
    }

    /// Starts to receive as many bytes as `room` has capacity for, or fewer. `room` has none yet.
    pub(super) fn receive(
        &mut self,
        mut room: BytesMut,
        from: u32,
        tag: c_int,
        what: T,
    ) -> Result<(), MpiFailure> {
        let slot = self.slot();
        let len = checked_len(room.capacity())?;
        // SAFETY: `room` has that capacity, lies still, and is neither touched nor dropped before MPI has reported
        // the request as complete.
        let code = unsafe {
            let data = room.as_mut_ptr().cast();
            let request = &mut self.requests[slot];
            ffi::MPI_Irecv(data, len, ffi::RSMPI_UINT8_T, from as c_int, tag, self.comm, request)
        };
        self.begun("MPI_Irecv", code, slot, (what, Held::Receive(room)))
    }

    /// Lets MPI go on, and appends what is over to `done`.
    pub(super) fn complete(&mut self, done: &mut Vec<Completion<T>>) -> Result<(), MpiFailure> {
        if self.requests.len() == self.free.len() {
            return Ok(());
        }
        let mut count = 0;
        // SAFETY: all four arrays have as many entries as there are requests (`slot`), and MPI writes no more.
        let code = unsafe {
            ffi::MPI_Testsome(
                self.requests.len() as c_int,
                self.requests.as_mut_ptr(),
                &mut count,
                self.indices.as_mut_ptr(),
                self.statuses.as_mut_ptr(),
            )
        };
        let is_good = code == ffi::MPI_SUCCESS as c_int;
        let each_has_its_own = !is_good && class_of(code) == ffi::MPI_ERR_IN_STATUS as c_int;
        if !each_has_its_own {
            check("MPI_Testsome", code)?;
        }
        // Less than 0 if there were no requests at all.
        for i in 0..usize::try_from(count).unwrap_or(0) {
            let (slot, status) = (self.indices[i] as usize, self.statuses[i]);
            let Some((what, held)) = self.held.get_mut(slot).and_then(Option::take) else { continue };
            // A request that failed is not always given back.
            // SAFETY: the null request is a constant.
            self.requests[slot] = unsafe { ffi::RSMPI_REQUEST_NULL };
            self.free.push(slot);
            let code = if each_has_its_own { status.MPI_ERROR } else { 0 };
            done.push((what, check("MPI_Testsome", code).and_then(|()| received(held, &status))));
        }
        Ok(())
    }

    /// Breaks off what is under way. Returns the communicator if MPI has let go of everything.
    pub(super) fn end(mut self) -> Option<Unused> {
        // SAFETY: the null request is a constant.
        let null = unsafe { ffi::RSMPI_REQUEST_NULL };
        for (request, held) in self.requests.iter_mut().zip(&self.held) {
            // One that MPI has ended with an error for all may hold a buffer still.
            if let (Some((_, Held::Receive(_))), true) = (held, *request != null) {
                // SAFETY: the request is not complete.
                let _ = unsafe { ffi::MPI_Cancel(request) };
            }
        }
        let (started, mut done) = (Instant::now(), Vec::new());
        while self.requests.len() > self.free.len() {
            if self.complete(&mut done).is_err() || started.elapsed() > CANCELLING {
                return None; // MPI keeps the communicator, and the buffers (see `Drop`)
            }
            thread::yield_now();
        }
        Some(Unused(self.comm))
    }

    /// A place for a request.
    fn slot(&mut self) -> usize {
        if let Some(&slot) = self.free.last() {
            return slot;
        }
        let slot = self.requests.len();
        // SAFETY: the null request is a constant, and a status is plain integers that MPI writes before they are read.
        unsafe {
            self.requests.push(ffi::RSMPI_REQUEST_NULL);
            self.statuses.push(mem::zeroed());
        }
        self.indices.push(0);
        self.held.push(None);
        self.free.push(slot);
        slot
    }

    /// Keeps the buffer of an operation that has begun in the slot on top of the free ones.
    fn begun(
        &mut self,
        call: &'static str,
        code: c_int,
        slot: usize,
        held: (T, Held),
    ) -> Result<(), MpiFailure> {
        if let Err(failure) = check(call, code) {
            // SAFETY: the null request is a constant.
            self.requests[slot] = unsafe { ffi::RSMPI_REQUEST_NULL };
            return Err(failure);
        }
        self.free.pop();
        self.held[slot] = Some(held);
        Ok(())
    }
}

impl<T> Drop for Operations<T> {
    fn drop(&mut self) {
        // MPI may still read and write these.
        self.held.drain(..).flatten().for_each(|(_, held)| mem::forget(held));
    }
}

/// The bytes that came.
fn received(held: Held, status: &ffi::MPI_Status) -> Result<BytesMut, MpiFailure> {
    let Held::Receive(mut room) = held else { return Ok(BytesMut::new()) };
    let mut count = 0;
    // SAFETY: the status is one that MPI wrote.
    let code = unsafe { ffi::MPI_Get_count(status, ffi::RSMPI_UINT8_T, &mut count) };
    check("MPI_Get_count", code)?;
    let len = usize::try_from(count).unwrap_or(0).min(room.capacity());
    // SAFETY: MPI says that it has written so many bytes, and it was given the capacity as limit.
    unsafe { room.set_len(len) };
    Ok(room)
}

fn checked_len(len: usize) -> Result<c_int, MpiFailure> {
    let too_long = |_| MpiFailure { call: "a transfer", code: 0, text: format!("{len} bytes are too many") };
    c_int::try_from(len).map_err(too_long)
}

/// What kind of error `code` is: MPICH returns codes that say more.
fn class_of(code: c_int) -> c_int {
    let mut class = code;
    // SAFETY: the call may be made from any thread that may call MPI, and writes to the integer given.
    let _ = unsafe { ffi::MPI_Error_class(code, &mut class) };
    class
}

fn check(call: &'static str, code: c_int) -> Result<(), MpiFailure> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let (mut text, mut len): ([c_char; ERROR_TEXT_BYTES], c_int) = ([0; ERROR_TEXT_BYTES], 0);
    // SAFETY: there is more room than any text takes, and the last byte stays 0.
    let text = unsafe {
        ffi::MPI_Error_string(code, text.as_mut_ptr(), &mut len);
        CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
    };
    Err(MpiFailure { call, code, text })
}

/// Has `ending` called when MPI is about to be finalized, by the thread that does so, while it may still be called.
pub(super) fn before_finalizing(ending: fn()) -> Result<(), MpiFailure> {
    let mut key = 0;
    // SAFETY: the functions have the types that MPI expects and live as long as the program. The state is a function
    // without data. MPI deletes the attributes of this communicator first when it is finalized.
    unsafe {
        let state = ending as *mut std::ffi::c_void;
        let created = ffi::MPI_Comm_create_keyval(Some(copied), Some(deleted), &mut key, ptr::null_mut());
        check("MPI_Comm_create_keyval", created)?;
        check("MPI_Comm_set_attr", ffi::MPI_Comm_set_attr(ffi::RSMPI_COMM_SELF, key, state))
    }
}

/// Copies of the communicator do not get the attribute.
unsafe extern "C" fn copied(
    _: ffi::MPI_Comm,
    _: c_int,
    _: *mut std::ffi::c_void,
    _: *mut std::ffi::c_void,
    _: *mut std::ffi::c_void,
    is_kept: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives a place for the flag.
    unsafe { *is_kept = 0 };
    ffi::MPI_SUCCESS as c_int
}

unsafe extern "C" fn deleted(
    _: ffi::MPI_Comm,
    _: c_int,
    ending: *mut std::ffi::c_void,
    _: *mut std::ffi::c_void,
) -> c_int {
    // SAFETY: the attribute is the function that `before_finalizing` was given.
    let ending: fn() = unsafe { mem::transmute(ending) };
    // A panic must not reach MPI's frames.
    let _ = std::panic::catch_unwind(ending);
    ffi::MPI_SUCCESS as c_int
}
