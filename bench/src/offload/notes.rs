//! Why our figures differ from the paper's, from what was measured.

use mgcomp_codecs::Algorithm;

use super::layout::Layout;
use super::published;
use super::ratio::{Row, Sum};

/// A sentence a line.
pub(super) fn notes(rows: &[Row<'_>], sums: &[Sum]) -> Vec<String> {
    let mut notes = vec![zeros(rows)];
    if let Some(bound) = window_note(rows) {
        notes.push(bound);
    }
    if let Some(moved) = layouts(sums, Algorithm::Zvc) {
        notes.push(format!("zvc: between layouts its mean differs by {moved:.1} %; the paper: not at all"));
    }
    if let Some(moved) = layouts(sums, Algorithm::Rle) {
        notes.push(format!(
            "rle: between layouts its mean differs by {moved:.1} %; the paper: by much, best in NCHW, where zeros lie together"
        ));
    }
    notes.push(
        "paper: six ImageNet networks over their whole training, by simulation; codes without framing".into(),
    );
    notes
}

/// Densities: the first reason for whatever differs.
fn zeros(rows: &[Row<'_>]) -> String {
    let maps = || rows.iter().filter(|row| row.layout == Layout::Nchw);
    let bytes: f64 = maps().map(|row| row.raw_bytes as f64).sum();
    let zeros: f64 = maps().map(|row| row.raw_bytes as f64 * row.map.zero_share()).sum();
    let most = maps().map(|row| row.map.zero_share()).fold(0.0, f64::max);
    let (mean_paper, most_paper) = published::ZERO_SHARES;
    format!(
        "zeros: {:.0} % of all elements, at most {:.0} % of a map; the paper: {:.0} % and {:.0} %",
        100.0 * zeros / bytes.max(1.0),
        100.0 * most,
        100.0 * mean_paper,
        100.0 * most_paper
    )
}

/// What the paper's formula makes of our zeros: a bit for each element, and the others.
fn window_note(rows: &[Row<'_>]) -> Option<String> {
    let zvc = || rows.iter().filter(|row| row.algorithm == Algorithm::Zvc && row.layout == Layout::Nchw);
    let raw: f64 = zvc().map(|row| row.raw_bytes as f64).sum();
    let coded: f64 = zvc().map(|row| row.coded_bytes as f64).sum();
    let ideal = |row: &Row<'_>| {
        let mask = 1.0 / (8.0 * row.map.element.width_bytes() as f64);
        row.raw_bytes as f64 * (mask + 1.0 - row.map.zero_share()).min(1.0)
    };
    let ideal: f64 = zvc().map(ideal).sum();
    (coded > 0.0).then(|| {
        format!(
            "zvc: {:.3} by the paper's count of our zeros, {:.3} with header, table and padding of each 4 KiB",
            raw / ideal,
            raw / coded
        )
    })
}

/// By how many percent the best mean is above the worst.
fn layouts(sums: &[Sum], algorithm: Algorithm) -> Option<f64> {
    let means = || sums.iter().filter(|sum| sum.algorithm == algorithm).map(|sum| sum.mean);
    let (least, most) = (means().reduce(f64::min)?, means().reduce(f64::max)?);
    Some(100.0 * (most / least - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_compared_by_their_means() {
        let sum = |layout, mean| Sum { layout, algorithm: Algorithm::Rle, mean, most: mean };
        let sums = [sum(Layout::Nchw, 3.0), sum(Layout::Nhwc, 2.0), sum(Layout::Chwn, 2.5)];
        assert_eq!(layouts(&sums, Algorithm::Rle), Some(50.0));
        assert_eq!(layouts(&sums, Algorithm::Zvc), None);
    }
}
