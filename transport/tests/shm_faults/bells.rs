//! Sockets that are cut while the memory is still there.

use mgcomp_transport::message::Rank;
use rustix::net::{Shutdown, shutdown};

use crate::bystanders::{RANKS, wait_for};
use crate::common::wait_until;
use crate::raw::{WRITTEN_BACK, greeting};
use crate::{leaving_nothing, patient_job};

#[test]
fn without_its_socket_a_peer_is_gone() {
    for how in [Shutdown::Both, Shutdown::Write] {
        leaving_nothing(move || {
            let job = patient_job();
            let raw = job.join(2);
            raw.record(&greeting(2, RANKS));
            wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
            shutdown(&raw.socket, how).unwrap();
            job.expect_over(2, "Link(PeerClosed(Rank(2)))");
            job.check();
        });
    }
}

/// Its own loss: it is not woken. This side gets no signal, and answers.
#[test]
fn who_cannot_be_woken_is_answered_all_the_same() {
    leaving_nothing(|| {
        let job = patient_job();
        let raw = job.join(2);
        raw.record(&greeting(2, RANKS));
        wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
        shutdown(&raw.socket, Shutdown::Read).unwrap();
        for id in 1..20u8 {
            let before = raw.word(WRITTEN_BACK);
            raw.set(crate::raw::READER_SLEEPS_BACK, 1);
            raw.record(&[&[0x10, 0, id << 4][..], &[0; 13]].concat()); // a read of nothing
            wait_until("rank 0 has answered", || raw.word(WRITTEN_BACK) > before);
            raw.set(crate::raw::READ_BACK, raw.word(WRITTEN_BACK));
        }
        wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
        job.check();
    });
}
