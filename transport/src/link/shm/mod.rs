//! Ranks on one node, as processes or in one, joined by shared memory.
//!
//! Every pair of ranks shares a memory file with two rings, one for each direction. The higher rank makes it and hands it
//! to the lower one over a Unix socket, which stays open: it wakes whoever sleeps, and its end is the peer's. The
//! file has no name and neither has the socket in any file system, so nothing is left behind by a rank that is
//! killed.
//!
//! A message is copied into the ring by the caller, if there is room, and out of it by the link's one thread; both at
//! once if it is long. A message longer than the ring goes through it in pieces.
//!
//! Memory: two rings for each pair of ranks, what callers have queued, and at most 64 MiB and a message from each
//! peer that was not looked at yet; buffers for these are kept and used again, and given back after a second of quiet.

mod credentials;
mod hello;
mod meeting;
mod peer;
mod poller;
mod pool;
mod record;
mod ring;
mod segment;
mod socket;
mod thread;
mod waker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mgcomp_selector::{LinkFacts, Overlap};
use sha2::{Digest, Sha256};

use self::meeting::Door;
use self::peer::Peer;
use self::poller::{Poller, Token};
use self::pool::Pool;
use self::record::Record;
use self::segment::RING_BYTES;
use self::thread::{End, Server};
use self::waker::Waker;
use super::wire::Wire;
use super::{Link, LinkError, LinkSink, Message, Position, SendError, Shaping};
use crate::message::{Limits, MAX_HEADER_LEN, Rank, Secret};

/// Most bytes of memory for received messages that are kept to be used again.
const KEPT_BYTES: u64 = 64 << 20;

/// The ranks that share memory.
#[derive(Clone, Debug)]
pub struct ShmJob {
    secret: Secret,
    ranks: u32,
    name: String,
}

impl ShmJob {
    /// The job of `ranks` ranks that know `secret`. Two jobs of one user on one node must not have the same.
    #[must_use]
    pub fn new(secret: Secret, ranks: u32) -> Self {
        // Names of sockets are seen by everybody: what stands in them must not tell the secret.
        let digest = Sha256::new().chain_update(b"mgcomp shm").chain_update(secret.bytes()).finalize();
        let name = digest[..16].iter().fold("mgcomp-".to_owned(), |name, byte| name + &format!("{byte:02x}"));
        Self { secret, ranks, name }
    }

    /// The same job under a name of its own instead of one made from the secret; at most 64 bytes of it count.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: format!("mgcomp-{}", name.chars().take(64).collect::<String>()), ..self }
    }

    /// The abstract name that `rank` listens under.
    fn socket_name(&self, rank: Rank) -> Vec<u8> {
        format!("{}-{}", self.name, rank.0).into_bytes()
    }
}

/// Settings of a link over shared memory.
#[derive(Clone, Copy, Debug)]
pub struct ShmConfig {
    /// What this rank takes at once: no message may be longer than these allow.
    pub limits: Limits,
    /// Bytes that may be queued for one peer; as for [`TcpConfig`](super::tcp::TcpConfig).
    pub queue_bytes: u64,
    /// How long to try to meet a peer.
    pub connect_timeout: Duration,
    /// Bytes of each ring to a peer of a lower rank: a power of two from 4 KiB to 1 GiB. The most that fits in a
    /// core's cache together with what else it does is best.
    pub ring_bytes: u64,
    /// How long the link's thread looks for work before it sleeps. Waking it takes a while, but a thread that
    /// looks takes time from others, though it yields to them.
    pub awake: Duration,
    /// Makes the link slower than it is.
    pub shaping: Option<Shaping>,
}

impl ShmConfig {
    /// Settings for ranks that take what `limits` allow.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            queue_bytes: 1 << 30,
            connect_timeout: Duration::from_secs(20),
            ring_bytes: 512 << 10,
            awake: Duration::from_micros(50),
            shaping: None,
        }
    }
}

/// One rank's end of a link over shared memory.
pub struct Shm {
    position: Position,
    config: ShmConfig,
    peers: Vec<Option<Arc<Peer>>>,
    waker: Arc<Waker>,
    ended: Arc<AtomicBool>,
    /// What imitates a slow link, if one is imitated.
    wire: Option<Wire<Posted>>,
    setup: Option<(ShmJob, OwnedFd)>,
    thread: Option<JoinHandle<()>>,
}

/// A message on the imitated link, and whom it goes to.
type Posted = (Arc<Peer>, Record);

