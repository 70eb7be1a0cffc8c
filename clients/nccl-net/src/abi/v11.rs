//! Version 11: NCCL 2.28 and 2.29. Contexts, and word of what is about to be sent.

use std::ffi::{c_int, c_void};

use super::function::{
    Accept, Close, DeregMr, Devices, GetDeviceMr, Iflush, IrecvConsumed, MakeVDevice, RegMr, RegMrDmaBuf,
    Test,
};
use super::{Facts, Logger, Opaque, Status, Text, exports, v10};

/// What a plugin exports, for devices that are described by `P`.
#[repr(C)]
#[derive(Debug)]
pub struct Table<P> {
    /// What the network is called.
    pub name: Text,
    /// Starts the network for a communicator: context, communicator, how it is set, log, profiler.
    pub init: Option<unsafe extern "C" fn(*mut Opaque, u64, Opaque, Logger, *const c_void) -> Status>,
    /// How many devices there are.
    pub devices: Devices,
    /// What is known of a device.
    pub get_properties: Option<unsafe extern "C" fn(c_int, *mut P) -> Status>,
    /// Listens: context, device, where the handle goes, where the listener goes.
    pub listen: Option<unsafe extern "C" fn(Opaque, c_int, Opaque, *mut Opaque) -> Status>,
    /// Connects: context, device, handle, where the end goes, what a device would need of it.
    pub connect: Option<unsafe extern "C" fn(Opaque, c_int, Opaque, *mut Opaque, *mut Opaque) -> Status>,
    /// Takes a connection.
    pub accept: Accept,
    /// Makes memory known.
    pub reg_mr: RegMr,
    /// The same for memory that is a file.
    pub reg_mr_dma_buf: RegMrDmaBuf,
    /// Forgets memory.
    pub dereg_mr: DeregMr,
    /// Sends.
    pub isend: v10::Isend,
    /// Receives.
    pub irecv: v10::Irecv,
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
    /// Ends a context.
    pub finalize: Close,
    /// Says of what kind the next messages are.
    pub set_net_attr: Option<unsafe extern "C" fn(Opaque, *mut Attributes) -> Status>,
}

/// The table of this version.
pub type Net = Table<Properties>;

/// What is known of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// What version 10 knows.
    pub known: v10::Properties,
    /// Requests that one may stand for.
    pub max_multi_request_size: c_int,
}

impl From<Facts> for Properties {
    fn from(facts: Facts) -> Self {
        Self { known: facts.into(), max_multi_request_size: 1 }
    }
}

/// Of what kind messages are. What is not known has all bits set.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// Peers and flows in both directions, of which nothing here needs to know.
    pub flows: [i32; 8],
    /// The operations, a bit for each.
    pub op: u32,
    /// The algorithms.
    pub algo: u32,
    /// The protocols.
    pub proto: u32,
}

pub(super) const fn table<P: From<Facts>>() -> Table<P> {
    Table {
        name: Text(exports::NAME.as_ptr()),
        init: Some(exports::init_context),
        devices: Some(exports::devices),
        get_properties: Some(exports::properties::<P>),
        listen: Some(exports::listen_in),
        connect: Some(exports::connect_in),
        accept: Some(exports::accept),
        reg_mr: Some(exports::reg_mr),
        reg_mr_dma_buf: None,
        dereg_mr: Some(exports::dereg_mr),
        isend: Some(v10::isend),
        irecv: Some(v10::irecv),
        iflush: Some(exports::iflush),
        test: Some(exports::test),
        close_send: Some(exports::close_send),
        close_recv: Some(exports::close_recv),
        close_listen: Some(exports::close_listen),
        get_device_mr: None,
        irecv_consumed: None,
        make_v_device: None,
        finalize: Some(exports::finalize),
        set_net_attr: Some(exports::set_net_attr),
    }
}

/// What NCCL looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL says what it is called")]
pub static ncclNetPlugin_v11: Net = table();
