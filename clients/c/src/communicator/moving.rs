//! Collectives that move bytes.
#![allow(unsafe_code)] // called from C

use std::ffi::c_void;
use std::mem::MaybeUninit;

use mgcomp_transport::communicator::Communicator;

use super::members::mgcompCommunicator;
use super::{COMMUNICATORS, blocks_at_root, blocks_of, buffer_at_root, carry_out, collective, one, two};
use crate::error::{Failure, call, mgcompResult};
use crate::lending::Lent;
use crate::memory::{Out, Span};
use crate::number::{element, mgcompElement};
use crate::request::{Work, mgcompRequest};

/// A part of a buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompBlock {
    /// Where it starts, in bytes.
    pub offset: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

/// Waits until all members have called it.
///
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompBarrier(
    communicator: mgcompCommunicator,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::optional("request", request) }?;
        let (member, lent) = (COMMUNICATORS.get(communicator.id)?, Lent::default());
        collective!(out, member, lent, barrier / start_barrier())
    })
}

/// Brings the bytes of a buffer at one member to all.
///
/// @param root the member that has them.
/// @param buffer bytes bytes, as many on all members; written on all but root.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompBroadcast(
    communicator: mgcompCommunicator,
    root: u32,
    buffer: *mut c_void,
    bytes: usize,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        let buffer = Span::new("buffer", buffer, bytes)?;
        // SAFETY: the header asks for the buffer, and a place for a handle or NULL.
        let (out, member, lent, buffer) = unsafe { one(communicator, &buffer, request) }?;
        collective!(out, member, lent, broadcast / start_broadcast(root, &buffer, element))
    })
}

/// Brings a buffer of each member to one, one after the other.
///
/// @param root the member that gets them.
/// @param send sendBytes bytes, as many on all members. At root it may be its own block of receive.
/// @param receive at root: room for exactly receiveBytes = sendBytes * ranks. Elsewhere not looked at.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGather(
    communicator: mgcompCommunicator,
    root: u32,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        let receive = buffer_at_root((communicator, root), "receive", receive, receive_bytes)?;
        let buffers = (Span::new("send", send, send_bytes)?, receive);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, gather / start_gather(root, &send, &receive, element))
    })
}

/// As mgcompGather, with a block of its own length and place in receive for each member.
///
/// @param root the member that gets them.
/// @param send sendBytes bytes, as many as this member's block has.
/// @param receive at root: room for receiveBytes bytes. Elsewhere not looked at.
/// @param blocks at root: one for each member, where in receive its bytes go. They must not overlap. Elsewhere not looked at.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGatherV(
    communicator: mgcompCommunicator,
    root: u32,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    blocks: *const mgcompBlock,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        // SAFETY: the header asks root for as many as there are members, or NULL.
        let blocks = unsafe { blocks_at_root((communicator, root), "blocks", blocks) }?;
        let receive = buffer_at_root((communicator, root), "receive", receive, receive_bytes)?;
        let buffers = (Span::new("send", send, send_bytes)?, receive);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, gather_v / start_gather_v(root, &send, &receive, &blocks, element))
    })
}

/// Cuts a buffer at one member into equal blocks and brings each member one.
///
/// @param root the member that has it.
/// @param send at root: exactly sendBytes = receiveBytes * ranks. Elsewhere not looked at.
/// @param receive room for receiveBytes bytes, as many on all members. At root it may be its own block of send.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompScatter(
    communicator: mgcompCommunicator,
    root: u32,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        let send = buffer_at_root((communicator, root), "send", send, send_bytes)?;
        let buffers = (send, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, scatter / start_scatter(root, &send, &receive, element))
    })
}

/// As mgcompScatter, with a block of its own length and place in send for each member.
///
/// @param root the member that has it.
/// @param send at root: sendBytes bytes. Elsewhere not looked at.
/// @param blocks at root: one for each member, where in send its bytes are. Elsewhere not looked at.
/// @param receive room for receiveBytes bytes, as many as this member's block has.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompScatterV(
    communicator: mgcompCommunicator,
    root: u32,
    send: *const c_void,
    send_bytes: usize,
    blocks: *const mgcompBlock,
    receive: *mut c_void,
    receive_bytes: usize,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        // SAFETY: the header asks root for as many as there are members, or NULL.
        let blocks = unsafe { blocks_at_root((communicator, root), "blocks", blocks) }?;
        let send = buffer_at_root((communicator, root), "send", send, send_bytes)?;
        let buffers = (send, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, scatter_v / start_scatter_v(root, &send, &blocks, &receive, element))
    })
}

/// Brings a buffer of each member to all, one after the other.
///
/// @param send sendBytes bytes, as many on all members. It may be this member's block of receive.
/// @param receive room for exactly receiveBytes = sendBytes * ranks.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompAllGather(
    communicator: mgcompCommunicator,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        let buffers = (Span::new("send", send, send_bytes)?, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, all_gather / start_all_gather(&send, &receive, element))
    })
}

/// As mgcompAllGather, with a block of its own length and place in receive for each member.
///
/// @param send sendBytes bytes, as many as this member's block has.
/// @param receive room for receiveBytes bytes.
/// @param blocks one for each member: where in receive its bytes go. Lengths are the same on all members.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompAllGatherV(
    communicator: mgcompCommunicator,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    blocks: *const mgcompBlock,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        // SAFETY: the header asks for as many as there are members, or NULL.
        let blocks = unsafe { blocks_of("blocks", communicator, blocks) }?;
        let buffers = (Span::new("send", send, send_bytes)?, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, all_gather_v / start_all_gather_v(&send, &receive, &blocks, element))
    })
}

/// Cuts a buffer into equal blocks, one for each member, and brings each there: block i of member j becomes block j of
/// member i.
///
/// @param send sendBytes bytes, a multiple of ranks. It may be receive itself; else it must not overlap it.
/// @param receive room for exactly receiveBytes = sendBytes.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompAllToAll(
    communicator: mgcompCommunicator,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        let buffers = (Span::new("send", send, send_bytes)?, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, all_to_all / start_all_to_all(&send, &receive, element))
    })
}

/// As mgcompAllToAll, with blocks of their own lengths and places.
///
/// @param send sendBytes bytes. It may be receive itself where the blocks of each member are the same too; else it must not
/// overlap it.
/// @param sendBlocks one for each member: where in send its bytes are.
/// @param receive room for receiveBytes bytes.
/// @param receiveBlocks one for each member: where in receive its bytes go. They must not overlap.
/// @param element what they are.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompAllToAllV(
    communicator: mgcompCommunicator,
    send: *const c_void,
    send_bytes: usize,
    send_blocks: *const mgcompBlock,
    receive: *mut c_void,
    receive_bytes: usize,
    receive_blocks: *const mgcompBlock,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let element = self::element(element)?;
        // SAFETY: the header asks for as many as there are members, or NULL.
        let send_blocks = unsafe { blocks_of("sendBlocks", communicator, send_blocks) }?;
        // SAFETY: the header asks for as many as there are members, or NULL.
        let receive_blocks = unsafe { blocks_of("receiveBlocks", communicator, receive_blocks) }?;
        let buffers = (Span::new("send", send, send_bytes)?, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(
            out,
            member,
            lent,
            all_to_all_v / start_all_to_all_v(&send, &send_blocks, &receive, &receive_blocks, element)
        )
    })
}
