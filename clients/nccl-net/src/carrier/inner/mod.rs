//! Messages through another plugin, which `MGCOMP_NET_INNER` names: sealed into buffers of ours that it knows, and sent and
//! received by it.
//!
//! It is called as NCCL would call it, so whatever network it is for carries what this plugin makes of the messages. Handles are
//! its own, all of them; so what tells that the other side runs this plugin too is the first message of each connection.
#![allow(unsafe_code)] // calls of a library by its C interface

mod hello;
mod incoming;
mod outgoing;
mod staging;
#[cfg(test)]
mod stub;

use std::env;
use std::ffi::{OsStr, c_int};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgcomp_transport::attach::envelope::HEADER_LEN;

use self::incoming::InnerIncoming;
use self::outgoing::InnerOutgoing;
use super::{Carrier, Incoming, Listener, Outgoing};
use crate::abi::loaded::{Loaded, NEWEST, Table};
use crate::abi::{Facts, HANDLE_LEN, Opaque, PTR_HOST, Text, v8, v9, v10, v11, v12};
use crate::error::NetError;
use crate::logger;

const VARIABLE: &str = "MGCOMP_NET_INNER";

/// Another plugin.
pub(crate) struct Inner {
    shared: Arc<Shared>,
    rank: u32,
    devices: usize,
}

/// The plugin, for all that use it.
struct Shared {
    loaded: Loaded,
    context: usize,
    /// It was ended, so nothing of it may be called.
    stopped: AtomicBool,
}

/// What only the plugin knows what it is.
#[derive(Clone, Copy)]
struct Theirs(usize);

impl Theirs {
    fn new(pointer: Opaque) -> Option<Self> {
        (!pointer.is_null()).then_some(Self(pointer as usize))
    }

    fn pointer(self) -> Opaque {
        self.0 as Opaque
    }
}

impl Inner {
    /// The plugin that the environment names, if it does.
    pub(crate) fn from_env(rank: u32) -> Result<Option<Self>, NetError> {
        let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return Ok(None) };
        // SAFETY: the user says that this is a plugin for NCCL.
        let loaded = unsafe { Loaded::open(Path::new(&path), NEWEST) }
            .map_err(|why| wrong(format!("{} ({why})", path.to_string_lossy())))?;
        // Where plugins of this kind lie upon each other, the lowest is the one that is named.
        if is_own(loaded.table) {
            return Ok(None);
        }
        Self::start(loaded, &path, rank).map(Some)
    }

    fn start(loaded: Loaded, path: &OsStr, rank: u32) -> Result<Self, NetError> {
        // SAFETY: it is started as NCCL would.
        let (context, devices) = unsafe { (loaded.init(0, logger::current())?, loaded.devices()?) };
        let shared = Shared { loaded, context: context as usize, stopped: AtomicBool::new(false) };
        for device in 0..devices {
            // SAFETY: there is this device.
            if unsafe { loaded.facts(device as c_int) }?.ptr_support & PTR_HOST == 0 {
                return Err(wrong(path.to_string_lossy().into_owned()));
            }
        }
        Ok(Self { shared: Arc::new(shared), rank, devices })
    }
}

fn wrong(value: String) -> NetError {
    let wanted = "a plugin that can be loaded and takes memory of the host";
    NetError::Variable { variable: VARIABLE, value, wanted }
}

/// Whether a table is this library's own, by whatever name that was loaded.
fn is_own(table: Table) -> bool {
    match table {
        Table::V8(net) => ptr::eq(net, &raw const v8::ncclNetPlugin_v8),
        Table::V9(net) => ptr::eq(net, &raw const v9::ncclNetPlugin_v9),
        Table::V10(net) => ptr::eq(net, &raw const v10::ncclNetPlugin_v10),
        Table::V11(net) => ptr::eq(net, &raw const v11::ncclNetPlugin_v11),
        Table::V12(net) => ptr::eq(net, &raw const v12::ncclNetPlugin_v12),
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loaded = &self.shared.loaded;
        write!(f, "over the plugin {} (version {} of the interface)", loaded.name(), loaded.version())
    }
}

