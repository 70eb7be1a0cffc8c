//! What all pages say at one moment, and sums of that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mgcomp_transport::control::{Count, Page, SlotKind, SlotView};
use tokio::sync::Mutex;

use crate::gone::Gone;
use crate::processes::{Process, Processes, Who};

/// A job of one user; others may have jobs of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobOf<'a> {
    pub(crate) job: &'a str,
    pub(crate) uid: u32,
}

/// What all pages said.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) unix_ns: u64,
    /// By the number of the process.
    pub(crate) processes: BTreeMap<u64, ProcessView>,
    /// What processes had counted that were gone by then.
    pub(crate) gone: Arc<Gone>,
}

/// What a page said.
#[derive(Debug)]
pub(crate) struct ProcessView {
    pub(crate) who: Arc<Who>,
    /// How many slots it had, those too that were not looked at.
    in_use: usize,
    slots: Slots,
    /// What these had counted before anybody could look at them.
    pub(crate) brought: Totals,
}

/// Slots by their numbers; what makes no sense is left out, and takes no room. The slot of all other streams comes last.
type Slots = Box<[(usize, SlotView)]>;

/// What the first `used` slots of a page say, and that of all other streams.
pub(crate) fn slots_of(page: &Page, used: usize) -> Slots {
    (0..used).chain([Page::other()]).filter_map(|slot| Some((slot, page.view(slot)?))).collect()
}

/// Those that count anything, with their numbers.
pub(crate) fn counting(slots: &[(usize, SlotView)]) -> impl Iterator<Item = (usize, &SlotView)> {
    let counts = |slot: &SlotView| slot.sent().transfers > 0 || slot.decoded.transfers > 0 || slot.errors > 0;
    let counting = move |(_, slot): &&(usize, SlotView)| slot.kind != SlotKind::Other || counts(slot);
    slots.iter().filter(counting).map(|(number, slot)| (*number, slot))
}

impl Snapshot {
    pub(crate) fn take(processes: &Processes) -> Self {
        let view = |process: Arc<Process>| {
            // In this order: a slot that comes meanwhile is a new one the next time.
            let in_use = process.in_use();
            let (slots, brought) = process.slots_and_brought();
            (process.who.id, ProcessView { who: process.who.clone(), in_use, slots, brought })
        };
        let (at, unix_ns, (connected, gone)) = (Instant::now(), unix_ns(), processes.with_gone());
        Self { at, unix_ns, processes: connected.into_iter().map(view).collect(), gone }
    }

    /// Processes by job and user.
    pub(crate) fn jobs_of_users(&self) -> BTreeMap<JobOf<'_>, Vec<&ProcessView>> {
        let mut jobs = BTreeMap::<_, Vec<_>>::new();
        for process in self.processes.values() {
            jobs.entry(process.who.job_of()).or_default().push(process);
        }
        jobs
    }

    /// Processes by job, whosever they are.
    pub(crate) fn jobs(&self) -> BTreeMap<&str, Vec<&ProcessView>> {
        let mut jobs = BTreeMap::<&str, Vec<_>>::new();
        for process in self.processes.values() {
            jobs.entry(&process.who.identity.job).or_default().push(process);
        }
        jobs
    }
}

impl ProcessView {
    /// Whether all that it counts beyond what it did in `before` was counted since then. Not so of a process that comes late:
    /// one that found no daemon for a while, or has outlived one, brings along all that it has ever counted.
    pub(crate) fn has_counted_since(&self, before: &Snapshot) -> bool {
        before.processes.contains_key(&self.who.id) || self.who.identity.started_ns >= before.unix_ns
    }

    /// Slots that count anything, each with what it said in `before`. One that was there by then and is looked at only since says
    /// nothing new, whatever it has counted.
    pub(crate) fn slots<'a>(
        &'a self,
        before: Option<&'a Snapshot>,
    ) -> impl Iterator<Item = (&'a SlotView, Option<&'a SlotView>)> {
        let before = before.and_then(|before| before.processes.get(&self.who.id));
        counting(&self.slots).map(move |(number, slot)| {
            let same = before.and_then(|before| match before.slot(number) {
                None => (number < before.in_use).then_some(slot),
                same => same.filter(|before| before.kind == slot.kind),
            });
            (slot, same)
        })
    }

    fn slot(&self, number: usize) -> Option<&SlotView> {
        let place = self.slots.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.slots[place].1)
    }
}

/// Takes snapshots, not more often than asked for.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    last: Mutex<Option<Arc<Snapshot>>>,
}

impl Snapshots {
    /// A snapshot that is no older than `age`.
    pub(crate) async fn get(&self, processes: &Processes, age: Duration) -> Arc<Snapshot> {
        let mut last = self.last.lock().await;
        match &*last {
            Some(snapshot) if snapshot.at.elapsed() <= age => snapshot.clone(),
            _ => last.insert(Arc::new(Snapshot::take(processes))).clone(),
        }
    }
}

/// Now, in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Sums over slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) algorithms: [Count; 11],
    pub(crate) sampled: u64,
    pub(crate) sampling_ns: u64,
    pub(crate) encode_ns: u64,
    pub(crate) decode_ns: u64,
    pub(crate) acknowledged: u64,
    pub(crate) acknowledged_ns: u64,
    pub(crate) received: Count,
    pub(crate) errors: u64,
    pub(crate) predicted_bits: u64,
    pub(crate) achieved_bits: u64,
    pub(crate) saved_ns: i64,
    /// What links whose rates are known would have taken for all of it as it was.
    pub(crate) raw_link_ns: f64,
    /// Sum and number of the rates of links.
    pub(crate) rates: f64,
    pub(crate) rated: u32,
}

