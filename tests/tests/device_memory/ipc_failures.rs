//! The link between the devices of processes, with processes, some of which end, hang or want something else.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::{Stub, second, told};
use mgcomp_transport::executor::{self, Outlet, Output, Ticket, Work};
use mgcomp_transport::link::cuda::ipc::{Carried, CudaIpc, CudaIpcConfig, Sharing};
use mgcomp_transport::link::shm::{Shm, ShmConfig};
use mgcomp_transport::link::{Credit, Link, LinkError, LinkEvent, Message, SendError, Sent};
use mgcomp_transport::memory::DeviceBuffer;
use mgcomp_transport::message::{Address, Header, MessageId, Rank, Tag, TaggedSend};
use mgcomp_transport::node::{Node, NodeConfig, PeerState};
use mgcomp_transport::payload::{MemoryKind, Payload};
use mgcomp_transport::region::Access;

use crate::ipc_link::{config, job, job_name};
use crate::peer_link::device;
use crate::rig::{HANGS, SECRET, bytes_of, end_of, end_with, node_over, nodes_over, on_device, with_threads};

const LEN: usize = 200_001;
const PING: Tag = Tag(1);
pub(crate) const HERE: &str = "here";

/// The node of a rank of the job with this name, which has two, and what its link carries.
fn start(name: &str, rank: u32, sharing: Sharing) -> (Node, Arc<Carried>) {
    let (device, _) = device(rank);
    let config = CudaIpcConfig { sharing, ..config() };
    let link = CudaIpc::new(job(name, 2), Rank(rank), Some(device), config).unwrap();
    let carried = link.carried();
    (node_over(Box::new(link), "fixed:bdi"), carried)
}

fn meet(node: &Node) {
    assert!(node.wait_for_peers(HANGS).iter().all(|(_, state)| *state == PeerState::Open));
}

fn raw() -> Vec<u8> {
    data::bytes(Kind::Deltas, LEN, 1)
}

