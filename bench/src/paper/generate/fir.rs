//! FIR: a filter of 16 taps over 2²¹ samples.
//!
//! Input is `float32(i)`, as in the program's public version; taps are `float32(k)`. A wavefront filters 64
//! samples and loads 64 inputs for each tap: 4 lines for tap 0, which is aligned, 5 for the others, 79 in all.
//! Three of four are remote: 1,941,504 reads for 98,304 writes, where Table V has 1945k and 98k. What is
//! missing are launches.

use mgcomp_codecs::line::Line;

use super::fabric::{Remote, line};

const SAMPLES: u64 = 1 << 21;
const TAPS: u64 = 16;
const WAVEFRONT: u64 = 64;
/// Wavefronts in a workgroup of 256.
const WORKGROUP: u64 = 4;
/// Wavefronts until the GPU and the owner of their page come again together.
const PERIOD: u64 = 64;
/// The smallest share that has them all.
pub(super) const LEAST_SHARE: f64 = (PERIOD * WAVEFRONT) as f64 / SAMPLES as f64;
/// Table V's reads less those of the samples.
const LAUNCH_LINES: u64 = 1_945_000 - 1_941_504;
/// Launch lines that come first; the others are code that is fetched again.
const FIRST_LINES: u64 = 256;

pub(super) fn generate(remote: &mut Remote<'_>) {
    remote.launch(FIRST_LINES);
    for wavefronts in remote.steps(SAMPLES / WAVEFRONT, PERIOD) {
        for tap in 0..TAPS {
            wavefronts.iter().for_each(|&wavefront| load(remote, wavefront, tap));
        }
        for wavefront in wavefronts {
            for index in wavefront * WAVEFRONT / 16..(wavefront + 1) * WAVEFRONT / 16 {
                remote.write(Remote::gpu(wavefront / WORKGROUP), index, || output(index));
            }
        }
    }
    remote.launch(LAUNCH_LINES - FIRST_LINES);
}

/// What a wavefront loads for one tap.
fn load(remote: &mut Remote<'_>, wavefront: u64, tap: u64) {
    // Samples before the first come from the filter's history, which each GPU has.
    let first = (wavefront * WAVEFRONT).saturating_sub(tap);
    let last = (wavefront + 1) * WAVEFRONT - 1 - tap;
    for index in first / 16..=last / 16 {
        remote.read(Remote::gpu(wavefront / WORKGROUP), index, || input(index));
    }
}

fn input(index: u64) -> Line {
    line(|i| sample((16 * index) as i64 + i as i64).to_bits())
}

fn sample(i: i64) -> f32 {
    i.max(0) as f32
}

/// The sum over the taps, in single precision and in the order of the taps.
fn output(index: u64) -> Line {
    line(|i| {
        let at = (16 * index) as i64 + i as i64;
        (0..TAPS as i64).fold(0.0f32, |sum, tap| sum + tap as f32 * sample(at - tap)).to_bits()
    })
}
