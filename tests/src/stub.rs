//! A CUDA driver without a device, which runs kernels on the CPU shim, and a compiler to go with it.
//!
//! Each test that uses them runs in a process of its own, which finds them where it looks for libraries.
#![allow(unsafe_code)] // calls into C++

use std::env;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};

use libloading::Library;
use mgcomp_codecs::device::DeviceError;

use crate::shim;

/// The error of CUDA that says that memory ran out.
pub const OUT_OF_MEMORY: u32 = 2;

/// In a process that runs one test: which one.
const TEST_VARIABLE: &str = "MGCOMP_STUB_TEST";
/// In a process that another one of the same test has started: what that one tells it.
const SECOND_VARIABLE: &str = "MGCOMP_STUB_SECOND";
/// What such a process says at its end.
const DONE: &str = "stub: the test is done";

/// Which libraries of CUDA a test finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libraries {
    /// Those of this machine, if any.
    Own,
    /// The stub of the driver, and the compiler of this machine, if any.
    Driver,
    /// The stubs of both.
    DriverAndCompiler,
    /// The same, but the driver has no more functions than that of CUDA 11.0.
    OlderDriverAndCompiler,
    /// The stubs of both, and that of NCCL.
    DriverCompilerAndNccl,
    /// The stub of the driver, and that of the compiler in the folder that a variable names.
    DriverAndCompilerInFolder,
    /// The stubs of both, and a variable that names a folder without a compiler.
    DriverAndCompilerNotInFolder,
}

/// The stubs, loaded into this process.
#[derive(Debug)]
pub struct Stub {
    driver: Library,
    compiler: Option<Library>,
}

/// What is alive in the driver, in the order of the stub's kinds.
const KINDS: [&str; 13] = [
    "holds",
    "current contexts",
    "modules",
    "allocations",
    "streams",
    "events",
    "graphs",
    "executables",
    "contexts",
    "imports",
    "memories without addresses",
    "reserved addresses",
    "mapped memories",
];

/// Runs `body` with the stubs, in a process of its own; `test` is the full name of the calling test. At the end
/// nothing may be left in the driver.
///
/// # Panics
/// If `body` fails, or leaves something.
pub fn with_stub(test: &str, libraries: Libraries, body: impl FnOnce(&Stub)) {
    with_stub_that_keeps(test, libraries, |stub| {
        body(stub);
        assert_eq!(stub.left(), "", "left in the driver");
    });
}

/// The same for a `body` that says itself what may be left.
///
/// # Panics
/// If `body` fails.
pub fn with_stub_that_keeps(test: &str, libraries: Libraries, body: impl FnOnce(&Stub)) {
    in_process(test, libraries, || {
        let stub = Stub::load();
        stub.call::<unsafe extern "C" fn()>("mgc_stub_reset", |reset| {
            // SAFETY: it takes nothing.
            unsafe { reset() };
        });
        body(&stub);
    });
}

/// Runs `body` in a process of its own, which finds `libraries`; `test` is the full name of the calling test.
///
/// # Panics
/// If `body` fails.
pub fn in_process(test: &str, libraries: Libraries, body: impl FnOnce()) {
    if env::var(TEST_VARIABLE).is_ok_and(|running| running == test) {
        body();
        println!("{DONE}");
        return;
    }
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture"]).env(TEST_VARIABLE, test);
    if !finds(&mut command, libraries, test) {
        return;
    }
    let output = command.output().expect("this program, once more");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains(DONE), "{test}: {}\n{text}", output.status);
    for line in text.lines().filter(|line| line.starts_with("SKIPPED")) {
        eprintln!("{line}");
    }
}

