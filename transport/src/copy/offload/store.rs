//! What a queue keeps in host memory, and how much of that there is.

use std::collections::HashMap;
use std::sync::Arc;

use mgcomp_codecs::Element;

use super::OffloadError;
use crate::copy::job::Job;
use crate::copy::{CopyError, CopyReport, Kept};
use crate::pool::block_len;

/// What a ticket counts for beside its bytes, for the memory that it takes itself.
const TICKET_BYTES: u64 = 256;

/// What a queue did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadStats {
    /// Buffers that were offloaded.
    pub offloaded: u64,
    /// Buffers that were brought back.
    pub prefetched: u64,
    /// Buffers that nobody wanted back.
    pub discarded: u64,
    /// Copies that failed, either way.
    pub failed: u64,
    /// Bytes that were offloaded.
    pub raw_bytes: u64,
    /// Bytes that they took on the link and in host memory.
    pub coded_bytes: u64,
    /// Bytes of host memory in use now.
    pub used_bytes: u64,
    /// The most that were.
    pub peak_bytes: u64,
    /// Calls that had to wait for host memory.
    pub waits: u64,
}

/// The memory that `bytes` bytes in one piece take.
fn memory_for(bytes: u64) -> u64 {
    usize::try_from(bytes).map_or(bytes, |len| block_len(len) as u64)
}

/// All tickets of a queue.
pub(super) struct Store {
    limit: u64,
    next: u64,
    entries: HashMap<u64, Entry>,
    /// Copies under way, whose end may make room.
    pub(super) under_way: u64,
    pub(super) stats: OffloadStats,
}

pub(super) struct Entry {
    pub(super) raw_bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) element: Element,
    charge: u64,
    pub(super) place: Place,
}

/// Where the bytes of a ticket are.
pub(super) enum Place {
    /// On their way to host memory; the copy that is to bring them back then, if one is.
    Leaving(Option<Arc<Job>>),
    /// In host memory.
    Kept(Kept, CopyReport),
    /// On their way back.
    Returning(Kept, CopyReport),
    /// Where they were: the copy failed.
    Failed(CopyError),
}

impl Store {
    pub(super) fn new(limit: u64) -> Self {
        let stats = OffloadStats::default();
        Self { limit, next: 0, entries: HashMap::new(), under_way: 0, stats }
    }

    /// What `raw_bytes` bytes in segments count for while it is not known what is left of them.
    pub(super) fn charge(&self, (raw_bytes, segment_bytes): (u64, u64)) -> Result<u64, OffloadError> {
        let (whole, rest) = (raw_bytes / segment_bytes, raw_bytes % segment_bytes);
        let segments = whole.saturating_mul(memory_for(segment_bytes));
        let needed = segments.saturating_add(memory_for(rest)).saturating_add(TICKET_BYTES);
        if needed > self.limit {
            Err(OffloadError::TooLong { needed, limit: self.limit })
        } else {
            Ok(needed)
        }
    }

    pub(super) fn has_room(&self, needed: u64) -> bool {
        needed <= self.limit - self.stats.used_bytes
    }

    pub(super) fn full(&self, needed: u64) -> OffloadError {
        OffloadError::Full { needed, used: self.stats.used_bytes, limit: self.limit }
    }

    /// A new ticket for what begins to leave.
    pub(super) fn admit(
        &mut self,
        (raw_bytes, segment_bytes): (u64, u64),
        element: Element,
        charge: u64,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        let place = Place::Leaving(None);
        self.entries.insert(number, Entry { raw_bytes, segment_bytes, element, charge, place });
        self.under_way += 1;
        self.stats.used_bytes += charge;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.used_bytes);
        number
    }

    pub(super) fn entry(&mut self, queue: u64, number: u64) -> Result<&mut Entry, OffloadError> {
        self.entries.get_mut(&number).ok_or(OffloadError::Used { number, queue })
    }

    /// Ends the way out; returns the copy that is to bring the bytes back, if one waits.
    pub(super) fn left(
        &mut self,
        number: u64,
        result: Result<(Kept, CopyReport), CopyError>,
    ) -> Option<Arc<Job>> {
        self.under_way -= 1;
        match &result {
            Ok((_, report)) => {
                self.stats.offloaded += 1;
                self.stats.raw_bytes += report.raw_bytes;
                self.stats.coded_bytes += report.coded_bytes;
            }
            Err(_) => self.stats.failed += 1,
        }
        let entry = self.entries.get_mut(&number)?;
        let memory =
            |(kept, _): &(Kept, CopyReport)| kept.segments().map(|(_, it)| memory_for(it.capacity())).sum();
        let charge = entry.charge.min(TICKET_BYTES + result.as_ref().map_or(0, memory));
        self.stats.used_bytes -= entry.charge - charge;
        entry.charge = charge;
        let Place::Leaving(waiting) = std::mem::replace(&mut entry.place, Place::Leaving(None)) else {
            return None;
        };
        entry.place = match (result, waiting.is_some()) {
            (Ok((kept, report)), true) => Place::Returning(kept, report),
            (Ok((kept, report)), false) => Place::Kept(kept, report),
            (Err(error), _) => Place::Failed(error),
        };
        if waiting.is_some() {
            self.under_way += 1;
        }
        waiting
    }

    /// Ends the way back. What did not get there may be asked for again.
    pub(super) fn returned(&mut self, number: u64, is_good: bool) {
        if let Some(Entry { place: Place::Leaving(waiting), .. }) = self.entries.get_mut(&number) {
            // The copier went before the way out had ended: this copy was not counted yet.
            *waiting = None;
            self.stats.failed += 1;
            return;
        }
        self.under_way -= 1;
        if is_good {
            self.stats.prefetched += 1;
            self.remove(number);
            return;
        }
        self.stats.failed += 1;
        if let Some(entry) = self.entries.get_mut(&number)
            && let Place::Returning(kept, report) = &entry.place
        {
            entry.place = Place::Kept(kept.clone(), *report);
        }
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Some(entry) = self.entries.remove(&number) {
            self.stats.used_bytes -= entry.charge;
        }
    }
}
