//! Peers that are there and do not go on.

use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_transport::link::shm::ShmConfig;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::Rank;
use mgcomp_transport::node::{Node, NodeConfig};

use crate::bystanders::{Bystanders, RANKS, wait_for};
use crate::common::fabric::shm_config;
use crate::common::job::{config, end_of};
use crate::common::{HANGS, LIMITS, noise};
use crate::peer::{FROM_PEER, LEN, TO_PEER};
use crate::process::Process;
use crate::raw::{RING, Raw, WRITTEN, greeting, record};
use crate::{job, leaving_nothing, patient_job};

/// How long ranks may be silent where that is what ends a session. Rank 0 waits for nobody but rank 2 then.
const SILENCE: Duration = Duration::from_secs(4);

/// Sends `bytes` to rank 2 and has them sent back.
fn there_and_back(node: &Node, bytes: Vec<u8>, meanwhile: impl FnOnce()) {
    let (from, into) = (HostBuffer::from(bytes), HostBuffer::zeroed(LEN));
    let mut receive = node.receive(Rank(2), FROM_PEER, into.all());
    let send = node.send(Rank(2), TO_PEER, from.all(), Element::U8);
    meanwhile();
    assert_eq!((end_of(send), receive.wait_for(HANGS)), (Ok(LEN as u64), Some(Ok(LEN as u64))));
    assert!(into.all().to_vec() == from.all().to_vec());
}

/// A session with a peer that is the test.
fn with_raw(job: &Bystanders) -> Raw {
    let raw = job.join(2);
    raw.record(&greeting(2, RANKS));
    wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
    raw
}

#[test]
fn who_is_stopped_and_goes_on_in_time_is_waited_for() {
    leaving_nothing(|| {
        let job = patient_job();
        let peer = Process::at("echoes", &job.job);
        for seed in 0..2 {
            there_and_back(&job.nodes[0], noise(seed, LEN), || ());
            peer.stop();
            there_and_back(&job.nodes[0], noise(seed, LEN), || {
                job.check();
                peer.go_on();
            });
        }
        job.check();
    });
}

#[test]
fn who_is_stopped_for_too_long_is_given_up_with_a_full_ring() {
    leaving_nothing(|| {
        let job = job(&NodeConfig { silence_timeout: SILENCE, ..config() });
        let peer = Process::at("echoes", &job.job);
        // Rank 0 asks it for nothing before it is stopped: it may be slow until then.
        wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
        peer.stop();
        let send = job.nodes[0].send(Rank(2), TO_PEER, HostBuffer::zeroed(LEN).all(), Element::U8);
        let error = end_of(send).unwrap_err().to_string();
        assert!(error.contains("rank 2") && error.contains("silent for 4s"), "{error}");
        job.check();
        // Once it goes on, it finds that it was left.
        peer.go_on();
        peer.expect("lost");
    });
}

#[test]
fn who_takes_nothing_is_given_up() {
    leaving_nothing(|| {
        let job = job(&NodeConfig { silence_timeout: SILENCE, ..config() });
        let raw = with_raw(&job);
        let send = job.nodes[0].send(Rank(2), TO_PEER, HostBuffer::from(noise(1, LEN)).all(), Element::U8);
        let error = end_of(send).unwrap_err().to_string();
        assert!(error.contains("rank 2") && error.contains("silent for 4s"), "{error}");
        raw.expect_end();
        job.check();
    });
}

#[test]
fn who_takes_nothing_can_be_left_at_once() {
    leaving_nothing(|| {
        let job = patient_job();
        let raw = with_raw(&job);
        let send = job.nodes[0].send(Rank(2), TO_PEER, HostBuffer::from(noise(1, LEN)).all(), Element::U8);
        job.check();
        job.nodes[0].disconnect(Rank(2));
        let error = end_of(send).unwrap_err().to_string();
        assert!(error.contains("closed on this side"), "{error}");
        raw.expect_end();
        job.check();
    });
}

#[test]
fn who_asks_and_takes_no_answer_is_given_up_when_too_many_wait() {
    leaving_nothing(|| {
        let shm = ShmConfig { queue_bytes: 4 << 20, ..shm_config(LIMITS) };
        let job = Bystanders::start_with(&config(), shm);
        let raw = with_raw(&job);
        let is_open = || format!("{:?}", job.nodes[0].peer_state(Rank(2)).unwrap()) == "Open";
        let mut at = raw.word(WRITTEN);
        // Reads of no bytes, which are answered at once.
        for id in (0..=u16::MAX).cycle() {
            let request = [0x10 | (id >> 12) as u8, (id >> 4) as u8, (id << 4) as u8];
            raw.put(at, &record(&[&request[..], &[0; 13]].concat()));
            at += 64;
            raw.set(WRITTEN, at);
            raw.ring();
            while raw.read() + RING < at + 64 && is_open() {
                std::thread::yield_now();
            }
            if !is_open() {
                break;
            }
        }
        job.expect_over(2, "Send(Full");
        job.check();
    });
}