/// Lets a program find `libraries`, and no compiled kernels of before. Returns whether they are there; if not, it says that
/// `test` is skipped, and why.
///
/// # Panics
/// If the environment cannot name their folders.
pub fn finds(command: &mut Command, libraries: Libraries, test: &str) -> bool {
    let Some(folders) = folders(libraries) else {
        shim::skip(test, option_env!("MGCOMP_SHIM_MISSING").unwrap_or("the shim was not built"));
        return false;
    };
    let path = env::join_paths(folders.iter().map(Into::into).chain(library_path())).expect("library path");
    let compiler = match libraries {
        Libraries::DriverAndCompilerInFolder => option_env!("MGCOMP_STUB_COMPILER"),
        Libraries::DriverAndCompilerNotInFolder => option_env!("MGCOMP_STUB_DRIVER"),
        _ => None,
    };
    command.env("LD_LIBRARY_PATH", path).env("MGCOMP_NVRTC", compiler.unwrap_or_default());
    command.env("MGCOMP_CACHE", "").env_remove("MGCOMP_NCCL");
    true
}

/// A second process of `test`, called in the first, which runs the same body there and finds `told` in [`told`]. Its
/// standard input and output are pipes.
///
/// # Panics
/// If the system does not start it.
#[must_use]
pub fn second(test: &str, told: &str) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture"]).env(SECOND_VARIABLE, told);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this program, once more")
}

/// In a process that [`second`] has started, what it is told.
#[must_use]
pub fn told() -> Option<String> {
    env::var(SECOND_VARIABLE).ok()
}

/// Runs `body` as [`with_stub`] does, and finds that the stub ends the process for the reason `why`.
///
/// # Panics
/// If it does not.
pub fn ends(test: &str, why: &str, body: impl FnOnce(&Stub)) {
    let found = catch_unwind(AssertUnwindSafe(|| with_stub(test, Libraries::DriverAndCompiler, body)));
    match found {
        Ok(()) if option_env!("MGCOMP_STUB_DRIVER").is_none() => {} // skipped
        Ok(()) => panic!("not found: {why}"),
        Err(panic) => {
            let text = panic.downcast::<String>().expect("a text");
            assert!(text.contains(why), "{text}");
        }
    }
}

/// The folders of the stubs, if they were built.
fn folders(libraries: Libraries) -> Option<Vec<&'static str>> {
    let (driver, compiler) = (option_env!("MGCOMP_STUB_DRIVER"), option_env!("MGCOMP_STUB_COMPILER"));
    match libraries {
        Libraries::Own => Some(Vec::new()),
        Libraries::Driver | Libraries::DriverAndCompilerInFolder => Some(vec![driver?]),
        Libraries::DriverAndCompiler | Libraries::DriverAndCompilerNotInFolder => {
            Some(vec![driver?, compiler?])
        }
        Libraries::OlderDriverAndCompiler => Some(vec![option_env!("MGCOMP_STUB_OLDER_DRIVER")?, compiler?]),
        Libraries::DriverCompilerAndNccl => Some(vec![driver?, compiler?, option_env!("MGCOMP_STUB_NCCL")?]),
    }
}

