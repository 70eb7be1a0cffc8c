//! Buddy pools: memory that holds more than it has.
#![allow(unsafe_code)] // called from C

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, PoisonError, RwLock};

use mgcomp_transport::buddy::{Allocation, BuddyError, BuddyPool, Form, MemoryError, Stats, Target};

use crate::error::{Failure, call, making, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::memory::{Out, Span};
use crate::number::{element, mgcompElement, number};

static POOLS: Handles<Held> = Handles::new(Kind::BuddyPool);

/// A pool of device memory and buddy memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompBuddyPool {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// An allocation in a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompBuddyAllocation {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// How the entries of an allocation are coded.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub enum mgcompBuddyForm {
    /// Bit-planes, in entries of 128 bytes: for what has neighbours that are alike.
    Bpc = 0,
    /// Exponents in few bits, in entries of 32 KiB: for floats.
    Xp = 1,
}

/// The target ratio of an allocation: of each entry, this part has a place in device memory.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub enum mgcompBuddyTarget {
    /// Ratio 1: all of it.
    One = 0,
    /// Ratio 4/3: three quarters.
    FourThirds = 1,
    /// Ratio 8/5: five eighths; not for MGCOMP_BUDDY_FORM_BPC.
    EightFifths = 2,
    /// Ratio 2: a half.
    Two = 3,
    /// Ratio 8/3: three eighths; not for MGCOMP_BUDDY_FORM_BPC.
    EightThirds = 4,
    /// Ratio 4: a quarter.
    Four = 5,
    /// Ratio 16: a sixteenth.
    Sixteen = 6,
}

/// What an allocation or a pool holds, and what has been done to it. An access is an entry that a call reads or writes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompBuddyStats {
    /// Bytes of the allocations, as asked for.
    pub raw_bytes: u64,
    /// Bytes of their places in device memory.
    pub device_bytes: u64,
    /// Bytes of their metadata, in device memory too.
    pub metadata_bytes: u64,
    /// Bytes of buddy memory that are theirs, used or not.
    pub buddy_bytes: u64,
    /// Entries that there are.
    pub entries: u64,
    /// Of these, entries that do not fit their places in device memory now.
    pub overflowing_entries: u64,
    /// Entries read so far.
    pub reads: u64,
    /// Of these, entries of which a part was in buddy memory.
    pub buddy_reads: u64,
    /// Entries written so far.
    pub writes: u64,
    /// Of these, entries of which a part went to buddy memory.
    pub buddy_writes: u64,
}

/// A pool, and the handles of its allocations.
#[derive(Debug)]
struct Held {
    pool: RwLock<BuddyPool>,
    allocations: Handles<Allocation>,
}

/// Makes a pool of host memory: as much for what stands for device memory, and as much for buddy memory, all of it zero.
///
/// @param pool set to the handle, to be given to mgcompDestroyBuddyPool.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompCreateBuddyPool(
    device_bytes: u64,
    buddy_bytes: u64,
    pool: *mut mgcompBuddyPool,
) -> mgcompResult {
    making(|| {
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("pool", pool) }?;
        let pool = RwLock::new(BuddyPool::new(device_bytes, buddy_bytes)?);
        let held = Held { pool, allocations: Handles::new(Kind::BuddyAllocation) };
        out.set(mgcompBuddyPool { id: POOLS.insert(held)? });
        Ok(())
    })
}

/// Destroys a pool with all its allocations.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyBuddyPool(pool: mgcompBuddyPool) -> mgcompResult {
    call(|| POOLS.remove(pool.id).map(drop))
}

/// Allocates zero bytes. What they will hold need not reach the target: what does not fit goes to buddy memory, for which all
/// room is taken now.
///
/// @param bytes at least 1.
/// @param element what the bytes are; MGCOMP_BUDDY_FORM_BPC has no use for it.
/// @param allocation set to the handle, to be given to mgcompFreeBuddy. It is of use only with this pool.
///
/// Any number of threads may call this at once; one after the other has its turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompAllocateBuddy(
    pool: mgcompBuddyPool,
    bytes: u64,
    form: MaybeUninit<mgcompBuddyForm>,
    element: MaybeUninit<mgcompElement>,
    target: MaybeUninit<mgcompBuddyTarget>,
    allocation: *mut mgcompBuddyAllocation,
) -> mgcompResult {
    call(|| {
        let (form, target) = (form_of(form, self::element(element)?)?, target_of(target)?);
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("allocation", allocation) }?;
        changing(pool, |pool, allocations| {
            let allocation = pool.alloc_as(bytes, form, target)?;
            let inserted = allocations.insert(allocation);
            if inserted.is_err() {
                pool.free(allocation)?;
            }
            out.set(mgcompBuddyAllocation { id: inserted? });
            Ok(())
        })
    })
}

/// Frees an allocation.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompFreeBuddy(pool: mgcompBuddyPool, allocation: mgcompBuddyAllocation) -> mgcompResult {
    call(|| changing(pool, |pool, allocations| Ok(pool.free(*allocations.remove(allocation.id)?)?)))
}

