//! Groups of bars.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Point, Stroke};
use super::look::Look;
use super::{FAINT, GREY, INK, TEXT, shown, text};

/// Where the bars are in the least picture: many of them need more width, and rows of names more height.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 980.0;
const TOP: f64 = 90.0;
/// From the highest bar to the axis.
const TALL: f64 = 280.0;
/// Right of the bars, and below them.
const MARGIN: f64 = 20.0;
const BELOW: f64 = 50.0;
/// Share of a group's width that its bars take.
const FILLED: f64 = 0.84;
/// From one bar to the next, at least, so that hollow ones look hollow.
const STEP: f64 = 4.0;
/// Share of that which a bar takes.
const THICK: f64 = 0.92;
/// Bars share no more than that, however many there are.
const WIDEST: f64 = 16_000.0;
/// From the bars to the name of a level.
const BESIDE: f64 = 6.0;
/// From the end of a text to that of the picture.
const END: f64 = 4.0;
/// What a name in the legend needs beside its letters: the sample before, and some room after.
const SAMPLE: f64 = 14.0;
const AFTER: f64 = 14.0;

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
        let layout = Layout::of(self);
        let Layout { right, top, bottom, .. } = layout;
        let values = self.groups.iter().flat_map(|(_, values)| values.iter().copied());
        let values = values.chain(self.levels.iter().map(|level| level.1)).chain([0.0]);
        let y = Axis::linear(values, 1.0, (bottom, top));
        let mut canvas = Canvas::new(layout.width, layout.height);
        for (row, title) in self.titles.iter().enumerate() {
            let at = Point { x: LEFT, y: 22.0 + TEXT * row as f64 };
            canvas.text(at, Anchor::Start, if row == 0 { INK } else { GREY }, title);
        }
        for tick in y.ticks() {
            let at = y.pixel(tick);
            canvas.line(Point { x: LEFT, y: at }, Point { x: right, y: at }, FAINT, Stroke::Solid);
            canvas.text(Point { x: LEFT - 8.0, y: at + 4.0 }, Anchor::End, INK, &shown(tick));
        }
        canvas.text(Point { x: LEFT, y: layout.height - 10.0 }, Anchor::Start, INK, &self.unit);
        self.draw_legend(&mut canvas, &layout);
        self.draw_groups(&mut canvas, &layout, &y);
        self.draw_group_names(&mut canvas, &layout);
        self.draw_levels(&mut canvas, &layout, &y);
        canvas
    }

    fn draw_legend(&self, canvas: &mut Canvas, layout: &Layout) {
        for (i, name) in self.names.iter().enumerate() {
            let Point { x, y } = layout.legend(i);
            draw_bar(canvas, Point { x, y: y - 10.0 }, Point { x: x + 10.0, y }, Look::of(i));
            canvas.text(Point { x: x + SAMPLE, y }, Anchor::Start, INK, name);
        }
    }

    fn draw_groups(&self, canvas: &mut Canvas, layout: &Layout, y: &Axis) {
        let width = layout.group_width;
        let bar = width * FILLED / self.names.len().max(1) as f64;
        for (group, (_, values)) in self.groups.iter().enumerate() {
            let left = LEFT + width * (group as f64 + (1.0 - FILLED) / 2.0);
            for (i, value) in values.iter().enumerate() {
                let x = left + bar * i as f64;
                let from = Point { x, y: y.pixel(*value) };
                draw_bar(canvas, from, Point { x: x + bar * THICK, y: y.pixel(0.0) }, Look::of(i));
            }
        }
    }

    fn draw_group_names(&self, canvas: &mut Canvas, layout: &Layout) {
        let at = |row: usize| layout.bottom + 18.0 + TEXT * row as f64;
        // First, so that no name is crossed out.
        for (group, (_, row)) in layout.group_names.iter().enumerate().filter(|(_, (_, row))| *row > 0) {
            let x = layout.middle(group);
            let to = Point { x, y: at(*row) - TEXT + 3.0 };
            canvas.line(Point { x, y: layout.bottom }, to, FAINT, Stroke::Solid);
        }
        for ((name, _), (x, row)) in self.groups.iter().zip(&layout.group_names) {
            canvas.text(Point { x: *x, y: at(*row) }, Anchor::Middle, INK, name);
        }
    }

    /// Their names are in the margin: bars would hide them.
    fn draw_levels(&self, canvas: &mut Canvas, layout: &Layout, y: &Axis) {
        let heights: Vec<f64> = self.levels.iter().map(|level| y.pixel(level.1)).collect();
        for ((name, _), (at, beside)) in
            self.levels.iter().zip(heights.iter().zip(text::spread(&heights, TEXT)))
        {
            let (from, to) = (Point { x: LEFT, y: *at }, Point { x: layout.right, y: *at });
            canvas.line(from, to, GREY, Stroke::Dashed);
            canvas.text(Point { x: layout.right + BESIDE, y: beside + 4.0 }, Anchor::Start, INK, name);
        }
    }
}

