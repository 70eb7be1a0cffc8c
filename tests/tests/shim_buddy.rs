//! The kernels that write and read entries in buddy memory: every byte of states, slots and places as the portable pool
//! leaves it, and what is damaged judged as that does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mgcomp_tests::data::Random;
use mgcomp_tests::shim::buddy::{PortableEntries, entries_of_all_states};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, Status, launch};
use mgcomp_transport::buddy::{BuddyError, Form, Target};

const ENTRY_LEN: u64 = 128;
/// Stands for all codes of entries that do not decode: where several things are wrong, each decoder finds another first.
const DAMAGED: u32 = u32::MAX;

/// A range by chance that is not empty; now and then all.
fn some_range(random: &mut Random, len: u64) -> Range<u64> {
    if random.percent(15) {
        return 0..len;
    }
    let start = random.below(len as usize) as u64;
    let most = if random.percent(30) { len - start } else { (len - start).min(600) };
    start..start + 1 + random.below(most as usize) as u64
}

fn some_launch(random: &mut Random, turn: usize) -> Launch {
    let dst_offset = [0, 0, 4, 1, 8, 15][random.below(6)];
    Launch { dst_offset, ..Launch::new(LaneOrder::ALL[turn % 3], 1 + random.below(3) as u32) }
}

/// What the pool has counted, in the order of the kernel's report.
fn counts(portable: &PortableEntries) -> [u64; 5] {
    let stats = portable.pool.allocation_stats(portable.allocation).unwrap();
    let of = stats.accesses;
    [of.reads, of.buddy_reads, of.writes, of.buddy_writes, stats.overflowing_entries]
}

fn since(before: [u64; 5], portable: &PortableEntries) -> [u64; 5] {
    let now = counts(portable);
    std::array::from_fn(|i| now[i].wrapping_sub(before[i]))
}

#[test]
fn memories_are_those_of_the_portable_pool() {
    let Some(shim) = Shim::or_skip("memories_are_those_of_the_portable_pool") else { return };
    let (mut random, mut states) = (Random::new(1), BTreeSet::new());
    for &target in Form::Bpc.targets() {
        for len in [1, 127, 128, 129, 256, 4095, 4096, 4097, 20_001] {
            let mut portable = PortableEntries::new(len, target);
            let mut entries = portable.copy();
            let mut plain = vec![0; len as usize];
            for turn in 0..if len < 4000 { 9 } else { 18 } {
                let (range, launch) = (some_range(&mut random, len), some_launch(&mut random, turn));
                let at = range.start as usize..range.end as usize;
                let what = format!("{target} {len} {range:?} {launch:?}");
                let before = counts(&portable);
                if turn % 3 != 2 {
                    let data = entries_of_all_states(&mut random, at.len());
                    let moved = shim.write_entries(&mut entries, range.clone(), &data, launch);
                    portable.pool.write(portable.allocation, range, &data).unwrap();
                    plain[at].copy_from_slice(&data);
                    assert_eq!(
                        (moved.status, moved.counts),
                        (Status::GOOD, since(before, &portable)),
                        "{what}"
                    );
                    assert!(entries.bytes() == portable.copy().bytes(), "{what}");
                } else {
                    let (moved, out) = shim.read_entries(&mut entries, range.clone(), launch);
                    assert!(out == plain[at], "{what}");
                    portable.pool.read(portable.allocation, range, &mut vec![0; out.len()]).unwrap();
                    assert_eq!(
                        (moved.status, moved.counts),
                        (Status::GOOD, since(before, &portable)),
                        "{what}"
                    );
                }
            }
            states.extend((0..len.div_ceil(ENTRY_LEN)).map(|entry| portable.state(entry as usize)));
        }
    }
    assert!(states.into_iter().eq(0..10), "not all states were seen");
}

/// The bytes that FORMAT.md shows.
#[test]
fn the_documented_entries() {
    let Some(shim) = Shim::or_skip("the_documented_entries") else { return };
    let portable = PortableEntries::new(384, Target::Sixteen);
    let mut entries = portable.copy();
    let words = (0..96_u32).map(|i| [0, i % 32, (i % 32) * (i % 32)][i as usize / 32]);
    let data: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let moved = shim.write_entries(&mut entries, 0..384, &data, Launch::new(LaneOrder::Fifo, 1));
    assert_eq!((moved.status, moved.counts), (Status::GOOD, [0, 0, 3, 1, 1]));
    let [slots, states, spills] = entries.bytes();
    assert_eq!(slots[8..], [0xd0, 3, 0, 0, 0, 0, 0, 6, 0x30, 0xff, 0, 0, 0xff, 0x7f, 0x80, 0xff]);
    assert_eq!(states, [0x80, 1]);
    let overflow = [
        0x7f, 0, 0xfc, 3, 0xfc, 0x83, 0x87, 0x87, 0x87, 0x67, 0x66, 0x66, 0x66, 0xae, 0xaa, 0xaa, 0xaa, 2, 0,
        0, 0, 0, 0, 6,
    ];
    assert_eq!(spills[256..280], overflow);
}

