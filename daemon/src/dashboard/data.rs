//! What the page shows: sums by job, and who sends to whom; never more than a screen has room for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::Lambda;
use mgcomp_transport::control::{SlotKind, SlotView};
use serde::Serialize;

use super::verdict::Verdict;
use crate::node::Node;
use crate::rows::Room;
use crate::service::convert;
use crate::settings::Scopes;
use crate::snapshot::{ProcessView, Totals};

/// How old the numbers may be: all who look at the same moment see the same.
const AGE: Duration = Duration::from_millis(100);
/// Jobs that are told one by one: those that send the most, and as many of one user as of another.
const MOST_JOBS: usize = 40;
/// Rows and columns of the map of links. Where there are more ranks, neighbours share one.
const MOST_RANKS: usize = 48;
/// Pairs of devices that are told one by one.
const MOST_PAIRS: usize = 64;

#[derive(Serialize)]
struct Data<'a> {
    /// Since the daemon was started: the time of day may be set back or forth.
    up_ns: u64,
    host: String,
    version: &'static str,
    processes: usize,
    /// In the order of their numbers.
    algorithms: Vec<&'static str>,
    verdict: Verdict,
    total: Sums,
    jobs: Vec<Job<'a>>,
    /// How many jobs are not told.
    other_jobs: usize,
    links: Links<'a>,
}

#[derive(Serialize)]
struct Job<'a> {
    job: &'a str,
    processes: usize,
    streams: usize,
    lambda_gbps: Option<f64>,
    policy: Option<String>,
    compress: Option<bool>,
    #[serde(skip)]
    is_off: bool,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Serialize)]
struct Sums {
    #[serde(flatten)]
    sent: Sent,
    /// How much of that processes had sent before anybody could look at it: nothing that was sent between two looks.
    brought: Sent,
    saved_ns: i64,
    link_gbps: Option<f64>,
}

#[derive(Serialize)]
struct Sent {
    raw_bytes: u64,
    coded_bytes: u64,
    /// Raw bytes by name.
    algorithms: BTreeMap<&'static str, u64>,
}

/// Who of a job sends to whom, and which devices its processes copy between.
#[derive(Default, Serialize)]
struct Links<'a> {
    job: &'a str,
    /// Names of rows and columns.
    ranks: Vec<String>,
    peers: Vec<String>,
    cells: Vec<Link>,
    copies: Vec<Copies>,
}

/// What a rank's copies carry from one device to another.
#[derive(Serialize)]
struct Copies {
    rank: Option<u32>,
    from_device: u32,
    to_device: u32,
    raw: u64,
    coded: u64,
    link_gbps: Option<f64>,
}

/// What goes from a row to a column.
#[derive(Serialize)]
struct Link {
    from: usize,
    to: usize,
    raw: u64,
    coded: u64,
    link_gbps: Option<f64>,
}

/// All of it, with the links of `wanted` or, if there is no such job, of the one that sends the most.
pub(super) async fn json(node: &Node, wanted: &str) -> String {
    let snapshot = node.snapshots.get(&node.processes, AGE).await;
    let by_job = snapshot.jobs();
    let mut total = Both::default();
    let mut jobs: Vec<_> = {
        let scopes = node.store.scopes();
        by_job.iter().map(|(job, processes)| Job::of(job, processes, &scopes, &mut total)).collect()
    };
    jobs.sort_by_key(|job| Reverse(job.sums.sent.raw_bytes));
    let off = jobs.iter().all(|job| job.is_off);
    let shown = by_job.get_key_value(wanted).or_else(|| by_job.get_key_value(jobs.first()?.job));
    let all = jobs.len();
    let owners =
        |job: &Job<'_>| by_job[job.job].iter().map(|process| process.who.uid).collect::<BTreeSet<_>>();
    let mut room = Room::among(jobs.iter().map(owners), MOST_JOBS);
    jobs.retain(|job| room.take(owners(job)));
    let other_jobs = all - jobs.len();
    let data = Data {
        up_ns: snapshot.at.saturating_duration_since(node.started).as_nanos() as u64,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        version: env!("CARGO_PKG_VERSION"),
        processes: snapshot.processes.len(),
        algorithms: Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect(),
        verdict: Verdict::of(snapshot.processes.len(), off, &total.all),
        total: Sums::of(&total),
        jobs,
        other_jobs,
        links: shown.map(|(job, processes)| Links::of(job, processes)).unwrap_or_default(),
    };
    serde_json::to_string(&data).unwrap_or_default()
}

