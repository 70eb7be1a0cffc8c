//! Version 10: NCCL 2.26 and 2.27. A profiler, and connections that can be set.

use std::ffi::{c_int, c_void};

use super::function::{
    Accept, Close, DeregMr, Devices, GetDeviceMr, Iflush, IrecvConsumed, MakeVDevice, RegMr, RegMrDmaBuf,
    Test,
};
use super::{Facts, Logger, Opaque, Status, Text, exports};

/// Devices that may join to one.
pub const MAX_DEVICES: usize = 4;

/// Sends: end, data, bytes, tag, memory handle, profiler's handle, where the request goes.
pub type Isend =
    Option<unsafe extern "C" fn(Opaque, Opaque, usize, c_int, Opaque, Opaque, *mut Opaque) -> Status>;
/// Receives: end, count, places, sizes, tags, memory handles, profiler's handles, where the request goes.
pub type Irecv = Option<
    unsafe extern "C" fn(
        Opaque,
        c_int,
        *mut Opaque,
        *mut usize,
        *mut c_int,
        *mut Opaque,
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
    /// Starts the network: log, profiler.
    pub init: Option<unsafe extern "C" fn(Logger, *const c_void) -> Status>,
    /// How many devices there are.
    pub devices: Devices,
    /// What is known of a device.
    pub get_properties: Option<unsafe extern "C" fn(c_int, *mut Properties) -> Status>,
    /// Listens: device, where the handle goes, where the listener goes.
    pub listen: Option<unsafe extern "C" fn(c_int, Opaque, *mut Opaque) -> Status>,
    /// Connects: device, how it is set, handle, where the end goes, what a device would need of it.
    pub connect: Option<unsafe extern "C" fn(c_int, Opaque, Opaque, *mut Opaque, *mut Opaque) -> Status>,
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

/// What is known of a device, which up to `N` others may have joined to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Described<const N: usize> {
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
    /// Whether receives must be flushed.
    pub force_flush: c_int,
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
    /// How many devices it is made of.
    pub ndevs: c_int,
    /// Which.
    pub devs: [c_int; N],
    /// The most bytes of a message from one to one.
    pub max_p2p_bytes: usize,
    /// The most bytes of a message of a collective operation.
    pub max_coll_bytes: usize,
}

/// What is known of a device.
pub type Properties = Described<MAX_DEVICES>;

impl<const N: usize> From<Facts> for Described<N> {
    fn from(facts: Facts) -> Self {
        let mut devs = [0; N];
        devs[0] = facts.device;
        Self {
            name: facts.name,
            pci_path: facts.pci_path,
            guid: facts.guid,
            ptr_support: facts.ptr_support,
            reg_is_global: 0,
            force_flush: 0,
            speed: facts.speed_mbps,
            port: facts.port,
            latency: facts.latency,
            max_comms: facts.max_comms,
            max_recvs: 1,
            net_device_type: 0,
            net_device_version: 0,
            ndevs: 1,
            devs,
            max_p2p_bytes: facts.max_bytes,
            max_coll_bytes: facts.max_bytes,
        }
    }
}

impl<const N: usize> Described<N> {
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
            max_bytes: self.max_p2p_bytes.min(self.max_coll_bytes),
        }
    }
}

/// What NCCL looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL says what it is called")]
pub static ncclNetPlugin_v10: Net = Net {
    name: Text(exports::NAME.as_ptr()),
    init: Some(init),
    devices: Some(exports::devices),
    get_properties: Some(exports::properties::<Properties>),
    listen: Some(exports::listen),
    connect: Some(connect),
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

unsafe extern "C" fn init(logger: Logger, _profiler: *const c_void) -> Status {
    // SAFETY: the log is what the caller says.
    unsafe { exports::init(logger) }
}

unsafe extern "C" fn connect(
    device: c_int,
    _config: Opaque,
    handle: Opaque,
    end: *mut Opaque,
    on_device: *mut Opaque,
) -> Status {
    // SAFETY: the caller's pointers, as they are.
    unsafe { exports::connect(device, handle, end, on_device) }
}

pub(super) unsafe extern "C" fn isend(
    end: Opaque,
    data: Opaque,
    bytes: usize,
    _tag: c_int,
    _memory: Opaque,
    _profiler: Opaque,
    request: *mut Opaque,
) -> Status {
    // SAFETY: the caller's pointers, as they are.
    unsafe { exports::send(end, data, bytes, request) }
}

pub(super) unsafe extern "C" fn irecv(
    end: Opaque,
    count: c_int,
    data: *mut Opaque,
    bytes: *mut usize,
    _tags: *mut c_int,
    _memory: *mut Opaque,
    _profiler: *mut Opaque,
    request: *mut Opaque,
) -> Status {
    // SAFETY: the caller's pointers, as they are.
    unsafe { exports::receive(end, count, data, bytes, request) }
}
