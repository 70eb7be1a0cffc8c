//! Peers that are killed, wherever they are.

use mgcomp_transport::link::LinkError;
use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::{Handle, Node};
use mgcomp_transport::session::{SessionError, TransferError};
use rustix::process::{Pid, Signal, kill_process};

use crate::bystanders::wait_for;
use crate::common::fabric::{shm_config, shm_job};
use crate::common::job::{config, end_of, node};
use crate::common::{LIMITS, SECRET};
use crate::peer::{FROM_PEER, LEN};
use crate::process::Process;
use crate::raw::greeting;
use crate::{leaving_nothing, patient_job};

/// Why a request with rank 2 cannot be carried out.
#[track_caller]
fn link_error(handle: Handle) -> LinkError {
    match end_of(handle) {
        Err(TransferError::Session { peer: Rank(2), error: SessionError::Link(error) }) => error,
        other => panic!("a request with rank 2 came to {other:?}"),
    }
}

fn receive(node: &Node, len: usize) -> Handle {
    node.receive(Rank(2), FROM_PEER, HostBuffer::zeroed(len).all())
}

#[test]
fn before_its_hello_it_was_nobody() {
    leaving_nothing(|| {
        let job = patient_job();
        Process::at("connects", &job.job).kill();
        job.check();
        // Its seat is free.
        let raw = job.join(2);
        raw.record(&greeting(2, crate::bystanders::RANKS));
        wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
    });
}

#[test]
fn with_its_memory_handed_over_it_is_missed() {
    leaving_nothing(|| {
        let job = patient_job();
        let waiting = receive(&job.nodes[0], 10);
        Process::at("hands-over", &job.job).kill();
        assert_eq!(link_error(waiting), LinkError::PeerClosed(Rank(2)));
        job.check();
    });
}

#[test]
fn a_rank_that_dies_before_it_answers_is_looked_for_again() {
    leaving_nothing(|| {
        let name = format!("faults-{}", std::process::id());
        let mut first = Process::at("listens", &name);
        let job = ShmJob::new(SECRET, 2).named(&name);
        let start = |rank| {
            let link = Shm::new(job.clone(), Rank(rank), shm_config(LIMITS)).unwrap();
            node(Box::new(link), "fixed:none", config())
        };
        let one = start(1);
        first.expect("has a hello");
        first.kill();
        let zero = start(0);
        for (node, peer) in [(&zero, Rank(1)), (&one, Rank(0))] {
            wait_for(node, peer, "a session", |state| state == "Open");
        }
    });
}

#[test]
fn a_rank_that_nobody_ever_answers_says_so() {
    leaving_nothing(|| {
        let connect_timeout = std::time::Duration::from_secs(1);
        let shm = ShmConfig { connect_timeout, ..ShmConfig::new(LIMITS) };
        let node = node(Box::new(Shm::new(shm_job(2), Rank(1), shm).unwrap()), "fixed:none", config());
        let waiting = node.receive(Rank(0), Tag(1), HostBuffer::zeroed(1).all());
        let error = end_of(waiting).unwrap_err().to_string();
        assert!(error.contains("not reached within 1 s"), "{error}");
    });
}

#[test]
fn in_the_middle_of_a_record_it_leaves_a_part() {
    leaving_nothing(|| {
        let job = patient_job();
        let waiting = job.nodes[0].receive(Rank(2), Tag(9), HostBuffer::zeroed(1 << 20).all());
        Process::at("in-a-record", &job.job).kill();
        let error = link_error(waiting);
        // All of what was there of it: half a mebibyte, but for what is in the way.
        let part = (500_000..=600_000).contains(&match error {
            LinkError::RecordTruncated { peer: Rank(2), record: 1, got } => got,
            _ => 0,
        });
        assert!(part, "{error}");
        job.check();
    });
}

#[test]
fn in_the_middle_of_much_it_gives_back_what_it_was_received_into() {
    leaving_nothing(|| {
        let job = patient_job();
        let mut peer = Process::at("sends", &job.job);
        assert_eq!(end_of(receive(&job.nodes[0], LEN)), Ok(LEN as u64));
        // More is on its way, to where it goes.
        let into = HostBuffer::zeroed(LEN);
        let waiting: Vec<_> = (0..3).map(|_| job.nodes[0].receive(Rank(2), FROM_PEER, into.all())).collect();
        peer.kill();
        let ends: Vec<_> = waiting.into_iter().map(end_of).collect();
        let lost = |end: &_| matches!(end, Err(TransferError::Session { error: SessionError::Link(_), .. }));
        assert!(ends.iter().all(|end| *end == Ok(LEN as u64) || lost(end)), "{ends:?}");
        into.all().write(|bytes| bytes.fill(1)); // nobody holds it
        // What came whole before it was killed may still be there.
        let mut last = end_of(receive(&job.nodes[0], LEN));
        while last == Ok(LEN as u64) {
            last = end_of(receive(&job.nodes[0], LEN));
        }
        assert!(lost(&last), "{last:?}");
        job.check();
    });
}

#[test]
fn while_both_sleep_it_wakes_whoever_waits() {
    leaving_nothing(|| {
        let job = patient_job();
        let mut peer = Process::at("sleeps", &job.job);
        let waiting = receive(&job.nodes[0], 10);
        std::thread::sleep(std::time::Duration::from_millis(100));
        peer.kill();
        assert_eq!(link_error(waiting), LinkError::PeerClosed(Rank(2)));
        job.check();
    });
}

#[test]
fn a_child_that_has_all_it_had_does_not_keep_it_alive() {
    leaving_nothing(|| {
        let job = patient_job();
        let waiting = receive(&job.nodes[0], 10);
        let mut peer = Process::start("leaves-a-child", &job.job);
        let child = peer.expect("there").parse().unwrap();
        peer.kill();
        assert_eq!(link_error(waiting), LinkError::PeerClosed(Rank(2)));
        job.check();
        kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    });
}

#[test]
fn a_child_that_has_the_sockets_does_not_keep_a_link_open_that_is_closed() {
    leaving_nothing(|| {
        let job = patient_job();
        let waiting = receive(&job.nodes[0], 10);
        let mut peer = Process::start("closes-beside-a-child", &job.job);
        let child = peer.expect("there").parse().unwrap();
        peer.nod();
        assert_eq!(link_error(waiting), LinkError::PeerClosed(Rank(2)));
        job.check();
        kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    });
}
