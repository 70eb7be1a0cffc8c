//! The run-time compiler of CUDA, NVRTC.
//!
//! As with the driver, `cudarc` finds the library, and functions are looked up here.
#![allow(unsafe_code, non_snake_case)] // calls into the compiler; fields are called like its functions

use std::env;
use std::ffi::{CString, OsString, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use cudarc::nvrtc::sys::{self, nvrtcProgram};
use libloading::Library;
use libloading::os::unix::{self, RTLD_GLOBAL, RTLD_NOW};

use super::image::Image;
use super::kernels::{KernelSource, Target};
use super::{COMPILER_VARIABLE, CompilerProblem, DeviceError};

/// Flags besides the target. They are part of what a cache knows a cubin by.
pub(super) const FLAGS: [&str; 2] = ["--std=c++17", "--ptxas-options=-v"];

/// What the compiler made of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Machine code or PTX; PTX ends in a zero.
    pub image: Vec<u8>,
    /// What the compiler said. For machine code, that includes the registers and memory of each kernel.
    pub log: String,
}

/// The compiler of this machine.
#[derive(Debug)]
pub struct Compiler {
    functions: Functions,
    version: (i32, i32),
}

macro_rules! functions {
    ($(fn $symbol:ident($($argument:ty),*);)*) => {
        #[derive(Debug)]
        struct Functions {
            $($symbol: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl Functions {
            fn find(library: &'static Library) -> Result<Self, DeviceError> {
                let missing = |symbol| DeviceError::MissingSymbol { library: "NVRTC", symbol };
                Ok(Self {
                    $($symbol: {
                        // SAFETY: the signature is that of nvrtc.h. The library is never unloaded.
                        let found = unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) };
                        *found.map_err(|_| missing(stringify!($symbol)))?
                    },)*
                })
            }
        }
    };
}

functions! {
    fn nvrtcVersion(*mut i32, *mut i32);
    fn nvrtcCreateProgram(
        *mut nvrtcProgram, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char
    );
    fn nvrtcDestroyProgram(*mut nvrtcProgram);
    fn nvrtcCompileProgram(nvrtcProgram, i32, *const *const c_char);
    fn nvrtcGetProgramLogSize(nvrtcProgram, *mut usize);
    fn nvrtcGetProgramLog(nvrtcProgram, *mut c_char);
    fn nvrtcGetCUBINSize(nvrtcProgram, *mut usize);
    fn nvrtcGetCUBIN(nvrtcProgram, *mut c_char);
    fn nvrtcGetPTXSize(nvrtcProgram, *mut usize);
    fn nvrtcGetPTX(nvrtcProgram, *mut c_char);
}

impl Compiler {
    /// The compiler of this machine, loaded once: from the folder that `MGCOMP_NVRTC` names, or if it is not set or
    /// set to nothing, from where the system looks for libraries. In a folder it is the newest of
    /// `libnvrtc.so.13`, `libnvrtc.so.12` and the like, else `libnvrtc.so`; and the built-ins of its version.
    ///
    /// # Errors
    /// [`DeviceError::NoCompiler`] if there is none, [`DeviceError::CompilerFolder`] if a folder is named that has
    /// none.
    pub fn instance() -> Result<&'static Self, DeviceError> {
        static COMPILER: OnceLock<Result<Compiler, DeviceError>> = OnceLock::new();
        let load = || Self::load(env::var_os(COMPILER_VARIABLE));
        COMPILER.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    fn load(folder: Option<OsString>) -> Result<Self, DeviceError> {
        let Some(folder) = folder.filter(|folder| !folder.is_empty()).map(PathBuf::from) else {
            return Self::of(open()?);
        };
        let wrong =
            |problem| DeviceError::CompilerFolder { folder: folder.clone(), problem: Box::new(problem) };
        let compiler = Self::of(open_in(&folder, &newest_in(&folder).map_err(wrong)?).map_err(wrong)?)?;
        // The compiler asks for its built-ins by this name when it compiles. It is found then because it is loaded.
        let (major, minor) = compiler.version;
        let builtins = format!("libnvrtc-builtins.so.{major}.{minor}");
        if folder.join(&builtins).exists() {
            open_in(&folder, &builtins).map_err(wrong)?;
        }
        Ok(compiler)
    }

    fn of(library: &'static Library) -> Result<Self, DeviceError> {
        let functions = Functions::find(library)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the arguments are live variables. It cannot fail but for them.
        unsafe { (functions.nvrtcVersion)(&raw mut major, &raw mut minor) };
        Ok(Self { functions, version: (major, minor) })
    }

