//! What there is once in a process: from the end of the program's `MPI_Init` to the beginning of its `MPI_Finalize`.
//!
//! Unsafe because of one pointer to it, which every call of the program reads.
#![allow(unsafe_code)]

use std::ffi::{OsString, c_int};
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use mgcomp_codecs::{Element, background};
use mgcomp_transport::attach::{self, Coder, EnvSettings, PartOf, To};
use mgcomp_transport::link::Position;
use mgcomp_transport::message::Rank;

use crate::abi::Reductions;
use crate::blocks::Blocks;
use crate::calls::loaded;
use crate::communicator::{Communicator, copy, delete};
use crate::data::{Data, Landing};
use crate::engine::pieces::Pieces;
use crate::failure::Failure;
use crate::freed::is_freed;
use crate::mpi::{Mpi, Shape};
use crate::pool::Pool;
use crate::types::{Comm, Type};
use crate::version::Version;

/// Data shorter than this goes by MPI's own collective at once, where nothing else is said.
const GATE: u64 = 256 << 10;
/// What says something else, in bytes.
const GATE_VARIABLE: &str = "MGCOMP_MPI_GATE";
/// What says how long the first piece of a block is, in bytes; without it, that is found out.
const PIECE_VARIABLE: &str = "MGCOMP_MPI_PIECE";
/// What says that reductions are carried out here as well.
const REDUCTIONS_VARIABLE: &str = "MGCOMP_MPI_REDUCTIONS";
/// After so long, it is said that other ranks are waited for at the beginning.
const ALONE: Duration = Duration::from_secs(10);
/// Streams of a communicator, one for each kind of collective.
const STREAMS: u32 = 8;

/// The layer, while MPI runs and it is to do something.
static ACTIVE: AtomicPtr<Layer> = AtomicPtr::new(ptr::null_mut());

/// What all collectives of the process use.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) mpi: Mpi,
    pub(crate) coder: Coder,
    pub(crate) keyval: c_int,
    pub(crate) gate: u64,
    /// Reductions that are carried out here; none if nobody has asked for that.
    pub(crate) reductions: Option<Reductions>,
    /// How data is cut.
    pub(crate) pieces: Pieces,
    pub(crate) pool: Pool,
    pub(crate) counts: Counts,
    /// A communicator of this process alone: packing needs one.
    own: Comm,
    /// One at a time sends to itself there.
    alone: Mutex<()>,
    streams: Mutex<Streams>,
    /// Communicators for messages between two ranks that there are now.
    pub(crate) shadows: AtomicU32,
}

/// Numbers of streams, of which each communicator has some.
#[derive(Debug, Default)]
struct Streams {
    /// The first ones of communicators that are gone.
    free: Vec<u32>,
    /// The first that nobody has had.
    next: u32,
}

/// What became of collectives at or above the gate.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Blocks that this rank sent compressed.
    pub(crate) compressed: AtomicU64,
    /// Their length.
    pub(crate) raw_bytes: AtomicU64,
    /// The same as sent.
    pub(crate) sent_bytes: AtomicU64,
    /// Blocks that it left as they are.
    pub(crate) plain: AtomicU64,
}

/// The layer, if it is at work.
pub(crate) fn active() -> Option<&'static Layer> {
    // SAFETY: null, or made of a box that is never freed.
    unsafe { ACTIVE.load(Ordering::Acquire).as_ref() }
}

/// Begins, at the end of a program's initialization of MPI. All ranks of the world do this together.
pub(crate) fn start() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    attach::log();
    let Some(mpi) = found() else { return };
    match Layer::new(mpi) {
        Ok(Some(layer)) => ACTIVE.store(Box::into_raw(Box::new(layer)), Ordering::Release),
        Ok(None) => {}
        Err(error) => tracing::error!(%error, "mgcomp does nothing in this program"),
    }
}

/// Ends, at the beginning of a program's finalization of MPI.
pub(crate) fn end() {
    let Some(layer) = active() else { return };
    for comm in [layer.mpi.constants.comm_world, layer.mpi.constants.comm_self] {
        if let Ok(Some(_)) = layer.mpi.attribute(comm, layer.keyval) {
            let _ = layer.mpi.delete_attribute(comm, layer.keyval);
        }
    }
    layer.mpi.free(layer.own);
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Counts { compressed, raw_bytes, sent_bytes, plain } = &layer.counts;
    tracing::info!(
        compressed = count(compressed),
        raw_bytes = count(raw_bytes),
        sent_bytes = count(sent_bytes),
        plain = count(plain),
        "mgcomp ends"
    );
    // Never freed: another thread may still be in a call.
    ACTIVE.store(ptr::null_mut(), Ordering::Release);
}

