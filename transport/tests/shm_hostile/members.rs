//! Peers that bring a good hello and then break the rules of the ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use mgcomp_transport::message::Rank;

use crate::bystanders::{Bystanders, RANKS, wait_for};
use crate::common::{HANGS, Random, noise, wait_until, watched};
use crate::raw::{READ_BACK, RING, Raw, WRITTEN, WRITTEN_BACK, greeting, record};

/// Joins as ranks 2, 3 and 4 in turn, lets each misbehave, and checks why its session is over.
/// What a member does, and what is said of it.
type Case<'a> = (&'a dyn Fn(&Raw, u32), &'a str);

fn cases(cases: &[Case<'_>]) {
    for three in cases.chunks(3) {
        let job = Bystanders::start();
        for (rank, (misbehave, reason)) in (2..).zip(three) {
            let raw = job.join(rank);
            misbehave(&raw, rank);
            raw.ring();
            job.expect_over(rank, reason);
            raw.expect_end();
            job.check();
        }
    }
}

/// Says that it has written up to this byte.
fn claim(raw: &Raw, written: u64) {
    raw.set(WRITTEN, written);
}

/// Writes the record of a greeting and what follows, as `written` bytes.
fn after_greeting(raw: &Raw, rank: u32, bytes: &[u8], written: u64) {
    raw.put(0, &record(&greeting(rank, RANKS)));
    raw.put(128, bytes);
    raw.set(WRITTEN, 128 + written);
}

#[test]
fn places_that_cannot_be_end_the_session() {
    watched(|| {
        cases(&[
            (
                &|raw, _| claim(raw, RING + 64),
                "Link(RingPlace { peer: Rank(2), claimed: 8256, least: 0, most: 8192 })",
            ),
            (&|raw, _| claim(raw, 1), "Link(RingPlace { peer: Rank(3), claimed: 1"),
            (&|raw, _| claim(raw, u64::MAX), "Link(RingPlace"),
            (&|raw, _| claim(raw, 1 << 63), "Link(RingPlace"),
            // Goes back, once rank 0 has seen the greeting.
            (
                &|raw, rank| {
                    raw.record(&greeting(rank, RANKS));
                    wait_until("rank 0 has read it", || raw.word(128) == 128);
                    claim(raw, 64);
                },
                "Link(RingPlace { peer: Rank(3), claimed: 64, least: 128",
            ),
        ]);
    });
}

/// Rank 0 sees that when it looks for room.
#[test]
fn to_have_read_what_was_never_written_ends_the_session() {
    watched(|| {
        let job = Bystanders::start();
        let raw = job.join(2);
        raw.set(READ_BACK, 1 << 40);
        raw.record(&greeting(2, RANKS));
        let is_over = || format!("{:?}", job.nodes[0].peer_state(Rank(2)).unwrap()).starts_with("Over");
        let started = Instant::now();
        // More questions than answers fit, so that it has to look.
        for id in 0..2000u16 {
            let request = [0x10 | (id >> 12) as u8, (id >> 4) as u8, (id << 4) as u8];
            raw.record(&[&request[..], &[0; 13]].concat());
            while raw.read() + RING < raw.word(WRITTEN) + 64 && !is_over() {
                assert!(started.elapsed() < HANGS, "hangs: question {id} is not read");
                thread::yield_now();
            }
            if is_over() {
                break;
            }
        }
        job.expect_over(2, "Link(RingPlace { peer: Rank(2), claimed: 1099511627776");
        raw.expect_end();
        job.check();
    });
}

#[test]
fn records_that_are_none_end_the_session() {
    watched(|| {
        cases(&[
            (
                &|raw, rank| after_greeting(raw, rank, &[0xff; 8], 64),
                "Link(RecordKind { peer: Rank(2), record: 1, kind: 4294967295 })",
            ),
            (
                &|raw, rank| {
                    after_greeting(raw, rank, &[&(300u32 << 20).to_le_bytes()[..], &[0; 4]].concat(), 64);
                },
                "Link(RecordTooLong { peer: Rank(3), record: 1, len: 314572800, limit: 268435520 })",
            ),
            // Of a kind that only other links have.
            (
                &|raw, rank| after_greeting(raw, rank, &[16, 0, 0, 0, 1, 0, 0, 0], 64),
                "Link(RecordKind { peer: Rank(4), record: 1, kind: 1 })",
            ),
            (&|raw, rank| after_greeting(raw, rank, &record(&[]), 64), "Malformed("),
            (&|raw, rank| after_greeting(raw, rank, &record(&[0xa0, 0, 0, 0]), 64), "Malformed("),
            (&|raw, rank| after_greeting(raw, rank, &record(&[0x10; 15]), 64), "Malformed("),
            // A long message of a kind that has no payload: judged by its front, not waited for.
            (
                &|raw, rank| {
                    let mut front = record(&[&[0x10, 0, 0][..], &[0; 100]].concat());
                    front[..4].copy_from_slice(&100_000u32.to_le_bytes());
                    after_greeting(raw, rank, &front, 128);
                },
                "Malformed(Invalid(Trailing { kind: ReadRequest, header_len: 16, got: 99984 }))",
            ),
        ]);
    });
}

#[test]
fn peers_that_go_are_noticed_wherever_they_were() {
    watched(|| {
        let job = Bystanders::start();
        // In good order.
        let raw = job.join(2);
        raw.record(&greeting(2, RANKS));
        wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
        drop(raw);
        job.expect_over(2, "Link(PeerClosed(Rank(2)))");
        // In the middle of a record of 100,000 bytes.
        let raw = job.join(3);
        let mut front = record(&[&[0x60; 16][..], &[1; 200]].concat());
        front[8..24].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0x86, 0xa0]);
        front[..4].copy_from_slice(&100_016u32.to_le_bytes());
        after_greeting(&raw, 3, &front, 192);
        raw.ring();
        drop(raw);
        job.expect_over(3, "Link(RecordTruncated { peer: Rank(3), record: 1, got: ");
        // With less than a header.
        let raw = job.join(4);
        let mut front = record(&[0x50; 8]);
        front[..4].copy_from_slice(&64u32.to_le_bytes());
        raw.put(0, &front);
        raw.set(WRITTEN, 64);
        drop(raw);
        job.expect_over(4, "Link(RecordTruncated { peer: Rank(4), record: 0, got: 64 })");
        job.check();
    });
}

