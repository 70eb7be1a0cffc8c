//! What NCCL does with a network plugin, without NCCL: its proxy, as far as a plugin can tell.
//!
//! The plugin is loaded as NCCL loads it and called through the tables that it exports. Memory that NCCL's kernels would fill
//! and empty is filled and emptied here, and looked at while it is received where they would do that.
#![allow(unsafe_code)] // calls of a library by its C interface

pub mod lines;
pub mod relay;
pub mod transfer;

use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_nccl_net::abi::loaded::{CallError, Loaded};
use mgcomp_nccl_net::abi::{HANDLE_LEN, Opaque, PTR_HOST};

/// Nothing takes this long unless it hangs.
pub const HANGS: Duration = Duration::from_secs(90);

/// What a listener says of how it is reached.
pub type Handle = [u8; HANDLE_LEN];

/// The plugin as Cargo has built it for the program that runs.
///
/// # Panics
/// If it is not there.
#[must_use]
pub fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a program has a path");
    let near = program.parent().expect("programs lie in folders");
    let name = format!("{}mgcomp_nccl_net{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let places = [near.join("deps").join(&name), near.join(&name)];
    let found = places.iter().find(|place| place.exists());
    found.unwrap_or_else(|| panic!("no {name} near {}", program.display())).clone()
}

/// What the plugin has said through NCCL's log.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What plugins have said since the last time.
pub fn said() -> Vec<String> {
    std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner))
}

type Log = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);

/// NCCL's log, for plugins that give it a format of one text, as this one does.
unsafe extern "C" fn log(
    _level: c_int,
    _parts: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the plugin passes texts.
    let (format, text) = unsafe { (CStr::from_ptr(format), CStr::from_ptr(text)) };
    let said = format.to_string_lossy().replace("%s", &text.to_string_lossy());
    SAID.lock().unwrap_or_else(PoisonError::into_inner).push(said);
}

/// A plugin that is started.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    loaded: Loaded,
    context: usize,
}

/// An end of a connection, or a listener.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The plugin that it is of.
    pub plugin: Plugin,
    /// What it goes by.
    pub handle: usize,
}

/// A request, and what it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(pub usize);

/// What a call comes to.
pub type Result<T> = std::result::Result<T, CallError>;

fn pointer(number: usize) -> Opaque {
    std::ptr::without_provenance_mut(number)
}

impl Plugin {
    /// Loads and starts the plugin at `path`, by its newest interface up to version `newest`.
    ///
    /// # Panics
    /// If there is none.
    ///
    /// # Errors
    /// What it says to `init`.
    pub fn start(path: &Path, newest: u32, communicator: u64) -> Result<Self> {
        // SAFETY: the library is the plugin, built from this workspace.
        let loaded = unsafe { Loaded::open(path, newest) }.expect("the plugin can be loaded");
        // SAFETY: on the machines that this runs on, arguments of a function go to the same places whether it takes as many
        // as come or exactly these, and pointers to both are alike.
        let logger = unsafe { std::mem::transmute::<*const (), Log>(log as *const ()) };
        // SAFETY: what `init` takes.
        let context = unsafe { loaded.init(communicator, Some(logger)) }?;
        Ok(Self { loaded, context: context as usize })
    }

    /// The plugin's table.
    #[must_use]
    pub fn loaded(&self) -> Loaded {
        self.loaded
    }

    /// Listens on the first device.
    ///
    /// # Errors
    /// What it says.
    pub fn listen(&self) -> Result<(End, Handle)> {
        let mut handle = [0; HANDLE_LEN];
        // SAFETY: the handle is one.
        let listener = unsafe { self.loaded.listen(pointer(self.context), 0, handle.as_mut_ptr().cast()) }?;
        Ok((End { plugin: *self, handle: listener as usize }, handle))
    }

    /// Connects, if that is possible by now. The handle must be the same each time.
    ///
    /// # Errors
    /// What it says.
    pub fn try_connect(&self, handle: &mut Handle) -> Result<Option<End>> {
        // SAFETY: the handle is one.
        let end = unsafe { self.loaded.connect(pointer(self.context), 0, handle.as_mut_ptr().cast()) }?;
        Ok((!end.is_null()).then_some(End { plugin: *self, handle: end as usize }))
    }

    /// Connects.
    ///
    /// # Errors
    /// What it says.
    pub fn connect(&self, mut handle: Handle) -> Result<End> {
        poll("connect", || self.try_connect(&mut handle))
    }

    /// Says of what kind the next messages are.
    ///
    /// # Errors
    /// What it says.
    pub fn set_kind(&self, op: u32, proto: u32) -> Result<()> {
        // SAFETY: the context is its own.
        unsafe { self.loaded.set_kind(pointer(self.context), op, proto) }
    }

    /// Ends it.
    ///
    /// # Errors
    /// What it says.
    pub fn finalize(self) -> Result<()> {
        // SAFETY: the context is its own.
        unsafe { self.loaded.finalize(pointer(self.context)) }
    }
}

