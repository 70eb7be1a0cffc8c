//! Nodes and sessions that end in the middle.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::link::LinkError;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Rank, Status, Tag};
use mgcomp_transport::node::{Handle, Node, NodeConfig, PeerState};
use mgcomp_transport::region::Access;
use mgcomp_transport::session::{SessionError, TransferError};

use crate::common::fabric::Fabric;
use crate::common::job::{config, end_of, node, nodes, wait_until_over};
use crate::common::noise;

const LEN: usize = 300_000;

/// Where each node has memory that the others write to.
const SCRATCH: Address = Address::new(0, 0);
/// Where each node has memory that the others read.
const CONTENT: Address = Address::new(1, 0);

/// Opens both on each node.
fn register(nodes: &[Node]) {
    for node in nodes {
        let scratch = node.register(HostBuffer::zeroed(LEN).all(), Element::U8, Access::all());
        let content = HostBuffer::from(noise(node.position().rank.0.into(), LEN));
        let content = node.register(content.all(), Element::U8, Access::read_only());
        assert_eq!((scratch, content), (Ok(SCRATCH), Ok(CONTENT)));
    }
}

/// Checks that `node` can read what `register` gave `peer`.
#[track_caller]
fn check(node: &Node, peer: Rank) {
    let into = HostBuffer::zeroed(LEN);
    assert_eq!(end_of(node.read(peer, CONTENT, into.all())), Ok(LEN as u64));
    assert!(into.all().to_vec() == noise(peer.0.into(), LEN));
}

/// Requests of every kind, of which some finish and some wait for ever.
fn requests(node: &Node, peer: Rank) -> Vec<Handle> {
    let slice = || HostBuffer::zeroed(LEN).all();
    (0..20)
        .flat_map(|i| {
            [
                node.read(peer, CONTENT, slice()),
                node.write(peer, slice(), Element::U8, SCRATCH),
                node.send(peer, Tag(i), slice(), Element::U8),
                node.receive(peer, Tag(1000 + i), slice()),
            ]
        })
        .collect()
}

/// Waits for all requests to `peer`; each went well or failed with its session, for a good reason. Returns how many failed.
#[track_caller]
fn failures(handles: Vec<Handle>, peer: Rank, is_reason: impl Fn(&SessionError) -> bool) -> usize {
    let failed = |handle| match end_of(handle) {
        Ok(_) => false,
        Err(TransferError::Session { peer: of, error }) => {
            assert!(of == peer && is_reason(&error), "{error:?}");
            true
        }
        // The last words of a peer that was dropped may come while a refusal is read.
        Err(other) => panic!("{other:?}"),
    };
    handles.into_iter().map(failed).filter(|&failed| failed).count()
}

