//! Ranks on one or several machines, joined by TCP.
//!
//! Every pair of ranks has one connection, or several, which the higher rank makes to the lower one's address. Messages
//! travel as records with a checksum, each over the connection whose turn it is. A connection that fails is not made
//! again: the session over it and all others of the pair ends.
//!
//! All sockets are served by one thread of the link's own, or by one of the program that waits for what they bring.
//!
//! Memory: for each peer what is queued for it, at most [`queue_bytes`](TcpConfig::queue_bytes), which are the payloads
//! themselves, not copies of them; and of what came from it and was not looked at yet at most 64 MiB and a message, and one for each
//! connection. Buffers for these are used again: those that are not in use take 64 MiB at most for all peers together, or as much as the longest message.

mod connecting;
mod connections;
mod counters;
mod drive;
mod gauge;
mod handshake;
mod inbox;
mod join;
mod lane;
mod listening;
mod meeting;
mod outbox;
mod pace;
mod peer;
mod rank_file;
mod reader;
mod record;
mod service;
mod turn;

use std::future::Future;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mgcomp_codecs::background;
use mgcomp_selector::LinkFacts;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

pub use connections::{Connections, ConnectionsError};
pub use gauge::Gauge;
pub use rank_file::{RankFile, RankFileError};

use self::drive::{Driver, Way};
use self::handshake::{Acceptor, Arrival, Seat, Seats};
use self::inbox::Inbox;
use self::meeting::{Met, Plan};
use self::outbox::{Outbox, Outgoing, Push, Queue, lock};
use self::peer::PeerTask;
use self::record::Record;
use super::flow::{Flow, held_bytes, usual_queue_bytes};
use super::wire::Wire;
use super::{Drive, Link, LinkError, LinkEvent, LinkSink, Message, Position, SendError, Sent, Shaping};
use crate::executor::usual_cores;
use crate::message::{Expected, Header, Limits, MAX_HEADER_LEN, Rank};
use crate::pool::Pool;

/// Settings of a TCP link.
#[derive(Clone, Copy, Debug)]
pub struct TcpConfig {
    /// What this rank takes at once: no record may be longer than these allow.
    pub limits: Limits,
    /// Bytes that may be queued for one peer; a peer that lets more pile up is given up. Room for three windows
    /// is enough for what a peer may rightly ask for: its reads and fetches, this side's writes, and its sends. A message
    /// counts 256 bytes on top of its own, for what it takes itself. [`new`](Self::new) leaves room for all that, and for 1 GiB at least.
    pub queue_bytes: u64,
    /// How long to try to reach a peer.
    pub connect_timeout: Duration,
    /// Makes the link slower than it is.
    pub shaping: Option<Shaping>,
    /// Connections with each peer of a lower rank. Those of a higher rank make as many as they are told to, up to 16; each may
    /// bring one message ahead of its turn, beside what the window holds.
    pub connections: Connections,
}

impl TcpConfig {
    /// Settings for ranks that take what `limits` allow.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            queue_bytes: usual_queue_bytes(limits),
            connect_timeout: Duration::from_secs(20),
            shaping: None,
            connections: Connections::ONE,
        }
    }
}

/// What ranks that share cores do for a connection takes so many times as long at most as it would with its part of a core: they wait for
/// each other.
const SLOWED: f64 = 8.0;

/// One rank's end of a TCP link.
pub struct Tcp {
    position: Position,
    ranks_here: u32,
    /// By rank: whether it is on this machine.
    is_here: Vec<bool>,
    /// How many times as long what is done there for a connection may take as it would with a core of its own.
    shared: f64,
    config: TcpConfig,
    peers: Vec<Option<Peer>>,
    /// What imitates a slow link, if one is imitated.
    wire: Option<Wire<Posted>>,
    setup: Option<Setup>,
    driver: Option<Arc<Driver>>,
    thread: Option<JoinHandle<()>>,
}

/// A message on the imitated link, and where it goes when it has crossed it.
type Posted = (Arc<Mutex<Outbox>>, Arc<Flow>, Outgoing);

