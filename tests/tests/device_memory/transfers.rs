//! Reads, writes and sends.
#![allow(unsafe_code)] // memory that a test owns

use mgcomp_codecs::device::{Device, DeviceError, Stream};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::Reason;
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::foreign::Foreign;
use mgcomp_transport::memory::{DeviceBuffer, HostBuffer};
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::Node;
use mgcomp_transport::region::Access;

use crate::rig::{
    Links, bytes_of, cuda, end_of, loopback, nodes, on_device, open, open_on, tcp, with_threads,
};

const LENGTHS: [usize; 4] = [1, 4099, 70_001, 180_000];

#[test]
fn device_memory_travels_over_loopback() {
    with_threads("transfers::device_memory_travels_over_loopback", 1, |_| travel(loopback));
}

#[test]
fn device_memory_travels_over_tcp() {
    with_threads("transfers::device_memory_travels_over_tcp", 2, |_| travel(tcp));
}

/// Of another library, in the mode that forbids most to all threads, from the first transfer on.
#[test]
fn transfers_go_on_beside_a_recording() {
    with_threads("transfers::transfers_go_on_beside_a_recording", 31, |stub| {
        stub.set("devices", 2);
        for links in [loopback, tcp, cuda] {
            let nodes = nodes(links, 2, "fixed:bdi");
            let raw = data::bytes(Kind::Sparse, 70_001, 5);
            let [(device, stream), (other, there)] = [0, 1].map(open_on);
            let (source, into) =
                (on_device(&device, &stream, &raw), DeviceBuffer::alloc(&other, raw.len()).unwrap());
            let library = Foreign::on(&device);
            assert!(library.stream().records(|| {
                for tag in 0..3 {
                    let receiving = nodes[1].receive(Rank(0), Tag(tag), into.all());
                    let sending = nodes[0].send(Rank(1), Tag(tag), source.all(), Element::U32);
                    assert_eq!(end_of(receiving), Ok(raw.len() as u64));
                    assert_eq!(end_of(sending), Ok(raw.len() as u64));
                }
            }));
            assert!(bytes_of(&there, &into.all()) == raw);
            let on_host = HostBuffer::zeroed(raw.len());
            assert!(library.stream().records(|| {
                let receiving = nodes[1].receive(Rank(0), Tag(9), on_host.all());
                let sending = nodes[0].send(Rank(1), Tag(9), source.all(), Element::U32);
                assert_eq!(end_of(receiving), Ok(raw.len() as u64));
                assert_eq!(end_of(sending), Ok(raw.len() as u64));
            }));
            assert!(on_host.all().to_vec() == raw);
        }
    });
}

/// Else the library's own streams would be recorded with it, or the recording be spoilt.
#[test]
fn nothing_comes_after_a_stream_that_records() {
    with_threads("transfers::nothing_comes_after_a_stream_that_records", 32, |_| {
        const CAPTURE_IMPLICIT: u32 = 906;
        let (device, stream) = open();
        let nodes = nodes(loopback, 2, "fixed:bdi");
        let raw = data::bytes(Kind::Sparse, 70_001, 6);
        let (source, into) =
            (on_device(&device, &stream, &raw), DeviceBuffer::alloc(&device, raw.len()).unwrap());
        let library = Foreign::on(&device);
        let (theirs, other, default) =
            (library.stream(), library.blocking_stream(), library.default_stream());
        // SAFETY: dropped before theirs.
        let [recording, waited_for] = [&theirs, &default].map(|theirs| unsafe { theirs.lend(&device) });
        assert!(theirs.records(|| {
            assert_eq!(source.all().after(&recording).unwrap_err(), DeviceError::Recording);
        }));
        assert!(other.records(|| {
            let refused = source.all().after(&waited_for).unwrap_err();
            assert!(matches!(refused, DeviceError::Driver { code: CAPTURE_IMPLICIT, .. }), "{refused}");
        }));
        // More than there are streams of the library's.
        for (tag, stream) in (0..).zip([&recording, &waited_for, &stream, &recording, &waited_for]) {
            let receiving = nodes[1].receive(Rank(0), Tag(tag), into.all().after(stream).unwrap());
            let sending = nodes[0].send(Rank(1), Tag(tag), source.all().after(stream).unwrap(), Element::U32);
            assert_eq!(end_of(receiving), Ok(raw.len() as u64));
            assert_eq!(end_of(sending), Ok(raw.len() as u64));
        }
        assert!(bytes_of(&stream, &into.all()) == raw);
    });
}

