//! Peers that are there and do nothing.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::memory::{HostBuffer, HostSlice};
use mgcomp_transport::message::{Address, Rank, Tag};
use mgcomp_transport::node::{Handle, NodeConfig};
use mgcomp_transport::session::{SessionError, TransferError};

use crate::bystanders::{Bystanders, RANKS, wait_for};
use crate::common::job::{SILENCE, config, end_of, wait_until_over};
use crate::common::{HANGS, watched};
use crate::raw::{Heard, Raw, hello, record};

const FAR: Address = Address::new(0, 0);

fn slice(len: usize) -> HostSlice {
    HostBuffer::zeroed(len).all()
}

fn job_and_member(rank: u32) -> (Bystanders, Raw) {
    let job = Bystanders::with(NodeConfig { silence_timeout: SILENCE, ..config() });
    let mut raw = Raw::connect(job.address);
    raw.record(&hello(rank, RANKS));
    assert_eq!(raw.message()[..2], [0x50, 0]);
    wait_for(&job.nodes[0], Rank(rank), "a session", |state| state == "Open");
    (job, raw)
}

/// Checks that a request ended because rank 2 says nothing.
#[track_caller]
fn expect_silent(handle: Handle) {
    let error = SessionError::Silent(SILENCE);
    assert_eq!(end_of(handle), Err(TransferError::Session { peer: Rank(2), error }));
}

#[test]
fn requests_of_each_kind_end_when_the_peer_is_silent() {
    watched(|| {
        let (job, raw) = job_and_member(2);
        let node = &job.nodes[0];
        let handles = [
            node.read(Rank(2), FAR, slice(100)),
            node.write(Rank(2), slice(100), Element::U8, FAR),
            node.send(Rank(2), Tag(1), slice(100), Element::U8),
            node.receive(Rank(2), Tag(2), slice(100)),
        ];
        handles.into_iter().for_each(expect_silent);
        job.check();
        drop(raw);
    });
}

#[test]
fn a_peer_that_offers_and_then_says_nothing_is_given_up() {
    watched(|| {
        let (job, mut raw) = job_and_member(2);
        // Offer 0, tag 9, 100 bytes.
        raw.record(&[0x70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 100]);
        let receive = job.nodes[0].receive(Rank(2), Tag(9), slice(100));
        assert_eq!(raw.message()[0], 0x80, "a fetch");
        expect_silent(receive);
        job.check();
    });
}

#[test]
fn requests_that_keep_coming_do_not_keep_a_silent_peer_alive() {
    watched(|| {
        let (job, raw) = job_and_member(2);
        let node = &job.nodes[0];
        // Small ones, of which the system takes many for a peer that takes none.
        let started = Instant::now();
        let mut handles = Vec::new();
        while node.peer_state(Rank(2)) == Some(mgcomp_transport::node::PeerState::Open) {
            handles.push(node.read(Rank(2), FAR, slice(1)));
            thread::sleep(Duration::from_millis(20));
            assert!(started.elapsed() < HANGS, "not over after {} requests", handles.len());
        }
        assert_eq!(wait_until_over(node, Rank(2)), SessionError::Silent(SILENCE));
        handles.remove(0); // each of them has failed
        handles.into_iter().for_each(|handle| assert!(end_of(handle).is_err()));
        job.check();
        drop(raw);
    });
}

#[test]
fn a_peer_that_takes_nothing_ends_its_session_only() {
    watched(|| {
        let (job, raw) = job_and_member(2);
        // More than the system keeps for it.
        expect_silent(job.nodes[0].write(Rank(2), slice(48 << 20), Element::U8, FAR));
        job.check();
        drop(raw);
    });
}

#[test]
fn a_peer_that_answers_probes_may_take_its_time() {
    watched(|| {
        let started = Instant::now();
        // A test that is late with an answer itself, on a busy machine, shows nothing.
        while !answers_probes_in_time() {
            assert!(started.elapsed() < HANGS, "no answers in time");
        }
    });
}

/// Returns whether each answer was soon enough behind the one before it, so that silence cannot have lasted too long.
fn answers_probes_in_time() -> bool {
    let (job, mut raw) = job_and_member(2);
    let started = Instant::now();
    let send = job.nodes[0].send(Rank(2), Tag(1), slice(8), Element::U8);
    // A probe comes when a third of it has passed.
    let (mut probes, mut said) = (0, started);
    let mut is_late = || std::mem::replace(&mut said, Instant::now()).elapsed() >= 2 * SILENCE / 3;
    let Heard::Record(first) = raw.hear() else {
        assert!(is_late(), "the peer is given up");
        return false;
    };
    assert_eq!(first[0] >> 4, 6);
    // Nobody receives for several times as long as silence may last.
    while started.elapsed() < 2 * SILENCE {
        let heard = raw.hear();
        if let Heard::Record(probe) = &heard {
            assert_eq!((probe[0] >> 4, &probe[8..]), (1, &[0; 8][..]), "a read of no bytes");
            // Its answer is a Data-Ready of the same id.
            raw.record(&[0x20 | probe[0] & 0xf, probe[1], probe[2] & 0xf0, 0]);
            probes += 1;
        }
        if is_late() {
            return false;
        }
        assert_ne!(heard, Heard::End, "the peer is given up");
    }
    assert!(probes >= 3, "{probes} probes");
    raw.record(&[0x40, 0, 0, 0]); // the send had the first id
    if is_late() {
        return false;
    }
    assert_eq!(end_of(send), Ok(8));
    job.check();
    true
}

/// A peer of which bytes come is waited for, be they ever so few. The program need not.
#[test]
fn a_peer_that_trickles_can_be_left() {
    watched(|| {
        let job = Bystanders::with(config());
        let mut raw = Raw::connect(job.address);
        raw.record(&hello(2, RANKS));
        assert_eq!(raw.message()[..2], [0x50, 0]);
        let into = HostBuffer::zeroed(1 << 20);
        let receive = job.nodes[0].receive(Rank(2), Tag(9), into.all());
        // A send of a mebibyte with that tag, which goes where it is received; of its bytes but a few.
        let send = [&[0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0x10, 0, 0][..], &[1; 1 << 20]].concat();
        let record = record(&send);
        let (front, rest) = record.split_at(100_000);
        raw.bytes(front);
        for byte in &rest[..100] {
            raw.bytes(&[*byte]);
            thread::sleep(Duration::from_millis(2));
        }
        job.check();
        job.nodes[0].disconnect(Rank(2));
        let error = SessionError::Closed;
        assert_eq!(end_of(receive), Err(TransferError::Session { peer: Rank(2), error }));
        // Its buffer is the program's again, however the rest comes.
        raw.bytes(&rest[100..200]);
        into.all().write(|bytes| bytes.fill(7));
        while raw.hear() != Heard::End {}
        assert!(into.all().to_vec().iter().all(|&byte| byte == 7));
        job.check();
    });
}
