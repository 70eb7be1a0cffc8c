//! From values to pixels.

use super::canvas::{Anchor, Canvas, Point, Stroke};
use super::{FAINT, INK, shown};

/// An axis from one pixel to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    scale: Scale,
    /// Values at both ends.
    values: (f64, f64),
    pixels: (f64, f64),
}

#[derive(Clone, Copy, Debug)]
enum Scale {
    Linear { step: f64 },
    Log,
}

impl Axis {
    /// A logarithmic axis, from one of 1, 2, 5, 10, … to another, around those of `values` that are above 0: others have no place on
    /// it, and are drawn at its low end.
    pub(super) fn log(values: impl Iterator<Item = f64>, pixels: (f64, f64)) -> Self {
        let (low, high) = range(values.filter(|value| value.is_normal() && *value > 0.0));
        // None at all: any axis will do.
        let (low, high) = if low <= high { (round_down(low), round_up(high)) } else { (1.0, 10.0) };
        let high = if low < high { high } else { 10.0 * low };
        Self { scale: Scale::Log, values: (low, high), pixels }
    }

    /// An even axis in round steps around `values` and `start`.
    pub(super) fn linear(values: impl Iterator<Item = f64>, start: f64, pixels: (f64, f64)) -> Self {
        let (low, high) = range(values.chain([start]));
        let step = round_up((high - low).max(start / 2.0) / 8.0);
        let values = ((low / step).floor() * step, (high / step).ceil() * step);
        let values = if values.0 < values.1 { values } else { (values.0, values.0 + step) };
        Self { scale: Scale::Linear { step }, values, pixels }
    }

    /// Where `value` lies.
    pub(super) fn pixel(&self, value: f64) -> f64 {
        let (low, high) = self.values;
        let part = match self.scale {
            Scale::Linear { .. } => (value - low) / (high - low),
            Scale::Log => (value.max(low) / low).ln() / (high / low).ln(),
        };
        self.pixels.0 + part * (self.pixels.1 - self.pixels.0)
    }

    /// The values to mark.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.values;
        match self.scale {
            Scale::Linear { step } => {
                let count = ((high - low) / step).round() as usize;
                (0..=count).map(|i| low + i as f64 * step).collect()
            }
            Scale::Log => {
                let mut ticks = vec![low];
                while let Some(&last) = ticks.last().filter(|&&last| last < high * 0.999) {
                    ticks.push(round_up(last * 1.001));
                }
                ticks
            }
        }
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)))
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `value`.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| value <= digit * power * (1.0 + 1e-9));
    digit.unwrap_or(10.0) * power
}

fn round_down(value: f64) -> f64 {
    let power = 10f64.powf((value * (1.0 + 1e-9)).log10().floor());
    let digit = [5.0, 2.0].into_iter().find(|digit| value >= digit * power * (1.0 - 1e-9));
    digit.unwrap_or(1.0) * power
}

/// Where in a picture the values are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// Lines and numbers of both axes, and what they count: that of `x` below, that of `y` above.
    pub(super) fn draw(&self, canvas: &mut Canvas, (x, below): (&Axis, &str), (y, above): (&Axis, &str)) {
        let Self { left, right, top, bottom } = *self;
        for tick in x.ticks() {
            let at = x.pixel(tick);
            canvas.line(Point { x: at, y: top }, Point { x: at, y: bottom }, FAINT, Stroke::Solid);
            canvas.text(Point { x: at, y: bottom + 18.0 }, Anchor::Middle, INK, &shown(tick));
        }
        for tick in y.ticks() {
            let at = y.pixel(tick);
            canvas.line(Point { x: left, y: at }, Point { x: right, y: at }, FAINT, Stroke::Solid);
            canvas.text(Point { x: left - 8.0, y: at + 4.0 }, Anchor::End, INK, &shown(tick));
        }
        let middle = Point { x: f64::midpoint(left, right), y: bottom + 40.0 };
        canvas.text(middle, Anchor::Middle, INK, below);
        canvas.text(Point { x: 8.0, y: top - 12.0 }, Anchor::Start, INK, above);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
    }

    /// What takes no time, or moves nothing, is 0: it has no logarithm.
    #[test]
    fn what_has_no_place_on_a_logarithmic_axis_is_at_its_low_end() {
        let axis = Axis::log([0.0, 4.0, f64::NAN, f64::INFINITY, -1.0].into_iter(), (10.0, 20.0));
        same(&axis.ticks(), &[2.0, 5.0]);
        same(
            &[axis.pixel(0.0), axis.pixel(-1.0), axis.pixel(2.0), axis.pixel(5.0)],
            &[10.0, 10.0, 10.0, 20.0],
        );
        let nothing = Axis::log([0.0].into_iter(), (10.0, 20.0));
        same(&nothing.ticks(), &[1.0, 2.0, 5.0, 10.0]);
        same(&[nothing.pixel(0.0)], &[10.0]);
    }

    #[test]
    fn values_are_rounded_outwards() {
        for (value, down, up) in [(0.3, 0.2, 0.5), (1.0, 1.0, 1.0), (7.0, 5.0, 10.0), (20.0, 20.0, 20.0)] {
            same(&[round_down(value), round_up(value)], &[down, up]);
        }
    }

    #[test]
    fn decades_are_as_long_as_each_other() {
        let axis = Axis::log([0.2, 18.0].into_iter(), (0.0, 200.0));
        same(&axis.ticks(), &[0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        same(&[0.2, 2.0, 20.0].map(|value| axis.pixel(value)), &[0.0, 100.0, 200.0]);
        let single = Axis::log([2.0].into_iter(), (0.0, 10.0));
        same(&single.ticks(), &[2.0, 5.0, 10.0, 20.0]);
    }

    #[test]
    fn even_axes_have_round_steps() {
        // (4.1 − 1) / 8 is 0.39: steps of 0.5.
        let axis = Axis::linear([1.2, 4.1].into_iter(), 1.0, (100.0, 30.0));
        same(&axis.ticks(), &[1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]);
        same(&[axis.pixel(1.0), axis.pixel(2.75), axis.pixel(4.5)], &[100.0, 65.0, 30.0]);
        assert_eq!(Axis::linear([1.0].into_iter(), 1.0, (0.0, 1.0)).ticks(), [1.0, 1.1]);
    }
}
