//! Starting and ending nodes.
#![allow(unsafe_code)] // called from C

use std::ffi::c_char;
use std::time::Duration;

use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::message::{Rank, Secret};
use mgcomp_transport::node::{NodeConfig, PeerState};

use super::choice::Choice;
use super::{NODES, Seat};
use crate::error::{Failure, call, making, mgcompResult};
use crate::memory::{Out, Span, given, path};
use crate::request::close;

/// Bytes of a job secret.
pub const MGCOMP_SECRET_BYTES: usize = 16;
/// The most ranks of a loopback: each has threads.
const MOST_LOOPBACK_RANKS: u32 = 1024;

/// A rank of a job that exchanges data with the others.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompNode {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// Settings of a node. Where NULL is given instead, and where a field is 0 or NULL: what is usual.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompNodeOptions {
    /// How codecs are chosen: "adaptive", "paper" or "fixed:ALGORITHM", such as "fixed:none". Usual: what the environment
    /// variable MGCOMP_POLICY says, else adaptive.
    pub policy: *const c_char,
    /// How long to try to reach a peer, in nanoseconds. Usual: 20 s.
    pub connect_timeout_ns: u64,
    /// How long a peer that owes an answer may stay silent before its session ends, in nanoseconds. Usual: 10 s.
    pub silence_timeout_ns: u64,
    /// Bytes per message: longer transfers are cut. Usual: 1 MiB.
    pub piece_bytes: u32,
    /// Threads that run codecs, 1 to 256. Usual: MGCOMP_THREADS, or as many as the launcher leaves this rank cores, at most 2.
    pub codec_threads: u32,
    /// 1 if frames are to carry no checksums from end to end. Usual: what MGCOMP_CHECKSUM says.
    pub no_checksum: u32,
}

/// What a node has sent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompNodeStats {
    /// Payloads sent: answers to reads, writes and messages.
    pub transfers: u64,
    /// Their raw bytes.
    pub raw_bytes: u64,
    /// Their bytes on the link.
    pub coded_bytes: u64,
    /// Time that codecs spent sampling and encoding, in nanoseconds.
    pub encode_ns: u64,
    /// Time that codecs spent decoding, in nanoseconds.
    pub decode_ns: u64,
}

/// Starts all ranks of a job in this process, joined by memory.
///
/// @param ranks 1 to 1024.
/// @param options for all of them, or NULL.
/// @param nodes room for as many handles, by rank; each is to be given to mgcompDestroyNode.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompStartNodesLoopback(
    ranks: u32,
    options: *const mgcompNodeOptions,
    nodes: *mut mgcompNode,
) -> mgcompResult {
    making(|| {
        if !(1..=MOST_LOOPBACK_RANKS).contains(&ranks) {
            let text = format!("{ranks} ranks: 1 to {MOST_LOOPBACK_RANKS} are possible");
            return Err(Failure::argument(text));
        }
        Span::of("nodes", nodes.cast_const(), ranks as usize)?;
        // SAFETY: the header asks for options and room for the handles, or NULL.
        let (options, _) = unsafe { (Choice::new(options)?, Out::new("nodes", nodes)?) };
        let started: Result<Vec<Seat>, Failure> = Loopback::fabric_for(ranks, None, options.config.limits)?
            .into_iter()
            .map(|link| options.start(Box::new(link), NodeConfig::default().secret))
            .collect();
        let mut ids = Vec::new();
        for seat in started? {
            let id = NODES.insert(seat);
            if id.is_err() {
                ids.iter().for_each(|&id| drop(NODES.remove(id)));
            }
            ids.push(id?);
        }
        for (rank, id) in ids.into_iter().enumerate() {
            // SAFETY: one of as many as there are ranks, for which the header asks; aligned and not NULL, see above.
            unsafe { nodes.add(rank).write(mgcompNode { id }) };
        }
        Ok(())
    })
}

/// Starts one rank of a job over TCP.
///
/// @param rankFile name of a file that says who takes part, the same on all ranks:
///     { "secret": "000102030405060708090a0b0c0d0e0f", "ranks": ["10.0.0.1:7400", "10.0.0.2:7400"] }
/// @param rank which of them this is, from 0.
/// @param options or NULL.
/// @param node set to the handle, to be given to mgcompDestroyNode.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompStartNodeTcp(
    rank_file: *const c_char,
    rank: u32,
    options: *const mgcompNodeOptions,
    node: *mut mgcompNode,
) -> mgcompResult {
    making(|| {
        // SAFETY: the header asks for a text, options and a place for a handle, or NULL.
        let (rank_file, choice, out) =
            unsafe { (path("rankFile", rank_file)?, Choice::new(options)?, Out::new("node", node)?) };
        let rank_file = RankFile::read(rank_file).map_err(|error| {
            let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
            Failure::argument(format_args!("{error}{cause}"))
        })?;
        let secret = rank_file.secret;
        let config = TcpConfig {
            connect_timeout: choice.config.greeting_timeout,
            connections: choice.connections,
            ..TcpConfig::new(choice.config.limits)
        };
        let link = Tcp::listen(rank_file, Rank(rank), config)?;
        out.set(mgcompNode { id: NODES.insert(choice.start(Box::new(link), secret)?)? });
        Ok(())
    })
}

