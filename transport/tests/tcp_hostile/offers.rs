//! Members that offer, fetch and answer what they should not, or stop in the middle.

use mgcomp_codecs::Element;
use mgcomp_transport::memory::{HostBuffer, HostSlice};
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::session::{SessionError, TransferError};

use crate::bystanders::{Bystanders, RANKS, wait_for};
use crate::common::job::end_of;
use crate::common::watched;
use crate::members::{cases, join, join_with};
use crate::raw::{Raw, hello, record};

fn slice(len: usize) -> HostSlice {
    HostBuffer::zeroed(len).all()
}

/// An offer of `length` bytes under a tag that is its number.
fn offer(number: u32, length: u64) -> Vec<u8> {
    let tag = u64::from(number).to_be_bytes();
    [&[0x70, 0, 0, 0], &number.to_be_bytes()[..], &tag, &length.to_be_bytes()].concat()
}

/// Asks for bytes of an offer, under id 7.
fn fetch(number: u32, offset: u64, length: u32) -> Vec<u8> {
    [&[0x80, 0, 0x70, 0], &number.to_be_bytes()[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

fn answer(number: u32) -> Vec<u8> {
    [&[0x90, 0, 0, 0][..], &number.to_be_bytes()].concat()
}

/// A member that takes ten bytes at once, so that rank 0 offers it the rest; and what it has to fetch.
fn frugal_member(job: &Bystanders, rank: u32) -> (Raw, mgcomp_transport::node::Handle) {
    let mut frugal = hello(rank, RANKS);
    frugal[32..36].copy_from_slice(&10u32.to_be_bytes());
    let mut raw = join_with(job, rank, &frugal);
    let from = HostBuffer::from((0..40).collect::<Vec<u8>>());
    let send = job.nodes[0].send(Rank(rank), Tag(0), from.all(), Element::U8);
    assert_eq!(raw.message(), offer(0, 40));
    (raw, send)
}

#[test]
fn what_was_never_offered_ends_the_session_with_a_reason() {
    watched(|| {
        let twice = [record(&offer(3, 1)), record(&offer(3, 1))].concat();
        cases([&record(&fetch(0, 0, 1)), &record(&answer(0)), &twice], |job, mut raw, rank| {
            raw.expect_refusal(14);
            let violation = |state: &str| state.starts_with("Over(Violation") && state.contains("Offer");
            wait_for(&job.nodes[0], Rank(rank), "the end", violation);
        });
    });
}

#[test]
fn a_flood_of_offers_is_cut_off_and_harms_nobody() {
    watched(|| {
        let job = Bystanders::start();
        let mut raw = join(&job, 2);
        for number in 0..65_536 {
            raw.record(&offer(number, u64::MAX));
        }
        job.check();
        // One that is asked for is answered: there is no such buffer. Then there is room for one more.
        let error = TransferError::BufferTooSmall { peer: Rank(2), len: u64::MAX, capacity: 5 };
        assert_eq!(end_of(job.nodes[0].receive(Rank(2), Tag(60_000), slice(5))), Err(error));
        assert_eq!(raw.message(), [&[0x90, 0, 0, 11][..], &60_000u32.to_be_bytes()].concat());
        raw.record(&offer(70_000, 1));
        raw.record(&offer(70_001, 1));
        raw.expect_refusal(14);
        wait_for(&job.nodes[0], Rank(2), "the end", |state| state.contains("TooManyOffers"));
        job.check();
    });
}

#[test]
fn an_offer_is_for_one_rank_alone() {
    watched(|| {
        let job = Bystanders::start();
        let (mut owner, send) = frugal_member(&job, 2);
        let mut other = join(&job, 3);
        other.record(&fetch(0, 0, 10));
        other.expect_refusal(14);
        wait_for(&job.nodes[0], Rank(3), "the end", |state| state.contains("NoSuchOffer"));
        for (offset, bytes) in [(30, 30..40), (0, 0..10), (30, 30..40)] {
            owner.record(&fetch(0, offset, 10));
            assert_eq!(owner.message(), [&[0x20, 0, 0x70, 0][..], &bytes.collect::<Vec<u8>>()].concat());
        }
        owner.record(&answer(0));
        assert_eq!(end_of(send), Ok(40));
        owner.record(&fetch(0, 0, 10));
        owner.expect_refusal(14);
        job.check();
    });
}

#[test]
fn whoever_goes_in_the_middle_of_a_fetch_fails_the_request_alone() {
    watched(|| {
        let job = Bystanders::start();
        // A sender that is gone, and one that ends the session in good order.
        let mut goodbye = vec![0; 64];
        goodbye[..8].copy_from_slice(&[0x50, 12, 0, 9, b'M', b'G', b'C', b'W']);
        for (rank, last_words) in [(2, None), (3, Some(goodbye))] {
            let mut raw = join(&job, rank);
            raw.record(&offer(4, 3 << 20));
            let receive = job.nodes[0].receive(Rank(rank), Tag(4), slice(3 << 20));
            let piece = raw.message();
            assert_eq!((piece[0], &piece[4..8]), (0x80, &[0, 0, 0, 4][..]), "a fetch");
            last_words.iter().for_each(|words| raw.record(words));
            drop(raw);
            let end = end_of(receive);
            assert!(matches!(end, Err(TransferError::Session { peer, .. }) if peer == Rank(rank)), "{end:?}");
        }
        // A receiver.
        let (raw, send) = frugal_member(&job, 4);
        drop(raw);
        let end = end_of(send);
        let gone = |error: &SessionError| matches!(error, SessionError::Link(_));
        assert!(
            matches!(&end, Err(TransferError::Session { peer: Rank(4), error }) if gone(error)),
            "{end:?}"
        );
        job.check();
    });
}