/// Asks again and again, as NCCL does, until there is something.
///
/// # Panics
/// If that takes too long.
///
/// # Errors
/// What the call says.
pub fn poll<T>(what: &str, mut call: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let until = Instant::now() + HANGS;
    loop {
        if let Some(value) = call()? {
            return Ok(value);
        }
        assert!(Instant::now() < until, "{what} hangs");
        thread::yield_now();
    }
}

impl End {
    /// Takes a connection, if there is one.
    ///
    /// # Errors
    /// What the plugin says.
    pub fn try_accept(&self) -> Result<Option<Self>> {
        // SAFETY: this is a listener, or something that the plugin must find out to be none.
        let end = unsafe { self.plugin.loaded.accept(pointer(self.handle)) }?;
        Ok((!end.is_null()).then_some(Self { plugin: self.plugin, handle: end as usize }))
    }

    /// Takes a connection.
    ///
    /// # Errors
    /// What the plugin says.
    pub fn accept(&self) -> Result<Self> {
        poll("accept", || self.try_accept())
    }

    /// Makes memory of some kind known.
    ///
    /// # Errors
    /// What the plugin says.
    pub fn register(&self, memory: &mut [u8], kind: c_int) -> Result<Opaque> {
        // SAFETY: the memory is there, and this plugin keeps nothing of it.
        unsafe {
            self.plugin.loaded.register(pointer(self.handle), memory.as_mut_ptr().cast(), memory.len(), kind)
        }
    }

    /// Forgets memory.
    ///
    /// # Errors
    /// What the plugin says.
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "it is a handle, and looked at by nobody")]
    pub fn deregister(&self, memory: Opaque) -> Result<()> {
        // SAFETY: this is memory that it knows, or something that the plugin must find out to be none.
        unsafe { self.plugin.loaded.deregister(pointer(self.handle), memory) }
    }

    /// Sends, if that is possible now.
    ///
    /// # Errors
    /// What the plugin says.
    ///
    /// # Safety
    /// The bytes stay as they are until the request is done, their memory is deregistered or the end is closed.
    pub unsafe fn send(&self, data: *const u8, bytes: usize) -> Result<Option<Request>> {
        // SAFETY: as the caller says.
        let request = unsafe {
            self.plugin.loaded.send(pointer(self.handle), data.cast_mut().cast(), bytes, std::ptr::null_mut())
        }?;
        Ok((!request.is_null()).then_some(Request(request as usize)))
    }

    /// Receives, if that is possible now. The request comes in as `marker`.
    ///
    /// # Errors
    /// What the plugin says.
    ///
    /// # Panics
    /// If the plugin leaves the marker where the request belongs.
    ///
    /// # Safety
    /// The room is there, and nobody else's to write, until the request is done, it is deregistered or the end is closed.
    pub unsafe fn receive(&self, room: *mut u8, bytes: usize, marker: usize) -> Result<Option<Request>> {
        // SAFETY: as the caller says.
        let request = unsafe {
            self.plugin.loaded.receive(pointer(self.handle), room.cast(), bytes, std::ptr::null_mut(), marker)
        }?;
        assert!(marker == 0 || request as usize != marker, "the marker is no request");
        Ok((!request.is_null()).then_some(Request(request as usize)))
    }

    /// How many bytes a request has moved, if it is done.
    ///
    /// # Errors
    /// What the plugin says.
    pub fn test(&self, request: Request) -> Result<Option<usize>> {
        // SAFETY: this is a request, or something that the plugin must find out to be none.
        unsafe { self.plugin.loaded.test(pointer(request.0)) }
    }

    /// Closes an end that sends.
    ///
    /// # Errors
    /// What the plugin says.
    pub fn close_send(&self) -> Result<()> {
        // SAFETY: this is one, or something that the plugin must find out to be none.
        unsafe { self.plugin.loaded.close_send(pointer(self.handle)) }
    }

    /// Closes an end that receives.
    ///
    /// # Errors
    /// What the plugin says.
    pub fn close_recv(&self) -> Result<()> {
        // SAFETY: this is one, or something that the plugin must find out to be none.
        unsafe { self.plugin.loaded.close_recv(pointer(self.handle)) }
    }

    /// Closes a listener.
    ///
    /// # Errors
    /// What the plugin says.
    pub fn close_listen(&self) -> Result<()> {
        // SAFETY: this is one, or something that the plugin must find out to be none.
        unsafe { self.plugin.loaded.close_listen(pointer(self.handle)) }
    }
}

/// A connection from one plugin to another, made from two threads; `through` may change the handle on its way.
///
/// # Errors
/// What the plugins say.
///
/// # Panics
/// If a thread does.
pub fn connected(from: Plugin, to: Plugin, through: impl FnOnce(&mut Handle)) -> Result<(End, End)> {
    let (listener, mut handle) = to.listen()?;
    through(&mut handle);
    let accepting = thread::spawn(move || {
        let end = listener.accept();
        listener.close_listen().and(end)
    });
    let sender = from.connect(handle)?;
    let receiver = accepting.join().expect("accepting does not panic")?;
    // NCCL makes its buffers known on both ends.
    for end in [sender, receiver] {
        let mut memory = [0; 64];
        end.register(&mut memory, PTR_HOST)?;
    }
    Ok((sender, receiver))
}