impl<'a> Job<'a> {
    /// What the processes of a job say, which is added to `total` too.
    fn of(job: &'a str, processes: &[&ProcessView], scopes: &Scopes, total: &mut Both) -> Self {
        let (mut sums, mut streams) = (Both::default(), 0);
        for (slot, _) in processes.iter().flat_map(|process| process.slots(None)) {
            sums.all.add(slot, None);
            total.all.add(slot, None);
            streams += usize::from(slot.kind == SlotKind::Sent);
        }
        for process in processes {
            sums.brought.add_counts(&process.brought);
            total.brought.add_counts(&process.brought);
        }
        let in_job = scopes.of_job(job);
        let settings = in_job.job;
        Self {
            job,
            processes: processes.len(),
            streams,
            lambda_gbps: settings.lambda.map(Lambda::decimal),
            policy: settings.policy.map(|policy| policy.to_string()),
            compress: settings.compress,
            is_off: in_job.is_off(),
            sums: Sums::of(&sums),
        }
    }
}

/// All that was counted, and what of it was before anybody could look.
#[derive(Default)]
struct Both {
    all: Totals,
    brought: Totals,
}

impl Sums {
    fn of(Both { all, brought }: &Both) -> Self {
        let (sent, brought) = (Sent::of(all), Sent::of(brought));
        Self { sent, brought, saved_ns: all.saved_ns, link_gbps: all.link_gbps() }
    }
}

impl Sent {
    fn of(totals: &Totals) -> Self {
        let sent = totals.sent();
        let carried = Algorithm::ALL.into_iter().zip(&totals.algorithms);
        let carried = carried.filter(|(_, count)| count.raw_bytes > 0);
        Self {
            raw_bytes: sent.raw_bytes,
            coded_bytes: sent.coded_bytes,
            algorithms: carried.map(|(algorithm, count)| (algorithm.name(), count.raw_bytes)).collect(),
        }
    }
}

impl<'a> Links<'a> {
    fn of(job: &'a str, processes: &[&'a ProcessView]) -> Self {
        let slots = || processes.iter().flat_map(|process| process.slots(None)).map(|(slot, _)| slot);
        let sent: Vec<_> = slots().filter(|slot| slot.kind == SlotKind::Sent).collect();
        let mut copies = BTreeMap::<_, Totals>::new();
        for (slot, devices) in slots().filter_map(|slot| Some((slot, slot.devices()?))) {
            copies.entry((convert::rank(slot), devices)).or_default().add(slot, None);
        }
        Self {
            copies: copies.into_iter().take(MOST_PAIRS).map(Copies::of).collect(),
            ..Self::between(job, &sent)
        }
    }

    fn between(job: &'a str, slots: &[&SlotView]) -> Self {
        let (ranks, row) = groups(slots.iter().map(|slot| slot.rank).collect());
        let (peers, column) = groups(slots.iter().map(|slot| slot.peer).collect());
        let mut cells = BTreeMap::<(usize, usize), Totals>::new();
        for slot in slots {
            cells.entry((row[&slot.rank], column[&slot.peer])).or_default().add(slot, None);
        }
        let link = |((from, to), sums): ((usize, usize), Totals)| {
            let sent = sums.sent();
            Link { from, to, raw: sent.raw_bytes, coded: sent.coded_bytes, link_gbps: sums.link_gbps() }
        };
        Self { job, ranks, peers, cells: cells.into_iter().map(link).collect(), copies: Vec::new() }
    }
}

impl Copies {
    fn of(((rank, [from_device, to_device]), sums): ((Option<u32>, [u32; 2]), Totals)) -> Self {
        let (sent, link_gbps) = (sums.sent(), sums.link_gbps());
        Self { rank, from_device, to_device, raw: sent.raw_bytes, coded: sent.coded_bytes, link_gbps }
    }
}