/// What is needed until the link starts.
struct Setup {
    listeners: Vec<TcpListener>,
    rank_file: RankFile,
    ends: Vec<(Rank, PeerEnd)>,
}

/// The link's side of a peer.
struct Peer {
    outbox: Arc<Mutex<Outbox>>,
    inbox: Arc<Inbox>,
    closed: watch::Sender<bool>,
    silenced: Arc<AtomicBool>,
    flow: Arc<Flow>,
}

/// The other side of it: what the peer's task gets.
struct PeerEnd {
    queue: Queue,
    outbox: Arc<Mutex<Outbox>>,
    inbox: Arc<Inbox>,
    closed: watch::Receiver<bool>,
    silenced: Arc<AtomicBool>,
    flow: Arc<Flow>,
}

impl Tcp {
    /// Opens the socket that the ranks above this one will connect to. Port 0 takes any free port.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        TcpListener::bind(address)
    }

    /// The end of `rank`, which listens on `listener`, in the job that `rank_file` describes.
    ///
    /// # Errors
    /// [`LinkError`] if the job has no such rank, or the system gives no thread to imitate a link with.
    pub fn new(
        listener: TcpListener,
        rank_file: RankFile,
        rank: Rank,
        config: TcpConfig,
    ) -> Result<Self, LinkError> {
        Self::over(vec![listener], rank_file, rank, config)
    }

    /// Listens on the address that `rank_file` names for `rank`, or on all that it stands for if it is a name. If these are
    /// loopback addresses and other machines' ranks are to connect, also on those by which this machine reaches them.
    ///
    /// # Errors
    /// [`LinkError`] if the job has no such rank or its address cannot be used.
    pub fn listen(rank_file: RankFile, rank: Rank, config: TcpConfig) -> Result<Self, LinkError> {
        let listeners = listening::listen(&rank_file, rank, config.connect_timeout)?;
        Self::over(listeners, rank_file, rank, config)
    }

    fn over(
        listeners: Vec<TcpListener>,
        rank_file: RankFile,
        rank: Rank,
        config: TcpConfig,
    ) -> Result<Self, LinkError> {
        let position = Position { rank, ranks: rank_file.ranks() };
        if rank.0 >= position.ranks {
            return Err(LinkError::NoSuchRank { rank, ranks: position.ranks });
        }
        let mut peers: Vec<_> = (0..position.ranks).map(|_| None).collect();
        let mut ends = Vec::new();
        for rank in position.peers() {
            let (peer, end) = Peer::new();
            peers[rank.0 as usize] = Some(peer);
            ends.push((rank, end));
        }
        let start_wire = |shaping| {
            Wire::start(1, shaping, |(outbox, flow, message): Posted| {
                lock(&outbox).arrive(message, &flow);
            })
            .map_err(|error| LinkError::io("starting the wire thread of rank", rank, &error))
        };
        let wire = config.shaping.map(start_wire).transpose()?;
        let (ranks_here, is_here) = (rank_file.ranks_beside(rank), rank_file.beside(rank));
        let setup = Some(Setup { listeners, rank_file, ends });
        let shared = f64::from(ranks_here.max(2) - 1) / usual_cores(ranks_here) * SLOWED;
        Ok(Self {
            position,
            ranks_here,
            is_here,
            shared,
            config,
            peers,
            wire,
            setup,
            driver: None,
            thread: None,
        })
    }

    fn peer(&self, rank: Rank) -> Option<&Peer> {
        self.peers.get(rank.0 as usize)?.as_ref()
    }

    /// The longest message that a peer which keeps to the limits sends: payloads are never longer than the raw
    /// bytes.
    fn record_limit(&self) -> u64 {
        MAX_HEADER_LEN as u64 + u64::from(self.config.limits.max_transfer_bytes)
    }

    fn hand_over(&self, to: Rank, message: Message, push: Push) -> Result<Sent, SendError> {
        let peer = self.peer(to).ok_or(SendError::Closed(to))?;
        let payload = message.payload.bytes().ok_or(SendError::Payload)?.clone();
        let (len, limit) = (message.wire_len(), self.config.queue_bytes);
        let longest = u64::from(u32::MAX);
        if len > longest {
            return Err(SendError::TooLong { bytes: len, limit: longest });
        }
        let send = if let Header::TaggedSend(send) = message.header { Some(send.id) } else { None };
        let message = Outgoing { record: Record::new(&message.header, payload), len, send };
        let (mut outbox, flow) = (lock(&peer.outbox), &peer.flow);
        if !outbox.is_open() {
            return Err(SendError::Closed(to));
        }
        let queued_bytes = flow.queued.check_room(held_bytes(len), limit)?;
        if let Some(wire) = &self.wire {
            flow.queued.add(held_bytes(len));
            outbox.post();
            flow.written.note(wire.post(0, len, (peer.outbox.clone(), flow.clone(), message)));
            return Ok(Sent::Queued);
        }
        outbox.send(message, push, queued_bytes, flow).ok_or(SendError::Closed(to))
    }
}

