//! What GPUs fetch when a kernel starts: kernel dimensions and input pointers, as the paper says.

use mgcomp_codecs::line::Line;

use super::fabric;

const SEED: u64 = 1;
/// One line in so many is empty.
const EMPTY: u64 = 10;

/// Line `number` of all launches: the arguments of a kernel, or zeros.
pub(super) fn line(number: u64) -> Line {
    if number % EMPTY == EMPTY - 1 {
        return [0; 64];
    }
    let mut random = fabric::random(SEED, number);
    // Three pointers to pages of some GPU, 64 bits each, then two sizes; the rest is zero.
    let mut words = [0u32; 16];
    for pair in words.as_chunks_mut::<2>().0.iter_mut().take(3) {
        *pair = [(random.bits() as u32) << 12, 1 + random.below(4) as u32];
    }
    words[6] = 1 << (10 + random.below(10));
    words[7] = 64 << random.below(3);
    fabric::line(|i| words[i])
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{bdi, fpc};

    use super::*;

    #[test]
    fn arguments_shrink_for_fpc_and_not_for_bdi() {
        // As the first phase of Figure 1c shows.
        for number in 0..9 {
            let line = line(number);
            assert!(fpc::line_bits(&line) < 256 && bdi::line_bits(&line) == 512, "{number}");
        }
        assert_eq!(line(9), [0; 64]);
    }
}
