//! KM: k-means over sparse features.
//!
//! Table VI has 86 % zero words, one in eight that FPC does not match, and half of those new to C-Pack+Z. In
//! the paper that makes 56 % of the lines incompressible for BDI, whose base is the first element of the line: mostly
//! zero, and so no base at all. The smallest element as base does better on such lines, 2.5 instead of
//! 1.37. To have the ratios of Table V, a line must hold two unlike values, which no base of any width
//! brings together, and few other bytes: features in double precision that are whole numbers, and whose low words so
//! are zero. Two counts in a line, and in many lines one of them again, as the features of
//! connection records often repeat a count. That takes 30 % zero lines (Table VI: 18 %).

use mgcomp_codecs::line::Line;

use super::fabric::{Remote, line, random};

const SEED: u64 = 6;
/// 203k writes are three quarters of these.
const LINES: u64 = 270_667;
/// 4129k reads are three quarters of these.
const READS: u64 = 5_505_333;
const GROUP: u64 = 16;
/// Groups until the GPU and the owner of the lines that it writes come again together, four times: those that it reads go on by a
/// little more than five pages each.
const PERIOD: u64 = 64;
/// The smallest share that has them all.
pub(super) const LEAST_SHARE: f64 = (PERIOD * GROUP) as f64 / LINES as f64;
/// Lines in a hundred that are zero.
const ZERO_PERCENT: usize = 30;
/// Lines in a hundred of the others that repeat a count.
const REPEAT_PERCENT: usize = 45;
/// Counts are below this.
const MAX_COUNT: usize = 1 << 16;

pub(super) fn generate(remote: &mut Remote<'_>) {
    let groups = LINES / GROUP;
    let reads = |group: u64| group * READS / groups;
    for group in remote.pick(groups, PERIOD) {
        let gpu = Remote::gpu(group);
        for number in reads(group)..reads(group + 1) {
            remote.read(gpu, number, || features(number));
        }
        for number in group * LINES / groups..(group + 1) * LINES / groups {
            remote.write(gpu, number, || features(READS + number));
        }
    }
}

fn features(number: u64) -> Line {
    let mut random = random(SEED, number);
    if random.percent(ZERO_PERCENT) {
        return [0; 64];
    }
    let mut doubles = [0u64; 8];
    let first = random.below(8);
    let second = (first + 1 + random.below(3)) % 8;
    doubles[first] = count(&mut random);
    doubles[second] = count(&mut random);
    if random.percent(REPEAT_PERCENT) {
        doubles[(first + 4 + random.below(4)) % 8] = doubles[first];
    }
    line(|i| (doubles[i / 2] >> (32 * (i % 2))) as u32)
}

/// A whole number in double precision.
fn count(random: &mut crate::data::Random) -> u64 {
    ((64 + random.below(MAX_COUNT - 64)) as f64).to_bits()
}