impl Link for Tcp {
    fn position(&self) -> Position {
        self.position
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        let Setup { listeners, rank_file, ends } = self.setup.take().ok_or(LinkError::StartedTwice)?;
        let failed =
            |error: io::Error| LinkError::io("starting the TCP link of rank", self.position.rank, &error);
        let ways = self.peers.iter().flatten().map(Peer::way).collect();
        let driver = Arc::new(Driver::new(ways).map_err(failed)?);
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true)).map_err(failed)?;
        let server = Server {
            position: self.position,
            pool: Pool::of_link(self.record_limit()),
            record_limit: self.record_limit(),
            config: self.config,
            rank_file,
            sink,
        };
        let serving = driver.clone();
        let serve = move || serving.run(server.run(listeners, ends));
        let thread = background::spawn("mgcomp-tcp", serve).map_err(failed)?;
        (self.driver, self.thread) = (Some(driver), Some(thread));
        Ok(())
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        self.hand_over(to, message, Push::Now)
    }

    fn send_with_next(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        self.hand_over(to, message, Push::WithNext)
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        self.peer(peer).is_some_and(|peer| peer.flow.moved_since(since))
    }

    fn ranks_here(&self) -> u32 {
        self.ranks_here
    }

    /// Short, so that it stays in the caches between a codec and the system: over sockets each byte is copied twice more.
    fn part_bytes(&self) -> usize {
        192 << 10
    }

    fn is_cores_work(&self, peer: Rank) -> bool {
        self.config.shaping.is_none() && self.is_here.get(peer.0 as usize).is_some_and(|&is_here| is_here)
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        if let Some(shaping) = self.config.shaping {
            return shaping.facts();
        }
        let shared = self.is_cores_work(peer).then_some(self.shared);
        lock(&self.peer(peer)?.outbox).facts(shared)
    }

    fn close(&self, peer: Rank) {
        if let Some(peer) = self.peer(peer) {
            peer.silenced.store(true, Ordering::SeqCst);
            lock(&peer.outbox).close(&peer.flow);
            peer.closed.send_replace(true);
            if let Some(driver) = &self.driver {
                driver.call();
            }
        }
    }

    fn driver(&self) -> Option<Weak<dyn Drive>> {
        let driver: Arc<dyn Drive> = self.driver.clone()?;
        Some(Arc::downgrade(&driver))
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.position.peers().for_each(|peer| self.close(peer));
        self.driver = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // bounded: closing a peer is
        }
    }
}

impl Peer {
    fn new() -> (Self, PeerEnd) {
        let (outbox, queue) = Outbox::new();
        let outbox = Arc::new(Mutex::new(outbox));
        let (closed, closed_end) = watch::channel(false);
        let (silenced, flow) = (Arc::<AtomicBool>::default(), Arc::new(Flow::new()));
        let inbox = Arc::<Inbox>::default();
        let end = PeerEnd {
            queue,
            outbox: outbox.clone(),
            inbox: inbox.clone(),
            closed: closed_end,
            silenced: silenced.clone(),
            flow: flow.clone(),
        };
        (Self { outbox, inbox, closed, silenced, flow }, end)
    }

