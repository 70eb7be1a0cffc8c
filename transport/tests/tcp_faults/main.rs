//! What networks do to connections: each end hears of it, by the name of the other; nobody else does, and nothing is left.
//!
//! One test runs at a time: threads and descriptors are counted.

#[path = "../common/mod.rs"]
mod common;

mod relay;
mod strangers;
mod trio;

use std::time::Duration;

use common::fabric::Fabric;
use common::footprint;
use common::job::{SHORT, SILENCE, config, end_of};
use common::noise;
use mgcomp_codecs::Element;
use mgcomp_transport::link::LinkError;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::{Handle, NodeConfig};
use mgcomp_transport::session::{SessionError, TransferError};
use relay::Conduct;
use trio::Trio;

fn leaving_nothing(body: impl FnOnce() + Send + 'static) {
    footprint::leaving_nothing(Fabric::tcp(), body);
}

/// Why a request with `peer` failed.
#[track_caller]
fn reason(handle: Handle, peer: u32) -> SessionError {
    match end_of(handle) {
        Err(error @ TransferError::Session { .. }) => {
            assert!(error.to_string().contains(&format!("rank {peer}")), "{error}");
            let TransferError::Session { peer: named, error } = error else { unreachable!() };
            assert_eq!(named, Rank(peer));
            error
        }
        other => panic!("a request with rank {peer} came to {other:?}"),
    }
}

/// Ranks 0 and 1 work with each other over a relay that then changes to `conduct`. Returns why rank 0 and rank 1 say
/// that they cannot go on.
fn broken_by(conduct: Conduct, config: &NodeConfig, connections: u32) -> [SessionError; 2] {
    let trio = Trio::start(config, connections);
    let [zero, one, _] = &trio.nodes;
    let waiting = [
        zero.receive(Rank(1), Tag(7), HostBuffer::zeroed(10).all()),
        one.receive(Rank(0), Tag(7), HostBuffer::zeroed(10).all()),
    ];
    // In the middle of more than all buffers on the way hold.
    trio.relay.conduct(Conduct::Hold);
    let read = one.read(Rank(0), trio::REGION, HostBuffer::zeroed(trio::LEN).all());
    trio.relay.conduct(conduct);
    reason(read, 0);
    let [of_zero, of_one] = waiting;
    let reasons = [reason(of_zero, 1), reason(of_one, 0)];
    // What is asked later fails at once, and the others go on.
    reason(zero.send(Rank(1), Tag(1), HostBuffer::zeroed(1).all(), Element::U8), 1);
    trio.check_bystanders();
    reasons
}

/// Makes a test of each function for each number of connections that two ranks may have.
macro_rules! over {
    (in $connections:literal: $($test:ident)*) => {$(
        #[test]
        fn $test() {
            crate::leaving_nothing(|| crate::$test($connections));
        }
    )*};
    ($($name:ident: $connections:literal;)*) => {$(
        mod $name {
            over! { in $connections:
                a_link_that_is_cut_ends_the_session_on_both_sides
                a_connection_that_is_reset_ends_the_session_on_both_sides
                a_peer_that_vanishes_without_a_word_is_given_up
                a_flipped_bit_is_found
                delays_stalls_and_slow_readers_are_waited_for
            }
        }
    )*};
}

over! {
    one: 1;
    two: 2;
    four: 4;
}

/// Whether a session is over because a connection ended.
fn is_cut(reason: &SessionError) -> bool {
    matches!(
        reason,
        SessionError::Link(
            LinkError::PeerClosed(_) | LinkError::RecordTruncated { .. } | LinkError::Io { .. }
        )
    )
}

fn a_link_that_is_cut_ends_the_session_on_both_sides(connections: u32) {
    for reason in broken_by(Conduct::Cut, &config(), connections) {
        assert!(is_cut(&reason), "{reason:?}");
    }
}

#[test]
fn one_connection_of_several_that_is_cut_ends_the_session_on_both_sides() {
    leaving_nothing(|| {
        for reason in broken_by(Conduct::CutLast, &config(), 3) {
            assert!(is_cut(&reason), "{reason:?}");
        }
    });
}

#[test]
fn it_does_so_when_nothing_is_under_way() {
    leaving_nothing(|| {
        let trio = Trio::start(&config(), 3);
        let [zero, one, _] = &trio.nodes;
        let waiting = [(zero, 1), (one, 0)]
            .map(|(node, peer)| (node.receive(Rank(peer), Tag(7), HostBuffer::zeroed(10).all()), peer));
        trio.relay.conduct(Conduct::CutLast);
        for (receive, peer) in waiting {
            let reason = reason(receive, peer);
            assert!(is_cut(&reason), "{reason:?}");
        }
        trio.check_bystanders();
    });
}

fn a_connection_that_is_reset_ends_the_session_on_both_sides(connections: u32) {
    for reason in broken_by(Conduct::Reset, &config(), connections) {
        assert!(matches!(reason, SessionError::Link(_)), "{reason:?}");
    }
}

fn a_peer_that_vanishes_without_a_word_is_given_up(connections: u32) {
    // Nobody closes anything: only silence tells.
    let config = NodeConfig { silence_timeout: SILENCE, ..config() };
    let expected = [SessionError::Silent(SILENCE), SessionError::Silent(SILENCE)];
    assert_eq!(broken_by(Conduct::Hold, &config, connections), expected);
}

fn a_flipped_bit_is_found(connections: u32) {
    let [_, of_one] = broken_by(Conduct::Flip, &config(), connections);
    let found = matches!(of_one, SessionError::Link(LinkError::Checksum { peer: Rank(0), .. }));
    assert!(found, "{of_one:?}");
}

fn delays_stalls_and_slow_readers_are_waited_for(connections: u32) {
    let trio = Trio::start(&config(), connections);
    let [zero, one, _] = &trio.nodes;
    let slow = Conduct::Slow(Duration::from_millis(1));
    for conduct in [slow, Conduct::Pass] {
        trio.relay.conduct(conduct);
        let sent = noise(3, 2 << 20);
        let into = HostBuffer::zeroed(sent.len());
        let receive = one.receive(Rank(0), Tag(3), into.all());
        let send = zero.send(Rank(1), Tag(3), HostBuffer::from(sent.clone()).all(), Element::U8);
        let read = one.read(Rank(0), trio::REGION, HostBuffer::zeroed(4 << 20).all());
        // Nothing at all for a while, in the middle of it.
        trio.relay.conduct(Conduct::Hold);
        trio.check_bystanders();
        std::thread::sleep(SHORT / 5);
        trio.relay.conduct(conduct);
        trio.check_bystanders();
        assert_eq!((end_of(receive), end_of(send)), (Ok(2 << 20), Ok(2 << 20)));
        assert_eq!(end_of(read), Ok(4 << 20));
        assert!(into.all().to_vec() == sent);
    }
}
