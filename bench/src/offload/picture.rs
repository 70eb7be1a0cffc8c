//! The ratios as a picture.

use mgcomp_codecs::Algorithm;
use mgcomp_plot::{Bars, Canvas};

use super::layout::Layout;
use super::published;
use super::ratio::{Row, sums};

/// Means of each algorithm in each layout.
pub(super) fn draw(rows: &[Row<'_>], algorithms: &[Algorithm]) -> Canvas {
    let sums = sums(rows, algorithms);
    let group = |layout: Layout| {
        let mean = |algorithm: &Algorithm| {
            let of = sums.iter().find(|sum| (sum.layout, sum.algorithm) == (layout, *algorithm));
            of.map_or(0.0, |sum| sum.mean)
        };
        (layout.name().to_owned(), algorithms.iter().map(mean).collect())
    };
    let level = published::mean_ratio(Algorithm::Zvc, Layout::Nchw);
    Bars {
        titles: vec![
            "Ratio of activation maps by layout".into(),
            "all maps together, windows of 4 KiB, with all framing".into(),
        ],
        unit: "raw bytes per coded byte".into(),
        names: algorithms.iter().map(|algorithm| algorithm.name().to_owned()).collect(),
        groups: Layout::ALL.map(group).to_vec(),
        levels: level.map(|ratio| ("zvc in the paper".to_owned(), ratio)).into_iter().collect(),
    }
    .draw()
}
