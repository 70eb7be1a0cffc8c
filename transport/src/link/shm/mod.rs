//! Ranks on one node, as processes or in one, joined by shared memory.
//!
//! Every pair of ranks shares a memory file with two rings, one for each direction. The higher rank makes it and hands it
//! to the lower one over a Unix socket, which stays open: it wakes whoever sleeps, and its end is the peer's. The
//! file has no name and neither has the socket in any file system, so nothing is left behind by a rank that is
//! killed.
//!
//! A message is copied into the ring by the caller, if there is room, and out of it by the link's one thread, or by a thread
//! of the program that waits for it; both at once if it is long. A message longer than the ring goes through it in pieces.
//!
//! Memory: two rings for each pair of ranks, what callers have queued, and at most 64 MiB and a message from each
//! peer that was not looked at yet; buffers for these are kept and used again, and given back after a second of quiet.
//!
//! # Ends
//! That a peer's process has ended, or its socket, is heard at once, also where a child that it made still has all that it
//! had. A peer that is stopped or takes nothing is given up when it has been silent for too long, or when no more fits into
//! its queue. What a peer says of its place in a ring is believed only if it can be, and its memory is taken only if it can
//! be neither shortened nor missing; anything else ends the way to that peer, and to no other. Closing takes at most two
//! seconds. A rank that ends before it has answered a peer that called is called again, until `connect_timeout`.

mod buffer;
mod credentials;
mod drive;
pub(in crate::link) mod guest;
mod hello;
mod meeting;
#[cfg(feature = "cuda")]
pub(in crate::link) mod outbox;
mod pace;
mod peer;
mod poller;
mod record;
mod ring;
mod segment;
mod server;
mod socket;
mod waker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mgcomp_codecs::background;
use mgcomp_selector::{LinkFacts, Overlap};
use sha2::{Digest, Sha256};

use self::drive::Driver;
use self::guest::Guest;
use self::hello::Form;
use self::meeting::Door;
use self::peer::Peer;
use self::poller::{Poller, Token};
use self::record::Record;
use self::segment::RING_BYTES;
use self::server::{End, Server};
use self::waker::Waker;
use super::flow::usual_queue_bytes;
use super::wire::Wire;
use super::{Drive, Link, LinkError, LinkSink, Message, Position, SendError, Sent, Shaping};
use crate::message::{Limits, MAX_HEADER_LEN, Rank, Secret};
use crate::pool::Pool;

/// The most ranks of a job: each rank has something for every other one.
const MOST_RANKS: u32 = 65_536;
/// Bytes of all rings of a rank, where nobody says how long one is.
const ALL_RINGS_BYTES: u64 = 64 << 20;
/// And of one of them.
const LEAST_RING_BYTES: u64 = 64 << 10;
const MOST_RING_BYTES: u64 = 2 << 20;

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

    /// Where `rank` is, if there may be so many ranks and it is one.
    pub(in crate::link) const fn position(&self, rank: Rank) -> Result<Position, LinkError> {
        let ranks = self.ranks;
        if ranks > MOST_RANKS {
            return Err(LinkError::TooManyRanks { ranks, limit: MOST_RANKS });
        }
        if rank.0 >= ranks {
            return Err(LinkError::NoSuchRank { rank, ranks });
        }
        Ok(Position { rank, ranks })
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
    /// Bytes of each of the two rings to a peer of a lower rank: a power of two from 4 KiB to 1 GiB, or `None` for 2 MiB,
    /// and less where a rank's rings would have more than 64 MiB in all. Rings that fit into the cache of one core are
    /// slower: what the writer needs next is then still in that of the reader.
    pub ring_bytes: Option<u64>,
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
            queue_bytes: usual_queue_bytes(limits),
            connect_timeout: Duration::from_secs(20),
            ring_bytes: None,
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
    setup: Option<Setup>,
    driver: Option<Arc<Driver>>,
    thread: Option<JoinHandle<()>>,
}

/// What is needed until the link starts.
struct Setup {
    job: ShmJob,
    listener: OwnedFd,
    ring_bytes: u64,
    form: Form,
    /// What lives on this link, if anything does.
    guest: Option<Arc<dyn Guest>>,
}

/// A message on the imitated link, and whom it goes to.
type Posted = (Arc<Peer>, Record);

impl Shm {
    /// The end of `rank`, which the ranks above it can connect to from now on.
    ///
    /// # Errors
    /// [`LinkError`] if the job has no such rank or more than 65,536, another process has the rank already, or the settings or
    /// the system do not allow it.
    pub fn new(job: ShmJob, rank: Rank, config: ShmConfig) -> Result<Self, LinkError> {
        Self::make(job, rank, config, Form::HOST, None)
    }

    /// The same with windows in the memory of devices, which `guest` looks after.
    #[cfg(feature = "cuda")]
    pub(in crate::link) fn with_windows(
        job: ShmJob,
        rank: Rank,
        config: ShmConfig,
        guest: Arc<dyn Guest>,
    ) -> Result<Self, LinkError> {
        Self::make(job, rank, config, Form::WINDOWS, Some(guest))
    }

    /// The ways to the peers, by rank.
    #[cfg(feature = "cuda")]
    pub(in crate::link) fn outboxes(&self) -> Vec<Option<outbox::Outbox>> {
        self.peers.iter().map(|peer| peer.clone().map(outbox::Outbox)).collect()
    }

