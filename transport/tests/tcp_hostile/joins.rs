//! Connections that belong together, and such as do not.

use std::time::Duration;

use mgcomp_transport::link::tcp::{Tcp, TcpConfig};
use mgcomp_transport::link::{LinkError, LinkEvent};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::PeerState;

use crate::bystanders::{Bystanders, RANKS, rank_file, wait_for};
use crate::common::end::End;
use crate::common::fabric::tcp_config;
use crate::common::job::{SHORT, SILENCE, end_of};
use crate::common::{HANGS, noise, watched};
use crate::raw::{Heard, Raw, hello, join, read_request, record};

/// The number of a set.
const SET: u64 = 0x0123_4567_89ab_cdef;

/// Connects with each of these messages first.
fn connect<const N: usize>(job: &Bystanders, firsts: [&[u8]; N]) -> [Raw; N] {
    firsts.map(|first| {
        let mut raw = Raw::connect(job.address);
        raw.record(first);
        raw
    })
}

/// The connections of rank 2, which has a session over so many of them.
fn set_of<const N: usize>(job: &Bystanders) -> [Raw; N] {
    // They may come in any order.
    let mut set: [Raw; N] = std::array::from_fn(|place| {
        let mut raw = Raw::connect(job.address);
        raw.record(&join((2, RANKS), ((N - 1 - place) as u8, N as u8), SET));
        raw
    });
    set.reverse();
    set[0].record(&hello(2, RANKS));
    assert_eq!(set[0].message()[..2], [0x50, 0]);
    wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
    set
}

/// A tagged send of these bytes with tag 9.
fn send(id: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&[0x60, 0, id << 4, 0, 0, 0, 0, 0, 0, 0, 0, 9][..], &len, payload].concat()
}

#[test]
fn messages_are_taken_in_turn_whenever_they_come() {
    watched(|| {
        let job = Bystanders::start();
        let mut set: [Raw; 3] = set_of(&job);
        let intos: [HostBuffer; 4] = std::array::from_fn(|_| HostBuffer::zeroed(70_000));
        let receives = intos.each_ref().map(|into| job.nodes[0].receive(Rank(2), Tag(9), into.all()));
        // The hello had 64 bytes of the first turn: this message ends it, and each of the others has one of its own.
        let sent = [70_000, 65_536, 69_999, 65_520].map(|len| noise(len as u64, len));
        for (message, connection) in [(1, 1), (2, 2), (0, 0), (3, 0)] {
            set[connection].record(&send(message as u8, &sent[message]));
        }
        for (receive, (into, sent)) in receives.into_iter().zip(intos.iter().zip(&sent)) {
            assert_eq!(end_of(receive), Ok(sent.len() as u64));
            assert!(into.all().to_vec()[..sent.len()] == sent[..]);
        }
        // Their answers are short, and so on the first connection, as the hello was.
        let acks = [(); 4].map(|()| set[0].message());
        assert!(acks.iter().all(|ack| ack.len() == 4 && ack[0] >> 4 == 4 && ack[3] == 0), "{acks:02x?}");
        job.check();
    });
}

#[test]
fn connections_that_do_not_belong_to_a_set_are_refused() {
    watched(|| {
        let job = Bystanders::start();
        let refused = |message: &[u8], status| {
            let [mut raw] = connect(&job, [message]);
            raw.expect_refusal(status);
        };
        let good = join((2, RANKS), (1, 3), SET);
        for byte in 8..24 {
            let mut ignorant = good.clone();
            ignorant[byte] ^= 1;
            refused(&ignorant, 8);
        }
        refused(&join((2, RANKS + 1), (0, 3), SET), 10);
        for rank in [0, 1, RANKS, u32::MAX] {
            refused(&join((rank, RANKS), (0, 3), SET), 9); // rank 1 has a session already
        }
        for (connection, connections) in [(0, 0), (0, 1), (3, 3), (200, 3), (0, 17), (16, 17), (255, 255)] {
            refused(&join((2, RANKS), (connection, connections), SET), 14);
        }
        let mut newer = good.clone();
        newer[4] = 10;
        newer[8] ^= 1; // it is no member's, whose place would be gone
        refused(&newer, 7);
        [4, 6, 39].into_iter().for_each(|len| refused(&good[..len], 14));
        refused(&[&good[..], &[0]].concat(), 14);
        // None of these has taken a place.
        let mut set: [Raw; 3] = set_of(&job);
        set[0].record(&read_request(5, 0, 0, 0));
        assert_eq!(set[0].message(), [0x20, 0, 0x50, 0]);
        job.check();
    });
}

