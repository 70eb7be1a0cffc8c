//! A canvas as pixels.

use std::convert::Infallible;

use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_7::FONT_10X20;
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Circle, Line, PrimitiveStyle, PrimitiveStyleBuilder, Rectangle};
use embedded_graphics::text::{Alignment, Text};

use super::canvas::{Anchor, Canvas, Shape};
use super::look::Look;
use super::png::Image;
use super::text::plain;

/// Pixels for each unit of the canvas.
const SCALE: f64 = 2.0;

/// All shapes of `canvas`, in their order.
pub(super) fn draw(canvas: &Canvas) -> Image {
    let mut image = Image::white((canvas.width * SCALE) as u32, (canvas.height * SCALE) as u32);
    for shape in &canvas.shapes {
        let Ok(()) = draw_shape(shape, &mut image);
    }
    image
}

fn draw_shape(shape: &Shape, image: &mut Image) -> Result<(), Infallible> {
    match shape {
        Shape::Line { from, to, colour, stroke, offset } => {
            let style = PrimitiveStyle::with_stroke(rgb(colour), 2);
            for (start, end) in pieces(*from, *to, stroke.dashes(), *offset) {
                Line::new(pixel(start), pixel(end)).into_styled(style).draw(image)?;
            }
        }
        Shape::Dot { at, look: Look { colour, is_second }, is_filled } => {
            let fill = if *is_filled { rgb(colour) } else { Rgb888::WHITE };
            let style = PrimitiveStyleBuilder::new()
                .stroke_color(rgb(colour))
                .stroke_width(4)
                .fill_color(fill)
                .build();
            if *is_second {
                let square = Rectangle::with_center(pixel(*at), Size::new_equal(16));
                square.into_styled(style).draw(image)?;
            } else {
                Circle::with_center(pixel(*at), 18).into_styled(style).draw(image)?;
            }
        }
        Shape::Bar { from, to, colour } => {
            let style = PrimitiveStyle::with_fill(rgb(colour));
            Rectangle::with_corners(pixel(*from), pixel(*to)).into_styled(style).draw(image)?;
        }
        Shape::Text { at, anchor, colour, text } => {
            let alignment = match anchor {
                Anchor::Start => Alignment::Left,
                Anchor::Middle => Alignment::Center,
                Anchor::End => Alignment::Right,
            };
            let style = MonoTextStyle::new(&FONT_10X20, rgb(colour));
            Text::with_alignment(&plain(text), pixel(*at), style, alignment).draw(image)?;
        }
    }
    Ok(())
}

/// The parts of a line that are drawn, `offset` of its `dashes` being behind it.
fn pieces(
    from: super::Point,
    to: super::Point,
    dashes: &[f64],
    offset: f64,
) -> Vec<(super::Point, super::Point)> {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let len = dx.hypot(dy);
    // A point has no parts.
    if dashes.is_empty() || len == 0.0 {
        return vec![(from, to)];
    }
    let at = |part: f64| super::Point { x: from.x + dx * part / len, y: from.y + dy * part / len };
    let mut pieces = Vec::new();
    let mut start = -(offset % dashes.iter().sum::<f64>());
    let mut lengths = dashes.iter().cycle().enumerate();
    while let Some((i, dash)) = lengths.next().filter(|_| start < len) {
        let end = start + dash;
        if i % 2 == 0 && end > 0.0 {
            pieces.push((at(start.max(0.0)), at(end.min(len))));
        }
        start = end;
    }
    pieces
}

fn pixel(at: super::Point) -> Point {
    Point::new((at.x * SCALE).round() as i32, (at.y * SCALE).round() as i32)
}

/// The colour `#rrggbb`.
fn rgb(colour: &str) -> Rgb888 {
    let part = |at: usize| {
        colour.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or_default()
    };
    Rgb888::new(part(1), part(3), part(5))
}

impl OriginDimensions for Image {
    fn size(&self) -> Size {
        Size::new(self.width, self.height)
    }
}

impl DrawTarget for Image {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(at, colour) in pixels {
            let (Ok(x), Ok(y)) = (u32::try_from(at.x), u32::try_from(at.y)) else { continue };
            if x < self.width && y < self.height {
                self.pixels[(y * self.width + x) as usize] = [colour.r(), colour.g(), colour.b()];
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{Point, Stroke};
    use super::super::text::PNG_LETTER;
    use super::*;

    #[test]
    fn shapes_cover_their_pixels() {
        let mut canvas = Canvas::new(20.0, 10.0);
        canvas.bar(Point { x: 1.0, y: 2.0 }, Point { x: 3.0, y: 4.0 }, "#0a0b0c");
        canvas.line(Point { x: 0.0, y: 8.0 }, Point { x: 20.0, y: 8.0 }, "#ff0000", Stroke::Dashed);
        canvas.text(Point { x: 10.0, y: 7.0 }, Anchor::Start, "#0000ff", "I");
        // Off the canvas, where nobody minds.
        canvas.dot(Point { x: -90.0, y: 900.0 }, Look { colour: "#00ff00", is_second: false }, true);
        let image = draw(&canvas);
        let at = |x: u32, y: u32| image.pixels[(y * image.width + x) as usize];
        assert_eq!((image.width, image.height), (40, 20));
        assert_eq!(
            [at(2, 4), at(6, 8), at(1, 4), at(7, 8)],
            [[10, 11, 12], [10, 11, 12], [255; 3], [255; 3]]
        );
        // Five units of each nine are drawn.
        assert_eq!([at(4, 16), at(14, 16), at(20, 16)], [[255, 0, 0], [255; 3], [255, 0, 0]]);
        assert!(image.pixels.contains(&[0, 0, 255]) && !image.pixels.contains(&[0, 255, 0]));
    }

    #[test]
    fn second_dots_of_a_colour_are_square() {
        let mut canvas = Canvas::new(40.0, 20.0);
        for (x, is_second) in [(10.0, false), (30.0, true)] {
            canvas.dot(Point { x, y: 10.0 }, Look { colour: "#0000ff", is_second }, true);
        }
        let image = draw(&canvas);
        let at = |x: u32, y: u32| image.pixels[(y * image.width + x) as usize];
        // Both middles and left sides, and the only corner that there is.
        let blue = [0, 0, 255];
        assert_eq!([at(20, 20), at(60, 20), at(12, 20), at(52, 20)], [blue; 4]);
        assert_eq!([at(11, 11), at(51, 11)], [[255; 3], blue]);
    }

    #[test]
    fn dashes_go_on_where_the_piece_before_left_off() {
        let line = |offset| {
            let at = |x| Point { x, y: 0.0 };
            let pieces = pieces(at(0.0), at(12.0), Stroke::Dashed.dashes(), offset);
            pieces.iter().map(|(from, to)| (from.x, to.x)).collect::<Vec<_>>()
        };
        assert_eq!(line(0.0), [(0.0, 5.0), (9.0, 12.0)]);
        // Two of the dash are left, or one of the gap.
        assert_eq!(line(3.0), [(0.0, 2.0), (6.0, 11.0)]);
        assert_eq!(line(17.0), [(1.0, 6.0), (10.0, 12.0)]);
        let at = Point { x: 7.0, y: 8.0 };
        assert_eq!(pieces(at, at, Stroke::Dashed.dashes(), 3.0), [(at, at)]);
    }

    #[test]
    fn letters_are_as_wide_as_the_layout_counts() {
        let letter = f64::from(FONT_10X20.character_size.width) / SCALE;
        assert_eq!(letter.to_bits(), PNG_LETTER.to_bits());
    }
}