/// A hollow bar is an outline of the width of one unit.
fn draw_bar(canvas: &mut Canvas, from: Point, to: Point, look: Look) {
    canvas.bar(from, to, look.colour);
    let (inner_from, inner_to) =
        (Point { x: from.x + 1.0, y: from.y + 1.0 }, Point { x: to.x - 1.0, y: to.y - 1.0 });
    if look.is_second && inner_from.y < inner_to.y {
        canvas.bar(inner_from, inner_to, "#ffffff");
    }
}

/// What goes where.
struct Layout {
    width: f64,
    height: f64,
    /// Sides of the part with bars.
    right: f64,
    top: f64,
    bottom: f64,
    group_width: f64,
    /// Columns of the legend, and how wide each is.
    columns: usize,
    column_width: f64,
    /// The middle of the name of each group, and its row.
    group_names: Vec<(f64, usize)>,
}

impl Layout {
    fn of(bars: &Bars) -> Self {
        let groups = bars.groups.len().max(1) as f64;
        let wide = (RIGHT - LEFT).max(groups * STEP * bars.names.len() as f64 / FILLED);
        let group_width = wide.min(WIDEST) / groups;
        let right = LEFT + group_width * groups;
        let column_width = SAMPLE + text::widest(bars.names.iter().map(String::as_str)) + AFTER;
        let columns = text::columns(bars.names.len(), column_width, right - LEFT);
        let top = TOP + TEXT * bars.names.len().div_ceil(columns).saturating_sub(1) as f64;
        let bottom = top + TALL;
        // What sticks out on the right.
        let widths = [
            right + MARGIN,
            right + BESIDE + text::widest(bars.levels.iter().map(|level| level.0.as_str())) + END,
            LEFT + text::widest(bars.titles.iter().map(String::as_str)) + END,
            LEFT + column_width,
            text::widest(bars.groups.iter().map(|group| group.0.as_str())),
        ];
        let mut layout = Self {
            width: widths.into_iter().fold(0.0, f64::max).ceil(),
            height: bottom + BELOW,
            right,
            top,
            bottom,
            group_width,
            columns,
            column_width,
            group_names: Vec::new(),
        };
        layout.place_group_names(bars);
        layout
    }

    /// Below the axis, in as many rows as they need.
    fn place_group_names(&mut self, bars: &Bars) {
        let place = |(group, (name, _)): (usize, &(String, _))| {
            let half = text::width(name) / 2.0;
            // Within the picture.
            (self.middle(group).min(self.width - half).max(half), half)
        };
        let places: Vec<(f64, f64)> = bars.groups.iter().enumerate().map(place).collect();
        let rows = text::staggered(places.iter().map(|(middle, half)| (middle - half, middle + half)));
        self.height += TEXT * rows.iter().max().map_or(0.0, |&last| last as f64);
        self.group_names = places.iter().map(|place| place.0).zip(rows).collect();
    }

    fn middle(&self, group: usize) -> f64 {
        LEFT + self.group_width * (group as f64 + 0.5)
    }

    /// The lower left corner of a sample in the legend.
    fn legend(&self, number: usize) -> Point {
        let (row, column) = (number / self.columns, number % self.columns);
        Point { x: LEFT + self.column_width * column as f64, y: TOP - 14.0 + TEXT * row as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::Shape;
    use super::*;

    fn bars(names: &[&str], groups: &[&str]) -> Bars {
        let values =
            |i: usize| (0..names.len()).map(|j| 0.2 + 0.7 * ((i + 3 * j) % 7) as f64 / 7.0).collect();
        Bars {
            titles: vec!["title".into(), "conditions".into()],
            unit: "share".into(),
            names: names.iter().map(|name| (*name).into()).collect(),
            groups: groups.iter().enumerate().map(|(i, group)| ((*group).into(), values(i))).collect(),
            levels: vec![("paper's mean at λ = 6".into(), 0.38)],
        }
    }

    /// From left to right and from top to bottom.
    type Place = [f64; 4];

    /// The room that each text takes, in either format.
    fn texts<'a>(canvas: &'a Canvas) -> Vec<(&'a str, Place)> {
        let place = |shape: &'a Shape| {
            let Shape::Text { at, anchor, text, .. } = shape else { return None };
            let width = text::width(text);
            let left = match anchor {
                Anchor::Start => at.x,
                Anchor::Middle => at.x - width / 2.0,
                Anchor::End => at.x - width,
            };
            Some((text.as_str(), [left, left + width, at.y - 10.0, at.y + 2.0]))
        };
        canvas.shapes.iter().filter_map(place).collect()
    }

    fn overlap(a: Place, b: Place) -> bool {
        a[0] < b[1] && b[0] < a[1] && a[2] < b[3] && b[2] < a[3]
    }