/// Names of groups of neighbours, and the group of each number.
fn groups(numbers: BTreeSet<u32>) -> (Vec<String>, BTreeMap<u32, usize>) {
    let numbers: Vec<u32> = numbers.into_iter().collect();
    let name = |group: &[u32]| match group {
        [first, .., last] => format!("{first}–{last}"),
        only => only.iter().map(u32::to_string).collect(),
    };
    let of_each = numbers.len().div_ceil(MOST_RANKS).max(1);
    let names = numbers.chunks(of_each).map(name).collect();
    (names, numbers.iter().enumerate().map(|(index, number)| (*number, index / of_each)).collect())
}

#[cfg(test)]
mod tests {
    use mgcomp_transport::control::Settings;

    use super::*;
    use crate::played::{Played, config};
    use crate::processes::Processes;
    use crate::settings::Scope;
    use crate::snapshot::Snapshot;

    #[test]
    fn a_lambda_is_shown_as_it_was_given() {
        let mut scopes = Scopes::default();
        scopes.set(Scope::default(), Settings { lambda: Lambda::try_new(0.1).ok(), ..Settings::default() });
        let shown = Job::of("a", &[], &scopes, &mut Both::default()).lambda_gbps;
        assert_eq!(shown.map(f64::to_bits), Some(0.1f64.to_bits()));
    }

    #[test]
    fn a_job_is_not_off_while_anything_in_it_is_on() {
        let compress = |on| Settings { compress: Some(on), ..Settings::default() };
        let is_off = |scopes: &Scopes| Job::of("a", &[], scopes, &mut Both::default()).is_off;
        let mut scopes = Scopes::default();
        assert!(!is_off(&scopes));
        scopes.set(Scope::default(), compress(false));
        assert!(is_off(&scopes));
        let of = |job: &str, peer, stream| Scope { job: Some(job.to_owned()), peer: Some(peer), stream };
        scopes.set(of("b", 3, None), compress(true));
        scopes.set(of("a", 3, None), Settings { lambda: Lambda::try_new(1.0).ok(), ..compress(false) });
        assert!(is_off(&scopes), "what is set for another job, and what is off too");
        for stream in [None, Some(7)] {
            scopes.set(of("a", 3, stream), compress(true));
            assert!(!is_off(&scopes), "{stream:?}");
            scopes.set(of("a", 3, stream), Settings::default());
        }
        assert!(is_off(&scopes));
    }

    #[test]
    fn what_is_looked_at_late_is_brought() {
        let folder = tempfile::tempdir().unwrap();
        let (processes, config) = (Processes::default(), config(&folder));
        let adopt = |played: &Played| played.is_adopted_by(&processes, &config, (7, false));
        // As many slots as are looked at of a user, and some more.
        let full: Vec<_> = (0..16).map(|_| adopt(&Played::full("full"))).collect();
        let mut late = Played::new("late", 0);
        let slot = late.sends(1, 1_000_000);
        adopt(&late);
        // Raw bytes in all, and what of them is nothing that was sent between two looks.
        let seen = || {
            let snapshot = Snapshot::take(&processes);
            let mut total = Both::default();
            let job = Job::of("late", &snapshot.jobs()["late"], &Scopes::default(), &mut total);
            assert_eq!(total.brought.sent().raw_bytes, job.sums.brought.raw_bytes);
            (job.sums.sent.raw_bytes, job.sums.brought.raw_bytes)
        };
        assert_eq!(seen(), (0, 0));
        processes.remove(&full[0]);
        late.sends(2, 70);
        assert_eq!(seen(), (1_000_070, 1_000_000), "what was not there at the last look is new");
        late.has_sent(slot, 1_000_300);
        late.sends(3, 5);
        assert_eq!(seen(), (1_000_375, 1_000_000));
    }

    #[test]
    fn many_ranks_share_rows() {
        let (names, group) = groups(BTreeSet::from([3, 5, 9]));
        assert_eq!((names, group[&9]), (vec!["3".to_owned(), "5".to_owned(), "9".to_owned()], 2));
        let (names, group) = groups((0..1000).collect());
        assert_eq!((names.len(), names[0].as_str(), names[47].as_str()), (48, "0–20", "987–999"));
        assert_eq!((group[&20], group[&21], group[&999]), (0, 1, 47));
        assert_eq!(groups(BTreeSet::new()).0, Vec::<String>::new());
    }
}
