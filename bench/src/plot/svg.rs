//! The few elements of SVG that a plot needs.

use std::fmt::Write as _;

/// A place on the canvas in pixels, from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Which end of a text lies at its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture while it is drawn.
pub(super) struct Canvas {
    text: String,
}

impl Canvas {
    /// An empty white picture.
    pub(super) fn new(width: f64, height: f64) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        Self { text }
    }

    pub(super) fn line(&mut self, from: Point, to: Point, colour: &str, is_dashed: bool) {
        let dashes = if is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"{dashes}/>",
            from.x, from.y, to.x, to.y
        ));
    }

    /// A dot, filled or a ring.
    pub(super) fn dot(&mut self, at: Point, colour: &str, is_filled: bool) {
        let fill = if is_filled { colour } else { "#ffffff" };
        self.add(format_args!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            at.x, at.y
        ));
    }

    pub(super) fn text(&mut self, at: Point, anchor: Anchor, colour: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>",
            at.x,
            at.y,
            escaped(text)
        ));
    }

    /// The whole file.
    pub(super) fn finish(self) -> String {
        self.text + "</svg>\n"
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{element}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_their_places() {
        let mut canvas = Canvas::new(20.0, 10.0);
        let (a, b) = (Point { x: 1.0, y: 2.0 }, Point { x: 3.25, y: 4.0 });
        canvas.line(a, b, "#000000", true);
        canvas.dot(b, "#ff0000", false);
        canvas.text(a, Anchor::End, "#000000", "a < b & c");
        let svg = canvas.finish();
        let lines: Vec<&str> = svg.lines().collect();
        assert!(lines[0].starts_with("<svg ") && lines[0].contains("viewBox=\"0 0 20 10\""), "{svg}");
        assert!(
            lines[2].contains("x1=\"1.0\" y1=\"2.0\" x2=\"3.2\" y2=\"4.0\"") && lines[2].contains("dash")
        );
        assert!(lines[3].contains("cx=\"3.2\" cy=\"4.0\"") && lines[3].contains("fill=\"#ffffff\""));
        assert!(lines[4].ends_with(">a &lt; b &amp; c</text>"), "{svg}");
        assert_eq!(lines[5..], ["</svg>"]);
    }
}