    /// All texts are within the picture, and none is on another or on a bar.
    fn check(canvas: &Canvas) {
        let texts = texts(canvas);
        for (i, (name, place)) in texts.iter().enumerate() {
            assert!(
                place[0] >= 0.0 && place[1] <= canvas.width && place[3] <= canvas.height,
                "{name}: {place:?}"
            );
            for (other, there) in &texts[..i] {
                assert!(!overlap(*place, *there), "{name} {place:?}, {other} {there:?}");
            }
            for shape in &canvas.shapes {
                if let Shape::Bar { from, to, .. } = shape {
                    assert!(!overlap(*place, [from.x, to.x, from.y, to.y]), "{name} {place:?} {shape:?}");
                }
            }
        }
    }

    const LONG: [&str; 18] = [
        "aes_128k",
        "bitonic_sort_1m",
        "bs_1m",
        "fir_1m",
        "fir_8m",
        "gd_ones",
        "gd_random",
        "kmeans_64k",
        "km_382_ones",
        "matrix_2048",
        "mt_4096",
        "relu_256k",
        "relu_1024k",
        "sc_382_ones",
        "sc_1024_random",
        "spmv_16k",
        "trace of a run",
        "mean",
    ];

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
        for part in [1.0, 0.5, 0.0, 0.25] {
            assert!(svg.contains(&format!("height=\"{:.1}\"", TALL * part)), "{part}: {svg}");
        }
        assert!(svg.contains(&format!("y1=\"{:.1}\"", TOP + 0.25 * TALL)), "{svg}");
        assert!(svg.contains(">paper<") && svg.contains(">two<") && svg.contains(">share<"));
    }

    #[test]
    fn short_names_are_in_one_row() {
        let canvas = bars(&["a", "b"], &["one", "two"]).draw();
        check(&canvas);
        let at = |name: &str| texts(&canvas).iter().find(|text| text.0 == name).unwrap().1;
        // Groups of 460; a column is 14 and 7.5 and 14 wide.
        assert_eq!((f64::midpoint(at("one")[0], at("one")[1]), at("two")[3]), (290.0, 390.0));
        assert_eq!((at("a")[0], at("b")[0]), (74.0, 109.5));
        // 21 letters of 7.5 right of 980.
        assert_eq!((at("paper's mean at λ = 6")[0], canvas.width), (986.0, 1148.0));
        assert_eq!(canvas.height.to_bits(), 420f64.to_bits());
    }

    #[test]
    fn many_long_names_do_not_cover_each_other() {
        let names: Vec<String> = ["BDI", "FPC", "C-Pack+Z"]
            .iter()
            .flat_map(|codec| ["0", "6", "12", "18", "24"].map(|rate| format!("{codec} at λ = {rate}")))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let canvas = bars(&names, &LONG).draw();
        check(&canvas);
        assert!(canvas.height > 420.0 + 2.0 * TEXT, "{}", canvas.height);
    }

    #[test]
    fn names_at_the_sides_stay_within_the_picture() {
        let long = "a name that is far longer than the place of its group";
        check(&bars(&["a"], &[&[long], &LONG[..], &[long]].concat()).draw());
        // Wider than all groups together.
        let longest = "x".repeat(150);
        check(&bars(&[&longest, "a"], &["one"]).draw());
        check(&bars(&["a"], &[&longest]).draw());
        let mut titled = bars(&["a"], &["one"]);
        titled.titles.push(longest);
        titled.titles.remove(0);
        check(&titled.draw());
    }

    #[test]
    fn names_of_near_levels_are_below_each_other() {
        let mut bars = bars(&["a"], &["one"]);
        bars.levels = vec![("lower".into(), 0.5), ("higher".into(), 0.505)];
        check(&bars.draw());
    }

    #[test]
    fn no_two_bars_look_the_same_up_to_32() {
        let names: Vec<String> = (0..32).map(|i| format!("bar {i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let canvas = bars(&names, &LONG).draw();
        check(&canvas);
        let bar = |shape: &Shape| match shape {
            Shape::Bar { from, to, colour } => Some((from.x, to.x - from.x, *colour)),
            _ => None,
        };
        let bars: Vec<(f64, f64, &str)> = canvas.shapes.iter().filter_map(bar).collect();
        // 19 times 16 plain ones, and as many hollow ones of two parts.
        assert_eq!(bars.len(), 19 * (16 + 2 * 16));
        let hollow: Vec<_> = bars.windows(2).filter(|pair| pair[1].2 == "#ffffff").collect();
        assert_eq!(hollow.len(), 19 * 16);
        // An outline of one on each side, and more than one within.
        assert!(hollow.iter().all(|pair| (pair[1].0 - pair[0].0 - 1.0).abs() < 1e-9 && pair[1].1 > 1.0));
        let plain: Vec<_> = bars[..16].iter().map(|bar| bar.2).collect();
        assert_eq!(plain, hollow[..16].iter().map(|pair| pair[0].2).collect::<Vec<_>>());
    }
}
