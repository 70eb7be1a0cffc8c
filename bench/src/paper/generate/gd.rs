//! GD: gradient descent, the benchmark that its authors wrote themselves.
//!
//! Its rows leave little choice. Two thirds of the words have a zero low half (FPC pattern 7: 66 %), hardly ever
//! share their upper half with another of their line (C-Pack+Z: 63 % new), 4 % repeat one and under 1 % are zero:
//! whole numbers from 0 to 127 as float32. The other third are lines of 16 near neighbours (BDI: 29 % in
//! 1-byte deltas, 4 % in 2-byte deltas; C-Pack+Z: 28 % three-byte matches): `float32(i)` for i < 2²², of
//! which ⅞ have 1-byte deltas. 2²² floats are 262,144 lines, three quarters of them remote are the 198k
//! writes, and the reads are five times that. So: 2²² parameters, read and written once, and the gradients
//! of four mini-batches, read to be averaged.

use mgcomp_codecs::line::Line;

use super::fabric::{Remote, line, random};

const SEED: u64 = 3;
const PARAMETERS: u64 = 1 << 22;
const BATCHES: u64 = 4;
const WAVEFRONT: u64 = 64;
/// Wavefronts in a workgroup of 256.
const WORKGROUP: u64 = 4;
/// Wavefronts until the GPU and the owner of their page come again together.
const PERIOD: u64 = 64;
/// The smallest share that has them all.
pub(super) const LEAST_SHARE: f64 = (PERIOD * WAVEFRONT) as f64 / PARAMETERS as f64;
const GRADIENTS: usize = 128;
/// Table V's reads less those of the arrays.
const LAUNCH_LINES: u64 = 990_000 - (1 + BATCHES) * PARAMETERS / 16 * 3 / 4;

pub(super) fn generate(remote: &mut Remote<'_>) {
    remote.launch(LAUNCH_LINES / 2);
    for wavefronts in remote.steps(PARAMETERS / WAVEFRONT, PERIOD) {
        for batch in 0..BATCHES {
            each_line(&wavefronts, |gpu, index| remote.read(gpu, index, || gradients(index, batch)));
        }
        each_line(&wavefronts, |gpu, index| remote.read(gpu, index, || parameters(index)));
        each_line(&wavefronts, |gpu, index| remote.write(gpu, index, || parameters(index)));
    }
    remote.launch(LAUNCH_LINES - LAUNCH_LINES / 2);
}

fn each_line(wavefronts: &[u64], mut touch: impl FnMut(u8, u64)) {
    for &wavefront in wavefronts {
        for index in wavefront * WAVEFRONT / 16..(wavefront + 1) * WAVEFRONT / 16 {
            touch(Remote::gpu(wavefront / WORKGROUP), index);
        }
    }
}

fn gradients(index: u64, batch: u64) -> Line {
    let mut random = random(SEED, index * BATCHES + batch);
    line(|_| (random.below(GRADIENTS) as f32).to_bits())
}

fn parameters(index: u64) -> Line {
    line(|i| ((16 * index + i as u64) as f32).to_bits())
}
