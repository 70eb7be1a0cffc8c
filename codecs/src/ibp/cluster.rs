//! Grouping tensors by the bits they have in common: k-means with Hamming distances.

use super::counts::{Counts, words};

/// Rounds of moving tensors to the nearest centre, at most.
const ROUNDS: usize = 10;

/// Splits `tensors` into at most `limit` groups, none of them empty, in an order that depends on the tensors
/// alone.
pub(super) fn clusters<'a>(tensor_len: usize, tensors: &[&'a [u8]], limit: usize) -> Vec<Vec<&'a [u8]>> {
    let mut groups = vec![tensors.to_vec()];
    let mut centres = vec![centre(tensor_len, tensors)];
    for _ in 1..limit {
        let Some(seed) = outlier(&centres, tensors) else { break };
        centres.push(words(seed).collect());
        for _ in 0..ROUNDS {
            groups = assign(&centres, tensors);
            let moved: Vec<_> = groups.iter().map(|group| centre(tensor_len, group)).collect();
            if moved == centres {
                break;
            }
            centres = moved;
        }
    }
    groups
}

/// The bits that most tensors have.
fn centre(tensor_len: usize, tensors: &[&[u8]]) -> Vec<u64> {
    let counts = Counts::of(tensor_len, tensors.iter().copied());
    let bits = (0..8 * tensor_len).map(|bit| counts.majority(bit));
    let mut centre = vec![0; tensor_len.div_ceil(8)];
    bits.enumerate().for_each(|(i, bit)| centre[i / 64] |= u64::from(bit) << (i % 64));
    centre
}

/// A tensor that is farther from its centre than most, but not the farthest, which may be like no other:
/// the last of the first 15 sixteenths. `None` if all tensors up to there equal a centre.
fn outlier<'a>(centres: &[Vec<u64>], tensors: &[&'a [u8]]) -> Option<&'a [u8]> {
    let mut distances: Vec<(u32, usize)> =
        tensors.iter().enumerate().map(|(i, tensor)| (nearest(centres, tensor).1, i)).collect();
    distances.sort_unstable();
    let (distance, index) = distances[(distances.len() - 1) * 15 / 16];
    (distance > 0).then(|| tensors[index])
}

/// The tensors nearest to each centre, without the centres that are nearest to none.
fn assign<'a>(centres: &[Vec<u64>], tensors: &[&'a [u8]]) -> Vec<Vec<&'a [u8]>> {
    let mut groups = vec![Vec::new(); centres.len()];
    for &tensor in tensors {
        groups[nearest(centres, tensor).0].push(tensor);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// Index of the nearest centre, the first of several, and its distance in bits.
fn nearest(centres: &[Vec<u64>], tensor: &[u8]) -> (usize, u32) {
    let distance = |centre: &Vec<u64>| -> u32 {
        centre.iter().zip(words(tensor)).map(|(a, b)| (a ^ b).count_ones()).sum()
    };
    let distances = centres.iter().map(distance).enumerate();
    distances.min_by_key(|&(_, distance)| distance).unwrap_or_default()
}
