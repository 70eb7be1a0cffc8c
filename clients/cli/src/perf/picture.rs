//! Bus bandwidth over size.

use std::path::Path;

use mgcomp_plot::{Lines, PlotError, Scale, Series};

use super::options::Args;
use super::row::Row;

/// Draws `rows`, one line for each operation and mode, into the file `path`.
pub(super) fn draw(rows: &[Row], args: &Args, ranks: usize, path: &Path) -> Result<(), PlotError> {
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| row.bytes > 0) {
        let name = format!("{} {}", row.op.name(), row.mode);
        let point = (row.bytes as f64, row.bus_bandwidth());
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series::line(name, vec![point])),
        }
    }
    let (values, data, link) = (args.values(), args.data_name(), args.link.describe());
    Lines {
        titles: vec!["Bandwidth of collectives".into(), format!("{ranks} ranks ({link}), {values} ({data})")],
        axes: ("size in bytes".into(), "bus bandwidth in GB/s of raw bytes".into()),
        scales: (Scale::Log, Scale::Log),
        series,
        level: None,
    }
    .draw()
    .save_svg(path)
}