/// The MPI, if it is one that is known.
fn found() -> Option<Mpi> {
    let loaded = loaded();
    let constants = loaded.source.family().and_then(|family| family.constants(&loaded.source));
    if constants.is_none() {
        tracing::error!(
            "mgcomp does nothing: this MPI is neither Open MPI 4 or 5, nor MPICH, nor has the ABI of MPI 5"
        );
        return None;
    }
    if let Some(name) = loaded.calls.missing() {
        tracing::error!("mgcomp does nothing: this MPI has no {name}");
        return None;
    }
    Some(Mpi { calls: &loaded.calls, constants: constants? })
}

impl Layer {
    /// `None` where it is not wanted, or ranks do not agree.
    fn new(mpi: Mpi) -> Result<Option<Self>, Failure> {
        let world = mpi.constants.comm_world;
        let (ranks, rank) = mpi.position(world)?;
        let asked = Asked::from_env();
        // What can fail on one rank alone comes before the ranks agree: that one does not want it then.
        let made = mpi.keyval(copy, delete).and_then(|keyval| Ok((keyval, mpi.own()?)));
        let agreed = agree(&mpi, ranks, rank, &asked, made.is_ok())?;
        let (keyval, own) = made?;
        if !agreed {
            mpi.free(own);
            return Ok(None);
        }
        let Asked { settings, gate, piece, reductions } = asked;
        let pieces = match piece {
            Some(piece) => Pieces::with_first(piece),
            None => Pieces::measured(&mpi, world, ranks as usize)?,
        };
        let settings = settings.unwrap_or_default();
        let position = Position { rank: Rank(rank as u32), ranks: ranks as u32 };
        let source = &loaded().source;
        let family = source.family().map_or("?", |family| family.name());
        tracing::info!(rank, ranks, abi = family, policy = %settings.policy, gate, reductions, first_piece = pieces.first(), "mgcomp {}", env!("CARGO_PKG_VERSION"));
        let known = || source.family().and_then(|family| family.reductions(source));
        Ok(Some(Self {
            mpi,
            coder: Coder::new(position, &settings),
            keyval,
            gate,
            reductions: reductions.then(known).flatten(),
            pieces,
            pool: Pool::default(),
            counts: Counts::default(),
            own,
            alone: Mutex::new(()),
            streams: Mutex::default(),
            shadows: AtomicU32::new(0),
        }))
    }

    /// The first of a communicator's streams.
    pub(crate) fn new_streams(&self) -> u32 {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.free.pop().unwrap_or_else(|| {
            let first = streams.next;
            streams.next = first.wrapping_add(STREAMS);
            first
        })
    }