/// Starts one rank of a job whose ranks are processes (or threads) of one machine and one user, joined by shared memory.
///
/// @param secret MGCOMP_SECRET_BYTES bytes, the same on all ranks and of no other job: chance.
/// @param ranks how many there are, 1 to 65536.
/// @param rank which of them this is, from 0.
/// @param options or NULL.
/// @param node set to the handle, to be given to mgcompDestroyNode.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompStartNodeShm(
    secret: *const u8,
    ranks: u32,
    rank: u32,
    options: *const mgcompNodeOptions,
    node: *mut mgcompNode,
) -> mgcompResult {
    making(|| {
        // SAFETY: the header asks for a secret, options and a place for a handle, or NULL.
        let (secret, choice, out) = unsafe {
            let secret = given("secret", secret.cast::<[u8; MGCOMP_SECRET_BYTES]>())?;
            (secret, Choice::new(options)?, Out::new("node", node)?)
        };
        let secret = Secret::new(secret.ok_or_else(|| Failure::argument("secret is NULL"))?);
        let timeout = choice.config.greeting_timeout;
        let config = ShmConfig { connect_timeout: timeout, ..ShmConfig::new(choice.config.limits) };
        let link = Shm::new(ShmJob::new(secret, ranks), Rank(rank), config)?;
        out.set(mgcompNode { id: NODES.insert(choice.start(Box::new(link), secret)?)? });
        Ok(())
    })
}

/// Ends a node: its sessions with all peers, and all that is under way. When this returns, memory that it was lent is the
/// program's again. Its communicators can do nothing any more, but are to be destroyed all the same; its requests fail, and are
/// to be finished all the same. Peers that are not done with this rank see its sessions end, so a barrier is a good thing to
/// do before.
///
/// @return MGCOMP_RESULT_BUSY if memory is still used after 20 s; it must be there then until the program ends. Work on a
/// CUDA stream, with memory of a device, is waited for without a limit: if the stream never comes to it, this never returns.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyNode(node: mgcompNode) -> mgcompResult {
    call(|| {
        let seat = NODES.remove(node.id)?;
        let lot = seat.lot.clone();
        seat.end();
        drop(seat);
        close(&lot)
    })
}

/// Waits until the sessions with all peers are open.
///
/// @param timeoutNs nanoseconds. If the time is up, the call fails with MGCOMP_RESULT_TIMEOUT, and with
/// MGCOMP_RESULT_TRANSFER if a session is over; the text names a peer.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompWaitForPeers(node: mgcompNode, timeout_ns: u64) -> mgcompResult {
    call(|| {
        let seat = NODES.get(node.id)?;
        for (peer, state) in seat.node.wait_for_peers(Duration::from_nanos(timeout_ns)) {
            let failed = |code, why: String| Err(Failure::new(code, format_args!("rank {peer}: {why}")));
            match state {
                PeerState::Open => {}
                PeerState::Greeting => {
                    return failed(mgcompResult::Timeout, format!("not there after {timeout_ns} ns"));
                }
                PeerState::Over(error) => return failed(mgcompResult::Transfer, error.to_string()),
            }
        }
        Ok(())
    })
}

/// Which rank a node is, and how many there are.
///
/// @param rank set to the rank, from 0; may be NULL.
/// @param ranks set to how many there are; may be NULL.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetNodeRank(
    node: mgcompNode,
    rank: *mut u32,
    ranks: *mut u32,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for places for numbers, or NULL.
        let outs = unsafe { (Out::optional("rank", rank)?, Out::optional("ranks", ranks)?) };
        let position = NODES.get(node.id)?.node.position();
        outs.0.into_iter().for_each(|out| out.set(position.rank.0));
        outs.1.into_iter().for_each(|out| out.set(position.ranks));
        Ok(())
    })
}

/// What a node has sent since its start.
///
/// @param stats set to that.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetNodeStats(node: mgcompNode, stats: *mut mgcompNodeStats) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for them, or NULL.
        let out = unsafe { Out::new("stats", stats) }?;
        let stats = NODES.get(node.id)?.node.stats();
        let total = stats.total();
        out.set(mgcompNodeStats {
            transfers: total.transfers,
            raw_bytes: total.raw_bytes,
            coded_bytes: total.coded_bytes,
            encode_ns: stats.encode.as_nanos() as u64,
            decode_ns: stats.decode.as_nanos() as u64,
        });
        Ok(())
    })
}
