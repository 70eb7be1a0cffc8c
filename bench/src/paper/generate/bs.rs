//! BS: bitonic sort of 131,072 keys.
//!
//! 215 passes (153, of which 62 are split in two) over 8,192 lines, three of four remote, are the 1,321k writes of
//! Table V, and as many reads; the rest of the reads are launches, about 70 for each pass. The payloads are not
//! what such a sort should move: 89 % of the lines are zero and four of five words of the others (Table VI). What
//! looks like that are 64-bit records with a random 32-bit key in the upper half, of which a pass touched up to three
//! in a line, and no other byte.

use mgcomp_codecs::line::Line;

use super::fabric::{Remote, line, random};

const SEED: u64 = 5;
const LINES: u64 = 131_072 / 16;
const PASSES: u64 = 215;
const WAVEFRONT_LINES: u64 = 4;
/// Wavefronts in a workgroup of 256.
const WORKGROUP: u64 = 4;
/// Wavefronts until the GPU and the owner of their page come again together.
const PERIOD: u64 = 64;
/// The smallest share that has them all.
pub(super) const LEAST_SHARE: f64 = PERIOD as f64 / (PASSES * LINES / WAVEFRONT_LINES) as f64;
const LAUNCH_LINES: u64 = 1_336_000 - PASSES * LINES * 3 / 4;
/// Lines in a thousand that are zero: 35 of 100 events of Table VI, where any other line is 16.
const ZERO_PERMILLE: usize = 908;
/// Keys in another line, less those that hit one place.
const KEYS: usize = 3;

pub(super) fn generate(remote: &mut Remote<'_>) {
    let wavefronts = LINES / WAVEFRONT_LINES;
    let launches = |number: u64| number * LAUNCH_LINES / (PASSES * wavefronts);
    for number in remote.pick(PASSES * wavefronts, PERIOD) {
        let wavefront = number % wavefronts;
        let gpu = Remote::gpu(wavefront / WORKGROUP);
        for _ in launches(number)..launches(number + 1) {
            remote.launch_line();
        }
        let lines = wavefront * WAVEFRONT_LINES..(wavefront + 1) * WAVEFRONT_LINES;
        for index in lines.clone() {
            remote.read(gpu, index, || keys(2 * (number * WAVEFRONT_LINES + index % WAVEFRONT_LINES)));
        }
        for index in lines {
            remote.write(gpu, index, || keys(2 * (number * WAVEFRONT_LINES + index % WAVEFRONT_LINES) + 1));
        }
    }
}

fn keys(number: u64) -> Line {
    let mut random = random(SEED, number);
    if random.below(1000) < ZERO_PERMILLE {
        return [0; 64];
    }
    let mut words = [0; 16];
    for _ in 0..KEYS {
        words[1 + 2 * random.below(8)] = random.bits() as u32;
    }
    line(|i| words[i])
}
