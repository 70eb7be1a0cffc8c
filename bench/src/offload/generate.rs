//! Activation maps by chance, of the densities and shapes that the paper tells of.

use mgcomp_codecs::Element;

use super::maps::Map;
use crate::data::Random;

/// Points of a channel's field along each side, between which it is smooth: zeros lie together.
const GRID: usize = 6;
/// Weight of what is not smooth.
const NOISE: f64 = 0.35;

/// An early layer, half of it zero; a middle one; a late one, sparser; a fully connected one.
pub(super) fn maps() -> Vec<Map> {
    [
        ("generated.conv0.f32", [4, 48, 55, 55], 0.50),
        ("generated.conv2.f32", [8, 128, 27, 27], 0.62),
        ("generated.conv4.f32", [16, 192, 13, 13], 0.75),
        ("generated.fc.f32", [64, 2048, 1, 1], 0.93),
    ]
    .into_iter()
    .enumerate()
    .map(|(seed, (label, dims, zeros))| map(label, dims, zeros, seed as u64))
    .collect()
}

/// Each channel has a bias of its own, and a field that is smooth but for some noise; what is below the threshold is zero.
fn map(label: &str, dims: [usize; 4], zeros: f64, seed: u64) -> Map {
    let [n, c, h, w] = dims;
    let mut random = Random::new(seed);
    let biases: Vec<f64> = (0..c).map(|_| 0.6 * random.normal()).collect();
    let mut values = Vec::with_capacity(n * c * h * w);
    for _ in 0..n {
        for bias in &biases {
            let grid: Vec<f64> = (0..GRID * GRID).map(|_| random.normal()).collect();
            for y in 0..h {
                for x in 0..w {
                    values.push(bias + field(&grid, (y, h), (x, w)) + NOISE * random.normal());
                }
            }
        }
    }
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    let threshold = sorted[(zeros * (sorted.len() - 1) as f64) as usize];
    let relu = |value: &f64| ((value - threshold).max(0.0) as f32).to_le_bytes();
    let nchw = values.iter().flat_map(relu).collect();
    Map { label: label.into(), element: Element::F32, dims, nchw, is_generated: true }
}

/// The grid between its points.
fn field(grid: &[f64], (y, h): (usize, usize), (x, w): (usize, usize)) -> f64 {
    let place = |at: usize, len: usize| {
        let exact = at as f64 / len as f64 * (GRID - 1) as f64;
        (exact as usize, exact.fract())
    };
    let ((row, down), (column, right)) = (place(y, h), place(x, w));
    let at = |row: usize, column: usize| grid[row * GRID + column];
    let between = |row| at(row, column) * (1.0 - right) + at(row, column + 1) * right;
    between(row) * (1.0 - down) + between(row + 1) * down
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_the_zeros_that_they_should() {
        let shares: Vec<f64> = maps().iter().map(Map::zero_share).collect();
        for (share, expected) in shares.iter().zip([0.50, 0.62, 0.75, 0.93]) {
            assert!((share - expected).abs() < 0.001, "{shares:?}");
        }
        let sizes = maps().iter().map(|map| map.nchw.len()).collect::<Vec<_>>();
        assert_eq!(
            sizes,
            maps().iter().map(|map| 4 * map.dims.iter().product::<usize>()).collect::<Vec<_>>()
        );
    }
}
