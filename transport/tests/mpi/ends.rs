//! Ranks, threads and MPI itself that go.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::link::mpi::{Mpi, MpiConfig, MpiError};
use mgcomp_transport::link::{self, LinkError};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::Node;
use mgcomp_transport::session::{SessionError, TransferError};
use mpi::topology::{Communicator as _, SimpleCommunicator};
use mpi::traits::CommunicatorCollectives;

use super::under::{Job, node, other};
use crate::common::job::end_of;
use crate::common::{HANGS, wait_until};

/// In which time an end must be noticed.
const NOTICED: Duration = Duration::from_secs(10);

fn receive(node: &Node, peer: Rank) -> mgcomp_transport::node::Handle {
    node.receive(peer, Tag(1), HostBuffer::zeroed(10).all())
}

fn is_finalized(error: &TransferError) -> bool {
    matches!(error, TransferError::Session { error: SessionError::Link(LinkError::MpiFinalized(_)), .. })
}

pub(super) fn mpi_is_finalized_while_a_node_lives(job: &Job) {
    let node = job.node("adaptive", HANGS);
    let waiting: Vec<_> = node.position().peers().map(|peer| receive(&node, peer)).collect();
    job.world.barrier();
    job.finalize();
    for handle in waiting {
        let error = end_of(handle).unwrap_err();
        // Or the peer has said first that it goes.
        assert!(is_finalized(&error) || error.to_string().contains("clos"), "{error}");
    }
    let later = end_of(receive(&node, Rank((node.position().rank.0 + 1) % node.position().ranks)));
    assert!(later.is_err());
}

pub(super) fn a_rank_that_leaves_is_noticed(job: &Job) {
    let node = job.node("adaptive", HANGS);
    let own = node.position().rank;
    job.world.barrier(); // all have met
    if own == Rank(2) {
        drop(node);
        return;
    }
    let started = Instant::now();
    let error = end_of(receive(&node, Rank(2))).unwrap_err();
    assert!(error.to_string().contains("clos") && started.elapsed() < NOTICED, "{error}");
    // The others go on.
    let peer = Rank(1 - own.0);
    let buffer = HostBuffer::from(vec![own.0 as u8; 100_000]);
    let into = HostBuffer::zeroed(100_000);
    let sending = node.send(peer, Tag(7), buffer.all(), Element::U8);
    assert_eq!(end_of(node.receive(peer, Tag(7), into.all())), Ok(100_000));
    assert!(into.all().to_vec().iter().all(|&byte| u32::from(byte) == peer.0));
    end_of(sending).unwrap();
}

/// Rank 1 computes for longer than rank 0 is patient. Where the link has a thread of its own that does no harm.
pub(super) fn a_rank_that_does_not_go_on_is_noticed(job: &Job) {
    let silence = Duration::from_millis(1000);
    let config = MpiConfig { undriven_timeout: 2 * silence, ..MpiConfig::default() };
    let node = node(job.link_with(config), "adaptive", silence);
    let peer = other(&node);
    job.world.barrier();
    if node.position().rank == Rank(0) {
        let result = end_of(receive(&node, peer));
        if job.multiple {
            assert_eq!(result, Ok(5));
        } else {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("silent for 1s"), "{error}");
        }
        return;
    }
    // Another thread waits, and the one that may call MPI does something else.
    let waiting = receive(&node, peer);
    let waiter = thread::spawn(move || end_of(waiting));
    thread::sleep(4 * silence);
    if job.multiple {
        let five = HostBuffer::from(vec![1; 5]);
        assert_eq!(end_of(node.send(peer, Tag(1), five.all(), Element::U8)), Ok(5));
        drop(node);
        assert!(waiter.join().unwrap().is_err());
    } else {
        wait_until("the other thread is told", || waiter.is_finished());
        let error = waiter.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("has not let it go on for 2 s"), "{error}");
        link::drive();
    }
}

pub(super) fn threads_that_may_not_call_mpi_are_told(job: &Job) {
    let made = thread::spawn(|| Mpi::new(&SimpleCommunicator::world(), MpiConfig::default()).map(drop));
    let expected = if job.multiple { Ok(()) } else { Err(MpiError::OtherThread) };
    assert_eq!(made.join().unwrap(), expected);
    // A link of one rank has nothing to do.
    let node = job.node("adaptive", HANGS);
    assert_eq!(node.position().ranks, job.world.size() as u32);
}
