//! What a node counts.

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::{Reason, Record, RecordId};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::{NodeConfig, Tally};
use mgcomp_transport::region::Access;

use crate::common::fabric::Fabric;
use crate::common::job::{config, end_of, nodes};
use crate::common::{noise, wait_until};

pub(crate) fn what_was_sent_adds_up(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "fixed:zvc", &config());
    let zeros = HostBuffer::zeroed(1 << 16);
    let random = HostBuffer::from(noise(1, 1 << 16));
    let at = |memory: &HostBuffer| nodes[1].register(memory.all(), Element::U32, Access::all()).unwrap();
    let (zeros_at, random_at) = (at(&zeros), at(&random));
    let into = || HostBuffer::zeroed(1 << 16).all();

    assert_eq!(end_of(nodes[0].read(Rank(1), random_at, into())), Ok(1 << 16));
    assert_eq!(end_of(nodes[0].read(Rank(1), zeros_at, into())), Ok(1 << 16));
    let sent = nodes[1].stats();
    // Random bytes do not shrink, so they went raw.
    let raw = Tally { transfers: 1, raw_bytes: 1 << 16, coded_bytes: 1 << 16 };
    assert_eq!(sent.sent[&Algorithm::None], raw);
    let coded = sent.sent[&Algorithm::Zvc];
    // 2¹⁴ zero elements are 512 masks of 4 bytes. The frame has a header and 16 chunks with table entries.
    let coded_bytes = 16 + 16 * 8 + 512 * 4;
    assert_eq!(coded, Tally { transfers: 1, raw_bytes: 1 << 16, coded_bytes });
    assert_eq!(sent.sent.len(), 2);
    let both = Tally { transfers: 2, raw_bytes: 2 << 16, coded_bytes: (1 << 16) + coded.coded_bytes };
    assert_eq!(sent.total(), both);
    assert_eq!(sent.sampled, 0);

    // Whoever reads has sent nothing but requests. What it writes and sends counts on its side.
    assert_eq!(nodes[0].stats().total(), Tally::default());
    assert_eq!(end_of(nodes[0].write(Rank(1), zeros.all(), Element::U32, random_at)), Ok(1 << 16));
    let receiving = nodes[1].receive(Rank(0), Tag(1), into());
    assert_eq!(end_of(nodes[0].send(Rank(1), Tag(1), zeros.all(), Element::U32)), Ok(1 << 16));
    assert_eq!(end_of(receiving), Ok(1 << 16));
    let twice = Tally { transfers: 2, raw_bytes: 2 << 16, coded_bytes: 2 * coded.coded_bytes };
    assert_eq!(nodes[0].stats().total(), twice);
    assert_eq!(nodes[1].stats().total(), both);
}

pub(crate) fn what_never_left_is_not_counted(fabric: Fabric) {
    let nodes = nodes(fabric, 3, "fixed:zvc", &NodeConfig { codec_threads: 1, ..config() });
    let [mut zeros, others, target] = [(); 3].map(|()| HostBuffer::zeroed(1 << 20));
    let address_on = |node: usize| nodes[node].register(target.all(), Element::U32, Access::all()).unwrap();
    let (there, elsewhere) = (address_on(1), address_on(2));
    // Whoever encodes has to wait until the session is over.
    let held = zeros.all().hold_mut();
    let write = nodes[0].write(Rank(1), zeros.all(), Element::U32, there);
    nodes[0].disconnect(Rank(1));
    assert!(end_of(write).is_err());
    drop(held);
    wait_until("the data is encoded", || zeros.is_only());
    // What a codec did before this counts by now.
    assert_eq!(end_of(nodes[0].write(Rank(2), others.all(), Element::U32, elsewhere)), Ok(1 << 20));
    let sent = nodes[0].stats().total();
    assert_eq!((sent.transfers, sent.raw_bytes), (1, 1 << 20));
    assert!(nodes[0].decisions().iter().all(|record| record.facts.peer == 2));
}

pub(crate) fn a_node_that_is_to_compress_nothing_does_not_ask_its_policy(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "fixed:zvc", &config());
    let [zeros, target] = [(); 2].map(|()| HostBuffer::zeroed(1 << 16));
    let address = nodes[1].register(target.all(), Element::U32, Access::all()).unwrap();
    let write = || end_of(nodes[0].write(Rank(1), zeros.all(), Element::U32, address));
    for on in [true, false, true] {
        nodes[0].set_compression(on);
        assert_eq!(write(), Ok(1 << 16));
    }
    let how = |record: &Record| (record.outcome.sent, record.decision.reason);
    let expected = [
        (Algorithm::Zvc, Reason::Fixed),
        (Algorithm::None, Reason::SwitchedOff),
        (Algorithm::Zvc, Reason::Fixed),
    ];
    assert_eq!(nodes[0].decisions().iter().map(how).collect::<Vec<_>>(), expected);
    // What the other one sends is its own affair.
    nodes[0].set_compression(false);
    assert_eq!(end_of(nodes[0].read(Rank(1), address, HostBuffer::zeroed(1 << 16).all())), Ok(1 << 16));
    assert_eq!(nodes[1].decisions().iter().map(how).collect::<Vec<_>>(), [(Algorithm::Zvc, Reason::Fixed)]);
}

