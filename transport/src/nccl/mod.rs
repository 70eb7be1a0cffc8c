//! Ranks that work together on buffers in the memory of CUDA devices, over NCCL.
//!
//! ```no_run
//! use mgcomp_codecs::Element;
//! use mgcomp_codecs::device::Device;
//! use mgcomp_transport::nccl::{NcclCommunicator, NcclConfig, UniqueId};
//!
//! /// Brings what rank 0 has in a buffer to all ranks.
//! fn share(rank: u32, ranks: u32, id: UniqueId) -> Result<(), Box<dyn std::error::Error>> {
//!     let device = Device::open(0)?;
//!     let (stream, weights) = (device.stream()?, device.alloc(64 << 20)?);
//!     let mut world = NcclCommunicator::new(&device, id, (rank, ranks), NcclConfig::default())?;
//!     let sent = world.broadcast(&stream, 0, weights.region(), Element::Bf16)?;
//!     world.wait(&stream)?;
//!     println!("{} bytes as {}", sent.raw_bytes, sent.stored_bytes);
//!     Ok(())
//! }
//! ```
//!
//! # Two ways
//! Each call goes by NCCL's own, plain one, or compressed: regions are encoded on a stream of the communicator's own,
//! headers with their lengths go ahead (32 bytes each, in device memory, read back), then frames and what stayed raw in one
//! group, and frames are decoded. So a compressed call waits on the host until all ranks concerned have come to it, and until the
//! compressed one before it has ended; what follows the headers is only enqueued, once all ranks concerned that are threads of
//! this process have found room for it. Bytes are what plain calls would have made
//! them, on either way. Plain are calls shorter than [`NcclConfig::least_bytes`], calls on a stream that records a graph, where
//! lengths must not change, calls for a while after some that compression did not shorten, and all where the policy is
//! `fixed:none` or `MGCOMP=off`.
//!
//! What a policy wants to look at is looked at on the device while it is on its way, and nobody waits for what is found: later
//! calls go by it.
//!
//! Nor does anybody wait to know how fast the link is, where neither [`NcclConfig::link`] says it nor a λ decides. What moves the
//! bytes of a broadcast, an all_gather or an all_to_all with headers is timed by events, each kind by itself, and later ones go by
//! that, from the third with headers on. What takes less than 600 us does not show it: such calls stay raw. So do single messages,
//! gathers and scatters, for which others may come late.
//!
//! Reductions are NCCL's own, with its order and rounding, or those of [`Operation`]: [`NcclConfig::reductions`] says which.
//!
//! # Order
//! As with NCCL, all ranks make the same calls in the same order, with counts and elements that agree, and record the same ones
//! in graphs; and where a rank uses several streams, each call's stream comes after the one before it. What a call does with its
//! regions comes after what was on its stream, and before what is enqueued there later. Regions must be there until then.
//! Calls are groups of their own, so they are not made between `ncclGroupStart` and `ncclGroupEnd`.
//!
//! Messages of at least [`NcclConfig::least_bytes`] ask for more than NCCL's: a call with some waits until its partners have come
//! to theirs. So such a message is in a group with the same partners at both ends: where one rank sends and receives in one
//! [`exchange`], the other does not in two calls. And where groups have several partners, ranks come to them in an order without
//! circles, as if each group were a meeting of all of them. Where the policy is `fixed:none` or `MGCOMP=off`, NCCL's own rule holds.
//!
//! Graphs that have recorded calls are destroyed before the communicator is dropped, since NCCL ends it only then. If it ends
//! before, or fails, also while calls are recorded, nobody waits for that longer than the limit: a thread of its own does so in
//! NCCL, until the graphs are destroyed, and its memory is left for good.
//!
//! # Memory and streams of other libraries
//! Regions may be memory that another library has allocated in the device's primary context, as PyTorch's tensors are
//! ([`Region::from_raw`]), and so may streams be that library's ([`Device::adopt_stream`]), the legacy default stream included.
//! So is that of the calling thread (`CU_STREAM_PER_THREAD`): NCCL enqueues on threads of its own, which have other streams by that
//! name, so plain calls go by a stream of the communicator's own then, in the same order. Neither is freed or destroyed here.
//! Regions of reductions that NCCL computes begin at a multiple of what a number takes.
//!
//! [`Device::adopt_stream`]: mgcomp_codecs::device::Device::adopt_stream
//! [`Region::from_raw`]: mgcomp_codecs::device::Region::from_raw
//!
//! # Failures
//! A call that fails for its arguments does nothing. Any other failure aborts the communicator: it can do no more, and the other
//! ranks fail too, at once where NCCL notices, else after [`NcclConfig::limit`]. Later calls do nothing and fail at once, as
//! [`NcclError::Broken`]. What was enqueued fails later: [`check`] asks for that, and [`wait`] waits for a stream no longer than
//! there is hope. What cannot be encoded, for want of memory or kernels, is no failure: it goes raw. It is one if data cannot be
//! looked at, or its stream not be held back until that is done, or if there is no memory for frames that come.
//!
//! A call that fails returns when nothing is on its stream any more, unless that one records, nor on the communicator's own, so
//! that nothing uses its regions. It waits for that up to the limit from the abort on: where other work keeps a stream for longer,
//! its regions may be in use until it has come to its end, as [`Stream::is_idle`] tells. [`check`], [`abort`] and who drops a
//! communicator know of no stream: regions of earlier calls may be in use until the streams of those calls have come to their
//! ends. [`wait`] waits for those too, after a failure as before, though it fails then.
//!
//! Where NCCL lets ranks write straight into each other's regions, as it may in one process, another rank may still write into
//! what it sends to until its own communicator is aborted. Whoever frees such a region after a failure waits for the other ranks
//! before, and so does whoever drops the communicator: the room for frames that come, which is given back then, is such a region.
//!
//! # Waits
//! Whatever a call waits for on the host it waits for up to [`NcclConfig::limit`]: what is before it on its stream, other ranks,
//! work of its own. There may be several such waits one after the other, each with the limit to itself; so has an abort, and
//! after it there is one more, for all streams together, which drop repeats. So where nothing goes on any more, because a rank is
//! gone, say, every call, [`wait`] and drop returns within twice the limit from then on; to make a communicator in vain takes up
//! to three times as long. Where things are merely slow, it may take longer.
//!
//! All that rests on communicators of NCCL's that do not block. `NCCL_COMM_BLOCKING` in the environment of a process comes before
//! what a communicator is asked to be; so where it is set to anything but 0, none is made ([`NcclError::Blocking`]). NCCL may also
//! read it from a file (`/etc/nccl.conf`, `~/.nccl.conf`, or what `NCCL_CONF_FILE` names), which is not looked at here: with
//! `NCCL_COMM_BLOCKING=1` there, limits do not hold.
//!
//! Not counted is what the driver takes within its own calls. To load kernels and to allocate memory, and to free it at the end,
//! it may wait for all that the device does. None of that is work of this communicator then, nor, as far as it knows, of the
//! streams of its calls; but it may be other work of the program's. Where that waits for a rank that has gone, as that of another
//! communicator may, those calls last until somebody ends it. So a program that has several communicators on a device [`abort`]s all of them before
//! it drops the first, once one has failed.
//!
//! While a graph is recorded, calls may be made on streams that do not record, also by the thread that records: what CUDA forbids
//! meanwhile, to ask for streams and to allocate, the thread is allowed for as long as the call takes.
//!
//! NCCL is looked for when a communicator is made ([`LIBRARY_VARIABLE`]); 2.14 is the oldest that will do.
//!
//! # Memory
//! Beside the caller's regions a communicator keeps room for the frames of its longest call in each direction, 1 MiB at least
//! for each and rounded up to a power of two; with [`Reductions::Ordered`] also for the numbers that it combines. What calls have
//! outgrown it keeps too, which is as much again at most: to free memory, the driver may wait for other ranks of the process, and
//! these in NCCL for this one. Before it finds more room, a call waits for what is on its stream. Reductions in the order of the
//! ranks do so beside what is said above, even if nothing is compressed: the first one of more than 1 MiB, and each that is
//! beyond a higher power of two than all before.
//!
//! To find more room, too, the driver may wait for other ranks of the process. So a call that may need some hands nothing to NCCL
//! before all ranks of the process that it concerns have found theirs. Plain messages go without that: where one waits for a
//! rank that first makes a call with a third one and finds more room there, the driver may wait for the message, and that for
//! the call, until the rank at its other end gives up.
//!
//! [`Operation`]: crate::communicator::Operation
//! [`exchange`]: NcclCommunicator::exchange
//! [`abort`]: NcclCommunicator::abort
//! [`check`]: NcclCommunicator::check
//! [`wait`]: NcclCommunicator::wait

