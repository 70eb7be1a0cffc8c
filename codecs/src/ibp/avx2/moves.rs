//! Tables of how bits move: run by run or, where a granule has many runs, in stages.

use crate::ibp::plan::{Plan, all};
use crate::ibp::portable::runs;

/// Number of the table of what granules save.
pub(super) const SAVINGS: usize = Plan::OTHERS;
/// Number of the first table of moves.
pub(super) const MOVES: usize = SAVINGS + 1;
/// Bits move by up to 1, 2, 4, 8, 16 and 32 places, and so by up to 63 in all.
pub(super) const STAGES: usize = 6;

/// Numbers of runs that there is code for. More take longer than the stages.
const RUNS: [usize; 5] = [1, 2, 3, 4, 6];

/// Adds the tables for granules with these masks, whose entries are as long as a granule: what it saves, and then
/// either two per run of kept bits, namely its bits and how far they lie above their place in the code, or one per
/// stage, the bits that move. Returns how many runs there are.
pub(in crate::ibp) fn add_tables(granule: usize, masks: &[u64], tables: &mut Vec<Vec<u8>>) -> Option<usize> {
    let mut add = |entry: &dyn Fn(u64) -> u64| {
        let entries = masks.iter().map(|&mask| entry(mask).to_le_bytes());
        tables.push(entries.flat_map(|entry| entry.into_iter().take(granule)).collect());
    };
    add(&|mask| u64::from(mask.count_ones()));
    let keep = |mask: u64| !mask & all(granule);
    let most = masks.iter().map(|&mask| runs(keep(mask)).count()).fold(0, usize::max);
    let count = RUNS.into_iter().find(|&count| count >= most);
    match count {
        Some(count) => (0..count).for_each(|i| {
            add(&|mask| run(keep(mask), i).0);
            add(&|mask| run(keep(mask), i).1);
        }),
        None => (0..STAGES).for_each(|stage| add(&|mask| movers(keep(mask), stage))),
    }
    count
}

/// The bits of run number `i` of `keep`, and how many zeros are below; nothing if there are fewer runs.
fn run(keep: u64, i: usize) -> (u64, u64) {
    let mut count = 0;
    for (j, (start, len)) in runs(keep).enumerate() {
        if j == i {
            return (u64::MAX >> (64 - len) << start, u64::from(start - count));
        }
        count += len;
    }
    (0, 0)
}

/// Where the ones of `keep` are before a stage that the stage moves on their way together. A bit has as far to go
/// as there are zeros below it, and stages go from the shortest to the longest; no two bits ever meet, for the
/// higher one has as far to go or farther.
fn movers(keep: u64, stage: usize) -> u64 {
    let mut movers = 0;
    let mut left = keep;
    let mut rank = 0;
    while left != 0 {
        let place = left.trailing_zeros();
        let distance = place - rank;
        let gone = distance % (1 << stage);
        movers |= u64::from(distance >> stage & 1) << (place - gone);
        rank += 1;
        left &= left - 1;
    }
    movers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_movers_by_hand() {
        // Runs of 1, 2 and 1 bits, with 2, 3 and 4 zeros below.
        let keep = 0b1_0110_0100;
        let expected = [(0b100, 2), (0b110_0000, 4), (0b1_0000_0000, 5), (0, 0)];
        assert_eq!([0, 1, 2, 3].map(|i| run(keep, i)), expected);
        // The last run alone has an odd distance; then the first has 2, all others 4.
        let expected = [0b1_0000_0000, 0b100, 0b1110_0000, 0];
        assert_eq!([0, 1, 2, 3].map(|stage| movers(keep, stage)), expected);
    }

    #[test]
    fn few_runs_have_two_tables_each_and_many_share_the_stages() {
        let count = |mask: u64| {
            let mut tables = Vec::new();
            (add_tables(8, &[mask, u64::MAX], &mut tables), tables.len())
        };
        assert_eq!(count(u64::MAX), (Some(1), 3));
        assert_eq!(count(0), (Some(1), 3));
        assert_eq!(count(0x00ff_ff00_ffff_0fff), (Some(3), 7));
        assert_eq!(count(0x5555), (None, 7));
    }
}
