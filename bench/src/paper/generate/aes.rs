//! AES: encryption of 4 MiB of random bytes, in place.
//!
//! 65,536 lines, three of four remote, are the 49k writes of Table V; its entropy is that of random bytes. Its 3522k
//! reads are 72 for each of those lines, so lines are read anew in every round. One read in 20 is of kernel
//! arguments: the zero words of Table VI (C-Pack+Z: 4 %), which are all that the codecs gain.

use mgcomp_codecs::line::Line;

use super::fabric::{Remote, line, random};

const SEED: u64 = 4;
const LINES: u64 = (4 << 20) / 64;
/// Lines of a workgroup: one wavefront, 64 blocks of 16 bytes.
const WAVEFRONT_LINES: u64 = 16;
/// Workgroups until the GPU and the owner of its page come again together.
const PERIOD: u64 = 16;
/// The smallest share that has them all.
pub(super) const LEAST_SHARE: f64 = PERIOD as f64 / (LINES / WAVEFRONT_LINES) as f64;
/// How often each line is read.
const READS: u64 = 68;
/// Table V's reads less those of the data.
const LAUNCH_LINES: u64 = 3_522_000 - READS * LINES * 3 / 4;

pub(super) fn generate(remote: &mut Remote<'_>) {
    let wavefronts = LINES / WAVEFRONT_LINES;
    // Launches of each wavefront, so that they add up.
    let launches = |wavefront: u64| wavefront * LAUNCH_LINES / wavefronts;
    let lines = |wavefront: u64| wavefront * WAVEFRONT_LINES..(wavefront + 1) * WAVEFRONT_LINES;
    for wavefronts in remote.steps(wavefronts, PERIOD) {
        for &wavefront in &wavefronts {
            (launches(wavefront)..launches(wavefront + 1)).for_each(|_| remote.launch_line());
        }
        for _ in 0..READS {
            for &wavefront in &wavefronts {
                for index in lines(wavefront) {
                    remote.read(Remote::gpu(wavefront), index, || noise(index));
                }
            }
        }
        for wavefront in wavefronts {
            for index in lines(wavefront) {
                remote.write(Remote::gpu(wavefront), index, || noise(LINES + index));
            }
        }
    }
}

fn noise(number: u64) -> Line {
    let mut random = random(SEED, number);
    line(|_| random.bits() as u32)
}
