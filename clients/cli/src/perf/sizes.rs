//! How long the buffers are.

use crate::size::Size;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_whole_units_and_differ() {
        assert_eq!(sizes(Size(8), Size(64), 2, 4), [8, 16, 32, 64]);
        // Three ranks of four bytes: 8 is less than a unit, 16 is one and a third.
        assert_eq!(sizes(Size(8), Size(64), 2, 12), [12, 24, 60]);
        assert!(sizes(Size(100), Size(99), 2, 1).is_empty());
        assert_eq!(sizes(Size(1), Size(1000), 10, 1), [1, 10, 100, 1000]);
    }
}
