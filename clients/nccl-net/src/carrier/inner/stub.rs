//! A plugin that does next to nothing, and remembers what it was asked for. For tests.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Shared, Theirs};
use crate::abi::loaded::{Loaded, Table};
use crate::abi::{Opaque, SUCCESS, Status, v10, v11};

/// An end of one of its connections.
#[derive(Default)]
pub(super) struct Stub {
    /// How often it takes no message yet; each time it leaves a mark in the first byte of that.
    pub(super) busy: usize,
    /// The first bytes of the messages that it was asked to send.
    pub(super) asked: Vec<u8>,
    pub(super) deregistered: usize,
    pub(super) closed: usize,
}

impl Stub {
    /// An end for a plugin of version 10 or 11.
    pub(super) fn end(busy: usize, version: u32) -> (Arc<Shared>, Theirs, *mut Self) {
        let table = match version {
            10 => Table::V10(Box::leak(Box::new(v10::Net {
                reg_mr: Some(reg_mr),
                dereg_mr: Some(dereg_mr),
                isend: Some(isend),
                close_send: Some(close),
                ..v10::ncclNetPlugin_v10
            }))),
            _ => Table::V11(Box::leak(Box::new(v11::Net {
                reg_mr: Some(reg_mr),
                dereg_mr: Some(dereg_mr),
                isend: Some(isend),
                close_send: Some(close),
                finalize: Some(finalize),
                ..v11::ncclNetPlugin_v11
            }))),
        };
        let stub = Box::leak(Box::new(Self { busy, ..Self::default() }));
        let stub: *mut Self = stub;
        let shared = Shared { loaded: Loaded { table }, context: 0, stopped: AtomicBool::new(false) };
        (Arc::new(shared), Theirs(stub as usize), stub)
    }
}

/// What a call is for.
///
/// # Safety
/// It is one of the ends above, and nobody else has a reference to it.
unsafe fn stub<'a>(end: Opaque) -> &'a mut Stub {
    // SAFETY: as the caller says; it is never freed.
    unsafe { &mut *end.cast::<Stub>() }
}

unsafe extern "C" fn reg_mr(_: Opaque, _: Opaque, _: usize, _: c_int, memory: *mut Opaque) -> Status {
    // SAFETY: there is a place for the handle.
    unsafe { *memory = ptr::null_mut() };
    SUCCESS
}

unsafe extern "C" fn dereg_mr(end: Opaque, _: Opaque) -> Status {
    // SAFETY: an end of ours; tests have one thread.
    unsafe { stub(end) }.deregistered += 1;
    SUCCESS
}

unsafe extern "C" fn isend(
    end: Opaque,
    data: Opaque,
    _: usize,
    _: c_int,
    _: Opaque,
    _: Opaque,
    request: *mut Opaque,
) -> Status {
    // SAFETY: an end of ours, a message that has a byte and is staged for it, and a place for the request.
    let (stub, first, request) = unsafe { (stub(end), &mut *data.cast::<u8>(), &mut *request) };
    stub.asked.push(*first);
    if stub.busy == 0 {
        *request = end;
        return SUCCESS;
    }
    (*first, stub.busy) = (first.wrapping_add(1), stub.busy - 1);
    *request = ptr::null_mut();
    SUCCESS
}

unsafe extern "C" fn close(end: Opaque) -> Status {
    // SAFETY: an end of ours; tests have one thread.
    unsafe { stub(end) }.closed += 1;
    SUCCESS
}

unsafe extern "C" fn finalize(_: Opaque) -> Status {
    SUCCESS
}