/// Each entry by itself, as the portable pool reads it.
fn judge(portable: &PortableEntries, len: u64) -> Vec<Result<Vec<u8>, u32>> {
    let read = |start: u64| {
        let range = start..(start + ENTRY_LEN).min(len);
        let mut out = vec![0; (range.end - range.start) as usize];
        match portable.pool.read(portable.allocation, range, &mut out) {
            Ok(()) => Ok(out),
            Err(BuddyError::State { .. }) => Err(launch::BAD_ENTRY_STATE),
            Err(BuddyError::Damaged { .. }) => Err(DAMAGED),
            Err(error) => panic!("{error}"),
        }
    };
    (0..len).step_by(ENTRY_LEN as usize).map(read).collect()
}

/// An allocation of which up to `most` entries are damaged.
fn damaged(random: &mut Random, target: Target, len: u64, most: usize) -> PortableEntries {
    let mut portable = PortableEntries::new(len, target);
    let data = entries_of_all_states(random, len as usize);
    portable.pool.write(portable.allocation, 0..len, &data).unwrap();
    for _ in 0..1 + random.below(most) {
        let entry = random.below(len.div_ceil(ENTRY_LEN) as usize);
        match random.below(3) {
            0 => portable.set_state(entry, random.below(16) as u8),
            _ => portable.damage(random.bits() as usize, 1 << random.below(8)),
        }
    }
    portable
}

#[test]
fn damaged_entries_are_judged_as_by_the_portable_pool() {
    let Some(shim) = Shim::or_skip("damaged_entries_are_judged_as_by_the_portable_pool") else { return };
    let (mut random, mut codes) = (Random::new(2), BTreeMap::<u32, u32>::new());
    let len = 70 * ENTRY_LEN + 50;
    for turn in 0..150 {
        let target = Form::Bpc.targets()[turn % 5];
        let portable = damaged(&mut random, target, len, 8);
        let mut entries = portable.copy();
        let (moved, out) = shim.read_entries(&mut entries, 0..len, some_launch(&mut random, turn));
        let wanted = judge(&portable, len);
        let first = wanted.iter().zip(0..).find_map(|(entry, at)| Some((at, *entry.as_ref().err()?)));
        let Status { code, chunk } = moved.status;
        let is_damaged = ![launch::GOOD, launch::BAD_ENTRY_STATE].contains(&code);
        let told = (code != launch::GOOD).then_some((chunk, if is_damaged { DAMAGED } else { code }));
        assert_eq!(told, first, "turn {turn}");
        *codes.entry(code).or_default() += 1;
        for (entry, (wanted, out)) in wanted.iter().zip(out.chunks(ENTRY_LEN as usize)).enumerate() {
            let wanted = wanted.clone().unwrap_or_else(|_| vec![0x5a; out.len()]);
            assert!(wanted == out, "turn {turn}, entry {entry}");
        }
    }
    let kinds = [
        launch::GOOD,
        launch::BAD_CHUNK_PADDING,
        launch::BAD_CHUNK_FIELD,
        launch::BAD_CHUNK_ENTRY,
        launch::BAD_ENTRY_STATE,
    ];
    assert!(codes.keys().copied().eq(kinds), "{codes:?}");
}

#[test]
fn damaged_entries_that_a_write_needs_stay_as_they_are() {
    let Some(shim) = Shim::or_skip("damaged_entries_that_a_write_needs_stay_as_they_are") else { return };
    let (mut random, mut refused) = (Random::new(3), 0);
    let len = 40 * ENTRY_LEN + 1;
    for turn in 0..150 {
        let target = Form::Bpc.targets()[turn % 5];
        let mut portable = damaged(&mut random, target, len, 60);
        let mut entries = portable.copy();
        let range = some_range(&mut random, len);
        let data = entries_of_all_states(&mut random, (range.end - range.start) as usize);
        let moved = shim.write_entries(&mut entries, range.clone(), &data, some_launch(&mut random, turn));
        // Entry by entry, so that the others are written.
        let mut first = None;
        for entry in range.start / ENTRY_LEN..range.end.div_ceil(ENTRY_LEN) {
            let start = (entry * ENTRY_LEN).max(range.start);
            let end = ((entry + 1) * ENTRY_LEN).min(range.end);
            let data = &data[(start - range.start) as usize..(end - range.start) as usize];
            if portable.pool.write(portable.allocation, start..end, data).is_err() {
                first.get_or_insert(entry);
            }
        }
        let told = (moved.status != Status::GOOD).then_some(moved.status.chunk);
        assert_eq!(told, first, "turn {turn}: {range:?}, {:?}", moved.status);
        assert!(entries.bytes() == portable.copy().bytes(), "turn {turn}: {range:?}");
        refused += u32::from(first.is_some());
    }
    assert!(refused > 10, "{refused} were refused");
}
