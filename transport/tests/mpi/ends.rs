//! Ranks, threads and MPI itself that go.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::link::mpi::{Mpi, MpiConfig, MpiError};
use mgcomp_transport::link::{self, Link as _, LinkError, LinkEvent};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::Node;
use mgcomp_transport::session::{SessionError, TransferError};
use mpi::collective::SystemOperation;
use mpi::topology::{Communicator as _, SimpleCommunicator};
use mpi::traits::CommunicatorCollectives;
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::under::{Job, node, other};
use crate::common::end::numbered;
use crate::common::job::{SILENCE, end_of};
use crate::common::{HANGS, wait_until};

/// In which time an end must be noticed.
const NOTICED: Duration = HANGS.checked_div(2).expect("it is long");

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
    let silence = SILENCE;
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
            assert!(error.contains("silent for 4s"), "{error}");
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
        assert!(error.contains("has not let it go on for 8 s"), "{error}");
        link::drive();
    }
}

pub(super) fn whoever_comes_late_hears_of_the_end(job: &Job) {
    // On a busy machine, MPI may be given nothing before rank 1 is given up.
    let some_arrive = (0..5).any(|_| {
        let (arrived, mut most) = (arrive_late(job), 0);
        job.world.all_reduce_into(&arrived, &mut most, SystemOperation::max());
        most > 0
    });
    assert!(some_arrive, "no message arrives");
}

/// Rank 0 gives rank 1 up, which has not started, with more queued than MPI is given at once. What MPI has arrives, and the end behind it.
/// Returns how many messages that were.
fn arrive_late(job: &Job) -> u64 {
    let mut link = job.link();
    if link.position().rank == Rank(0) {
        link.start(Arc::new(|_| {})).unwrap();
        for number in 0..200 {
            link.send(Rank(1), numbered(number, 10)).unwrap();
        }
        drop(link);
        job.world.barrier(); // rank 1 starts
        job.world.barrier(); // and has heard all; MPI goes on here meanwhile
        return 0;
    }
    job.world.barrier();
    let (report, events) = mpsc::channel();
    link.start(Arc::new(move |event| drop(report.send(event)))).unwrap();
    let mut arrived = 0;
    let started = Instant::now();
    let end = loop {
        link::drive();
        match events.try_recv() {
            Ok(LinkEvent::Message { message, .. }) => {
                assert_eq!(message.header, numbered(arrived, 10).header);
                arrived += 1;
            }
            Ok(LinkEvent::Closed { error, .. }) => break error,
            Ok(LinkEvent::Malformed { error, .. }) => panic!("{error}"),
            Ok(_) => {}
            Err(_) => thread::sleep(Duration::from_micros(200)),
        }
        assert!(started.elapsed() < HANGS, "hangs: no end after {arrived} messages");
    };
    assert_eq!(end, LinkError::PeerClosed(Rank(0)));
    assert!(arrived < 200, "{arrived}");
    job.world.barrier();
    arrived
}

/// Rank 1 is stopped from outside, and goes on when rank 0 has given it up.
pub(super) fn a_rank_that_is_stopped_is_given_up_and_finds_out(job: &Job) {
    let node = job.node("adaptive", Duration::from_secs(4)); // no machine is so slow
    let peer = other(&node);
    let (own, theirs) = (HostBuffer::from(std::process::id().to_le_bytes().to_vec()), HostBuffer::zeroed(4));
    let sending = node.send(peer, Tag(2), own.all(), Element::U8);
    assert_eq!(end_of(node.receive(peer, Tag(2), theirs.all())), Ok(4));
    end_of(sending).unwrap();
    job.world.barrier();
    let waiting = receive(&node, peer);
    if node.position().rank == Rank(1) {
        // Why, depends on what it meets first when it goes on.
        end_of(waiting).unwrap_err();
        return;
    }
    let process = i32::from_le_bytes(theirs.all().to_vec().try_into().unwrap());
    let signal = |signal| kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
    signal(Signal::STOP);
    let error = end_of(waiting).unwrap_err().to_string();
    signal(Signal::CONT);
    assert!(error.contains("silent for 4s"), "{error}");
}

/// MPI sees to that: a process of a job that dies takes the job with it.
pub(super) fn a_rank_that_is_killed_ends_the_job(job: &Job) {
    wait_for_rank_2(job, || kill_process(getpid(), Signal::KILL).unwrap());
}

/// Nor may a process leave that has not finalized MPI.
pub(super) fn a_rank_that_exits_ends_the_job(job: &Job) {
    wait_for_rank_2(job, || std::process::exit(0));
}

/// All but rank 2 wait for it for longer than any test may take.
fn wait_for_rank_2(job: &Job, goes: impl FnOnce()) {
    let node = job.node("adaptive", 2 * HANGS);
    job.world.barrier();
    if node.position().rank == Rank(2) {
        goes();
    }
    let _ = receive(&node, Rank(2)).wait();
    // Whatever they are told: nothing but the end of the job ends this in time.
    thread::sleep(2 * HANGS);
}

pub(super) fn threads_that_may_not_call_mpi_are_told(job: &Job) {
    let made = thread::spawn(|| Mpi::new(&SimpleCommunicator::world(), MpiConfig::default()).map(drop));
    let expected = if job.multiple { Ok(()) } else { Err(MpiError::OtherThread) };
    assert_eq!(made.join().unwrap(), expected);
    // A link of one rank has nothing to do.
    let node = job.node("adaptive", HANGS);
    assert_eq!(node.position().ranks, job.world.size() as u32);
}
