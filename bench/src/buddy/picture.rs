//! Capacity over thresholds.

use mgcomp_plot::{Canvas, Lines, Scale, Series};

use super::THRESHOLDS;
use super::measure::{Forms, Row};
use super::print::Total;
use super::snapshot::Class;

/// A line for each class that there is and each choice of forms.
pub(super) fn draw(rows: &[Row]) -> Canvas {
    let mut series = Vec::new();
    for class in Class::ALL {
        for forms in Forms::ALL {
            let point = |&threshold: &u8| {
                let total = Total::of(rows, Some(class), forms, threshold);
                (!total.is_empty()).then(|| (f64::from(threshold), total.capacity()))
            };
            let points: Vec<_> = THRESHOLDS.iter().filter_map(point).collect();
            if !points.is_empty() {
                series.push(Series::line(format!("{} {}", class.name(), forms.name()), points));
            }
        }
    }
    Lines {
        titles: vec![
            "Buddy memory: effective capacity".into(),
            "raw bytes per byte of device memory, metadata counted; each snapshot profiled by itself".into(),
        ],
        axes: ("threshold in % of entries".into(), "capacity".into()),
        scales: (Scale::Linear, Scale::Linear),
        series,
        level: Some(("not compressed".into(), 1.0)),
    }
    .draw()
}
