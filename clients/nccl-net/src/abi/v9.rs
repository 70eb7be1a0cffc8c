//! Version 9: NCCL 2.24 and 2.25. Messages of any length, and devices that join to one.

use std::ffi::c_int;

use super::function::{
    Accept, Close, DeregMr, Devices, GetDeviceMr, Iflush, IrecvConsumed, MakeVDevice, RegMr, RegMrDmaBuf,
    Test,
};
use super::{Logger, Opaque, Status, Text, exports, v10};

/// What is known of a device: the same as in version 10.
pub type Properties = v10::Properties;

/// Sends: end, data, bytes, tag, memory handle, where the request goes.
pub type Isend = Option<unsafe extern "C" fn(Opaque, Opaque, usize, c_int, Opaque, *mut Opaque) -> Status>;
/// Receives: end, count, places, sizes, tags, memory handles, where the request goes.
pub type Irecv = Option<
    unsafe extern "C" fn(
        Opaque,
        c_int,
        *mut Opaque,
        *mut usize,
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
    /// Joins devices to one.
    pub make_v_device: MakeVDevice,
}

/// What NCCL looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL says what it is called")]
pub static ncclNetPlugin_v9: Net = Net {
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
    make_v_device: None,
};

unsafe extern "C" fn isend(
    end: Opaque,
    data: Opaque,
    bytes: usize,
    _tag: c_int,
    _memory: Opaque,
    request: *mut Opaque,
) -> Status {
    // SAFETY: the caller's pointers, as they are.
    unsafe { exports::send(end, data, bytes, request) }
}

unsafe extern "C" fn irecv(
    end: Opaque,
    count: c_int,
    data: *mut Opaque,
    bytes: *mut usize,
    _tags: *mut c_int,
    _memory: *mut Opaque,
    request: *mut Opaque,
) -> Status {
    // SAFETY: the caller's pointers, as they are.
    unsafe { exports::receive(end, count, data, bytes, request) }
}
