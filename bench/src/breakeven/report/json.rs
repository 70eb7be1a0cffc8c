//! One object a line.

use serde_json::{Value, json};

use super::super::codec::Rates;
use super::super::compared::Compared;
use super::super::model::LINKS;
use super::{Case, Report};

pub(super) fn lines(report: &Report) -> Vec<String> {
    let rows = report.cases.iter().flat_map(|case| rows(case, &report.bytes));
    rows.map(|row| row.to_string()).collect()
}

fn rows(case: &Case, bytes: &[usize]) -> Vec<Value> {
    let gpu = &case.model.codec.source;
    let mut rows = vec![model(case)];
    for link in LINKS {
        let [turn, overlap] = case.break_even(link);
        rows.push(json!({
            "row": "break-even", "gpu": gpu, "link": link.name, "link_gbytes": link.gbytes,
            "in_turn_bytes": turn.map(f64::ceil), "overlapped_bytes": overlap.map(f64::ceil),
        }));
        for &bytes in bytes {
            let [turn, overlap] = case.speed_up(link, bytes);
            rows.push(json!({
                "row": "speed-up", "gpu": gpu, "link": link.name, "bytes": bytes,
                "in_turn": turn, "overlapped": overlap,
            }));
        }
    }
    rows.extend(case.copies.iter().map(|compared| copy(gpu, compared)));
    rows
}

/// What the model goes by. Its rates are those of the largest size, and of each where they were measured.
fn model(case: &Case) -> Value {
    let model = &case.model;
    let (_, Rates { ratio, encode_gbytes, decode_gbytes }) = model.codec.last();
    let size = |(bytes, rates): &(f64, Rates)| {
        json!({
            "bytes": *bytes as u64, "ratio": rates.ratio, "encode_gbytes": rates.encode_gbytes,
            "decode_gbytes": rates.decode_gbytes,
        })
    };
    let sizes = if model.codec.is_measured() { model.codec.sizes() } else { &[] };
    json!({
        "row": "model", "gpu": model.codec.source, "ratio": ratio, "encode_gbytes": encode_gbytes,
        "decode_gbytes": decode_gbytes, "by_size": sizes.iter().map(size).collect::<Vec<_>>(),
        "launch_us": model.launch_s * 1e6, "latency_us": model.latency_s * 1e6, "efficiency": model.efficiency,
    })
}

fn copy(gpu: &str, compared: &Compared) -> Value {
    let copied = &compared.copied;
    let [turn, overlap] = compared.predicted;
    let [of_turn, of_overlap] = compared.measured_of_predicted();
    json!({
        "row": "copy", "gpu": gpu, "copy": copied.way, "dataset": copied.dataset, "bytes": copied.bytes,
        "plain_gbytes": copied.plain_gbytes, "in_turn": turn, "overlapped": overlap,
        "measured": compared.measured(), "measured_of_in_turn": of_turn, "measured_of_overlapped": of_overlap,
    })
}
