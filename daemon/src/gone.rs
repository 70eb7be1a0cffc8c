//! What processes have counted that are gone.
//!
//! A counter of a job and peer is a sum over the job's processes. It must not fall when one of them goes: whoever reckons rates
//! takes that for a new start, and all that is left for an increase. So what went is kept, for as long as the job has a process
//! here; with the last one its counters end, which is no fall. At most [`MOST_PAIRS`] pairs of job and peer are kept. Beyond
//! that the job with the most of them is forgotten, and its counters fall once.

use std::collections::BTreeMap;
use std::fmt;

use mgcomp_transport::control::{SlotKind, SlotView};

use crate::snapshot::Totals;

/// Pairs of job and peer that are kept, some 400 bytes each.
const MOST_PAIRS: usize = 16_384;

/// What is on the other side, as the label `peer` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whom {
    Peer(u32),
    /// Copies from one device of a process to another.
    Devices {
        from: u32,
        to: u32,
    },
    /// Streams without a slot of their own.
    Other,
}

/// Sums over processes that are gone, by job and what was on the other side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    jobs: BTreeMap<String, BTreeMap<Whom, Kept>>,
}

/// What is kept of a pair, and the user against whose bounds it counts: that of the first process that had it.
#[derive(Clone, Debug)]
struct Kept {
    bounded: Option<u32>,
    totals: Totals,
}

impl Gone {
    /// Keeps what a process of `job` has counted, whose user is bounded if there is one here.
    pub(crate) fn add<'a>(
        &mut self,
        job: &str,
        bounded: Option<u32>,
        slots: impl Iterator<Item = &'a SlotView>,
    ) {
        let peers = self.jobs.entry(job.to_owned()).or_default();
        for slot in slots {
            let kept = peers.entry(Whom::of(slot));
            let kept = kept.or_insert_with(|| Kept { bounded, totals: Totals::default() });
            kept.totals.add(slot, None);
        }
        while self.jobs.values().map(BTreeMap::len).sum::<usize>() > MOST_PAIRS {
            let largest = self.jobs.iter().max_by_key(|(_, peers)| peers.len());
            let Some(largest) = largest.map(|(job, _)| job.clone()) else { return };
            tracing::warn!(job = largest, "what its processes have counted that are gone is forgotten");
            self.forget(&largest);
        }
    }

    /// Keeps nothing of `job` any more.
    pub(crate) fn forget(&mut self, job: &str) {
        self.jobs.remove(job);
    }

    /// Job, what was on the other side, the user who is bounded, and what was counted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Whom, Option<u32>, &Totals)> {
        let peers = |(job, peers)| {
            let (job, peers): (&String, &BTreeMap<Whom, Kept>) = (job, peers);
            peers.iter().map(move |(whom, kept)| (job.as_str(), *whom, kept.bounded, &kept.totals))
        };
        self.jobs.iter().flat_map(peers)
    }
}

impl Whom {
    pub(crate) fn of(slot: &SlotView) -> Self {
        match slot.kind {
            SlotKind::Sent | SlotKind::Received => Self::Peer(slot.peer),
            SlotKind::Copied => Self::Devices { from: slot.stream, to: slot.peer },
            SlotKind::Other => Self::Other,
        }
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(peer) => write!(f, "{peer}"),
            Self::Devices { from, to } => write!(f, "device {from} to {to}"),
            Self::Other => f.write_str("other"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::Played;
    use crate::snapshot::{counting, slots_of};

    #[test]
    fn the_job_with_the_most_pairs_is_forgotten_first() {
        let mut gone = Gone::default();
        let mut add = |job: &str, peers: std::ops::Range<u32>| {
            let mut played = Played::new(job, 0);
            for peer in peers {
                played.sends(peer, 1);
            }
            let page = played.page();
            let slots = slots_of(&page, page.used());
            gone.add(job, None, counting(&slots).map(|(_, slot)| slot));
            let mut kept = BTreeMap::<String, usize>::new();
            gone.iter().for_each(|(job, ..)| *kept.entry(job.to_owned()).or_default() += 1);
            kept.into_iter().collect::<Vec<_>>()
        };
        let kept = |pairs: &[(&str, usize)]| {
            pairs.iter().map(|(job, count)| ((*job).to_owned(), *count)).collect::<Vec<_>>()
        };
        add("small", 0..3);
        for first in (0..15).map(|process| process * 1000) {
            add("large", first..first + 1000);
        }
        assert_eq!(add("large", 0..1000), kept(&[("large", 15_000), ("small", 3)]), "peers that are known");
        add("middle", 0..1000);
        assert_eq!(add("small", 3..384), kept(&[("large", 15_000), ("middle", 1000), ("small", 384)]));
        assert_eq!(add("small", 384..385), kept(&[("middle", 1000), ("small", 385)]));
    }
}
