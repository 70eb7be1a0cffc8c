//! Operations over NCCL: compressed by a communicator of this library, or as plain calls, which the results of the
//! others are compared with.

use std::cell::{RefCell, RefMut};
use std::sync::Arc;

use mgcomp_codecs::device::{DeviceError, Region, Stream};
use mgcomp_selector::{Fixed, PolicySpec};
use mgcomp_transport::nccl::{Message, NcclCommunicator, NcclConfig, NcclError, UniqueId};
use mgcomp_transport::node::Stats;

use super::apart::{GoesOn, PART_BYTES};
use super::check::differing;
use super::error::PerfError;
use super::member::Step;
use super::operation::{Op, Piece, Place, ROOT};
use super::options::{Args, Mode};
use crate::room::{Room, Span};

/// What ranks meet by over NCCL: one for each communicator.
pub(super) type Ids = [UniqueId; 2];

/// A rank's communicators.
pub(super) struct Nccl {
    // They go before the memory that their work uses.
    /// Compresses nothing.
    plain: RefCell<NcclCommunicator>,
    /// Where something is to be compressed.
    compressed: Option<RefCell<NcclCommunicator>>,
    stream: Arc<Stream>,
    /// Buffers for plain calls whose results others are compared with.
    main: Span,
    aside: Span,
}

/// Buffers like those of a step.
pub(super) struct Twin {
    main: Span,
    aside: Span,
}

/// Names for communicators that are to be.
pub(super) fn ids() -> Result<Ids, NcclError> {
    Ok([UniqueId::new()?, UniqueId::new()?])
}

impl Nccl {
    /// Meets the other ranks; `longest` is the length of the buffers.
    pub(super) fn join(
        ids: Ids,
        (rank, ranks): (u32, u32),
        room: &Room,
        longest: usize,
        args: &Args,
    ) -> Result<Self, PerfError> {
        let Room::Device { device, stream } = room else { return Err(PerfError::NoDevice) };
        let meet = |id, policy, reductions| {
            let config = NcclConfig {
                policy,
                lambda: args.lambda,
                reductions,
                limit: args.timeout,
                ..NcclConfig::default()
            };
            let met = NcclCommunicator::new(device, id, (rank, ranks), config);
            met.map(RefCell::new).map_err(|source| PerfError::Nccl { rank, source })
        };
        let compresses = args.modes().contains(&Mode::Compressed);
        let plain = meet(ids[0], PolicySpec::Fixed(Fixed::BYPASS), args.plain_reductions())?;
        let compressed = compresses.then(|| meet(ids[1], args.policy, args.reductions())).transpose()?;
        let twin = |is_needed: bool| room.zeroed(if compresses && is_needed { longest } else { 0 });
        Ok(Self {
            plain,
            compressed,
            stream: Arc::clone(stream),
            main: twin(true)?,
            aside: twin(args.needs_aside())?,
        })
    }

    /// Carries an operation out and waits for it.
    pub(super) fn carry_out(&self, step: &Step, mode: Mode) -> Result<(), NcclError> {
        self.carry_out_in(step, mode, (&step.main, &step.aside))
    }

    fn carry_out_in(&self, step: &Step, mode: Mode, (main, aside): (&Span, &Span)) -> Result<(), NcclError> {
        let mut world = self.world(mode);
        let Step { op, case, element, .. } = step;
        let own = if main.len() == case.bytes { main.part(case.block(case.rank)) } else { main.part(0..0) };
        // Without a device there would be no communicator.
        let (Some(main), Some(aside), Some(own)) = (main.region(), aside.region(), own.region()) else {
            return Ok(());
        };
        let (stream, root, element) = (&*self.stream, ROOT as u32, *element);
        match op {
            Op::AllGather => world.all_gather(stream, own, main, element).map(drop),
            Op::AllToAll => world.all_to_all(stream, main, aside, element).map(drop),
            Op::Broadcast => world.broadcast(stream, root, main, element).map(drop),
            Op::Gather => world.gather(stream, root, (own, main), element).map(drop),
            Op::Scatter => world.scatter(stream, root, (main, own), element).map(drop),
            Op::SendRecv => {
                let send = Message::Send { to: case.next() as u32, from: main };
                let receive = Message::Receive { from: case.previous() as u32, to: aside };
                world.exchange(stream, &[send, receive], element).map(drop)
            }
            _ => reduce(&mut world, stream, step, (main, own)),
        }?;
        world.wait(stream)
    }

    /// Other buffers for a step, of which the plain call is made that a compressed one is compared with: NCCL's own, but for
    /// ordered reductions of floats and ordered means.
    pub(super) fn twin(&self, step: &Step) -> Twin {
        let front = |twin: &Span| twin.part(0..step.case.bytes.min(twin.len()));
        Twin { main: front(&self.main), aside: front(&self.aside) }
    }

    /// Makes that call.
    pub(super) fn carry_out_on(&self, step: &Step, twin: &Twin) -> Result<(), NcclError> {
        self.carry_out_in(step, Mode::Raw, (&twin.main, &twin.aside))
    }

    /// What this rank has sent in a mode so far.
    pub(super) fn stats(&self, mode: Mode) -> Stats {
        let mut stats = Stats::default();
        stats.sent.clone_from(self.world(mode).sent());
        stats
    }

    /// Lets the others know that this rank does not go on.
    pub(super) fn abort(&self) {
        self.plain.borrow_mut().abort();
        if let Some(compressed) = &self.compressed {
            compressed.borrow_mut().abort();
        }
    }

    fn world(&self, mode: Mode) -> RefMut<'_, NcclCommunicator> {
        match (&self.compressed, mode) {
            (Some(compressed), Mode::Compressed) => compressed.borrow_mut(),
            _ => self.plain.borrow_mut(),
        }
    }
}

impl Twin {
    /// Where the data of this rank has to be, if it brings any.
    pub(super) fn input(&self, step: &Step) -> Option<Span> {
        step.op.input(step.case).map(|input| self.main.part(input.at))
    }

    /// How many values of the step's result are not, bit for bit, those of the plain call.
    pub(super) fn differing(&self, step: &Step, goes_on: GoesOn<'_>) -> Result<u64, PerfError> {
        let mut differing = 0;
        for Piece { place, at, .. } in step.op.result(step.case) {
            let plain = match place {
                Place::Main => self.main.part(at.clone()),
                Place::Aside => self.aside.part(at.clone()),
            };
            let coded = step.at(place, at);
            for ((_, one), (_, other)) in coded.parts(PART_BYTES).zip(plain.parts(PART_BYTES)) {
                differing += differing_in(&one, &other, step.element.width_bytes())?;
                goes_on()?;
            }
        }
        Ok(differing)
    }
}

fn reduce(
    world: &mut NcclCommunicator,
    stream: &Stream,
    step: &Step,
    (main, own): (Region<'_>, Region<'_>),
) -> Result<(), NcclError> {
    // Flags that ask for something else were refused.
    let Some((datatype, operation)) = step.task else { return Ok(()) };
    match step.op {
        Op::ReduceScatter => world.reduce_scatter(stream, (main, own), datatype, operation),
        _ => world.all_reduce(stream, (main, main), datatype, operation),
    }
}

/// How many values of `width` bytes differ.
fn differing_in(one: &Span, other: &Span, width: usize) -> Result<u64, DeviceError> {
    let (one, other) = (one.to_vec()?, other.to_vec()?);
    Ok(differing(width, &one, &other))
}
