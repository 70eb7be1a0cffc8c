//! What `adaptive` has promised, against what came out.

use super::print::Row;

/// The link rate at which samples are held to their share, in Gb/s.
const SAMPLED_GBPS: f64 = 10.0;
/// Where the oracle is ahead of the best single algorithm by less, in percent, no policy can be ahead of it.
const ROOM: f64 = 0.5;

/// A promise, and where it was kept worst.
pub(super) struct Goal {
    pub(super) name: &'static str,
    /// Figures up to this are good.
    pub(super) limit: f64,
    pub(super) unit: &'static str,
    pub(super) worst: Option<(f64, String)>,
}

pub(super) struct Goals(pub(super) Vec<Goal>);

impl Goals {
    pub(super) fn of(rows: &[Row]) -> Self {
        let percent = |time_ns: f64, other_ns: f64| 100.0 * (time_ns / other_ns - 1.0);
        let time_ns = |row: &Row| row.adaptive().map(|adaptive| adaptive.time_ns);
        let goal = |name, limit, unit, figure: &dyn Fn(&Row) -> Option<f64>| {
            let figures = rows.iter().filter_map(|row| Some((figure(row)?, place(row))));
            Goal { name, limit, unit, worst: figures.max_by(|a, b| a.0.total_cmp(&b.0)) }
        };
        Self(vec![
            goal("decision in the running phase, median", 100.0, "ns", &|row| {
                Some(row.adaptive()?.costs.plan_ns)
            }),
            goal("decision in the running phase, slowest of a hundred", 100.0, "ns", &|row| {
                Some(row.adaptive()?.costs.slow_plan_ns)
            }),
            goal("sampling, of the time at 10 Gb/s", 1.0, "%", &|row| {
                let adaptive = row.adaptive().filter(|_| row.link.rate_gbps == SAMPLED_GBPS)?;
                Some(100.0 * adaptive.sampling_ns / adaptive.time_ns)
            }),
            goal("behind the oracle", 3.0, "%", &|row| Some(percent(time_ns(row)?, row.oracle_ns))),
            goal("behind the best fixed algorithm, one phase", 0.5, "%", &|row| {
                Some(percent(time_ns(row).filter(|_| row.phases == 1)?, row.best_fixed_ns()))
            }),
            goal("behind the best fixed algorithm, phases, if oracle is ahead", 0.0, "%", &|row| {
                let has_room = percent(row.best_fixed_ns(), row.oracle_ns) > ROOM;
                Some(percent(time_ns(row).filter(|_| row.phases > 1 && has_room)?, row.best_fixed_ns()))
            }),
            goal("behind the best fixed algorithm, phases, if oracle is not", 0.5, "%", &|row| {
                let has_room = percent(row.best_fixed_ns(), row.oracle_ns) > ROOM;
                Some(percent(time_ns(row).filter(|_| row.phases > 1 && !has_room)?, row.best_fixed_ns()))
            }),
            goal("slower than never compressing, data that does not shrink", 1.0, "%", &|row| {
                Some(percent(time_ns(row).filter(|_| row.is_noise)?, row.raw_ns()))
            }),
        ])
    }
}

fn place(row: &Row) -> String {
    format!("{} at {} Gb/s, overlap {}", row.sequence, row.link.rate_gbps, row.link.overlap())
}
