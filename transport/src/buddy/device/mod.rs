//! Pools in the memory of a device, which codes entries by itself.

mod error;
mod memory;
mod stage;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{
    BuddyEntries, Buffer, Device, DeviceError, EntryCounts, EntryForm, EntryMover, EntryReport, MoveEntries,
    Region, SlotShare, Stream, Workspace,
};

use super::ledger::{Allocation, Ledger, Live, Room, check_range};
use super::stats::{Accesses, Stats};
use super::{Form, Target};

pub use error::DeviceBuddyError;
use memory::BuddyMemory;
pub use stage::STAGE_LEN;
use stage::Stage;

/// Device memory that holds more than it has: allocations in entries of any [`Form`], which the device codes. What does
/// not fit its memory is in buddy memory: page-locked memory of the host, or memory of another device. Of that the device
/// reads and writes what does not fit, over its link, and nothing else.
///
/// The entries are those of a [`BuddyPool`](super::BuddyPool), bit for bit. Besides its memories a pool takes
/// [`STAGE_LEN`] bytes of the device, for calls from and to memory of the host.
///
/// # Threads and streams
/// As of a `BuddyPool`, any number of threads may read at once. [`enqueue_read`](Self::enqueue_read) and
/// [`enqueue_write`](Self::enqueue_write) wait for nothing: who uses several streams sees to it that nothing is written on
/// one while another reads or writes what has a byte in the same entry, counted from the start of the allocation. Of
/// [`Form::Bpc`] that means the same 256 bytes: two entries share a byte of states. All other calls take a stream and wait for
/// its work first, by [relaxed](Device::relaxed) rules.
///
/// ```
/// use mgcomp_codecs::device::{Device, DeviceError, EntryReport, workspace_len};
/// use mgcomp_codecs::frame::ChunkSize;
/// use mgcomp_transport::buddy::{DeviceBuddyPool, Target};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = match Device::open(0) {
///     Err(DeviceError::NoDriver) => return Ok(()), // no GPU here
///     device => device?,
/// };
/// let stream = device.stream()?;
/// let mut pool = DeviceBuddyPool::new(&device, 64 << 10, 1 << 20)?;
/// let ramp: Vec<u8> = (0..16_000u32).flat_map(u32::to_le_bytes).collect();
/// let allocation = pool.alloc(&stream, 64_000, Target::Four)?;
/// pool.write(&stream, allocation, 0..64_000, &ramp)?; // from memory of the host; waits
///
/// let (out, report) = (device.alloc(1001)?, device.alloc(EntryReport::LEN)?);
/// let mut workspace = device.workspace(&stream, workspace_len(ChunkSize::SMALL, &[]))?;
/// // To memory of the device; waits for nothing.
/// pool.enqueue_read(&stream, &mut workspace, allocation, 99, out.region(), report.region())?;
/// assert_eq!(pool.moved(&stream, report.region())?.reads, 9); // waits
/// assert_eq!(pool.stats(&stream)?.accesses.buddy_share(), 0.0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DeviceBuddyPool {
    device: Device,
    bpc: EntryMover,
    /// From the first allocation of this form on.
    xp: OnceLock<EntryMover>,
    sm_limit: u32,
    memory: Buffer,
    buddy: BuddyMemory,
    /// With each allocation where the device counts what is done to it.
    ledger: Ledger<Buffer>,
    /// What was done to allocations that are freed.
    of_freed: Accesses,
    /// Of allocations that failed: work that nobody could wait for may still write to these.
    pending: Vec<Buffer>,
    stage: Mutex<Stage>,
}

/// Why the states of a room were not made zero.
struct Uncleared {
    error: DeviceError,
    /// Whether they may become zero all the same, later, with the counts of the allocation.
    pending: Option<Buffer>,
}

impl From<DeviceError> for Uncleared {
    fn from(error: DeviceError) -> Self {
        Self { error, pending: None }
    }
}

impl DeviceBuddyPool {
    /// A pool of so much memory of a device and, for what does not fit, page-locked memory of the host.
    ///
    /// The first time this loads the kernels of BPC.
    ///
    /// # Errors
    /// Whatever the driver says; see [`DeviceError::is_out_of_memory`].
    pub fn new(device: &Device, device_bytes: u64, buddy_bytes: u64) -> Result<Self, DeviceBuddyError> {
        Self::over(device, device_bytes, BuddyMemory::on_host(device, buddy_bytes)?)
    }

