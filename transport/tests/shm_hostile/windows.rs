//! What peers say of windows, to ranks that have no device: nobody needs one to say nonsense.

use std::fs::File;

use mgcomp_transport::link::cuda::ipc::{CudaIpc, CudaIpcConfig};

use crate::bystanders::{Bystanders, RANKS, wait_for};
use crate::common::fabric::shm_config;
use crate::common::job::config;
use crate::common::{LIMITS, wait_until, watched};
use crate::raw::{Raw, WRITTEN, greeting, hello, record};
use mgcomp_transport::message::Rank;

fn start() -> Bystanders {
    let with_windows = CudaIpcConfig { shm: shm_config(LIMITS), ..CudaIpcConfig::new(LIMITS) };
    let link = |job, rank| CudaIpc::new(job, rank, None, with_windows).unwrap();
    Bystanders::start_over(&config(), |job, rank| Box::new(link(job, rank)))
}

/// Connects to rank 0 with a session.
fn join(job: &Bystanders, rank: u32) -> Raw {
    let raw = Raw::connect(&job.name);
    let mut hello = hello(rank, RANKS);
    hello[6] = 1;
    raw.say(&hello, &[&raw.memory]);
    raw.expect_answer(0);
    raw.record(&greeting(rank, RANKS));
    wait_for(&job.nodes[0], Rank(rank), "a session", |state| state == "Open");
    raw
}

/// Puts a record of this kind behind the greeting.
fn put(raw: &Raw, kind: u8, message: &[u8]) {
    let mut record = record(message);
    record[4] = kind;
    record.resize(record.len().next_multiple_of(64), 0);
    let at = raw.word(WRITTEN);
    raw.put(at, &record);
    raw.set(WRITTEN, at + record.len() as u64);
    raw.ring();
}

/// A tagged send of 16 bytes and what is in the place of its payload.
fn tagged(place: &[u8]) -> Vec<u8> {
    [&[0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 16][..], place].concat()
}

#[test]
fn notes_that_are_none_end_the_session() {
    watched(|| {
        let job = start();
        let notes: [(&[u8], &str); 3] = [
            (&[9, 0, 0, 0, 0, 0, 0, 0], "Link(Note { peer: Rank(2), got: 8, first: 9 })"),
            (&[2; 600], "Link(Note { peer: Rank(3), got: 513, first: 2 })"),
            (b"\x06\0\0\0\0\0\0\0gone", "Link(Device { peer: Rank(4), text: \"gone\" })"),
        ];
        for (rank, (note, reason)) in (2..).zip(notes) {
            let raw = join(&job, rank);
            raw.say(note, &[]);
            job.expect_over(rank, reason);
            job.check();
        }
    });
}

/// Files that come with notes are this process's until they are closed.
#[test]
fn notes_without_an_end_end_the_session() {
    watched(|| {
        let job = start();
        let raw = join(&job, 2);
        let null = File::open("/dev/null").unwrap();
        for _ in 0..10_000 {
            raw.say(&[3, 0, 0, 0, 0, 0, 0, 0], &[&null]);
        }
        job.expect_over(2, "Link(Note { peer: Rank(2), got: 8, first: 3 })");
        let files = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        // Other tests have some too.
        wait_until("the files are closed", || files() < 1000);
        job.check();
    });
}

#[test]
fn payloads_that_are_nowhere_end_the_session() {
    watched(|| {
        let job = start();
        let place = [&512u64.to_le_bytes()[..], &16u64.to_le_bytes()].concat();
        let records: [(u8, Vec<u8>, &str); 3] = [
            (1, tagged(&place), "Link(WindowPlace { peer: Rank(2), offset: 512, len: 16, window_bytes: 0 })"),
            (1, tagged(&place[..15]), "Link(RecordPlace { peer: Rank(3), record: 1, len: 15 })"),
            (2, tagged(&place), "Link(RecordKind { peer: Rank(4), record: 1, kind: 2 })"),
        ];
        for (rank, (kind, message, reason)) in (2..).zip(records) {
            let raw = join(&job, rank);
            put(&raw, kind, &message);
            job.expect_over(rank, reason);
            job.check();
        }
    });
}

#[test]
fn windows_that_cannot_be_mapped_are_declined() {
    watched(|| {
        let job = start();
        let raw = join(&job, 2);
        // This rank has none to offer.
        raw.expect_note(&[3, 0, 0, 0, 0, 0, 0, 0]);
        let offer = [2u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        let null = File::open("/dev/null").unwrap();
        for files in [&[][..], &[&null], &[&null, &null]] {
            raw.say(&offer, files);
            raw.expect_note(&[4, 0, 0, 0, 0, 0, 0, 0]);
        }
        // Words in the wrong place and order are of no effect.
        for note in [3, 4, 5, 4, 5] {
            raw.say(&[note, 0, 0, 0, 0, 0, 0, 0], &[&null]);
        }
        put(&raw, 0, &tagged(&[7; 16]));
        job.check();
        assert_eq!(format!("{:?}", job.nodes[0].peer_state(Rank(2)).unwrap()), "Open");
    });
}

#[test]
fn ranks_with_and_without_windows_say_so() {
    watched(|| {
        let job = start();
        let raw = Raw::connect(&job.name);
        raw.hello(2, RANKS);
        raw.expect_answer(14);
        let reason = "Link(OtherLink { peer: Rank(2), theirs: 0, own: 1 })";
        job.expect_over(2, reason);
        job.check();
    });
}
