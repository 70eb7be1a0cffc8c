//! Connections that bring no good hello.

use std::fs::File;

use mgcomp_transport::link::shm::{Shm, ShmJob};
use mgcomp_transport::message::Rank;
use mgcomp_transport::node::PeerState;
use rustix::net::{SendFlags, send};

use crate::bystanders::{Bystanders, RANKS, wait_for};
use crate::common::fabric::shm_config;
use crate::common::job::{config, node};
use crate::common::{LIMITS, Random, SECRET, noise, watched};
use crate::raw::{RING, Raw, accept_hello, greeting, hello, listen_as, sealed, unsealed};

#[test]
fn garbage_is_refused() {
    watched(|| {
        let job = Bystanders::start();
        for seed in 0..200 {
            let raw = Raw::connect(&job.name);
            raw.say(&noise(seed, 1 + Random(seed).below(300)), &[]);
            raw.expect_answer(14);
        }
        // Nothing at all, which is no different from going away.
        let raw = Raw::connect(&job.name);
        raw.say(&[], &[]);
        raw.expect_end();
        job.check();
    });
}

#[test]
fn hellos_that_are_wrong_are_refused_and_told_why() {
    watched(|| {
        let job = Bystanders::start();
        let refused = |message: &[u8], status: u8| {
            let raw = Raw::connect(&job.name);
            raw.say(message, &[&raw.memory]);
            raw.expect_answer(status);
        };
        let good = hello(2, RANKS);
        (1..good.len()).for_each(|len| refused(&good[..len], 14)); // truncated
        refused(&[&good[..], &[0]].concat(), 14);
        let changed = |at: usize, value: u8| {
            let mut hello = good.clone();
            hello[at] = value;
            hello
        };
        refused(&changed(0, b'N'), 14);
        refused(&changed(7, 1), 14); // reserved
        refused(&[&changed(4, 2)[..32], &[0; 9]].concat(), 7); // another version, which nobody knows more of
        (8..24).for_each(|at| refused(&changed(at, !good[at]), 8)); // another secret
        // The secret is checked first: who does not know it learns nothing of the job.
        let mut stranger = hello(0, 99);
        stranger[8] ^= 1;
        refused(&stranger, 8);
        refused(&hello(2, RANKS + 1), 10);
        for rank in [0, 1, RANKS, u32::MAX] {
            refused(&hello(rank, RANKS), 9); // rank 0 itself; one that is there; none
        }
        job.check();
        // None of this has taken the seat of rank 2.
        job.join(2);
        // A member that is joined by another link will not come again, so nobody waits for it.
        let mut other = hello(3, RANKS);
        other[6] = 1;
        refused(&other, 14);
        job.expect_over(3, "Link(OtherLink { peer: Rank(3), theirs: 1, own: 0 })");
        job.check();
    });
}

#[test]
fn a_member_of_another_version_is_not_waited_for() {
    watched(|| {
        let job = Bystanders::start();
        let other = |rank: u32, at: usize| {
            let mut hello = hello(rank, RANKS);
            hello[4] = 9;
            hello[at] ^= u8::from(at != 4);
            let raw = Raw::connect(&job.name);
            raw.say(&hello, &[&raw.memory]);
            raw.expect_answer(7);
        };
        // Whoever does not know the secret takes nobody's seat; nor does who is there, or nobody.
        (8..24).for_each(|at| other(2, at));
        [0, 1, RANKS].into_iter().for_each(|rank| other(rank, 4));
        job.check();
        job.join(2);
        other(3, 4);
        job.expect_over(3, "Link(OtherVersion { peer: Rank(3), theirs: 9, own: 1 })");
        job.check();
    });
}

#[test]
fn memory_that_could_fault_is_refused() {
    watched(|| {
        let job = Bystanders::start();
        let len = 4096 + 2 * RING;
        let refused = |hello: &[u8], files: &[&File]| {
            let raw = Raw::connect(&job.name);
            raw.say(hello, files);
            raw.expect_answer(14);
        };
        let good = hello(2, RANKS);
        let on_disk = tempfile::tempfile().unwrap();
        on_disk.set_len(len).unwrap();
        refused(&good, &[]);
        refused(&good, &[&unsealed(len)]);
        refused(&good, &[&on_disk]);
        refused(&good, &[&File::open("/dev/zero").unwrap()]);
        for wrong in [0, 4096, len - 1, len + 1] {
            refused(&good, &[&sealed(wrong)]);
        }
        refused(&good, &[&sealed(len), &sealed(len)]);
        for ring in [0, 1, RING - 1, 2048, 3 * RING, 1 << 31, 1 << 63, u64::MAX] {
            let mut hello = good.clone();
            hello[32..].copy_from_slice(&ring.to_le_bytes());
            refused(&hello, &[&sealed(len)]);
        }
        job.check();
        job.join(2);
    });
}

#[test]
fn a_rank_that_comes_twice_is_refused() {
    watched(|| {
        let job = Bystanders::start();
        let first = job.join(2);
        let second = Raw::connect(&job.name);
        second.hello(2, RANKS);
        second.expect_answer(9);
        first.record(&greeting(2, RANKS));
        crate::bystanders::wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
        job.check();
    });
}

#[test]
fn members_get_in_past_a_crowd_of_silent_strangers() {
    watched(|| {
        let job = Bystanders::start();
        let crowd: Vec<_> = (0..100).map(|_| Raw::connect(&job.name)).collect();
        job.check();
        let raw = job.join(2);
        raw.record(&greeting(2, RANKS));
        crate::bystanders::wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
        assert_eq!(job.nodes[0].peer_state(Rank(3)), Some(PeerState::Greeting));
        drop(crowd);
        job.check();
    });
}

#[test]
fn a_refusal_says_why_whatever_the_other_side_is() {
    watched(|| {
        // The status, and the form of whoever answers: 1 is another one than this rank's.
        for (number, (status, form, reason)) in [
            (8, 0, "Refused(WrongSecret)"),
            (8, 1, "Refused(WrongSecret)"),
            (9, 1, "Refused(WrongRank)"),
            (14, 1, "Link(OtherLink { peer: Rank(0), theirs: 1, own: 0 })"),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("refusals-{}-{number}", std::process::id());
            let listener = listen_as(&format!("mgcomp-{name}-0"));
            let job = ShmJob::new(SECRET, 2).named(&name);
            let link = Shm::new(job, Rank(1), shm_config(LIMITS)).unwrap();
            let node = node(Box::new(link), "fixed:none", config());
            let socket = accept_hello(&listener);
            send(&socket, &[b'M', b'G', b'C', b'S', 1, 0, status, form], SendFlags::NOSIGNAL).unwrap();
            let over = format!("Over({reason}");
            wait_for(&node, Rank(0), &over, |state| state.starts_with(&over));
        }
    });
}
