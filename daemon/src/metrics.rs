//! The page for Prometheus: counters of every job and peer, and how the daemon does.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_transport::control::{SlotKind, SlotView};

use crate::node::Node;
use crate::snapshot::Totals;

/// How old the numbers may be.
const AGE: Duration = Duration::from_millis(200);

/// What is on the other side, as the label `peer` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whom {
    Peer(u32),
    /// Copies from one device of a process to another.
    Devices {
        from: u32,
        to: u32,
    },
    /// Streams without a slot of their own.
    Other,
}

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
    daemon(&mut page, node);
    let snapshot = node.snapshots.get(&node.processes, AGE).await;
    let mut peers = BTreeMap::<(&str, Whom), Totals>::new();
    let mut processes = BTreeMap::<&str, usize>::new();
    for (job, of_job) in snapshot.jobs() {
        processes.insert(job, of_job.len());
        for (slot, _) in of_job.iter().flat_map(|process| process.slots(None)) {
            peers.entry((job, Whom::of(slot))).or_default().add(slot, None);
        }
    }
    head(&mut page, "mgcomp_job_processes", "gauge", "Processes of a job on this node.");
    for (job, count) in processes {
        line(&mut page, "mgcomp_job_processes", &[("job", job)], count as f64);
    }
    algorithms(&mut page, &peers);
    for (name, help, value) in COUNTERS {
        head(&mut page, name, "counter", help);
        for ((job, peer), totals) in &peers {
            let peer = peer.to_string();
            line(&mut page, name, &[("job", job), ("peer", &peer)], value(totals));
        }
    }
    gauges(&mut page, &peers);
    page
}

fn daemon(page: &mut String, node: &Node) {
    let info = node.info();
    let numbers = [
        ("mgcomp_daemon_processes", "gauge", "Processes connected.", f64::from(info.processes)),
        ("mgcomp_daemon_watchers", "gauge", "Watch calls under way.", f64::from(info.watchers)),
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
fn algorithms(page: &mut String, peers: &BTreeMap<(&str, Whom), Totals>) {
    type Value = fn(&mgcomp_transport::control::Count) -> u64;
    let counters: [(&str, &str, Value); 3] = [
        ("mgcomp_transfers_total", "Payloads sent.", |count| count.transfers),
        ("mgcomp_raw_bytes_total", "Raw bytes of payloads sent.", |count| count.raw_bytes),
        ("mgcomp_coded_bytes_total", "Coded bytes of payloads sent.", |count| count.coded_bytes),
    ];
    for (name, help, value) in counters {
        head(page, name, "counter", help);
        for ((job, peer), totals) in peers {
            let peer = peer.to_string();
            for (algorithm, count) in Algorithm::ALL.into_iter().zip(&totals.algorithms) {
                if count.transfers > 0 {
                    let labels = [("job", *job), ("peer", &peer), ("algorithm", algorithm.name())];
                    line(page, name, &labels, value(count) as f64);
                }
            }
        }
    }
}

/// What can fall.
fn gauges(page: &mut String, peers: &BTreeMap<(&str, Whom), Totals>) {
    head(page, "mgcomp_saved_seconds", "gauge", "Time that compression saved, estimated; negative = lost.");
    for ((job, peer), totals) in peers {
        let peer = peer.to_string();
        line(page, "mgcomp_saved_seconds", &[("job", job), ("peer", &peer)], totals.saved_ns as f64 / 1e9);
    }
    head(page, "mgcomp_link_bits_per_second", "gauge", "Rate of the link, as policies know it.");
    for ((job, peer), totals) in peers {
        if let Some(gbps) = totals.link_gbps() {
            let peer = peer.to_string();
            line(page, "mgcomp_link_bits_per_second", &[("job", job), ("peer", &peer)], gbps * 1e9);
        }
    }
}

impl Whom {
    fn of(slot: &SlotView) -> Self {
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

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(page: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(page, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = String::new();
        line(&mut page, "x", &[("job", "a\"b\\c")], 2.5);
        line(&mut page, "y", &[], 3.0);
        assert_eq!(page, "x{job=\"a\\\"b\\\\c\"} 2.5\ny 3\n");
    }
}
