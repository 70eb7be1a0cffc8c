//! Those who connect ten thousand times and say nothing, and those who hand over what is no memory.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;

use mgcomp_transport::message::Rank;
use rustix::event::epoll;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::bystanders::{RANKS, wait_for};
use crate::common::footprint::descriptors_and_rss_kib;
use crate::common::wait_until;
use crate::raw::{RING, Raw, greeting, hello, unsealed};
use crate::{leaving_nothing, patient_job};

const ATTEMPTS: usize = 10_000;
/// So many come at once, of whom one stays.
const GROUP: usize = 50;
/// Of those, how many stay at once.
const STAYING: usize = 100;
/// Descriptors of a rank for strangers beside: those whose hello is awaited. A stranger of the test itself has two.
const AWAITED: usize = 64 + 16;
const MOST_KIB: u64 = 64 << 10;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

#[test]
fn ten_thousand_silent_strangers_take_next_to_nothing_and_harm_nobody() {
    leaving_nothing(|| {
        let job = patient_job();
        let before = descriptors_and_rss_kib();
        let mut staying = VecDeque::new();
        for group in 1..=ATTEMPTS / GROUP {
            (1..GROUP).for_each(|_| drop(Raw::connect(&job.name)));
            staying.push_back(Raw::connect(&job.name));
            if staying.len() > STAYING {
                staying.pop_front();
            }
            if group % 20 == 0 {
                job.check();
                if let (Some(before), Some(now)) = (before, descriptors_and_rss_kib()) {
                    assert!(now.0 <= before.0 + 2 * STAYING + AWAITED, "{} descriptors", now.0);
                    assert!(now.1 <= before.1 + MOST_KIB, "{} KiB after {} KiB", now.1, before.1);
                }
            }
        }
        let raw = job.join(2);
        raw.record(&greeting(2, RANKS));
        wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
    });
}

/// Memory as it should be, but for the flags and seals.
fn memory(flags: MemfdFlags, seals: SealFlags) -> Option<File> {
    let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags).ok()?;
    ftruncate(&file, 4096 + 2 * RING).ok()?;
    fcntl_add_seals(&file, seals).ok()?;
    Some(file.into())
}

#[test]
fn what_is_no_memory_is_refused_and_not_kept() {
    leaving_nothing(|| {
        let job = patient_job();
        let (pipe, _writer) = std::io::pipe().unwrap();
        let (socket, _other) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let own: [OwnedFd; 3] = [pipe.into(), socket, poller];
        let odd = [
            File::open("/").ok(),
            File::open("/proc/self/maps").ok(),
            memory(MemfdFlags::HUGETLB, SEALS), // none where the system has no such pages
            memory(MemfdFlags::empty(), SEALS | SealFlags::WRITE),
            memory(MemfdFlags::empty(), SEALS | SealFlags::FUTURE_WRITE),
            memory(MemfdFlags::empty(), SealFlags::SHRINK | SealFlags::SEAL),
            memory(MemfdFlags::empty(), SealFlags::GROW | SealFlags::SEAL),
            memory(MemfdFlags::empty(), SealFlags::SHRINK | SealFlags::GROW),
        ];
        for file in own.into_iter().map(File::from).chain(odd.into_iter().flatten()) {
            let raw = Raw::connect(&job.name);
            raw.say(&hello(2, RANKS), &[&file]);
            raw.expect_answer(14);
        }
        job.check();
        job.join(2);
    });
}

/// Whoever sends files with what needs none has them closed.
#[test]
fn files_that_nobody_asked_for_are_not_kept() {
    leaving_nothing(|| {
        let job = patient_job();
        let file = unsealed(1);
        let many = [&file, &file, &file, &file];
        for files in 1..=4 {
            let raw = Raw::connect(&job.name);
            raw.say(b"garbage", &many[..files]);
            raw.expect_answer(14);
        }
        let raw = job.join(2);
        raw.record(&greeting(2, RANKS));
        wait_for(&job.nodes[0], Rank(2), "a session", |state| state == "Open");
        let before = descriptors_and_rss_kib();
        // Not with a hello, nor with the bell.
        for _ in 0..50 {
            raw.say(&[1], &many);
            job.check();
        }
        if let Some(before) = before {
            wait_until("files that nobody asked for are closed", || {
                descriptors_and_rss_kib().is_none_or(|now| now.0 <= before.0)
            });
        }
    });
}