pub(crate) fn what_was_posted_arrives_though_its_node_has_gone(fabric: Fabric) {
    let mut nodes = nodes(fabric, 2, "adaptive", &config());
    let lens = [1, 0, 100, 70_000, LEN, 3];
    let receiver = nodes.pop().unwrap();
    let posted: Vec<_> = lens
        .iter()
        .zip(0..)
        .map(|(&len, number)| {
            let bytes = HostBuffer::from(noise(number, len));
            nodes[0].post(Rank(1), Tag(number % 2), bytes.all(), Element::U8)
        })
        .collect();
    // Some links say that a send is written only when it was received.
    let first = HostBuffer::zeroed(LEN);
    let received: Vec<_> =
        (0..2).map(|tag| receiver.receive(Rank(0), Tag(tag), first.slice(0..1).unwrap())).collect();
    for (handle, len) in received.into_iter().zip(lens) {
        assert_eq!(end_of(handle), Ok(len as u64));
    }
    let written: Vec<bool> = posted.into_iter().map(|mut handle| handle.is_finished()).collect();
    drop(nodes);
    wait_until_over(&receiver, Rank(0));
    for (number, (&len, written)) in (0..).zip(lens.iter().zip(written)).skip(2) {
        let into = HostBuffer::zeroed(len);
        let received = end_of(receiver.receive(Rank(0), Tag(number % 2), into.all()));
        match received {
            Ok(got) => assert!(got == len as u64 && into.all().to_vec() == noise(number, len)),
            Err(TransferError::Session { .. }) => assert!(!written, "message {number} is lost"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A thread that waits does the link's work, and what it waits for waits for memory.
pub(crate) fn a_node_may_be_dropped_while_a_receive_waits_for_memory(fabric: Fabric) {
    let mut nodes = nodes(fabric, 2, "fixed:zvc", &config());
    let receiver = nodes.pop().unwrap();
    let into = HostBuffer::zeroed(LEN);
    let held = into.all();
    let held = held.hold();
    let received = receiver.receive(Rank(0), Tag(1), into.all());
    let waiting = thread::spawn(move || received.wait());
    let sent = nodes[0].send(Rank(1), Tag(1), HostBuffer::from(vec![7; LEN]).all(), Element::U8);
    thread::sleep(Duration::from_millis(50));
    let dropping = thread::spawn(move || drop(receiver));
    thread::sleep(Duration::from_millis(50));
    drop(held);
    dropping.join().unwrap();
    let received = waiting.join().unwrap();
    assert!(
        matches!(received, Ok(_) | Err(TransferError::NodeClosed | TransferError::Session { .. })),
        "{received:?}"
    );
    let _ = end_of(sent); // either way
}

/// Whether that is what others see of a node that ends in good order, and has begun to do so then.
fn is_closed_by(peer: Rank, began: Instant) -> impl Fn(&SessionError) -> bool {
    move |error| match error {
        SessionError::Refused(Status::Closing) => true,
        SessionError::Link(LinkError::PeerClosed(of)) => *of == peer,
        // What it still had to say was too much for a busy machine: it is cut off wherever it was.
        SessionError::Link(_) => began.elapsed() >= Duration::from_secs(2),
        _ => false,
    }
}

pub(crate) fn others_go_on_when_a_node_goes(fabric: Fabric) {
    let mut nodes = nodes(fabric, 3, "fixed:zvc", &config());
    register(&nodes);
    let to_gone = [requests(&nodes[0], Rank(1)), requests(&nodes[2], Rank(1))];
    let waiting = nodes[0].receive(Rank(2), Tag(7), HostBuffer::zeroed(10).all());
    let is_reason = is_closed_by(Rank(1), Instant::now());
    drop(nodes.remove(1));
    for handles in to_gone {
        // Those that wait for a receive or a send at rank 1 cannot have gone well.
        assert!(failures(handles, Rank(1), &is_reason) >= 40);
    }
    for node in &nodes {
        let over = wait_until_over(node, Rank(1));
        assert!(is_reason(&over), "{over:?}");
        let late = end_of(node.read(Rank(1), CONTENT, HostBuffer::zeroed(1).all()));
        assert!(matches!(late, Err(TransferError::Session { peer: Rank(1), .. })), "{late:?}");
    }
    check(&nodes[0], Rank(2));
    check(&nodes[1], Rank(0));
    assert_eq!(end_of(nodes[1].send(Rank(0), Tag(7), HostBuffer::zeroed(10).all(), Element::U8)), Ok(10));
    assert_eq!(end_of(waiting), Ok(10));
}

pub(crate) fn disconnecting_ends_one_session(fabric: Fabric) {
    let nodes = nodes(fabric, 3, "fixed:fpc", &config());
    register(&nodes);
    let (here, there) = (requests(&nodes[0], Rank(1)), requests(&nodes[1], Rank(0)));
    let is_reason = is_closed_by(Rank(0), Instant::now());
    nodes[0].disconnect(Rank(1));
    assert!(failures(here, Rank(1), |error| *error == SessionError::Closed) >= 40);
    assert!(failures(there, Rank(0), &is_reason) >= 40);
    // Requests may hear of it first.
    assert_eq!(wait_until_over(&nodes[0], Rank(1)), SessionError::Closed);
    let over = wait_until_over(&nodes[1], Rank(0));
    assert!(is_reason(&over), "{over:?}");
    nodes[0].disconnect(Rank(1)); // of no effect
    check(&nodes[0], Rank(2));
    check(&nodes[1], Rank(2));
    check(&nodes[2], Rank(1));
    assert_eq!(nodes[0].peer_state(Rank(2)), Some(PeerState::Open));
}

pub(crate) fn requests_in_flight_end_with_their_node(fabric: Fabric) {
    // Pieces of 1 KB, so that thousands of jobs are under way.
    let mut nodes = nodes(fabric, 2, "paper", &NodeConfig { piece_bytes: 1000, ..config() });
    register(&nodes);
    let there = requests(&nodes[1], Rank(0));
    let here = requests(&nodes[0], Rank(1));
    let is_reason = is_closed_by(Rank(0), Instant::now());
    drop(nodes.remove(0));
    for handle in here {
        match end_of(handle) {
            Ok(_) | Err(TransferError::NodeClosed) => {}
            Err(TransferError::Session { peer: Rank(1), error: SessionError::Closed }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(failures(there, Rank(0), is_reason) >= 40);
}

pub(crate) fn a_node_that_is_dropped_at_once_ends(fabric: Fabric) {
    let start = |link| node(link, "paper", config());
    let nodes: Vec<_> = fabric.links(4, 1 << 30).into_iter().map(start).collect();
    let handles = requests(&nodes[0], Rank(3));
    drop(nodes);
    // Whether they met or not: nothing is registered, nobody receives.
    handles.into_iter().for_each(|handle| assert!(end_of(handle).is_err()));
}