impl Totals {
    /// All that slots count.
    pub(crate) fn of(slots: &[(usize, SlotView)]) -> Self {
        let mut sums = Self::default();
        counting(slots).for_each(|(_, slot)| sums.add(slot, None));
        sums
    }

    /// Adds what a slot has counted since `before`.
    pub(crate) fn add(&mut self, now: &SlotView, before: Option<&SlotView>) {
        let since = |field: fn(&SlotView) -> u64| field(now).saturating_sub(before.map_or(0, field));
        let mut sent = Count::default();
        for (index, sum) in self.algorithms.iter_mut().enumerate() {
            let count = minus(now.algorithms[index], before.map(|before| before.algorithms[index]));
            add(sum, count);
            add(&mut sent, count);
        }
        add(&mut self.received, minus(now.decoded, before.map(|before| before.decoded)));
        let (encode_ns, sampling_ns) = (since(|slot| slot.encode_ns), since(|slot| slot.sampling_ns));
        let sums = [
            (&mut self.sampled, since(|slot| slot.sampled)),
            (&mut self.sampling_ns, sampling_ns),
            (&mut self.encode_ns, encode_ns),
            (&mut self.decode_ns, since(|slot| slot.decode_ns)),
            (&mut self.acknowledged, since(|slot| slot.acknowledged)),
            (&mut self.acknowledged_ns, since(|slot| slot.acknowledged_ns)),
            (&mut self.errors, since(|slot| slot.errors)),
            (&mut self.predicted_bits, since(|slot| slot.predicted_bits)),
            (&mut self.achieved_bits, since(|slot| slot.achieved_bits)),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
        if let Some(gbps) = now.link_gbps {
            // Gb/s are bits per nanosecond.
            let link_ns = (sent.raw_bytes as f64 - sent.coded_bytes as f64) * 8.0 / gbps;
            let saved_ns = link_ns - encode_ns as f64 - sampling_ns as f64;
            self.saved_ns = self.saved_ns.saturating_add(saved_ns as i64);
            self.raw_link_ns += sent.raw_bytes as f64 * 8.0 / gbps;
            self.rates += gbps;
            self.rated += 1;
        }
    }

    /// Adds what others have counted; rates of links are those of whoever has them.
    pub(crate) fn add_counts(&mut self, others: &Self) {
        self.algorithms.iter_mut().zip(&others.algorithms).for_each(|(sum, more)| add(sum, *more));
        add(&mut self.received, others.received);
        let sums = [
            (&mut self.sampled, others.sampled),
            (&mut self.sampling_ns, others.sampling_ns),
            (&mut self.encode_ns, others.encode_ns),
            (&mut self.decode_ns, others.decode_ns),
            (&mut self.acknowledged, others.acknowledged),
            (&mut self.acknowledged_ns, others.acknowledged_ns),
            (&mut self.errors, others.errors),
            (&mut self.predicted_bits, others.predicted_bits),
            (&mut self.achieved_bits, others.achieved_bits),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.saved_ns = self.saved_ns.saturating_add(others.saved_ns);
        self.raw_link_ns += others.raw_link_ns;
    }

    /// Over all algorithms.
    pub(crate) fn sent(&self) -> Count {
        self.algorithms.iter().fold(Count::default(), |mut sum, count| {
            add(&mut sum, *count);
            sum
        })
    }

    /// The mean rate of the links, if any is known.
    pub(crate) fn link_gbps(&self) -> Option<f64> {
        (self.rated > 0).then(|| self.rates / f64::from(self.rated))
    }
}

fn add(sum: &mut Count, more: Count) {
    sum.transfers = sum.transfers.saturating_add(more.transfers);
    sum.raw_bytes = sum.raw_bytes.saturating_add(more.raw_bytes);
    sum.coded_bytes = sum.coded_bytes.saturating_add(more.coded_bytes);
}

fn minus(now: Count, before: Option<Count>) -> Count {
    let before = before.unwrap_or_default();
    Count {
        transfers: now.transfers.saturating_sub(before.transfers),
        raw_bytes: now.raw_bytes.saturating_sub(before.raw_bytes),
        coded_bytes: now.coded_bytes.saturating_sub(before.coded_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::Played;

    #[test]
    fn what_is_received_beyond_the_last_slot_counts() {
        let mut played = Played::new("a", 0);
        played.sends(1, 100);
        let slots = |played: &Played| slots_of(&played.page(), 1);
        assert_eq!(counting(&slots(&played)).count(), 1, "there are no others yet");
        played.has_received_of_others(30);
        let sums = Totals::of(&slots(&played));
        assert_eq!((sums.sent().raw_bytes, sums.received.raw_bytes), (100, 30));
    }

    #[test]
    fn slots_that_are_nobody_s_take_no_room() {
        let mut played = Played::new("a", 0);
        played.sends(1, 100);
        played.has_used(1024);
        let page = played.page();
        let slots = slots_of(&page, page.used());
        let numbers: Vec<usize> = slots.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, Page::other()]);
    }
}
