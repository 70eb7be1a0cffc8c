//! The figures as pictures.

use std::path::Path;

use super::super::fabric::Distance;
use super::super::generate::Bench;
use super::super::runs::Done;
use super::{Figure, Matrix, Quantity, Report};
use crate::error::BenchError;
use mgcomp_plot::{Bars, Canvas, Lines, Scale, Series};

pub(super) fn draw(report: &Report, folder: &Path) -> Result<(), BenchError> {
    // The paper shows these two; of traces, all.
    let is_shown = |done: &&Done| done.is_trace || matches!(done.bench, Some(Bench::Fir | Bench::Sc));
    for done in report.done.iter().filter(is_shown) {
        sizes(done).save(folder, &format!("figure1-{}-sizes", slug(&done.name)))?;
        entropy(done).save(folder, &format!("figure1-{}-entropy", slug(&done.name)))?;
    }
    for figure in report.figures() {
        for matrix in &figure.matrices {
            let name = format!("figure{}-{}", figure.number, part(matrix.quantity));
            bars(report, &figure, matrix).save(folder, &name)?;
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

fn bars(report: &Report, figure: &Figure, matrix: &Matrix) -> Canvas {
    let mut groups = matrix.rows.clone();
    groups.push(("mean".into(), matrix.means()));
    let level = match (figure.number, matrix.quantity) {
        (6, Quantity::Payload | Quantity::Traffic) => Some(0.38),
        (7, Quantity::Energy(Distance::InterDie)) => Some(0.55),
        _ => None,
    };
    let levels = level.map(|level| ("paper's mean at λ = 6".to_owned(), level));
    Bars {
        titles: vec![
            format!("Figure {}: {}", figure.number, figure.title),
            format!(
                "model of IPDPS 2019, {} of its sizes, {} requests outstanding per GPU",
                report.plan.share.fraction(),
                report.system().outstanding
            ),
        ],
        unit: format!("{} / without compression", matrix.quantity.title()),
        names: matrix.columns.clone(),
        groups,
        levels: levels.into_iter().collect(),
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

/// A name as part of a file's.
fn slug(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}
