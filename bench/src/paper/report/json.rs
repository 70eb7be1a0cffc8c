//! One JSON object a line: `"row"` says what it is.

use serde_json::{Value, json};

use super::super::fabric::{CODECS, Distance};
use super::super::published::TABLE_V;
use super::super::runs::{Done, Run, Scheme};
use super::{Report, Summary};

pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut rows: Vec<Value> = report.done.iter().map(table_v).collect();
    rows.extend(report.done.iter().map(table_vi));
    for done in &report.done {
        rows.extend(done.runs.iter().map(|run| of_run(done, run)));
    }
    rows.push(summary(&Summary::new(report)));
    rows.iter().map(Value::to_string).collect()
}

fn table_v(done: &Done) -> Value {
    let [bdi, fpc, cpackz] = done.ratios.map(rounded);
    let paper = done.bench.map(|bench| {
        let row = TABLE_V[bench as usize];
        let [bdi, fpc, cpackz] = row.ratios;
        json!({ "reads": row.reads, "writes": row.writes, "entropy": row.entropy, "bdi": bdi, "fpc": fpc, "cpackz": cpackz })
    });
    json!({
        "row": "table5", "name": done.name, "source": if done.is_trace { "trace" } else { "generated" },
        "reads": done.character.reads, "writes": done.character.writes,
        "entropy": rounded(done.character.entropy()), "bdi": bdi, "fpc": fpc, "cpackz": cpackz, "paper": paper,
    })
}

fn table_vi(done: &Done) -> Value {
    let [fpc, cpackz, bdi] = done.character.dominant().map(|patterns| {
        let rows = patterns.into_iter().map(|(number, percent)| json!([number, rounded(percent)]));
        rows.collect::<Vec<_>>()
    });
    json!({ "row": "table6", "name": done.name, "fpc": fpc, "cpackz": cpackz, "bdi": bdi })
}

fn of_run(done: &Done, run: &Run) -> Value {
    let (outcome, base) = (&run.outcome, done.outcome(Scheme::None, run.system));
    let share = |ours: u64, base: u64| rounded(ours as f64 / base as f64);
    let (scheme, lambda) = match run.scheme {
        Scheme::None => ("none", None),
        Scheme::Codec(codec) => (CODECS[codec].name(), None),
        Scheme::Adaptive(lambda) => ("paper", Some(lambda.gbps())),
    };
    let mut row = json!({
        "row": "run", "name": done.name, "scheme": scheme, "lambda_gbps": lambda,
        "outstanding": run.system.outstanding, "memory_cycles": run.system.memory_cycles,
        "cycles": outcome.cycles, "bus_cycles": outcome.bus_cycles, "raw_bytes": outcome.raw_bytes,
        "payload_bytes": outcome.payload_bytes, "fabric_bytes": outcome.fabric_bytes, "sent": outcome.sent,
        "codec_pj": rounded(outcome.codec_pj()),
        "payload_share": share(outcome.payload_bytes, base.payload_bytes),
        "fabric_share": share(outcome.fabric_bytes, base.fabric_bytes),
        "time_share": share(outcome.cycles, base.cycles),
    });
    for distance in Distance::ALL {
        let (ours, base) = (outcome.energy_pj(distance), base.energy_pj(distance));
        row[format!("energy_{}_pj", distance.name().replace('-', "_"))] = rounded(ours).into();
        row[format!("energy_{}_share", distance.name().replace('-', "_"))] = rounded(ours / base).into();
    }
    row
}

fn summary(summary: &Summary) -> Value {
    let [inter_die, board, node] = summary.energy.map(rounded);
    json!({
        "row": "means", "lambda_gbps": summary.lambda.gbps(), "workloads": summary.workloads,
        "payload_share": rounded(summary.payload), "fabric_share": rounded(summary.traffic),
        "time_share": rounded(summary.time), "performance_percent": rounded(summary.performance_percent()),
        "energy_inter_die_share": inter_die, "energy_board_share": board, "energy_node_share": node,
    })
}

/// To four decimals: more would be noise.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