fn travel(links: Links) {
    let (device, stream) = open();
    for policy in ["fixed:none", "fixed:bdi", "fixed:deflate", "paper", "adaptive"] {
        let nodes = nodes(links, 2, policy);
        for (seed, len) in (0..).zip(LENGTHS) {
            for kind in [Kind::Dense, Kind::Sparse] {
                round_trip(&nodes, &device, &stream, &data::bytes(kind, len, seed));
            }
        }
        if policy == "fixed:bdi" {
            let sent = nodes[0].stats().total();
            assert!(sent.coded_bytes < sent.raw_bytes, "{sent:?}");
        }
    }
}

/// From a device to a device, to the host, and back.
fn round_trip(nodes: &[Node], device: &Device, stream: &Stream, raw: &[u8]) {
    let (element, len) = (Element::U32, raw.len());
    let source = on_device(device, stream, raw);
    let region = DeviceBuffer::alloc(device, len).unwrap();
    let address = nodes[1].register(region.all(), element, Access::all()).unwrap();
    assert_eq!(end_of(nodes[0].write(Rank(1), source.all(), element, address)), Ok(len as u64));
    assert!(bytes_of(stream, &region.all()) == raw, "written, {len} bytes");

    // An odd part of it to the host.
    let start = len / 3;
    let into = HostBuffer::zeroed(len - start);
    let from = address.checked_add(start as u64).unwrap();
    assert_eq!(end_of(nodes[0].read(Rank(1), from, into.all())), Ok((len - start) as u64));
    assert!(into.all().to_vec() == raw[start..], "read, {len} bytes");

    let back = DeviceBuffer::alloc(device, len + 3).unwrap();
    stream.zero(back.all().region()).unwrap();
    let receiving = nodes[0].receive(Rank(1), Tag(7), back.all().after(stream).unwrap());
    let sending = nodes[1].send(Rank(0), Tag(7), region.slice(0..len).unwrap(), element);
    assert_eq!(end_of(receiving), Ok(len as u64));
    assert_eq!(end_of(sending), Ok(len as u64));
    assert!(bytes_of(stream, &back.slice(0..len).unwrap()) == raw, "sent, {len} bytes");
    assert_eq!(bytes_of(stream, &back.slice(len..len + 3).unwrap()), [0; 3], "what is behind is not touched");

    let host = HostBuffer::from(raw.to_vec());
    assert_eq!(end_of(nodes[0].write(Rank(1), host.all(), element, address)), Ok(len as u64));
    assert!(bytes_of(stream, &region.all()) == raw, "written from the host, {len} bytes");
    nodes[1].unregister(address).unwrap();
}

#[test]
fn work_of_the_program_comes_first_where_it_says_so() {
    with_threads("transfers::work_of_the_program_comes_first_where_it_says_so", 3, |_| {
        let (device, _) = open();
        let nodes = nodes(loopback, 2, "fixed:bdi");
        for seed in 0..20 {
            let raw = data::bytes(Kind::Sparse, 30_000, seed);
            let stream = device.stream().unwrap();
            let first = on_device(&device, &stream, &raw);
            let alloc = || DeviceBuffer::alloc(&device, raw.len()).unwrap();
            let (second, third) = (alloc(), alloc());
            // Nobody waits for these: the library must.
            stream.copy(first.all().region(), second.all().region()).unwrap();
            stream.zero(third.all().region()).unwrap();
            let (from, to) = (second.all().after(&stream).unwrap(), third.all().after(&stream).unwrap());
            let address = nodes[1].register(to, Element::U32, Access::all()).unwrap();
            let written = end_of(nodes[0].write(Rank(1), from, Element::U32, address));
            assert_eq!(written, Ok(raw.len() as u64));
            assert!(bytes_of(&stream, &third.all()) == raw, "round {seed}");
            nodes[1].unregister(address).unwrap();
        }
    });
}

