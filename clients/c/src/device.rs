//! CUDA devices whose memory programs hand over.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, OnceLock, PoisonError};

use mgcomp_codecs::device::{Device, holder};
use mgcomp_transport::fork::Process;

use crate::error::Failure;
use crate::memory::Span;

/// The devices that were met, by number. They stay open: their kernels are loaded once.
static MET: Mutex<BTreeMap<u32, Device>> = Mutex::new(BTreeMap::new());

/// The first process that asked.
static PROCESS: OnceLock<Process> = OnceLock::new();

/// The device that has a buffer; none for one in host memory, as what both have counts.
pub(crate) fn holder_of(span: &Span) -> Result<Option<Device>, Failure> {
    // In a child made by `fork` the driver is of no use, and what its parent has made says so itself.
    if span.len() == 0 || !PROCESS.get_or_init(Process::current).is_current() {
        return Ok(None);
    }
    let holder = holder(span.range().start as u64)?;
    let Some(holder) = holder.filter(|holder| !holder.is_managed) else { return Ok(None) };
    let mut met = MET.lock().unwrap_or_else(PoisonError::into_inner);
    let place = met.entry(holder.ordinal);
    let device = match &place {
        Entry::Occupied(device) => device.get().clone(),
        Entry::Vacant(_) => Device::open(holder.ordinal)?,
    };
    if holder.is(&device) {
        return Ok(Some(place.or_insert(device).clone()));
    }
    Err(Failure::argument(format_args!(
        "{} is in the memory of CUDA device {}, but not in its primary context",
        span.what(),
        holder.ordinal
    )))
}
