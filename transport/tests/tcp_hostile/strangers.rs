//! Connections that bring no good hello.

use mgcomp_transport::message::Rank;
use mgcomp_transport::node::PeerState;

use crate::bystanders::{Bystanders, RANKS, wait_for};
use crate::common::{Random, noise, watched};
use crate::raw::{Heard, Raw, crc32c, hello, join, record};

#[test]
fn garbage_is_answered_by_the_end() {
    watched(|| {
        let job = Bystanders::start();
        for seed in 0..200 {
            let mut raw = Raw::connect(job.address);
            let len = 1 + Random(seed).below(300);
            raw.bytes(&noise(seed, len));
            raw.finish();
            raw.expect_end();
        }
        job.check();
    });
}

#[test]
fn broken_records_are_answered_by_the_end() {
    watched(|| {
        let job = Bystanders::start();
        let good = record(&hello(2, RANKS));
        let wrong_checksum = |bit: usize| {
            let mut record = good.clone();
            record[4 + bit / 8] ^= 1 << (bit % 8);
            record
        };
        // A bit of the checksum, of the secret, of what is reserved.
        for bit in [0, 31, 32 + 8 * 10, 32 + 8 * 63] {
            let mut raw = Raw::connect(job.address);
            raw.bytes(&wrong_checksum(bit));
            raw.expect_end();
        }
        // No stranger may make a rank wait for, or make room for, more than a hello.
        for len in [1025, 64 << 20, u32::MAX] {
            let mut raw = Raw::connect(job.address);
            raw.bytes(&[len.to_le_bytes(), [0; 4]].concat());
            raw.expect_end();
        }
        for len in [0, 1, 7, 8, 9, 71] {
            let mut raw = Raw::connect(job.address);
            raw.bytes(&good[..len]);
            raw.finish();
            raw.expect_end();
        }
        job.check();
        // None of this has taken the seat of rank 2.
        let mut raw = Raw::connect(job.address);
        raw.bytes(&good);
        assert_eq!(raw.message()[..2], [0x50, 0]);
    });
}

#[test]
fn hellos_that_are_wrong_are_refused_and_told_why() {
    watched(|| {
        let job = Bystanders::start();
        let refused = |message: &[u8], status: u8| {
            let mut raw = Raw::connect(job.address);
            raw.record(message);
            raw.expect_refusal(status);
        };
        let changed = |at: usize, value: u8| {
            let mut hello = hello(2, RANKS);
            hello[at] = value;
            hello
        };
        // Of another version, and no members: they do not know the secret.
        let of_version = |version| {
            let mut hello = changed(3, version);
            hello[8] ^= 1;
            hello
        };
        refused(&of_version(1), 7); // an older version, and a newer one
        refused(&of_version(10), 7);
        refused(&[&of_version(10)[..], &[0xff; 960]].concat(), 7); // as long as a hello may be
        for byte in 8..24 {
            refused(&changed(byte, hello(2, RANKS)[byte] ^ 1), 8); // another secret
        }
        // The secret is checked first: who does not know it learns nothing of the job.
        let mut ignorant = hello(1, 9);
        ignorant[8] ^= 0x80;
        refused(&ignorant, 8);
        refused(&hello(2, RANKS + 1), 10);
        refused(&hello(2, RANKS - 1), 10);
        refused(&hello(0, RANKS), 9); // rank 0 itself
        refused(&hello(1, RANKS), 9); // has a session already
        // What makes no sense, whoever says it: rank 5 of 5, limits of 0, no algorithm 0, a reserved bit.
        refused(&hello(RANKS, RANKS), 14);
        for (at, value) in [(49, 0b1_1110), (52, 1), (0, 0x51)] {
            refused(&changed(at, value), 14);
        }
        let mut no_transfer = hello(2, RANKS);
        no_transfer[32..36].fill(0);
        refused(&no_transfer, 14);
        // Other messages, whole ones, before any hello; and a refusal.
        for message in [&[0x40, 0xab, 0xd0, 0][..], &[0x10; 16], &[0x60; 20], &[0xf0; 4]] {
            refused(message, 14);
        }
        let mut refusal = vec![0; 64];
        refusal[..8].copy_from_slice(&[0x50, 12, 0, 9, b'M', b'G', b'C', b'W']);
        refused(&refusal, 14);
        job.check();
        assert_eq!(job.nodes[0].peer_state(Rank(2)), Some(PeerState::Greeting));
    });
}