/// Writes bytes of an allocation.
///
/// @param offset where they start, in bytes.
/// @param data bytes bytes, which must lie inside the allocation.
///
/// Any number of threads may call this at once; one after the other has its turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompWriteBuddy(
    pool: mgcompBuddyPool,
    allocation: mgcompBuddyAllocation,
    offset: u64,
    data: *const c_void,
    bytes: usize,
) -> mgcompResult {
    call(|| {
        let data = Span::new("data", data, bytes)?;
        changing(pool, |pool, allocations| {
            let allocation = *allocations.get(allocation.id)?;
            // SAFETY: the header asks for these bytes.
            Ok(pool.write(allocation, offset..offset.saturating_add(bytes as u64), unsafe { data.bytes() })?)
        })
    })
}

/// Reads bytes of an allocation.
///
/// @param offset where they start, in bytes.
/// @param out room for bytes bytes, which must lie inside the allocation.
///
/// Any number of threads may read from a pool at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompReadBuddy(
    pool: mgcompBuddyPool,
    allocation: mgcompBuddyAllocation,
    offset: u64,
    out: *mut c_void,
    bytes: usize,
) -> mgcompResult {
    call(|| {
        let out = Span::new("out", out, bytes)?;
        reading(pool, |pool, allocations| {
            let allocation = *allocations.get(allocation.id)?;
            // SAFETY: the header asks for these bytes.
            let out = unsafe { out.bytes_mut() };
            Ok(pool.read(allocation, offset..offset.saturating_add(bytes as u64), out)?)
        })
    })
}

/// What the allocations of a pool hold, and what has been done to them and to those that are freed.
///
/// @param stats set to that.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetBuddyPoolStats(
    pool: mgcompBuddyPool,
    stats: *mut mgcompBuddyStats,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for them, or NULL.
        let out = unsafe { Out::new("stats", stats) }?;
        reading(pool, |pool, _| {
            out.set(pool.stats().into());
            Ok(())
        })
    })
}

/// What an allocation holds, and what has been done to it.
///
/// @param stats set to that.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetBuddyStats(
    pool: mgcompBuddyPool,
    allocation: mgcompBuddyAllocation,
    stats: *mut mgcompBuddyStats,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for them, or NULL.
        let out = unsafe { Out::new("stats", stats) }?;
        reading(pool, |pool, allocations| {
            out.set(pool.allocation_stats(*allocations.get(allocation.id)?)?.into());
            Ok(())
        })
    })
}

fn reading(
    pool: mgcompBuddyPool,
    work: impl FnOnce(&BuddyPool, &Handles<Allocation>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let held: Arc<Held> = POOLS.get(pool.id)?;
    let pool = held.pool.read().unwrap_or_else(PoisonError::into_inner);
    work(&pool, &held.allocations)
}

fn changing(
    pool: mgcompBuddyPool,
    work: impl FnOnce(&mut BuddyPool, &Handles<Allocation>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let held: Arc<Held> = POOLS.get(pool.id)?;
    let mut pool = held.pool.write().unwrap_or_else(PoisonError::into_inner);
    work(&mut pool, &held.allocations)
}

/// What a number stands for, if anything.
pub(crate) fn form_of(
    form: MaybeUninit<mgcompBuddyForm>,
    element: mgcomp_codecs::Element,
) -> Result<Form, Failure> {
    match number(form) {
        0 => Ok(Form::Bpc),
        1 => Ok(Form::Xp(element)),
        number => Err(Failure::argument(format_args!("form {number}: there are 0 and 1"))),
    }
}

/// What a number stands for, if anything.
pub(crate) fn target_of(target: MaybeUninit<mgcompBuddyTarget>) -> Result<Target, Failure> {
    let number = number(target);
    let known = Target::ALL.get(number as usize).copied();
    known.ok_or_else(|| Failure::argument(format_args!("target {number}: there are 0 to 6")))
}

impl From<Stats> for mgcompBuddyStats {
    fn from(stats: Stats) -> Self {
        Self {
            raw_bytes: stats.raw_bytes,
            device_bytes: stats.device_bytes,
            metadata_bytes: stats.metadata_bytes,
            buddy_bytes: stats.buddy_bytes,
            entries: stats.entries,
            overflowing_entries: stats.overflowing_entries,
            reads: stats.accesses.reads,
            buddy_reads: stats.accesses.buddy_reads,
            writes: stats.accesses.writes,
            buddy_writes: stats.accesses.buddy_writes,
        }
    }
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        Self::new(mgcompResult::NoMemory, error)
    }
}

impl From<BuddyError> for Failure {
    fn from(error: BuddyError) -> Self {
        let code = match &error {
            BuddyError::Exhausted { .. } => mgcompResult::NoMemory,
            BuddyError::OtherPool { .. } | BuddyError::Freed { .. } => mgcompResult::InvalidHandle,
            BuddyError::State { .. } | BuddyError::Damaged { .. } | BuddyError::Memory { .. } => {
                mgcompResult::BadData
            }
            _ => mgcompResult::InvalidArgument,
        };
        Self::new(code, error)
    }
}