    fn make(
        job: ShmJob,
        rank: Rank,
        config: ShmConfig,
        form: Form,
        guest: Option<Arc<dyn Guest>>,
    ) -> Result<Self, LinkError> {
        let position = job.position(rank)?;
        let name = job.socket_name(rank);
        let failed = |what| {
            let address = String::from_utf8_lossy(&name).into_owned();
            move |error: io::Error| LinkError::io(what, address, &error)
        };
        let ring_bytes = config.ring_bytes.unwrap_or_else(|| ring_bytes_for(job.ranks));
        if !RING_BYTES.contains(&ring_bytes) || !ring_bytes.is_power_of_two() {
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
        let setup = Some(Setup { job, listener, ring_bytes, form, guest });
        Ok(Self {
            position,
            config,
            peers,
            waker,
            ended: Arc::default(),
            wire,
            setup,
            driver: None,
            thread: None,
        })
    }

    fn peer(&self, rank: Rank) -> Option<&Arc<Peer>> {
        self.peers.get(rank.0 as usize)?.as_ref()
    }

    /// What the thread needs.
    fn server(&self, setup: Setup, sink: LinkSink) -> io::Result<Server> {
        let ShmConfig { limits, connect_timeout, awake, .. } = self.config;
        let Setup { job, listener, ring_bytes, form, guest } = setup;
        let record_limit = MAX_HEADER_LEN as u64 + u64::from(limits.max_transfer_bytes);
        let poller = Poller::new()?;
        poller.add(&*self.waker, Token::Waker)?;
        Ok(Server {
            ends: self.peers.iter().flatten().cloned().map(End::new).collect(),
            door: Door::open(job, self.position, (form, ring_bytes, connect_timeout), listener, &poller)?,
            poller,
            waker: self.waker.clone(),
            ended: self.ended.clone(),
            pool: Pool::of_link(record_limit),
            sink,
            guest,
            record_limit,
            awake,
        })
    }
}

/// Bytes of a ring in a job of so many ranks.
fn ring_bytes_for(ranks: u32) -> u64 {
    let rings = 2 * u64::from(ranks.max(2) - 1);
    1 << (ALL_RINGS_BYTES / rings).clamp(LEAST_RING_BYTES, MOST_RING_BYTES).ilog2()
}

impl Link for Shm {
    fn position(&self) -> Position {
        self.position
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        let setup = self.setup.take().ok_or(LinkError::StartedTwice)?;
        let failed =
            |error: io::Error| LinkError::io("starting the link of rank", self.position.rank, &error);
        let server = self.server(setup, sink).map_err(failed)?;
        let driver = Arc::new(Driver::new(server, self.waker.clone()));
        let driven = driver.clone();
        let thread = background::spawn("mgcomp-shm", move || driven.run());
        self.thread = Some(thread.map_err(failed)?);
        self.driver = Some(driver);
        Ok(())
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        let peer = self.peer(to).ok_or(SendError::Closed(to))?;
        let payload = message.payload.bytes().ok_or(SendError::Payload)?.clone();
        let Some(wire) = &self.wire else { return peer.send(&message.header, payload) };
        let record = peer.post(&message.header, payload)?;
        let bytes = record.message_len() as u64;
        peer.flow.written.note(wire.post(0, bytes, (peer.clone(), record)));
        Ok(Sent::Queued)
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        self.peer(peer).is_some_and(|peer| peer.moved_since(since))
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        if let Some(shaping) = self.config.shaping {
            return shaping.facts();
        }
        // The latency is not known; it is the same for raw and coded bytes.
        LinkFacts::try_new(self.peer(peer)?.rate.gbps()?, 0, Overlap::None).ok()
    }

    fn ranks_here(&self) -> u32 {
        self.position.ranks
    }

    fn is_cores_work(&self, _peer: Rank) -> bool {
        self.config.shaping.is_none()
    }

    fn driver(&self) -> Option<Weak<dyn Drive>> {
        let driver: Arc<dyn Drive> = self.driver.clone()?;
        Some(Arc::downgrade(&driver))
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
        self.driver.iter().for_each(|driver| driver.end());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // bounded: closing a peer is
        }
        // Without a thread nobody else does.
        self.peers.iter().flatten().for_each(|peer| peer.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeConfig;

    #[test]
    fn jobs_are_of_so_many_ranks_at_most() {
        let secret = Secret::new(*b"of too many rank");
        let config = ShmConfig::new(NodeConfig::default().limits);
        let start = |ranks| Shm::new(ShmJob::new(secret, ranks), Rank(0), config).err();
        assert_eq!(start(65_537), Some(LinkError::TooManyRanks { ranks: 65_537, limit: 65_536 }));
        assert_eq!(start(65_536), None);
    }

    #[test]
    fn rings_get_shorter_where_there_are_many() {
        let kib = |ranks| ring_bytes_for(ranks) >> 10;
        // Two rings for each peer: 32 of 2 MiB are 64 MiB, and so are 64 of 1 MiB and 128 of 512 KiB.
        assert_eq!(
            [1, 2, 17, 18, 33, 34, 65, 66, 1000].map(kib),
            [2048, 2048, 2048, 1024, 1024, 512, 512, 256, 64]
        );
    }

    #[test]
    fn shared_memory_is_cores_work_unless_it_has_a_rate() {
        let is_cores_work = |shaping| {
            let config = ShmConfig { shaping, ..ShmConfig::new(NodeConfig::default().limits) };
            let job = ShmJob::new(Secret::new(*b"of two and a bit"), 2);
            Shm::new(job, Rank(0), config).unwrap().is_cores_work(Rank(1))
        };
        assert!(is_cores_work(None));
        assert!(!is_cores_work(Shaping::try_new(1.0, Duration::ZERO).ok()));
    }
}
