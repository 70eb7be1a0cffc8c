//! Values along an axis.

use super::axis::{Axis, Frame};
use super::canvas::{Anchor, Canvas, Point};
use super::{COLOURS, GREY, INK, TEXT};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 150.0;
const TOP: f64 = 80.0;
const BOTTOM: f64 = HEIGHT - 60.0;
const FRAME: Frame = Frame { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM };

/// How an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In even steps from 0 or below.
    Linear,
    /// Values are above 0.
    Log,
}

/// A named line, or a cloud of dots.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Where it goes.
    pub points: Vec<(f64, f64)>,
}

/// What to show.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The first one is the heading.
    pub titles: Vec<String>,
    /// What the axes are about.
    pub axes: (String, String),
    /// How they run.
    pub scales: (Scale, Scale),
    /// What is drawn, in this order.
    pub series: Vec<Series>,
    /// A height to compare with, and its name.
    pub level: Option<(String, f64)>,
}

impl Lines {
    /// Draws them.
    #[must_use]
    pub fn draw(&self) -> Canvas {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let heights = points().map(|point| point.1).chain(self.level.iter().map(|level| level.1));
        let x = axis(self.scales.0, points().map(|point| point.0), (LEFT, RIGHT));
        let y = axis(self.scales.1, heights, (BOTTOM, TOP));
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        for (row, title) in self.titles.iter().enumerate() {
            let at = Point { x: LEFT, y: 22.0 + TEXT * row as f64 };
            canvas.text(at, Anchor::Start, if row == 0 { INK } else { GREY }, title);
        }
        FRAME.draw(&mut canvas, (&x, &self.axes.0), (&y, &self.axes.1));
        if let Some((name, level)) = &self.level {
            let at = y.pixel(*level);
            canvas.line(Point { x: LEFT, y: at }, Point { x: RIGHT, y: at }, INK, true);
            canvas.text(Point { x: LEFT + 6.0, y: at - 4.0 }, Anchor::Start, GREY, name);
        }
        for (i, series) in self.series.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let place = |&(a, b): &(f64, f64)| Point { x: x.pixel(a), y: y.pixel(b) };
            for pair in series.points.windows(2) {
                canvas.line(place(&pair[0]), place(&pair[1]), colour, false);
            }
            let row = TOP + 6.0 + (TEXT + 3.0) * i as f64;
            let from = Point { x: RIGHT + 10.0, y: row - 4.0 };
            canvas.line(from, Point { x: from.x + 18.0, ..from }, colour, false);
            canvas.text(Point { x: from.x + 22.0, y: row }, Anchor::Start, INK, &series.name);
        }
        canvas
    }
}

fn axis(scale: Scale, values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> Axis {
    match scale {
        Scale::Linear => Axis::linear(values.chain([0.0]), 1.0, pixels),
        Scale::Log => Axis::log(values, pixels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_join_their_points() {
        let lines = Lines {
            titles: vec!["title".into()],
            axes: ("rate".into(), "speed-up".into()),
            scales: (Scale::Log, Scale::Linear),
            series: vec![Series { name: "ring".into(), points: vec![(1.0, 0.0), (100.0, 1.0)] }],
            level: Some(("break-even".into(), 1.0)),
        };
        let svg = lines.draw().svg();
        let line = format!("x1=\"{LEFT:.1}\" y1=\"{BOTTOM:.1}\" x2=\"{RIGHT:.1}\" y2=\"{TOP:.1}\"");
        assert!(svg.contains(&line), "{line}: {svg}");
        assert!(svg.contains(">ring<") && svg.contains(">break-even<") && svg.contains(">rate<"));
    }
}
