//! Messages by tag between members.
#![allow(unsafe_code)] // called from C

use std::ffi::c_void;
use std::mem::MaybeUninit;

use mgcomp_transport::communicator::Communicator;

use super::members::mgcompCommunicator;
use super::{carry_out, one};
use crate::error::{Failure, call, mgcompResult};
use crate::memory::{Out, Span};
use crate::number::{element, mgcompElement};
use crate::request::{Work, mgcompRequest};

/// Sends a buffer to the receive of a member with this tag. Messages to one member with one tag arrive in order.
///
/// @param to a member, not this one.
/// @param from bytes bytes.
/// @param element what they are.
/// @param request NULL to wait until the message was received (two members that send to each other first both wait for ever),
/// else set to what is under way.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompSend(
    communicator: mgcompCommunicator,
    to: u32,
    tag: u32,
    from: *const c_void,
    bytes: usize,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (from, element) = (Span::new("from", from, bytes)?, self::element(element)?);
        // SAFETY: the header asks for the buffer, and a place for a handle or NULL.
        let (out, member, lent, from) = unsafe { one(communicator, &from, request) }?;
        check_other(&member.communicator, to)?;
        let work = move |group: &Communicator| Ok(Work::Send(group.start_send(to, tag, &from, element)?));
        carry_out(out, &member, lent, work).map(drop)
    })
}

/// Receives the next message of a member with this tag.
///
/// @param from a member, not this one.
/// @param into room for bytes bytes. A message may be shorter; a longer one is an error, and lost. After an error some bytes may
/// have been written.
/// @param received set to the length of the message, if the call waits for it; may be NULL.
/// @param request NULL to wait, else set to what is under way, for which mgcompWaitRequest tells the length. Receives from one
/// member with one tag get its messages in the order in which they were started, however they are waited for.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompReceive(
    communicator: mgcompCommunicator,
    from: u32,
    tag: u32,
    into: *mut c_void,
    bytes: usize,
    received: *mut u64,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let into = Span::new("into", into, bytes)?;
        // SAFETY: the header asks for a place for a number, or NULL.
        let length = unsafe { Out::optional("received", received) }?;
        // SAFETY: the header asks for the buffer, and a place for a handle or NULL.
        let (out, member, lent, into) = unsafe { one(communicator, &into, request) }?;
        check_other(&member.communicator, from)?;
        let waits = out.is_none();
        let work = move |group: &Communicator| Ok(Work::Receive(group.start_receive(from, tag, &into)?));
        let bytes = carry_out(out, &member, lent, work)?;
        length.into_iter().filter(|_| waits).for_each(|out| out.set(bytes));
        Ok(())
    })
}

/// Refuses this member's own rank: there is no session with it, which else would read as one that is over.
fn check_other(group: &Communicator, rank: u32) -> Result<(), Failure> {
    if rank == group.rank() {
        return Err(Failure::argument(format_args!("rank {rank} is this member: messages are for others")));
    }
    Ok(())
}
