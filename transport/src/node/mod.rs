//! A rank's whole transport: sessions with all peers over one link, and the calls of the program.
//!
//! ```
//! use std::time::Duration;
//!
//! use mgcomp_codecs::Element;
//! use mgcomp_selector::{PolicySpec, Steering};
//! use mgcomp_transport::link::loopback::Loopback;
//! use mgcomp_transport::memory::HostBuffer;
//! use mgcomp_transport::message::Rank;
//! use mgcomp_transport::node::{Node, NodeConfig};
//! use mgcomp_transport::region::Access;
//!
//! let policy: PolicySpec = "fixed:bdi".parse()?;
//! let nodes: Vec<Node> = Loopback::fabric(2, None)?
//!     .into_iter()
//!     .map(|link| Node::start(Box::new(link), policy.build(&Steering::default()), NodeConfig::default()))
//!     .collect::<Result<_, _>>()?;
//!
//! let tensor = HostBuffer::from((0..4096u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
//! let address = nodes[1].register(tensor.all(), Element::U32, Access::read_only())?;
//!
//! let copy = HostBuffer::zeroed(tensor.len());
//! nodes[0].read(Rank(1), address, copy.all()).wait()?;
//! assert_eq!(copy.all().to_vec(), tensor.all().to_vec());
//! let sent = nodes[1].stats().total();
//! assert!(sent.coded_bytes < sent.raw_bytes / 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Compression
//! The policy decides for each message. Where it goes by the times that it predicts, reads, writes and [sends](Node::send) of 16 KiB and more are held
//! against raw ones, by whoever asks: of those of one peer and of about one length, some go raw, and where those take less time as a whole, all do until
//! they are compared again ([`Reason::TransferSlower`], [`Reason::RawWanted`]). Not what takes long raw, or less than half of what the link would.
//!
//! # Memory
//! Beside the program's own buffers, there are the frames of what is on its way: of requests to each peer at most
//! [`window_bytes`](Limits::window_bytes) unanswered reads, writes and fetches, and as many of tagged sends, and the same of
//! requests from it, whose raw bytes no frame exceeds; and what the link holds for each peer, which its module says. What would go
//! beyond waits with the program's own memory, for which nothing is allocated.

mod coded;
mod coding;
mod collectives;
mod comparison;
mod engine;
mod groups;
mod handle;
mod mailbox;
mod messages;
mod peers;
mod records;
mod stats;
mod under_way;
mod ways;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mgcomp_codecs::{Element, background};
use mgcomp_selector::speeds::Speeds;
use mgcomp_selector::{DecisionLog, Policy, Reason, Record};
use rustc_hash::FxHashMap;

pub(crate) use groups::{Making, Watch};
pub use handle::{Handle, TransferResult};
pub use peers::PeerState;
pub use stats::{Stats, Tally};

use self::coding::Coder;
use self::collectives::{CollectiveUnderWay, Collectives};
use self::engine::Engine;
use self::groups::GroupBoard;
use self::mailbox::{Input, Mailbox};
use self::peers::PeerBoard;
use self::records::Records;
use crate::control;
use crate::executor::{self, usual_codec_threads};
use crate::fork::Process;
use crate::link::{Drive, Link, LinkError, Position};
use crate::memory::{HostBuffer, Slice};
use crate::message::{Address, GivingUp, Invalid, Limits, MAX_IN_FLIGHT, Rank, Secret, Tag};
use crate::payload::Payload;
use crate::region::{Access, RegionError, RegionTable};
use crate::session::{Completion, GroupOver, Request, TransferError};

