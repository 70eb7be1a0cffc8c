//! CUDA devices whose memory programs hand over.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, OnceLock, PoisonError};

use mgcomp_codecs::device::{Device, holder};
use mgcomp_transport::fork::Process;

use crate::error::{Failure, mgcompResult};
use crate::memory::Span;

/// The devices that were met, by number. They stay open: their kernels are loaded once.
static MET: Mutex<BTreeMap<u32, Device>> = Mutex::new(BTreeMap::new());

/// The process that has met them.
static PROCESS: OnceLock<Process> = OnceLock::new();

/// The device that has a buffer; none for one in host memory, as what both have counts.
pub(crate) fn holder_of(span: &Span) -> Result<Option<Device>, Failure> {
    if span.len() == 0 {
        return Ok(None);
    }
    let holder = holder(span.range().start as u64)?;
    let Some(holder) = holder.filter(|holder| !holder.is_managed) else { return Ok(None) };
    let what = span.what();
    // Before the lock, which another thread of the parent may have for ever.
    if !PROCESS.get_or_init(Process::current).is_current() {
        let text =
            format!("{what} is in the memory of a device of the process that this one was forked from");
        return Err(Failure::new(mgcompResult::Transfer, text));
    }
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
        "{what} is in the memory of CUDA device {}, but not in its primary context",
        holder.ordinal
    )))
}
