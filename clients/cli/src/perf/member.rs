//! One rank: its place among the others, its buffers, and how it carries an operation out.

use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_selector::Steering;
use mgcomp_transport::calibrate;
use mgcomp_transport::communicator::{Communicator, CommunicatorError, Datatype, Operation};
use mgcomp_transport::link::Link;
use mgcomp_transport::message::{Address, Rank, Secret};
use mgcomp_transport::node::{Handle, Node, NodeConfig, PeerState, Stats};
use mgcomp_transport::region::Access;

use super::data::datatype;
use super::error::PerfError;
use super::nccl::{Ids, Nccl};
use super::operation::{Case, Op, Place, ROOT};
use super::options::{Args, Mode};
use super::row::Ways;
use crate::room::{Room, Span};

/// A rank that has not met the others yet.
pub(super) struct End {
    pub(super) link: Box<dyn Link>,
    pub(super) secret: Secret,
    /// Where its buffers will lie.
    pub(super) room: Room,
    /// How many ranks of the job share this machine's cores, itself among them.
    pub(super) local_ranks: u32,
    /// What ranks meet by over NCCL, if operations go there; the link only brings what they agree on.
    pub(super) nccl: Option<Ids>,
    /// By which ways the link has brought what devices have made, if it has several.
    pub(super) ways: Option<LookAtWays>,
}

/// Counts since the link was made.
pub(super) type LookAtWays = Box<dyn Fn() -> Ways + Send + Sync>;

/// What this rank has sent so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) stats: Stats,
    pub(super) ways: Ways,
}

/// A rank that has met all others.
pub(super) struct Member {
    pub(super) world: Communicator,
    /// Before what its work uses.
    pub(super) nccl: Option<Nccl>,
    room: Room,
    ways: Option<LookAtWays>,
    buffers: Buffers,
}

/// Memory for the longest operation.
struct Buffers {
    main: Span,
    aside: Span,
    /// Where peers reach them, if they do. Ranks register in the same order, so addresses are the same everywhere.
    addresses: Option<(Address, Address)>,
}

/// An operation of one size, and the memory that it works on.
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) case: Case,
    pub(super) main: Span,
    pub(super) aside: Span,
    addresses: Option<(Address, Address)>,
    pub(super) element: Element,
    pub(super) task: Option<(Datatype, Operation)>,
}

/// Looks whether a rank has failed that nobody would hear of before it has met the others.
pub(super) type Look<'a> = &'a mut dyn FnMut() -> Result<(), PerfError>;

/// How often is looked for ranks that have failed.
const LOOKING: Duration = Duration::from_millis(100);

/// Waits until this rank has met all others.
fn meet(node: &Node, timeout: Duration, look: Look<'_>) -> Result<(), PerfError> {
    let (rank, until) = (node.position().rank, Instant::now() + timeout);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let states = node.wait_for_peers(left.min(LOOKING));
        let Some((peer, state)) = states.into_iter().find(|(_, state)| *state != PeerState::Open) else {
            return Ok(());
        };
        look()?;
        if state != PeerState::Greeting || left.is_zero() {
            return Err(PerfError::NotConnected { rank, peer, state });
        }
    }
}

impl Member {
    /// Joins the ranks at the other ends of a link, unless one of them is found by `look` to have failed.
    pub(super) fn join(end: End, args: &Args, look: Look<'_>) -> Result<Self, PerfError> {
        let End { link, secret, room, local_ranks, nccl, ways } = end;
        let ranks = link.position().ranks as usize;
        let of_device = room.device().map(|device| calibrate::device_speeds(device.info()));
        let speeds = of_device.clone().unwrap_or_else(calibrate::speeds);
        let steering = Steering { lambda: args.lambda, speeds };
        let config = NodeConfig {
            secret,
            greeting_timeout: args.timeout,
            codec_threads: args.codec_threads(local_ranks),
            speeds: of_device,
            ..NodeConfig::default()
        };
        let node = Node::start(link, args.policy.build(&steering), config)?;
        let buffers = Buffers::new(args, args.longest(ranks), &room, &node)?;
        let rank = node.position().rank;
        meet(&node, args.timeout, look)?;
        let join = |ids| Nccl::join(ids, (rank.0, ranks as u32), &room, args.longest(ranks), args);
        let nccl = nccl.map(join).transpose()?;
        Ok(Self { world: Communicator::world(node), nccl, room, ways, buffers })
    }

