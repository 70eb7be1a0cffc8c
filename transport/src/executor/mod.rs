//! Carrying out codec work: the part of a transfer that touches bytes, in whatever memory they are.

mod brief;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod failure;
mod hold;
mod host;
mod threads;
mod waiting;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{Estimate, SampleSize};

#[cfg(feature = "cuda")]
pub use cuda::CudaExecutor;
pub(crate) use host::estimate;
pub use host::{Brief, HostExecutor};
pub use threads::{shared_codec_threads, usual_codec_threads};

use self::brief::For;
pub(crate) use self::threads::usual_cores;
pub(crate) use self::waiting::RETRY;
use crate::memory::{Shelf, Slice};
use crate::message::Status;
use crate::patience;
use crate::payload::Payload;

/// Names a piece of work towards whoever handed it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Something to do with bytes.
#[derive(Clone, Debug)]
pub enum Work {
    /// Estimate what each algorithm would make of `source`.
    Estimate {
        /// The raw bytes.
        source: Payload,
        /// What they are.
        element: Element,
        /// Which algorithms.
        algorithms: AlgorithmSet,
        /// How much to look at.
        sample: SampleSize,
    },
    /// Encode `source`; where that saves nothing, the raw bytes come back under `none`.
    Encode {
        /// The raw bytes.
        source: Payload,
        /// What they are.
        element: Element,
        /// How to encode them.
        algorithm: Algorithm,
        /// Whether the raw bytes may go out from where they are: nobody changes them until they have.
        lent: bool,
        /// Where what a device makes of them is to be on the host, if it is to stay there.
        shelf: Option<Shelf>,
    },
    /// Decode `payload` into the whole of `destination`.
    Decode {
        /// The coded bytes.
        payload: Payload,
        /// How they are coded.
        algorithm: Algorithm,
        /// Where the raw bytes go.
        destination: Payload,
        /// Whether that is to stay as it is if the payload turns out bad.
        all_or_nothing: bool,
    },
}

impl Work {
    /// The raw bytes: those to be read, or where they are to be written.
    fn raw(&self) -> &Payload {
        match self {
            Self::Estimate { source: raw, .. }
            | Self::Encode { source: raw, .. }
            | Self::Decode { destination: raw, .. } => raw,
        }
    }

    fn writes(&self) -> bool {
        matches!(self, Self::Decode { .. })
    }

    /// Whether both need some of the same memory, and not only to read it.
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = |(one, other): (&Slice, &Slice)| one.overlaps(other);
        (self.writes() || other.writes())
            && self.raw().slice().zip(other.raw().slice()).is_some_and(overlap)
            && !(self.is_in_place() || other.is_in_place())
    }

    /// Whether a link has put raw bytes where they go.
    fn is_in_place(&self) -> bool {
        match self {
            Self::Decode { payload, algorithm: Algorithm::None, destination, .. } => {
                payload.memory().zip(destination.memory()).is_some_and(|(from, into)| from.is_same(into))
            }
            _ => false,
        }
    }
}

/// What came of a piece of work.
#[derive(Clone, Debug)]
pub enum Output {
    /// One estimate for each algorithm that has one.
    Estimates(Vec<Estimate>),
    /// The coded bytes, and how they are coded.
    Encoded(Algorithm, Payload),
    /// The destination holds the raw bytes.
    Decoded,
}

/// A piece of work that is done.
#[derive(Clone, Debug)]
pub struct Done {
    /// Which.
    pub ticket: Ticket,
    /// Time it took, waiting not counted.
    pub took: Duration,
    /// What came of it.
    pub result: Result<Output, Status>,
    /// What the driver says, if the device is lost: all later work with its memory fails too. The status says so as well.
    pub lost: Option<String>,
}

impl Done {
    /// Work that took no time and came to nothing, for a reason that is nobody's fault.
    #[cfg(any(feature = "cuda", test))]
    pub(crate) fn failed(ticket: Ticket) -> Self {
        Self { ticket, took: Duration::ZERO, result: Err(Status::Internal), lost: None }
    }
}

/// What becomes of work that was [accepted](Executor::accept).
pub enum Accepted {
    /// Its end is reported to the sink.
    Taken,
    /// It has been done at once.
    Done(Done),
    /// It is short: whoever has handed it in does it, at once.
    Brief(Brief),
}

/// Where finished work is reported. Called from any thread; must not block.
pub type DoneSink = Arc<dyn Fn(Done) + Send + Sync>;

/// The executor for all memory that this build knows: see [`HostExecutor::start`].
///
/// # Errors
/// If the system gives no thread.
pub fn start(threads: usize, checksum: bool, sink: &DoneSink) -> io::Result<Box<dyn Executor>> {
    let host = HostExecutor::start(threads, checksum, sink)?;
    Ok(with_devices(host, Outlet::Host, sink))
}

/// As [`start`], for a link that takes payloads from `outlet`, of one of at least `ranks` ranks on this machine.
///
/// # Errors
/// As [`start`].
pub fn start_for(
    outlet: Outlet,
    ranks: u32,
    threads: usize,
    checksum: bool,
    sink: &DoneSink,
) -> io::Result<Box<dyn Executor>> {
    patience::shared_by(ranks);
    let whom = For::Link { cores: usual_cores(ranks) };
    let host = HostExecutor::start_for(whom, threads, checksum, sink)?;
    Ok(with_devices(host, outlet, sink))
}

/// An executor for what `host` works on, and for memory of devices.
fn with_devices(host: HostExecutor, outlet: Outlet, sink: &DoneSink) -> Box<dyn Executor> {
    #[cfg(feature = "cuda")]
    let executor = CudaExecutor::new(host, sink.clone(), outlet);
    #[cfg(not(feature = "cuda"))]
    let _ = (outlet, sink);
    #[cfg(not(feature = "cuda"))]
    let executor = host;
    Box::new(executor)
}

/// Where links take payloads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Outlet {
    /// Host memory.
    #[default]
    Host,
    /// Host memory, or the memory of the device that has made them.
    Anywhere,
}

/// Something that carries out [`Work`]: threads for host memory, CUDA streams for a device's.
pub trait Executor: Send {
    /// Hands in work. What takes next to no time may be done at once, and its end returned, never that of other work; the end of
    /// what is not done at once is reported to the sink, in any order. Never blocks.
    fn submit(&mut self, ticket: Ticket, work: Work) -> Option<Done>;

    /// As [`submit`](Self::submit), but what takes next to no time may be left to the caller, who can have others hand in work meanwhile.
    fn accept(&mut self, ticket: Ticket, work: Work) -> Accepted {
        self.submit(ticket, work).map_or(Accepted::Taken, Accepted::Done)
    }

    /// Does some of the work that could not be done when it was handed in and that nobody else does; returns its end.
    fn resume(&mut self) -> Option<Done> {
        None
    }

    /// Whether there is such work: [`resume`](Self::resume) is to be called now and then.
    fn is_waiting(&self) -> bool {
        false
    }
}