#[test]
fn ringing_all_the_time_keeps_nobody_from_others() {
    watched(|| {
        let job = Bystanders::start();
        let raw = Arc::new(job.join(2));
        raw.record(&greeting(2, RANKS));
        let stop = Arc::new(AtomicBool::new(false));
        let (ringing, until) = (raw.clone(), stop.clone());
        let ringer = thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                ringing.ring();
                ringing.set(256, 1);
                ringing.set(512 + 384, 1);
            }
        });
        (0..5).for_each(|_| job.check());
        stop.store(true, Ordering::SeqCst);
        ringer.join().unwrap();
        assert_eq!(raw.word(WRITTEN_BACK) % 64, 0);
        wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
    });
}

/// Whatever happens to the memory while it is read, there is an end and others go on.
#[test]
fn memory_that_changes_all_the_time_harms_nobody() {
    watched(|| {
        for seed in 0..6 {
            let job = Bystanders::start();
            let raw = job.join(2);
            raw.record(&greeting(2, RANKS));
            wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
            let mut random = Random(seed);
            let mut at = 128;
            let started = Instant::now();
            while format!("{:?}", job.nodes[0].peer_state(Rank(2))).contains("Open") {
                assert!(started.elapsed() < HANGS, "nothing ends the session");
                // Fronts that look good, in different lengths, over and over at the place that is being read.
                let len = random.below(400) as u32;
                let mut front = record(&noise(random.bits(), 100));
                front[..4].copy_from_slice(&len.to_le_bytes());
                front[8] = 0x10 * (1 + random.below(6) as u8);
                raw.put(at, &front);
                if random.below(4) == 0 {
                    at += 64 * (1 + random.below(8) as u64);
                    raw.set(WRITTEN, at);
                    raw.ring();
                }
                if random.below(64) == 0 {
                    raw.set(READ_BACK, random.below(1 << 20) as u64);
                }
            }
            job.check();
        }
    });
}

#[test]
fn offers_that_break_the_rules_end_the_session() {
    watched(|| {
        // A fetch and an answer of what was not offered, and two offers under one number.
        let fetch = [0x80, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let answer = [0x90, 0, 0, 0, 0, 0, 0, 5];
        let offer = [0x70, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let mut twice = record(&offer);
        twice.resize(64, 0);
        twice.extend(record(&offer));
        let unknown = "Violation(NoSuchOffer(OfferId(5)))";
        cases(&[
            (&|raw, rank| after_greeting(raw, rank, &record(&fetch), 64), unknown),
            (&|raw, rank| after_greeting(raw, rank, &record(&answer), 64), unknown),
            (&|raw, rank| after_greeting(raw, rank, &twice, 128), "Violation(OfferInUse(OfferId(5)))"),
        ]);
    });
}