#[test]
fn a_member_of_another_version_is_not_waited_for() {
    watched(|| {
        // By a hello, and by the first of several connections.
        let of = |rank: u32, is_join: bool| {
            let (mut first, at) =
                if is_join { (join((rank, RANKS), (1, 3), 7), 4) } else { (hello(rank, RANKS), 3) };
            first[at] = 10;
            first
        };
        for is_join in [false, true] {
            let job = Bystanders::start();
            let refused = |first: &[u8]| {
                let mut raw = Raw::connect(job.address);
                raw.record(first);
                raw.expect_refusal(7);
            };
            // Whoever does not know the secret takes nobody's seat; nor does who is there, or nobody.
            for byte in 8..24 {
                let mut ignorant = of(2, is_join);
                ignorant[byte] ^= 1;
                refused(&ignorant);
            }
            [0, 1, RANKS, u32::MAX].into_iter().for_each(|rank| refused(&of(rank, is_join)));
            job.check();
            assert_eq!(job.nodes[0].peer_state(Rank(2)), Some(PeerState::Greeting));
            refused(&of(2, is_join));
            let end = "Link(OtherVersion { peer: Rank(2), theirs: 10, own: 9 })";
            wait_for(&job.nodes[0], Rank(2), end, |state| state.contains(end));
            job.check();
        }
    });
}

#[test]
fn a_second_connection_of_a_rank_does_not_disturb_the_first() {
    watched(|| {
        let job = Bystanders::start();
        let mut first = Raw::connect(job.address);
        first.record(&hello(3, RANKS));
        assert_eq!(first.message()[..2], [0x50, 0]);
        let mut second = Raw::connect(job.address);
        second.record(&hello(3, RANKS));
        second.expect_refusal(9);
        // The first goes on: a read of no bytes is answered.
        first.record(&crate::raw::read_request(5, 0, 0, 0));
        assert_eq!(first.message(), [0x20, 0, 0x50, 0]);
        // Also once it has ended: a connection is not made again.
        drop(first);
        wait_for(&job.nodes[0], Rank(3), "the end", |state| state.starts_with("Over"));
        let mut third = Raw::connect(job.address);
        third.record(&hello(3, RANKS));
        third.expect_refusal(9);
        job.check();
    });
}

#[test]
fn silent_strangers_are_dropped_and_keep_nobody_out() {
    watched(|| {
        let job = Bystanders::start();
        // More than are let wait at once, some of which say half a hello.
        let mut strangers: Vec<_> = (0..300).map(|_| Raw::connect(job.address)).collect();
        strangers.iter_mut().step_by(3).for_each(|raw| raw.bytes(&record(&hello(2, RANKS))[..40]));
        job.check();
        let mut member = Raw::connect(job.address);
        member.record(&hello(2, RANKS));
        assert_eq!(member.message()[..2], [0x50, 0]);
        strangers.iter_mut().for_each(Raw::expect_end);
        job.check();
    });
}

#[test]
fn many_short_lived_strangers_do_no_harm() {
    watched(|| {
        let job = Bystanders::start();
        for _ in 0..500 {
            drop(Raw::connect(job.address));
        }
        job.check();
        let mut raw = Raw::connect(job.address);
        raw.record(&hello(4, RANKS));
        let Heard::Record(answer) = raw.hear() else { panic!("rank 4 was not let in") };
        assert_eq!((answer.len(), answer[0], answer[1]), (64, 0x50, 0));
        assert_eq!(crc32c(b"123456789"), 0xe306_9283); // the check value of CRC32C
    });
}
