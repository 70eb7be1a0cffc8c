//! Making and ending communicators.
#![allow(unsafe_code)] // called from C

use mgcomp_transport::communicator::Communicator;

use super::{COMMUNICATORS, insert};
use crate::error::{Failure, call, making, mgcompResult};
use crate::memory::Out;
use crate::node::ranks::mgcompNode;
use crate::node::seat;

/// Members that are to be in no communicator say this for mgcompSplitCommunicator.
pub const MGCOMP_NO_COLOR: u32 = 4294967295;

/// Ranks that work together. All members call the same collectives in the same order with lengths that agree, as in MPI;
/// those with a request count like those without, and are carried out one after the other. Messages by tag are independent of
/// them. When a collective has failed with MGCOMP_RESULT_TRANSFER, MGCOMP_RESULT_SYSTEM or MGCOMP_RESULT_INTERNAL on a
/// member, its communicator can do no more of them.
///
/// Each collective takes a request: where that is NULL, the call waits for the end; else it is set to what is under way. After
/// one of these results, buffers must be there until the node is destroyed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompCommunicator {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// Makes the communicator of all ranks of a job. A node has one.
///
/// @param communicator set to the handle, to be given to mgcompDestroyCommunicator.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompCreateCommunicator(
    node: mgcompNode,
    communicator: *mut mgcompCommunicator,
) -> mgcompResult {
    making(|| {
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("communicator", communicator) }?;
        let seat = seat(node)?;
        if !seat.claim_world() {
            return Err(Failure::argument("the node has had a communicator of all ranks already"));
        }
        let communicator = Communicator::world(seat.node().clone());
        out.set(insert(communicator, seat)?);
        Ok(())
    })
}

/// Makes communicators of the members that name the same color, ordered by key and then by rank. A collective.
///
/// @param color or MGCOMP_NO_COLOR for a member that is to be in none.
/// @param split set to the handle, to be given to mgcompDestroyCommunicator; {0} for a member that is in none.
///
/// Any number of threads may call this at once, with different communicators.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompSplitCommunicator(
    communicator: mgcompCommunicator,
    color: u32,
    key: i32,
    split: *mut mgcompCommunicator,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("split", split) }?;
        let member = COMMUNICATORS.get(communicator.id)?;
        let part = member.communicator.split((color != MGCOMP_NO_COLOR).then_some(color), key)?;
        out.set(match part {
            Some(part) => insert(part, member.seat.clone())?,
            None => mgcompCommunicator { id: 0 },
        });
        Ok(())
    })
}

/// Destroys a communicator. What is under way goes on. Others who then wait for this member in a later collective are told: it
/// fails with MGCOMP_RESULT_TRANSFER.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyCommunicator(communicator: mgcompCommunicator) -> mgcompResult {
    call(|| COMMUNICATORS.remove(communicator.id).map(drop))
}

/// Which member this is, and how many there are.
///
/// @param rank set to the member's number, from 0; may be NULL.
/// @param ranks set to how many there are; may be NULL.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetCommunicatorRank(
    communicator: mgcompCommunicator,
    rank: *mut u32,
    ranks: *mut u32,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for places for numbers, or NULL.
        let outs = unsafe { (Out::optional("rank", rank)?, Out::optional("ranks", ranks)?) };
        let member = COMMUNICATORS.get(communicator.id)?;
        outs.0.into_iter().for_each(|out| out.set(member.communicator.rank()));
        outs.1.into_iter().for_each(|out| out.set(member.communicator.size()));
        Ok(())
    })
}
