//! A canvas as pixels.

use std::convert::Infallible;

use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_7::FONT_10X20;
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Circle, Line, PrimitiveStyle, PrimitiveStyleBuilder, Rectangle};
use embedded_graphics::text::{Alignment, Text};

use super::canvas::{Anchor, Canvas, Shape};
use super::png::Image;

/// Pixels for each unit of the canvas.
const SCALE: f64 = 2.0;
/// Of dashed lines, in units of the canvas: drawn, and left out.
const DASHES: (f64, f64) = (5.0, 4.0);

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
        Shape::Line { from, to, colour, is_dashed } => {
            let style = PrimitiveStyle::with_stroke(rgb(colour), 2);
            for (start, end) in pieces(*from, *to, *is_dashed) {
                Line::new(pixel(start), pixel(end)).into_styled(style).draw(image)?;
            }
        }
        Shape::Dot { at, colour, is_filled } => {
            let fill = if *is_filled { rgb(colour) } else { Rgb888::WHITE };
            let style = PrimitiveStyleBuilder::new()
                .stroke_color(rgb(colour))
                .stroke_width(4)
                .fill_color(fill)
                .build();
            Circle::with_center(pixel(*at), 18).into_styled(style).draw(image)?;
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
            Text::with_alignment(&known(text), pixel(*at), style, alignment).draw(image)?;
        }
    }
    Ok(())
}

/// The parts of a line that are drawn.
fn pieces(from: super::Point, to: super::Point, is_dashed: bool) -> Vec<(super::Point, super::Point)> {
    if !is_dashed {
        return vec![(from, to)];
    }
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let len = dx.hypot(dy);
    let at = |part: f64| super::Point { x: from.x + dx * part / len, y: from.y + dy * part / len };
    let count = (len / (DASHES.0 + DASHES.1)).ceil() as usize;
    let starts = (0..count).map(|i| i as f64 * (DASHES.0 + DASHES.1));
    starts.map(|start| (at(start), at((start + DASHES.0).min(len)))).collect()
}

/// `text` with the letters that the font lacks written otherwise.
fn known(text: &str) -> String {
    let plain = |letter: char| match letter {
        '×' => 'x',
        '−' | '–' => '-',
        'µ' => 'μ',
        '·' => '.',
        '≥' => '>',
        letter => letter,
    };
    text.chars().map(plain).collect()
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
    use super::super::canvas::Point;
    use super::*;

    #[test]
    fn shapes_cover_their_pixels() {
        let mut canvas = Canvas::new(20.0, 10.0);
        canvas.bar(Point { x: 1.0, y: 2.0 }, Point { x: 3.0, y: 4.0 }, "#0a0b0c");
        canvas.line(Point { x: 0.0, y: 8.0 }, Point { x: 20.0, y: 8.0 }, "#ff0000", true);
        canvas.text(Point { x: 10.0, y: 7.0 }, Anchor::Start, "#0000ff", "I");
        // Off the canvas, where nobody minds.
        canvas.dot(Point { x: -90.0, y: 900.0 }, "#00ff00", true);
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
    fn letters_are_those_of_the_font() {
        assert_eq!(known("λ = 6 × 2 − 1 µs"), "λ = 6 x 2 - 1 μs");
    }
}
