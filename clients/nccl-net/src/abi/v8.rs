//! Version 8: NCCL 2.21 to 2.23. Messages are below 2 GiB.

use std::ffi::c_int;

use super::function::{
    Accept, Close, DeregMr, Devices, GetDeviceMr, Iflush, IrecvConsumed, RegMr, RegMrDmaBuf, Test,
};
use super::{Facts, Logger, Opaque, Status, Text, exports};

/// Sends: end, data, bytes, tag, memory handle, where the request goes.
pub type Isend = Option<unsafe extern "C" fn(Opaque, Opaque, c_int, c_int, Opaque, *mut Opaque) -> Status>;
/// Receives: end, count, places, sizes, tags, memory handles, where the request goes.
pub type Irecv = Option<
    unsafe extern "C" fn(
        Opaque,
        c_int,
        *mut Opaque,
        *mut c_int,
        *mut c_int,
        *mut Opaque,
        *mut Opaque,
    ) -> Status,
>;

/// What a plugin exports.
#[repr(C)]
#[derive(Debug)]
pub struct Net {
    /// What the network is called.
    pub name: Text,
    /// Starts the network.
    pub init: Option<unsafe extern "C" fn(Logger) -> Status>,
    /// How many devices there are.
    pub devices: Devices,
    /// What is known of a device.
    pub get_properties: Option<unsafe extern "C" fn(c_int, *mut Properties) -> Status>,
    /// Listens: device, where the handle goes, where the listener goes.
    pub listen: Option<unsafe extern "C" fn(c_int, Opaque, *mut Opaque) -> Status>,
    /// Connects: device, handle, where the end goes, what a device would need of it.
    pub connect: Option<unsafe extern "C" fn(c_int, Opaque, *mut Opaque, *mut Opaque) -> Status>,
    /// Takes a connection.
    pub accept: Accept,
    /// Makes memory known.
    pub reg_mr: RegMr,
    /// The same for memory that is a file.
    pub reg_mr_dma_buf: RegMrDmaBuf,
    /// Forgets memory.
    pub dereg_mr: DeregMr,
    /// Sends.
    pub isend: Isend,
    /// Receives.
    pub irecv: Irecv,
    /// Makes what was received visible.
    pub iflush: Iflush,
    /// Whether a request is done.
    pub test: Test,
    /// Ends a sending end.
    pub close_send: Close,
    /// Ends a receiving end.
    pub close_recv: Close,
    /// Ends a listener.
    pub close_listen: Close,
    /// A memory handle for the code on devices.
    pub get_device_mr: GetDeviceMr,
    /// Says that the device has what a receive brought.
    pub irecv_consumed: IrecvConsumed,
}

/// What is known of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Its name.
    pub name: Text,
    /// Where it lies in `/sys`, or null.
    pub pci_path: Text,
    /// What tells its chip from others.
    pub guid: u64,
    /// The kinds of memory that it takes.
    pub ptr_support: c_int,
    /// Whether memory is known to all connections at once.
    pub reg_is_global: c_int,
    /// Its rate in Mb/s.
    pub speed: c_int,
    /// Its port.
    pub port: c_int,
    /// Its latency in microseconds.
    pub latency: f32,
    /// The most connections it takes.
    pub max_comms: c_int,
    /// The most receives in one request.
    pub max_recvs: c_int,
    /// What code on devices it needs: 0 = none.
    pub net_device_type: c_int,
    /// The version of that.
    pub net_device_version: c_int,
}

impl From<Facts> for Properties {
    fn from(facts: Facts) -> Self {
        Self {
            name: facts.name,
            pci_path: facts.pci_path,
            guid: facts.guid,
            ptr_support: facts.ptr_support,
            reg_is_global: 0,
            speed: facts.speed_mbps,
            port: facts.port,
            latency: facts.latency,
            max_comms: facts.max_comms,
            max_recvs: 1,
            net_device_type: 0,
            net_device_version: 0,
        }
    }
}

impl Properties {
    /// The same, whatever the version.
    pub(super) fn facts(&self, device: c_int) -> Facts {
        Facts {
            device,
            name: self.name,
            pci_path: self.pci_path,
            guid: self.guid,
            ptr_support: self.ptr_support,
            speed_mbps: self.speed,
            port: self.port,
            latency: self.latency,
            max_comms: self.max_comms,
            max_bytes: c_int::MAX as usize,
        }
    }
}

/// What NCCL looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL says what it is called")]
pub static ncclNetPlugin_v8: Net = Net {
    name: Text(exports::NAME.as_ptr()),
    init: Some(exports::init),
    devices: Some(exports::devices),
    get_properties: Some(exports::properties::<Properties>),
    listen: Some(exports::listen),
    connect: Some(exports::connect),
    accept: Some(exports::accept),
    reg_mr: Some(exports::reg_mr),
    reg_mr_dma_buf: None,
    dereg_mr: Some(exports::dereg_mr),
    isend: Some(isend),
    irecv: Some(irecv),
    iflush: Some(exports::iflush),
    test: Some(exports::test),
    close_send: Some(exports::close_send),
    close_recv: Some(exports::close_recv),
    close_listen: Some(exports::close_listen),
    get_device_mr: None,
    irecv_consumed: None,
};

unsafe extern "C" fn isend(
    end: Opaque,
    data: Opaque,
    bytes: c_int,
    _tag: c_int,
    _memory: Opaque,
    request: *mut Opaque,
) -> Status {
    // SAFETY: the caller's pointers, as they are. A length below zero becomes one that no memory has.
    unsafe { exports::send(end, data, bytes as usize, request) }
}

unsafe extern "C" fn irecv(
    end: Opaque,
    count: c_int,
    data: *mut Opaque,
    bytes: *mut c_int,
    _tags: *mut c_int,
    _memory: *mut Opaque,
    request: *mut Opaque,
) -> Status {
    // SAFETY: there are `count` sizes; only one is read, where count is 1 and the pointer is one.
    let mut size = unsafe { if count == 1 && !bytes.is_null() { *bytes as usize } else { 0 } };
    // SAFETY: the caller's pointers, as they are, and one size.
    unsafe { exports::receive(end, count, data, &raw mut size, request) }
}
