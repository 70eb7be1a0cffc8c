//! The functions of NCCL that this crate calls.
//!
//! `cudarc` has them too, but looks for `libnccl.so` alone, which only development packages have, panics where a library or
//! a function is missing, and takes a result that it does not know for one that it does. So they are looked up here: a
//! missing function is an error, and a result is a number.
#![allow(unsafe_code, non_snake_case)] // loads a library; fields are called like its functions

use std::env;
use std::ffi::{OsStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::NcclError;

/// The environment variable that names the file of the library, by an absolute path.
pub const LIBRARY_VARIABLE: &str = "MGCOMP_NCCL";
/// The oldest version that will do: 2.14, from which on communicators need not block.
const LEAST_VERSION: i32 = 21400;
/// Its names where the system looks for libraries.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// The environment variable that NCCL puts before what [`CommConfig`] says. Its own files may set it too, where nobody sees it.
const BLOCKING_VARIABLE: &str = "NCCL_COMM_BLOCKING";

/// A communicator of NCCL's.
pub(super) type Comm = *mut c_void;

/// What ranks find each other by: one of them makes it and hands it to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

impl UniqueId {
    /// A new one.
    ///
    /// # Errors
    /// [`NcclError`] if there is no NCCL, or it finds no network.
    pub fn new() -> Result<Self, NcclError> {
        let library = Library::instance()?;
        let mut id = Self([0; 128]);
        // SAFETY: `id` is a live variable.
        let code = unsafe { (library.ncclGetUniqueId)(&raw mut id) };
        library.check("ncclGetUniqueId", code).map(|()| id)
    }

    /// The bytes to hand on.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 128] {
        self.0
    }

    /// Of the bytes that another rank has handed on.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 128]) -> Self {
        Self(bytes)
    }
}

/// `ncclConfig_t` as it was first; the version says that there is no more of it.
#[derive(Debug)]
#[repr(C)]
pub(super) struct CommConfig {
    len: usize,
    magic: u32,
    version: u32,
    blocking: i32,
}

impl CommConfig {
    /// That of a communicator whose calls do not wait.
    const NON_BLOCKING: Self =
        Self { len: size_of::<Self>(), magic: 0xcafe_beef, version: LEAST_VERSION as u32, blocking: 0 };

    /// The same, unless the environment says that they do.
    pub(super) fn non_blocking() -> Result<Self, NcclError> {
        match env::var_os(BLOCKING_VARIABLE) {
            Some(value) if blocks(&value) => {
                Err(NcclError::Blocking { value: value.to_string_lossy().into_owned() })
            }
            _ => Ok(Self::NON_BLOCKING),
        }
    }
}

/// Whether calls may wait where the environment says so. To NCCL nothing is as if it were not set, and so is what is no number;
/// but who sets that means something.
fn blocks(value: &OsStr) -> bool {
    !value.is_empty() && value != "0"
}

