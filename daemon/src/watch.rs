//! What watchers see. All that watch the same thing share one sampler, which never waits for any of them: who is slow
//! sees the latest when it looks again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mgcomp_proto::v1::{Level, Row, WatchRequest, WatchResponse};
use mgcomp_transport::control::{SlotKind, SlotView};
use tokio::sync::watch;

use crate::node::Node;
use crate::rows::{MOST_ROWS, Room};
use crate::service::convert;
use crate::settings::{JobSettings, Scopes};
use crate::snapshot::{ProcessView, Snapshot, Totals};

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) job: Option<String>,
    pub(crate) peer: Option<u32>,
    pub(crate) level: Level,
    pub(crate) interval: Duration,
}

/// The shortest and the longest interval, and what 0 means.
const INTERVALS_MS: (u32, u32, u32) = (100, 60_000, 1000);

impl Subject {
    /// What a request asks for, or why that is nothing.
    pub(crate) fn of(request: WatchRequest) -> Result<Self, String> {
        let (shortest, longest, usual) = INTERVALS_MS;
        let interval_ms = if request.interval_ms == 0 { usual } else { request.interval_ms };
        if !(shortest..=longest).contains(&interval_ms) {
            return Err(format!("interval_ms is {interval_ms}: {shortest} to {longest} is possible"));
        }
        let level = match Level::try_from(request.level) {
            Ok(Level::Unspecified) => Level::Job,
            Ok(level) => level,
            Err(_) => return Err(format!("level {} is not known: 1 job, 2 peer, 3 stream", request.level)),
        };
        let job = Some(request.job).filter(|job| !job.is_empty());
        let interval = Duration::from_millis(interval_ms.into());
        Ok(Self { job, peer: request.peer, level, interval })
    }
}

/// A response and its number.
pub(crate) type Update = (u64, Arc<WatchResponse>);

/// All subjects that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    subjects: Mutex<HashMap<Subject, Weak<watch::Sender<Update>>>>,
}

impl Watches {
    /// What is seen of a subject from now on.
    pub(crate) fn subscribe(&self, node: &Arc<Node>, subject: Subject) -> watch::Receiver<Update> {
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        subjects.retain(|_, sender| sender.strong_count() > 0);
        if let Some(sender) = subjects.get(&subject).and_then(Weak::upgrade) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(<Update>::default());
        let sender = Arc::new(sender);
        subjects.insert(subject.clone(), Arc::downgrade(&sender));
        drop(subjects);
        tokio::spawn(sample(node.clone(), subject, sender));
        receiver
    }
}