/// In the second process: rank 1, which opens a buffer, sends it back when it has a word, and says that it is there.
fn serve(name: &str, sharing: Sharing) {
    let (device, stream) = device(1);
    let (node, carried) = start(name, 1, sharing);
    let buffer = DeviceBuffer::alloc(&device, LEN).unwrap();
    node.register(buffer.all(), Element::U32, Access::all()).unwrap();
    println!("\n{HERE}");
    meet(&node);
    let word = DeviceBuffer::alloc(&device, 4).unwrap();
    end_of(node.receive(Rank(0), PING, word.all())).unwrap();
    assert!(bytes_of(&stream, &buffer.all()) == raw());
    end_of(node.send(Rank(0), PING, buffer.all(), Element::U32)).unwrap();
    assert!(carried.window_bytes() > 0 && carried.host_bytes() == 0, "{carried:?}");
    // The first process goes when it has all.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// In the first process: the second one, once it is there.
pub(crate) fn served(test: &str, name: &str) -> (Child, BufReader<ChildStdout>) {
    let mut process = second(test, name);
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != HERE {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the second process has ended");
    }
    (process, output)
}

fn with_two_devices(test: &str, body: impl FnOnce(&Stub)) {
    with_threads(test, 7, |stub| {
        stub.set("devices", 2);
        body(stub);
    });
}

/// Writes to rank 1, and gets it back.
fn ask(node: &Node) {
    let (device, stream) = device(0);
    let source = on_device(&device, &stream, &raw());
    let written = end_of(node.write(Rank(1), source.all(), Element::U32, Address::new(0, 0)));
    assert_eq!(written, Ok(LEN as u64));
    let back = DeviceBuffer::alloc(&device, LEN).unwrap();
    let receiving = node.receive(Rank(1), PING, back.all());
    let word = source.slice(0..4).unwrap();
    end_of(node.send(Rank(1), PING, word, Element::U32)).unwrap();
    assert_eq!(end_of(receiving), Ok(LEN as u64));
    assert!(bytes_of(&stream, &back.all()) == raw());
}

#[test]
fn processes_reach_each_other_s_devices_by_handles() {
    by("ipc_failures::processes_reach_each_other_s_devices_by_handles", Sharing::Handles, "");
}

#[test]
fn processes_reach_each_other_s_devices_by_files() {
    by("ipc_failures::processes_reach_each_other_s_devices_by_files", Sharing::Files, "");
}

#[test]
fn where_there_are_no_handles_files_do() {
    by("ipc_failures::where_there_are_no_handles_files_do", Sharing::Any, "no_ipc");
}

fn by(test: &str, sharing: Sharing, without: &str) {
    with_two_devices(test, |stub| {
        if !without.is_empty() {
            stub.set(without, 1);
        }
        if let Some(name) = told() {
            return serve(&name, sharing);
        }
        let name = job_name();
        let (mut process, mut output) = served(test, &name);
        let (node, carried) = start(&name, 0, sharing);
        meet(&node);
        ask(&node);
        assert!(carried.window_bytes() > 0 && carried.host_bytes() == 0, "{carried:?}");
        drop(node);
        drop(process.stdin.take());
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert!(process.wait().unwrap().success(), "{rest}");
    });
}

#[test]
fn a_process_that_is_killed_ends_what_waits_for_it() {
    const TEST: &str = "ipc_failures::a_process_that_is_killed_ends_what_waits_for_it";
    with_two_devices(TEST, |_| {
        if let Some(name) = told() {
            return serve(&name, Sharing::Handles);
        }
        let name = job_name();
        let (mut process, _output) = served(TEST, &name);
        let (node, _) = start(&name, 0, Sharing::Handles);
        meet(&node);
        let (device, stream) = device(0);
        let source = on_device(&device, &stream, &raw());
        let write = || node.write(Rank(1), source.all(), Element::U32, Address::new(0, 0));
        end_of(write()).unwrap();
        let into = DeviceBuffer::alloc(&device, LEN).unwrap();
        let waiting = node.receive(Rank(1), Tag(9), into.all());
        let writes: Vec<_> = (0..5).map(|_| write()).collect();
        process.kill().unwrap();
        process.wait().unwrap();
        let error = end_of(waiting).unwrap_err().to_string();
        assert!(error.contains("rank 1"), "{error}");
        writes.into_iter().for_each(|write| drop(end_of(write)));
        // What it had mapped is given back with everything else.
    });
}

#[test]
fn a_device_that_is_lost_is_heard_of_on_both_sides() {
    const TEST: &str = "ipc_failures::a_device_that_is_lost_is_heard_of_on_both_sides";
    with_two_devices(TEST, |stub| {
        let (mut heard, raw) = ([0; 2], raw());
        // Which wait is whose, threads decide: until it has been both.
        for (round, at) in (1..10).cycle().take(200).enumerate() {
            if round >= 9 && !heard.contains(&0) {
                break;
            }
            let name = job_name();
            let nodes = [0, 1].map(|rank| start(&name, rank, Sharing::Any).0);
            nodes.iter().for_each(meet);
            let (own, other) = (device(0), device(1));
            let source = on_device(&own.0, &own.1, &raw);
            let region = DeviceBuffer::alloc(&other.0, LEN).unwrap();
            let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();
            // As after an access outside of memory, of which this is the first wait to hear.
            stub.fail(Some("cuEventSynchronize"), at, 700);
            let writes: Vec<_> =
                (0..3).map(|_| nodes[0].write(Rank(1), source.all(), Element::U32, address)).collect();
            let ends: Vec<_> = writes.into_iter().map(end_of).collect();
            let has_failed = stub.failed().is_some();
            stub.fail(None, 0, 0);
            assert!(!has_failed || ends.iter().any(Result::is_err), "wait {at}: {ends:?}");
            if !has_failed {
                continue;
            }
            // Where it was a codec's wait, its rank says why it ends, and the other hears that it was the device.
            let texts = [(0, Rank(1)), (1, Rank(0))].map(|(rank, peer)| end_with(&nodes[rank], peer));
            let says = |word: &str| texts.iter().filter(|text| text.contains(word)).count();
            let found = (says("CUDA error 700"), says("peer ended the session: device lost"));
            assert!([(2, 0), (1, 1)].contains(&found), "wait {at}: {texts:?}");
            heard[found.1] += 1;
            // For good.
            let late = end_of(nodes[0].write(Rank(1), source.all(), Element::U32, address)).unwrap_err();
            assert!(late.to_string().contains(&texts[0]), "{late}");
        }
        assert!(heard.iter().all(|&count| count > 0), "of copies and codecs: {heard:?}");
    });
}

#[test]
fn those_who_only_wait_hear_of_a_lost_device_too() {
    with_threads("ipc_failures::those_who_only_wait_hear_of_a_lost_device_too", 7, |stub| {
        stub.set("devices", 3);
        let mut by_copy = 0;
        // Which wait is whose, threads decide: until it has been that of a copy.
        for (round, at) in (1..6).cycle().take(200).enumerate() {
            if round >= 5 && by_copy > 0 {
                break;
            }
            let name = job_name();
            let nodes = [0, 1, 2].map(|rank| {
                let link = CudaIpc::new(job(&name, 3), Rank(rank), Some(device(rank).0), config()).unwrap();
                node_over(Box::new(link), "fixed:bdi")
            });
            nodes.iter().for_each(meet);
            let [own, other, last] = [0, 1, 2].map(device);
            let source = on_device(&own.0, &own.1, &raw());
            let [taken, never] = [&other.0, &last.0].map(|device| DeviceBuffer::alloc(device, LEN).unwrap());
            let waiting = nodes[2].receive(Rank(0), PING, never.all());
            let receiving = nodes[1].receive(Rank(0), PING, taken.all());
            stub.fail(Some("cuEventSynchronize"), at, 700);
            let sent = end_of(nodes[0].send(Rank(1), PING, source.all(), Element::U32));
            let _ = end_of(receiving);
            let has_failed = stub.failed().is_some();
            stub.fail(None, 0, 0);
            if !has_failed || !sent.is_err_and(|error| error.to_string().contains("CUDA error 700")) {
                continue; // it was a wait of another rank
            }
            let heard = end_of(waiting).unwrap_err().to_string();
            let own_end = end_with(&nodes[0], Rank(2));
            assert!(own_end.contains("CUDA error 700"), "wait {at}: {own_end}");
            assert!(heard.contains("CUDA error 700") || heard.contains("device lost"), "wait {at}: {heard}");
            by_copy += usize::from(heard.contains("CUDA error 700"));
        }
        assert!(by_copy > 0, "no copy has found it");
    });
}

#[test]
fn a_process_that_stands_still_holds_nobody_up_for_long() {
    const TEST: &str = "ipc_failures::a_process_that_stands_still_holds_nobody_up_for_long";
    with_two_devices(TEST, |_| {
        if let Some(name) = told() {
            return serve(&name, Sharing::Files);
        }
        let name = job_name();
        let (mut process, _output) = served(TEST, &name);
        let device = device(0);
        let config = CudaIpcConfig { sharing: Sharing::Files, ..config() };
        let link = CudaIpc::new(job(&name, 2), Rank(0), Some(device.0.clone()), config).unwrap();
        let patient = NodeConfig {
            secret: SECRET,
            greeting_timeout: HANGS,
            silence_timeout: Duration::from_secs(1),
            ..NodeConfig::default()
        };
        let policy: mgcomp_selector::PolicySpec = "fixed:none".parse().unwrap();
        let policy = policy.build(&mgcomp_selector::Steering::default());
        let node = Node::start(Box::new(link), policy, patient).unwrap();
        meet(&node);
        let source = on_device(&device.0, &device.1, &raw());
        let stop = std::process::Command::new("kill").args(["-STOP", &process.id().to_string()]).status();
        assert!(stop.unwrap().success());
        // More than the window holds.
        let writes: Vec<_> =
            (0..20).map(|_| node.write(Rank(1), source.all(), Element::U32, Address::new(0, 0))).collect();
        writes.into_iter().for_each(|write| assert!(end_of(write).is_err()));
        drop(node);
        process.kill().unwrap();
        process.wait().unwrap();
    });
}

#[test]
fn ranks_of_which_one_is_joined_otherwise_hear_so() {
    with_two_devices("ipc_failures::ranks_of_which_one_is_joined_otherwise_hear_so", |_| {
        for ipc_rank in [0, 1] {
            let name = job_name();
            let shm = ShmConfig::new(NodeConfig::default().limits);
            let links = [0, 1].map(|rank| -> Box<dyn Link> {
                match rank == ipc_rank {
                    true => {
                        let device = Some(device(rank).0);
                        Box::new(CudaIpc::new(job(&name, 2), Rank(rank), device, config()).unwrap())
                    }
                    false => Box::new(Shm::new(job(&name, 2), Rank(rank), shm).unwrap()),
                }
            });
            let nodes: Vec<_> = links.into_iter().map(|link| node_over(link, "fixed:none")).collect();
            for node in nodes {
                let states = node.wait_for_peers(HANGS);
                let PeerState::Over(error) = &states[0].1 else { panic!("{states:?}") };
                let text = error.to_string();
                let [shm, windows] = ["shared memory (shm)", "windows of devices (cuda), version 1"];
                assert!(text.contains(shm) && text.contains(windows), "{text}");
            }
        }
        // What is none of a link's settings.
        let (device, _) = device(0);
        for window_bytes in [0, 1, 16 << 10, 48 << 10, 8 << 30, u64::MAX] {
            let config = CudaIpcConfig { window_bytes: Some(window_bytes), ..config() };
            let refused = CudaIpc::new(job("ipc-none", 2), Rank(0), Some(device.clone()), config);
            assert!(refused.is_err(), "{window_bytes}");
        }
        drop(nodes_over(Vec::new(), "fixed:none"));
    });
}

/// The end of a rank's link with the device of the same number, and what it reports.
pub(crate) fn bare(name: &str, rank: u32, ranks: u32) -> (CudaIpc, mpsc::Receiver<LinkEvent>) {
    let mut link = CudaIpc::new(job(name, ranks), Rank(rank), Some(device(rank).0), config()).unwrap();
    let (report, events) = mpsc::channel();
    let sink = move |event| match event {
        LinkEvent::Coming { .. } | LinkEvent::Written { .. } => {} // nothing to say about it
        event => drop(report.send(event)),
    };
    link.start(Arc::new(sink)).unwrap();
    (link, events)
}

/// A message with this number.
pub(crate) fn numbered(number: u16, payload: Payload) -> Message {
    let (id, tag, length) = (MessageId(number), Tag(1), payload.capacity() as u32);
    let send = TaggedSend { id, algorithm: Algorithm::None, continued: false, unawaited: false, tag, length };
    Message { header: Header::TaggedSend(send), payload }
}

pub(crate) fn next_event(events: &mpsc::Receiver<LinkEvent>) -> LinkEvent {
    events.recv_timeout(HANGS).expect("hangs: no event comes")
}

/// The number of the message that comes next, its payload, and what holds the link up until it is dropped.
pub(crate) fn next_message(events: &mpsc::Receiver<LinkEvent>) -> (u16, Payload, Credit) {
    match next_event(events) {
        LinkEvent::Message { message, credit, .. } => match message.header {
            Header::TaggedSend(send) => (send.id.0, message.payload, credit),
            header => panic!("{header:?}"),
        },
        event => panic!("{event:?}"),
    }
}

/// So much that a peer which has not looked at it reads no more. It hears notes still.
const FILLING: usize = 64 << 20;

/// A payload in the memory of a device.
pub(crate) fn left_on(ordinal: u32) -> Payload {
    let (device, stream) = device(ordinal);
    let source = Payload::from_memory(on_device(&device, &stream, &raw()).all());
    let (report, reports) = mpsc::channel();
    let sink: executor::DoneSink = Arc::new(move |done| drop(report.send(done)));
    let mut executor = executor::start_for(Outlet::Anywhere, 1, 1, false, &sink).unwrap();
    let work =
        Work::Encode { source, element: Element::U32, algorithm: Algorithm::None, lent: true, shelf: None };
    let done = executor.submit(Ticket(0), work).unwrap_or_else(|| reports.recv_timeout(HANGS).unwrap());
    let Ok(Output::Encoded(_, payload)) = done.result else { panic!("no payload") };
    assert_eq!(payload.memory_kind(), MemoryKind::Device(ordinal));
    payload
}

/// Two ranks of which the second one has not looked at what came, so that it leaves what comes next in the ring.
struct Behind {
    link: CudaIpc,
    own_events: mpsc::Receiver<LinkEvent>,
    _other: CudaIpc,
    events: mpsc::Receiver<LinkEvent>,
    unseen: Credit,
}

impl Behind {
    fn new() -> Self {
        let name = job_name();
        let [(link, own_events), (other, events)] = [0, 1].map(|rank| bare(&name, rank, 2));
        link.send(Rank(1), numbered(0, left_on(0))).unwrap();
        let (number, payload, _) = next_message(&events);
        assert_eq!((number, payload.memory_kind()), (0, MemoryKind::Device(1)), "there is a window");
        link.send(Rank(1), numbered(1, Payload::from_bytes(vec![1; FILLING].into()))).unwrap();
        let (number, _, unseen) = next_message(&events);
        assert_eq!(number, 1);
        Self { link, own_events, _other: other, events, unseen }
    }
}

/// Lets the other rank hear what is said of the end, and be wrong about it.
fn be_heard() {
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn the_end_of_a_window_does_not_overtake_messages() {
    with_two_devices("ipc_failures::the_end_of_a_window_does_not_overtake_messages", |_| {
        let Behind { link, own_events, _other, events, unseen } = Behind::new();
        for number in 2..5 {
            link.send(Rank(1), numbered(number, left_on(0))).unwrap();
        }
        drop((link, own_events));
        be_heard();
        drop(unseen);
        for expected in 2..5 {
            let (number, payload, _) = next_message(&events);
            let found = (number, payload.memory_kind(), payload.capacity());
            assert_eq!(found, (expected, MemoryKind::Device(1), LEN as u64));
        }
        let end = next_event(&events);
        assert!(matches!(&end, LinkEvent::Closed { error: LinkError::PeerClosed(_), .. }), "{end:?}");
    });
}

#[test]
fn what_comes_before_a_lost_message_arrives_and_nothing_behind_it() {
    with_two_devices(
        "ipc_failures::what_comes_before_a_lost_message_arrives_and_nothing_behind_it",
        |stub| {
            let Behind { link, own_events, _other, events, unseen } = Behind::new();
            let host = |number| numbered(number, Payload::from_bytes(vec![2; 100].into()));
            // Queued if the one who has sent the message before does not know yet that it is done.
            assert!(matches!(link.send(Rank(1), host(2)), Ok(Sent::Written | Sent::Queued)));
            let payloads = [(); 20].map(|()| left_on(0));
            stub.fail(Some("cuEventSynchronize"), 1, 700);
            for (number, payload) in (3..).zip(payloads) {
                // Refused from when the first one is lost.
                let sent =
                    [numbered(number, payload), host(number)].map(|message| link.send(Rank(1), message));
                let is_right = |sent| matches!(sent, Ok(Sent::Queued) | Err(SendError::Closed(Rank(1))));
                assert!(sent.into_iter().all(is_right));
            }
            let is_device = |event: &LinkEvent| match event {
                LinkEvent::Closed { error: LinkError::Device { peer: Rank(0), text }, .. } => {
                    text.contains("CUDA error 700")
                }
                _ => false,
            };
            let end = next_event(&own_events);
            assert!(is_device(&end), "{end:?}");
            assert_eq!(link.send(Rank(1), host(99)), Err(SendError::Closed(Rank(1))));
            be_heard();
            drop(unseen);
            assert_eq!(next_message(&events).0, 2);
            let end = next_event(&events);
            assert!(is_device(&end), "{end:?}");
            stub.fail(None, 0, 0);
        },
    );
}
