//! What `adaptive` has promised, against what came out.

use super::print::Row;
use super::sequence::Course;

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
        let has_phases = |row: &Row| matches!(row.course, Course::Phases(2..));
        let time_ns = |row: &Row| row.adaptive().map(|adaptive| adaptive.time_ns);
        let goal = |name, limit, unit, figure: &dyn Fn(&Row) -> Option<f64>| {
            let figures = rows.iter().filter_map(|row| Some((figure(row)?, place(row))));
            Goal { name, limit, unit, worst: figures.max_by(|a, b| a.0.total_cmp(&b.0)) }
        };
        Self(vec![
            goal("decision in the running phase, median", 100.0, "ns", &|row| row.adaptive()?.costs.plan_ns),
            goal("decision in the running phase, slowest of a hundred", 100.0, "ns", &|row| {
                row.adaptive()?.costs.slow_plan_ns
            }),
            goal("sampling, of the time at 10 Gb/s", 1.0, "%", &|row| {
                let adaptive = row.adaptive().filter(|_| row.link.rate_gbps == SAMPLED_GBPS)?;
                Some(100.0 * adaptive.sampling_ns / adaptive.time_ns)
            }),
            goal("behind the oracle", 3.0, "%", &|row| {
                let is_foreseeable = row.course != Course::Mixed;
                Some(percent(time_ns(row).filter(|_| is_foreseeable)?, row.oracle_ns))
            }),
            goal("behind the best fixed algorithm, one phase", 0.5, "%", &|row| {
                Some(percent(time_ns(row).filter(|_| row.course == Course::Phases(1))?, row.best_fixed_ns()))
            }),
            goal("behind the best fixed algorithm, data mixed", 0.5, "%", &|row| {
                Some(percent(time_ns(row).filter(|_| row.course == Course::Mixed)?, row.best_fixed_ns()))
            }),
            goal("behind the best fixed algorithm, phases, if oracle is ahead", 0.0, "%", &|row| {
                let has_room = percent(row.best_fixed_ns(), row.oracle_ns) > ROOM;
                Some(percent(time_ns(row).filter(|_| has_phases(row) && has_room)?, row.best_fixed_ns()))
            }),
            goal("behind the best fixed algorithm, phases, if oracle is not", 0.5, "%", &|row| {
                let has_room = percent(row.best_fixed_ns(), row.oracle_ns) > ROOM;
                Some(percent(time_ns(row).filter(|_| has_phases(row) && !has_room)?, row.best_fixed_ns()))
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

#[cfg(test)]
mod tests {
    use mgcomp_selector::PolicySpec;

    use super::*;
    use crate::select::clock::Costs;
    use crate::select::completion::Link;
    use crate::select::replay::Replayed;

    fn row(sequence: &str, decision: Option<(f64, f64)>) -> Row {
        let (plan_ns, slow_plan_ns) = decision.unzip();
        let costs = Costs { waited_ns: 0.0, plan_ns, slow_plan_ns, observe_ns: 0.0 };
        Row {
            sequence: sequence.into(),
            course: Course::Phases(1),
            is_noise: false,
            link: Link { rate_gbps: 1.0, latency_ns: 0, segment: None },
            oracle_ns: 1.0,
            policies: vec![(
                PolicySpec::Adaptive,
                Replayed { time_ns: 1.0, sampling_ns: 0.0, costs, carried: [0; 16] },
            )],
        }
    }

    /// The worst of the goals for decisions: the median, and the slowest of a hundred.
    fn decisions(rows: &[Row]) -> [Option<(f64, String)>; 2] {
        let Goals(goals) = Goals::of(rows);
        assert!(goals[0].name.ends_with("running phase, median"));
        assert!(goals[1].name.ends_with("running phase, slowest of a hundred"));
        [goals[0].worst.clone(), goals[1].worst.clone()]
    }

    #[test]
    fn rows_without_decisions_that_count_neither_keep_a_goal_nor_break_it() {
        assert_eq!(decisions(&[row("a", None)]), [None, None]);
        let worst = decisions(&[row("a", None), row("b", Some((70.0, 150.0)))]);
        let place = "b at 1 Gb/s, overlap no".to_owned();
        assert_eq!(worst, [Some((70.0, place.clone())), Some((150.0, place))]);
    }
}
