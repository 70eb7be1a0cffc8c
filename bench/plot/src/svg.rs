//! The few elements of SVG that a picture needs.

use std::fmt::Write as _;

use super::canvas::{Anchor, Canvas, Point, Shape};
use super::look::Look;

/// The whole file.
pub(super) fn write(canvas: &Canvas) -> String {
    let Canvas { width, height, shapes } = canvas;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for shape in shapes {
        let _ = writeln!(text, "{}", element(shape));
    }
    text + "</svg>\n"
}

fn element(shape: &Shape) -> String {
    match shape {
        Shape::Line { from, to, colour, stroke, offset } => {
            format!(
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"{}/>",
                from.x,
                from.y,
                to.x,
                to.y,
                dashes(stroke.dashes(), *offset)
            )
        }
        Shape::Dot { at, look, is_filled } => dot(*at, *look, *is_filled),
        Shape::Bar { from, to, colour } => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            from.x,
            from.y,
            to.x - from.x,
            to.y - from.y
        ),
        Shape::Text { at, anchor, colour, text } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>",
                at.x,
                at.y,
                escaped(text)
            )
        }
    }
}

/// The attributes of a line with `dashes`, `offset` of which lie before it.
fn dashes(dashes: &[f64], offset: f64) -> String {
    let lengths: Vec<String> = dashes.iter().map(f64::to_string).collect();
    match dashes {
        [] => String::new(),
        _ if offset == 0.0 => format!(" stroke-dasharray=\"{}\"", lengths.join(" ")),
        _ => format!(" stroke-dasharray=\"{}\" stroke-dashoffset=\"{offset:.1}\"", lengths.join(" ")),
    }
}

fn dot(Point { x, y }: Point, Look { colour, is_second }: Look, is_filled: bool) -> String {
    let fill = if is_filled { colour } else { "#ffffff" };
    let outline = if is_second {
        let (left, top) = (x - 4.0, y - 4.0);
        format!("rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"8\" height=\"8\"")
    } else {
        format!("circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"")
    };
    format!("<{outline} fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"2\"/>")
}

/// `text` between tags. What XML has no way to write, not even as a number, becomes U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\t' | '\n' | '\r' => escaped.push(letter),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::canvas::Stroke;
    use super::*;

    #[test]
    fn elements_have_their_places() {
        let mut canvas = Canvas::new(20.0, 10.0);
        let (a, b) = (Point { x: 1.0, y: 2.0 }, Point { x: 3.25, y: 4.0 });
        canvas.line(a, b, "#000000", Stroke::Dashed);
        canvas.dot(b, Look { colour: "#ff0000", is_second: false }, false);
        canvas.text(a, Anchor::End, "#000000", "a < b & c");
        canvas.bar(a, b, "#00ff00");
        canvas.dot(b, Look { colour: "#ff0000", is_second: true }, true);
        let corner = [(0.0, 0.0), (3.0, 4.0), (3.0, 9.0)].map(|(x, y)| Point { x, y });
        canvas.path(&corner, "#0000ff", Stroke::DashDotted);
        let svg = canvas.svg();
        let lines: Vec<&str> = svg.lines().collect();
        assert!(lines[0].starts_with("<svg ") && lines[0].contains("viewBox=\"0 0 20 10\""), "{svg}");
        assert!(
            lines[2].contains("x1=\"1.0\" y1=\"2.0\" x2=\"3.2\" y2=\"4.0\"") && lines[2].contains("dash")
        );
        assert!(lines[3].contains("cx=\"3.2\" cy=\"4.0\"") && lines[3].contains("fill=\"#ffffff\""));
        assert!(lines[4].ends_with(">a &lt; b &amp; c</text>"), "{svg}");
        let bar = "<rect x=\"1.0\" y=\"2.0\" width=\"2.2\" height=\"2.0\" fill=\"#00ff00\"/>";
        assert_eq!(lines[5], bar);
        assert!(lines[6].starts_with("<rect x=\"-0.8\" y=\"0.0\" width=\"8\""), "{svg}");
        // The first piece of the path is 5 long.
        assert!(lines[7].ends_with("stroke-dasharray=\"10 3 2 3\"/>"), "{svg}");
        assert!(lines[8].ends_with("stroke-dasharray=\"10 3 2 3\" stroke-dashoffset=\"5.0\"/>"), "{svg}");
        assert_eq!(lines[9], "</svg>");
    }

    #[test]
    fn what_xml_does_not_allow_is_not_written() {
        assert_eq!(escaped("a\x1b[31m\0\u{ffff}<b>"), "a\u{fffd}[31m\u{fffd}\u{fffd}&lt;b&gt;");
        let allowed = "\t\n\r λ \u{7f}\u{85}\u{fffd}\u{1f600}";
        assert_eq!(escaped(allowed), allowed);
    }
}