mod choices;
mod config;
mod end;
mod entry;
mod error;
mod handle;
mod lane;
mod layout;
mod library;
mod messages;
mod neighbours;
mod operations;
mod ordered;
mod own;
mod reduce;
mod spread;

use std::collections::BTreeMap;
use std::time::Instant;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Device, DeviceError, Stream};

pub use self::config::{NcclConfig, Reductions};
pub use self::error::NcclError;
pub use self::library::{LIBRARY_VARIABLE, UniqueId};
pub use self::messages::Message;

use self::choices::Choices;
use self::entry::Entry;
use self::handle::Handle;
use self::lane::Lane;
use self::neighbours::Neighbours;
use self::ordered::Combiner;
use self::own::Own;
use crate::calibrate;
use crate::link::Position;
use crate::message::Rank;
use crate::node::{Stats, Tally};

/// What ranks tell each other when they meet has room for more than this version has to say: later ones tell as much.
const SHARED_WORDS: usize = 8;

/// Ranks that work together on device memory, over NCCL.
///
/// Dropping it waits for what is under way and for the other ranks to come to their end as well, each up to
/// [`NcclConfig::limit`], and after a failure once more for what was under way then. Where its own streams, or one that a call
/// or [`wait`](Self::wait) has waited for in vain after a failure, have not come to their ends by then, its memory is left for
/// good, and a warning says so: a device may still use it, and the driver would wait for that without a limit. To free memory
/// otherwise, the driver may wait for whatever else the program has on the device, as it may with any buffer.
#[derive(Debug)]
pub struct NcclCommunicator {
    handle: Handle,
    lane: Own<Lane>,
    choices: Choices,
    reductions: Reductions,
    /// If reductions are its affair.
    combiner: Option<Own<Combiner>>,
    /// Those that are threads of this process.
    neighbours: Neighbours,
    rank: u32,
    ranks: u32,
    /// Collectives with headers so far.
    calls: u64,
    stats: Stats,
    broken: Option<NcclError>,
    /// Whether something may be under way that its streams do not wait for: its memory cannot be given back.
    must_leave: bool,
}

