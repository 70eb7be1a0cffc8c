//! Groups of bars.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Point};
use super::{COLOURS, FAINT, GREY, INK, TEXT, shown};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 90.0;
const BOTTOM: f64 = HEIGHT - 50.0;
/// Share of a group's width that its bars take.
const FILLED: f64 = 0.84;

/// What to show: values from 0 up.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The first one is the heading.
    pub titles: Vec<String>,
    /// What the height of a bar is.
    pub unit: String,
    /// Names of the bars of each group.
    pub names: Vec<String>,
    /// Groups with a value for each name.
    pub groups: Vec<(String, Vec<f64>)>,
    /// Heights to compare with, and their names.
    pub levels: Vec<(String, f64)>,
}

impl Bars {
    /// Draws them.
    #[must_use]
    pub fn draw(&self) -> Canvas {
        let values = self.groups.iter().flat_map(|(_, values)| values.iter().copied());
        let values = values.chain(self.levels.iter().map(|level| level.1)).chain([0.0]);
        let y = Axis::linear(values, 1.0, (BOTTOM, TOP));
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        for (row, title) in self.titles.iter().enumerate() {
            let at = Point { x: LEFT, y: 22.0 + TEXT * row as f64 };
            canvas.text(at, Anchor::Start, if row == 0 { INK } else { GREY }, title);
        }
        for tick in y.ticks() {
            let at = y.pixel(tick);
            canvas.line(Point { x: LEFT, y: at }, Point { x: RIGHT, y: at }, FAINT, false);
            canvas.text(Point { x: LEFT - 8.0, y: at + 4.0 }, Anchor::End, INK, &shown(tick));
        }
        canvas.text(Point { x: LEFT, y: HEIGHT - 10.0 }, Anchor::Start, INK, &self.unit);
        self.draw_names(&mut canvas);
        self.draw_groups(&mut canvas, &y);
        for (name, level) in &self.levels {
            let at = y.pixel(*level);
            canvas.line(Point { x: LEFT, y: at }, Point { x: RIGHT, y: at }, GREY, true);
            canvas.text(Point { x: RIGHT, y: at - 4.0 }, Anchor::End, GREY, name);
        }
        canvas
    }

    fn draw_names(&self, canvas: &mut Canvas) {
        let step = (RIGHT - LEFT) / self.names.len().max(1) as f64;
        for (i, name) in self.names.iter().enumerate() {
            let x = LEFT + step * i as f64;
            let y = TOP - 24.0;
            canvas.bar(Point { x, y }, Point { x: x + 10.0, y: y + 10.0 }, colour(i));
            canvas.text(Point { x: x + 14.0, y: y + 10.0 }, Anchor::Start, INK, name);
        }
    }

    fn draw_groups(&self, canvas: &mut Canvas, y: &Axis) {
        let width = (RIGHT - LEFT) / self.groups.len().max(1) as f64;
        let bar = width * FILLED / self.names.len().max(1) as f64;
        for (group, (name, values)) in self.groups.iter().enumerate() {
            let left = LEFT + width * (group as f64 + (1.0 - FILLED) / 2.0);
            for (i, value) in values.iter().enumerate() {
                let x = left + bar * i as f64;
                let from = Point { x, y: y.pixel(*value) };
                canvas.bar(from, Point { x: x + bar * 0.92, y: y.pixel(0.0) }, colour(i));
            }
            let middle = Point { x: LEFT + width * (group as f64 + 0.5), y: BOTTOM + 18.0 };
            canvas.text(middle, Anchor::Middle, INK, name);
        }
    }
}

fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values() {
        let bars = Bars {
            titles: vec!["title".into()],
            unit: "share".into(),
            names: vec!["a".into(), "b".into()],
            groups: vec![("one".into(), vec![1.0, 0.5]), ("two".into(), vec![0.0, 0.25])],
            levels: vec![("paper".into(), 0.75)],
        };
        let svg = bars.draw().svg();
        let full = BOTTOM - TOP;
        for part in [1.0, 0.5, 0.0, 0.25] {
            assert!(svg.contains(&format!("height=\"{:.1}\"", full * part)), "{part}: {svg}");
        }
        assert!(svg.contains(&format!("y1=\"{:.1}\"", TOP + 0.25 * full)), "{svg}");
        assert!(svg.contains(">paper<") && svg.contains(">two<") && svg.contains(">share<"));
    }
}
