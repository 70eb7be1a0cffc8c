//! What is refused, and that nothing has changed then.

use super::*;

#[test]
fn ranges_have_to_be_inside_and_as_long_as_their_buffers() {
    let mut pool = BuddyPool::new(4096, 4096).unwrap();
    let allocation = pool.alloc(1001, Target::Two).unwrap();
    let before = pool.stats();
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..1002, 1002..1002, 5..4, u64::MAX..u64::MAX, u64::MAX..0] {
        let outside = Err(BuddyError::Outside { range: range.clone(), len: 1001 });
        assert_eq!(pool.read(allocation, range.clone(), &mut []), outside);
        assert_eq!(pool.write(allocation, range, &[]), outside);
    }
    let lengths = Err(BuddyError::Lengths { range: 4, buffer: 3 });
    assert_eq!(pool.read(allocation, 1..5, &mut [0; 3]), lengths);
    assert_eq!(pool.write(allocation, 1..5, &[1; 3]), lengths);
    assert_eq!(pool.stats(), before);
    assert_eq!(pool.read(allocation, 1001..1001, &mut []), Ok(()));
    assert_eq!(pool.write(allocation, 0..0, &[]), Ok(()));
}

#[test]
fn handles_are_of_one_pool_and_one_life() {
    let mut pool = BuddyPool::new(4096, 4096).unwrap();
    let mut other = BuddyPool::new(4096, 4096).unwrap();
    let (first, foreign) = (pool.alloc(128, Target::One).unwrap(), other.alloc(128, Target::One).unwrap());
    assert!(matches!(pool.free(foreign), Err(BuddyError::OtherPool { owner, pool }) if owner == pool + 1));
    assert!(matches!(pool.read(foreign, 0..1, &mut [0]), Err(BuddyError::OtherPool { .. })));
    pool.free(first).unwrap();
    let second = pool.alloc(128, Target::One).unwrap();
    let freed = BuddyError::Freed { index: 0, generation: 0, current: 1 };
    assert_eq!(pool.free(first), Err(freed.clone()));
    assert_eq!(pool.write(first, 0..1, &[1]), Err(freed.clone()));
    assert_eq!(pool.allocation_stats(first), Err(freed));
    assert_eq!(pool.free(second), Ok(()));
    let gone = BuddyError::Freed { index: 0, generation: 1, current: 2 };
    assert_eq!(pool.read(second, 0..1, &mut [0]), Err(gone));
}

#[test]
fn a_memory_without_room_is_named() {
    let mut pool = BuddyPool::new(1024, 512).unwrap();
    assert_eq!(pool.alloc(0, Target::Two), Err(BuddyError::NoBytes));
    // 16 slots of 64 bytes, and metadata.
    let device = BuddyError::Exhausted { place: Place::Device, needed: 1056, free: 1024, largest: 1024 };
    assert_eq!(pool.alloc(2048, Target::Two), Err(device));
    let buddy = BuddyError::Exhausted { place: Place::Buddy, needed: 640, free: 512, largest: 512 };
    assert_eq!(pool.alloc(1280, Target::Two), Err(buddy));
    let half = Err(BuddyError::TargetOfForm { target: Target::EightThirds, form: Form::Bpc });
    assert_eq!(pool.alloc(128, Target::EightThirds), half);
    assert!(matches!(pool.alloc(u64::MAX, Target::Sixteen), Err(BuddyError::Exhausted { .. })));
    // What was refused has taken nothing.
    assert!(pool.alloc(992, Target::One).is_err());
    assert!(pool.alloc(896, Target::One).is_ok());
    assert!(matches!(BuddyPool::new(u64::MAX, 0), Err(MemoryError::Unavailable { bytes: u64::MAX })));
}

#[test]
fn damaged_memory_is_told_from_good() {
    let mut pool = BuddyPool::new(4096, 4096).unwrap();
    let allocation = pool.alloc(256, Target::Two).unwrap();
    let ramp: Vec<u8> = (0..64u32).flat_map(u32::to_le_bytes).collect();
    pool.write(allocation, 0..256, &ramp).unwrap();
    let (device, _) = pool.memories_mut();
    device.store(128, &[0xf8]).unwrap(); // the state of entry 1 becomes 15
    let state = BuddyError::State { entry: 1, state: 15, done: 0 };
    assert_eq!(pool.read(allocation, 0..256, &mut [0; 256]), Err(state.clone()));
    assert_eq!(pool.write(allocation, 200..201, &[0]), Err(state));
    assert_eq!(pool.read(allocation, 0..128, &mut [0; 128]), Ok(()));
    // Written as a whole it is good again.
    pool.write(allocation, 128..256, &ramp[..128]).unwrap();
    let (device, _) = pool.memories_mut();
    device.store(7, &[9]).unwrap(); // the bytes that the code of entry 0 leaves
    let damaged = pool.read(allocation, 0..128, &mut [0; 128]);
    assert!(matches!(damaged, Err(BuddyError::Damaged { entry: 0, done: 0, .. })), "{damaged:?}");
}

#[test]
fn no_damage_whatever_makes_a_pool_panic() {
    let mut random = Random(3);
    for form in FORMS {
        let mut pool = BuddyPool::new(64 << 10, 64 << 10).unwrap();
        let len = 40_000;
        let allocation = pool.alloc_as(len, form, Target::Two).unwrap();
        let mut refused = 0;
        for _ in 0..200 {
            let data = bytes(&mut random, len as usize);
            pool.write(allocation, 0..len, &data).unwrap();
            let footprint = form.footprint(len, Target::Two);
            let (device, buddy) = pool.memories_mut();
            for _ in 0..3 {
                let byte = [random.bits() as u8];
                device.store(random.below(footprint.device_bytes + footprint.metadata_bytes), &byte).unwrap();
                buddy.store(random.below(footprint.buddy_bytes), &byte).unwrap();
            }
            let mut out = vec![0; len as usize];
            refused += u32::from(pool.read(allocation, 0..len, &mut out).is_err());
        }
        assert!(refused > 0, "{form}");
    }
}

/// Memory that fails after so many stores.
struct Failing {
    memory: HostMemory,
    stores: usize,
}

impl Memory for Failing {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn load(&self, at: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        self.memory.load(at, to)
    }

    fn store(&mut self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.stores = self.stores.checked_sub(1).ok_or(MemoryError::Unavailable { bytes: 1 })?;
        self.memory.store(at, from)
    }
}

#[test]
fn a_write_that_fails_tells_how_far_it_came() {
    let device = Failing { memory: HostMemory::new(64 << 10).unwrap(), stores: 1 + 64 + 1 + 10 };
    let mut pool = BuddyPool::over(device, HostMemory::new(64 << 10).unwrap());
    let allocation = pool.alloc(16_384, Target::Two).unwrap(); // one store: the metadata
    let data: Vec<u8> = (0..4096u32).flat_map(u32::to_le_bytes).collect();
    // A batch takes 64 stores and one for its states.
    let failed = pool.write(allocation, 0..16_384, &data).unwrap_err();
    assert!(matches!(failed, BuddyError::Memory { done: 8192, .. }), "{failed:?}");
    let mut out = vec![0; 8192];
    pool.read(allocation, 0..8192, &mut out).unwrap();
    assert_eq!(out, data[..8192]);
}
