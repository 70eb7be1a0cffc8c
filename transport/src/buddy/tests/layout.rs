//! Where bytes lie in the two memories, and what is counted, by hand.

use super::*;

/// Words of an entry as bytes.
fn entry(word: impl Fn(u32) -> u32) -> Vec<u8> {
    (0..32).flat_map(|i| word(i).to_le_bytes()).collect()
}

/// An entry that no code makes shorter.
fn noise() -> Vec<u8> {
    let mut random = Random(7);
    (0..16).flat_map(|_| random.bits().to_le_bytes()).collect()
}

/// `len` bytes of a memory from `at` on.
fn stored(memory: &HostMemory, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    memory.load(at, &mut bytes).unwrap();
    bytes
}

#[test]
fn an_entry_lies_in_its_slot_and_the_rest_of_it_in_buddy_memory() {
    let mut pool = BuddyPool::new(4096, 4096).unwrap();
    // Takes the first 64 bytes of device memory and a sector of metadata, and 64 of buddy memory.
    pool.alloc(128, Target::Two).unwrap();
    let allocation = pool.alloc(512, Target::Two).unwrap();
    let noise = noise();
    pool.write(allocation, 128..384, &[entry(|i| i), noise.clone()].concat()).unwrap();

    let (device, buddy) = pool.memories();
    assert_eq!(stored(device, 96, 64), [0; 64]); // entry 0
    assert_eq!(stored(device, 160, 8), [0xd0, 0x03, 0, 0, 0, 0, 0, 6]);
    assert_eq!(stored(device, 224, 64), noise[..64]);
    assert_eq!(stored(buddy, 64 + 2 * 64, 64), noise[64..]);
    // States 0, 8, 4, 0 in nibbles, behind the four slots.
    assert_eq!(stored(device, 96 + 256, 2), [0x80, 0x04]);

    let stats = pool.allocation_stats(allocation).unwrap();
    let footprint = (stats.raw_bytes, stats.device_bytes, stats.metadata_bytes, stats.buddy_bytes);
    assert_eq!(footprint, (512, 256, 32, 256));
    assert_eq!((stats.entries, stats.overflowing_entries), (4, 1));
    assert_eq!(stats.effective_capacity(), 512.0 / 288.0);
}

#[test]
fn mostly_zero_entries_keep_8_bytes_in_device_memory() {
    let mut pool = BuddyPool::new(4096, 4096).unwrap();
    let allocation = pool.alloc(256, Target::Sixteen).unwrap();
    let noise = noise();
    pool.write(allocation, 128..256, &noise).unwrap();
    let (device, buddy) = pool.memories();
    assert_eq!(stored(device, 8, 8), noise[..8]);
    assert_eq!(stored(buddy, 128, 120), noise[8..]);
    // Two slots of 8 bytes are filled up to a sector.
    assert_eq!(stored(device, 32, 1), [0x40]);
}

#[test]
fn entries_of_xp_are_chunks_in_units_of_16_bytes() {
    let mut pool = BuddyPool::new(16 << 10, 16 << 10).unwrap();
    let allocation = pool.alloc_as(200, Form::Xp(Element::F32), Target::Four).unwrap();
    // 1.0 fifty times: one non-zero value that changes, and 14 zeros that fill up 256 bytes.
    let ones: Vec<u8> = [1f32; 50].into_iter().flat_map(f32::to_le_bytes).collect();
    pool.write(allocation, 0..200, &ones).unwrap();
    let (device, _) = pool.memories();
    let state = stored(device, 64, 2);
    assert_eq!(state, [3, 0]);
    // Mode: zero mask at depth 0, change mask at depth 1. FORMAT.md tells the rest.
    assert_eq!(stored(device, 0, 2), [0x0c, 0x10]);
}

#[test]
fn accesses_are_counted_by_entry() {
    let mut pool = BuddyPool::new(1 << 20, 1 << 20).unwrap();
    let allocation = pool.alloc(128 * 128, Target::Four).unwrap();
    // Two sectors of metadata: two misses, 126 hits. Entry 3 overflows.
    let mut data = vec![0; 128 * 128];
    data[3 * 128..4 * 128].copy_from_slice(&noise());
    pool.write(allocation, 0..128 * 128, &data).unwrap();
    let mut expected = Accesses {
        writes: 128,
        buddy_writes: 1,
        metadata_hits: 126,
        metadata_misses: 2,
        ..Accesses::default()
    };
    assert_eq!(pool.stats().accesses, expected);

    // One byte of entry 3: read, and written again.
    pool.write(allocation, 400..401, &[1]).unwrap();
    (expected.reads, expected.buddy_reads) = (1, 1);
    (expected.writes, expected.buddy_writes) = (129, 2);
    expected.metadata_hits += 2;
    assert_eq!(pool.stats().accesses, expected);

    // Entries 2 to 4.
    pool.read(allocation, 383..513, &mut [0; 130]).unwrap();
    (expected.reads, expected.buddy_reads) = (4, 2);
    expected.metadata_hits += 3;
    assert_eq!(pool.stats().accesses, expected);
    assert_eq!(expected.buddy_share(), 4.0 / 133.0);
    assert_eq!(expected.metadata_hit_share(), 131.0 / 133.0);

    // It shrinks: nothing moves, and nothing overflows any more.
    assert_eq!(pool.stats().overflowing_entries, 1);
    pool.write(allocation, 384..512, &[0; 128]).unwrap();
    assert_eq!(pool.stats().overflowing_entries, 0);
    pool.free(allocation).unwrap();
    assert_eq!(pool.stats().accesses.writes, 130);
}
