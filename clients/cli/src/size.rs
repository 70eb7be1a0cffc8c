//! Lengths as people write and read them.

use std::str::FromStr;

/// The longest that can be asked for.
const MAX_BYTES: usize = 16 << 30;

/// A length: bytes, or with a binary suffix as in `64K`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) usize);

/// A text that is no length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size from 1 to 16G, such as 8, 64K or 1M")]
pub(crate) struct BadSize(String);

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

/// `bytes` in the largest binary unit that divides it.
pub(crate) fn shown(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
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
    fn lengths_are_shown_in_whole_units() {
        let texts = [0, 8, 1024, 1536, 3 << 20, 1 << 30, 1 << 40].map(shown);
        assert_eq!(texts, ["0 B", "8 B", "1 KiB", "1536 B", "3 MiB", "1 GiB", "1 TiB"]);
    }
}
