//! Ranks of an MPI job, joined by its messages.
//!
//! ```no_run
//! use mgcomp_selector::{PolicySpec, Steering};
//! use mgcomp_transport::communicator::Communicator;
//! use mgcomp_transport::link::mpi::{Mpi, MpiConfig};
//! use mgcomp_transport::node::{Node, NodeConfig};
//! use mpi::Threading;
//!
//! let (universe, _) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
//! // All ranks do this at the same time.
//! let link = Mpi::new(&universe.world(), MpiConfig::default())?;
//! let config = NodeConfig { secret: link.secret(), ..NodeConfig::default() };
//! let node = Node::start(Box::new(link), PolicySpec::default().build(&Steering::default()), config)?;
//! let world = Communicator::world(node);
//! world.barrier()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The link has a duplicate of the communicator that it is given, so its messages and the program's own do not meet.
//! The job secret is made by rank 0 and broadcast over it.
//!
//! # Threads
//! Under `MPI_THREAD_MULTIPLE` a thread of the link's own calls MPI. Under `MPI_THREAD_FUNNELED` and
//! `MPI_THREAD_SERIALIZED` only the thread that made the link does, under the former that which initialized MPI; it does
//! so whenever it waits in a call of this crate, asks whether a request is finished, or calls
//! [`drive`](super::drive). While it computes or waits elsewhere nothing goes on: peers that wait for this rank wait until their
//! silence timeout. If it stays away for [`undriven_timeout`](MpiConfig::undriven_timeout) while other threads of this rank
//! wait, their requests fail and say so. Under `MPI_THREAD_SINGLE` there is no link.
//!
//! # Ends
//! A link ends before MPI does: when MPI is finalized, links that still live are closed. Closing takes little more than two
//! seconds at most, and three if another thread drops a link than the one that drives it. What a peer has not begun to take by then
//! it will not get. MPI keeps the memory of what it may still take: a buffer from which more than 8 KiB went raw stays lent then, and
//! who writes to it waits. It also keeps the link's duplicate of the communicator, unless every peer has said farewell: MPI gives the
//! numbers of communicators to later ones, and what a peer still sends by the old one would reach ranks of the new one, which
//! crashes Open MPI (4.1). There are some thousand such numbers.
//!
//! Drop nodes before MPI is finalized where you can: under `MPI_THREAD_MULTIPLE` it must not be while another thread is in a call of
//! MPI, as the link's thread may just be. Open MPI bears that; MPICH (4.0) loses count of its own lock then, and may end the process.
//!
//! A rank that is stopped, hangs, or does not let its link go on is given up when its silence timeout is over, and the others
//! go on with each other. What is not possible is to outlive a process: when one is killed, or exits without finalizing MPI,
//! Open MPI and MPICH end the whole job. Where they are told not to, what MPI reports of the dead ends the sessions with
//! it, else its silence does, but finalizing MPI may then wait for it for ever. Nor can it come back: a communicator of MPI that
//! has lost a process has lost it. Jobs that must outlive that use [`tcp`](super::tcp) or `shm`.
//!
//! # Memory
//! For each peer: what is queued for it, at most [`queue_bytes`](MpiConfig::queue_bytes); less than 9 MiB of that is known to
//! MPI at a time, in at most 64 messages and a farewell, all of them synchronous, so that MPI buffers no more than these. From it:
//! 64 MiB and one message that were not looked at.

mod error;
mod finalizing;
mod incoming;
mod outbox;
mod outgoing;
mod progress;
mod raw;
mod record;
mod shared;

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mgcomp_codecs::background;
use mgcomp_selector::{LinkFacts, Overlap};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{AsRaw, Group};

pub use error::{MpiError, MpiFailure};

use self::outbox::{Outgoing, Peer};
use self::progress::{Operations, Progress};
use self::raw::Callers;
use self::shared::Shared;
use super::driving;
use super::flow::usual_queue_bytes;
use super::{Link, LinkError, LinkSink, Message, Position, SendError, Sent};
use crate::message::{Limits, MAX_HEADER_LEN, Rank, Secret};
use crate::node::NodeConfig;

/// Settings of a link over MPI.
#[derive(Clone, Copy, Debug)]
pub struct MpiConfig {
    /// What this rank takes at once: no message may be longer than these allow.
    pub limits: Limits,
    /// Bytes that may be queued for one peer; as for [`TcpConfig`](super::tcp::TcpConfig).
    pub queue_bytes: u64,
    /// How long the one thread that may call MPI may stay away while others wait.
    pub undriven_timeout: Duration,
}

impl MpiConfig {
    /// Settings for ranks that take what `limits` allow.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, queue_bytes: usual_queue_bytes(limits), undriven_timeout: Duration::from_secs(30) }
    }
}

impl Default for MpiConfig {
    fn default() -> Self {
        Self::new(NodeConfig::default().limits)
    }
}