macro_rules! functions {
    ($(fn $symbol:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// NCCL, loaded.
        #[derive(Debug)]
        pub(super) struct Library {
            $(pub(super) $symbol: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Library {
            fn find(library: &libloading::Library) -> Result<Self, NcclError> {
                Ok(Self {
                    $($symbol: {
                        // SAFETY: the signature is that of nccl.h. The library is never unloaded.
                        let found = unsafe { library.get(stringify!($symbol).as_bytes()) };
                        *found.map_err(|_| NcclError::MissingSymbol { symbol: stringify!($symbol) })?
                    },)*
                })
            }
        }
    };
}

functions! {
    fn ncclGetVersion(*mut i32) -> i32;
    fn ncclGetErrorString(i32) -> *const c_char;
    fn ncclGetUniqueId(*mut UniqueId) -> i32;
    fn ncclCommInitRankConfig(*mut Comm, i32, UniqueId, i32, *const CommConfig) -> i32;
    fn ncclCommGetAsyncError(Comm, *mut i32) -> i32;
    fn ncclCommFinalize(Comm) -> i32;
    fn ncclCommDestroy(Comm) -> i32;
    fn ncclCommAbort(Comm) -> i32;
    fn ncclGroupStart() -> i32;
    fn ncclGroupEnd() -> i32;
    fn ncclSend(*const c_void, usize, i32, i32, Comm, *mut c_void) -> i32;
    fn ncclRecv(*mut c_void, usize, i32, i32, Comm, *mut c_void) -> i32;
    fn ncclBroadcast(*const c_void, *mut c_void, usize, i32, i32, Comm, *mut c_void) -> i32;
    fn ncclAllGather(*const c_void, *mut c_void, usize, i32, Comm, *mut c_void) -> i32;
    fn ncclReduceScatter(*const c_void, *mut c_void, usize, i32, i32, Comm, *mut c_void) -> i32;
    fn ncclAllReduce(*const c_void, *mut c_void, usize, i32, i32, Comm, *mut c_void) -> i32;
}

impl Library {
    /// NCCL of this machine, loaded once: the file that `MGCOMP_NCCL` names, or if it is not set or set to nothing, what the
    /// process has loaded already, or the system finds.
    pub(super) fn instance() -> Result<&'static Self, NcclError> {
        static LIBRARY: OnceLock<Result<Library, NcclError>> = OnceLock::new();
        let load =
            || Self::load(env::var_os(LIBRARY_VARIABLE).filter(|file| !file.is_empty()).map(Into::into));
        LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    fn load(named: Option<PathBuf>) -> Result<Self, NcclError> {
        let file = match named {
            Some(path) if path.is_absolute() => open(path.as_os_str())?,
            Some(path) => return Err(NcclError::NotAbsolute { path }),
            None => open(OsStr::new(NAMES[0])).or_else(|_| open(OsStr::new(NAMES[1])))?,
        };
        let library = Self::find(&file)?;
        // What it has started goes on, and its functions are called until the process ends.
        std::mem::forget(file);
        let version = library.version();
        if version < LEAST_VERSION {
            return Err(NcclError::TooOld { found: version, needed: LEAST_VERSION });
        }
        Ok(library)
    }

    /// Its version: 22809 is 2.28.9. 0 if it does not say.
    pub(super) fn version(&self) -> i32 {
        let mut version = 0;
        // SAFETY: `version` is a live variable.
        unsafe { (self.ncclGetVersion)(&raw mut version) };
        version
    }

    /// The result of `call`, as an error if it is one.
    pub(super) fn check(&self, call: &'static str, code: i32) -> Result<(), NcclError> {
        match code {
            0 => Ok(()),
            _ => Err(NcclError::Call { call, code, text: self.text(code) }),
        }
    }

    /// What NCCL says of a result.
    pub(super) fn text(&self, code: i32) -> String {
        // SAFETY: it takes a number.
        let text = unsafe { (self.ncclGetErrorString)(code) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: NCCL gives a string of its own, which lasts as long as NCCL: for ever.
        unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

fn open(file: &OsStr) -> Result<libloading::Library, NcclError> {
    // SAFETY: loading NCCL runs its own initialisers, nothing else.
    unsafe { libloading::Library::new(file) }
        .map_err(|error| NcclError::NotLoaded { file: Path::new(file).to_owned(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_not_block_is_taken() {
        assert!(!blocks("0".as_ref()) && !blocks("".as_ref()));
        assert!(blocks("1".as_ref()) && blocks("yes".as_ref()));
    }

    #[test]
    fn a_library_that_is_named_wrongly_is_not_looked_for_elsewhere() {
        let load = |path: &str| Library::load(Some(path.into())).unwrap_err();
        assert_eq!(load("libnccl.so.2"), NcclError::NotAbsolute { path: "libnccl.so.2".into() });
        assert!(matches!(load("/no/such/libnccl.so.2"), NcclError::NotLoaded { .. }));
        // One that is another library.
        let libc = Library::load(Some("/lib/x86_64-linux-gnu/libc.so.6".into()));
        if !matches!(libc, Err(NcclError::NotLoaded { .. })) {
            assert_eq!(libc.unwrap_err(), NcclError::MissingSymbol { symbol: "ncclGetVersion" });
        }
    }
}