#[test]
fn a_set_that_has_begun_is_the_only_one_of_its_rank() {
    watched(|| {
        let job = Bystanders::start();
        let mut waiting = connect(&job, [&join((3, RANKS), (1, 3), SET)]);
        job.check(); // by now it was let in
        let refused = |message: &[u8], status| {
            let [mut raw] = connect(&job, [message]);
            raw.expect_refusal(status);
        };
        refused(&join((3, RANKS), (1, 3), SET), 14); // came before
        refused(&join((3, RANKS), (0, 4), SET), 14); // another number of them
        refused(&join((3, RANKS), (0, 2), SET), 14);
        refused(&join((3, RANKS), (0, 3), SET ^ 1), 9); // another set
        refused(&hello(3, RANKS), 9);
        // The others still find their places, and then there is none left.
        let others = [0, 2].map(|connection| join((3, RANKS), (connection, 3), SET));
        let [mut first, _last] = connect(&job, [&others[0], &others[1]]);
        first.record(&hello(3, RANKS));
        assert_eq!(first.message()[..2], [0x50, 0]);
        wait_for(&job.nodes[0], Rank(3), "a session", |state| state == "Open");
        for message in [&others[0], &join((3, RANKS), (3, 4), SET), &hello(3, RANKS)] {
            refused(message, 9);
        }
        job.check();
        drop(first);
        waiting.iter_mut().for_each(Raw::expect_end);
        job.check();
    });
}

#[test]
fn a_set_that_stays_incomplete_is_given_up() {
    watched(|| {
        // On a busy machine, those that come may do so too late.
        let too_few = ["it did not connect", "1 of 4 connections came"];
        let mut connect_timeout = SILENCE;
        let (mut said, mut heard) = two_of_four(connect_timeout);
        while too_few.contains(&said.as_str()) && connect_timeout < HANGS / 4 {
            connect_timeout *= 2;
            (said, heard) = two_of_four(connect_timeout);
        }
        assert_eq!((said.as_str(), heard), ("2 of 4 connections came", [Heard::End, Heard::End]));
    });
}

/// Two connections of a set of four come, and the others have so long to do so. What is said of them then, and what they hear.
fn two_of_four(connect_timeout: Duration) -> (String, [Heard; 2]) {
    let listener = Tcp::bind("127.0.0.1:0").unwrap();
    let (address, job) = (listener.local_addr().unwrap(), rank_file(std::slice::from_ref(&listener)));
    let config = TcpConfig { connect_timeout, ..tcp_config(1 << 20, None) };
    let mut end = End::start(Box::new(Tcp::new(listener, job, Rank(0), config).unwrap()));
    let mut come = [0, 3].map(|connection| {
        let mut raw = Raw::connect(address);
        raw.record(&join((2, RANKS), (connection, 4), SET));
        raw
    });
    come[0].record(&hello(2, RANKS));
    let said = match end.event(Rank(2)) {
        LinkEvent::Closed { peer: Rank(2), error: LinkError::Unreachable { text, .. } } => text,
        other => panic!("{other:?}"),
    };
    (said, come.each_mut().map(Raw::hear))
}

#[test]
fn a_connection_that_ends_takes_the_others_with_it() {
    watched(|| {
        for ends in [0, 1] {
            let job = Bystanders::start();
            let set: [Raw; 2] = set_of(&job);
            set[ends].finish(); // on which nothing was sent yet, or nothing more
            wait_for(&job.nodes[0], Rank(2), "the end", |state| state.contains("PeerClosed(Rank(2))"));
            set.into_iter().for_each(|mut raw| while raw.hear() != Heard::End {});
            job.check();
        }
    });
}

#[test]
fn damage_on_any_connection_ends_the_session() {
    watched(|| {
        let mut damaged = record(&read_request(1, 0, 0, 8));
        damaged[20] ^= 4;
        for (bytes, expected) in [(damaged, "Checksum"), (noise(1, 100), "Over(")] {
            for connection in [0, 1] {
                let job = Bystanders::start();
                let mut set: [Raw; 2] = set_of(&job);
                set[connection].bytes(&bytes);
                set[connection].finish();
                if connection == 1 {
                    set[0].record(&send(0, &[7; 70_000])); // and now it is its turn
                }
                wait_for(&job.nodes[0], Rank(2), expected, |state| state.contains(expected));
                job.check();
            }
        }
    });
}

#[test]
fn who_is_left_out_of_turn_is_dropped_with_the_session() {
    watched(|| {
        let job = Bystanders::start();
        let mut set: [Raw; 2] = set_of(&job);
        // A message whose turn does not come, and more than the system keeps behind it.
        (0..200).for_each(|_| set[1].record(&read_request(1, 0, 0, 0)));
        set[1].stream.set_write_timeout(Some(SHORT / 5)).unwrap();
        set[1].bytes(&record(&send(2, &vec![3; 40 << 20])));
        assert_eq!(job.nodes[0].peer_state(Rank(2)), Some(PeerState::Open));
        job.nodes[0].disconnect(Rank(2));
        set.into_iter().for_each(|mut raw| while raw.hear() != Heard::End {});
        job.check();
    });
}
