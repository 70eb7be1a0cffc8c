//! CUDA devices whose memory programs hand over.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, OnceLock, PoisonError};

use mgcomp_codecs::device::{Device, holder};
use mgcomp_transport::fork::Process;

use crate::error::{Failure, mgcompResult};
use crate::memory::Span;

/// The devices that were met, by number. They stay open, as those of the CUDA runtime do: their kernels are loaded once.
static MET: Mutex<BTreeMap<u32, Device>> = Mutex::new(BTreeMap::new());

/// The process that has met them.
static PROCESS: OnceLock<Process> = OnceLock::new();

/// The device that has a buffer; none for one in host memory.
pub(crate) fn holder_of(span: &Span) -> Result<Option<Device>, Failure> {
    if span.len() == 0 {
        return Ok(None);
    }
    let Some(holder) = holder(span.range().start as u64)? else { return Ok(None) };
    let what = span.what();
    if !PROCESS.get_or_init(Process::current).is_current() {
        let text =
            format!("{what} is in the memory of a device of the process that this one was forked from");
        return Err(Failure::new(mgcompResult::Transfer, text));
    }
    let device = open(holder.ordinal)?;
    if holder.is(&device) {
        return Ok(Some(device));
    }
    Err(Failure::argument(format_args!(
        "{what} is in the memory of CUDA device {}, but not in its primary context",
        holder.ordinal
    )))
}

fn open(ordinal: u32) -> Result<Device, Failure> {
    let mut met = MET.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match met.entry(ordinal) {
        Entry::Occupied(device) => device.get().clone(),
        Entry::Vacant(place) => place.insert(Device::open(ordinal)?).clone(),
    })
}
