//! What the daemon says, as text and as JSON.

use std::time::Duration;

use mgcomp_proto::v1::{AlgorithmTraffic, Decision, Scope, Settings, Traffic};
use serde_json::{Value, json};

/// What stands in place of a policy where compression is switched off.
pub(crate) const OFF: &str = "off";

/// The kind of a scope.
pub(crate) fn kind(scope: &Scope) -> &'static str {
    match scope {
        Scope { stream: Some(_), .. } => "stream",
        Scope { peer: Some(_), .. } => "peer",
        Scope { job, .. } if !job.is_empty() => "job",
        _ => "node",
    }
}

/// A scope for people.
pub(crate) fn place(scope: &Scope) -> String {
    let mut place = if scope.job.is_empty() { "node".to_owned() } else { format!("job {}", scope.job) };
    if let Some(peer) = scope.peer {
        place += &format!(", peer {peer}");
    }
    if let Some(number) = scope.stream {
        place += &format!(", stream {}", stream(number));
    }
    place
}

/// The number of a stream for people, as they may say it too: those of tags begin at 2 to the power of 31.
pub(crate) fn stream(number: u32) -> String {
    format!("{number:#x}")
}

/// What is said below a list of which the daemon has told a part.
pub(crate) fn left_out(count: u32, what: &str) -> Option<String> {
    (count > 0).then(|| format!("and {count} more: {what}"))
}

/// A scope's fields, into an object.
pub(crate) fn put_scope(object: &mut Value, scope: &Scope) {
    object["scope"] = kind(scope).into();
    if !scope.job.is_empty() {
        object["job"] = scope.job.as_str().into();
    }
    for (key, value) in [("peer", scope.peer), ("stream", scope.stream)] {
        if let Some(value) = value {
            object[key] = value.into();
        }
    }
}

pub(crate) fn settings(settings: &Settings) -> Value {
    json!({
        "lambda_gbps": settings.lambda_gbps,
        "policy": settings.policy,
        "compress": settings.compress,
        "least_bytes": settings.least_bytes,
        "read_cap_gbps": settings.read_cap_gbps,
    })
}

pub(crate) fn traffic(traffic: &Traffic) -> Value {
    json!({
        "transfers": traffic.transfers,
        "raw_bytes": traffic.raw_bytes,
        "coded_bytes": traffic.coded_bytes,
        "ratio": ratio(traffic),
        "algorithms": algorithms(&traffic.algorithms),
        "sampled": traffic.sampled,
        "sampling_ns": traffic.sampling_ns,
        "encode_ns": traffic.encode_ns,
        "decode_ns": traffic.decode_ns,
        "acknowledged": traffic.acknowledged,
        "acknowledged_ns": traffic.acknowledged_ns,
        "received": traffic.received,
        "received_raw_bytes": traffic.received_raw_bytes,
        "received_coded_bytes": traffic.received_coded_bytes,
        "errors": traffic.errors,
        "predicted_bits": traffic.predicted_bits,
        "achieved_bits": traffic.achieved_bits,
        "saved_ns": traffic.saved_ns,
    })
}

/// What each algorithm has carried, by name.
pub(crate) fn algorithms(carried: &[AlgorithmTraffic]) -> Value {
    let counts = |of: &AlgorithmTraffic| {
        let counts =
            json!({ "transfers": of.transfers, "raw_bytes": of.raw_bytes, "coded_bytes": of.coded_bytes });
        (of.algorithm.clone(), counts)
    };
    carried.iter().map(counts).collect::<serde_json::Map<_, _>>().into()
}

pub(crate) fn decision(decision: &Decision) -> Value {
    json!({
        "decided": decision.decided,
        "sent": decision.sent,
        "reason": decision.reason,
        "raw_bytes": decision.raw_bytes,
        "coded_bytes": decision.coded_bytes,
        "predicted_bits": decision.predicted_bits,
        "predicted_ns": decision.predicted_ns,
        "encode_ns": decision.encode_ns,
    })
}

/// Raw over coded bytes; `None` where nothing was sent.
pub(crate) fn ratio(traffic: &Traffic) -> Option<f64> {
    (traffic.coded_bytes > 0).then(|| traffic.raw_bytes as f64 / traffic.coded_bytes as f64)
}

