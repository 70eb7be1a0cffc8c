//! Several threads at once.

use std::sync::RwLock;
use std::thread;

use super::*;

#[test]
fn threads_read_at_once_and_write_in_turn() {
    let pool = RwLock::new(BuddyPool::new(1 << 20, 1 << 20).unwrap());
    let allocate = |form| pool.write().unwrap().alloc_as(60_000, form, Target::Two).unwrap();
    let allocations = FORMS.map(allocate);
    thread::scope(|scope| {
        for (seed, allocation) in (0..).zip(allocations) {
            let pool = &pool;
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..20 {
                    let data = bytes(&mut random, 60_000);
                    pool.write().unwrap().write(allocation, 0..60_000, &data).unwrap();
                    let mut out = vec![0; 60_000];
                    pool.read().unwrap().read(allocation, 0..60_000, &mut out).unwrap();
                    assert_eq!(out, data);
                }
            });
        }
    });
    let accesses = pool.read().unwrap().stats().accesses;
    // 469 entries of 128 bytes, and three times 2 of 32 KiB.
    assert_eq!((accesses.reads, accesses.writes), (20 * (469 + 6), 20 * (469 + 6)));
}
