//! The kernels that write and read entries in buddy memory: every byte of states, slots and places as the portable pool
//! leaves it, and what is damaged judged as that does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mgcomp_codecs::Element;
use mgcomp_tests::data::Random;
use mgcomp_tests::shim::buddy::{PortableEntries, bytes_of_all_kinds};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, Status, launch};
use mgcomp_transport::buddy::{BuddyError, Form, Target, XP_ENTRY_LEN};

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

/// Writes and reads by chance, each followed by a look at all that is stored; returns the states that entries have in the
/// end.
fn whatever_is_done(
    (shim, random): (Shim, &mut Random),
    (form, target, len): (Form, Target, u64),
    turns: usize,
) -> Vec<u16> {
    let mut portable = PortableEntries::new(len, form, target);
    let mut entries = portable.copy();
    let mut plain = vec![0; len as usize];
    for turn in 0..turns {
        let (range, launch) = (some_range(random, len), some_launch(random, turn));
        let at = range.start as usize..range.end as usize;
        let what = format!("{form:?} {target} {len} {range:?} {launch:?}");
        let before = counts(&portable);
        let moved = if turn % 3 != 2 {
            let data = bytes_of_all_kinds(random, form, at.len());
            let moved = shim.write_entries(&mut entries, range.clone(), &data, launch);
            portable.pool.write(portable.allocation, range, &data).unwrap();
            plain[at].copy_from_slice(&data);
            assert!(entries.bytes() == portable.copy().bytes(), "{what}");
            moved
        } else {
            let (moved, out) = shim.read_entries(&mut entries, range.clone(), launch);
            assert!(out == plain[at], "{what}");
            portable.pool.read(portable.allocation, range, &mut vec![0; out.len()]).unwrap();
            moved
        };
        assert_eq!((moved.status, moved.counts), (Status::GOOD, since(before, &portable)), "{what}");
    }
    (0..len.div_ceil(form.entry_len() as u64)).map(|entry| portable.state(entry as usize)).collect()
}

#[test]
fn memories_are_those_of_the_portable_pool() {
    let Some(shim) = Shim::or_skip("memories_are_those_of_the_portable_pool") else { return };
    let (mut random, mut states) = (Random::new(1), BTreeSet::new());
    for &target in Form::Bpc.targets() {
        for len in [1, 127, 128, 129, 256, 4095, 4096, 4097, 20_001] {
            let turns = if len < 4000 { 9 } else { 18 };
            states.extend(whatever_is_done((shim, &mut random), (Form::Bpc, target, len), turns));
        }
    }
    assert!(states.into_iter().eq(0..10), "not all states were seen");
}

#[test]
fn memories_of_floats_are_those_of_the_portable_pool() {
    let Some(shim) = Shim::or_skip("memories_of_floats_are_those_of_the_portable_pool") else { return };
    let (mut random, mut kinds) = (Random::new(5), [0; 3]);
    let entry_len = XP_ENTRY_LEN as u64;
    for (n, element) in Element::ALL.into_iter().enumerate() {
        let form = Form::Xp(element);
        for (k, len) in [129, entry_len, 2 * entry_len + 129, 3 * entry_len + 1000].into_iter().enumerate() {
            let target = form.targets()[(n + 2 * k) % form.targets().len()];
            let states = whatever_is_done((shim, &mut random), (form, target, len), 12);
            let last = len.next_multiple_of(128) % entry_len;
            for (entry, state) in states.iter().enumerate() {
                let is_last = entry + 1 == states.len() && last != 0;
                let raw_len = if is_last { last } else { entry_len };
                kinds[usize::from(*state != 0) + usize::from(u64::from(*state) * 16 == raw_len)] += 1;
            }
        }
    }
    assert!(kinds.into_iter().all(|count| count > 2), "zero, coded and raw entries: {kinds:?}");
}

