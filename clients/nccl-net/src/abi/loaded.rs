//! A plugin that is loaded as NCCL does it, called the same way whatever its version.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::{Library, Symbol};

use super::{
    Facts, INVALID_ARGUMENT, Logger, Opaque, SUCCESS, Status, Text, UNDEFINED, v8, v9, v10, v11, v12,
};

/// What a plugin exports, in the version that is used.
#[derive(Clone, Copy, Debug)]
pub enum Table {
    /// Version 8.
    V8(&'static v8::Net),
    /// Version 9.
    V9(&'static v9::Net),
    /// Version 10.
    V10(&'static v10::Net),
    /// Version 11.
    V11(&'static v11::Net),
    /// Version 12.
    V12(&'static v12::Net),
}

/// A loaded plugin. It stays loaded for as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// What it exports.
    pub table: Table,
}

/// Why no plugin could be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such library, or it cannot be loaded.
    #[error(transparent)]
    Library(#[from] libloading::Error),
    /// It exports nothing that is known here.
    #[error("no ncclNetPlugin_v8 to v12 in it")]
    NoPlugin,
}

/// A call that came to something else than success, or that the plugin does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} of the plugin returned {status}")]
pub struct CallError {
    /// The call.
    pub call: &'static str,
    /// What it returned.
    pub status: Status,
}

/// What a call returned.
pub type CallResult<T = ()> = Result<T, CallError>;

/// The newest version there is.
pub const NEWEST: u32 = 12;

impl Loaded {
    /// Loads the library at `path`, in the newest version that it has up to `newest`.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// # Safety
    /// What the library does while it is loaded is sound, and what it exports by these names is what NCCL takes it for.
    pub unsafe fn open(path: &Path, newest: u32) -> Result<Self, LoadError> {
        // SAFETY: as the caller says. It is never unloaded, so what it exports is there for ever.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(path) }?));
        /// # Safety
        /// The symbol is of this type.
        unsafe fn find<T>(library: &'static Library, name: &CStr) -> Option<&'static T> {
            // SAFETY: as the caller says.
            let symbol: Symbol<'static, *const T> = unsafe { library.get(name.to_bytes_with_nul()) }.ok()?;
            // SAFETY: as above; null is `None`.
            unsafe { symbol.as_ref() }
        }
        // SAFETY: as the caller says.
        let table = unsafe {
            let older = |version| newest >= version;
            let v12 = || older(12).then(|| find(library, c"ncclNetPlugin_v12")).flatten().map(Table::V12);
            let v11 = || older(11).then(|| find(library, c"ncclNetPlugin_v11")).flatten().map(Table::V11);
            let v10 = || older(10).then(|| find(library, c"ncclNetPlugin_v10")).flatten().map(Table::V10);
            let v9 = || older(9).then(|| find(library, c"ncclNetPlugin_v9")).flatten().map(Table::V9);
            let v8 = || older(8).then(|| find(library, c"ncclNetPlugin_v8")).flatten().map(Table::V8);
            v12().or_else(v11).or_else(v10).or_else(v9).or_else(v8)
        };
        table.map(|table| Self { table }).ok_or(LoadError::NoPlugin)
    }

    /// The version that is used.
    #[must_use]
    pub fn version(&self) -> u32 {
        match self.table {
            Table::V8(_) => 8,
            Table::V9(_) => 9,
            Table::V10(_) => 10,
            Table::V11(_) => 11,
            Table::V12(_) => 12,
        }
    }
}

/// The member of a table, whatever its version.
macro_rules! member {
    ($self:ident, $name:ident) => {
        match $self.table {
            Table::V8(net) => net.$name,
            Table::V9(net) => net.$name,
            Table::V10(net) => net.$name,
            Table::V11(net) => net.$name,
            Table::V12(net) => net.$name,
        }
    };
}

/// Calls a member of a table, if it is there, with what is in parentheses.
macro_rules! call {
    ($call:literal, $function:expr, ($($argument:expr),* $(,)?)) => {{
        let status = match $function {
            // SAFETY: the arguments are what NCCL passes; the caller of the method answers for what they point to.
            Some(function) => unsafe { function($($argument),*) },
            None => UNDEFINED,
        };
        if status == SUCCESS { Ok(()) } else { Err(CallError { call: $call, status }) }
    }};
}

/// Each call does what the plugin's does, with what NCCL would pass.
///
/// # Errors
/// All return [`CallError`] if the plugin does not return success.
///
/// # Safety
/// Of all: pointers and handles are what the plugin may expect by the rules of NCCL's interface.
impl Loaded {
    /// What the network is called.
    #[must_use]
    pub fn name(&self) -> String {
        text(member!(self, name))
    }

    /// Starts it; returns the context, which is null for versions that have none.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn init(&self, communicator: u64, logger: Logger) -> CallResult<Opaque> {
        let (mut context, none): (Opaque, *const c_void) = (ptr::null_mut(), ptr::null());
        // The settings of a communicator are one number; this one says that there is none.
        let mut traffic_class = UNDEFINED;
        let config: Opaque = (&raw mut traffic_class).cast();
        match self.table {
            Table::V8(net) => call!("init", net.init, (logger)),
            Table::V9(net) => call!("init", net.init, (logger)),
            Table::V10(net) => call!("init", net.init, (logger, none)),
            Table::V11(net) => {
                call!("init", net.init, (&raw mut context, communicator, config, logger, none))
            }
            Table::V12(net) => {
                call!("init", net.init, (&raw mut context, communicator, config, logger, none))
            }
        }?;
        Ok(context)
    }

    /// How many devices there are.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn devices(&self) -> CallResult<usize> {
        let mut count = 0;
        call!("devices", member!(self, devices), (&raw mut count))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// What is known of one.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn facts(&self, device: c_int) -> CallResult<Facts> {
        /// Asks by a function of some version.
        fn ask<P>(
            function: Option<unsafe extern "C" fn(c_int, *mut P) -> Status>,
            device: c_int,
            facts: impl FnOnce(P) -> Facts,
        ) -> CallResult<Facts> {
            let mut properties = std::mem::MaybeUninit::<P>::zeroed();
            call!("getProperties", function, (device, properties.as_mut_ptr()))?;
            // SAFETY: numbers and pointers, for which zeros would do; and the plugin has filled them in.
            Ok(facts(unsafe { properties.assume_init() }))
        }
        match self.table {
            Table::V8(net) => ask(net.get_properties, device, |p| p.facts(device)),
            Table::V9(net) => ask(net.get_properties, device, |p| p.facts(device)),
            Table::V10(net) => ask(net.get_properties, device, |p| p.facts(device)),
            Table::V11(net) => ask(net.get_properties, device, |p| p.known.facts(device)),
            Table::V12(net) => ask(net.get_properties, device, |p| p.known.facts(device)),
        }
    }

    /// Listens, and writes `handle`.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn listen(&self, context: Opaque, device: c_int, handle: Opaque) -> CallResult<Opaque> {
        let mut listener = ptr::null_mut();
        let to = &raw mut listener;
        match self.table {
            Table::V8(net) => call!("listen", net.listen, (device, handle, to)),
            Table::V9(net) => call!("listen", net.listen, (device, handle, to)),
            Table::V10(net) => call!("listen", net.listen, (device, handle, to)),
            Table::V11(net) => call!("listen", net.listen, (context, device, handle, to)),
            Table::V12(net) => call!("listen", net.listen, (context, device, handle, to)),
        }?;
        Ok(listener)
    }

    /// Connects; null as long as that takes.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn connect(&self, context: Opaque, device: c_int, handle: Opaque) -> CallResult<Opaque> {
        let (mut end, mut traffic_class) = (ptr::null_mut(), UNDEFINED);
        let (to, none): (_, *mut Opaque) = (&raw mut end, ptr::null_mut());
        let config: Opaque = (&raw mut traffic_class).cast();
        match self.table {
            Table::V8(net) => call!("connect", net.connect, (device, handle, to, none)),
            Table::V9(net) => call!("connect", net.connect, (device, handle, to, none)),
            Table::V10(net) => call!("connect", net.connect, (device, config, handle, to, none)),
            Table::V11(net) => call!("connect", net.connect, (context, device, handle, to, none)),
            Table::V12(net) => call!("connect", net.connect, (context, device, handle, to, none)),
        }?;
        Ok(end)
    }

    /// Takes a connection; null as long as there is none.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn accept(&self, listener: Opaque) -> CallResult<Opaque> {
        let mut end = ptr::null_mut();
        call!("accept", member!(self, accept), (listener, &raw mut end, ptr::null_mut()))?;
        Ok(end)
    }