/// What a rank has sent of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Bytes of its regions.
    pub raw_bytes: u64,
    /// What they were on their way.
    pub stored_bytes: u64,
}

impl Sent {
    const fn plain(raw_bytes: u64) -> Self {
        Self { raw_bytes, stored_bytes: raw_bytes }
    }
}

/// Bytes of what this rank tells all, and of what all do.
const fn shared_len(ranks: u32) -> u64 {
    8 * SHARED_WORDS as u64 * (1 + ranks as u64)
}

/// Counts what went behind a header.
fn count(stats: &mut Stats, entry: &Entry) {
    let algorithm = entry.coding().map_or(Algorithm::None, |coding| coding.algorithm);
    stats.count_sent(algorithm, entry.raw_len, entry.stored_len());
}

/// Counts what went by a plain call.
fn count_plain(stats: &mut Stats, raw_bytes: u64) {
    stats.count_sent(Algorithm::None, raw_bytes, raw_bytes);
}

impl NcclCommunicator {
    /// Meets the other ranks that have `id`, each with a device of its own. Ranks whose settings differ where they must not
    /// all fail.
    ///
    /// # Errors
    /// [`NcclError`] if there is no NCCL that will do, ranks do not come in time, or settings differ.
    pub fn new(
        device: &Device,
        id: UniqueId,
        (rank, ranks): (u32, u32),
        config: NcclConfig,
    ) -> Result<Self, NcclError> {
        device.relaxed(|| Self::meet(device, id, (rank, ranks), config))
    }

    fn meet(
        device: &Device,
        id: UniqueId,
        (rank, ranks): (u32, u32),
        config: NcclConfig,
    ) -> Result<Self, NcclError> {
        // Before anything is on its way, on any rank: memory is allocated, and a kernel is loaded.
        let lane = Lane::new(device, shared_len(ranks))?;
        let combiner = match config.reductions {
            Reductions::Ordered => Some(Combiner::new(device)?),
            Reductions::Nccl => None,
        };
        let neighbours = Neighbours::join(id, rank);
        let handle = Handle::create(device, id, (rank, ranks), config.limit)?;
        let speeds = calibrate::device_speeds(device.info());
        let choices = Choices::new(config, Position { rank: Rank(rank), ranks }, speeds);
        let mut communicator = Self {
            handle,
            lane: Own::new(lane),
            choices,
            reductions: config.reductions,
            combiner: combiner.map(Own::new),
            neighbours,
            rank,
            ranks,
            calls: 0,
            stats: Stats::default(),
            broken: None,
            must_leave: false,
        };
        let agreed = communicator.agree(&config);
        communicator.kept(agreed)?;
        Ok(communicator)
    }

