//! One JSON object a line: `"row"` says what it is.

use serde_json::{Value, json};

use super::super::fabric::{CODECS, Distance};
use super::super::published::{TABLE_V, TABLE_VI};
use super::super::runs::{Done, Plan, Run, Scheme};
use super::{Report, Summary, Sweep};

pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut rows = vec![settings(report)];
    rows.extend(report.done.iter().map(table_v));
    rows.extend(report.done.iter().map(table_vi));
    rows.extend(report.done.iter().map(figure_1));
    for done in &report.done {
        rows.extend(done.runs.iter().map(|run| of_run(done, run)));
    }
    rows.extend(report.sweep().iter().flat_map(sweep));
    rows.extend(Summary::all(report).iter().map(summary));
    rows.iter().map(Value::to_string).collect()
}

/// What the rows below are of. Figures are those of the first number of outstanding requests; there is no scale where
/// nothing was generated.
fn settings(report: &Report) -> Value {
    let Plan { phases, lambdas, systems, as_paper, .. } = &report.plan;
    let outstanding: Vec<u32> = systems.iter().map(|system| system.outstanding).collect();
    let lambdas: Vec<f64> = lambdas.iter().map(|lambda| lambda.decimal()).collect();
    json!({
        "row": "settings", "scale": report.scale(), "count_as_paper": as_paper, "sampling": phases.sampling,
        "running": phases.running, "votes": phases.votes, "outstanding": outstanding,
        "memory_cycles": systems[0].memory_cycles, "lambda_gbps": lambdas,
    })
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
        "partial_payloads": done.character.partial_payloads,
        "entropy": rounded(done.character.entropy()), "bdi": bdi, "fpc": fpc, "cpackz": cpackz, "paper": paper,
    })
}

fn table_vi(done: &Done) -> Value {
    let [fpc, cpackz, bdi] = done.character.dominant().map(|patterns| {
        let rows = patterns.into_iter().map(|(number, percent)| json!([number, rounded(percent)]));
        rows.collect::<Vec<_>>()
    });
    let paper = done.bench.map(|bench| {
        let [fpc, cpackz, bdi] = TABLE_VI[bench as usize];
        json!({ "fpc": fpc, "cpackz": cpackz, "bdi": bdi })
    });
    json!({ "row": "table6", "name": done.name, "fpc": fpc, "cpackz": cpackz, "bdi": bdi, "paper": paper })
}

/// The first transfers, one value of each array for each.
fn figure_1(done: &Done) -> Value {
    let bits = |codec: usize| done.shown.iter().map(|shown| shown.bits[codec]).collect::<Vec<_>>();
    let entropy: Vec<f64> = done.shown.iter().map(|shown| rounded(shown.entropy)).collect();
    json!({
        "row": "figure1", "name": done.name, "bdi_bits": bits(0), "fpc_bits": bits(1), "cpackz_bits": bits(2),
        "entropy": entropy,
    })
}

fn of_run(done: &Done, run: &Run) -> Value {
    let (outcome, base) = (&run.outcome, done.outcome(Scheme::None, run.system));
    let share = |ours: u64, base: u64| rounded(ours as f64 / base as f64);
    let (scheme, lambda) = name_of(run.scheme);
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

/// The policy, and its λ.
fn name_of(scheme: Scheme) -> (&'static str, Option<f64>) {
    match scheme {
        Scheme::None => ("none", None),
        Scheme::Codec(codec) => (CODECS[codec].name(), None),
        Scheme::Adaptive(lambda) => ("paper", Some(lambda.decimal())),
    }
}

/// `time_share` is of the mean time without compression with `base_outstanding` requests.
fn sweep(sweep: &Sweep) -> Vec<Value> {
    let mut rows = Vec::new();
    for (outstanding, values) in &sweep.rows {
        for (&scheme, &value) in sweep.schemes.iter().zip(values) {
            let (scheme, lambda) = name_of(scheme);
            rows.push(json!({
                "row": "sweep", "outstanding": outstanding, "base_outstanding": sweep.base, "scheme": scheme,
                "lambda_gbps": lambda, "time_share": rounded(value),
            }));
        }
    }
    rows
}

fn summary(summary: &Summary) -> Value {
    let [inter_die, board, node] = summary.energy.map(rounded);
    let paper = summary.published().map(|[traffic, performance, energy]| {
        json!({ "traffic_percent": traffic, "performance_percent": performance, "energy_inter_die_percent": energy })
    });
    json!({
        "row": "means", "lambda_gbps": summary.lambda.decimal(), "outstanding": summary.outstanding,
        "workloads": summary.workloads, "paper": paper,
        "payload_share": rounded(summary.payload), "fabric_share": rounded(summary.traffic),
        "time_share": rounded(summary.time), "performance_percent": rounded(summary.performance_percent()),
        "energy_inter_die_share": inter_die, "energy_board_share": board, "energy_node_share": node,
    })
}

/// To four decimals: more would be noise.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