pub(crate) fn decisions_are_remembered(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "fixed:zvc", &NodeConfig { remembered_decisions: 2, ..config() });
    let zeros = HostBuffer::zeroed(1 << 16);
    let (random, target) = (HostBuffer::from(noise(1, 1 << 16)), HostBuffer::zeroed(1 << 16));
    let address = nodes[1].register(target.all(), Element::U32, Access::all()).unwrap();
    assert_eq!(end_of(nodes[0].write(Rank(1), random.all(), Element::U32, address)), Ok(1 << 16));
    assert_eq!(end_of(nodes[0].read(Rank(1), address, HostBuffer::zeroed(1 << 16).all())), Ok(1 << 16));
    for memory in [&random, &zeros] {
        assert_eq!(end_of(nodes[0].write(Rank(1), memory.all(), Element::U32, address)), Ok(1 << 16));
    }

    let [first, second] = nodes[0].decisions()[..] else { panic!("{:?}", nodes[0].decisions()) };
    assert_eq!((first.id, second.id), (RecordId(1), RecordId(2)), "the first of three is forgotten");
    let summary =
        |record: &Record| (record.decision.algorithm, record.outcome.sent, record.outcome.coded_bytes);
    assert_eq!(summary(&first), (Algorithm::Zvc, Algorithm::None, 1 << 16));
    assert_eq!(summary(&second), (Algorithm::Zvc, Algorithm::Zvc, 16 + 16 * 8 + 512 * 4));
    for record in [&first, &second] {
        assert_eq!((record.facts.peer, record.facts.raw_bytes), (1, 1 << 16));
        // Within the time from the plan to the acknowledgement the codec ran.
        assert!(record.outcome.acknowledged >= record.outcome.encode && record.outcome.encode.is_some());
    }
    // Nobody says when an answer to a read has arrived.
    let [answer] = nodes[1].decisions()[..] else { panic!("{:?}", nodes[1].decisions()) };
    assert_eq!((answer.outcome.sent, answer.outcome.acknowledged), (Algorithm::None, None));
}

pub(crate) fn peers_say_how_long_frames_took_to_decode(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "fixed:zvc", &config());
    let len = 1 << 16;
    let [zeros, target] = [(); 2].map(|()| HostBuffer::zeroed(len));
    let random = HostBuffer::from(noise(1, len));
    let at = |memory: &HostBuffer| nodes[1].register(memory.all(), Element::U32, Access::all()).unwrap();
    let (zeros_at, target_at) = (at(&zeros), at(&target));
    let done = Ok(len as u64);
    // A write and a send that are frames, and a write that goes raw.
    assert_eq!(end_of(nodes[0].write(Rank(1), zeros.all(), Element::U32, target_at)), done);
    let receiving = nodes[1].receive(Rank(0), Tag(1), HostBuffer::zeroed(len).all());
    assert_eq!(end_of(nodes[0].send(Rank(1), Tag(1), zeros.all(), Element::U32)), done);
    assert_eq!(end_of(receiving), done);
    assert_eq!(end_of(nodes[0].write(Rank(1), random.all(), Element::U32, target_at)), done);
    let is_known =
        |node: usize| nodes[node].decisions().iter().map(|record| record.outcome.decode.is_some()).collect();
    let known: Vec<bool> = is_known(0);
    assert_eq!(known, [true, true, false]);
    // Who reads says so with whatever it sends next.
    for _ in 0..2 {
        assert_eq!(end_of(nodes[0].read(Rank(1), zeros_at, HostBuffer::zeroed(len).all())), done);
    }
    let known: Vec<bool> = is_known(1);
    assert!(known[0], "{known:?}");
}

pub(crate) fn paper_samples_seven_of_307(fabric: Fabric) {
    let nodes = nodes(fabric, 3, "paper", &config());
    let address = nodes[1].register(HostBuffer::zeroed(4096).all(), Element::U32, Access::all()).unwrap();
    let mut sampled = Vec::new();
    let into = HostBuffer::zeroed(4096);
    // One after the other, so that each is decided on before the next. Reads of two peers count as one.
    for i in 0..700 {
        assert_eq!(end_of(nodes[2 * (i % 2)].read(Rank(1), address, into.all())), Ok(4096));
        sampled.push(nodes[1].stats().sampled);
    }
    let expected = |transfers: u64| transfers / 307 * 7 + (transfers % 307).min(7);
    let expected: Vec<_> = (1..=700).map(expected).collect();
    assert_eq!(sampled, expected);
    // Zero lines: BDI has the lowest penalty at λ = 6 (4 + 18 against 3 + 48, 2 + 150 and 512).
    let sent = nodes[1].stats().sent;
    assert_eq!(sent.keys().collect::<Vec<_>>(), [&Algorithm::Bdi]);
    assert_eq!(sent[&Algorithm::Bdi].transfers, 700);
}