    /// A pool of so much memory of a device and, for what does not fit, memory of `peer`.
    ///
    /// # Errors
    /// [`DeviceBuddyError::OutOfReach`] if kernels of the device cannot use that, and whatever the driver says.
    pub fn with_peer(
        device: &Device,
        device_bytes: u64,
        peer: &Device,
        buddy_bytes: u64,
    ) -> Result<Self, DeviceBuddyError> {
        Self::over(device, device_bytes, BuddyMemory::on_peer(device, peer, buddy_bytes)?)
    }

    fn over(device: &Device, device_bytes: u64, buddy: BuddyMemory) -> Result<Self, DeviceBuddyError> {
        let memory = device.alloc(device_bytes)?;
        Ok(Self {
            device: device.clone(),
            bpc: device.entry_mover(EntryForm::Bpc)?,
            xp: OnceLock::new(),
            sm_limit: u32::MAX,
            ledger: Ledger::new(device_bytes, buddy.region().len()),
            memory,
            buddy,
            of_freed: Accesses::default(),
            pending: Vec::new(),
            stage: Mutex::new(Stage::new(device)?),
        })
    }

    /// Keeps each launch to as many blocks as `count` multiprocessors can run at a time, at least 1; see
    /// [`EntryMover::limit_sms`].
    #[must_use]
    pub fn limit_sms(self, count: u32) -> Self {
        let xp = self.xp.into_inner().map(|mover| mover.limit_sms(count));
        let xp = xp.map_or_else(OnceLock::new, OnceLock::from);
        Self { bpc: self.bpc.limit_sms(count), xp, sm_limit: count, ..self }
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Device memory and buddy memory, for who wants to keep or look at what is stored: it is what a
    /// [`BuddyPool`](super::BuddyPool) of as much memory stores after the same calls, and `FORMAT.md` says what that is.
    #[must_use]
    pub const fn memories(&self) -> (Region<'_>, Region<'_>) {
        (self.memory.region(), self.buddy.region())
    }

    /// Allocates `len` zero bytes in entries of [`Form::Bpc`].
    ///
    /// # Errors
    /// As [`alloc_as`](Self::alloc_as).
    pub fn alloc(
        &mut self,
        stream: &Stream,
        len: u64,
        target: Target,
    ) -> Result<Allocation, DeviceBuddyError> {
        self.alloc_as(stream, len, Form::Bpc, target)
    }

    /// Allocates `len` zero bytes, and waits until they are there and all work on `stream` has ended. What they will hold
    /// need not reach the target: what does not fit goes to buddy memory, for which all room is taken now.
    ///
    /// The first time this loads the kernels of the form, as [`Device::coder`] does.
    ///
    /// # Errors
    /// If one of the memories has no room for it, or the form has no such target; and whatever the driver says. If it
    /// does not even wait for the stream, the room stays taken for as long as there is the pool.
    pub fn alloc_as(
        &mut self,
        stream: &Stream,
        len: u64,
        form: Form,
        target: Target,
    ) -> Result<Allocation, DeviceBuddyError> {
        let room = self.ledger.take(len, form, target)?;
        match self.device.relaxed(|| self.clear(stream, &room)) {
            Ok(counts) => Ok(self.ledger.settle(room, counts)),
            Err(Uncleared { error, pending }) => {
                match pending {
                    Some(counts) => self.pending.push(counts),
                    None => self.ledger.give_back(&room),
                }
                Err(error.into())
            }
        }
    }

    /// Makes the states of a new allocation zero, and its counts, and sees to its kernels.
    fn clear(&self, stream: &Stream, room: &Room) -> Result<Buffer, Uncleared> {
        self.mover(room.shape.form)?;
        let counts = self.device.alloc(EntryCounts::LEN)?;
        let start = room.shape.metadata_at;
        stream.zero(self.memory.slice(start..start + room.footprint.metadata_bytes))?;
        let cleared = stream.zero(counts.region());
        // Also after an error: states that become zero later may be another allocation's by then.
        let ended = stream.wait();
        // With the context all work has ended; and what a stream records, this wait has spoiled, so it never runs.
        let is_lost = |error: &DeviceError| error.is_sticky() || stream.is_capturing() == Ok(true);
        let is_pending = ended.as_ref().is_err_and(|error| !is_lost(error));
        match cleared.and(ended) {
            Ok(()) => Ok(counts),
            Err(error) => Err(Uncleared { error, pending: is_pending.then_some(counts) }),
        }
    }

    /// Frees an allocation, when all work on `stream` has ended, which is waited for. Work with it on other streams must
    /// have ended. Its handle is of no use from then on.
    ///
    /// # Errors
    /// If it is freed already, or another pool's; and whatever the driver says, and then it is still there.
    pub fn free(&mut self, stream: &Stream, allocation: Allocation) -> Result<(), DeviceBuddyError> {
        let accesses = self.stats_of(stream, self.ledger.live(allocation)?)?.accesses;
        self.ledger.free(allocation)?;
        self.of_freed += accesses;
        Ok(())
    }

    /// Reads the bytes of `range` to memory of the host, when all work on `stream` has ended, which is waited for.
    ///
    /// # Errors
    /// If the allocation or the range is not there, or `out` is not as long. [`DeviceBuddyError::Refused`] if an entry is
    /// damaged: then `out` is good as far as the error says and has anything behind that. And whatever the driver says.
    pub fn read(
        &self,
        stream: &Stream,
        allocation: Allocation,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), DeviceBuddyError> {
        let live = self.ledger.live(allocation)?;
        check_range(live.shape(), &range, out.len() as u64)?;
        self.device.relaxed(|| stream.wait())?;
        self.stage().read(self.mover_of(live)?, &self.entries(live), range, out)
    }

    /// Writes bytes of the host to those of `range`, when all work on `stream` has ended, and waits for that. An entry that
    /// is written in part is read before.
    ///
    /// # Errors
    /// If the allocation or the range is not there, or `data` is not as long: then nothing is written.
    /// [`DeviceBuddyError::Refused`] if an entry that has to be read is damaged, and whatever the driver says: then as much
    /// is written as the error says.
    pub fn write(
        &mut self,
        stream: &Stream,
        allocation: Allocation,
        range: Range<u64>,
        data: &[u8],
    ) -> Result<(), DeviceBuddyError> {
        let live = self.ledger.live(allocation)?;
        check_range(live.shape(), &range, data.len() as u64)?;
        self.device.relaxed(|| stream.wait())?;
        self.stage().write(self.mover_of(live)?, &self.entries(live), range, data)
    }

    /// Enqueues a read of the bytes from `start` on, as many as `out` has, which is device memory at any address. It waits
    /// for nothing and can be recorded in a graph; what entries are wrong is in the report, see [`moved`](Self::moved), and
    /// of these nothing is written to `out`.
    ///
    /// # Errors
    /// If the allocation or the range is not there, for regions that do not fit, and whatever the driver says; then nothing
    /// is enqueued.
    pub fn enqueue_read(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        allocation: Allocation,
        start: u64,
        out: Region<'_>,
        report: Region<'_>,
    ) -> Result<(), DeviceBuddyError> {
        let live = self.ledger.live(allocation)?;
        let wanted = part(live, start, out, report)?;
        Ok(self.mover_of(live)?.read(stream, workspace, &self.entries(live), &wanted)?)
    }

    /// Enqueues a write of `data`, device memory at any address, to the bytes from `start` on. It waits for nothing and can
    /// be recorded in a graph. An entry that is written in part is read before; if it is wrong, it stays as it is, and
    /// the report says so.
    ///
    /// # Errors
    /// As [`enqueue_read`](Self::enqueue_read).
    pub fn enqueue_write(
        &mut self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        allocation: Allocation,
        start: u64,
        data: Region<'_>,
        report: Region<'_>,
    ) -> Result<(), DeviceBuddyError> {
        let live = self.ledger.live(allocation)?;
        let wanted = part(live, start, data, report)?;
        Ok(self.mover_of(live)?.write(stream, workspace, &self.entries(live), &wanted)?)
    }

    /// What the last read or write with this report has done, when all work on `stream` has ended, which is waited for.
    ///
    /// # Errors
    /// [`DeviceBuddyError::Refused`] if entries were wrong, and whatever the driver says.
    pub fn moved(&self, stream: &Stream, report: Region<'_>) -> Result<EntryCounts, DeviceBuddyError> {
        let mut bytes = [0; EntryReport::LEN as usize];
        stream.download(report, &mut bytes)?;
        let report = EntryReport::from_bytes(&bytes);
        report.check().map_err(|refused| DeviceBuddyError::Refused { refused, done: 0 })?;
        Ok(report.counts)
    }

    /// What an allocation holds, and what has been done to it, when all work on `stream` has ended, which is waited for.
    /// The metadata cache is that of the device, which tells nothing of it: its counts are 0.
    ///
    /// # Errors
    /// If the allocation is not there, and whatever the driver says.
    pub fn allocation_stats(
        &self,
        stream: &Stream,
        allocation: Allocation,
    ) -> Result<Stats, DeviceBuddyError> {
        Ok(self.stats_of(stream, self.ledger.live(allocation)?)?)
    }

    /// What all allocations hold, and what has been done to them and to those that are freed, when all work on `stream` has
    /// ended, which is waited for; see [`allocation_stats`](Self::allocation_stats).
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn stats(&self, stream: &Stream) -> Result<Stats, DeviceBuddyError> {
        let mut all = Stats { accesses: self.of_freed, ..Stats::default() };
        for live in self.ledger.all() {
            all += self.stats_of(stream, live)?;
        }
        Ok(all)
    }

    fn stats_of(&self, stream: &Stream, live: &Live<Buffer>) -> Result<Stats, DeviceError> {
        let mut bytes = [0; EntryCounts::LEN as usize];
        stream.download(live.own.region(), &mut bytes)?;
        let EntryCounts { reads, buddy_reads, writes, buddy_writes, overflowing } =
            EntryCounts::from_bytes(&bytes);
        let accesses = Accesses { reads, buddy_reads, writes, buddy_writes, ..Accesses::default() };
        // Never below zero, but for states that somebody else wrote.
        Ok(Stats { overflowing_entries: overflowing.max(0).cast_unsigned(), accesses, ..live.stats() })
    }

    /// The kernels for entries of a form, which are loaded if they are not yet.
    fn mover(&self, form: Form) -> Result<&EntryMover, DeviceError> {
        let Form::Xp(_) = form else { return Ok(&self.bpc) };
        if let Some(mover) = self.xp.get() {
            return Ok(mover);
        }
        let mover = self.device.entry_mover(EntryForm::Xp)?.limit_sms(self.sm_limit);
        Ok(self.xp.get_or_init(|| mover))
    }

    fn mover_of(&self, live: &Live<Buffer>) -> Result<&EntryMover, DeviceError> {
        self.mover(live.shape().form)
    }

    /// The entries of an allocation, for the kernels.
    fn entries<'a>(&'a self, live: &'a Live<Buffer>) -> BuddyEntries<'a> {
        let Room { shape, footprint } = &live.room;
        let part = |region: Region<'a>, start, len| region.slice(start..start + len);
        let memory = self.memory.region();
        BuddyEntries {
            slots: part(memory, shape.device_at, footprint.device_bytes),
            states: part(memory, shape.metadata_at, footprint.metadata_bytes),
            spills: part(self.buddy.region(), shape.buddy_at, footprint.buddy_bytes),
            len: shape.len,
            element: element_of(shape.form),
            slot_share: slot_share(shape.target),
            totals: Some(live.own.region()),
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of an allocation from `start` on, as many as `data` has.
fn part<'a>(
    live: &Live<Buffer>,
    start: u64,
    data: Region<'a>,
    report: Region<'a>,
) -> Result<MoveEntries<'a>, DeviceBuddyError> {
    let range = start..start.saturating_add(data.len());
    check_range(live.shape(), &range, data.len())?;
    Ok(MoveEntries { range, data, report })
}

/// What the bytes are of an allocation of this form, where that matters.
const fn element_of(form: Form) -> Element {
    match form {
        Form::Bpc => Element::U8,
        Form::Xp(element) => element,
    }
}

/// What a target gives an entry.
const fn slot_share(target: Target) -> SlotShare {
    match target {
        Target::One => SlotShare::Whole,
        Target::FourThirds => SlotShare::ThreeQuarters,
        Target::EightFifths => SlotShare::FiveEighths,
        Target::Two => SlotShare::Half,
        Target::EightThirds => SlotShare::ThreeEighths,
        Target::Four => SlotShare::Quarter,
        Target::Sixteen => SlotShare::Sixteenth,
    }
}
