//! Collectives that compute.
#![allow(unsafe_code)] // called from C

use std::ffi::c_void;
use std::mem::MaybeUninit;

use mgcomp_transport::communicator::{Communicator, Datatype, Operation};

use super::members::mgcompCommunicator;
use super::moving::mgcompBlock;
use super::{blocks_of, buffer_at_root, carry_out, collective, two};
use crate::error::{Failure, call, mgcompResult};
use crate::memory::Span;
use crate::number::number;
use crate::request::{Work, mgcompRequest};

/// The type of the numbers that a reduction computes with, little-endian.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub enum mgcompDatatype {
    /// Signed, 8 bits.
    I8 = 0,
    /// Signed, 16 bits.
    I16 = 1,
    /// Signed, 32 bits.
    I32 = 2,
    /// Signed, 64 bits.
    I64 = 3,
    /// Unsigned, 8 bits.
    U8 = 4,
    /// Unsigned, 16 bits.
    U16 = 5,
    /// Unsigned, 32 bits.
    U32 = 6,
    /// Unsigned, 64 bits.
    U64 = 7,
    /// IEEE half precision.
    F16 = 8,
    /// bfloat16.
    Bf16 = 9,
    /// IEEE single precision.
    F32 = 10,
    /// IEEE double precision.
    F64 = 11,
}

/// How numbers are combined: from the left, in the order of the ranks, each step rounded to the datatype, to nearest, ties to
/// even. The result is the same bits on every rank and link.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub enum mgcompOperation {
    /// Added up. Integers wrap around.
    Sum = 0,
    /// The smallest.
    Min = 1,
    /// The largest.
    Max = 2,
    /// Added up, and divided by the number of ranks.
    Avg = 3,
}

/// Combines buffers of all members number by number, at one member.
///
/// @param root the member that gets the result.
/// @param send sendBytes bytes, whole numbers, as many on all members.
/// @param receive at root: room for exactly receiveBytes = sendBytes; it may be send. Elsewhere not looked at.
/// @param datatype what numbers they are.
/// @param operation how they are combined.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompReduce(
    communicator: mgcompCommunicator,
    root: u32,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    datatype: MaybeUninit<mgcompDatatype>,
    operation: MaybeUninit<mgcompOperation>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (datatype, operation) = (datatype_of(datatype)?, operation_of(operation)?);
        let receive = buffer_at_root((communicator, root), "receive", receive, receive_bytes)?;
        let buffers = (Span::new("send", send, send_bytes)?, receive);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, reduce / start_reduce(root, &send, &receive, datatype, operation))
    })
}

/// Combines buffers of all members number by number, and leaves each with one of as many equal blocks of the result.
///
/// @param send exactly sendBytes = receiveBytes * ranks.
/// @param receive room for receiveBytes bytes, whole numbers. It may be this member's block of send.
/// @param datatype what numbers they are.
/// @param operation how they are combined.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompReduceScatter(
    communicator: mgcompCommunicator,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    datatype: MaybeUninit<mgcompDatatype>,
    operation: MaybeUninit<mgcompOperation>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (datatype, operation) = (datatype_of(datatype)?, operation_of(operation)?);
        let buffers = (Span::new("send", send, send_bytes)?, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(
            out,
            member,
            lent,
            reduce_scatter / start_reduce_scatter(&send, &receive, datatype, operation)
        )
    })
}

/// As mgcompReduceScatter, with a block of its own length and place in send for each member.
///
/// @param send sendBytes bytes.
/// @param blocks one for each member: where in send its bytes are. They are the same on all members, and do not overlap.
/// @param receive room for receiveBytes bytes, as many as this member's block has. It may be that block.
/// @param datatype what numbers they are.
/// @param operation how they are combined.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompReduceScatterV(
    communicator: mgcompCommunicator,
    send: *const c_void,
    send_bytes: usize,
    blocks: *const mgcompBlock,
    receive: *mut c_void,
    receive_bytes: usize,
    datatype: MaybeUninit<mgcompDatatype>,
    operation: MaybeUninit<mgcompOperation>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (datatype, operation) = (datatype_of(datatype)?, operation_of(operation)?);
        // SAFETY: the header asks for as many as there are members, or NULL.
        let blocks = unsafe { blocks_of("blocks", communicator, blocks) }?;
        let buffers = (Span::new("send", send, send_bytes)?, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(
            out,
            member,
            lent,
            reduce_scatter_v / start_reduce_scatter_v(&send, &blocks, &receive, datatype, operation)
        )
    })
}

/// Combines buffers of all members number by number, on all members.
///
/// @param send sendBytes bytes, whole numbers, as many on all members.
/// @param receive room for exactly receiveBytes = sendBytes. It may be send.
/// @param datatype what numbers they are.
/// @param operation how they are combined.
/// @param request NULL to wait, else set to what is under way.
///
/// Any number of threads may call this at once; what each member calls must be in the same order on all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompAllReduce(
    communicator: mgcompCommunicator,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
    datatype: MaybeUninit<mgcompDatatype>,
    operation: MaybeUninit<mgcompOperation>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (datatype, operation) = (datatype_of(datatype)?, operation_of(operation)?);
        let buffers = (Span::new("send", send, send_bytes)?, Span::new("receive", receive, receive_bytes)?);
        // SAFETY: the header asks for both buffers, and a place for a handle or NULL.
        let (out, member, lent, send, receive) = unsafe { two(communicator, buffers, request) }?;
        collective!(out, member, lent, all_reduce / start_all_reduce(&send, &receive, datatype, operation))
    })
}

fn datatype_of(datatype: MaybeUninit<mgcompDatatype>) -> Result<Datatype, Failure> {
    let number = number(datatype);
    let known = Datatype::ALL.get(number as usize).copied();
    known.ok_or_else(|| Failure::argument(format_args!("datatype {number}: there are 0 to 11")))
}

fn operation_of(operation: MaybeUninit<mgcompOperation>) -> Result<Operation, Failure> {
    let number = number(operation);
    let known = Operation::ALL.get(number as usize).copied();
    known.ok_or_else(|| Failure::argument(format_args!("operation {number}: there are 0 to 3")))
}
