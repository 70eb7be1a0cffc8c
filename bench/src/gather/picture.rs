//! How much of the link's speed is left, by the space that is saved.

use mgcomp_plot::{Lines, Scale, Series};

use super::print::Gather;
use crate::machine::Machine;

/// One curve for each length of a row.
pub(super) fn draw(rows: &[Gather]) -> String {
    let mut lens: Vec<usize> = rows.iter().map(|row| row.row_bytes).collect();
    lens.sort_unstable();
    lens.dedup();
    let curve = |len: usize| {
        let points =
            rows.iter().filter(|row| row.row_bytes == len).map(|row| (row.saved_percent, row.speed_up));
        Series::line(format!("{len} B"), points.collect())
    };
    let link = rows.first().map(|row| row.link.as_str()).unwrap_or_default();
    Lines {
        titles: vec![
            "Gathering packed rows, in multiples of plain rows".into(),
            format!(
                "{link}, {} threads; {}",
                rows.first().map_or(0, |row| row.threads),
                Machine::detect().describe()
            ),
        ],
        axes: ("space saved in %".into(), "speed-up".into()),
        scales: (Scale::Linear, Scale::Linear),
        series: lens.into_iter().map(curve).collect(),
        level: Some(("plain".into(), 1.0)),
    }
    .draw()
    .svg()
}