    /// Prepares `op` of `bytes`, which is not more than was planned for.
    pub(super) fn step(&self, args: &Args, op: Op, bytes: usize) -> Step {
        let Buffers { main, aside, addresses } = &self.buffers;
        let front = |buffer: &Span| buffer.part(0..bytes.min(buffer.len()));
        let (rank, ranks) = (self.world.rank() as usize, self.world.size() as usize);
        let values = args.values();
        Step {
            op,
            case: Case { rank, ranks, bytes },
            main: front(main),
            aside: front(aside),
            addresses: *addresses,
            element: values.element(),
            task: datatype(values).filter(|_| op.reduces()).map(|datatype| (datatype, args.reduction)),
        }
    }

    /// Carries the operation out, as this rank's part of it. Over NCCL the mode says by which communicator; else the node
    /// has been told.
    pub(super) fn carry_out(&self, step: &Step, mode: Mode) -> Result<(), PerfError> {
        if let Some(nccl) = &self.nccl {
            let failed = |source| PerfError::Nccl { rank: self.world.rank(), source };
            return nccl.carry_out(step, mode).map_err(failed);
        }
        let failed = |source| PerfError::Communicator { rank: self.world.rank(), source };
        match step.op {
            Op::Read | Op::Write => self.reach_over(step),
            Op::AllReduce | Op::Reduce | Op::ReduceScatter => self.combine(step).map_err(failed),
            _ => self.bring(step).map_err(failed),
        }
    }

    /// What this rank has sent so far.
    pub(super) fn counts(&self, mode: Mode) -> Counts {
        let stats = self.nccl.as_ref().map_or_else(|| self.world.node().stats(), |nccl| nccl.stats(mode));
        Counts { stats, ways: self.ways.as_ref().map(|look| look()).unwrap_or_default() }
    }

    /// What the device is called that has the buffers.
    pub(super) fn device_name(&self) -> Option<&str> {
        self.room.device_name()
    }

    fn bring(&self, step: &Step) -> Result<(), CommunicatorError> {
        let Step { op, case, main, aside, element, .. } = step;
        let (world, root, element) = (&self.world, ROOT as u32, *element);
        let (main, aside) = (main.slice(), aside.slice());
        let own = step.at(Place::Main, case.block(case.rank));
        let own = own.slice();
        match op {
            Op::AllGather => world.all_gather(own, main, element),
            Op::AllToAll => world.all_to_all(main, aside, element),
            Op::Broadcast => world.broadcast(root, main, element),
            Op::Gather => world.gather(root, own, main, element),
            Op::Scatter => world.scatter(root, main, own, element),
            Op::SendRecv => {
                let (to, from) = (case.next() as u32, case.previous() as u32);
                world.send_receive((to, main), (from, aside), 0, element).map(drop)
            }
            _ => world.barrier(),
        }
    }

    /// In place.
    fn combine(&self, step: &Step) -> Result<(), CommunicatorError> {
        let Step { op, case, main, .. } = step;
        let (world, main) = (&self.world, main.slice());
        let (datatype, operation) = step.task.unwrap_or((Datatype::U8, Operation::Sum));
        match op {
            Op::AllReduce => world.all_reduce(main, main, datatype, operation),
            Op::Reduce => world.reduce(ROOT as u32, main, main, datatype, operation),
            _ => {
                let own = step.at(Place::Main, case.block(case.rank));
                world.reduce_scatter(main, own.slice(), datatype, operation)
            }
        }
    }

    /// Reads the memory of the next rank, or writes to it.
    fn reach_over(&self, step: &Step) -> Result<(), PerfError> {
        let Some((main, aside)) = step.addresses else { return Ok(()) };
        let (node, next) = (self.world.node(), Rank(step.case.next() as u32));
        let handle: Handle = match step.op {
            Op::Read => node.read(next, main, step.aside.slice().clone()),
            _ => node.write(next, step.main.slice().clone(), step.element, aside),
        };
        handle.wait().map(drop).map_err(|source| PerfError::Transfer { rank: self.world.rank(), source })
    }
}

impl Buffers {
    fn new(args: &Args, longest: usize, room: &Room, node: &Node) -> Result<Self, PerfError> {
        let main = room.zeroed(longest)?;
        let aside = room.zeroed(if args.needs_aside() { longest } else { 0 })?;
        let register =
            |buffer: &Span, access| node.register(buffer.slice().clone(), args.values().element(), access);
        let addresses = if args.needs_regions() {
            Some((register(&main, Access::read_only())?, register(&aside, Access::all())?))
        } else {
            None
        };
        Ok(Self { main, aside, addresses })
    }
}

impl Step {
    /// A part of one of the buffers.
    pub(super) fn at(&self, place: Place, range: std::ops::Range<usize>) -> Span {
        let buffer = match place {
            Place::Main => &self.main,
            Place::Aside => &self.aside,
        };
        buffer.part(range)
    }
}