/// The bytes that FORMAT.md shows.
#[test]
fn the_documented_entries() {
    let Some(shim) = Shim::or_skip("the_documented_entries") else { return };
    let portable = PortableEntries::new(384, Form::Bpc, Target::Sixteen);
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

    let portable = PortableEntries::new(200, Form::Xp(Element::F32), Target::Sixteen);
    let mut entries = portable.copy();
    let data = [1_f32; 50].map(f32::to_le_bytes).concat();
    let moved = shim.write_entries(&mut entries, 0..200, &data, Launch::new(LaneOrder::Fifo, 1));
    assert_eq!((moved.status, moved.counts), (Status::GOOD, [0, 0, 1, 1, 1]));
    let [slots, states, spills] = entries.bytes();
    assert_eq!(slots, [12, 16, 255, 255, 255, 255, 255, 255, 3, 0, 1, 1, 0x7f, 0x7e, 0x7d, 0x7c]);
    assert_eq!(states, [3, 0]);
    let mut overflow = [0; 32];
    overflow[..9].copy_from_slice(&[0x7b, 0x7a, 0x79, 0x78, 0x77, 0x76, 0x75, 0x74, 0x73]);
    assert_eq!(spills[..32], overflow);
}

/// Each entry by itself, as the portable pool reads it.
fn judge(portable: &PortableEntries, form: Form, len: u64) -> Vec<Result<Vec<u8>, u32>> {
    let read = |start: u64| {
        let range = start..(start + form.entry_len() as u64).min(len);
        let mut out = vec![0; (range.end - range.start) as usize];
        match portable.pool.read(portable.allocation, range, &mut out) {
            Ok(()) => Ok(out),
            Err(BuddyError::State { .. }) => Err(launch::BAD_ENTRY_STATE),
            Err(BuddyError::Damaged { .. }) => Err(DAMAGED),
            Err(error) => panic!("{error}"),
        }
    };
    (0..len).step_by(form.entry_len()).map(read).collect()
}

/// An allocation of which up to `most` entries are damaged.
fn damaged(random: &mut Random, form: Form, target: Target, len: u64, most: usize) -> PortableEntries {
    let mut portable = PortableEntries::new(len, form, target);
    let data = bytes_of_all_kinds(random, form, len as usize);
    portable.pool.write(portable.allocation, 0..len, &data).unwrap();
    for _ in 0..1 + random.below(most) {
        let entry = random.below(len.div_ceil(form.entry_len() as u64) as usize);
        let state = portable.state(entry);
        let bits = 1 << random.below(8);
        match (form, random.below(4)) {
            (Form::Bpc, 0) => portable.set_state(entry, random.below(16) as u16),
            (Form::Bpc, _) => portable.damage(random.bits() as usize, bits),
            (_, 0) => portable.set_state(entry, state.wrapping_add(random.below(5) as u16).wrapping_sub(2)),
            // Mode, masks and tables are at the front.
            (_, 1) => portable.damage_entry(entry, random.below(40), bits),
            (_, 2) => portable.set_state(entry, random.below(2100) as u16),
            _ => portable.damage_entry(entry, random.below(16 * usize::from(state) + 1), bits),
        }
    }
    portable
}

/// Reads what is damaged; returns the code that was told.
fn read_damaged(
    (shim, random): (Shim, &mut Random),
    (form, target, len): (Form, Target, u64),
    turn: usize,
) -> u32 {
    let portable = damaged(random, form, target, len, 8);
    let mut entries = portable.copy();
    let (moved, out) = shim.read_entries(&mut entries, 0..len, some_launch(random, turn));
    let wanted = judge(&portable, form, len);
    let first = wanted.iter().zip(0..).find_map(|(entry, at)| Some((at, *entry.as_ref().err()?)));
    let Status { code, chunk } = moved.status;
    let is_damaged = ![launch::GOOD, launch::BAD_ENTRY_STATE].contains(&code);
    let told = (code != launch::GOOD).then_some((chunk, if is_damaged { DAMAGED } else { code }));
    assert_eq!(told, first, "turn {turn}");
    for (entry, (wanted, out)) in wanted.iter().zip(out.chunks(form.entry_len())).enumerate() {
        let wanted = wanted.clone().unwrap_or_else(|_| vec![0x5a; out.len()]);
        assert!(wanted == out, "turn {turn}, entry {entry}");
    }
    code
}

