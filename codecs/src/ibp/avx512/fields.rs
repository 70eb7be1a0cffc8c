//! Tables of the fields that granules are taken apart into and put together from.

use crate::ibp::plan::{Fields, all};
use crate::ibp::portable::runs;

/// Adds the tables of the fields that bring the kept bits of granules together, and those of the fields that bring
/// them back.
pub(in crate::ibp) fn add_tables(granule: usize, masks: &[u64], tables: &mut Vec<Vec<u8>>) -> [Fields; 2] {
    let keeps = || masks.iter().map(|mask| !mask & all(granule));
    let gathers = field_tables(granule, keeps().map(gather_steps), &[1, 2, 3, 4, 8]);
    let scatters = field_tables(granule, keeps().map(scatter_steps), &[1, 2, 3, 4]);
    [gathers, scatters].map(|added| {
        let fields = Fields { first: tables.len(), count: added.len() / 2 };
        tables.extend(added);
        fields
    })
}

/// A stretch of bits that moves from one place in a granule to another, and does not leave a byte there.
#[derive(Clone, Copy)]
struct Step {
    from: u32,
    to: u32,
    len: u32,
}

/// How the ones of `keep` move together.
fn gather_steps(keep: u64) -> Vec<Step> {
    let (mut steps, mut count) = (Vec::new(), 0);
    for (start, len) in runs(keep) {
        let mut done = 0;
        while done < len {
            let to = count + done;
            let piece = (8 - to % 8).min(len - done);
            steps.push(Step { from: start + done, to, len: piece });
            done += piece;
        }
        count += len;
    }
    steps
}

/// How bits that are together move to the ones of `keep`.
fn scatter_steps(keep: u64) -> Vec<Step> {
    let (mut steps, mut count) = (Vec::new(), 0);
    for byte in 0..8 {
        for (start, len) in runs(keep >> (8 * byte) & 0xff) {
            steps.push(Step { from: count, to: 8 * byte + start, len });
            count += len;
        }
    }
    steps
}

/// The tables of as few fields as will do for these steps of each granule, out of the numbers `allowed`: the n-th
/// step into a byte goes to the n-th field.
fn field_tables(granule: usize, steps: impl Iterator<Item = Vec<Step>>, allowed: &[usize]) -> Vec<Vec<u8>> {
    let steps: Vec<Vec<Step>> = steps.collect();
    let len = granule * steps.len();
    let mut tables: Vec<Vec<u8>> = Vec::new();
    let mut used = vec![0; len];
    for (i, step) in steps.iter().enumerate().flat_map(|(i, steps)| steps.iter().map(move |step| (i, step))) {
        let byte = granule * i + (step.to / 8) as usize;
        if 2 * used[byte] == tables.len() {
            tables.extend([vec![0; len], vec![0; len]]);
        }
        tables[2 * used[byte]][byte] = (step.from.wrapping_sub(step.to % 8) % 64) as u8;
        tables[2 * used[byte] + 1][byte] = ((0xff >> (8 - step.len)) << (step.to % 8)) as u8;
        used[byte] += 1;
    }
    let needed = tables.len() / 2;
    let count = allowed.iter().copied().find(|&count| count >= needed).unwrap_or(needed);
    tables.resize(2 * count, vec![0; len]);
    tables
}
