//! What processes have counted that are gone.
//!
//! A counter of a user's job and a peer is a sum over the job's processes. It must not fall when one of them goes: whoever
//! reckons rates takes that for a new start, and all that is left for an increase. So what went is kept, for as long as the user
//! has a process of the job here; with the last one its counters end, which is no fall. At most [`MOST_PAIRS`] pairs of job and
//! peer are kept. Beyond that, of the user with the most of them the job with the most is forgotten, and its counters fall once.

use std::collections::BTreeMap;
use std::fmt;

use mgcomp_transport::control::{SlotKind, SlotView};

use crate::snapshot::{JobOf, Totals};

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

/// Sums over processes that are gone, by user, job and what was on the other side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    users: BTreeMap<u32, Jobs>,
}

type Jobs = BTreeMap<String, BTreeMap<Whom, Kept>>;

/// What is kept of a pair, and the user against whose bounds it counts: that of the first process that had it.
#[derive(Clone, Debug)]
struct Kept {
    bounded: Option<u32>,
    totals: Totals,
}

impl Gone {
    /// Keeps what a process of `job` has counted, whose user is bounded if there is one here. Returns whose jobs are forgotten for it.
    pub(crate) fn add<'a>(
        &mut self,
        JobOf { job, uid }: JobOf<'_>,
        bounded: Option<u32>,
        slots: impl Iterator<Item = &'a SlotView>,
    ) -> Vec<(u32, String)> {
        let peers = self.users.entry(uid).or_default().entry(job.to_owned()).or_default();
        for slot in slots {
            let kept = peers.entry(Whom::of(slot));
            let kept = kept.or_insert_with(|| Kept { bounded, totals: Totals::default() });
            kept.totals.add(slot, None);
        }
        let mut forgotten = Vec::new();
        while self.users.values().map(pairs).sum::<usize>() > MOST_PAIRS {
            let Some((&uid, jobs)) = self.users.iter().max_by_key(|(_, jobs)| pairs(jobs)) else { break };
            let Some((largest, _)) = jobs.iter().max_by_key(|(_, peers)| peers.len()) else { break };
            let largest = largest.clone();
            self.forget(JobOf { job: &largest, uid });
            forgotten.push((uid, largest));
        }
        forgotten
    }

    /// Keeps nothing of a job any more.
    pub(crate) fn forget(&mut self, JobOf { job, uid }: JobOf<'_>) {
        if let Some(jobs) = self.users.get_mut(&uid) {
            jobs.remove(job);
            if jobs.is_empty() {
                self.users.remove(&uid);
            }
        }
    }

    /// Job, what was on the other side, the user who is bounded, and what was counted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobOf<'_>, Whom, Option<u32>, &Totals)> {
        let jobs =
            self.users.iter().flat_map(|(uid, jobs)| jobs.iter().map(|(job, peers)| (*uid, job, peers)));
        jobs.flat_map(|(uid, job, peers)| {
            let of = JobOf { job, uid };
            peers.iter().map(move |(whom, kept)| (of, *whom, kept.bounded, &kept.totals))
        })
    }
}

/// Of all of a user's jobs together.
fn pairs(jobs: &Jobs) -> usize {
    jobs.values().map(BTreeMap::len).sum()
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

    /// A process of a job that has sent to these peers is gone.
    fn goes(gone: &mut Gone, of: JobOf<'_>, peers: std::ops::Range<u32>) {
        let mut played = Played::new(of.job, 0);
        for peer in peers {
            played.sends(peer, 1);
        }
        let page = played.page();
        let slots = slots_of(&page, page.used());
        gone.add(of, None, counting(&slots).map(|(_, slot)| slot));
    }

    /// How many pairs are kept of each job.
    fn kept(gone: &Gone) -> BTreeMap<(u32, String), usize> {
        let mut kept = BTreeMap::new();
        gone.iter().for_each(|(of, ..)| *kept.entry((of.uid, of.job.to_owned())).or_default() += 1);
        kept
    }

    #[test]
    fn the_user_with_the_most_pairs_loses_some_first() {
        let mut gone = Gone::default();
        goes(&mut gone, JobOf { job: "a", uid: 7 }, 0..500);
        for job in 0..1600 {
            goes(&mut gone, JobOf { job: &format!("b{job}"), uid: 8 }, 0..10);
        }
        let kept = kept(&gone);
        assert_eq!(
            kept[&(7, "a".to_owned())],
            500,
            "it is the largest job, but not of the user with the most"
        );
        // 500 + 16,000 are 116 too many: twelve jobs of ten are gone.
        assert_eq!(kept.len(), 1 + 1600 - 12);
        gone.forget(JobOf { job: "a", uid: 8 });
        assert_eq!(gone.iter().filter(|(of, ..)| of.uid == 7).count(), 500, "another one's");
        gone.forget(JobOf { job: "a", uid: 7 });
        assert_eq!(gone.users.len(), 1);
    }

    #[test]
    fn the_job_with_the_most_pairs_is_forgotten_first() {
        let mut gone = Gone::default();
        let mut add = |job: &str, peers: std::ops::Range<u32>| {
            goes(&mut gone, JobOf { job, uid: 7 }, peers);
            kept(&gone).into_iter().map(|((_, job), count)| (job, count)).collect::<Vec<_>>()
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
