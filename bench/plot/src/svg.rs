//! The few elements of SVG that a picture needs.

use std::fmt::Write as _;

use super::canvas::{Anchor, Canvas, Shape};

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
        Shape::Line { from, to, colour, is_dashed } => {
            let dashes = if *is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
            format!(
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"{dashes}/>",
                from.x, from.y, to.x, to.y
            )
        }
        Shape::Dot { at, colour, is_filled } => {
            let fill = if *is_filled { colour } else { "#ffffff" };
            format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                at.x, at.y
            )
        }
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::canvas::Point;
    use super::*;

    #[test]
    fn elements_have_their_places() {
        let mut canvas = Canvas::new(20.0, 10.0);
        let (a, b) = (Point { x: 1.0, y: 2.0 }, Point { x: 3.25, y: 4.0 });
        canvas.line(a, b, "#000000", true);
        canvas.dot(b, "#ff0000", false);
        canvas.text(a, Anchor::End, "#000000", "a < b & c");
        canvas.bar(a, b, "#00ff00");
        let svg = canvas.svg();
        let lines: Vec<&str> = svg.lines().collect();
        assert!(lines[0].starts_with("<svg ") && lines[0].contains("viewBox=\"0 0 20 10\""), "{svg}");
        assert!(
            lines[2].contains("x1=\"1.0\" y1=\"2.0\" x2=\"3.2\" y2=\"4.0\"") && lines[2].contains("dash")
        );
        assert!(lines[3].contains("cx=\"3.2\" cy=\"4.0\"") && lines[3].contains("fill=\"#ffffff\""));
        assert!(lines[4].ends_with(">a &lt; b &amp; c</text>"), "{svg}");
        let bar = "<rect x=\"1.0\" y=\"2.0\" width=\"2.2\" height=\"2.0\" fill=\"#00ff00\"/>";
        assert_eq!(lines[5..], [bar, "</svg>"]);
    }
}
