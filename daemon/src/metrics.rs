//! The page for Prometheus: counters of every user's jobs and their peers, and how the daemon does.
//!
//! Counters of a job are of all of its user's processes that were seen, also of those that are [gone](crate::gone). They end with
//! the last one here. Whoever has a job of the same name has counters of his own, or they could spoil each other's. Not all pairs of job and peer are [told](crate::told) one by one; what is of further ones is under
//! the peer `other`, with the streams that have no slot of their own.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use mgcomp_codecs::Algorithm;

use crate::gone::Whom;
use crate::node::Node;
use crate::snapshot::{JobOf, Snapshot, Totals};
use crate::told::Told;

/// How old the numbers may be.
const AGE: Duration = Duration::from_millis(200);

/// What was counted, by whose it is.
type Pairs<'a> = BTreeMap<(JobOf<'a>, Whom), Totals>;

/// Name, help and value of a counter of a job and peer.
type Counter = (&'static str, &'static str, fn(&Totals) -> f64);

const COUNTERS: [Counter; 9] = [
    ("mgcomp_received_raw_bytes_total", "Raw bytes of payloads received.", |t| t.received.raw_bytes as f64),
    ("mgcomp_received_coded_bytes_total", "Coded bytes of payloads received.", |t| {
        t.received.coded_bytes as f64
    }),
    ("mgcomp_sampled_total", "Transfers sampled before they were coded.", |t| t.sampled as f64),
    ("mgcomp_sampling_seconds_total", "Time spent sampling.", |t| t.sampling_ns as f64 / 1e9),
    ("mgcomp_encode_seconds_total", "Time spent encoding.", |t| t.encode_ns as f64 / 1e9),
    ("mgcomp_decode_seconds_total", "Time spent decoding.", |t| t.decode_ns as f64 / 1e9),
    ("mgcomp_acknowledged_total", "Transfers that the peer acknowledged.", |t| t.acknowledged as f64),
    ("mgcomp_acknowledged_seconds_total", "Their time from plan to acknowledgement.", |t| {
        t.acknowledged_ns as f64 / 1e9
    }),
    ("mgcomp_errors_total", "Codec jobs that failed.", |t| t.errors as f64),
];

/// The page.
pub(crate) async fn page(node: &Node) -> String {
    let mut page = String::new();
    // Before the snapshot, so that none is told of after a newer one.
    let mut told = node.told.lock().await;
    let snapshot = node.snapshots.get(&node.processes, AGE).await;
    daemon(&mut page, node);
    jobs(&mut page, &snapshot, &mut told);
    page
}

/// What the processes of each job say.
fn jobs(page: &mut String, snapshot: &Snapshot, told: &mut Told) {
    let mut pairs = Pairs::new();
    let jobs = snapshot.jobs_of_users();
    told.begin(|of| jobs.contains_key(&of));
    for (&of, of_job) in &jobs {
        for process in of_job {
            for (slot, _) in process.slots(None) {
                let whom = told.whom(of, Whom::of(slot), process.who.bounded());
                pairs.entry((of, whom)).or_default().add(slot, None);
            }
        }
    }
    for (of, whom, bounded, counted) in snapshot.gone.iter() {
        pairs.entry((of, told.whom(of, whom, bounded))).or_default().add_counts(counted);
    }
    told.end();
    head(page, "mgcomp_job_processes", "gauge", "A user's processes of a job on this node.");
    for (JobOf { job, uid }, of_job) in &jobs {
        let labels = [("job", *job), ("uid", &uid.to_string())];
        line(page, "mgcomp_job_processes", &labels, of_job.len() as f64);
    }
    algorithms(page, &pairs);
    for (name, help, value) in COUNTERS {
        head(page, name, "counter", help);
        for (pair, totals) in &pairs {
            line_of(page, name, *pair, None, value(totals));
        }
    }
    gauges(page, &pairs);
}

fn daemon(page: &mut String, node: &Node) {
    let info = node.info();
    let numbers = [
        ("mgcomp_daemon_processes", "gauge", "Processes connected.", f64::from(info.processes)),
        ("mgcomp_daemon_watchers", "gauge", "Watch calls under way.", f64::from(info.watchers)),
        (
            "mgcomp_daemon_slots_not_looked_at",
            "gauge",
            "Slots of users who have more than are looked at.",
            node.processes.left_out() as f64,
        ),
        ("mgcomp_daemon_refused_pages_total", "counter", "Control pages refused.", info.refused_pages as f64),
        (
            "mgcomp_daemon_setting_changes_total",
            "counter",
            "Changes of settings.",
            info.setting_changes as f64,
        ),
        (
            "mgcomp_daemon_persist_failing",
            "gauge",
            "1 while settings cannot be kept on disk.",
            f64::from(!info.persist_error.is_empty()),
        ),
    ];
    head(page, "mgcomp_daemon_info", "gauge", "Version of the daemon.");
    line(page, "mgcomp_daemon_info", &[("version", &info.version)], 1.0);
    for (name, kind, help, value) in numbers {
        head(page, name, kind, help);
        line(page, name, &[], value);
    }
}

