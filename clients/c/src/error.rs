//! Result codes, and the text of the last error.
#![allow(unsafe_code)] // called from C

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use mgcomp_transport::attach;

use crate::memory::Out;
use crate::number::number;

/// What a call came to. All but MGCOMP_RESULT_SUCCESS are errors; mgcompLastError has the text.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mgcompResult {
    /// All is well.
    Success = 0,
    /// An argument cannot be used: NULL, a number without a meaning, buffers that overlap, a size that is out of range.
    /// Nothing was done.
    InvalidArgument = 1,
    /// A handle is none of this library, of another kind, or destroyed or finished already. Nothing was done.
    InvalidHandle = 2,
    /// A buffer is too small; the text says what is needed. Nothing was done, except where the call says otherwise.
    BufferTooSmall = 3,
    /// Bytes are not what they should be: a damaged frame, a file that is no table. What was to be filled holds anything.
    BadData = 4,
    /// This library or this machine cannot do that.
    Unsupported = 5,
    /// There is not as much memory, or no place left in a pool.
    NoMemory = 6,
    /// The operating system or a device failed: files, threads, sockets, work on a GPU.
    System = 7,
    /// A transfer with another rank failed, or its session is over.
    Transfer = 8,
    /// The time is up. What was waited for goes on.
    Timeout = 9,
    /// Another thread is waiting for this request; or memory that was lent is still used, where a call says so.
    Busy = 10,
    /// A mistake in the library. Please report it with the text.
    Internal = 11,
}

/// Why a call fails: a code for the program, and a text for people.
#[derive(Debug)]
pub(crate) struct Failure {
    code: mgcompResult,
    text: String,
}

impl Failure {
    pub(crate) fn new(code: mgcompResult, text: impl fmt::Display) -> Self {
        Self { code, text: text.to_string() }
    }

    pub(crate) fn argument(text: impl fmt::Display) -> Self {
        Self::new(mgcompResult::InvalidArgument, text)
    }
}

thread_local! {
    /// The last error of a call on this thread.
    static LAST: RefCell<(mgcompResult, CString)> = RefCell::new((mgcompResult::Success, CString::default()));
}

/// Does the work of a call: its error is kept for [`mgcompLastError`], and no panic gets out.
#[inline]
pub(crate) fn call(work: impl FnOnce() -> Result<(), Failure>) -> mgcompResult {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => mgcompResult::Success,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => keep(panicked(panic)),
    }
}

/// The same for a call that makes something which may have to say more than what the call came to: the log begins before.
pub(crate) fn making(work: impl FnOnce() -> Result<(), Failure>) -> mgcompResult {
    call(|| {
        attach::log();
        work()
    })
}

#[cold]
fn keep(Failure { code, text }: Failure) -> mgcompResult {
    // Texts quote what the program gave, which may have zeros in it.
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    // While the thread ends, its last error may be gone already.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = (code, text);
        }
    });
    code
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> Failure {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    let failure = Failure::new(mgcompResult::Internal, format_args!("panic: {said}"));
    std::mem::forget(panic); // its drop might panic again
    failure
}

/// The last error of a call on this thread: returns its code, MGCOMP_RESULT_SUCCESS if there was none yet. Calls that
/// succeed leave it as it is.
///
/// @param message if not NULL, set to the text, in UTF-8 and ended by a zero: "" if there was no error. It belongs to the
/// library and stays as it is until another call fails on this thread, or the thread ends.
///
/// Any number of threads may call this at once; each has its own last error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompLastError(message: *mut *const c_char) -> mgcompResult {
    let last = LAST.try_with(|last| last.try_borrow().map(|last| (last.0, last.1.as_ptr())).ok());
    let (code, text) = last.ok().flatten().unwrap_or((mgcompResult::Success, c"".as_ptr()));
    if !message.is_null() {
        // SAFETY: not null, and a place for a pointer, as the header asks.
        unsafe { ptr::write_unaligned(message, text) };
    }
    code
}

/// The name of a result code, such as "invalid argument".
///
/// @param name set to the name, which lives as long as the program. "unknown" for a number that is no result code.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetResultName(
    result: MaybeUninit<mgcompResult>,
    name: *mut *const c_char,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for a pointer, or NULL.
        unsafe { Out::new("name", name) }?.set(result_name(number(result)).as_ptr());
        Ok(())
    })
}