    /// Its version of CUDA, major and minor.
    #[must_use]
    pub const fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles `source` for `target`.
    ///
    /// # Errors
    /// [`DeviceError::Compiler`], with the compiler's messages; [`DeviceError::Image`] if what it made has no end.
    pub fn compile(&self, source: &KernelSource, target: Target) -> Result<Compiled, DeviceError> {
        self.compile_with(source, target, &[])
    }

    /// The same code as from [`compile`](Self::compile), and for disassemblers which line of its PTX each instruction comes
    /// from, and that PTX.
    ///
    /// # Errors
    /// Those of [`compile`](Self::compile).
    pub fn compile_with_lines(&self, source: &KernelSource, target: Target) -> Result<Compiled, DeviceError> {
        self.compile_with(source, target, &["--generate-line-info"])
    }

    fn compile_with(
        &self,
        source: &KernelSource,
        target: Target,
        flags: &[&str],
    ) -> Result<Compiled, DeviceError> {
        let program = Program::create(&self.functions, source, target)?;
        program.compile(flags)?;
        let image = if target.is_cubin() { program.cubin()? } else { program.ptx()? };
        let image = Image::of(image).map_err(DeviceError::Image)?.into_bytes();
        Ok(Compiled { image, log: program.log()? })
    }
}

/// The compiler where the system looks for libraries.
fn open() -> Result<&'static Library, DeviceError> {
    // SAFETY: loading the compiler runs its own initialisers, nothing else.
    if unsafe { sys::is_culib_present() } {
        // SAFETY: as above; the library was just found.
        Ok(unsafe { sys::culib() })
    } else {
        Err(DeviceError::NoCompiler)
    }
}

/// The name of the newest compiler in a folder.
fn newest_in(folder: &Path) -> Result<String, CompilerProblem> {
    if !folder.is_absolute() {
        return Err(CompilerProblem::NotAbsolute);
    }
    let entries = fs::read_dir(folder).map_err(|error| CompilerProblem::Unreadable(error.kind()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let newest = names.filter_map(|name| Some((generation(&name)?, name))).max();
    newest.map(|(_, name)| name).ok_or(CompilerProblem::Absent)
}

/// The generation of the compiler in a file of this name: 13 of `libnvrtc.so.13`, 0 of `libnvrtc.so`. Other names are
/// those of its parts, or of builds that lie beside it.
fn generation(name: &str) -> Option<u32> {
    match name.strip_prefix("libnvrtc.so")? {
        "" => Some(0),
        rest => {
            rest.strip_prefix('.').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
        }
    }
}

/// A library in a folder. It is never closed.
fn open_in(folder: &Path, file: &str) -> Result<&'static Library, CompilerProblem> {
    // SAFETY: the user names the folder of a compiler; opening it runs its initialisers.
    let opened = unsafe { unix::Library::open(Some(folder.join(file)), RTLD_NOW | RTLD_GLOBAL) };
    let library = opened
        .map_err(|error| CompilerProblem::NotLoaded { file: file.to_owned(), reason: error.to_string() })?;
    Ok(Box::leak(Box::new(library.into())))
}

/// A program in the compiler.
struct Program<'a> {
    functions: &'a Functions,
    handle: nvrtcProgram,
    file: &'static str,
    target: Target,
}

