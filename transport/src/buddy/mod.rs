//! Buddy memory: a device that holds more than it has.
//!
//! The bytes of an allocation are cut into entries, and each entry is compressed by itself. An allocation has a
//! *target*: of each entry it keeps so much room in device memory, its *slot*. What does not fit goes to *buddy
//! memory*, of the host or of another device, to a place that belongs to this entry too. So an entry may grow and
//! shrink as it likes: nothing moves, nothing is allocated, and whether it reaches its target is a question of speed
//! alone. A few bits of *metadata* per entry say how much is stored of it.
//!
//! Entries have one of two forms. [`Form::Bpc`] is the paper's: bit-plane compression of 128 bytes in sectors of 32.
//! It gains where neighbours are alike, and little on floats. [`Form::Xp`] codes exponents, masks and repeats of 32
//! KiB at a time: dense bf16 and sparse floats reach their targets with it, and bytes that are read or written alone
//! cost more. `FORMAT.md` says where every byte lies.
//!
//! A [`Profile`] of snapshots finds form and target.
//!
//! A [`BuddyPool`] codes on the host, in memories of any kind. A `DeviceBuddyPool` (feature `cuda`) has its entries in
//! the memory of a CUDA device, which codes by itself, and keeps what does not fit there in page-locked memory of the host
//! or in that of another device.
//!
//! ```
//! use mgcomp_codecs::Element;
//! use mgcomp_transport::buddy::{BuddyPool, Profile, Threshold};
//!
//! let ramp: Vec<u8> = (0..64_000u32).flat_map(u32::to_le_bytes).collect();
//! let mut profile = Profile::new(Element::U32);
//! profile.add(&ramp)?;
//! let choice = profile.choose(Threshold::DEFAULT, &profile.forms())?;
//!
//! let mut pool = BuddyPool::new(64 << 10, 1 << 20)?;
//! let len = ramp.len() as u64;
//! let allocation = pool.alloc_as(len, choice.form, choice.target)?;
//! pool.write(allocation, 0..len, &ramp)?;
//! let mut back = [0; 1001];
//! pool.read(allocation, 99..1100, &mut back)?;
//! assert_eq!(back, ramp[99..1100]);
//!
//! let stats = pool.stats();
//! assert!(stats.effective_capacity() > 10.0 && stats.accesses.buddy_share() == 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Source
//! Choukse et al., ISCA 2020. The targets 8/5 and 8/3, and entries of XP, are our own.

mod cache;
mod counts;
#[cfg(feature = "cuda")]
mod device;
mod entry;
mod error;
mod extents;
mod form;
mod ledger;
mod memory;
mod pool;
mod profile;
mod shape;
mod stats;
mod target;
#[cfg(test)]
mod tests;
mod threshold;
mod transfer;

pub use cache::METADATA_CACHE_BYTES;
#[cfg(feature = "cuda")]
pub use device::{DeviceBuddyError, DeviceBuddyPool, STAGE_LEN};
pub use error::{BuddyError, Place};
pub use form::{Footprint, Form, SECTOR_LEN, XP_ENTRY_LEN};
pub use ledger::Allocation;
pub use memory::{HostMemory, Memory, MemoryError};
pub use pool::BuddyPool;
pub use profile::{Choice, Profile, ProfileError};
pub use stats::{Accesses, Stats};
pub use target::{Target, UnknownTarget};
pub use threshold::Threshold;