/// One rank's end of a link over MPI.
pub struct Mpi {
    position: Position,
    /// By rank: whether it is on this machine.
    is_here: Vec<bool>,
    config: MpiConfig,
    secret: Secret,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Mpi {
    /// The end of this process. All processes of `communicator` call this at the same time, and each is the rank that
    /// it has there.
    ///
    /// # Errors
    /// [`MpiError`] if MPI does not run, or does not let this thread or any other call it.
    pub fn new(communicator: &SimpleCommunicator, config: MpiConfig) -> Result<Self, MpiError> {
        let callers = raw::callers()?;
        finalizing::free_unused();
        let position = Position { rank: Rank(communicator.rank() as u32), ranks: communicator.size() as u32 };
        let mut operations = Operations::on_duplicate(communicator.as_raw())?;
        let secret = broadcast_secret(position.rank, &mut operations)?;
        let is_here = beside(communicator);

        let peer = |rank| position.is_peer(rank).then(|| Peer::new(rank));
        let peers: Vec<_> = (0..position.ranks).map(|rank| peer(Rank(rank))).collect();
        let record_limit = MAX_HEADER_LEN as u64 + u64::from(config.limits.max_transfer_bytes);
        let progress = Progress::new(operations, &peers, record_limit);
        let shared = Arc::new(Shared::new(peers, progress, callers));
        finalizing::register(&shared)?;
        if callers == Callers::One {
            driving::add(shared.clone());
        }
        Ok(Self { position, is_here, config, secret, shared, thread: None })
    }

    /// The job secret, the same on all ranks.
    #[must_use]
    pub fn secret(&self) -> Secret {
        self.secret
    }

    /// Whether the thread that made the link has to let it go on.
    #[must_use]
    pub fn needs_driving(&self) -> bool {
        self.shared.callers() == Callers::One
    }
}

/// Of each rank of `communicator`, whether it is on this machine, as MPI sees it. All ask at the same time.
fn beside(communicator: &SimpleCommunicator) -> Vec<bool> {
    let (all, here) = (communicator.group(), communicator.split_shared(communicator.rank()).group());
    (0..communicator.size()).map(|rank| all.translate_rank(rank, &here).is_some()).collect()
}

impl Link for Mpi {
    fn position(&self) -> Position {
        self.position
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        match &mut *self.shared.progress() {
            Some(progress) => progress.report_to(sink)?,
            None => return Err(LinkError::MpiFinalized(self.position.rank)),
        }
        if !self.needs_driving() {
            let shared = self.shared.clone();
            let serve = move || shared.serve();
            let thread = background::spawn("mgcomp-mpi", serve);
            let failed = |error| LinkError::io("starting the MPI link of rank", self.position.rank, &error);
            self.thread = Some(thread.map_err(failed)?);
        }
        Ok(())
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        let peer = self.shared.peer(to).ok_or(SendError::Closed(to))?;
        let payload = message.payload.bytes().ok_or(SendError::Payload)?.clone();
        peer.push(Outgoing { header: message.header, payload }, self.config.queue_bytes)?;
        self.shared.wake();
        Ok(Sent::Queued)
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        let Some(peer) = self.shared.peer(peer) else { return false };
        if !self.shared.is_undriven_since(since) {
            return peer.flow.moved_since(since);
        }
        // No peer is to blame for what nobody here has looked at.
        let limit = self.config.undriven_timeout;
        if Instant::now().checked_sub(limit).is_some_and(|then| self.shared.is_undriven_since(then)) {
            self.shared.report_undriven(peer, limit);
        }
        true
    }

    fn ranks_here(&self) -> u32 {
        self.is_here.iter().filter(|&&is_here| is_here).count() as u32
    }

    fn is_cores_work(&self, peer: Rank) -> bool {
        self.is_here.get(peer.0 as usize).is_some_and(|&is_here| is_here)
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        // The latency is not known; it is the same for raw and coded bytes.
        LinkFacts::try_new(self.shared.peer(peer)?.rate.gbps()?, 0, Overlap::None).ok()
    }

    fn close(&self, peer: Rank) {
        if let Some(peer) = self.shared.peer(peer) {
            peer.silence();
            peer.close();
            self.shared.wake();
        }
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        self.position.peers().for_each(|peer| self.close(peer));
        self.shared.leave();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // bounded: closing a peer is
        }
    }
}

/// The secret that rank 0 makes. If it has none, the others hear that, too: they wait for it.
fn broadcast_secret(own: Rank, operations: &mut Operations) -> Result<Secret, MpiError> {
    let made = if own == Rank(0) { random_bytes() } else { Ok([0; 16]) };
    let mut told = [0; 17];
    if let Ok(bytes) = &made {
        told[0] = 1;
        told[1..].copy_from_slice(bytes);
    }
    let [is_made, bytes @ ..] = operations.broadcast(told)?;
    made?;
    if is_made == 0 {
        return Err(MpiError::Secret("rank 0 has made none".into()));
    }
    Ok(Secret::new(bytes))
}

fn random_bytes() -> Result<[u8; 16], MpiError> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| MpiError::Secret(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_take_more_at_once_have_longer_queues() {
        let limits = Limits { window_bytes: 2 << 30, ..NodeConfig::default().limits };
        assert_eq!(MpiConfig::new(limits).queue_bytes, usual_queue_bytes(limits));
        assert!(MpiConfig::new(limits).queue_bytes > 6 << 30);
        assert_eq!(MpiConfig::default().queue_bytes, 1 << 30);
    }
}
