//! How long the buffers are.

use std::str::FromStr;

/// The longest buffer that can be asked for.
const MAX_BYTES: usize = 16 << 30;

/// A length: bytes, or with a binary suffix as in `64K`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(pub(super) usize);

/// A text that is no length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size from 1 to 16G, such as 8, 64K or 1M")]
pub(super) struct BadSize(String);

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let bad = || BadSize(text.to_owned());
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let shift = match &text[digits.len()..] {
            "" => 0,
            "K" | "KiB" => 10,
            "M" | "MiB" => 20,
            "G" | "GiB" => 30,
            _ => return Err(bad()),
        };
        if digits.starts_with('+') {
            return Err(bad());
        }
        let number: usize = digits.parse().map_err(|_| bad())?;
        let bytes = number.checked_mul(1 << shift).ok_or_else(bad)?;
        if (1..=MAX_BYTES).contains(&bytes) { Ok(Self(bytes)) } else { Err(bad()) }
    }
}

/// The lengths to measure: from `min` by `factor` to `max`, each rounded down to a whole number of `unit` bytes, and
/// none of them twice. The shortest is one unit.
pub(super) fn sizes(min: Size, max: Size, factor: u32, unit: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut size = Some(min.0);
    while let Some(bytes) = size.filter(|&bytes| bytes <= max.0) {
        sizes.push((bytes / unit * unit).max(unit));
        size = bytes.checked_mul(factor as usize);
    }
    sizes.dedup();
    sizes
}

/// `bytes` in the largest binary unit that divides it.
pub(super) fn shown(bytes: usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    fits.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_suffixes() {
        for (text, bytes) in [("8", 8), ("64K", 65_536), ("1MiB", 1 << 20), ("16G", 16 << 30)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in
            ["", "0", "K", "-1", "+1", "1k", "1.5M", "1KK", "17G", "99999999999999999999", " 1", "1 ", "1é"]
        {
            assert_eq!(text.parse::<Size>(), Err(BadSize(text.into())), "{text}");
        }
    }

    #[test]
    fn steps_are_whole_units_and_differ() {
        assert_eq!(sizes(Size(8), Size(64), 2, 4), [8, 16, 32, 64]);
        // Three ranks of four bytes: 8 is less than a unit, 16 is one and a third.
        assert_eq!(sizes(Size(8), Size(64), 2, 12), [12, 24, 60]);
        assert!(sizes(Size(100), Size(99), 2, 1).is_empty());
        assert_eq!(sizes(Size(1), Size(1000), 10, 1), [1, 10, 100, 1000]);
    }

    #[test]
    fn lengths_are_shown_in_whole_units() {
        let texts = [0, 8, 1024, 1536, 3 << 20, 1 << 30].map(shown);
        assert_eq!(texts, ["0 B", "8 B", "1 KiB", "1536 B", "3 MiB", "1 GiB"]);
    }
}