fn library_path() -> Vec<std::path::PathBuf> {
    env::var_os("LD_LIBRARY_PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

impl Stub {
    fn load() -> Self {
        // SAFETY: the stub's initialisers do nothing.
        let driver = unsafe { Library::new("libcuda.so.1") }.expect("the stub of the driver");
        // SAFETY: as above, or it is a compiler, which does not mind.
        let compiler = unsafe { Library::new("libnvrtc.so.13") }.ok();
        Self { driver, compiler }
    }

    /// Looks up a function and uses it.
    fn call<F: Copy + 'static>(&self, name: &str, usage: impl FnOnce(F)) {
        // SAFETY: each caller names the type that the stub's sources give the function.
        let function = unsafe { self.driver.get::<F>(name.as_bytes()) };
        let function = function.or_else(|missing| match &self.compiler {
            // SAFETY: as above.
            Some(compiler) => unsafe { compiler.get::<F>(name.as_bytes()) },
            None => Err(missing),
        });
        usage(*function.unwrap_or_else(|e| panic!("{name}: {e}; is this the stub?")));
    }

    /// Sets a setting of the stub, by its name in `stub.h`.
    ///
    /// # Panics
    /// If there is none.
    pub fn set(&self, setting: &str, value: u64) {
        let name = CString::new(setting).expect("a name");
        self.call::<unsafe extern "C" fn(*const c_char, u64) -> i32>("mgc_stub_set", |set| {
            // SAFETY: the name is a string.
            assert_eq!(unsafe { set(name.as_ptr(), value) }, 0, "no setting {setting}");
        });
    }

    /// Makes the `at`th call from now fail with `code`, counted from 1: of those named `call`, or of all.
    ///
    /// # Panics
    /// If the name holds a zero.
    pub fn fail(&self, call: Option<&str>, at: u64, code: u32) {
        let name = call.map(|call| CString::new(call).expect("a name"));
        let name = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        self.call::<unsafe extern "C" fn(*const c_char, u64, u32)>("mgc_stub_fail", |fail| {
            // SAFETY: the name is a string, or there is none.
            unsafe { fail(name, at, code) };
        });
    }

    /// Has the device with this number lost when the next call fails that is made to, for good: all work there and all calls in its
    /// contexts.
    pub fn lose(&self, device: u32) {
        self.call::<unsafe extern "C" fn(u32)>("mgc_stub_lose", |lose| {
            // SAFETY: it takes a number.
            unsafe { lose(device) };
        });
    }

    /// Has each call of the driver fail in turn that `run` makes, until it gets through: every failure is an error that names
    /// the call, or made up for, and leaves nothing behind. `run` says whether what came of it is right.
    ///
    /// # Panics
    /// If any of that is not so.
    #[track_caller]
    pub fn fail_each_call(&self, run: impl Fn() -> Result<bool, DeviceError>) {
        for at in 1.. {
            self.fail(None, at, OUT_OF_MEMORY);
            let result = run();
            let failed = self.failed();
            self.fail(None, 0, 0);
            assert_eq!(self.left(), "", "after call {at}, {failed:?}");
            match (failed, result) {
                (None, result) => {
                    assert!(result.expect("nothing fails any more"));
                    break;
                }
                (Some(failed), Ok(good)) => assert!(good, "call {at}, {failed}"),
                (Some(failed), Err(DeviceError::Driver { call, code, .. })) => {
                    assert_eq!((call, code), (failed.as_str(), OUT_OF_MEMORY), "call {at}");
                }
                (Some(failed), Err(error)) => panic!("call {at}, {failed}: {error}"),
            }
        }
    }

    /// Makes the `at`th call of the compiler from now fail with `code`, counted from 1.
    pub fn fail_compiler(&self, at: u32, code: u32) {
        self.call::<unsafe extern "C" fn(u32, u32)>("mgc_stub_fail_compiler", |fail| {
            // SAFETY: it takes numbers.
            unsafe { fail(at, code) };
        });
    }

    /// The call that was made to fail, if one was.
    #[must_use]
    pub fn failed(&self) -> Option<String> {
        let mut name = String::new();
        self.call::<unsafe extern "C" fn() -> *const c_char>("mgc_stub_failed", |failed| {
            // SAFETY: the stub gives a string of its own, which lasts until this thread asks again.
            name = unsafe { CStr::from_ptr(failed()) }.to_string_lossy().into_owned();
        });
        Some(name).filter(|name| !name.is_empty())
    }

    /// A number that the stub counts, by the name of the function behind `mgc_stub_`.
    #[must_use]
    pub fn count(&self, what: &str) -> u64 {
        let mut count = 0;
        self.call::<unsafe extern "C" fn() -> u64>(&format!("mgc_stub_{what}"), |function| {
            // SAFETY: it takes nothing.
            count = unsafe { function() };
        });
        count
    }

    /// What is alive in the driver, in words; nothing if all is given back.
    #[must_use]
    pub fn left(&self) -> String {
        let mut left = Vec::new();
        self.call::<unsafe extern "C" fn(u32) -> u64>("mgc_stub_live", |live| {
            for (kind, name) in (0..).zip(KINDS) {
                // SAFETY: it takes a number.
                let count = unsafe { live(kind) };
                if count != 0 {
                    left.push(format!("{count} {name}"));
                }
            }
        });
        left.join(", ")
    }
}