/// How often an engine looks at the time, at most.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// How often an engine looks at the time, at least.
const LONGEST_TICK: Duration = Duration::from_secs(60);

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// What tells members of the job from strangers; the same on all ranks.
    pub secret: Secret,
    /// What this rank takes from a peer at once.
    pub limits: Limits,
    /// Bytes per message: longer reads and writes are cut into pieces of this length.
    pub piece_bytes: u32,
    /// How long a peer may take for its hello.
    pub greeting_timeout: Duration,
    /// How long a peer that owes an answer may stay silent. Time in which this process was stopped or starved does not
    /// count, and neither does that in which the machine slept; setting its clock changes nothing.
    ///
    /// A peer that is asked whether it is there, and says so, is not silent; nor is one of which bytes come, be they ever so
    /// few: how long an answer may take is the program's to say, by [`Handle::wait_for`] and [`Node::disconnect`].
    pub silence_timeout: Duration,
    /// Threads that run codecs, by default [`usual_codec_threads`]; with none, they run on the threads that call, and that
    /// links receive on. Brief work always does, 50 µs on up to 256 KiB at most: to wake a thread for it may take longer. Where
    /// the ranks of this machine have less than two cores each, a thread would only take turns with the one that wakes it; then
    /// it is 500 µs on up to 1 MiB.
    pub codec_threads: usize,
    /// Whether frames carry a checksum of the raw bytes, from end to end; but for those from and to memory of devices.
    pub checksum: bool,
    /// Decisions that [`Node::decisions`] remembers.
    pub remembered_decisions: usize,
    /// How fast codecs are, for policies that an operator puts in the place of the program's: those of a
    /// [device](crate::calibrate::device_speeds) where that codes. None = [those](crate::calibrate::speeds) of this machine's
    /// processors.
    pub speeds: Option<Arc<Speeds>>,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            secret: Secret::new([0; 16]),
            limits: Limits {
                max_transfer_bytes: 64 << 20,
                window_bytes: 256 << 20,
                max_in_flight: MAX_IN_FLIGHT,
            },
            piece_bytes: 1 << 20,
            greeting_timeout: Duration::from_secs(20),
            silence_timeout: Duration::from_secs(10),
            codec_threads: usual_codec_threads(),
            checksum: true,
            remembered_decisions: DecisionLog::DEFAULT_CAPACITY,
            speeds: None,
        }
    }
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The link does not work.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The system gives no thread.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// A limit that no peer could keep to.
    #[error("limits: {0}")]
    Limits(#[source] Invalid),
    /// Pieces of no bytes.
    #[error("pieces of 0 bytes")]
    PieceBytes,
}

/// A rank that others can talk to. Dropping it ends its sessions.
///
/// A child made by `fork` can do nothing with its parent's nodes: what it asks for fails at once, and dropping one there
/// does nothing. The parent goes on as before.
pub struct Node {
    position: Position,
    /// The process that has the threads.
    process: Process,
    mailbox: Arc<Mailbox>,
    /// What threads that wait may do meanwhile.
    driver: Option<Weak<dyn Drive>>,
    regions: Arc<RwLock<RegionTable>>,
    board: Arc<PeerBoard>,
    groups: Arc<GroupBoard>,
    collectives: Arc<Collectives>,
    is_off: Arc<AtomicBool>,
    stats: Arc<Mutex<Stats>>,
    log: Arc<Mutex<DecisionLog>>,
    timekeeper: Option<JoinHandle<()>>,
}

impl Node {
    /// Starts a node on `link` and greets all peers. What it registers later, peers may ask for too early.
    ///
    /// # Errors
    /// [`NodeError`] if the settings cannot work or the system does not give what is needed.
    pub fn start(
        link: Box<dyn Link>,
        policy: Box<dyn Policy>,
        config: NodeConfig,
    ) -> Result<Self, NodeError> {
        Self::start_with(link, policy, config, RegionTable::default())
    }

