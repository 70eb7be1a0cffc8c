//! The file that this code is in.
#![allow(unsafe_code)] // a question to the dynamic linker

use std::ffi::{CStr, OsStr};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether `path` leads to the library that this code is in.
pub(super) fn is_own_library(path: &Path) -> bool {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is of something in this library, and the place is one for the answer.
    if unsafe { libc::dladdr((&raw const crate::abi::v12::ncclNetPlugin_v12).cast(), found.as_mut_ptr()) }
        == 0
    {
        return false;
    }
    // SAFETY: all zeros would do, and it was written since.
    let name = unsafe { found.assume_init() }.dli_fname;
    if name.is_null() {
        return false;
    }
    // SAFETY: the linker gives a text that stays for as long as the library.
    let own = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    matches!((fs::canonicalize(own), fs::canonicalize(path)), (Ok(own), Ok(named)) if own == named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_file_is_own() {
        // In a test, this code is in the program.
        assert!(is_own_library(&std::env::current_exe().unwrap()));
        assert!(!is_own_library(Path::new("/bin/sh")));
        assert!(!is_own_library(Path::new("libnccl-net-none.so")));
    }
}
