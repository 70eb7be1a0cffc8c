//! What NCCL and a network plugin call each other by: one file per version of the interface, and what they share.
//!
//! A plugin exports one table of functions for each version, called `ncclNetPlugin_v<version>`; NCCL takes the newest that it
//! knows. [`exports`] is the side that NCCL calls, [`loaded`] the side that calls.
#![allow(unsafe_code)] // functions of the C interface, and pointers that it shares

pub mod exports;
pub mod loaded;
pub mod v10;
pub mod v11;
pub mod v12;
pub mod v8;
pub mod v9;

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// What every call returns.
pub type Status = c_int;
/// All is well.
pub const SUCCESS: Status = 0;
/// A call of the system failed.
pub const SYSTEM_ERROR: Status = 2;
/// The plugin has a fault.
pub const INTERNAL_ERROR: Status = 3;
/// An argument is none.
pub const INVALID_ARGUMENT: Status = 4;
/// The program or the job is set up wrongly.
pub const INVALID_USAGE: Status = 5;
/// The other side is gone, or sends what it should not.
pub const REMOTE_ERROR: Status = 6;

/// Bytes of a handle, which one rank makes and NCCL brings to another.
pub const HANDLE_LEN: usize = 128;
/// Requests that a connection may have at once.
pub const MAX_REQUESTS: usize = 32;
/// Memory of the host.
pub const PTR_HOST: c_int = 1;
/// What a request for a receive comes in as if nobody will wait for its end.
pub const OPTIONAL_RECV_COMPLETION: usize = 1;
/// The most bytes of a message that NCCL accepts as a limit.
pub const MAX_MESSAGE_BYTES: usize = 1 << 40;
/// A number that is not known.
pub const UNDEFINED: c_int = -1;

/// Levels of NCCL's log.
pub mod level {
    use std::ffi::c_int;

    /// What the user must see.
    pub const WARN: c_int = 2;
    /// What helps to see what goes on.
    pub const INFO: c_int = 3;
}
/// The parts of NCCL that start and that use networks, for its log.
pub const LOG_INIT_NET: c_ulong = 1 | 16;

/// NCCL's log: level, parts, file, line, format, and what it formats.
pub type Logger = Option<unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...)>;

/// Something behind a pointer that only its maker knows.
pub type Opaque = *mut c_void;

/// A text that stays for as long as the library does.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(pub *const c_char);

// SAFETY: the text is never written again once it is in one of these.
unsafe impl Sync for Text {}
// SAFETY: as above.
unsafe impl Send for Text {}

/// Functions that have been the same since version 8.
pub mod function {
    use super::{Opaque, Status};
    use std::ffi::c_int;

    /// How many devices there are.
    pub type Devices = Option<unsafe extern "C" fn(*mut c_int) -> Status>;
    /// Takes a connection: listener, where the end of it goes, what a device would need of it.
    pub type Accept = Option<unsafe extern "C" fn(Opaque, *mut Opaque, *mut Opaque) -> Status>;
    /// Makes memory known: end of a connection, memory, bytes, kind, where the handle goes.
    pub type RegMr = Option<unsafe extern "C" fn(Opaque, Opaque, usize, c_int, *mut Opaque) -> Status>;
    /// The same for memory that is a file: offset and file come after the kind.
    pub type RegMrDmaBuf =
        Option<unsafe extern "C" fn(Opaque, Opaque, usize, c_int, u64, c_int, *mut Opaque) -> Status>;
    /// Forgets memory.
    pub type DeregMr = Option<unsafe extern "C" fn(Opaque, Opaque) -> Status>;
    /// Makes what was received visible: end, count, places, sizes, memory handles, where the request goes.
    pub type Iflush = Option<
        unsafe extern "C" fn(Opaque, c_int, *mut Opaque, *mut c_int, *mut Opaque, *mut Opaque) -> Status,
    >;
    /// Whether a request is done, and how many bytes it moved.
    pub type Test = Option<unsafe extern "C" fn(Opaque, *mut c_int, *mut c_int) -> Status>;
    /// Ends one end of a connection, or a listener, or a context.
    pub type Close = Option<unsafe extern "C" fn(Opaque) -> Status>;
    /// A memory handle for the code on devices.
    pub type GetDeviceMr = Option<unsafe extern "C" fn(Opaque, Opaque, *mut Opaque) -> Status>;
    /// Says that the device has what a receive brought.
    pub type IrecvConsumed = Option<unsafe extern "C" fn(Opaque, c_int, Opaque) -> Status>;
    /// Joins devices to one: where its number goes, and of what it is made.
    pub type MakeVDevice = Option<unsafe extern "C" fn(*mut c_int, Opaque) -> Status>;
}

/// What is known of a device, whatever the version.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its number.
    pub device: c_int,
    /// Its name.
    pub name: Text,
    /// Where it lies in `/sys`, or null.
    pub pci_path: Text,
    /// What tells its chip from others.
    pub guid: u64,
    /// The kinds of memory that it takes.
    pub ptr_support: c_int,
    /// Its rate in Mb/s.
    pub speed_mbps: c_int,
    /// Its port.
    pub port: c_int,
    /// Its latency in microseconds.
    pub latency: f32,
    /// The most connections it takes.
    pub max_comms: c_int,
    /// The most bytes of a message.
    pub max_bytes: usize,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    const WORD: usize = size_of::<usize>();

    /// By the sizes of C on 64-bit systems, counted by hand.
    #[test]
    fn properties_lie_where_c_has_them() {
        assert_eq!(size_of::<v8::Properties>(), 64);
        assert_eq!((offset_of!(v8::Properties, speed), offset_of!(v8::Properties, latency)), (32, 40));
        assert_eq!(size_of::<v9::Properties>(), 104);
        assert_eq!(size_of::<v10::Properties>(), 104);
        let of_10 = (offset_of!(v10::Properties, ndevs), offset_of!(v10::Properties, max_p2p_bytes));
        assert_eq!(of_10, (64, 88));
        assert_eq!(size_of::<v11::Properties>(), 112);
        assert_eq!(offset_of!(v11::Properties, max_multi_request_size), 104);
        assert_eq!(size_of::<v12::Properties>(), 128);
        assert_eq!(offset_of!(v12::Properties, max_multi_request_size), 120);
        assert_eq!((offset_of!(v12::Properties, rail), offset_of!(v12::Properties, plane)), (124, 126));
        assert_eq!((size_of::<v11::Attributes>(), offset_of!(v11::Attributes, proto)), (44, 40));
    }

    #[test]
    fn tables_have_their_functions_in_order() {
        let words = [19, 20, 20, 22, 22];
        let sizes = [
            size_of::<v8::Net>(),
            size_of::<v9::Net>(),
            size_of::<v10::Net>(),
            size_of::<v11::Net>(),
            size_of::<v12::Net>(),
        ];
        assert_eq!(sizes, words.map(|words| words * WORD));
        for (isend, test) in [
            (offset_of!(v8::Net, isend), offset_of!(v8::Net, test)),
            (offset_of!(v9::Net, isend), offset_of!(v9::Net, test)),
            (offset_of!(v10::Net, isend), offset_of!(v10::Net, test)),
            (offset_of!(v11::Net, isend), offset_of!(v11::Net, test)),
            (offset_of!(v12::Net, isend), offset_of!(v12::Net, test)),
        ] {
            assert_eq!((isend, test), (10 * WORD, 13 * WORD));
        }
        assert_eq!(offset_of!(v12::Net, set_net_attr), 21 * WORD);
    }
}