impl Carrier for Inner {
    fn devices(&self) -> usize {
        self.devices
    }

    fn facts(&self, device: usize) -> Result<Facts, NetError> {
        // SAFETY: there is this device.
        let facts = unsafe { self.shared.loaded.facts(device as c_int) }?;
        // Memory of devices is not for codecs on the host; and far away on the PCI bus, NCCL leaves its protocol LL128 alone.
        let (pci_path, max_bytes) = (Text(std::ptr::null()), raw_bytes_within(facts.max_bytes));
        Ok(Facts { ptr_support: PTR_HOST, pci_path, max_bytes, ..facts })
    }

    fn listen(&self, device: usize, handle: &mut [u8; HANDLE_LEN]) -> Result<Box<dyn Listener>, NetError> {
        let Shared { loaded, context, .. } = &*self.shared;
        // SAFETY: its context, a device that there is, and a handle.
        let listener =
            unsafe { loaded.listen(*context as Opaque, device as c_int, handle.as_mut_ptr().cast()) }?;
        let listener = Theirs(listener as usize);
        Ok(Box::new(InnerListener { shared: Arc::clone(&self.shared), listener }))
    }

    fn connect(
        &self,
        device: usize,
        handle: &mut [u8; HANDLE_LEN],
    ) -> Result<Option<Box<dyn Outgoing>>, NetError> {
        let Shared { loaded, context, .. } = &*self.shared;
        // SAFETY: as above; the handle comes back each time with what it has written there.
        let end = unsafe { loaded.connect(*context as Opaque, device as c_int, handle.as_mut_ptr().cast()) }?;
        let outgoing = |end| InnerOutgoing::new(Arc::clone(&self.shared), end, self.rank);
        Ok(Theirs::new(end).map(|end| -> Box<dyn Outgoing> { Box::new(outgoing(end)) }))
    }

    fn stop(&self) {
        // Versions that have no contexts go on, and take back what is theirs as ever.
        self.shared.stopped.store(self.shared.loaded.version() >= 11, Ordering::Release);
        // SAFETY: its context, which nothing is called with any more.
        if let Err(error) = unsafe { self.shared.loaded.finalize(self.shared.context as Opaque) } {
            logger::warn(&error.to_string());
        }
    }
}

/// The longest message of which all fits into so many bytes that the inner plugin takes at once: what is raw has a header too.
fn raw_bytes_within(inner_bytes: usize) -> usize {
    inner_bytes.saturating_sub(HEADER_LEN)
}

struct InnerListener {
    shared: Arc<Shared>,
    listener: Theirs,
}

impl Listener for InnerListener {
    fn accept(&mut self) -> Result<Option<Box<dyn Incoming>>, NetError> {
        // SAFETY: a listener of its own.
        let end = unsafe { self.shared.loaded.accept(self.listener.pointer()) }?;
        let incoming = |end| InnerIncoming::new(Arc::clone(&self.shared), end);
        Ok(Theirs::new(end).map(|end| -> Box<dyn Incoming> { Box::new(incoming(end)) }))
    }
}

impl Drop for InnerListener {
    fn drop(&mut self) {
        if !self.shared.stopped.load(Ordering::Acquire) {
            // SAFETY: a listener of its own, which is used no more. There is nobody to tell of an error.
            let _ = unsafe { self.shared.loaded.close_listen(self.listener.pointer()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_table_is_own() {
        assert!(is_own(Table::V8(&v8::ncclNetPlugin_v8)) && is_own(Table::V12(&v12::ncclNetPlugin_v12)));
        let (shared, _, _) = stub::Stub::end(0, 11);
        assert!(!is_own(shared.loaded.table));
    }

    #[test]
    fn messages_leave_room_for_their_header() {
        assert_eq!(raw_bytes_within(c_int::MAX as usize), (1 << 31) - 1 - 32);
        assert_eq!(raw_bytes_within(31), 0);
    }
}
