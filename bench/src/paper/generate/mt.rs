//! MT: the transpose of 8192 × 8192 numbers.
//!
//! The pattern shares of Table VI (FPC: 83 % 8-bit values, 15 % 4-bit values, 1 to 2 % zeros) are those of
//! uniform random integers from 0 to about 47 in 32 bits; entropy and ratios fit best with 0 to 49. A workgroup reads
//! a block of 16 × 16, line by line, and writes it turned round. Each line is read once and written once, three of four
//! by another GPU: 3,145,728 reads and as many writes. The few that are missing are launches.

use super::fabric::{Remote, line, random};

const SEED: u64 = 2;
const SIDE: u64 = 8192;
/// Lines in a row, and blocks along a side.
const BLOCKS: u64 = SIDE / 16;
/// The smallest share that has a block of each column: which GPU turns it, and which has its lines, depends on that.
pub(super) const LEAST_SHARE: f64 = 1.0 / BLOCKS as f64;
const VALUES: usize = 50;
const LAUNCH_LINES: u64 = 3_146_000 - 3_145_728;

pub(super) fn generate(remote: &mut Remote<'_>) {
    remote.launch(LAUNCH_LINES);
    for block in remote.pick(BLOCKS * BLOCKS, BLOCKS) {
        let (down, across) = (block / BLOCKS, block % BLOCKS);
        let gpu = Remote::gpu(across);
        for row in 16 * down..16 * (down + 1) {
            remote.read(gpu, row * BLOCKS + across, || line(|i| value(row, 16 * across + i as u64)));
        }
        for column in 16 * across..16 * (across + 1) {
            remote.write(gpu, column * BLOCKS + down, || line(|i| value(16 * down + i as u64, column)));
        }
    }
}

fn value(row: u64, column: u64) -> u32 {
    random(SEED, row * SIDE + column).below(VALUES) as u32
}