impl Shm {
    /// The end of `rank`, which the ranks above it can connect to from now on.
    ///
    /// # Errors
    /// [`LinkError`] if the job has no such rank, another process has the rank already, or the settings or the system
    /// do not allow it.
    pub fn new(job: ShmJob, rank: Rank, config: ShmConfig) -> Result<Self, LinkError> {
        let position = Position { rank, ranks: job.ranks };
        if rank.0 >= position.ranks {
            return Err(LinkError::NoSuchRank { rank, ranks: position.ranks });
        }
        let name = job.socket_name(rank);
        let failed = |what| {
            let address = String::from_utf8_lossy(&name).into_owned();
            move |error: io::Error| LinkError::io(what, address, &error)
        };
        if !RING_BYTES.contains(&config.ring_bytes) || !config.ring_bytes.is_power_of_two() {
            return Err(failed("making rings for")(io::ErrorKind::InvalidInput.into()));
        }
        let listener = socket::listen_as(&name).map_err(failed("listening as"))?;
        let waker = Arc::new(Waker::new().map_err(failed("making a waker for"))?);
        let peer = |peer| Arc::new(Peer::new(peer, config.queue_bytes, waker.clone()));
        let peers = (0..position.ranks).map(Rank).map(|r| (r != rank).then(|| peer(r))).collect();
        let start_wire = |shaping| {
            Wire::start(1, shaping, |(peer, record): Posted| peer.arrive(record))
                .map_err(failed("starting the wire thread of"))
        };
        let wire = config.shaping.map(start_wire).transpose()?;
        let setup = Some((job, listener));
        Ok(Self { position, config, peers, waker, ended: Arc::default(), wire, setup, thread: None })
    }

    fn peer(&self, rank: Rank) -> Option<&Arc<Peer>> {
        self.peers.get(rank.0 as usize)?.as_ref()
    }

    /// What the thread needs.
    fn server(&self, job: ShmJob, listener: OwnedFd, sink: LinkSink) -> io::Result<Server> {
        let ShmConfig { limits, connect_timeout, ring_bytes, awake, .. } = self.config;
        let record_limit = MAX_HEADER_LEN as u64 + u64::from(limits.max_transfer_bytes);
        let poller = Poller::new()?;
        poller.add(&*self.waker, Token::Waker)?;
        Ok(Server {
            ends: self.peers.iter().flatten().cloned().map(End::new).collect(),
            door: Door::open(job, self.position, (ring_bytes, connect_timeout), listener, &poller)?,
            poller,
            waker: self.waker.clone(),
            ended: self.ended.clone(),
            pool: Pool::new(KEPT_BYTES.max(record_limit)),
            sink,
            record_limit,
            awake,
        })
    }
}

impl Link for Shm {
    fn position(&self) -> Position {
        self.position
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        let (job, listener) = self.setup.take().ok_or(LinkError::StartedTwice)?;
        let failed =
            |error: io::Error| LinkError::io("starting the link of rank", self.position.rank, &error);
        let server = self.server(job, listener, sink).map_err(failed)?;
        let thread = std::thread::Builder::new().name("mgcomp-shm".into()).spawn(move || server.run());
        self.thread = Some(thread.map_err(failed)?);
        Ok(())
    }

    fn send(&self, to: Rank, message: Message) -> Result<(), SendError> {
        let peer = self.peer(to).ok_or(SendError::Closed(to))?;
        let payload = message.payload.bytes().ok_or(SendError::Payload)?.clone();
        let Some(wire) = &self.wire else { return peer.send(&message.header, payload) };
        let record = peer.post(&message.header, payload)?;
        let bytes = record.message_len() as u64;
        peer.written.note(wire.post(0, bytes, (peer.clone(), record)));
        Ok(())
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        self.peer(peer).is_some_and(|peer| peer.read.since(since) || peer.written.since(since))
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        if let Some(shaping) = self.config.shaping {
            return shaping.facts();
        }
        // The latency is not known; it is the same for raw and coded bytes.
        LinkFacts::try_new(self.peer(peer)?.rate.gbps()?, 0, Overlap::None).ok()
    }

    fn close(&self, peer: Rank) {
        if let Some(peer) = self.peer(peer) {
            peer.close();
        }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.peers.iter().flatten().for_each(|peer| peer.close());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // bounded: closing a peer is
        }
        // Without a thread nobody else does.
        self.peers.iter().flatten().for_each(|peer| peer.end());
    }
}