#[test]
fn damaged_entries_are_judged_as_by_the_portable_pool() {
    let Some(shim) = Shim::or_skip("damaged_entries_are_judged_as_by_the_portable_pool") else { return };
    let (mut random, mut codes) = (Random::new(2), BTreeMap::<u32, u32>::new());
    for turn in 0..150 {
        let target = Form::Bpc.targets()[turn % 5];
        let code = read_damaged((shim, &mut random), (Form::Bpc, target, 70 * 128 + 50), turn);
        *codes.entry(code).or_default() += 1;
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
fn damaged_entries_of_floats_are_judged_as_by_the_portable_pool() {
    let test = "damaged_entries_of_floats_are_judged_as_by_the_portable_pool";
    let Some(shim) = Shim::or_skip(test) else { return };
    let (mut random, mut codes) = (Random::new(6), BTreeMap::<u32, u32>::new());
    for turn in 0..60 {
        let form = Form::Xp(Element::ALL[turn % Element::ALL.len()]);
        let target = form.targets()[turn % form.targets().len()];
        let len = XP_ENTRY_LEN as u64 * (turn as u64 % 3) + 900;
        *codes.entry(read_damaged((shim, &mut random), (form, target, len), turn)).or_default() += 1;
    }
    let kinds = [
        launch::GOOD,
        launch::BAD_CHUNK_TRUNCATED,
        launch::BAD_CHUNK_TRAILING,
        launch::BAD_CHUNK_PADDING,
        launch::BAD_CHUNK_MODE,
        launch::BAD_ENTRY_STATE,
    ];
    assert!(codes.keys().copied().eq(kinds), "{codes:?}");
}

/// Writes over what is damaged, entry by entry on the host, so that the others are written; returns whether anything was
/// refused.
fn write_damaged(
    (shim, random): (Shim, &mut Random),
    (form, target, len): (Form, Target, u64),
    turn: usize,
) -> bool {
    let mut portable = damaged(random, form, target, len, 60);
    let mut entries = portable.copy();
    let range = some_range(random, len);
    let data = bytes_of_all_kinds(random, form, (range.end - range.start) as usize);
    let moved = shim.write_entries(&mut entries, range.clone(), &data, some_launch(random, turn));
    let (entry_len, mut first) = (form.entry_len() as u64, None);
    for entry in range.start / entry_len..range.end.div_ceil(entry_len) {
        let start = (entry * entry_len).max(range.start);
        let end = ((entry + 1) * entry_len).min(range.end);
        let data = &data[(start - range.start) as usize..(end - range.start) as usize];
        if portable.pool.write(portable.allocation, start..end, data).is_err() {
            first.get_or_insert(entry);
        }
    }
    let told = (moved.status != Status::GOOD).then_some(moved.status.chunk);
    assert_eq!(told, first, "turn {turn}: {range:?}, {:?}", moved.status);
    assert!(entries.bytes() == portable.copy().bytes(), "turn {turn}: {range:?}");
    first.is_some()
}

#[test]
fn damaged_entries_that_a_write_needs_stay_as_they_are() {
    let Some(shim) = Shim::or_skip("damaged_entries_that_a_write_needs_stay_as_they_are") else { return };
    let (mut random, mut refused) = (Random::new(3), [0; 2]);
    for turn in 0..150 {
        let target = Form::Bpc.targets()[turn % 5];
        refused[0] += u32::from(write_damaged((shim, &mut random), (Form::Bpc, target, 40 * 128 + 1), turn));
    }
    for turn in 0..40 {
        let form = Form::Xp(Element::ALL[turn % Element::ALL.len()]);
        let target = form.targets()[turn % form.targets().len()];
        let len = XP_ENTRY_LEN as u64 * (turn as u64 % 4) + 300;
        refused[1] += u32::from(write_damaged((shim, &mut random), (form, target, len), turn));
    }
    assert!(refused.into_iter().all(|count| count > 8), "{refused:?} were refused");
}
