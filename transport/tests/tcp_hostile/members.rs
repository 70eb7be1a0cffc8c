//! Connections that bring a good hello and then break the rules.

use std::thread;
use std::time::Duration;

use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Rank, Status, Tag};
use mgcomp_transport::node::{NodeConfig, PeerState};
use mgcomp_transport::session::{SessionError, TransferError};

use crate::bystanders::{Bystanders, RANKS, wait_for};
use crate::common::job::{config, end_of};
use crate::common::{noise, watched};
use crate::raw::{Raw, hello, read_request, record};

/// Connects as `rank`, which rank 0 then takes for its peer.
pub(crate) fn join(job: &Bystanders, rank: u32) -> Raw {
    join_with(job, rank, &hello(rank, RANKS))
}

/// As [`join`], with this hello.
pub(crate) fn join_with(job: &Bystanders, rank: u32, hello: &[u8]) -> Raw {
    let mut raw = Raw::connect(job.address);
    raw.record(hello);
    let greeting = raw.message();
    assert_eq!((greeting.len(), &greeting[..4]), (64, &[0x50, 0, 0, 9][..]));
    assert_eq!(greeting[24..28], [0; 4]); // rank 0
    wait_for(&job.nodes[0], Rank(rank), "a session", |state| state == "Open");
    raw
}

/// Runs up to three cases with a fresh job: ranks 2, 3 and 4 each misbehave once.
pub(crate) fn cases<const N: usize>(messages: [&[u8]; N], check: impl Fn(&Bystanders, Raw, u32)) {
    for three in messages.chunks(3) {
        let job = Bystanders::start();
        for (rank, message) in (2..).zip(three) {
            let mut raw = join(&job, rank);
            raw.bytes(message);
            check(&job, raw, rank);
            job.check();
        }
        for rank in 2 + three.len() as u32..RANKS {
            assert_eq!(job.nodes[0].peer_state(Rank(rank)), Some(PeerState::Greeting));
        }
    }
}

#[test]
fn malformed_messages_end_the_session_with_a_reason() {
    watched(|| {
        cases(
            [
                &record(&[]),                                             // incomplete
                &record(&[0xb0, 0, 0, 0]),                                // no such type
                &record(&[0x10; 15]),                                     // half a Read request
                &record(&[&read_request(1, 0, 0, 1)[..], &[0]].concat()), // a payload where there is none
                &record(&[0x40, 0, 0x01, 0]),                             // a reserved bit
                &record(&[0x20, 0, 0x0f, 0]),                             // algorithm 15
            ],
            |job, mut raw, rank| {
                raw.expect_refusal(14);
                wait_for(&job.nodes[0], Rank(rank), "the end", |state| state.starts_with("Over(Malformed"));
            },
        );
    });
}

#[test]
fn a_send_that_is_not_as_long_as_it_says_is_a_bad_payload() {
    watched(|| {
        let job = Bystanders::start();
        let mut raw = join(&job, 2);
        // Long enough to be put where it is to go without a detour, if it were good.
        let receive = job.nodes[0].receive(Rank(2), Tag(9), HostBuffer::zeroed(100_000).all());
        let header = [&[0x60, 0, 0x70, 0][..], &9u64.to_be_bytes(), &100_000u32.to_be_bytes()].concat();
        raw.record(&[&header[..], &[7; 65_536]].concat());
        let status = Status::BadPayload;
        assert_eq!(end_of(receive), Err(TransferError::Unusable { peer: Rank(2), status }));
        assert_eq!(raw.message(), [0x40, 0, 0x70, status.code()]);
        job.check();
    });
}

#[test]
fn broken_rules_end_the_session_with_a_reason() {
    watched(|| {
        let twice = [record(&read_request(1, 0, 0, 0x100)), record(&read_request(1, 0, 0, 0x100))].concat();
        cases(
            [
                &record(&hello(2, RANKS)), // a second hello
                &record(&[0x40, 0, 0, 0]), // an answer to nothing
                &twice,                    // an id in use; or a second answer, if the first is out
            ],
            |job, mut raw, rank| {
                if rank == 4 {
                    // The two may also follow each other so slowly that nothing is wrong.
                    raw.finish();
                    while raw.hear() != crate::raw::Heard::End {}
                    return;
                }
                raw.expect_refusal(14);
                wait_for(&job.nodes[0], Rank(rank), "the end", |state| state.starts_with("Over(Violation"));
            },
        );
    });
}

