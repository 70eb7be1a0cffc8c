//! Bytes arrive as they were.

use std::thread;
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::region::Access;

use crate::common::fabric::Fabric;
use crate::common::job::{config, end_of, nodes};
use crate::common::{noise, ramp, sparse};

const POLICIES: [&str; 7] =
    ["fixed:none", "fixed:bdi", "fixed:fpc", "fixed:cpackz", "fixed:zvc", "paper", "adaptive"];

pub(crate) fn data_of_all_kinds_survives_every_policy(fabric: Fabric) {
    for policy in POLICIES {
        let nodes = nodes(fabric, 2, policy, &config());
        for len in [1, 3, 63, 64, 65, 4095, 4096, 70_001, (2 << 20) + 77] {
            for (kind, data) in
                [vec![0; len], noise(len as u64, len), ramp(7, len), sparse(9, len)].into_iter().enumerate()
            {
                let element = Element::ALL[(kind + len) % Element::ALL.len()];
                round_trip(&nodes, &data, element);
            }
        }
    }
}

pub(crate) fn empty_and_unaligned_buffers_work(fabric: Fabric) {
    for policy in ["fixed:none", "fixed:zvc", "adaptive"] {
        let nodes = nodes(fabric, 2, policy, &config());
        let (content, region) = (sparse(4, 200_000), HostBuffer::zeroed(200_000));
        let address = nodes[1].register(region.all(), Element::U16, Access::all()).unwrap();
        let source = HostBuffer::from(content.clone());
        for (i, (start, len)) in
            [(0, 0), (1, 0), (1, 1), (3, 4093), (7, 65_537), (13, 150_001)].into_iter().enumerate()
        {
            // From an odd place to another, and to a third: in buffers, in regions, and in whole elements of neither.
            let element = Element::ALL[i % Element::ALL.len()];
            let from = source.slice(start..start + len).unwrap();
            let to = address.checked_add(start as u64 + 5).unwrap();
            assert_eq!(end_of(nodes[0].write(Rank(1), from.clone(), element, to)), Ok(len as u64));
            let back = HostBuffer::zeroed(len + 9);
            let into = back.slice(9..9 + len).unwrap();
            assert_eq!(end_of(nodes[0].read(Rank(1), to, into.clone())), Ok(len as u64));
            assert!(into.to_vec() == content[start..start + len], "{len} bytes at {start}, {policy}");
            let sending = nodes[0].send(Rank(1), Tag(1), from, element);
            into.write(|bytes| bytes.fill(0));
            assert_eq!(end_of(nodes[1].receive(Rank(0), Tag(1), into.clone())), Ok(len as u64));
            assert_eq!(end_of(sending), Ok(len as u64));
            assert!(into.to_vec() == content[start..start + len], "{len} bytes at {start}, {policy}");
            assert_eq!(back.slice(0..9).unwrap().to_vec(), [0; 9], "what is before is not touched");
        }
    }
}

pub(crate) fn nodes_without_codec_threads_do_all_the_same(fabric: Fabric) {
    for policy in POLICIES {
        let nodes = nodes(fabric, 2, policy, &NodeConfig { codec_threads: 0, ..config() });
        for len in [1, 4096, (2 << 20) + 77] {
            round_trip(&nodes, &ramp(3, len), Element::U32);
        }
    }
}

/// What peers want with memory that the program is looking at happens afterwards, and nothing else waits for it.
pub(crate) fn memory_in_use_holds_up_nothing_else(fabric: Fabric) {
    for codec_threads in [0, 1] {
        let nodes = nodes(fabric, 2, "fixed:bdi", &NodeConfig { codec_threads, ..config() });
        let region = HostBuffer::zeroed(2 * 100_000);
        let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();
        let source = HostBuffer::from(ramp(5, 100_000));
        let held = region.slice(0..10).unwrap().hold();
        let mut waiting = nodes[0].write(Rank(1), source.all(), Element::U32, address);
        let beside = address.checked_add(100_000).unwrap();
        assert_eq!(end_of(nodes[0].write(Rank(1), source.all(), Element::U32, beside)), Ok(100_000));
        assert_eq!(waiting.wait_for(Duration::from_millis(30)), None);
        drop(held);
        assert_eq!(end_of(waiting), Ok(100_000));
        assert!(region.slice(0..100_000).unwrap().to_vec() == ramp(5, 100_000));
    }
}

