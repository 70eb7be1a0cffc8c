//! What a peer leaves behind on the link between the devices of processes when it goes, and a device that is busy by then.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_tests::stub::{Stub, told};
use mgcomp_transport::link::{Link as _, LinkEvent};
use mgcomp_transport::message::Rank;
use mgcomp_transport::payload::{MemoryKind, Payload};

use crate::ipc_failures::{HERE, bare, left_on, next_event, next_message, numbered, served};
use crate::ipc_link::job_name;
use crate::rig::{Busy, HANGS, with_threads};

/// In the second process: rank 1 of so many, which sends rank 0 a payload of its device once they have met.
fn send_and_stay(name: &str, ranks: u32) {
    let payload = left_on(1);
    let (link, events) = bare(name, 1, ranks);
    println!("\n{HERE}");
    assert_eq!(next_message(&events).0, 0);
    link.send(Rank(0), numbered(1, payload)).unwrap();
    thread::sleep(HANGS);
}

fn wait_until_all_are_closed(stub: &Stub) {
    let started = Instant::now();
    while stub.left().contains("imports") {
        assert!(started.elapsed() < HANGS, "hangs: {} are left", stub.left());
        thread::sleep(Duration::from_millis(2));
    }
}

/// To unmap a window waits for the device, by these handles.
#[test]
fn a_window_that_is_not_unmapped_yet_holds_nobody_up() {
    gone_while_busy("ipc_ends::a_window_that_is_not_unmapped_yet_holds_nobody_up", true);
}

/// So does to free one, of which the last payload is dropped by whoever has looked at it.
#[test]
fn a_window_that_is_not_freed_yet_holds_nobody_up() {
    gone_while_busy("ipc_ends::a_window_that_is_not_freed_yet_holds_nobody_up", false);
}

/// Rank 1 goes while device 0 is busy, or before; rank 2 is a peer as well.
fn gone_while_busy(test: &str, busy_first: bool) {
    with_threads(test, 8, |stub| {
        stub.set("devices", 3);
        // As the driver: to free memory of a device waits for all of its work.
        stub.set("strict_free", 0);
        if let Some(name) = told() {
            return send_and_stay(&name, 3);
        }
        let name = job_name();
        let (mut process, _output) = served(test, &name);
        let [(own, own_events), (other, events)] = [0, 2].map(|rank| bare(&name, rank, 3));
        own.send(Rank(1), numbered(0, Payload::from_bytes(vec![1; 10].into()))).unwrap();
        let (number, left, _) = next_message(&own_events);
        assert_eq!((number, left.memory_kind()), (1, MemoryKind::Device(0)), "there is a window");
        // Kept, for to free them waits as well.
        let payloads = [left_on(0), left_on(2)];
        let exchange = |number| {
            own.send(Rank(2), numbered(number, payloads[0].clone())).unwrap();
            other.send(Rank(0), numbered(number, payloads[1].clone())).unwrap();
            for (events, ordinal) in [(&events, 2), (&own_events, 0)] {
                let (found, payload, _) = next_message(events);
                assert_eq!((found, payload.memory_kind()), (number, MemoryKind::Device(ordinal)));
            }
        };
        exchange(2);

        let busy_before = busy_first.then(|| Busy::on(0));
        process.kill().unwrap();
        process.wait().unwrap();
        for events in [&own_events, &events] {
            let end = next_event(events);
            assert!(matches!(end, LinkEvent::Closed { peer: Rank(1), .. }), "{end:?}");
        }
        if !busy_first {
            wait_until_all_are_closed(stub);
        }
        let busy = busy_before.unwrap_or_else(|| Busy::on(0));
        drop(left);
        (3..40).for_each(exchange);

        // Nor does the end of the link wait for as long as it takes.
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            drop(own);
            done.send(()).unwrap();
        });
        is_done.recv_timeout(HANGS).expect("hangs: the end of a link waits for the device");
        let end = next_event(&events);
        assert!(matches!(end, LinkEvent::Closed { peer: Rank(0), .. }), "{end:?}");
        busy.end();
    });
}

/// What the program keeps of a window when the link has ended, it lets go of whatever the device does.
#[test]
fn a_window_that_outlives_its_link_is_freed_without_being_waited_for() {
    const TEST: &str = "ipc_ends::a_window_that_outlives_its_link_is_freed_without_being_waited_for";
    with_threads(TEST, 9, |stub| {
        stub.set("devices", 2);
        // As the driver: to free memory of a device waits for all of its work.
        stub.set("strict_free", 0);
        if let Some(name) = told() {
            return send_and_stay(&name, 2);
        }
        let name = job_name();
        let (mut process, _output) = served(TEST, &name);
        let (own, events) = bare(&name, 0, 2);
        own.send(Rank(1), numbered(0, Payload::from_bytes(vec![1; 10].into()))).unwrap();
        let (number, left, credit) = next_message(&events);
        assert_eq!((number, left.memory_kind()), (1, MemoryKind::Device(0)), "there is a window");
        drop((credit, own, events));

        let busy = Busy::on(0);
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            drop(left);
            done.send(()).unwrap();
        });
        is_done.recv_timeout(HANGS).expect("hangs: who lets go of a payload waits for the device");
        busy.end();
        process.kill().unwrap();
        process.wait().unwrap();
        // It is freed all the same, which is looked for at the end.
    });
}
