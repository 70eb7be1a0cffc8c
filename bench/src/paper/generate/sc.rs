//! SC: convolution of an image of 1024 × 1024 with a mask of 3 × 3.
//!
//! Pixel i is `uint32(i)`, and the mask `float32(0)` to `float32(8)`. Images have a margin of a pixel on each side,
//! so rows are 1026 wide and hardly any load is aligned. 65,536 output lines, three of four remote, are the 49k
//! writes of Table V. Its 5464k reads are those of nine channels, three images in red, green and blue: for each
//! channel a wavefront of 64 pixels loads nine times 5 lines, a line of the mask, and the sums so far, 4 lines,
//! which start as zeros. Such sums are one line in twelve, and explain why Table VI has 8 % BDI lines with 2-byte
//! deltas and 6 % words of which C-Pack+Z matches half, which pixels alone never have: neighbours differ by 36
//! for each channel.

use mgcomp_codecs::line::Line;

use super::fabric::{PAGE_LINES, Remote, line};

const SIDE: u64 = 1024;
const PADDED: u64 = SIDE + 2;
const CHANNELS: u64 = 9;
/// Pixels of the mask.
const TAPS: u64 = 9;
const WAVEFRONT: u64 = 64;
/// Wavefronts in a workgroup of 256.
const WORKGROUP: u64 = 4;
/// Wavefronts until the GPU and the owner of their page come again together.
const PERIOD: u64 = 64;
/// The smallest share that has them all.
pub(super) const LEAST_SHARE: f64 = (PERIOD * WAVEFRONT) as f64 / (SIDE * SIDE) as f64;
/// Table V's reads less those of pixels, masks and sums, spread over the channels.
const LAUNCH_LINES: u64 = 17_353;

pub(super) fn generate(remote: &mut Remote<'_>) {
    for channel in 0..CHANNELS {
        remote.launch(LAUNCH_LINES / CHANNELS);
        for wavefronts in remote.steps(SIDE * SIDE / WAVEFRONT, PERIOD) {
            for tap in 0..TAPS {
                wavefronts.iter().for_each(|&wavefront| load(remote, wavefront, tap));
            }
            for wavefront in wavefronts {
                let gpu = Remote::gpu(wavefront / WORKGROUP);
                remote.read(gpu, channel * PAGE_LINES, mask);
                let outputs = wavefront * WAVEFRONT / 16..(wavefront + 1) * WAVEFRONT / 16;
                outputs.clone().for_each(|index| remote.read(gpu, index, || sums(index, channel)));
                if channel + 1 == CHANNELS {
                    outputs.for_each(|index| remote.write(gpu, index, || sums(index, CHANNELS)));
                }
            }
        }
    }
}

/// What a wavefront loads for one tap.
fn load(remote: &mut Remote<'_>, wavefront: u64, tap: u64) {
    let first = padded(wavefront * WAVEFRONT, tap);
    for index in first / 16..=(first + WAVEFRONT - 1) / 16 {
        remote.read(Remote::gpu(wavefront / WORKGROUP), index, || line(|i| (16 * index) as u32 + i as u32));
    }
}

/// The masks of the channels are a page apart.
fn mask() -> Line {
    line(|i| if i < TAPS as usize { (i as f32).to_bits() } else { 0 })
}

/// Where in the padded image the pixel under a tap is.
const fn padded(output: u64, tap: u64) -> u64 {
    (output / SIDE + tap / 3) * PADDED + output % SIDE + tap % 3
}

/// 16 output pixels after so many channels.
fn sums(index: u64, channels: u64) -> Line {
    line(|i| {
        let sum: u64 = (0..TAPS).map(|tap| tap * padded(16 * index + i as u64, tap)).sum();
        (channels * sum) as u32
    })
}
