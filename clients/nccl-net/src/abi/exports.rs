//! The functions that NCCL calls, as far as versions share them: pointers are checked here and become values, and whatever goes
//! wrong becomes a status. No panic leaves them.

use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::v11::Attributes;
use super::{Facts, HANDLE_LEN, Logger, Opaque, SUCCESS, Status};
use crate::error::NetError;
use crate::memory::{Destination, Source};
use crate::objects::Token;
use crate::{logger, plugin};

/// What the network is called.
pub const NAME: &CStr = c"mgcomp";

/// Runs a call; what it ends with is logged if it is an error.
fn call(what: impl FnOnce() -> Result<(), NetError>) -> Status {
    let result = catch_unwind(AssertUnwindSafe(what)).unwrap_or(Err(NetError::Panic));
    match result {
        Ok(()) => SUCCESS,
        // Not even a word: in a child, whatever locks that takes may be held for ever.
        Err(error @ NetError::Forked) => error.status(),
        Err(error) => {
            let log = if error.is_to_be_mended() { logger::error } else { logger::warn };
            // The log is the program's, and may do anything.
            let _ = catch_unwind(|| log(&error.to_string()));
            error.status()
        }
    }
}

/// Writes what a call gives to where its caller wants it.
///
/// # Safety
/// `to` is null or may be written.
unsafe fn give<T>(what: &'static str, to: *mut T, value: T) -> Result<(), NetError> {
    if to.is_null() {
        return Err(NetError::Null { what });
    }
    // SAFETY: it is not null, so it may be written.
    unsafe { to.write(value) };
    Ok(())
}

/// The handle that lies at a pointer.
///
/// # Safety
/// `handle` is null or the start of a handle, which nobody else uses meanwhile.
unsafe fn handle<'a>(handle: Opaque) -> Result<&'a mut [u8; HANDLE_LEN], NetError> {
    // SAFETY: as the caller says; any alignment will do for bytes.
    unsafe { handle.cast::<[u8; HANDLE_LEN]>().as_mut() }.ok_or(NetError::Null { what: "the handle" })
}

pub(super) unsafe extern "C" fn init_context(
    context: *mut Opaque,
    communicator: u64,
    _config: Opaque,
    logger: Logger,
    _profiler: *const c_void,
) -> Status {
    // SAFETY: NCCL passes the place for the context.
    call(|| unsafe { give("the context", context, plugin::init(logger, Some(communicator))?.as_pointer()) })
}

pub(super) unsafe extern "C" fn init(logger: Logger) -> Status {
    call(|| plugin::init(logger, None).map(drop))
}

pub(super) unsafe extern "C" fn devices(count: *mut c_int) -> Status {
    // SAFETY: NCCL passes the place for the count.
    call(|| unsafe { give("the count of devices", count, plugin::devices()? as c_int) })
}

pub(super) unsafe extern "C" fn properties<P: From<Facts>>(device: c_int, properties: *mut P) -> Status {
    // SAFETY: NCCL passes the place for the properties of its version.
    call(|| unsafe { give("the properties", properties, plugin::facts(device)?.into()) })
}

pub(super) unsafe extern "C" fn listen_in(
    context: Opaque,
    device: c_int,
    to: Opaque,
    listener: *mut Opaque,
) -> Status {
    call(|| {
        let context = Token::of(context);
        // SAFETY: NCCL passes a handle and the place for the listener.
        unsafe { give("the listener", listener, plugin::listen(context, device, handle(to)?)?.as_pointer()) }
    })
}

pub(super) unsafe extern "C" fn listen(device: c_int, handle: Opaque, listener: *mut Opaque) -> Status {
    // SAFETY: the caller's pointers, as they are.
    unsafe { listen_in(ptr::null_mut(), device, handle, listener) }
}

pub(super) unsafe extern "C" fn connect_in(
    context: Opaque,
    device: c_int,
    to: Opaque,
    end: *mut Opaque,
    _on_device: *mut Opaque,
) -> Status {
    call(|| {
        // SAFETY: NCCL passes the place for the end; it asks again as long as there is none.
        unsafe { give("the sending end", end, ptr::null_mut()) }?;
        // SAFETY: NCCL passes a handle.
        let connected = plugin::connect(Token::of(context), device, unsafe { handle(to) }?)?;
        // SAFETY: as above.
        unsafe { give("the sending end", end, pointer(connected)) }
    })
}

pub(super) unsafe extern "C" fn connect(
    device: c_int,
    handle: Opaque,
    end: *mut Opaque,
    on_device: *mut Opaque,
) -> Status {
    // SAFETY: the caller's pointers, as they are.
    unsafe { connect_in(ptr::null_mut(), device, handle, end, on_device) }
}

pub(super) unsafe extern "C" fn accept(
    listener: Opaque,
    end: *mut Opaque,
    _on_device: *mut Opaque,
) -> Status {
    call(|| {
        // SAFETY: NCCL passes the place for the end; it asks again as long as there is none.
        unsafe { give("the receiving end", end, ptr::null_mut()) }?;
        let accepted = plugin::accept(Token::of(listener))?;
        // SAFETY: as above.
        unsafe { give("the receiving end", end, pointer(accepted)) }
    })
}

