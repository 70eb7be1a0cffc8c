//! Speed-up against link rate.

use std::path::Path;

use super::collective::Collective;
use super::report::Report;
use super::time::Sending;
use crate::error::BenchError;
use crate::machine::size;
use mgcomp_plot::{Canvas, Lines, Scale, Series};

/// One picture for each collective and size: the smallest and the largest number of GPUs on each fabric.
pub(super) fn draw(report: &Report, folder: &Path) -> Result<(), BenchError> {
    for &collective in &report.collectives {
        for &bytes in &report.bytes {
            let name = format!("scale-{}-{bytes}", collective.name());
            picture(report, collective, bytes).save(folder, &name)?;
        }
    }
    Ok(())
}

fn picture(report: &Report, collective: Collective, bytes: usize) -> Canvas {
    let (least, most) = (report.gpus.iter().min(), report.gpus.iter().max());
    let is_shown = |gpus: u64| Some(&gpus) == least || Some(&gpus) == most;
    let cases = report.cases().into_iter();
    let cases =
        cases.filter(|case| (case.collective, case.bytes) == (collective, bytes) && is_shown(case.gpus));
    let mut rates = report.link_gbps.clone();
    rates.sort_by(f64::total_cmp);
    let series = cases.map(|case| {
        let point = |&gbps: &f64| (gbps, report.model.speed_up(&case, gbps, Sending::Overlapped));
        Series::line(format!("{} {}", case.fabric.name(), case.gpus), rates.iter().map(point).collect())
    });
    let codec = &report.model.rates;
    Lines {
        titles: vec![
            format!("MODEL: {} with compression, {} per GPU", collective.name(), size(bytes)),
            format!(
                "ratio {}, encode {} GB/s, decode {} GB/s per GPU; codec and wire overlap",
                codec.ratio, codec.encode_gbytes, codec.decode_gbytes
            ),
        ],
        axes: ("link rate in Gb/s".into(), "speed-up over raw".into()),
        scales: (Scale::Log, Scale::Linear),
        series: series.collect(),
        level: Some(("as fast as raw".into(), 1.0)),
    }
    .draw()
}
