//! A picture as a list of shapes, to be written as SVG or as PNG.

use std::path::Path;

use super::file::write_file;
use super::look::Look;
#[cfg(feature = "png")]
use super::raster;
use super::{PlotError, svg};

/// A place on the canvas in pixels, from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Which end of a text lies at its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stroke {
    Solid,
    Dashed,
    DashDotted,
    Dotted,
}

impl Stroke {
    /// Lengths that are drawn and left out in turn, an even number of them.
    pub(super) const fn dashes(self) -> &'static [f64] {
        match self {
            Self::Solid => &[],
            Self::Dashed => &[5.0, 4.0],
            Self::DashDotted => &[10.0, 3.0, 2.0, 3.0],
            Self::Dotted => &[2.0, 3.0],
        }
    }
}

/// A colour is written `#rrggbb`.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Line {
        from: Point,
        to: Point,
        colour: &'static str,
        stroke: Stroke,
        /// Where in its dashes it begins.
        offset: f64,
    },
    Dot {
        at: Point,
        look: Look,
        is_filled: bool,
    },
    /// From its upper left to its lower right corner.
    Bar {
        from: Point,
        to: Point,
        colour: &'static str,
    },
    Text {
        at: Point,
        anchor: Anchor,
        colour: &'static str,
        text: String,
    },
}

/// A picture while it is drawn.
#[derive(Clone, Debug)]
pub struct Canvas {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

impl Canvas {
    /// An empty white picture.
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    pub(super) fn line(&mut self, from: Point, to: Point, colour: &'static str, stroke: Stroke) {
        self.shapes.push(Shape::Line { from, to, colour, stroke, offset: 0.0 });
    }

    /// A line from each point to the next. Dashes go on around corners, or short pieces would look solid.
    pub(super) fn path(&mut self, points: &[Point], colour: &'static str, stroke: Stroke) {
        let mut offset = 0.0;
        for pair in points.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            self.shapes.push(Shape::Line { from, to, colour, stroke, offset });
            offset += (to.x - from.x).hypot(to.y - from.y);
        }
    }

    /// A round or square dot, filled or a ring.
    pub(super) fn dot(&mut self, at: Point, look: Look, is_filled: bool) {
        self.shapes.push(Shape::Dot { at, look, is_filled });
    }

    pub(super) fn bar(&mut self, from: Point, to: Point, colour: &'static str) {
        self.shapes.push(Shape::Bar { from, to, colour });
    }

    pub(super) fn text(&mut self, at: Point, anchor: Anchor, colour: &'static str, text: &str) {
        self.shapes.push(Shape::Text { at, anchor, colour, text: text.to_owned() });
    }

    /// The picture as an SVG file.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::write(self)
    }

    /// The picture as a PNG file.
    #[cfg(feature = "png")]
    #[must_use]
    pub fn png(&self) -> Vec<u8> {
        raster::draw(self).png()
    }

    /// Writes the picture to the SVG file `path`.
    ///
    /// # Errors
    /// [`PlotError::Write`] if it cannot.
    pub fn save_svg(&self, path: &Path) -> Result<(), PlotError> {
        write_file(path, self.svg().as_bytes())
    }

    /// Writes the picture to `name.svg` and `name.png` in `folder`.
    ///
    /// # Errors
    /// [`PlotError::Write`] if it cannot.
    #[cfg(feature = "png")]
    pub fn save(&self, folder: &Path, name: &str) -> Result<(), PlotError> {
        write_file(&folder.join(format!("{name}.svg")), self.svg().as_bytes())?;
        write_file(&folder.join(format!("{name}.png")), &self.png())
    }
}