#[test]
fn memory_is_kept_as_long_as_it_is_used() {
    with_threads("transfers::memory_is_kept_as_long_as_it_is_used", 4, |_| {
        let (device, stream) = open();
        let nodes = nodes(loopback, 2, "fixed:zvc");
        let raw = data::bytes(Kind::Sparse, 100_000, 5);
        for _ in 0..5 {
            let memory = device.alloc(raw.len() as u64).unwrap();
            stream.upload(&raw, memory.region()).unwrap();
            let (address, len) = (memory.region().address(), raw.len());
            // SAFETY: the owner frees the memory when it is dropped, not before.
            let lent = unsafe { DeviceBuffer::adopt(&device, address, len, memory) };
            let sending = nodes[0].send(Rank(1), Tag(1), lent.all(), Element::U16);
            drop(lent); // the program has no hold on it any more
            let into = DeviceBuffer::alloc(&device, len).unwrap();
            assert_eq!(end_of(nodes[1].receive(Rank(0), Tag(1), into.all())), Ok(len as u64));
            assert_eq!(end_of(sending), Ok(len as u64));
            assert!(bytes_of(&stream, &into.all()) == raw);
        }
    });
}

#[test]
fn what_is_on_a_device_is_looked_at_on_its_way() {
    with_threads("transfers::what_is_on_a_device_is_looked_at_on_its_way", 7, |_| {
        let (device, stream) = open();
        let nodes = nodes(loopback, 2, "paper");
        let region = DeviceBuffer::alloc(&device, 40_000).unwrap();
        let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();
        let rounds = 6;
        for seed in 0..rounds {
            let raw = data::bytes(Kind::Deltas, 40_000, seed);
            let source = on_device(&device, &stream, &raw);
            let writing = nodes[0].write(Rank(1), source.all(), Element::U32, address);
            assert_eq!(end_of(writing), Ok(40_000));
            drop(source); // nothing looks at it any more
            assert!(bytes_of(&stream, &region.all()) == raw);
        }
        let decisions = nodes[0].decisions();
        let ways: Vec<_> = decisions.iter().map(|made| (made.outcome.sent, made.decision.reason)).collect();
        assert_eq!(ways.len(), rounds as usize);
        assert_eq!(ways[0], (Algorithm::None, Reason::FirstLook));
        // Which sample of the seven they go by: always that before their own.
        for (way, sample) in ways[1..].iter().zip(1..) {
            assert_eq!(*way, (Algorithm::Bdi, Reason::Sampled { sample, of: 7 }));
        }
        assert_eq!(nodes[0].stats().sampled, rounds);
        // From the host the first one goes by its own.
        let host = HostBuffer::from(data::bytes(Kind::Deltas, 40_000, 9));
        let into = DeviceBuffer::alloc(&device, 40_000).unwrap();
        let there = nodes[0].register(into.all(), Element::U32, Access::all()).unwrap();
        assert_eq!(end_of(nodes[1].write(Rank(0), host.all(), Element::U32, there)), Ok(40_000));
        let first = nodes[1].decisions()[0];
        assert_eq!(
            (first.outcome.sent, first.decision.reason),
            (Algorithm::Bdi, Reason::Sampled { sample: 1, of: 7 })
        );
    });
}

#[test]
fn many_transfers_share_a_device() {
    with_threads("transfers::many_transfers_share_a_device", 6, |_| {
        let (device, stream) = open();
        let nodes = nodes(loopback, 2, "fixed:bdi");
        let region = DeviceBuffer::alloc(&device, 8 * 50_000).unwrap();
        let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();
        let raws: Vec<_> = (0..8).map(|seed| data::bytes(Kind::Deltas, 50_000, seed)).collect();
        let sources: Vec<_> = raws.iter().map(|raw| on_device(&device, &stream, raw)).collect();
        let place = |i: usize| address.checked_add(50_000 * i as u64).unwrap();
        let write = |(i, source): (usize, &DeviceBuffer)| {
            nodes[0].write(Rank(1), source.all(), Element::U32, place(i))
        };
        let writes: Vec<_> = sources.iter().enumerate().map(write).collect();
        writes.into_iter().for_each(|write| assert_eq!(end_of(write), Ok(50_000)));
        // All of them read the same memory, into places of their own.
        let back: Vec<_> = raws.iter().map(|raw| DeviceBuffer::alloc(&device, raw.len()).unwrap()).collect();
        let read = |(i, into): (usize, &DeviceBuffer)| nodes[0].read(Rank(1), place(i), into.all());
        let reads: Vec<_> = back.iter().enumerate().map(read).collect();
        reads.into_iter().for_each(|read| assert_eq!(end_of(read), Ok(50_000)));
        for (raw, back) in raws.iter().zip(&back) {
            assert!(bytes_of(&stream, &back.all()) == *raw);
        }
    });
}