    /// Makes memory known; returns its handle.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn register(
        &self,
        end: Opaque,
        data: Opaque,
        bytes: usize,
        kind: c_int,
    ) -> CallResult<Opaque> {
        let mut memory = ptr::null_mut();
        call!("regMr", member!(self, reg_mr), (end, data, bytes, kind, &raw mut memory))?;
        Ok(memory)
    }

    /// Forgets memory.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn deregister(&self, end: Opaque, memory: Opaque) -> CallResult {
        call!("deregMr", member!(self, dereg_mr), (end, memory))
    }

    /// Sends; null if that cannot be now.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn send(&self, end: Opaque, data: Opaque, bytes: usize, memory: Opaque) -> CallResult<Opaque> {
        let (mut request, tag, none) = (ptr::null_mut(), 0, ptr::null_mut());
        let to = &raw mut request;
        match self.table {
            Table::V8(net) => {
                // Sent in part, it would be a message all the same.
                let too_long = |_| CallError { call: "isend", status: INVALID_ARGUMENT };
                let bytes = c_int::try_from(bytes).map_err(too_long)?;
                call!("isend", net.isend, (end, data, bytes, tag, memory, to))
            }
            Table::V9(net) => call!("isend", net.isend, (end, data, bytes, tag, memory, to)),
            Table::V10(net) => call!("isend", net.isend, (end, data, bytes, tag, memory, none, to)),
            Table::V11(net) => call!("isend", net.isend, (end, data, bytes, tag, memory, none, to)),
            Table::V12(net) => call!("isend", net.isend, (end, data, bytes, tag, memory, none, to)),
        }?;
        Ok(request)
    }

    /// Receives; null if that cannot be now. The request comes in as `marker`.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn receive(
        &self,
        end: Opaque,
        mut data: Opaque,
        mut bytes: usize,
        mut memory: Opaque,
        marker: usize,
    ) -> CallResult<Opaque> {
        let mut request: Opaque = ptr::without_provenance_mut(marker);
        let (mut tag, mut none) = (0, ptr::null_mut());
        // Nothing longer is sent by the same version.
        let mut short = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let (data, bytes, tags) = (&raw mut data, &raw mut bytes, &raw mut tag);
        let (memory, none, to) = (&raw mut memory, &raw mut none, &raw mut request);
        match self.table {
            Table::V8(net) => call!("irecv", net.irecv, (end, 1, data, &raw mut short, tags, memory, to)),
            Table::V9(net) => call!("irecv", net.irecv, (end, 1, data, bytes, tags, memory, to)),
            Table::V10(net) => call!("irecv", net.irecv, (end, 1, data, bytes, tags, memory, none, to)),
            Table::V11(net) => call!("irecv", net.irecv, (end, 1, data, bytes, tags, memory, none, to)),
            Table::V12(net) => call!("irecv", net.irecv, (end, 1, data, bytes, tags, memory, none, to)),
        }?;
        Ok(request)
    }

    /// How many bytes a request has moved, if it is done.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn test(&self, request: Opaque) -> CallResult<Option<usize>> {
        let (mut done, mut bytes) = (0, 0);
        call!("test", member!(self, test), (request, &raw mut done, &raw mut bytes))?;
        Ok((done != 0).then_some(usize::try_from(bytes).unwrap_or(0)))
    }

    /// Ends a sending end.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn close_send(&self, end: Opaque) -> CallResult {
        call!("closeSend", member!(self, close_send), (end))
    }

    /// Ends a receiving end.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn close_recv(&self, end: Opaque) -> CallResult {
        call!("closeRecv", member!(self, close_recv), (end))
    }

    /// Ends a listener.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn close_listen(&self, listener: Opaque) -> CallResult {
        call!("closeListen", member!(self, close_listen), (listener))
    }

    /// Ends a context; nothing in versions that have none.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn finalize(&self, context: Opaque) -> CallResult {
        match self.table {
            Table::V11(net) => call!("finalize", net.finalize, (context)),
            Table::V12(net) => call!("finalize", net.finalize, (context)),
            _ => Ok(()),
        }
    }

    /// Says of what kind the next messages are; nothing in versions that do not want to know.
    #[expect(clippy::missing_errors_doc, clippy::missing_safety_doc, reason = "said above")]
    pub unsafe fn set_kind(&self, context: Opaque, op: u32, proto: u32) -> CallResult {
        let mut attributes = v11::Attributes { flows: [UNDEFINED; 8], op, algo: 1, proto };
        let function = match self.table {
            Table::V11(net) => net.set_net_attr,
            Table::V12(net) => net.set_net_attr,
            _ => None,
        };
        let Some(_) = function else { return Ok(()) };
        call!("setNetAttr", function, (context, &raw mut attributes))
    }
}

/// What lies behind a text that a plugin gives.
#[must_use]
pub fn text(text: Text) -> String {
    if text.0.is_null() {
        return String::new();
    }
    // SAFETY: not null, and plugins give texts that stay.
    unsafe { CStr::from_ptr(text.0) }.to_string_lossy().into_owned()
}
