//! Speed-up against message size.

use std::path::Path;

use mgcomp_plot::{Canvas, Lines, Scale, Series};

use super::model::{LINKS, Model, Overlap};
use super::report::Report;
use crate::error::BenchError;

/// One picture for each GPU.
pub(super) fn draw(report: &Report, folder: &Path) -> Result<(), BenchError> {
    for (number, model) in report.models.iter().enumerate() {
        picture(model).save(folder, &format!("breakeven-{number}"))?;
    }
    Ok(())
}

fn picture(model: &Model) -> Canvas {
    let sizes = || (12..=30).map(|log| f64::from(log).exp2());
    let series = LINKS.map(|link| {
        let point = |bytes| (bytes, model.speed_up(link, bytes, Overlap::With));
        Series::line(link.name, sizes().map(point).collect())
    });
    let rates = &model.rates;
    Lines {
        titles: vec![
            format!("MODEL: messages compressed by {}", rates.source),
            format!(
                "ratio {}, encode {} GB/s, decode {} GB/s, launch {} µs; codec and wire overlap",
                rates.ratio,
                rates.encode_gbytes,
                rates.decode_gbytes,
                model.launch_s * 1e6
            ),
        ],
        axes: ("message size in bytes".into(), "speed-up over plain".into()),
        scales: (Scale::Log, Scale::Linear),
        series: series.into(),
        level: Some(("as fast as plain".into(), 1.0)),
    }
    .draw()
}