    /// As [`start`](Self::start), with regions that are open from the first request on.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        mut link: Box<dyn Link>,
        policy: Box<dyn Policy>,
        config: NodeConfig,
        regions: RegionTable,
    ) -> Result<Self, NodeError> {
        config.limits.check().map_err(NodeError::Limits)?;
        if config.piece_bytes == 0 {
            return Err(NodeError::PieceBytes);
        }
        let (position, process) = (link.position(), Process::current());
        let stats = Arc::<Mutex<Stats>>::default();
        let log = Arc::new(Mutex::new(DecisionLog::new(config.remembered_decisions)));
        let regions = Arc::new(RwLock::new(regions));
        let board = Arc::new(PeerBoard::new(position, link.part_bytes(), config.codec_threads));
        let groups = Arc::<GroupBoard>::default();
        let collectives = Arc::<Collectives>::default();
        let mailbox = Arc::new(Mailbox::new());

        let sink = mailbox.clone();
        let sink = Arc::new(move |done| sink.post(Input::Done(done))) as _;
        let (outlet, ranks, threads) = (link.outlet(), link.ranks_here(), config.codec_threads);
        let executor =
            executor::start_for(outlet, ranks, threads, config.checksum, &sink).map_err(NodeError::Thread)?;
        let sink = mailbox.clone();
        link.start(Arc::new(move |event| sink.post(Input::Link(event))))?;

        let driver = link.driver();
        let keeper = mailbox.clone();
        let timekeeper =
            background::spawn(format!("mgcomp-rank-{}", position.rank), move || keeper.keep_time());
        let timekeeper = timekeeper.map_err(|error| {
            mailbox.finish(); // a thread of the link may wait for what its event leads to, and the link for it
            NodeError::Thread(error)
        })?;
        let (policy, meter) = control::steer(policy, config.speeds.clone(), position);
        let records = Records::new(meter, stats.clone(), log.clone());
        let coder = Coder::new(policy, executor, collectives.clone(), records);
        let is_off = coder.is_off();
        mailbox.open(Engine {
            sessions: engine::sessions(position, &config, link.owns_arrived()),
            link,
            coder,
            regions: regions.clone(),
            board: board.clone(),
            groups: groups.clone(),
            replies: FxHashMap::default(),
            next_request: 0,
            tick: (config.silence_timeout / 3).clamp(SHORTEST_TICK, LONGEST_TICK),
            cores: executor::usual_cores(ranks),
            next_look: Instant::now(),
        });
        Ok(Self {
            position,
            process,
            mailbox,
            driver,
            regions,
            board,
            groups,
            collectives,
            is_off,
            stats,
            log,
            timekeeper: Some(timekeeper),
        })
    }

    /// This rank, and how many there are.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Opens `memory` to the peers that `access` names; returns its first address.
    ///
    /// Ranks that register in the same order get the same addresses.
    ///
    /// # Errors
    /// [`RegionError`] if the memory is empty or no region number is free.
    pub fn register(
        &self,
        memory: impl Into<Slice>,
        element: Element,
        access: Access,
    ) -> Result<Address, RegionError> {
        if self.is_forked() {
            return Err(RegionError::Forked);
        }
        self.regions.write().unwrap_or_else(PoisonError::into_inner).register(memory, element, access)
    }

    /// Closes the region that starts at `address`. Transfers that have begun still finish.
    ///
    /// # Errors
    /// [`RegionError::Unknown`] if no region starts there.
    pub fn unregister(&self, address: Address) -> Result<(), RegionError> {
        if self.is_forked() {
            return Err(RegionError::Forked);
        }
        self.regions.write().unwrap_or_else(PoisonError::into_inner).unregister(address)
    }

    /// Fills `into` from the memory of `peer` at `from`. If that fails, parts of `into` may have been written.
    #[must_use]
    pub fn read(&self, peer: Rank, from: Address, into: impl Into<Slice>) -> Handle {
        self.submit(peer, Request::Read { from, into: Payload::from_memory(into), raw: false })
    }

    /// Puts `from`, values of `element`, into the memory of `peer` at `to`.
    #[must_use]
    pub fn write(&self, peer: Rank, from: impl Into<Slice>, element: Element, to: Address) -> Handle {
        self.submit(peer, Request::Write { from: Payload::from_memory(from), element, to })
    }

    /// Sends `from`, of any length, to whoever at `peer` receives with `tag`. Finished when it was received. Sends
    /// with one tag arrive in order; those with different tags may be received in any, as long as no more of them than the
    /// peer's [`max_in_flight`](Limits::max_in_flight) wait to be received: the others wait on this side until some are, but hold up no
    /// collective of a communicator. So does what is longer than a transfer, and what the peer's window has no room for before something else is
    /// received.
    #[must_use]
    pub fn send(&self, peer: Rank, tag: Tag, from: impl Into<Slice>, element: Element) -> Handle {
        self.start_send(peer, tag, (Payload::from_memory(from), element), Completion::Remote, None)
    }

    /// As [`send`](Self::send), but finished as soon as `from` may be changed, which may be before it was received. That it
    /// could not be received is told to the peer alone. What was sent so arrives even if this node is dropped next,
    /// as long as the peer takes it within two seconds.
    #[must_use]
    pub fn post(&self, peer: Rank, tag: Tag, from: impl Into<Slice>, element: Element) -> Handle {
        self.start_send(peer, tag, (Payload::from_memory(from), element), Completion::Local, None)
    }

    /// Sends something that may be a part of something of so many bytes, whose other parts are sent at the same time.
    pub(crate) fn start_send(
        &self,
        peer: Rank,
        tag: Tag,
        (from, element): (Payload, Element),
        completion: Completion,
        part_of: Option<u64>,
    ) -> Handle {
        self.submit(
            peer,
            Request::Send { from, element, tag, completion, part_of, continued: false, window: None },
        )
    }

    /// Receives the next send of `peer` with `tag`, and those that continue it, into the front of `into`; finishes with their length. If that fails,
    /// parts of `into` may have been written.
    #[must_use]
    pub fn receive(&self, peer: Rank, tag: Tag, into: impl Into<Slice>) -> Handle {
        self.submit(peer, Request::Receive { tag, into: Payload::from_memory(into) })
    }

    /// How the session with `peer` is; `None` for a rank that is no peer.
    #[must_use]
    pub fn peer_state(&self, peer: Rank) -> Option<PeerState> {
        if self.is_forked() {
            return self.position.is_peer(peer).then_some(PeerState::FORKED);
        }
        self.board.state(peer)
    }

    /// Waits until every peer's session is open or over, or `timeout` has passed; returns all their states.
    #[must_use]
    pub fn wait_for_peers(&self, timeout: Duration) -> Vec<(Rank, PeerState)> {
        if self.is_forked() {
            return self.position.peers().map(|peer| (peer, PeerState::FORKED)).collect();
        }
        self.board.wait(timeout)
    }

    /// Ends the session with `peer`; its requests fail on both sides.
    pub fn disconnect(&self, peer: Rank) {
        if !self.is_forked() {
            self.mailbox.post(Input::Disconnect { peer });
        }
    }

    /// Whether this rank compresses what it sends from now on, as it does at first. If not, all goes raw, whatever its policy and an
    /// operator's settings say: what compression is measured against.
    pub fn set_compression(&self, on: bool) {
        self.is_off.store(!on, Ordering::Relaxed);
    }

    /// What was sent so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        if self.is_forked() {
            return Stats::default();
        }
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the last payloads were coded and why, the oldest first: what was expected of each and what came of it.
    /// Only writes say when the peer had them.
    #[must_use]
    pub fn decisions(&self) -> Vec<Record> {
        if self.is_forked() {
            return Vec::new();
        }
        self.log.lock().unwrap_or_else(PoisonError::into_inner).records().copied().collect()
    }

    /// Watches what `members` say of the group with this number.
    pub(crate) fn watch(&self, group: u32, members: &[Rank]) -> Arc<Watch> {
        self.groups.watch(group, members)
    }

    /// Watches what all ranks say of the group of all, which there is one of: for another one nobody is heard, and this says so.
    pub(crate) fn watch_world(&self, members: &[Rank]) -> (Arc<Watch>, bool) {
        if self.is_forked() {
            return (Watch::of(members), false); // where nobody is heard, and whoever had the lock may be gone
        }
        self.groups.watch_world(members)
    }

    /// A group is being made, whose number is `lowest` or higher, and may be lower than that of others.
    pub(crate) fn making_group(&self, lowest: u32) -> Making<'_> {
        self.groups.making(lowest)
    }

    /// A collective of `group` begins on this rank, which goes raw if there is a reason to.
    pub(crate) fn begin_collective(&self, group: u32, raw: Option<Reason>) -> CollectiveUnderWay<'_> {
        self.collectives.begin(group, raw)
    }

    /// What members of `group` tell each other of its collectives is sent next.
    pub(crate) fn begin_reports(&self, group: u32) -> CollectiveUnderWay<'_> {
        self.collectives.begin_reports(group)
    }

    /// Tells `peer` that this rank has given up an operation of a group. Nobody waits for the answer.
    pub(crate) fn give_up(&self, peer: Rank, given_up: GivingUp) {
        drop(self.post(peer, given_up.tag(), HostBuffer::zeroed(0).all(), Element::U8));
    }

    /// This rank takes part in no operation of `group` any more, which `watch` is of: what was asked for ends, and what the
    /// other members send is let go of.
    pub(crate) fn end_group(&self, watch: Arc<Watch>, over: GroupOver) {
        if !self.is_forked() {
            self.mailbox.post(Input::GroupOver { watch, over });
        }
    }

    /// A device of this rank is lost, which ends all sessions.
    #[cfg(feature = "cuda")]
    pub(crate) fn lose_device(&self, error: &mgcomp_codecs::device::DeviceError) {
        self.mailbox.post(Input::DeviceLost(error.to_string()));
    }

    /// Whether this process is a child, made by `fork`, of the one that started the node.
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    fn submit(&self, peer: Rank, request: Request) -> Handle {
        let (input, handle) = self.input(peer, request);
        if let Some(input) = input {
            self.mailbox.post(input);
        }
        handle
    }

    /// What to tell of a request, unless it has failed. If all is over, it is dropped, and the handle says that the node is closed.
    fn input(&self, peer: Rank, request: Request) -> (Option<Input>, Handle) {
        let (reply, handle) = handle::handle(self.driver.clone());
        if self.is_forked() {
            reply.send(Err(TransferError::Forked));
            return (None, handle);
        }
        (Some(Input::Submit { peer, request, reply }), handle)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.is_forked() {
            // The threads that share everything else, and so keep it, are not here to be waited for.
            std::mem::forget(self.timekeeper.take());
            return;
        }
        self.mailbox.close();
        if let Some(timekeeper) = self.timekeeper.take() {
            let _ = timekeeper.join();
        }
    }
}