#[test]
fn broken_records_end_the_session_without_a_word() {
    watched(|| {
        let mut damaged = record(&read_request(1, 0, 0, 8));
        damaged[20] ^= 4;
        let limit = crate::common::LIMITS.max_transfer_bytes + 64;
        let too_long = [(limit + 1).to_le_bytes(), [0; 4]].concat();
        let cut = &record(&read_request(1, 0, 0, 8))[..20];
        let expected = ["Checksum { peer: Rank(2), record: 1", "RecordTooLong", "RecordTruncated"];
        cases([&damaged, &too_long, cut], |job, mut raw, rank| {
            raw.finish();
            raw.expect_end();
            let expected = expected[rank as usize - 2];
            wait_for(&job.nodes[0], Rank(rank), expected, |state| state.contains(expected));
        });
    });
}

#[test]
fn who_waits_hears_at_once_what_was_wrong() {
    watched(|| {
        let mut damaged = record(&read_request(1, 0, 0, 8));
        damaged[20] ^= 4;
        let malformed = record(&[0xf0; 30]);
        let expected = ["Checksum", "Malformed"];
        for (damage, expected) in [damaged, malformed].into_iter().zip(expected) {
            // Mostly so soon that the thread that waits reads it by itself.
            for _ in 0..5 {
                let config = NodeConfig { silence_timeout: Duration::from_secs(600), ..config() };
                let job = Bystanders::with(config);
                let mut raw = join(&job, 2);
                let damage = damage.clone();
                let answering = thread::spawn(move || {
                    raw.message();
                    raw.bytes(&damage);
                    raw // not closed: nothing else comes
                });
                let into = HostBuffer::zeroed(8).all();
                let error = job.nodes[0].read(Rank(2), Address::new(0, 0), into).wait().unwrap_err();
                assert!(format!("{error:?}").contains(expected), "{error:?} is not {expected}");
                drop(answering.join().unwrap());
                job.check();
            }
        }
    });
}

#[test]
fn random_bytes_from_a_member_end_its_session_alone() {
    watched(|| {
        for seed in 0..10 {
            let bytes: Vec<_> = (0..3).map(|i| noise(seed * 3 + i, 5000)).collect();
            cases([&bytes[0], &bytes[1], &bytes[2]], |job, mut raw, rank| {
                raw.finish();
                while raw.hear() != crate::raw::Heard::End {}
                wait_for(&job.nodes[0], Rank(rank), "the end", |state| state.starts_with("Over"));
            });
        }
    });
}

#[test]
fn random_messages_in_good_records_end_their_session_alone() {
    watched(|| {
        for seed in 0..10 {
            // Types 1 to 10, so that many parse, with anything in them. That of a decode time has 8 bytes.
            let message = |i: u64| {
                let mut bytes = noise(seed * 100 + i, 40 + i as usize % 30);
                bytes[0] = bytes[0] & 0x0f | (1 + (bytes[1] % 10)) << 4;
                if bytes[0] >> 4 == 10 {
                    bytes.truncate(8);
                }
                record(&bytes)
            };
            let bytes: Vec<_> = (0..3).map(|i| (0..20).flat_map(|j| message(i * 20 + j)).collect()).collect();
            let bytes: &Vec<Vec<u8>> = &bytes;
            cases([&bytes[0], &bytes[1], &bytes[2]], |job, mut raw, rank| {
                raw.finish();
                while raw.hear() != crate::raw::Heard::End {}
                wait_for(&job.nodes[0], Rank(rank), "the end", |state| state.starts_with("Over"));
            });
        }
    });
}

#[test]
fn whoever_never_stops_talking_is_cut_off() {
    watched(|| {
        let job = Bystanders::start();
        let mut raw = join(&job, 2);
        raw.record(&[0xb0; 4]); // malformed
        // Goes on sending until it cannot: the connection is closed over its head.
        let endless = vec![0; 1 << 16];
        while std::io::Write::write_all(&mut raw.stream, &endless).is_ok() {}
        wait_for(&job.nodes[0], Rank(2), "the end", |state| state.starts_with("Over"));
        let over = job.nodes[0].peer_state(Rank(2));
        assert!(matches!(over, Some(PeerState::Over(SessionError::Malformed(_)))), "{over:?}");
        job.check();
    });
}
