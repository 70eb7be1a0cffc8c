//! How series differ, each from all others up to [`DISTINCT`].

use super::canvas::Stroke;

/// Apart from each other on white, for colour-blind readers as well as it goes; none is like the greys of the frame.
const COLOURS: [&str; 16] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b59b00", "#56b4e9", "#8c3b00", "#6a3d9a", "#e31a1c",
    "#1b7837", "#0000ff", "#ee00ff", "#3300aa", "#aabb77", "#220033", "#880055",
];
/// So many series look different: each colour serves for two.
const DISTINCT: usize = 2 * COLOURS.len();

/// The look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Look {
    pub(super) colour: &'static str,
    /// Another series has the same colour: this one has interrupted lines, square dots, hollow bars.
    pub(super) is_second: bool,
}

impl Look {
    /// That of series `number`.
    pub(super) fn of(number: usize) -> Self {
        let number = number % DISTINCT;
        Self { colour: COLOURS[number % COLOURS.len()], is_second: number >= COLOURS.len() }
    }

    /// A line that tells both looks of a colour apart, whether or not its caller wants dashes.
    pub(super) const fn stroke(self, is_dashed: bool) -> Stroke {
        match (self.is_second, is_dashed) {
            (false, false) => Stroke::Solid,
            (false, true) => Stroke::Dashed,
            (true, false) => Stroke::DashDotted,
            (true, true) => Stroke::Dotted,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_of_the_first_32_look_the_same() {
        let looks: HashSet<Look> = (0..32).map(Look::of).collect();
        assert_eq!(looks.len(), 32);
        // Dashed ones among the others, too.
        let both =
            looks.iter().flat_map(|look| [false, true].map(|dashed| (look.colour, look.stroke(dashed))));
        assert_eq!(both.collect::<HashSet<_>>().len(), 64);
        assert_eq!(Look::of(0), Look { colour: "#0072b2", is_second: false });
        assert_eq!(Look::of(16), Look { colour: "#0072b2", is_second: true });
    }

    #[test]
    fn colours_are_apart_from_each_other_and_from_white() {
        let part = |colour: &str, at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap());
        let apart =
            |a: &str, b: &str| [1, 3, 5].map(|at| (part(a, at) - part(b, at)).abs()).iter().sum::<f64>();
        for (i, colour) in COLOURS.iter().enumerate() {
            // White is 765 above black, and the nearest two colours of the first ten are 110 apart.
            assert!(apart(colour, "#ffffff") > 200.0, "{colour}");
            assert!(COLOURS[..i].iter().all(|other| apart(colour, other) > 90.0), "{colour}");
        }
    }
}
