//! Values along an axis.

use super::axis::{Axis, Frame};
use super::canvas::{Anchor, Canvas, Point, Stroke};
use super::look::Look;
use super::{GREY, INK, TEXT, text};

/// The least; long names in the legend need more width, and many more height.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 150.0;
/// Where names begin in the legend, right of the frame.
const NAMES: f64 = 32.0;
/// From one name to the next.
const ROW: f64 = TEXT + 3.0;
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

/// How the points of a series are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Joined by a line; a dot where there is one alone.
    #[default]
    Line,
    /// Joined by a dashed line; a ring where there is one alone.
    Dashed,
    /// Each by itself, filled.
    Dots,
    /// Each by itself, as a ring.
    Rings,
}

/// Points that belong together. Series of the same name have the same colour, and the legend has that name once, in the
/// style of the first of them.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Where it goes.
    pub points: Vec<(f64, f64)>,
    /// How it is shown.
    pub style: Style,
}

impl Series {
    /// A line through `points`.
    #[must_use]
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, style: Style::Line }
    }

    fn draw(&self, canvas: &mut Canvas, (x, y): (&Axis, &Axis), look: Look) {
        let points = self.points.iter().map(|&(a, b)| Point { x: x.pixel(a), y: y.pixel(b) });
        let points: Vec<Point> = points.collect();
        // A line from a place to the same place would not be seen.
        let is_one_place = points.iter().all(|at| Some(at) == points.first());
        match self.style {
            Style::Line | Style::Dashed if is_one_place => {
                points.iter().for_each(|&at| canvas.dot(at, look, self.style == Style::Line));
            }
            Style::Line | Style::Dashed => {
                canvas.path(&points, look.colour, look.stroke(self.style == Style::Dashed));
            }
            Style::Dots | Style::Rings => {
                points.iter().for_each(|&at| canvas.dot(at, look, self.style == Style::Dots));
            }
        }
    }
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
        let names = self.names();
        let mut canvas = Canvas::new(width(&names), height(names.len()));
        for (row, title) in self.titles.iter().enumerate() {
            let at = Point { x: LEFT, y: 22.0 + TEXT * row as f64 };
            canvas.text(at, Anchor::Start, if row == 0 { INK } else { GREY }, title);
        }
        FRAME.draw(&mut canvas, (&x, &self.axes.0), (&y, &self.axes.1));
        if let Some((name, level)) = &self.level {
            let at = y.pixel(*level);
            canvas.line(Point { x: LEFT, y: at }, Point { x: RIGHT, y: at }, INK, Stroke::Dashed);
            canvas.text(Point { x: LEFT + 6.0, y: at - 4.0 }, Anchor::Start, GREY, name);
        }
        for series in &self.series {
            let number = names.iter().position(|first| first.name == series.name).unwrap_or_default();
            series.draw(&mut canvas, (&x, &y), Look::of(number));
        }
        draw_legend(&mut canvas, &names);
        canvas
    }

    /// The first series of each name.
    fn names(&self) -> Vec<&Series> {
        let mut names: Vec<&Series> = Vec::new();
        for series in &self.series {
            if names.iter().all(|first| first.name != series.name) {
                names.push(series);
            }
        }
        names
    }
}

/// What the legend's longest name needs.
fn width(names: &[&Series]) -> f64 {
    WIDTH.max(RIGHT + NAMES + text::widest(names.iter().map(|series| series.name.as_str())))
}

/// What a legend of so many names needs.
fn height(names: usize) -> f64 {
    HEIGHT.max(TOP + ROW * names as f64)
}

