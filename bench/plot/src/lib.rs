//! Pictures of figures: ratio against speed ([`Plot`]), groups of bars ([`Bars`]), lines ([`Lines`]).
//!
//! Each is drawn as a list of shapes, which is written as SVG or, with feature `png`, drawn as pixels.

mod axis;
mod bars;
mod canvas;
mod file;
mod lines;
mod look;
#[cfg(feature = "png")]
mod png;
#[cfg(feature = "png")]
mod raster;
mod svg;
mod text;

use std::io;
use std::path::PathBuf;

use axis::{Axis, Frame};
pub use bars::Bars;
pub use canvas::Canvas;
use canvas::{Anchor, Point, Stroke};
pub use file::{check_place, folder_of, has_file_name, write_file};
pub use lines::{Lines, Scale, Series, Style};
use look::Look;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 540.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 90.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = HEIGHT - 60.0;
const FRAME: Frame = Frame { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM };
const INK: &str = "#222222";
const FAINT: &str = "#dddddd";
const GREY: &str = "#777777";
/// Height of a line of text.
const TEXT: f64 = 14.0;

/// Why a picture was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// The file cannot be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No file can be there.
    #[error("cannot write {}: it is no file, or lies in no folder", .path.display())]
    NoPlace {
        /// Where.
        path: PathBuf,
    },
}

/// What to show.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The first one is the heading.
    pub titles: Vec<String>,
    /// One for each algorithm.
    pub marks: Vec<Mark>,
    /// What they are compared with.
    pub reference: Reference,
    /// What the axis of speeds is about.
    pub speed: &'static str,
    /// A ratio without a speed, and its name.
    pub level: Option<(String, f64)>,
}

/// A speed to compare with, in 10⁹ bytes of uncompressed data per second.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// What is so fast.
    pub name: &'static str,
    /// How fast.
    pub gbps: f64,
}

/// One algorithm. Speeds are in 10⁹ bytes of uncompressed data per second.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// What it is called.
    pub name: &'static str,
    /// Raw bytes per coded byte.
    pub ratio: f64,
    /// How fast it encodes.
    pub encode_gbps: f64,
    /// How fast it decodes.
    pub decode_gbps: f64,
    /// Not ours.
    pub is_library: bool,
}

impl Plot {
    /// The picture as an SVG file.
    #[must_use]
    pub fn svg(&self) -> String {
        let speeds = self.marks.iter().flat_map(|mark| [mark.encode_gbps, mark.decode_gbps]);
        let ratios = self.marks.iter().map(|mark| mark.ratio).chain(self.level.iter().map(|level| level.1));
        let x = Axis::log(speeds.chain([self.reference.gbps]), (LEFT, RIGHT));
        let y = Axis::linear(ratios, 1.0, (BOTTOM, TOP));
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        for (row, title) in self.titles.iter().enumerate() {
            let at = Point { x: LEFT, y: 24.0 + TEXT * row as f64 };
            canvas.text(at, Anchor::Start, if row == 0 { INK } else { GREY }, title);
        }
        FRAME.draw(&mut canvas, (&x, self.speed), (&y, "ratio"));
        self.draw_references(&mut canvas, &x, &y);
        self.draw_marks(&mut canvas, &x, &y);
        canvas.svg()
    }

    fn draw_references(&self, canvas: &mut Canvas, x: &Axis, y: &Axis) {
        let Reference { name, gbps } = self.reference;
        let at = x.pixel(gbps);
        canvas.line(Point { x: at, y: TOP }, Point { x: at, y: BOTTOM }, GREY, Stroke::Dashed);
        canvas.text(Point { x: at + 4.0, y: TOP + TEXT }, Anchor::Start, GREY, name);
        if let Some((name, ratio)) = &self.level {
            let level = y.pixel(*ratio);
            canvas.line(Point { x: LEFT, y: level }, Point { x: RIGHT, y: level }, GREY, Stroke::Dashed);
            canvas.text(Point { x: LEFT + 4.0, y: level - 4.0 }, Anchor::Start, GREY, name);
        }
    }

    fn draw_marks(&self, canvas: &mut Canvas, x: &Axis, y: &Axis) {
        let mut taken: Vec<Point> = Vec::new();
        for (index, mark) in self.marks.iter().enumerate() {
            let look =
                if mark.is_library { Look { colour: GREY, is_second: false } } else { Look::of(index) };
            let height = y.pixel(mark.ratio);
            let [encode, decode] =
                [mark.encode_gbps, mark.decode_gbps].map(|gbps| Point { x: x.pixel(gbps), y: height });
            canvas.line(encode, decode, look.colour, look.stroke(false));
            canvas.dot(encode, look, true);
            canvas.dot(decode, look, false);
            let mut label = Point { x: encode.x.max(decode.x) + 9.0, y: height + 4.0 };
            while taken
                .iter()
                .any(|other| (other.x - label.x).abs() < 50.0 && (other.y - label.y).abs() < TEXT)
            {
                label.y -= TEXT;
            }
            canvas.text(label, Anchor::Start, look.colour, mark.name);
            taken.push(label);
        }
    }
}

/// A number without the noise of its last binary digits.
fn shown(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &'static str, ratio: f64, encode_gbps: f64, decode_gbps: f64) -> Mark {
        Mark { name, ratio, encode_gbps, decode_gbps, is_library: false }
    }

    #[test]
    fn marks_lie_where_their_figures_are() {
        let plot = Plot {
            titles: vec!["a & b".into()],
            marks: vec![mark("zvc", 2.0, 1.0, 100.0)],
            reference: Reference { name: "memcpy", gbps: 10.0 },
            speed: "GB/s",
            level: Some(("any".into(), 3.0)),
        };
        let svg = plot.svg();
        // One to a hundred is the whole width; memcpy is in the middle. Ratios from 1 to 3: two is half-way up.
        let middle = f64::midpoint(TOP, BOTTOM);
        for place in [
            format!("cx=\"{LEFT:.1}\" cy=\"{middle:.1}\""),
            format!("cx=\"{RIGHT:.1}\" cy=\"{middle:.1}\""),
            format!(
                "x1=\"{0:.1}\" y1=\"{TOP:.1}\" x2=\"{0:.1}\" y2=\"{BOTTOM:.1}\"",
                f64::midpoint(LEFT, RIGHT)
            ),
            format!("x1=\"{LEFT:.1}\" y1=\"{TOP:.1}\" x2=\"{RIGHT:.1}\" y2=\"{TOP:.1}\""),
        ] {
            assert!(svg.contains(&place), "{place}: {svg}");
        }
        assert!(svg.contains("a &amp; b") && svg.contains(">zvc<") && svg.contains(">any<"));
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let marks = vec![mark("a", 2.0, 1.0, 2.0), mark("b", 2.0, 1.0, 2.0), mark("c", 2.001, 1.0, 2.0)];
        let reference = Reference { name: "memcpy", gbps: 2.0 };
        let svg = Plot { titles: Vec::new(), marks, reference, speed: "GB/s", level: None }.svg();
        let place = |name: &str| {
            let line = svg.lines().find(|line| line.ends_with(&format!(">{name}</text>"))).unwrap();
            line.split('"').nth(3).unwrap().parse::<f64>().unwrap()
        };
        assert!(place("a") - place("b") >= TEXT && place("b") - place("c") >= TEXT - 1.0, "{svg}");
    }
}
