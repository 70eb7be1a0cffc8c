//! A pool against plain buffers.

use super::*;

/// An allocation, and what it must hold.
struct Twin {
    allocation: Allocation,
    plain: Vec<u8>,
}

fn range(random: &mut Random, len: usize) -> std::ops::Range<u64> {
    let start = random.below(len as u64 + 1);
    // Short ones, and now and then all that is left.
    let left = len as u64 - start;
    let most = if random.below(4) == 0 { left } else { left.min(700) };
    start..start + random.below(most + 1)
}

fn check(pool: &BuddyPool, twin: &Twin, range: std::ops::Range<u64>) {
    let mut out = vec![0xa5; (range.end - range.start) as usize];
    pool.read(twin.allocation, range.clone(), &mut out).unwrap();
    assert_eq!(out, twin.plain[range.start as usize..range.end as usize], "{range:?}");
}

#[test]
fn whatever_is_done_a_pool_holds_what_plain_buffers_do() {
    let mut random = Random(1);
    for form in FORMS {
        for &target in form.targets() {
            // A second allocation on either side would be damaged by a byte out of place.
            let mut pool = BuddyPool::new(1 << 20, 2 << 20).unwrap();
            let mut twins: Vec<Twin> = [70_001, 32_768, 129]
                .map(|len| Twin {
                    allocation: pool.alloc_as(len as u64, form, target).unwrap(),
                    plain: vec![0; len],
                })
                .into();
            for _ in 0..60 {
                let twin = &mut twins[random.below(3) as usize];
                let range = range(&mut random, twin.plain.len());
                let data = bytes(&mut random, (range.end - range.start) as usize);
                pool.write(twin.allocation, range.clone(), &data).unwrap();
                twin.plain[range.start as usize..range.end as usize].copy_from_slice(&data);
                let twin = &twins[random.below(3) as usize];
                check(&pool, twin, self::range(&mut random, twin.plain.len()));
            }
            for twin in &twins {
                check(&pool, twin, 0..twin.plain.len() as u64);
                check_overflowing(&pool, twin, form, target);
            }
        }
    }
}

/// Compares the overflow that the pool has kept count of with that of a profile of what it holds.
fn check_overflowing(pool: &BuddyPool, twin: &Twin, form: Form, target: Target) {
    let Form::Xp(element) = form else {
        return check_overflowing_as(pool, twin, Profile::new(Element::U8), form, target);
    };
    check_overflowing_as(pool, twin, Profile::new(element), form, target);
}

fn check_overflowing_as(pool: &BuddyPool, twin: &Twin, mut profile: Profile, form: Form, target: Target) {
    profile.add(&twin.plain).unwrap();
    let stats = pool.allocation_stats(twin.allocation).unwrap();
    let expected = profile.overflow_share(form, target) * stats.entries as f64;
    assert_eq!(stats.overflowing_entries as f64, expected.round(), "{form} {target}");
}

#[test]
fn room_that_is_freed_is_zero_for_the_next() {
    let mut random = Random(2);
    let mut pool = BuddyPool::new(70_000, 70_000).unwrap();
    for round in 0..40 {
        let form = FORMS[round % FORMS.len()];
        let len = 1 + random.below(60_000);
        let allocation = pool.alloc_as(len, form, Target::Two).unwrap();
        let mut out = vec![1; len as usize];
        pool.read(allocation, 0..len, &mut out).unwrap();
        assert!(out.iter().all(|&byte| byte == 0), "{form} {len}");
        pool.write(allocation, 0..len, &bytes(&mut random, len as usize)).unwrap();
        pool.free(allocation).unwrap();
    }
    assert_eq!(pool.stats().raw_bytes, 0);
}