    fn way(&self) -> Way {
        Way { flow: self.flow.clone(), outbox: self.outbox.clone(), inbox: self.inbox.clone() }
    }
}

/// What the link's thread runs.
struct Server {
    position: Position,
    pool: Pool,
    record_limit: u64,
    config: TcpConfig,
    rank_file: RankFile,
    sink: LinkSink,
}

impl Server {
    async fn run(self, listeners: Vec<TcpListener>, ends: Vec<(Rank, PeerEnd)>) {
        let mut tasks = JoinSet::new();
        let mut seats: Vec<_> = (0..self.position.ranks).map(|_| None).collect();
        for (peer, end) in ends {
            let sink = silenceable(self.sink.clone(), end.silenced.clone());
            let (seat, arrivals) = Seat::new(sink.clone());
            if peer > self.position.rank {
                seats[peer.0 as usize] = Some(seat);
            }
            tasks.spawn(self.serve((peer, sink), end, arrivals));
        }
        let accepting = tokio::spawn(self.accept(listeners, seats.into()));
        while tasks.join_next().await.is_some() {}
        accepting.abort();
    }

    /// Serves `peer`, whose connections arrive at its seat if it is the one to make them.
    fn serve(
        &self,
        (peer, sink): (Rank, LinkSink),
        end: PeerEnd,
        arrivals: mpsc::Receiver<Result<Arrival, LinkError>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let task = PeerTask {
            peer,
            outbox: end.outbox,
            inbox: end.inbox,
            closed: end.closed.clone(),
            flow: end.flow.clone(),
            pool: self.pool.clone(),
            record_limit: self.record_limit,
            sink,
        };
        let (own, secret, connections) = (self.position, self.rank_file.secret, self.config.connections);
        let address = self.rank_file.addresses[peer.0 as usize].clone();
        let other = connecting::Peer { rank: peer, address, limit: self.config.connect_timeout };
        let connecting = async move {
            if peer < own.rank {
                other.meet(Plan { secret, own, connections }, end.queue, end.closed, &end.flow).await
            } else {
                let connections = other.await_all(arrivals).await?;
                Ok(Met { connections, queue: end.queue, said: None })
            }
        };
        task.run(connecting)
    }

    fn accept(&self, listeners: Vec<TcpListener>, seats: Seats) -> impl Future<Output = ()> + Send + use<> {
        let expected = Expected {
            secret: self.rank_file.secret,
            ranks: self.position.ranks,
            own: self.position.rank,
            peer: None,
        };
        let acceptor = Arc::new(Acceptor { expected, seats });
        async move {
            let listeners = listeners.into_iter().map(tokio::net::TcpListener::from_std);
            match listeners.collect() {
                Ok(listeners) => acceptor.run(listeners).await,
                Err(error) => tracing::error!(%error, "cannot accept connections"),
            }
        }
    }
}

/// A sink that reports nothing more once the peer was given up.
fn silenceable(sink: LinkSink, silenced: Arc<AtomicBool>) -> LinkSink {
    Arc::new(move |event: LinkEvent| {
        if !silenced.load(Ordering::SeqCst) {
            sink(event);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_on_this_machine_at_no_set_rate_is_cores_work() {
        let job = r#"{ "secret": "00112233445566778899aabbccddeeff",
            "ranks": ["127.0.0.1:7100", "localhost:7101", "10.0.0.1:7100"] }"#;
        let is_cores_work = |shaping| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let config = TcpConfig { shaping, ..TcpConfig::new(crate::node::NodeConfig::default().limits) };
            let link = Tcp::new(listener, RankFile::parse(job).unwrap(), Rank(0), config).unwrap();
            [1, 2, 3].map(|peer| link.is_cores_work(Rank(peer)))
        };
        assert_eq!(is_cores_work(None), [true, false, false]);
        assert_eq!(is_cores_work(Shaping::try_new(1.0, Duration::ZERO).ok()), [false; 3]);
    }
}