    /// A communicator is gone, and others may have its streams: there is room for what is known of so many alone.
    pub(crate) fn give_streams(&self, first: u32) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).free.push(first);
    }

    /// What `len` bytes of that datatype are to the gate: all ranks come to the same answer.
    pub(crate) fn is_long(&self, len: Option<u64>) -> bool {
        len.is_some_and(|len| len >= self.gate && len <= i64::MAX as u64)
    }

    /// The same for data of which there may be none, which then may be anywhere.
    pub(crate) fn usable_if_any(&self, data: &Data) -> Result<Option<Shape>, Failure> {
        if data.count() < 0 {
            return Ok(None);
        }
        match data.count() == 0 && data.address() as usize != self.mpi.constants.in_place {
            true => self.shape(data.datatype()),
            false => self.usable(data),
        }
    }

    /// The communicator, if it is one and collectives on it can be compressed.
    pub(crate) fn communicator(&self, comm: Comm) -> Result<Option<Arc<Communicator>>, Failure> {
        if comm == self.mpi.constants.comm_null || is_freed(&self.mpi, comm) {
            return Ok(None);
        }
        Ok(Communicator::of(self, comm)?.filter(|found| found.is_possible()))
    }

    /// Bytes of `data`, if it is any that MPI would take.
    pub(crate) fn len(&self, data: &Data) -> Result<Option<u64>, Failure> {
        let Ok(count) = u64::try_from(data.count()) else { return Ok(None) };
        Ok(self.size_of(data.datatype())?.and_then(|size| size.checked_mul(count)))
    }

    /// Bytes in one value of a datatype, if it is one that MPI would take for communication.
    pub(crate) fn size_of(&self, datatype: Type) -> Result<Option<u64>, Failure> {
        match self.is_known(datatype) {
            true => self.mpi.size_of(datatype).map(Some),
            false => Ok(None),
        }
    }

    /// What a datatype is like, if it is one that MPI would take for communication.
    fn shape(&self, datatype: Type) -> Result<Option<Shape>, Failure> {
        match self.is_known(datatype) {
            true => self.mpi.shape(datatype).map(Some),
            false => Ok(None),
        }
    }

    /// Whether a datatype is one, and committed. Comes before all else that is asked about one: of what is none MPI would tell the
    /// handler of errors of `MPI_COMM_WORLD`, which may end the program though that of the communicator would not.
    fn is_known(&self, datatype: Type) -> bool {
        datatype != self.mpi.constants.datatype_null && self.mpi.is_packable(datatype, self.own)
    }

    /// What the datatype of `data` is like, if MPI would take it for communication, and the address too.
    pub(crate) fn usable(&self, data: &Data) -> Result<Option<Shape>, Failure> {
        let Some(shape) = self.shape(data.datatype())? else { return Ok(None) };
        let address = data.address() as usize;
        let is_usable = !shape.is_dense || address != 0 || shape.size == 0;
        Ok((is_usable && address != self.mpi.constants.in_place).then_some(shape))
    }

    /// The same for blocks of so many ranks, of which there may be none. All ranks come to the same, wherever they count places from.
    pub(crate) fn usable_blocks(&self, blocks: &Blocks, ranks: c_int) -> Result<Option<Shape>, Failure> {
        let Some(longest) = blocks.longest(ranks) else { return Ok(None) };
        if blocks.address as usize == self.mpi.constants.in_place {
            return Ok(None);
        }
        let Some(shape) = self.shape(blocks.datatype)? else { return Ok(None) };
        let is_usable = longest.count() == 0 || !shape.is_dense || blocks.have_addresses(ranks, &shape);
        Ok(is_usable.then_some(shape))
    }

    /// Seals a piece of what goes that way; returns the length of the message. `None` if it is to go as it is, and counts so.
    pub(crate) fn seal(
        &self,
        way: &To,
        raw: &[u8],
        message: &mut [u8],
        part_of: Option<PartOf<'_>>,
    ) -> Result<Option<usize>, Failure> {
        let sealed = self.coder.seal_frame(way, raw, message, part_of)?;
        if let Some(len) = sealed {
            self.counts.raw_bytes.fetch_add(raw.len() as u64, Ordering::Relaxed);
            self.counts.sent_bytes.fetch_add(len as u64, Ordering::Relaxed);
        }
        Ok(sealed)
    }

    /// Makes a message of a piece that is to go as it is; returns its length.
    pub(crate) fn seal_raw(&self, raw: &[u8], message: &mut [u8]) -> Result<usize, Failure> {
        let len = self.coder.seal_raw(Element::U8, raw, message)?;
        message[len..len + raw.len()].copy_from_slice(raw);
        Ok(len + raw.len())
    }

    /// Opens a message of `from`, which is to fill `into`.
    pub(crate) fn open(
        &self,
        comm: &Communicator,
        from: c_int,
        message: &[u8],
        into: &mut [u8],
    ) -> Result<(), Failure> {
        let found = self.coder.open(comm.peer(from), message, into)?;
        match found == into.len() {
            true => Ok(()),
            false => Err(Failure::Length { expected: into.len() as u64, found: found as u64 }),
        }
    }

    /// Counts a block that was begun.
    pub(crate) fn count(&self, is_compressed: bool) {
        let Counts { compressed, plain, .. } = &self.counts;
        (if is_compressed { compressed } else { plain }).fetch_add(1, Ordering::Relaxed);
    }

    /// Brings the values of `data` into `bytes`.
    pub(crate) fn pack(&self, data: &Data, bytes: &mut [u8]) -> Result<(), Failure> {
        let _alone = self.alone_with(bytes.len());
        self.mpi.pack(data, bytes, self.own)
    }

    /// Brings `bytes` to where the values of `data` belong.
    pub(crate) fn unpack(&self, bytes: &[u8], data: &Data) -> Result<(), Failure> {
        let _alone = self.alone_with(bytes.len());
        self.mpi.unpack(bytes, data, self.own)
    }

    /// Brings `bytes` to where the values of `data` belong, which are like `shape`.
    pub(crate) fn put(&self, bytes: &[u8], data: &Data, shape: Shape) -> Result<(), Failure> {
        let mut landing = Landing::new(data, shape);
        let room = landing.room();
        if room.len() != bytes.len() {
            return Err(Failure::Length { expected: room.len() as u64, found: bytes.len() as u64 });
        }
        room.copy_from_slice(bytes);
        landing.finish(self)
    }

    /// Copies data within this process.
    pub(crate) fn copy(&self, from: &Data, of: Shape, to: &Data, shape: Shape) -> Result<(), Failure> {
        self.put(from.host_bytes(&of, self)?.as_slice().unwrap_or_default(), to, shape)
    }

    /// What no integer counts is sent to this process itself, one at a time.
    fn alone_with(&self, len: usize) -> Option<MutexGuard<'_, ()>> {
        (c_int::try_from(len).is_err()).then(|| self.alone.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the environment says.
struct Asked {
    /// None if something of it makes no sense.
    settings: Option<EnvSettings>,
    gate: u64,
    /// Bytes of a first piece, if that is said.
    piece: Option<usize>,
    reductions: bool,
}

impl Asked {
    fn from_env() -> Self {
        let settings = EnvSettings::from_env().inspect_err(|error| tracing::error!("{error}")).ok();
        let gate = number_from_env(GATE_VARIABLE, 1..=u64::MAX);
        let (shortest, longest) = Pieces::LENGTHS.into_inner();
        let piece = number_from_env(PIECE_VARIABLE, shortest as u64..=longest as u64);
        let reductions = switch_from_env();
        let settings = settings.filter(|_| gate.is_some() && piece.is_some() && reductions.is_some());
        match &settings {
            None => tracing::error!("mgcomp does nothing in this process"),
            Some(settings) if settings.off => {
                tracing::info!(
                    "mgcomp {} is loaded, and switched off (MGCOMP=off)",
                    env!("CARGO_PKG_VERSION")
                );
            }
            Some(_) => {}
        }
        let (gate, reductions) = (gate.flatten().unwrap_or(GATE), reductions.unwrap_or(false));
        Self { settings, gate, piece: piece.flatten().map(|piece| piece as usize), reductions }
    }

    fn is_on(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| !settings.off)
    }
}

