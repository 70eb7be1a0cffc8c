//! Remote memory, and messages between nodes.
#![allow(unsafe_code)] // called from C

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::PoisonError;

use mgcomp_transport::memory::Slice;
use mgcomp_transport::message::{Address, Rank, Tag};
use mgcomp_transport::node::{Handle, Node};
use mgcomp_transport::region::{Access, Peers, RegionError};

use super::ranks::mgcompNode;
use super::{NODES, gone};
use crate::error::{Failure, call, mgcompResult};
use crate::lending::Lent;
use crate::memory::{Out, Span};
use crate::number::{element, mgcompElement};
use crate::request::{Work, begin, mgcompRequest};

/// Peers may read the memory.
pub const MGCOMP_ACCESS_READ: u32 = 1;
/// Peers may write the memory.
pub const MGCOMP_ACCESS_WRITE: u32 = 2;

/// Opens memory to all peers. Ranks that register in the same order get the same addresses. What streams do later with memory of a
/// device must be over before a peer is told that it may reach it.
///
/// @param memory bytes bytes, at least 1. Peers may reach them at any moment, so until mgcompUnregisterMemory or
/// mgcompDestroyNode returns, the program does not free them, and agrees with its peers on who touches them when.
/// @param element what they are.
/// @param access MGCOMP_ACCESS_READ, MGCOMP_ACCESS_WRITE or both, added.
/// @param address set to the address of the first byte, which peers are to be told. The others follow.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompRegisterMemory(
    node: mgcompNode,
    memory: *mut c_void,
    bytes: usize,
    element: MaybeUninit<mgcompElement>,
    access: u32,
    address: *mut u64,
) -> mgcompResult {
    call(|| {
        let (memory, element, access) =
            (Span::new("memory", memory, bytes)?, self::element(element)?, access_of(access)?);
        // SAFETY: the header asks for a place for a number, or NULL.
        let out = unsafe { Out::new("address", address) }?;
        let seat = NODES.get(node.id)?;
        let mut regions = seat.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let regions = regions.as_mut().ok_or_else(gone)?;
        let mut lent = Lent::default();
        // SAFETY: the header asks for these bytes until the region is closed, which waits for all that uses them.
        let slice = unsafe { lent.take(&memory) }?;
        let at = seat.node.register(slice, element, access)?.bits();
        regions.insert(at, lent);
        out.set(at);
        Ok(())
    })
}

/// Closes memory to peers. Returns when what peers had begun with it is over; the memory is the program's again then.
///
/// @param address what mgcompRegisterMemory has set.
///
/// Any number of threads may call this at once; all but the first one for an address fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompUnregisterMemory(node: mgcompNode, address: u64) -> mgcompResult {
    call(|| {
        let seat = NODES.get(node.id)?;
        let mut regions = seat.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = regions.as_mut().ok_or_else(gone)?.remove(&address);
        // Whoever destroys the node does not find it any more, but is to wait for it.
        let _holding = seat.lot.hold();
        drop(regions);
        let lent = lent.ok_or_else(|| {
            Failure::argument(format_args!("no memory is registered at address {address:#014x}"))
        })?;
        // Where it fails, as in a child made by fork, the memory is left to the lot.
        let closed = seat.node.unregister(address_of(address)?).map_err(Failure::from);
        seat.lot.settle(closed, lent)
    })
}

/// Fills a buffer from the memory of a peer.
///
/// @param peer its rank.
/// @param address where to read, as the peer's mgcompRegisterMemory has set it; more for bytes further on.
/// @param into room for bytes bytes. After an error some may have been written.
/// @param request set to what is under way.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompReadRemote(
    node: mgcompNode,
    peer: u32,
    address: u64,
    into: *mut c_void,
    bytes: usize,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (into, from) = (Span::new("into", into, bytes)?, address_of(address)?);
        // SAFETY: the header asks for the buffer, and a place for a handle or NULL.
        unsafe { submit(node, &into, request, |node, into| node.read(Rank(peer), from, into)) }
    })
}

/// Puts a buffer into the memory of a peer.
///
/// @param peer its rank.
/// @param from bytes bytes.
/// @param element what they are.
/// @param address where to write, as the peer's mgcompRegisterMemory has set it; more for bytes further on.
/// @param request set to what is under way. It is finished when the peer has the bytes.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompWriteRemote(
    node: mgcompNode,
    peer: u32,
    from: *const c_void,
    bytes: usize,
    element: MaybeUninit<mgcompElement>,
    address: u64,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (from, element) = (Span::new("from", from, bytes)?, self::element(element)?);
        let to = address_of(address)?;
        // SAFETY: the header asks for the buffer, and a place for a handle or NULL.
        unsafe { submit(node, &from, request, |node, from| node.write(Rank(peer), from, element, to)) }
    })
}

