//! Communicators: ranks that work together.
#![allow(unsafe_code)] // buffers of the program

pub mod members;
pub mod message;
pub mod moving;
pub mod reducing;

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use mgcomp_transport::communicator::{Block, Communicator};
use mgcomp_transport::memory::Slice;

use self::members::mgcompCommunicator;
use self::moving::mgcompBlock;

use crate::error::Failure;
use crate::handle::{Handles, Kind};
use crate::lending::Lent;
use crate::memory::{Out, Span};
use crate::node::Seat;
use crate::request::{Work, begin, mgcompRequest};

static COMMUNICATORS: Handles<Member> = Handles::new(Kind::Communicator);

/// A communicator, and the node that is kept for it.
struct Member {
    communicator: Communicator,
    seat: Arc<Seat>,
}

/// A communicator, and a buffer of the program.
type One = (Option<Out<mgcompRequest>>, Arc<Member>, Lent, Slice);

/// # Safety
/// The buffer must be there until it is free; `request` must be NULL or a place for a handle.
unsafe fn one(
    communicator: mgcompCommunicator,
    buffer: &Span,
    request: *mut mgcompRequest,
) -> Result<One, Failure> {
    // SAFETY: as for this one.
    let out = unsafe { Out::optional("request", request) }?;
    let member = COMMUNICATORS.get(communicator.id)?;
    let mut lent = Lent::default();
    // SAFETY: as for this one.
    let slice = unsafe { lent.take(buffer) }?;
    Ok((out, member, lent, slice))
}

/// A communicator, a buffer to send from and one to receive into.
type Two = (Option<Out<mgcompRequest>>, Arc<Member>, Lent, Slice, Slice);

/// # Safety
/// As for [`one`].
unsafe fn two(
    communicator: mgcompCommunicator,
    (send, receive): (Span, Span),
    request: *mut mgcompRequest,
) -> Result<Two, Failure> {
    // SAFETY: as for this one.
    let out = unsafe { Out::optional("request", request) }?;
    let member = COMMUNICATORS.get(communicator.id)?;
    let mut lent = Lent::default();
    // SAFETY: as for this one.
    let (send, receive) = unsafe { lent.take_both(&send, &receive) }?;
    Ok((out, member, lent, send, receive))
}

/// Begins something, and waits for it if nobody wants a request; returns the bytes moved then. Slices of the buffers that
/// `work` has are gone when it has returned.
fn carry_out(
    out: Option<Out<mgcompRequest>>,
    member: &Member,
    lent: Lent,
    work: impl FnOnce(&Communicator) -> Result<Work, Failure>,
) -> Result<u64, Failure> {
    let (lot, communicator) = (member.seat.lot(), &member.communicator);
    match out {
        Some(out) => begin(out, lot, lent, || work(communicator)).map(|()| 0),
        None => lot.settle(work(communicator).and_then(Work::wait), lent),
    }
}

/// Does a collective, on this thread if nobody wants a request.
macro_rules! collective {
    ($out:ident, $member:ident, $lent:ident, $wait:ident / $start:ident ($($argument:expr),*)) => {{
        let waits = $out.is_none();
        let work = move |group: &Communicator| match waits {
            true => Ok(Work::Done(group.$wait($($argument),*).map(|()| 0).map_err(Failure::from))),
            false => Ok(Work::Collective(group.$start($($argument),*))),
        };
        carry_out($out, &$member, $lent, work).map(drop)
    }};
}
use collective;

fn insert(communicator: Communicator, seat: Arc<Seat>) -> Result<mgcompCommunicator, Failure> {
    Ok(mgcompCommunicator { id: COMMUNICATORS.insert(Member { communicator, seat })? })
}

/// Whether this member is `root`. What only root uses is not looked at elsewhere, whatever was given: a member that refused a
/// call alone would leave the others waiting.
fn is_root(communicator: mgcompCommunicator, root: u32) -> Result<bool, Failure> {
    Ok(COMMUNICATORS.get(communicator.id)?.communicator.rank() == root)
}

/// A buffer that only `root` uses: empty elsewhere.
fn buffer_at_root(
    (communicator, root): (mgcompCommunicator, u32),
    what: &'static str,
    start: *const c_void,
    len: usize,
) -> Result<Span, Failure> {
    let (start, len) = if is_root(communicator, root)? { (start, len) } else { (ptr::null(), 0) };
    Span::new(what, start, len)
}

/// The blocks of all members where only `root` uses them: none elsewhere.
///
/// # Safety
/// At root, as for [`blocks_of`].
unsafe fn blocks_at_root(
    (communicator, root): (mgcompCommunicator, u32),
    what: &'static str,
    blocks: *const mgcompBlock,
) -> Result<Vec<Block>, Failure> {
    if !is_root(communicator, root)? {
        return Ok(Vec::new());
    }
    // SAFETY: as for this one.
    unsafe { blocks_of(what, communicator, blocks) }
}

/// The blocks of all members.
///
/// # Safety
/// There must be as many as the communicator has members.
unsafe fn blocks_of(
    what: &'static str,
    communicator: mgcompCommunicator,
    blocks: *const mgcompBlock,
) -> Result<Vec<Block>, Failure> {
    let members = COMMUNICATORS.get(communicator.id)?.communicator.size() as usize;
    let span = Span::of(what, blocks, members)?;
    // SAFETY: as for this one; any bits are blocks.
    let blocks: &[mgcompBlock] = unsafe { span.values() };
    Ok(blocks.iter().map(|block| Block { offset: block.offset, len: block.bytes }).collect())
}