/// A number of bytes, if anything is said of it; none if what is said makes no sense.
fn number_from_env(variable: &str, sensible: RangeInclusive<u64>) -> Option<Option<u64>> {
    let Some(asked) = from_env(variable) else { return Some(None) };
    let number =
        asked.to_str().and_then(|asked| asked.parse().ok()).filter(|number| sensible.contains(number));
    if number.is_none() {
        let (least, most) = sensible.into_inner();
        tracing::error!("{variable}={asked:?} is no number of bytes from {least} to {most}");
    }
    number.map(Some)
}

/// Whether reductions are wanted; none if what is said makes no sense.
fn switch_from_env() -> Option<bool> {
    let Some(asked) = from_env(REDUCTIONS_VARIABLE) else { return Some(false) };
    match asked.to_str() {
        Some("on") => Some(true),
        Some("off") => Some(false),
        _ => {
            tracing::error!("{REDUCTIONS_VARIABLE}={asked:?} is neither on nor off");
            None
        }
    }
}

fn from_env(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|asked| !asked.is_empty())
}

/// Whether all ranks of the world want the same, and can.
fn agree(mpi: &Mpi, ranks: c_int, rank: c_int, asked: &Asked, can: bool) -> Result<bool, Failure> {
    let is_on = asked.is_on() && can;
    let piece = asked.piece.unwrap_or(0) as u64;
    let switches = u64::from(is_on) | u64::from(asked.reductions) << 1 | piece << 2;
    let own = [Version::own().word(), asked.gate, switches];
    let own: Vec<u8> = own.into_iter().flat_map(u64::to_le_bytes).collect();
    let mut all = vec![0; own.len() * ranks as usize];
    {
        // A rank that is without this library is in its program by now, and nobody hears of it.
        let _waiting = Late::unless_over_in(ALONE);
        mpi.allgather(&own, &mut all, mpi.constants.comm_world)?;
    }
    let differs = all.chunks(own.len()).position(|other| other != own);
    if let (Some(other), 0) = (differs, rank) {
        tracing::error!(
            "mgcomp does nothing: rank {other} has another version, another {GATE_VARIABLE}, {PIECE_VARIABLE} or {REDUCTIONS_VARIABLE}, or another MGCOMP=on or off than rank 0, or one of them cannot begin"
        );
    }
    Ok(is_on && differs.is_none())
}

/// Says that ranks are waited for, if that goes on for so long; over when dropped.
struct Late {
    over: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Late {
    fn unless_over_in(limit: Duration) -> Self {
        let (over, waits) = mpsc::channel();
        let wait = move || {
            if waits.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                tracing::error!(
                    "mgcomp waits for all ranks to begin: if it goes on, some of them have been started without this library, or with \
                     another one"
                );
            }
        };
        // Without a thread, nothing is said.
        let thread = background::spawn("mgcomp-wait", wait).ok();
        Self { over: Some(over), thread }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