    /// This rank.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.ranks
    }

    /// What this rank has sent so far, by algorithm. Plain calls count as [`Algorithm::None`], and what goes to this rank itself
    /// does not count.
    #[must_use]
    pub const fn sent(&self) -> &BTreeMap<Algorithm, Tally> {
        &self.stats.sent
    }

    /// Fails if something has that was enqueued, as far as is known.
    ///
    /// # Errors
    /// [`NcclError`], after which the communicator is aborted.
    pub fn check(&mut self) -> Result<(), NcclError> {
        self.usable()?;
        self.relaxed(|world| {
            let checked = world.handle.check().and_then(|()| world.lane.finish_if_over(&world.handle));
            world.kept(checked)
        })
    }

    /// Waits until all work on `stream` has ended, with what this communicator has enqueued. After a failure it waits for the
    /// stream as well, up to the limit.
    ///
    /// # Errors
    /// [`NcclError`] if something fails or takes longer than the limit, after which the communicator is aborted. For a stream that
    /// records, [`DeviceError::Recording`]; communicator and recording go on.
    ///
    /// [`DeviceError::Recording`]: mgcomp_codecs::device::DeviceError::Recording
    pub fn wait(&mut self, stream: &Stream) -> Result<(), NcclError> {
        self.relaxed(|world| {
            if let Err(broken) = world.usable() {
                world.outlast(Instant::now(), stream);
                return Err(broken);
            }
            let records = stream.is_capturing().map_err(NcclError::from);
            if matches!(records, Ok(true)) {
                // To ask how far it is would spoil what it records.
                return Err(DeviceError::Recording.into());
            }
            let waited = records.and_then(|_| world.handle.wait(stream, "work on a stream"));
            let finished = waited.and_then(|()| world.lane.finish(&world.handle));
            let checked = finished.and_then(|()| world.handle.check());
            world.kept_on(stream, checked)
        })
    }

    /// Ends what is under way, on all ranks: for a program that cannot go on, so that the others need not wait for it.
    pub fn abort(&mut self) {
        if self.broken.is_none() {
            self.give_up(NcclError::Aborted, None);
        }
    }

    /// Waits until the compressed call before has ended, and hears what was found in its data: what comes next on its stream
    /// comes after that look anyway. Returns whether data can be looked at.
    fn ready(&mut self) -> Result<bool, NcclError> {
        self.lane.finish(&self.handle)?;
        if !self.lane.probe.is_free() {
            self.handle.wait(self.lane.probe.stream(), "a look at data")?;
        }
        self.choices.hear(self.lane.probe.answers()?);
        if let Some((moved, took)) = self.lane.moved() {
            self.choices.timed(&moved, took);
        }
        if let Some((decoded, took)) = self.lane.decoded() {
            self.choices.decoded(decoded, took);
        }
        Ok(self.lane.probe.is_free())
    }

    /// Compares settings with those of all other ranks.
    fn agree(&mut self, config: &NcclConfig) -> Result<(), NcclError> {
        let shared = config.shared();
        let mut own = [0; 8 * SHARED_WORDS];
        for (word, (_, value)) in own.chunks_exact_mut(8).zip(shared) {
            word.copy_from_slice(&value.to_le_bytes());
        }
        let all = self.lane.share(&self.handle, &own, shared_len(self.ranks))?;
        for (rank, theirs) in (0..).zip(all.chunks_exact(SHARED_WORDS)) {
            for (&(what, own), &theirs) in shared.iter().zip(theirs) {
                if own != theirs {
                    return Err(NcclError::Settings { what, rank, own, theirs });
                }
            }
        }
        Ok(())
    }

    /// Does something that a thread may else not do while it records, or another one in its place.
    fn relaxed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let device = self.lane.device.clone();
        device.relaxed(|| work(self))
    }
}