fn result_name(number: u32) -> &'static CStr {
    const NAMES: [&CStr; 12] = [
        c"success",
        c"invalid argument",
        c"invalid handle",
        c"buffer too small",
        c"bad data",
        c"unsupported",
        c"no memory",
        c"system error",
        c"transfer failed",
        c"timeout",
        c"busy",
        c"internal error",
    ];
    NAMES.get(number as usize).copied().unwrap_or(c"unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buddy::mgcompCreateBuddyPool;
    use crate::communicator::members::mgcompCreateCommunicator;
    use crate::copy::mgcompCreateCopier;
    use crate::node::ranks::{mgcompNode, mgcompStartNodeShm, mgcompStartNodeTcp, mgcompStartNodesLoopback};
    use crate::number::mgcompElement;
    use crate::offload::mgcompCreateOffloadQueue;
    use crate::peer::mgcompCreatePeerCopier;
    use crate::profile::mgcompCreateBuddyProfile;
    use crate::workers::mgcompCreateWorkers;

    fn last() -> (mgcompResult, String) {
        let mut text = ptr::null();
        // SAFETY: `text` is a place for a pointer; what comes back is a C string of this thread.
        unsafe {
            let code = mgcompLastError(&raw mut text);
            (code, CStr::from_ptr(text).to_str().unwrap().to_owned())
        }
    }

    #[test]
    fn panics_and_errors_become_codes_with_texts() {
        assert_eq!(last(), (mgcompResult::Success, String::new()));
        assert_eq!(call(|| panic!("on purpose {}", 7)), mgcompResult::Internal);
        assert_eq!(last(), (mgcompResult::Internal, "panic: on purpose 7".into()));
        assert_eq!(call(|| Err(Failure::argument("a\0b"))), mgcompResult::InvalidArgument);
        assert_eq!(last(), (mgcompResult::InvalidArgument, "a\\0b".into()));
        assert_eq!(call(|| Ok(())), mgcompResult::Success);
        assert_eq!(last().0, mgcompResult::InvalidArgument, "a call that succeeds leaves it");
        std::thread::spawn(|| assert_eq!(last().0, mgcompResult::Success)).join().unwrap();
    }

    const WHICH: &str = "MGCOMP_TEST_WHICH";
    const MAKERS: usize = 10;

    /// Each function that makes something, called wrongly.
    fn make(which: usize) -> mgcompResult {
        let element = MaybeUninit::new(mgcompElement::U8);
        // SAFETY: NULL is refused everywhere.
        unsafe {
            match which {
                0 => mgcompCreateWorkers(1, ptr::null_mut()),
                1 => mgcompCreateBuddyPool(1, 1, ptr::null_mut()),
                2 => mgcompCreateBuddyProfile(element, ptr::null_mut()),
                3 => mgcompCreateCopier(1, -1, ptr::null_mut()),
                4 => mgcompCreatePeerCopier(0, 0, ptr::null(), ptr::null_mut()),
                5 => mgcompCreateOffloadQueue(1, 0, ptr::null(), 1, ptr::null_mut()),
                6 => mgcompCreateCommunicator(mgcompNode { id: 0 }, ptr::null_mut()),
                7 => mgcompStartNodesLoopback(1, ptr::null(), ptr::null_mut()),
                8 => mgcompStartNodeTcp(ptr::null(), 0, ptr::null(), ptr::null_mut()),
                _ => mgcompStartNodeShm(ptr::null(), 1, 0, ptr::null(), ptr::null_mut()),
            }
        }
    }

    #[test]
    #[ignore = "has a log of its own, for the next test, which starts it"]
    fn makes_something() {
        let which = std::env::var(WHICH).unwrap().parse().unwrap();
        assert_eq!(make(which), mgcompResult::InvalidArgument);
    }

    #[test]
    fn whatever_is_made_first_begins_the_log() {
        for which in 0..MAKERS {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["--ignored", "--exact", "--nocapture", "error::tests::makes_something"]);
            let output = command.env(WHICH, which.to_string()).env("MGCOMP_LOG", "loud").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains("\"loud\" is no level"), "{which}: {said}");
        }
    }
}
