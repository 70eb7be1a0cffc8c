//! Filling a buffer of any size from a sample.

/// How many elements further into the sample each tile starts: a prime far from any power of two, so that
/// equal values fall on other places of chunks and pages in every tile.
const STEP: usize = 1_000_003;

/// Fills `to` with rotations of `sample`, which holds elements of `width` bytes: tile k holds the whole sample
/// from element k · STEP on, wrapped around at its end.
///
/// Returns the length of a tile.
pub(crate) fn tile(sample: &[u8], width: usize, to: &mut [u8]) -> usize {
    // Without its tail, so that elements stay aligned in the next tile. A tail alone is kept.
    let whole = sample.len() - sample.len() % width;
    let sample = if whole == 0 { sample } else { &sample[..whole] };
    let elements = (sample.len() / width).max(1);
    for (index, tile) in to.chunks_mut(sample.len()).enumerate() {
        let (front, back) = sample.split_at(index * STEP % elements * width);
        let (head, rest) = tile.split_at_mut(back.len().min(tile.len()));
        head.copy_from_slice(&back[..head.len()]);
        rest.copy_from_slice(&front[..rest.len()]);
    }
    sample.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_rotations() {
        // 1 000 003 mod 4 = 3: tiles start at elements 0, 3, 2.
        let sample = [10, 11, 20, 21, 30, 31, 40, 41, 99];
        let mut to = [0; 21];
        assert_eq!(tile(&sample, 2, &mut to), 8);
        assert_eq!(to[..8], [10, 11, 20, 21, 30, 31, 40, 41]);
        assert_eq!(to[8..16], [40, 41, 10, 11, 20, 21, 30, 31]);
        assert_eq!(to[16..], [30, 31, 40, 41, 10]);
    }

    #[test]
    fn short_buffers_get_the_start() {
        let mut to = [0; 3];
        assert_eq!(tile(&[1, 2, 3, 4], 4, &mut to), 4);
        assert_eq!(to, [1, 2, 3]);
    }

    #[test]
    fn less_than_an_element_is_repeated() {
        let mut to = [0; 5];
        assert_eq!(tile(&[1, 2], 8, &mut to), 2);
        assert_eq!(to, [1, 2, 1, 2, 1]);
    }
}