impl<'a> Program<'a> {
    fn create(functions: &'a Functions, source: &KernelSource, target: Target) -> Result<Self, DeviceError> {
        let text = c_string(source.text);
        let file = c_string(source.file);
        let headers = source.headers();
        let texts: Vec<CString> = headers.iter().map(|(_, text)| c_string(text)).collect();
        let names: Vec<CString> = headers.iter().map(|(name, _)| c_string(name)).collect();
        let (texts, names) = (pointers(&texts), pointers(&names));
        let mut program = Self { functions, handle: ptr::null_mut(), file: source.file, target };
        // SAFETY: all pointers are to live strings, as many as it says; the compiler copies them.
        let code = unsafe {
            (functions.nvrtcCreateProgram)(
                &raw mut program.handle,
                text.as_ptr(),
                file.as_ptr(),
                texts.len() as i32,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        program.check("nvrtcCreateProgram", code)?;
        Ok(program)
    }

    fn compile(&self, further_flags: &[&str]) -> Result<(), DeviceError> {
        let mut flags = vec![c_string(&format!("--gpu-architecture={}", self.target))];
        flags.extend(FLAGS.iter().chain(further_flags).map(|flag| c_string(flag)));
        let flags = pointers(&flags);
        // SAFETY: the program lives, and so do the flags, as many as it says.
        let code =
            unsafe { (self.functions.nvrtcCompileProgram)(self.handle, flags.len() as i32, flags.as_ptr()) };
        self.check("nvrtcCompileProgram", code).map_err(|error| match error {
            DeviceError::Compiler { call, file, target, code, .. } => {
                let log = self.log().unwrap_or_default();
                DeviceError::Compiler { call, file, target, code, log }
            }
            other => other,
        })
    }

    fn cubin(&self) -> Result<Vec<u8>, DeviceError> {
        let functions = self.functions;
        self.bytes(
            ("nvrtcGetCUBINSize", functions.nvrtcGetCUBINSize),
            ("nvrtcGetCUBIN", functions.nvrtcGetCUBIN),
        )
    }

    fn ptx(&self) -> Result<Vec<u8>, DeviceError> {
        let functions = self.functions;
        self.bytes(("nvrtcGetPTXSize", functions.nvrtcGetPTXSize), ("nvrtcGetPTX", functions.nvrtcGetPTX))
    }

    fn log(&self) -> Result<String, DeviceError> {
        let functions = self.functions;
        let log = self.bytes(
            ("nvrtcGetProgramLogSize", functions.nvrtcGetProgramLogSize),
            ("nvrtcGetProgramLog", functions.nvrtcGetProgramLog),
        )?;
        Ok(String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned())
    }

    /// What a pair of functions gives: its length, then its bytes.
    fn bytes(
        &self,
        (size_call, size): (&'static str, unsafe extern "C" fn(nvrtcProgram, *mut usize) -> u32),
        (call, fill): (&'static str, unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> u32),
    ) -> Result<Vec<u8>, DeviceError> {
        let mut len = 0;
        // SAFETY: the program lives, and `len` is a live variable.
        self.check(size_call, unsafe { size(self.handle, &raw mut len) })?;
        let mut bytes = vec![0u8; len];
        // SAFETY: the program lives, and `bytes` has as many bytes as it asked for.
        self.check(call, unsafe { fill(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }

    fn check(&self, call: &'static str, code: u32) -> Result<(), DeviceError> {
        let Self { file, target, .. } = *self;
        match code {
            0 => Ok(()),
            _ => Err(DeviceError::Compiler { call, file, target, code, log: String::new() }),
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: `create` has made it.
            unsafe { (self.functions.nvrtcDestroyProgram)(&raw mut self.handle) };
        }
    }
}

/// `text` up to its first zero, where there should be none.
fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_compiler_in_a_folder_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest_in(folder.path()), Err(CompilerProblem::Absent));
        let others = [
            "libnvrtc-builtins.so.99.0",
            "libnvrtc.alt.so.99",
            "libnvrtc.so.99.bak",
            "libnvrtc.so.+99",
            "libnvrtc.so.",
            "libnvrtc_static.a",
            "xlibnvrtc.so.99",
        ];
        for name in others {
            fs::write(folder.path().join(name), "").unwrap();
            assert_eq!(newest_in(folder.path()), Err(CompilerProblem::Absent), "{name}");
        }
        for name in ["libnvrtc.so", "libnvrtc.so.9", "libnvrtc.so.12", "libnvrtc.so.13"] {
            fs::write(folder.path().join(name), "").unwrap();
            assert_eq!(newest_in(folder.path()).as_deref(), Ok(name));
        }
    }

    #[test]
    fn a_folder_without_a_compiler_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let message =
            |value: &Path| Compiler::load(Some(value.as_os_str().to_owned())).unwrap_err().to_string();
        assert_eq!(message(Path::new("lib")), "MGCOMP_NVRTC is \"lib\": it is no absolute path");
        let named = |what: &str| format!("MGCOMP_NVRTC is {:?}: {what}", folder.path());
        assert_eq!(message(folder.path()), named("it has no libnvrtc.so"));
        fs::write(folder.path().join("libnvrtc.so.13"), "no library").unwrap();
        let text = message(folder.path());
        assert!(text.starts_with(&named("libnvrtc.so.13 does not load: ")), "{text}");
        let file = folder.path().join("libnvrtc.so.13");
        let expected = format!("MGCOMP_NVRTC is {file:?}: it cannot be read: not a directory");
        assert_eq!(message(&file), expected);
    }
}