/// Sends a buffer to a peer, whoever receives there with this tag. Messages with one tag arrive in order.
///
/// @param peer its rank.
/// @param tag less than 2 to the power of 63.
/// @param from bytes bytes.
/// @param element what they are.
/// @param request set to what is under way. It is finished when the message was received.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompSendMessage(
    node: mgcompNode,
    peer: u32,
    tag: u64,
    from: *const c_void,
    bytes: usize,
    element: MaybeUninit<mgcompElement>,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (from, element, tag) = (Span::new("from", from, bytes)?, self::element(element)?, tag_of(tag)?);
        // SAFETY: the header asks for the buffer, and a place for a handle or NULL.
        unsafe { submit(node, &from, request, |node, from| node.send(Rank(peer), tag, from, element)) }
    })
}

/// Receives the next message of a peer with this tag.
///
/// @param peer its rank.
/// @param tag less than 2 to the power of 63.
/// @param into room for bytes bytes. A message may be shorter; mgcompWaitRequest tells its length. A longer one is an error, and
/// lost. After an error some bytes may have been written.
/// @param request set to what is under way.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompReceiveMessage(
    node: mgcompNode,
    peer: u32,
    tag: u64,
    into: *mut c_void,
    bytes: usize,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        let (into, tag) = (Span::new("into", into, bytes)?, tag_of(tag)?);
        // SAFETY: the header asks for the buffer, and a place for a handle or NULL.
        unsafe { submit(node, &into, request, |node, into| node.receive(Rank(peer), tag, into)) }
    })
}

/// Begins a transfer with a buffer of the program.
///
/// # Safety
/// The buffer must be there until the request is finished; `request` must be NULL or a place for a handle.
unsafe fn submit(
    node: mgcompNode,
    buffer: &Span,
    request: *mut mgcompRequest,
    start: impl FnOnce(&Node, Slice) -> Handle,
) -> Result<(), Failure> {
    let seat = NODES.get(node.id)?;
    // SAFETY: as for this one.
    let out = unsafe { Out::new("request", request) }?;
    let mut lent = Lent::default();
    // SAFETY: as for this one; the request waits until nothing uses the buffer.
    let slice = unsafe { lent.take(buffer) }?;
    begin(out, &seat.lot, lent, || Ok(Work::Transfer(start(&seat.node, slice))))
}

fn access_of(access: u32) -> Result<Access, Failure> {
    if access == 0 || access & !(MGCOMP_ACCESS_READ | MGCOMP_ACCESS_WRITE) != 0 {
        return Err(Failure::argument(format_args!("access is {access}: 1, 2 and 3 are possible")));
    }
    let peers = |bit| if access & bit != 0 { Peers::All } else { Peers::Nobody };
    Ok(Access { read: peers(MGCOMP_ACCESS_READ), write: peers(MGCOMP_ACCESS_WRITE) })
}

fn address_of(bits: u64) -> Result<Address, Failure> {
    let address = Address::from_bits(bits);
    address.ok_or_else(|| Failure::argument(format_args!("address {bits:#x} has more than 48 bits")))
}

/// Tags of which the highest bit is set are those of communicators.
fn tag_of(tag: u64) -> Result<Tag, Failure> {
    if tag >> 63 == 0 {
        return Ok(Tag(tag));
    }
    Err(Failure::argument(format_args!("tag {tag:#x}: the highest bit is the library's")))
}

impl From<RegionError> for Failure {
    fn from(error: RegionError) -> Self {
        let code = match &error {
            RegionError::NumbersExhausted { .. } => mgcompResult::NoMemory,
            RegionError::Forked => mgcompResult::Transfer,
            _ => mgcompResult::InvalidArgument,
        };
        Self::new(code, error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    use std::{ptr, thread};

    use super::super::ranks::{mgcompDestroyNode, mgcompStartNodesLoopback};
    use super::*;

    #[test]
    fn whoever_destroys_a_node_waits_for_memory_that_another_thread_closes() {
        let (memory, given_back, mut node) = ([0u8; 8], AtomicBool::new(false), mgcompNode { id: 0 });
        // SAFETY: there is a place for one handle, and there are no options.
        let started = unsafe { mgcompStartNodesLoopback(1, ptr::null(), &raw mut node) };
        assert_eq!(started, mgcompResult::Success);
        let (seat, mut lent) = (NODES.get(node.id).unwrap(), Lent::default());
        let span = Span::new("it", memory.as_ptr().cast(), memory.len()).unwrap();
        // SAFETY: `memory` outlives all that uses it here.
        let used = unsafe { lent.take_host(&span) };
        let access = access_of(MGCOMP_ACCESS_READ).unwrap();
        let at = seat.node.register(used.clone(), mgcomp_codecs::Element::U8, access).unwrap().bits();
        let is_open = || seat.regions.lock().unwrap().as_ref().is_some_and(|all| all.contains_key(&at));
        seat.regions.lock().unwrap().as_mut().unwrap().insert(at, lent);
        thread::scope(|scope| {
            let closes = scope.spawn(|| mgcompUnregisterMemory(node, at));
            while is_open() {
                thread::yield_now();
            }
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                given_back.store(true, Ordering::SeqCst);
                drop(used);
            });
            assert_eq!(mgcompDestroyNode(node), mgcompResult::Success);
            assert!(given_back.load(Ordering::SeqCst), "destroyed while the memory was used");
            assert_eq!(closes.join().unwrap(), mgcompResult::Success);
        });
    }
}
