//! NCCL without devices, over the stub of the driver: what tests may set and ask.
#![allow(unsafe_code)] // calls into C++

use std::ffi::{CString, c_char};

use libloading::Library;

/// The stub of NCCL, loaded into this process.
#[derive(Debug)]
pub struct StubNccl(Library);

impl StubNccl {
    /// The one that this process finds, in a test with [`Libraries::DriverCompilerAndNccl`].
    ///
    /// [`Libraries::DriverCompilerAndNccl`]: crate::stub::Libraries::DriverCompilerAndNccl
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn load() -> Self {
        // SAFETY: the stub's initialisers do nothing.
        Self(unsafe { Library::new("libnccl.so.2") }.expect("the stub of NCCL"))
    }

    /// Sets a setting of the stub, by its name in `nccl.h`.
    ///
    /// # Panics
    /// If there is none.
    pub fn set(&self, setting: &str, value: u64) {
        type Set = unsafe extern "C" fn(*const c_char, u64) -> i32;
        let name = CString::new(setting).expect("a name");
        // SAFETY: the type is that of the stub's sources.
        let set = unsafe { self.0.get::<Set>("mgc_nccl_set") }.expect("the stub of NCCL");
        // SAFETY: the name is a string.
        assert_eq!(unsafe { set(name.as_ptr(), value) }, 0, "no setting {setting}");
    }

    /// Communicators that were neither destroyed nor aborted.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.count("mgc_nccl_live")
    }

    /// Operations that have begun since a setting was set last, on any rank.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.count("mgc_nccl_begun")
    }

    fn count(&self, name: &str) -> u64 {
        // SAFETY: the type is that of the stub's sources.
        let function = unsafe { self.0.get::<unsafe extern "C" fn() -> u64>(name) };
        // SAFETY: it takes nothing.
        unsafe { function.expect("the stub of NCCL")() }
    }
}
