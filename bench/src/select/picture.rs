//! Regret over the link rates.

use mgcomp_codecs::Algorithm;
use mgcomp_selector::PolicySpec;

use super::print::Row;
use crate::machine::Machine;
use mgcomp_plot::{Lines, Scale, Series};

/// Regrets in percent below this are drawn as this: the scale is logarithmic.
const LEAST_PERCENT: f64 = 0.1;

/// One curve for each policy: the mean regret over all sequences, with overlap and without where both were measured.
pub(super) fn draw(rows: &[Row], machine: &Machine) -> String {
    let mut rates: Vec<f64> = rows.iter().map(|row| row.link.rate_gbps).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let specs: Vec<PolicySpec> =
        rows.first().map_or(Vec::new(), |row| row.policies.iter().map(|p| p.0).collect());
    let shown =
        |spec: &PolicySpec| !matches!(spec, PolicySpec::Fixed(f) if f.algorithm() == Algorithm::Deflate);
    let curve = |spec: PolicySpec| {
        let mean = |rate: f64| {
            let regrets: Vec<f64> = rows
                .iter()
                .filter(|row| row.link.rate_gbps == rate)
                .filter_map(|row| Some(100.0 * row.regret(row.of(spec)?.time_ns)))
                .collect();
            (rate, (regrets.iter().sum::<f64>() / regrets.len().max(1) as f64).max(LEAST_PERCENT))
        };
        Series::line(spec.to_string(), rates.iter().copied().map(mean).collect())
    };
    Lines {
        titles: vec![
            "How much longer than with the best algorithm of each transfer".into(),
            format!("mean of {} sequences, {}; {}", sequences(rows), overlap(rows), machine.describe()),
        ],
        axes: ("link rate in Gb/s".into(), "%".into()),
        scales: (Scale::Log, Scale::Log),
        series: specs.into_iter().rev().filter(shown).map(curve).collect(),
        level: None,
    }
    .draw()
    .svg()
}

/// Whether codecs and link were at work at the same time.
fn overlap(rows: &[Row]) -> &'static str {
    let overlaps = |row: &Row| row.link.segment.is_some();
    match (rows.iter().any(overlaps), rows.iter().all(overlaps)) {
        (true, true) => "with overlap",
        (true, false) => "with overlap and without",
        (false, _) => "without overlap",
    }
}

fn sequences(rows: &[Row]) -> usize {
    let mut names: Vec<&str> = rows.iter().map(|row| row.sequence.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}
