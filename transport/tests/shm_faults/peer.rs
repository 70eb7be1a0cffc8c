//! What a peer in a process of its own does, until it is killed or its input ends.

use std::fs;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};

use mgcomp_codecs::Element;
use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::link::{Link, LinkEvent};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::{Node, NodeConfig};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::bystanders::{RANKS, wait_for};
use crate::common::fabric::shm_config;
use crate::common::job::{config, node};
use crate::common::{HANGS, LIMITS, SECRET, wait_until};
use crate::raw::{self, RING, Raw, WRITTEN, greeting, record};

/// Variables that say what to do, and in which job.
pub(crate) const STAGE: &str = "MGCOMP_TEST_STAGE";
pub(crate) const JOB: &str = "MGCOMP_TEST_JOB";
/// Before what it says.
pub(crate) const MARK: &str = "PEER ";

/// What goes to and fro in `echoes`, and what `sends` sends at a time: more than the rings hold.
pub(crate) const TO_PEER: Tag = Tag(7);
pub(crate) const FROM_PEER: Tag = Tag(8);
pub(crate) const LEN: usize = 4 << 20;

/// Bytes of a record of which `in-a-record` writes half.
const LONG_RECORD: u32 = 1 << 20;

/// Is rank 2 of the job, or what claims to be; with `listens`, what claims to be rank 0.
pub(crate) fn act() {
    let variable = |name| std::env::var(name).expect("the other tests start this");
    let (stage, job) = (variable(STAGE), variable(JOB));
    let name = format!("mgcomp-{job}-0");
    match stage.as_str() {
        "connects" => stay(Raw::connect(&name), ""),
        "hands-over" => stay(seated(&name), ""),
        "in-a-record" => stay(in_a_record(&name), ""),
        "leaves-a-child" => leave_a_child(&name),
        "closes-beside-a-child" => close_beside_a_child(&job),
        "listens" => listen(&name),
        "sleeps" => stay(member(&job), ""),
        "sends" => send_on_and_on(&member(&job)),
        "echoes" => echo(&member(&job)),
        other => panic!("there is no stage {other:?}"),
    }
}

fn tell(what: &str) {
    println!("{MARK}{what}");
}

/// Says that it is there, and stays with what it has.
fn stay<T>(held: T, more: &str) {
    tell(&format!("there {more}"));
    let _ = io::stdin().read_to_end(&mut Vec::new());
    drop(held);
}

/// Has handed over its memory; the answer is there and not looked at.
fn seated(name: &str) -> Raw {
    let raw = Raw::connect(name);
    raw.hello(2, RANKS);
    raw.await_ready();
    raw
}

/// Has a session, and has written half of a record that is longer than the ring.
fn in_a_record(name: &str) -> Raw {
    let raw = seated(name);
    raw.expect_answer(0);
    raw.record(&greeting(2, RANKS));
    let send = [&[0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9][..], &(LONG_RECORD - 16).to_be_bytes()].concat();
    let mut front = record(&send);
    front[..4].copy_from_slice(&LONG_RECORD.to_le_bytes());
    front.resize(64, 0);
    let mut at = raw.word(WRITTEN);
    raw.put(at, &front);
    while at < u64::from(LONG_RECORD / 2) {
        at += 64;
        raw.set(WRITTEN, at);
        raw.ring();
        wait_until("rank 0 has read some", || raw.read() + RING >= at + 64);
    }
    raw
}

/// Has a session, and a child that keeps what it had when it is gone. Tells who that is.
fn leave_a_child(name: &str) {
    let raw = seated(name);
    raw.expect_answer(0);
    raw.record(&greeting(2, RANKS));
    fcntl_setfd(&raw.socket, FdFlags::empty()).unwrap();
    fcntl_setfd(&raw.memory, FdFlags::empty()).unwrap();
    let mut child = sleeping_child();
    stay(raw, &child.id().to_string());
    // Only where this process was not killed before.
    child.kill().and_then(|()| child.wait()).unwrap();
}

/// Rank 2's end of a link that has met rank 0, and a child that has its sockets. Closes the way to rank 0 when it is told to,
/// without a word, and lives on.
fn close_beside_a_child(job: &str) {
    let job = ShmJob::new(SECRET, RANKS).named(job);
    let mut link = Shm::new(job, Rank(2), shm_config(LIMITS)).unwrap();
    let (met, greeted) = mpsc::channel();
    let sink = move |event| {
        if let LinkEvent::Message { from: Rank(0), .. } = event {
            let _ = met.send(());
        }
    };
    link.start(Arc::new(sink)).unwrap();
    greeted.recv_timeout(HANGS).expect("rank 0 greets");
    sockets().for_each(keep_for_children);
    let mut child = sleeping_child();
    tell(&format!("there {}", child.id()));
    let _ = io::stdin().read_exact(&mut [0]);
    link.close(Rank(0));
    let _ = io::stdin().read_to_end(&mut Vec::new());
    child.kill().and_then(|()| child.wait()).unwrap();
}

/// This process's sockets.
fn sockets() -> impl Iterator<Item = i32> {
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|path| path.to_string_lossy().starts_with("socket:"))
    };
    let entries = fs::read_dir("/proc/self/fd").unwrap().flatten().filter(is_socket);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[allow(unsafe_code)] // a descriptor of the library's
fn keep_for_children(socket: i32) {
    // SAFETY: the link that has it is there for as long.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    fcntl_setfd(socket, FdFlags::empty()).unwrap();
}

/// A process that has what children get.
fn sleeping_child() -> Child {
    let mut sleep = Command::new("sleep");
    sleep.arg(HANGS.as_secs().to_string());
    sleep.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sleep.spawn().unwrap()
}

/// Takes the hello and the memory of a rank that connects, and says nothing.
fn listen(name: &str) {
    let listener = raw::listen_as(name);
    tell("there");
    let socket = raw::accept_hello(&listener);
    tell("has a hello");
    let _ = io::stdin().read_to_end(&mut Vec::new());
    drop(socket);
}

/// A rank in good order that has met rank 0, over rings that hold next to nothing.
fn member(job: &str) -> Node {
    let job = ShmJob::new(SECRET, RANKS).named(job);
    let shm = ShmConfig { ring_bytes: Some(4096), ..shm_config(LIMITS) };
    let config = NodeConfig { silence_timeout: HANGS, ..config() };
    let node = node(Box::new(Shm::new(job, Rank(2), shm).unwrap()), "fixed:none", config);
    wait_for(&node, Rank(0), "a session", |state| state == "Open");
    node
}

fn send_on_and_on(node: &Node) {
    tell("there");
    let buffer = HostBuffer::zeroed(LEN);
    while node.send(Rank(0), FROM_PEER, buffer.all(), Element::U8).wait().is_ok() {}
    tell("lost");
}

fn echo(node: &Node) {
    tell("there");
    let buffer = HostBuffer::zeroed(LEN);
    loop {
        let received = node.receive(Rank(0), TO_PEER, buffer.all()).wait();
        if received.and_then(|_| node.send(Rank(0), FROM_PEER, buffer.all(), Element::U8).wait()).is_err() {
            break tell("lost");
        }
    }
}