/// Writes `data` into rank 1's memory, reads it back, and sends it there.
fn round_trip(nodes: &[Node], data: &[u8], element: Element) {
    let source = HostBuffer::from(data.to_vec());
    let len = data.len();
    // Room on both sides, which must stay as it is.
    let region = HostBuffer::from(vec![0xee; len + 20]);
    let address = nodes[1].register(region.all(), element, Access::all()).unwrap();
    let inside = address.checked_add(10).unwrap();
    assert_eq!(end_of(nodes[0].write(Rank(1), source.all(), element, inside)), Ok(len as u64));
    region.all().read(|bytes| {
        assert!(bytes[10..10 + len] == *data, "{len} bytes of {element} differ after a write");
        assert_eq!((&bytes[..10], &bytes[10 + len..]), (&[0xee; 10][..], &[0xee; 10][..]));
    });

    let back = HostBuffer::zeroed(len);
    assert_eq!(end_of(nodes[0].read(Rank(1), inside, back.all())), Ok(len as u64));
    assert!(back.all().to_vec() == *data, "{len} bytes of {element} differ after a read");

    let received = HostBuffer::zeroed(len + 5);
    let sending = nodes[1].send(Rank(0), Tag(len as u64), source.all(), element);
    let receiving = nodes[0].receive(Rank(1), Tag(len as u64), received.all());
    assert_eq!((end_of(sending), end_of(receiving)), (Ok(len as u64), Ok(len as u64)));
    assert!(received.all().to_vec()[..len] == *data, "{len} bytes of {element} differ after a send");
    nodes[1].unregister(address).unwrap();
}

pub(crate) fn many_threads_use_one_node(fabric: Fabric) {
    const THREADS: usize = 8;
    const SLOT: usize = 20_000;
    let nodes = nodes(fabric, 3, "paper", &config());
    let address = {
        let region = || HostBuffer::zeroed(THREADS * SLOT).all();
        let register = |node: &mgcomp_transport::node::Node| {
            node.register(region(), Element::U32, Access::all()).unwrap()
        };
        // Registered in the same order, so at the same address.
        assert_eq!(register(&nodes[1]), register(&nodes[2]));
        mgcomp_transport::message::Address::new(0, 0)
    };
    thread::scope(|scope| {
        for slot in 0..THREADS {
            let node = &nodes[0];
            scope.spawn(move || {
                let at = address.checked_add((slot * SLOT) as u64).unwrap();
                for round in 0..10u32 {
                    let peer = Rank(1 + (slot as u32 + round) % 2);
                    let data = ramp(round * 1_000_000 + slot as u32, SLOT);
                    let source = HostBuffer::from(data.clone());
                    assert_eq!(end_of(node.write(peer, source.all(), Element::U32, at)), Ok(SLOT as u64));
                    let back = HostBuffer::zeroed(SLOT);
                    assert_eq!(end_of(node.read(peer, at, back.all())), Ok(SLOT as u64));
                    assert!(back.all().to_vec() == data, "slot {slot}, round {round}");
                }
            });
        }
    });
}

pub(crate) fn sends_are_matched_in_order_by_tag(fabric: Fabric) {
    let nodes = nodes(fabric, 2, "fixed:bdi", &config());
    // Lengths differ, so that encoding does not finish in the order of the sends.
    let len = |i: usize| if i.is_multiple_of(3) { 100_000 + i } else { 10 + i };
    let data = |tag: u64, i: usize| ramp(tag as u32 ^ (1000 * i) as u32, len(i));
    let mut sends = Vec::new();
    for i in 0..30 {
        for tag in [5, u64::MAX] {
            let source = HostBuffer::from(data(tag, i));
            sends.push(nodes[0].send(Rank(1), Tag(tag), source.all(), Element::U32));
        }
    }
    // One tag's receives after the other's, and one of an empty send in between.
    for tag in [u64::MAX, 5] {
        for i in 0..30 {
            let into = HostBuffer::zeroed(200_000);
            assert_eq!(end_of(nodes[1].receive(Rank(0), Tag(tag), into.all())), Ok(len(i) as u64));
            assert!(into.all().to_vec()[..len(i)] == data(tag, i), "send {i} with tag {tag}");
        }
        let empty = nodes[0].send(Rank(1), Tag(1), HostBuffer::zeroed(0).all(), Element::F32);
        assert_eq!(end_of(nodes[1].receive(Rank(0), Tag(1), HostBuffer::zeroed(0).all())), Ok(0));
        assert_eq!(end_of(empty), Ok(0));
    }
    sends.into_iter().for_each(|send| assert!(end_of(send).is_ok()));
}