/// Samples for as long as anybody watches.
async fn sample(node: Arc<Node>, subject: Subject, sender: Arc<watch::Sender<Update>>) {
    let mut ticks = tokio::time::interval(subject.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut before: Option<Arc<Snapshot>> = None;
    for number in 1.. {
        ticks.tick().await;
        if sender.receiver_count() == 0 {
            return;
        }
        let now = node.snapshots.get(&node.processes, subject.interval / 4).await;
        let response = {
            let scopes = node.store.scopes();
            response(&subject, &scopes, &now, before.as_deref())
        };
        before = Some(now);
        sender.send_replace((number, Arc::new(response)));
    }
}

fn response(subject: &Subject, scopes: &Scopes, now: &Snapshot, before: Option<&Snapshot>) -> WatchResponse {
    let interval = before.map_or(Duration::ZERO, |before| now.at - before.at);
    let mut jobs = now.jobs();
    jobs.retain(|job, _| subject.job.as_deref().is_none_or(|wanted| wanted == *job));
    let places: Vec<_> = jobs.values().map(|processes| places_of(subject, processes)).collect();
    let owners = places.iter().flat_map(BTreeMap::values).map(|owners| owners.iter().copied());
    let mut room = Room::among(owners, MOST_ROWS);
    let (mut rows, mut left_out) = (Vec::new(), 0);
    for ((job, processes), mut places) in jobs.iter().zip(places) {
        let all = places.len();
        places.retain(|_, owners| room.take(owners.iter().copied()));
        left_out += all - places.len();
        let of_job = rows_of(subject, &scopes.of_job(job), processes, before, &places);
        rows.extend(of_job.map(|(row, pair)| pair.row(row, job, interval)));
    }
    let interval_ns = interval.as_nanos() as u64;
    WatchResponse { unix_ns: now.unix_ns, interval_ns, rows, missed: 0, left_out: left_out as u32 }
}

/// Where a row comes among those of its job.
type Place = (u64, usize);

/// The rows of a job, and the users who have a part in them.
type Places = BTreeMap<Place, BTreeSet<u32>>;

/// What rows there are of a job.
fn places_of(subject: &Subject, processes: &[&ProcessView]) -> Places {
    let mut places = Places::new();
    for process in processes {
        if subject.level == Level::Job {
            places.entry(Place::default()).or_default().insert(process.who.uid);
            continue;
        }
        for (index, (slot, _)) in process.slots(None).enumerate() {
            if let Some(place) = place_of(subject, process, index, slot) {
                places.entry(place).or_default().insert(process.who.uid);
            }
        }
    }
    places
}

/// The row to which a slot belongs, the one with this index of its process.
fn place_of(subject: &Subject, process: &ProcessView, index: usize, slot: &SlotView) -> Option<Place> {
    match (subject.level, slot.kind) {
        _ if !wanted(subject, slot) => None,
        (Level::Stream, SlotKind::Received) => None,
        (Level::Peer, kind) if !kind.has_peer() => None,
        (Level::Stream, _) => Some((process.who.id, index)),
        (Level::Peer, _) => Some((slot.peer.into(), 0)),
        (Level::Job | Level::Unspecified, _) => Some(Place::default()),
    }
}

/// Totals until now and in the interval.
#[derive(Default)]
struct Pair {
    total: Totals,
    interval: Totals,
}

impl Pair {
    fn add(&mut self, now: &SlotView, before: Option<&SlotView>, known: bool) {
        self.total.add(now, None);
        if known {
            self.interval.add(now, before);
        }
    }

    /// `row` with these numbers.
    fn row(&self, row: Row, job: &str, interval: Duration) -> Row {
        let sent = self.interval.sent();
        let gbps = |bytes: u64| match interval.as_nanos() {
            0 => 0.0,
            ns => bytes as f64 * 8.0 / ns as f64,
        };
        Row {
            job: job.to_owned(),
            interval: Some(convert::traffic(&self.interval)),
            total: Some(convert::traffic(&self.total)),
            raw_gbps: gbps(sent.raw_bytes),
            coded_gbps: gbps(sent.coded_bytes),
            link_gbps: self.total.link_gbps(),
            ..row
        }
    }
}

/// Those rows of a job, at whatever level, that have a place.
fn rows_of(
    subject: &Subject,
    settings: &JobSettings,
    processes: &[&ProcessView],
    before: Option<&Snapshot>,
    places: &Places,
) -> impl Iterator<Item = (Row, Pair)> + use<> {
    let mut rows = BTreeMap::<Place, (Row, Pair)>::new();
    if subject.level == Level::Job && places.contains_key(&Place::default()) {
        rows.insert(Place::default(), (whole(subject, settings, processes), Pair::default()));
    }
    for process in processes {
        let known = before.is_some_and(|before| process.has_counted_since(before));
        for (index, (slot, earlier)) in process.slots(before).enumerate() {
            let place = place_of(subject, process, index, slot).filter(|place| places.contains_key(place));
            let Some(place) = place else { continue };
            let row = || match subject.level {
                Level::Stream => stream(settings, process, slot),
                _ => peer(settings, slot.peer),
            };
            let (_, pair) = rows.entry(place).or_insert_with(|| (row(), Pair::default()));
            pair.add(slot, earlier, known);
        }
    }
    rows.into_values()
}

/// Whether a slot belongs to what is watched.
fn wanted(subject: &Subject, slot: &SlotView) -> bool {
    subject.peer.is_none_or(|peer| slot.kind.has_peer() && slot.peer == peer)
}

fn whole(subject: &Subject, settings: &JobSettings, processes: &[&ProcessView]) -> Row {
    let effective = subject.peer.map_or(settings.job, |peer| settings.peer(peer));
    Row {
        processes: processes.len() as u32,
        effective: Some(convert::settings(&effective)),
        ..Row::default()
    }
}

fn peer(settings: &JobSettings, peer: u32) -> Row {
    Row { peer: Some(peer), effective: Some(convert::settings(&settings.peer(peer))), ..Row::default() }
}

fn stream(settings: &JobSettings, process: &ProcessView, slot: &SlotView) -> Row {
    let own = slot.kind == SlotKind::Sent;
    let effective = if own { settings.stream(slot.peer, slot.stream) } else { settings.job };
    Row {
        peer: own.then_some(slot.peer),
        stream: own.then_some(slot.stream),
        pid: process.who.pid,
        rank: convert::rank(slot),
        effective: Some(convert::settings(&effective)),
        last_decision: slot.decision.as_ref().map(convert::decision),
        from_device: slot.devices().map(|[from, _]| from),
        to_device: slot.devices().map(|[_, to]| to),
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::{Played, config};
    use crate::processes::Processes;

    #[test]
    fn intervals_are_neither_short_nor_long() {
        let of = |interval_ms| {
            let subject = Subject::of(WatchRequest { interval_ms, ..WatchRequest::default() });
            subject.map(|subject| subject.interval.as_millis())
        };
        assert_eq!([0, 100, 60_000].map(of), [Ok(1000), Ok(100), Ok(60_000)]);
        for wrong in [1, 99, 60_001] {
            assert_eq!(of(wrong), Err(format!("interval_ms is {wrong}: 100 to 60000 is possible")));
        }
    }

    #[test]
    fn an_answer_has_no_rows_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let (processes, config) = (Processes::default(), config(&folder));
        for first in [0, 1000, 2000, 3000, 4000] {
            let mut played = Played::new("a", 0);
            for peer in first..first + 1000 {
                played.sends(peer, 1);
            }
            played.is_adopted_by(&processes, &config, (7, true));
        }
        let now = Snapshot::take(&processes);
        for (level, told, left_out) in
            [(Level::Job, 1, 0), (Level::Peer, MOST_ROWS, 904), (Level::Stream, MOST_ROWS, 904)]
        {
            let request = WatchRequest { level: level.into(), ..WatchRequest::default() };
            let response = response(&Subject::of(request).unwrap(), &Scopes::default(), &now, Some(&now));
            assert_eq!((response.rows.len(), response.left_out), (told, left_out), "{level:?}");
            assert_eq!(response.rows[0].peer, (level != Level::Job).then_some(0));
        }
        let request = WatchRequest { peer: Some(4999), level: Level::Peer.into(), ..WatchRequest::default() };
        let response = response(&Subject::of(request).unwrap(), &Scopes::default(), &now, None);
        assert_eq!((response.rows.len(), response.left_out), (1, 0));
    }

    #[test]
    fn one_user_does_not_hide_the_rows_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let (processes, config) = (Processes::default(), config(&folder));
        let of_one = [0, 1000, 2000, 3000, 4000].map(|first| ("!", 7, first, 1000));
        for (job, uid, first, count) in of_one.into_iter().chain([("z", 8, 0, 3)]) {
            let mut played = Played::new(job, 0);
            (first..first + count).for_each(|peer| _ = played.sends(peer, 1));
            played.is_adopted_by(&processes, &config, (uid, false));
        }
        let now = Snapshot::take(&processes);
        for level in [Level::Peer, Level::Stream] {
            let request = WatchRequest { level: level.into(), ..WatchRequest::default() };
            let response = response(&Subject::of(request).unwrap(), &Scopes::default(), &now, Some(&now));
            let of = |job| response.rows.iter().filter(|row| row.job == job).count();
            assert_eq!((of("!"), of("z"), response.left_out), (MOST_ROWS - 3, 3, 907), "{level:?}");
        }
    }

    #[test]
    fn what_comes_late_counts_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let (processes, config) = (Processes::default(), config(&folder));
        let adopt = |played: &Played| played.is_adopted_by(&processes, &config, (7, true));
        let subject = Subject::of(WatchRequest::default()).unwrap();
        // Raw bytes in the interval and in all.
        let seen = |now: &Snapshot, before: &Snapshot| {
            let response = response(&subject, &Scopes::default(), now, Some(before));
            let [row] = &response.rows[..] else { panic!("{:?}", response.rows) };
            let raw = |traffic: &Option<mgcomp_proto::v1::Traffic>| traffic.as_ref().unwrap().raw_bytes;
            (raw(&row.interval), raw(&row.total))
        };
        let mut old = Played::new("a", 0);
        let slot = old.sends(1, 1_000_000);
        let first = Snapshot::take(&processes);
        adopt(&old);
        let second = Snapshot::take(&processes);
        assert_eq!(seen(&second, &first), (0, 1_000_000));
        old.has_sent(slot, 1_000_300);
        old.sends(2, 20);
        let third = Snapshot::take(&processes);
        assert_eq!(seen(&third, &second), (320, 1_000_320), "a new stream of a known process");
        let mut new = Played::new("a", third.unix_ns);
        new.sends(1, 4);
        adopt(&new);
        let fourth = Snapshot::take(&processes);
        assert_eq!(seen(&fourth, &third), (4, 1_000_324), "it has begun since");
        assert_eq!(seen(&fourth, &second), (324, 1_000_324));
    }

    #[test]
    fn what_is_looked_at_late_counts_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let (processes, config) = (Processes::default(), config(&folder));
        let adopt = |played: &Played| played.is_adopted_by(&processes, &config, (7, false));
        // As many slots as are looked at of a user, and one more.
        let full: Vec<_> = (0..16).map(|_| adopt(&Played::full("full"))).collect();
        let mut late = Played::new("late", 0);
        let slot = late.sends(1, 1_000_000);
        adopt(&late);
        let request = WatchRequest { job: "late".to_owned(), ..WatchRequest::default() };
        let subject = Subject::of(request).unwrap();
        // Raw bytes in the interval and in all.
        let seen = |now: &Snapshot, before: &Snapshot| {
            let response = response(&subject, &Scopes::default(), now, Some(before));
            let [row] = &response.rows[..] else { panic!("{:?}", response.rows) };
            let raw = |traffic: &Option<mgcomp_proto::v1::Traffic>| traffic.as_ref().unwrap().raw_bytes;
            (raw(&row.interval), raw(&row.total))
        };
        let first = Snapshot::take(&processes);
        assert_eq!(seen(&first, &first), (0, 0));
        processes.remove(&full[0]);
        let second = Snapshot::take(&processes);
        assert_eq!(seen(&second, &first), (0, 1_000_000));
        late.has_sent(slot, 1_000_300);
        late.sends(2, 20);
        let third = Snapshot::take(&processes);
        assert_eq!(seen(&third, &second), (320, 1_000_320), "and what is new is new");
    }
}