/// What each algorithm carried.
fn algorithms(page: &mut String, pairs: &Pairs<'_>) {
    type Value = fn(&mgcomp_transport::control::Count) -> u64;
    let counters: [(&str, &str, Value); 3] = [
        ("mgcomp_transfers_total", "Payloads sent.", |count| count.transfers),
        ("mgcomp_raw_bytes_total", "Raw bytes of payloads sent.", |count| count.raw_bytes),
        ("mgcomp_coded_bytes_total", "Coded bytes of payloads sent.", |count| count.coded_bytes),
    ];
    for (name, help, value) in counters {
        head(page, name, "counter", help);
        for (pair, totals) in pairs {
            for (algorithm, count) in Algorithm::ALL.into_iter().zip(&totals.algorithms) {
                if count.transfers > 0 {
                    line_of(page, name, *pair, Some(algorithm), value(count) as f64);
                }
            }
        }
    }
}

/// What can fall.
fn gauges(page: &mut String, pairs: &Pairs<'_>) {
    head(page, "mgcomp_saved_seconds", "gauge", "Time that compression saved, estimated; negative = lost.");
    for (pair, totals) in pairs {
        line_of(page, "mgcomp_saved_seconds", *pair, None, totals.saved_ns as f64 / 1e9);
    }
    head(page, "mgcomp_link_bits_per_second", "gauge", "Rate of the link, as policies know it.");
    for (pair, totals) in pairs {
        if let Some(gbps) = totals.link_gbps() {
            line_of(page, "mgcomp_link_bits_per_second", *pair, None, gbps * 1e9);
        }
    }
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// What is of a pair, and of an algorithm if it is of one.
fn line_of(
    page: &mut String,
    name: &str,
    (JobOf { job, uid }, whom): (JobOf<'_>, Whom),
    algorithm: Option<Algorithm>,
    value: f64,
) {
    let (uid, peer) = (uid.to_string(), whom.to_string());
    let mut labels = vec![("job", job), ("uid", &uid), ("peer", &peer)];
    labels.extend(algorithm.map(|algorithm| ("algorithm", algorithm.name())));
    line(page, name, &labels, value);
}

fn line(page: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(page, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::played::{Played, config};
    use crate::processes::{Process, Processes};

    /// What the page says now of the bytes of a job of user 7 to peer 1.
    fn sent(processes: &Processes, job: &str) -> Option<String> {
        let sent = all_sent(processes, &mut Told::default());
        sent.get(&pair(job, 7, "1")).map(u64::to_string)
    }

    type Pair = (String, String, String);

    fn pair(job: &str, uid: u32, peer: &str) -> Pair {
        (job.to_owned(), uid.to_string(), peer.to_owned())
    }

    /// What the next page says of the bytes of each job to each peer.
    fn all_sent(processes: &Processes, told: &mut Told) -> BTreeMap<Pair, u64> {
        let mut page = String::new();
        jobs(&mut page, &Snapshot::take(processes), told);
        let line = |line: &str| {
            let (job, rest) = line.strip_prefix("mgcomp_raw_bytes_total{job=\"")?.split_once("\",uid=\"")?;
            let (uid, rest) = rest.split_once("\",peer=\"")?;
            let (peer, count) = rest.split_once("\",algorithm=\"none\"} ")?;
            Some((pair(job, uid.parse().unwrap(), peer), count.parse().unwrap()))
        };
        page.lines().filter_map(line).collect()
    }

    /// A process of `uid`, who is no operator, that has sent a byte to each of these peers.
    fn sends_to(processes: &Processes, job: &str, uid: u32, peers: std::ops::Range<u32>) -> Arc<Process> {
        let folder = tempfile::tempdir().unwrap();
        let mut played = Played::new(job, 0);
        for peer in peers {
            played.sends(peer, 1);
        }
        played.is_adopted_by(processes, &config(&folder), (uid, false))
    }

    #[test]
    fn counters_do_not_fall_when_a_process_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (processes, config) = (Processes::default(), config(&folder));
        let adopt = |played: &Played| played.is_adopted_by(&processes, &config, (7, true));
        let (mut one, mut two, mut other) = (Played::new("a", 0), Played::new("a", 0), Played::new("b", 0));
        let slot = one.sends(1, 1000);
        two.sends(1, 200);
        other.sends(1, 5);
        let [first, second, _third] = [&one, &two, &other].map(adopt);
        assert_eq!(sent(&processes, "a").unwrap(), "1200");
        // What it has counted last counts.
        one.has_sent(slot, 1030);
        processes.remove(&first);
        assert_eq!(sent(&processes, "a").unwrap(), "1230");
        processes.remove(&first);
        assert_eq!(sent(&processes, "a").unwrap(), "1230", "it was gone already");
        let third = adopt(&{
            let mut three = Played::new("a", 0);
            three.sends(1, 4);
            three
        });
        processes.remove(&second);
        assert_eq!(sent(&processes, "a").unwrap(), "1234");
        // With the last one the job is over; one of the same name starts anew.
        processes.remove(&third);
        assert_eq!(sent(&processes, "a"), None);
        adopt(&one);
        assert_eq!(
            (sent(&processes, "a").unwrap(), sent(&processes, "b").unwrap()),
            ("1030".into(), "5".into())
        );
    }

    #[test]
    fn pairs_beyond_the_most_are_told_as_others() {
        let processes = Processes::default();
        for first in [0, 1000, 2000, 3000, 4000] {
            sends_to(&processes, "a", 7, first..first + 1000);
        }
        // Whatever one user has, others are told one by one.
        sends_to(&processes, "z", 8, 0..3);
        let sent = all_sent(&processes, &mut Told::default());
        let of = |job: &str, uid: u32, peer: &str| sent.get(&pair(job, uid, peer)).copied();
        assert_eq!([of("a", 7, "4095"), of("a", 7, "4096"), of("a", 7, "other")], [Some(1), None, Some(904)]);
        assert_eq!([of("z", 8, "0"), of("z", 8, "2"), of("z", 8, "other")], [Some(1), Some(1), None]);
    }

    #[test]
    fn a_job_of_the_same_name_changes_nothing_for_another_user() {
        const MUCH: u64 = 1 << 50;
        let (processes, mut told) = (Processes::default(), Told::default());
        let folder = tempfile::tempdir().unwrap();
        let adopt = |played: &Played, uid| played.is_adopted_by(&processes, &config(&folder), (uid, false));
        let (mut one, mut two, mut foreign) = (Played::new("a", 0), Played::new("a", 1), Played::new("a", 0));
        let slot = one.sends(1, 1000);
        two.sends(2, 5);
        foreign.sends(1, MUCH);
        let [first, second, stranger] =
            [(&one, 7), (&two, 7), (&foreign, 8)].map(|(played, uid)| adopt(played, uid));
        let mut of = |uid| all_sent(&processes, &mut told).get(&pair("a", uid, "1")).copied();
        assert_eq!((of(7), of(8)), (Some(1000), Some(MUCH)));
        // What it leaves behind is not added to anybody's either.
        processes.remove(&stranger);
        one.has_sent(slot, 1030);
        assert_eq!((of(7), of(8)), (Some(1030), None));
        processes.remove(&first);
        assert_eq!(of(7), Some(1030), "its job goes on");
        // That a stranger has a job of its name does not keep it.
        let stranger = adopt(&foreign, 8);
        processes.remove(&second);
        assert_eq!((of(7), of(8)), (None, Some(MUCH)));
        processes.remove(&stranger);
        assert_eq!(of(8), None);
    }

    #[test]
    fn counters_do_not_fall_when_jobs_come_and_go() {
        let (processes, mut told) = (Processes::default(), Told::default());
        let mut last = BTreeMap::new();
        // What there is by then; no counter falls of a job that lives.
        let mut look = |of: &str| {
            let sent = all_sent(&processes, &mut told);
            for (of, before) in &last {
                let now = sent.get(of).copied();
                let lives = || sent.keys().any(|(job, ..)| *job == of.0);
                assert!(now >= Some(*before) || !lives(), "{of:?}: {before}, then {now:?}");
            }
            last = sent;
            last.get(&pair(of, 7, "other")).copied()
        };
        let mut of_b: Vec<_> =
            (0..5).map(|n| sends_to(&processes, "b", 7, n * 1000..n * 1000 + 1000)).collect();
        assert_eq!(look("b"), Some(904));
        let of_a = sends_to(&processes, "a", 7, 0..500);
        assert_eq!(look("a"), Some(500));
        assert_eq!(look("b"), Some(904));
        // What a process had counted that is gone stays where it was told.
        let last_of_b = of_b.pop().unwrap();
        of_b.iter().for_each(|process| processes.remove(process));
        assert_eq!(look("b"), Some(904));
        // With its job the places are free, for others than those who have waited for them.
        processes.remove(&last_of_b);
        assert_eq!(look("a"), Some(500));
        sends_to(&processes, "c", 7, 0..500);
        assert_eq!((look("a"), look("c")), (Some(500), None));
        processes.remove(&of_a);
        sends_to(&processes, "a", 7, 0..500);
        assert_eq!(look("a"), Some(500), "it was there all the time, as far as anybody has seen");
    }

    #[test]
    fn labels_are_escaped() {
        let mut page = String::new();
        line(&mut page, "x", &[("job", "a\"b\\c")], 2.5);
        line(&mut page, "y", &[], 3.0);
        assert_eq!(page, "x{job=\"a\\\"b\\\\c\"} 2.5\ny 3\n");
    }
}
