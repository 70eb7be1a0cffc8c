//! Speed-up against message size.

use std::path::Path;

use mgcomp_plot::{Canvas, Lines, Scale, Series, Style};

use super::codec::{Codec, Rates};
use super::compared::Compared;
use super::model::{LINKS, Link, Model, Overlap};
use super::report::{Case, Report};
use crate::error::BenchError;
use crate::machine::size;

const KIB: f64 = 1024.0;

/// One picture for each GPU.
pub(super) fn draw(report: &Report, folder: &Path) -> Result<(), BenchError> {
    for (number, case) in report.cases.iter().enumerate() {
        picture(case).save(folder, &format!("breakeven-{number}"))?;
    }
    Ok(())
}

fn picture(case: &Case) -> Canvas {
    let Case { model, copies } = case;
    let mut series: Vec<Series> = LINKS.into_iter().flat_map(|link| lines(model, link)).collect();
    series.extend(points(copies));
    let mut titles = vec![format!("MODEL: messages compressed by {}", model.codec.source), conditions(model)];
    if !copies.is_empty() {
        titles.push(
            "dots: measured copies; rings: the model, overlapped, on a link as fast as the plain copy".into(),
        );
    }
    Lines {
        titles,
        axes: ("message size in KiB".into(), "speed-up over plain".into()),
        scales: (Scale::Log, Scale::Linear),
        series,
        level: Some(("as fast as plain".into(), 1.0)),
    }
    .draw()
}

/// With overlap, and dashed without.
fn lines(model: &Model, link: Link) -> [Series; 2] {
    [(Overlap::With, Style::Line), (Overlap::Without, Style::Dashed)].map(|(overlap, style)| {
        let sizes = (12..=30).map(|log| f64::from(log).exp2());
        let point = |bytes| (bytes / KIB, model.speed_up(model.wire(link), bytes, overlap));
        Series { name: link.name.into(), points: sizes.map(point).collect(), style }
    })
}

/// What the model says of each copy, and on top what was measured.
fn points(copies: &[Compared]) -> Vec<Series> {
    let point = |compared: &Compared, speed_up, style| Series {
        name: compared.copied.way.clone(),
        points: vec![(compared.copied.bytes as f64 / KIB, speed_up)],
        style,
    };
    let predicted = copies.iter().map(|copy| point(copy, copy.predicted[1], Style::Rings));
    let measured = copies.iter().map(|copy| point(copy, copy.measured(), Style::Dots));
    predicted.chain(measured).collect()
}

fn conditions(model: &Model) -> String {
    let launch_us = model.launch_s * 1e6;
    format!(
        "{}, launch {launch_us} µs; codec and wire overlap, dashed: one after the other",
        rates(&model.codec)
    )
}

fn rates(codec: &Codec) -> String {
    let ((least, first), (most, last)) = (codec.first(), codec.last());
    let Rates { ratio, encode_gbytes, decode_gbytes } = last;
    if !codec.is_measured() {
        return format!("ratio {ratio}, encode {encode_gbytes} GB/s, decode {decode_gbytes} GB/s");
    }
    let [least, most] = [least, most].map(|bytes| size(bytes as usize));
    format!(
        "{least} / {most}: ratio {:.3} / {ratio:.3}, encode {:.1} / {encode_gbytes:.1} GB/s, decode {:.1} / {decode_gbytes:.1} GB/s",
        first.ratio, first.encode_gbytes, first.decode_gbytes
    )
}