fn draw_legend(canvas: &mut Canvas, names: &[&Series]) {
    for (number, series) in names.iter().enumerate() {
        let look = Look::of(number);
        let row = TOP + 6.0 + ROW * number as f64;
        let from = Point { x: RIGHT + 10.0, y: row - 4.0 };
        let to = Point { x: from.x + 18.0, ..from };
        match series.style {
            Style::Line | Style::Dashed => {
                canvas.line(from, to, look.colour, look.stroke(series.style == Style::Dashed));
            }
            Style::Dots | Style::Rings => {
                let middle = Point { x: f64::midpoint(from.x, to.x), ..from };
                canvas.dot(middle, look, series.style == Style::Dots);
            }
        }
        canvas.text(Point { x: RIGHT + NAMES, y: row }, Anchor::Start, INK, &series.name);
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
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn lines_join_their_points() {
        let lines = Lines {
            titles: vec!["title".into()],
            axes: ("rate".into(), "speed-up".into()),
            scales: (Scale::Log, Scale::Linear),
            series: vec![Series::line("ring", vec![(1.0, 0.0), (100.0, 1.0)])],
            level: Some(("break-even".into(), 1.0)),
        };
        let svg = lines.draw().svg();
        let line = format!("x1=\"{LEFT:.1}\" y1=\"{BOTTOM:.1}\" x2=\"{RIGHT:.1}\" y2=\"{TOP:.1}\"");
        assert!(svg.contains(&line), "{line}: {svg}");
        assert!(svg.contains(">ring<") && svg.contains(">break-even<") && svg.contains(">rate<"));
    }
    #[test]
    fn series_of_one_name_share_colour_and_legend() {
        let series =
            |name: &str, style| Series { name: name.into(), points: vec![(1.0, 0.0), (100.0, 1.0)], style };
        let lines = Lines {
            titles: Vec::new(),
            axes: (String::new(), String::new()),
            scales: (Scale::Log, Scale::Linear),
            series: vec![
                series("a", Style::Line),
                series("b", Style::Dots),
                series("a", Style::Dashed),
                series("b", Style::Rings),
            ],
            level: None,
        };
        let svg = lines.draw().svg();
        let count = |part: &str| svg.matches(part).count();
        assert_eq!((count(">a<"), count(">b<")), (1, 1));
        // Solid, its legend, and dashed.
        assert_eq!((count("stroke=\"#0072b2\"/>"), count("stroke=\"#0072b2\" stroke-dasharray")), (2, 1));
        // Two dots and that of the legend; two rings.
        assert_eq!((count("fill=\"#d55e00\""), count("fill=\"#ffffff\" stroke=\"#d55e00\"")), (3, 2));
        let dot = format!("cx=\"{RIGHT:.1}\" cy=\"{TOP:.1}\" r=\"4.5\" fill=\"#d55e00\"");
        assert!(svg.contains(&dot), "{svg}");
    }
    #[test]
    fn a_point_alone_is_seen() {
        let one = |style, places: &[(f64, f64)]| {
            let lines = Lines {
                titles: Vec::new(),
                axes: (String::new(), String::new()),
                scales: (Scale::Linear, Scale::Linear),
                series: vec![Series { name: "a".into(), points: places.to_vec(), style }],
                level: None,
            };
            lines.draw().svg().matches("<circle ").count()
        };
        // Twice the same is no more to see than once.
        assert!(one(Style::Line, &[(1.0, 2.0)]) == 1 && one(Style::Line, &[(1.0, 2.0); 2]) > 0);
        assert_eq!(one(Style::Dashed, &[(1.0, 2.0)]), 1);
        assert_eq!([&[][..], &[(1.0, 2.0), (2.0, 2.0)]].map(|places| one(Style::Line, places)), [0, 0]);
    }
    #[test]
    fn no_two_of_32_look_the_same_and_the_legend_has_them_all() {
        let styles = [Style::Line, Style::Dots];
        for style in styles {
            let points = |i: usize| vec![(0.0, i as f64), (1.0, i as f64)];
            let series = |i: usize| Series { name: format!("s{i}"), points: points(i), style };
            let lines = Lines {
                titles: Vec::new(),
                axes: (String::new(), String::new()),
                scales: (Scale::Linear, Scale::Linear),
                series: (0..32).map(series).collect(),
                level: None,
            };
            let svg = lines.draw().svg();
            // Samples at the right, without their places.
            let is_sample = |line: &&str| line.contains("x1=\"860.0\"") || line.contains("r=\"4.5\"");
            let is_square = |line: &&str| line.contains("width=\"8\"");
            let look = |line: &str| {
                let attributes = line.trim_end_matches("/>").split(' ');
                let is_look =
                    |part: &&str| ["<", "stroke", "fill"].iter().any(|start| part.starts_with(start));
                attributes.filter(is_look).collect::<Vec<_>>().join(" ")
            };
            let samples = svg.lines().filter(|line| is_sample(line) || is_square(line)).map(look);
            assert_eq!(samples.collect::<HashSet<_>>().len(), 32, "{style:?}: {svg}");
            // 80 and 32 rows of 17; the last name is in the row before that.
            assert!(svg.contains("viewBox=\"0 0 1000 624\"") && svg.contains("y=\"613.0\""), "{svg}");
        }
    }
    #[test]
    fn pictures_are_wide_enough_for_their_names() {
        let [short, long] = [10, 30].map(|letters| Series::line("x".repeat(letters), Vec::new()));
        assert_eq!(width(&[&short]).to_bits(), WIDTH.to_bits());
        // 850, and 32 to the names, and 30 times 7.5.
        assert_eq!(width(&[&short, &long]).to_bits(), 1107f64.to_bits());
    }
}