pub(super) unsafe extern "C" fn reg_mr(
    end: Opaque,
    _data: Opaque,
    _bytes: usize,
    kind: c_int,
    memory: *mut Opaque,
) -> Status {
    call(|| {
        plugin::check_memory(Token::of(end), kind)?;
        // Nothing needs to be known of memory of the host, not even when it is deregistered; a handle there must be.
        // SAFETY: NCCL passes the place for the handle.
        unsafe { give("the memory handle", memory, NAME.as_ptr().cast_mut().cast()) }
    })
}

pub(super) unsafe extern "C" fn dereg_mr(end: Opaque, _memory: Opaque) -> Status {
    call(|| plugin::release_memory(Token::of(end)))
}

/// Sends `bytes` bytes from `data` on.
///
/// # Safety
/// They stay as they are until the request is done, their memory is deregistered or the end is closed.
pub(super) unsafe fn send(end: Opaque, data: Opaque, bytes: usize, request: *mut Opaque) -> Status {
    call(|| {
        // SAFETY: NCCL passes the place for the request.
        unsafe { give("the request", request, ptr::null_mut()) }?;
        // SAFETY: as the caller says.
        let source = unsafe { Source::new(data.cast(), bytes) }?;
        let posted = plugin::send(Token::of(end), source)?;
        // SAFETY: as above.
        unsafe { give("the request", request, pointer(posted)) }
    })
}

/// Receives at most so many bytes as `bytes` says to where `data` says.
///
/// # Safety
/// There are `count` of both, and the memory is nobody else's to write until the request is done, it is deregistered or the end
/// is closed.
pub(super) unsafe fn receive(
    end: Opaque,
    count: c_int,
    data: *mut Opaque,
    bytes: *mut usize,
    request: *mut Opaque,
) -> Status {
    call(|| {
        if request.is_null() {
            return Err(NetError::Null { what: "the request" });
        }
        // What it comes in as says that NCCL's kernel looks at the data itself. It is no request, so it never stays there.
        // SAFETY: NCCL passes a place that it has written.
        let optional =
            unsafe { request.replace(ptr::null_mut()) } as usize == super::OPTIONAL_RECV_COMPLETION;
        if count != 1 {
            return Err(NetError::Receives { count });
        }
        if data.is_null() || bytes.is_null() {
            return Err(NetError::Null { what: "the list of places" });
        }
        // SAFETY: there is one of each, and the memory is as the caller says.
        let destination = unsafe { Destination::new((*data).cast(), *bytes) }?;
        let posted = plugin::receive(Token::of(end), destination, optional)?;
        // SAFETY: as above.
        unsafe { give("the request", request, pointer(posted)) }
    })
}

pub(super) unsafe extern "C" fn iflush(
    _end: Opaque,
    _count: c_int,
    _data: *mut Opaque,
    _bytes: *mut c_int,
    _memory: *mut Opaque,
    request: *mut Opaque,
) -> Status {
    // Memory of the host needs none. Without a request there is nothing to wait for.
    // SAFETY: NCCL passes the place for the request.
    call(|| unsafe { give("the request", request, ptr::null_mut()) })
}

pub(super) unsafe extern "C" fn test(request: Opaque, done: *mut c_int, bytes: *mut c_int) -> Status {
    call(|| {
        // SAFETY: NCCL passes the place for the answer.
        unsafe { give("the answer", done, 0) }?;
        let Some(moved) = plugin::test(Token::of(request))? else { return Ok(()) };
        if !bytes.is_null() {
            // SAFETY: it is a place for one size, since there is one receive in a request.
            unsafe { bytes.write(c_int::try_from(moved).unwrap_or(c_int::MAX)) };
        }
        // SAFETY: as above.
        unsafe { give("the answer", done, 1) }
    })
}

pub(super) unsafe extern "C" fn close_send(end: Opaque) -> Status {
    call(|| plugin::close_send(Token::of(end)))
}

pub(super) unsafe extern "C" fn close_recv(end: Opaque) -> Status {
    call(|| plugin::close_recv(Token::of(end)))
}

pub(super) unsafe extern "C" fn close_listen(listener: Opaque) -> Status {
    call(|| plugin::close_listen(Token::of(listener)))
}

pub(super) unsafe extern "C" fn finalize(context: Opaque) -> Status {
    call(|| plugin::finalize(Token::of(context)))
}

pub(super) unsafe extern "C" fn set_net_attr(context: Opaque, attributes: *mut Attributes) -> Status {
    call(|| {
        // SAFETY: NCCL passes attributes, and nobody changes them meanwhile.
        let attributes = unsafe { attributes.as_ref() }.ok_or(NetError::Null { what: "the attributes" })?;
        plugin::set_kind(Token::of(context), attributes.op, attributes.proto)
    })
}

fn pointer(token: Option<Token>) -> Opaque {
    token.map_or(ptr::null_mut(), Token::as_pointer)
}