/// The other side of a row and its stream, for people: of copies, the devices that they go to and come from.
pub(crate) fn ends(
    (peer, number): (Option<u32>, Option<u32>),
    devices: (Option<u32>, Option<u32>),
) -> [String; 2] {
    if let (Some(from), Some(to)) = devices {
        return [format!("dev {to}"), format!("from dev {from}")];
    }
    [peer.map(|peer| peer.to_string()), number.map(stream)]
        .map(|text| text.unwrap_or_else(|| "other".to_owned()))
}

/// A ratio for people.
pub(crate) fn ratio_text(traffic: &Traffic) -> String {
    ratio(traffic).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// Which algorithms carried how much of the raw bytes, the most first.
pub(crate) fn mix(traffic: &Traffic) -> String {
    let mut carried: Vec<_> = traffic.algorithms.iter().collect();
    carried.sort_by_key(|carried| std::cmp::Reverse(carried.raw_bytes));
    let share = |bytes: u64| bytes as f64 * 100.0 / traffic.raw_bytes.max(1) as f64;
    let texts: Vec<_> =
        carried.iter().map(|of| format!("{} {:.0} %", of.algorithm, share(of.raw_bytes))).collect();
    if texts.is_empty() { "–".to_owned() } else { texts.join(", ") }
}

/// Bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A time for people; may be negative.
pub(crate) fn time(ns: i64) -> String {
    match ns.unsigned_abs() {
        1_000_000_000.. => format!("{:.2} s", ns as f64 / 1e9),
        1_000_000.. => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} µs", ns as f64 / 1e3),
    }
}

/// How long something has been there, for people.
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 86_400.. => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
        seconds @ 3600.. => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        seconds @ 60.. => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{seconds} s"),
    }
}

/// λ for people.
pub(crate) fn lambda(settings: Option<&Settings>) -> String {
    settings.and_then(|settings| settings.lambda_gbps).map_or_else(|| "–".to_owned(), |gbps| gbps.to_string())
}

/// What decides, for people.
pub(crate) fn policy(settings: Option<&Settings>) -> String {
    match settings {
        Some(Settings { compress: Some(false), .. }) => "off".to_owned(),
        Some(Settings { policy: Some(policy), .. }) => policy.clone(),
        _ => "–".to_owned(),
    }
}

/// Rows of texts under a head; every column as wide as it needs, numbers to the right.
pub(crate) fn table(head: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.enumerate().map(|(column, cell)| match widths[column] {
            width if column < left || column + 1 == widths.len() => format!("{cell:<width$}"),
            width => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let body: String = rows.iter().map(|row| line(&mut row.iter().map(String::as_str))).collect();
    line(&mut head.iter().copied()) + &body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 1023, 1536, 3 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]);
        assert_eq!([1500, -2_500_000, 3_000_000_000].map(time), ["1.5 µs", "-2.5 ms", "3.00 s"]);
        let ages = [59, 60, 3661, 90_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(ages, ["59 s", "1 min 0 s", "1 h 1 min", "1 d 1 h"]);
        let scope = Scope { job: "a".into(), peer: Some(3), stream: None };
        assert_eq!((kind(&scope), place(&scope)), ("peer", "job a, peer 3".to_owned()));
        assert_eq!(place(&Scope { stream: Some(31), ..scope }), "job a, peer 3, stream 0x1f");
    }

    #[test]
    fn copies_name_their_devices() {
        let stream = Some(31);
        assert_eq!(ends((Some(3), stream), (None, None)), ["3", "0x1f"]);
        assert_eq!(ends((None, None), (None, None)), ["other", "other"]);
        assert_eq!(ends((Some(0), stream), (Some(2), Some(7))), ["dev 7", "from dev 2"]);
    }

    #[test]
    fn columns_line_up() {
        let rows =
            [vec!["long name".into(), "1".into(), "x".into()], vec!["b".into(), "100".into(), "yy".into()]];
        let expected = "job        raw  mix\nlong name    1  x\nb          100  yy\n";
        assert_eq!(table(&["job", "raw", "mix"], 1, &rows), expected);
    }
}
