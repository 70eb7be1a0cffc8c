//! The figures as pictures.

use std::path::Path;

use super::super::generate::Bench;
use super::super::runs::{Done, Scheme};
use super::beside::nothing_published;
use super::names::slugs;
use super::{Figure, Matrix, Quantity, Report};
use crate::error::BenchError;
use mgcomp_plot::{Bars, Canvas, Lines, Scale, Series};

pub(super) fn draw(report: &Report, folder: &Path) -> Result<(), BenchError> {
    // The paper shows these two; of traces, all.
    let is_shown = |done: &Done| done.is_trace || matches!(done.bench, Some(Bench::Fir | Bench::Sc));
    let slugs = slugs(report.done.iter().map(|done| done.name.as_str()));
    for (done, slug) in report.done.iter().zip(slugs).filter(|(done, _)| is_shown(done)) {
        sizes(done).save(folder, &format!("figure1-{slug}-sizes"))?;
        entropy(done).save(folder, &format!("figure1-{slug}-entropy"))?;
    }
    let schemes = &report.plan.schemes()[1..];
    for figure in report.figures() {
        for matrix in &figure.matrices {
            let name = format!("figure{}-{}", figure.number, part(matrix.quantity));
            bars(report, &figure, matrix, schemes).save(folder, &name)?;
        }
    }
    Ok(())
}

const fn part(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Payload => "payload",
        Quantity::Traffic => "traffic",
        Quantity::Time => "time",
        Quantity::Energy(distance) => distance.name(),
    }
}

fn bars(report: &Report, figure: &Figure, matrix: &Matrix, schemes: &[Scheme]) -> Canvas {
    // Colours go by the place of a bar. Codecs come first in Figure 7, and all of Figure 5: with them in Figure 6, a scheme has
    // one colour in all three.
    let with_codecs;
    let (matrix, codecs) = if figure.number == 6 {
        with_codecs = Matrix::new(matrix.quantity, &report.done, schemes, report.system());
        (&with_codecs, "; codecs alone are those of Figure 5")
    } else {
        (matrix, "")
    };
    let mut groups = matrix.rows.clone();
    groups.push(("mean".into(), matrix.means()));
    let mut titles = vec![
        format!("Figure {}: {}{codecs}", figure.number, figure.title),
        format!(
            "model of IPDPS 2019, {}, {} requests outstanding per GPU",
            report.sources(),
            report.system().outstanding
        ),
    ];
    titles.extend(nothing_published(figure.number, matrix.quantity).map(str::to_owned));
    Bars {
        titles,
        unit: format!("{} / without compression", matrix.quantity.title()),
        names: matrix.columns.clone(),
        groups,
        levels: report.levels(figure.number, matrix.quantity),
    }
    .draw()
}

fn sizes(done: &Done) -> Canvas {
    let series = |(codec, name): (usize, &str)| {
        let points = done.shown.iter().enumerate();
        Series::line(name, points.map(|(i, shown)| (i as f64, f64::from(shown.bits[codec]))).collect())
    };
    Lines {
        titles: vec![format!("Figure 1: compressed sizes of the first transfers, {}", done.name)],
        axes: ("transfer".into(), "bits".into()),
        scales: (Scale::Linear, Scale::Linear),
        series: ["BDI", "FPC", "C-Pack+Z"].into_iter().enumerate().map(series).collect(),
        level: None,
    }
    .draw()
}

fn entropy(done: &Done) -> Canvas {
    let points = done.shown.iter().enumerate().map(|(i, shown)| (i as f64, shown.entropy)).collect();
    Lines {
        titles: vec![format!("Figure 1: byte entropy of the first transfers, {}", done.name)],
        axes: ("transfer".into(), "entropy, 1 = 6 bits".into()),
        scales: (Scale::Linear, Scale::Linear),
        series: vec![Series::line("entropy", points)],
        level: None,
    }
    .draw()
}
