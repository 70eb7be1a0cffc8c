//! Compressed copies between host and device, from Rust and by the calls that C programs make.
#![allow(unsafe_code)] // memory that a test owns, and calls as C makes them

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::thread;
use std::time::{Duration, Instant};

use mgcomp::copy::{
    mgcompCopier, mgcompCreateCopier, mgcompDestroyCopier, mgcompMemcpyCompressed,
    mgcompMemcpyCompressedAsync, mgcompMemcpyKind,
};
use mgcomp::error::mgcompResult;
use mgcomp::number::mgcompElement;
use mgcomp::request::{mgcompRequest, mgcompWaitRequest};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::{PolicySpec, Reason};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::foreign::Foreign;
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadError, OffloadQueue};
use mgcomp_transport::copy::{Copier, CopyConfig, CopyError, CopyHandle, Direction};
use mgcomp_transport::memory::{DeviceBuffer, DeviceSlice, HostBuffer, Slice};
use mgcomp_transport::payload::MemoryKind;

use crate::rig::{Busy, bytes_of, on_device, open, with_threads};

const LEN: usize = 300_000;

#[test]
fn device_memory_is_copied() {
    with_threads("copies::device_memory_is_copied", 11, |_| {
        let (device, stream) = open();
        let raw = data::bytes(Kind::Sparse, LEN, 1);
        let copier = Copier::start(CopyConfig { segment_bytes: 64 << 10, ..CopyConfig::default() }).unwrap();
        let bdi: PolicySpec = "fixed:bdi".parse().unwrap();
        let source = on_device(&device, &stream, &raw);
        let (host, other) = (HostBuffer::zeroed(LEN), DeviceBuffer::alloc(&device, LEN).unwrap());
        let at = |slice: &DeviceBuffer| Slice::from(slice.all().after(&stream).unwrap());

        let copy = |to: Slice, from: Slice, direction| {
            copier.memcpy_compressed(to, from, direction, Element::U32, bdi).unwrap()
        };
        let report = copy(host.all().into(), at(&source), Direction::DeviceToHost);
        assert!(host.all().to_vec() == raw && report.coded_bytes < LEN as u64 * 9 / 10, "{report}");
        stream.zero(source.all().region()).unwrap();
        copy(at(&source), host.all().into(), Direction::HostToDevice);
        copy(at(&other), at(&source), Direction::DeviceToDevice);
        assert!(bytes_of(&stream, &other.all()) == raw);

        let refused =
            copier.memcpy_compressed(at(&other), host.all(), Direction::HostToHost, Element::U32, bdi);
        assert!(matches!(refused, Err(CopyError::Direction { .. })), "{refused:?}");
        let half = Slice::from(other.slice(0..LEN / 2).unwrap());
        let next = Slice::from(other.slice(4..LEN / 2 + 4).unwrap());
        let refused = copier.memcpy_compressed(half, next, Direction::DeviceToDevice, Element::U32, bdi);
        assert!(
            matches!(refused, Err(CopyError::Overlap { bytes, .. }) if bytes == LEN / 2 - 4),
            "{refused:?}"
        );
    });
}

#[test]
fn what_is_copied_from_a_device_is_looked_at_on_its_way() {
    with_threads("copies::what_is_copied_from_a_device_is_looked_at_on_its_way", 17, |_| {
        let (device, stream) = open();
        let copier = Copier::start(CopyConfig { segment_bytes: 64 << 10, ..CopyConfig::default() }).unwrap();
        let paper: PolicySpec = "paper".parse().unwrap();
        let host = HostBuffer::zeroed(LEN);
        let copy = |seed: u64| {
            let raw = data::bytes(Kind::Deltas, LEN, seed);
            let source = on_device(&device, &stream, &raw);
            let direction = Direction::DeviceToHost;
            let report = copier.memcpy_compressed(host.all(), source.all(), direction, Element::U32, paper);
            drop(source); // nothing looks at it any more
            assert!(host.all().to_vec() == raw);
            report.unwrap()
        };
        let first = copy(0);
        assert_eq!((first.algorithm, first.reason), (Algorithm::None, Some(Reason::FirstLook)));
        for sample in 1..=5 {
            let later = copy(sample.into());
            assert_eq!(
                (later.algorithm, later.reason),
                (Algorithm::Bdi, Some(Reason::Sampled { sample, of: 7 }))
            );
        }
    });
}

#[test]
fn copies_from_a_device_show_how_fast_it_is_left() {
    with_threads("copies::copies_from_a_device_show_how_fast_it_is_left", 18, |_| {
        show_their_way(Direction::DeviceToHost);
    });
}

#[test]
fn copies_to_a_device_show_how_fast_it_is_reached() {
    with_threads("copies::copies_to_a_device_show_how_fast_it_is_reached", 19, |_| {
        show_their_way(Direction::HostToDevice);
    });
}

/// Where no link says it.
fn show_their_way(direction: Direction) {
    let (device, stream) = open();
    let copier = Copier::start(CopyConfig::default()).unwrap();
    let raw = data::bytes(Kind::Sparse, 4 << 20, 1);
    let (there, host) = (on_device(&device, &stream, &raw), HostBuffer::from(raw.clone()));
    let copy = |_| {
        let (to, from): (Slice, Slice) = if direction == Direction::HostToDevice {
            stream.zero(there.all().region()).unwrap();
            (there.all().after(&stream).unwrap().into(), host.all().into())
        } else {
            host.all().write(|bytes| bytes.fill(0));
            (host.all().into(), there.all().into())
        };
        let report = copier.memcpy_compressed(to, from, direction, Element::U32, PolicySpec::Adaptive);
        assert!(host.all().to_vec() == raw && bytes_of(&stream, &there.all()) == raw);
        report.unwrap().reason.unwrap()
    };
    let reasons: Vec<Reason> = (0..12).map(copy).collect();
    // Two copies are enough, unless the first is no slower than what it takes to begin.
    assert_eq!(reasons[..2], [Reason::LinkUnknown; 2]);
    assert!(reasons[2..].iter().any(|reason| *reason != Reason::LinkUnknown), "{reasons:?}");
}

/// For so long, memory is in use.
const HELD: Duration = Duration::from_secs(3);

#[test]
fn what_memory_waits_for_is_no_time_of_a_codec() {
    with_threads("copies::what_memory_waits_for_is_no_time_of_a_codec", 20, |_| {
        let (device, stream) = open();
        let copier = Copier::start(CopyConfig::default()).unwrap();
        let raw = data::bytes(Kind::Sparse, LEN, 4);
        for direction in [Direction::DeviceToHost, Direction::HostToDevice] {
            let there = on_device(&device, &stream, &raw);
            let host = HostBuffer::from(raw.clone());
            let ends = |there: DeviceSlice| -> (Slice, Slice) {
                match direction {
                    Direction::DeviceToHost => (host.all().into(), there.into()),
                    _ => (there.into(), host.all().into()),
                }
            };
            let zvc: PolicySpec = "fixed:zvc".parse().unwrap();
            // Kernels are loaded, and threads there, when it matters.
            let (to, from) = ends(there.all());
            copier.memcpy_compressed(to, from, direction, Element::U32, zvc).unwrap();
            let busy = Busy::on(0);
            let (to, from) = ends(there.all().after(&busy.working).unwrap());
            let started = Instant::now();
            let copy = copier.memcpy_compressed_async(to, from, direction, Element::U32, zvc).unwrap();
            thread::sleep(HELD);
            busy.end();
            let report = copy.wait().unwrap();
            let took = if direction == Direction::DeviceToHost { report.encode } else { report.decode };
            // What is done before it has to wait counts, and others may run meanwhile, but that is not half of the time.
            assert!(!took.is_zero() && took + HELD / 2 <= started.elapsed(), "{direction:?}: {took:?}");
            assert!(host.all().to_vec() == raw && bytes_of(&stream, &there.all()) == raw);
        }
    });
}

/// The stream that has made the data is one of a device beside the one that has it.
#[test]
fn memory_may_wait_for_another_device() {
    with_threads("copies::memory_may_wait_for_another_device", 21, |stub| {
        stub.set("devices", 2);
        let (device, stream) = open();
        let copier = Copier::start(CopyConfig::default()).unwrap();
        let raw = data::bytes(Kind::Sparse, LEN, 5);
        let (there, host) = (on_device(&device, &stream, &raw), HostBuffer::zeroed(LEN));
        let busy = Busy::on(1);
        let (to, from): (Slice, Slice) =
            (host.all().into(), there.all().after(&busy.working).unwrap().into());
        let zvc: PolicySpec = "fixed:zvc".parse().unwrap();
        let mut copy =
            copier.memcpy_compressed_async(to, from, Direction::DeviceToHost, Element::U32, zvc).unwrap();
        thread::sleep(Duration::from_millis(50));
        assert!(!copy.is_finished(), "it has not waited");
        busy.end();
        copy.wait().unwrap();
        assert!(host.all().to_vec() == raw);
    });
}

#[test]
fn frames_are_kept_on_a_device() {
    with_threads("copies::frames_are_kept_on_a_device", 13, |_| {
        let (device, stream) = open();
        let raw = data::bytes(Kind::Sparse, LEN, 3);
        let copier = Copier::start(CopyConfig { segment_bytes: 64 << 10, ..CopyConfig::default() }).unwrap();
        let bdi: PolicySpec = "fixed:bdi".parse().unwrap();
        let (host, source) = (HostBuffer::from(raw.clone()), on_device(&device, &stream, &raw));
        let keep = |from: Slice, direction| {
            copier.keep_on(&device, from, direction, Element::U32, bdi).and_then(CopyHandle::wait)
        };
        let from_host = keep(host.all().into(), Direction::HostToDevice).unwrap();
        let from_device =
            keep(source.all().after(&stream).unwrap().into(), Direction::DeviceToDevice).unwrap();
        for (kept, report) in [from_host, from_device] {
            assert_eq!((kept.memory_kind(), kept.bytes()), (MemoryKind::Device(0), report.coded_bytes));
            assert!(kept.segments().len() == 5 && kept.bytes() < LEN as u64 * 9 / 10, "{report}");
            // Decoded by the device, and by the host.
            let (back, at_host) = (DeviceBuffer::alloc(&device, LEN).unwrap(), HostBuffer::zeroed(LEN));
            let there = copier.expand(back.all(), &kept, Direction::DeviceToDevice).unwrap();
            let here = copier.expand(at_host.all(), &kept, Direction::DeviceToHost).unwrap();
            assert_eq!(
                (there.wait().unwrap().raw_bytes, here.wait().unwrap().raw_bytes),
                (LEN as u64, LEN as u64)
            );
            assert!(bytes_of(&stream, &back.all()) == raw && at_host.all().to_vec() == raw);
            let refused = copier.expand(back.all(), &kept, Direction::HostToDevice);
            assert!(
                matches!(refused, Err(CopyError::Direction { place: MemoryKind::Device(0), .. })),
                "{refused:?}"
            );
        }
        let refused = keep(host.all().into(), Direction::HostToHost);
        assert!(
            matches!(refused, Err(CopyError::Direction { place: MemoryKind::Device(0), .. })),
            "{refused:?}"
        );
    });
}

#[test]
fn device_memory_is_offloaded_and_comes_back() {
    with_threads("copies::device_memory_is_offloaded_and_comes_back", 14, |_| {
        let (device, stream) = open();
        let copy =
            CopyConfig { segment_bytes: 64 << 10, read_cap_gbps: Some(400.0), ..CopyConfig::default() };
        // Not all four of them fit as they are.
        let config = OffloadConfig::new(copy, "fixed:bdi".parse().unwrap(), 4 * LEN as u64);
        let queue = OffloadQueue::start(config).unwrap();
        let layers: Vec<Vec<u8>> = (0..4).map(|seed| data::bytes(Kind::Sparse, LEN, seed)).collect();
        let leave = |layer: &Vec<u8>| {
            let memory = on_device(&device, &stream, layer);
            let ticket = queue.offload(memory.all().after(&stream).unwrap(), Element::U32).unwrap();
            (memory, ticket)
        };
        let leaving: Vec<_> = layers.iter().map(leave).collect();
        for (memory, ticket) in &leaving {
            let report = queue.wait(*ticket).unwrap();
            assert!(report.coded_bytes < LEN as u64 * 9 / 10, "{report}");
            stream.zero(memory.all().region()).unwrap(); // it is something else's memory now
        }
        queue.discard(leaving[3].1).unwrap();
        let returning = leaving[..3].iter().map(|(memory, ticket)| {
            let back = memory.all().after(&stream).unwrap();
            queue.prefetch(*ticket, back).unwrap()
        });
        for copy in returning.collect::<Vec<_>>() {
            copy.wait().unwrap();
        }
        for ((memory, ticket), layer) in leaving[..3].iter().zip(&layers) {
            assert!(bytes_of(&stream, &memory.all()) == *layer);
            let used = queue.prefetch(*ticket, memory.all());
            assert!(matches!(used, Err(OffloadError::Used { .. })), "{used:?}");
        }
        let stats = queue.stats();
        assert_eq!((stats.offloaded, stats.prefetched, stats.discarded, stats.used_bytes), (4, 3, 1, 0));
        assert!(stats.peak_bytes <= 4 * LEN as u64, "{stats:?}");
        let half = leaving[0].0.slice(2..LEN - 2).unwrap();
        let odd = queue.offload(half, Element::U32).unwrap_err();
        assert!(matches!(odd, OffloadError::Copy(CopyError::Misaligned { .. })), "{odd}");
    });
}

#[test]
fn what_is_offloaded_stays_in_page_locked_memory_within_the_bound() {
    const BOUND: u64 = 3 << 20;
    with_threads("copies::what_is_offloaded_stays_in_page_locked_memory_within_the_bound", 20, |stub| {
        let (device, stream) = open();
        for policy in ["fixed:none", "fixed:bdi"] {
            let config = OffloadConfig::new(CopyConfig::default(), policy.parse().unwrap(), BOUND);
            let queue = OffloadQueue::start(config).unwrap();
            let mut grown = 0;
            // Of blocks of other lengths each time, which do not all find room beside each other.
            for (round, len) in
                [2 << 20, 700_000, 1_500_000, 900_000, 2 << 20, 2 << 20].into_iter().enumerate()
            {
                let raw = data::bytes(Kind::Sparse, len, round as u64);
                let (memory, pinned) = (on_device(&device, &stream, &raw), stub.count("pinned"));
                let ticket = queue.offload(memory.all().after(&stream).unwrap(), Element::U32).unwrap();
                let report = queue.wait(ticket).unwrap();
                stream.zero(memory.all().region()).unwrap();
                queue.prefetch(ticket, memory.all().after(&stream).unwrap()).unwrap().wait().unwrap();
                assert!(bytes_of(&stream, &memory.all()) == raw, "{policy}, round {round}");
                let now = stub.count("pinned");
                grown += now.saturating_sub(pinned);
                if round == 0 {
                    // It went straight there, and came back from there: the rest is words that kernels write.
                    let coded = report.coded_bytes;
                    assert!(grown >= coded && grown <= coded + coded / 8 + (1 << 18), "{grown} of {coded}");
                }
                if round == 5 {
                    assert_eq!(now, pinned, "{policy}: the memory of the last round does for this one");
                }
                assert!(now <= BOUND + (1 << 18), "{policy}, round {round}: {now}");
            }
            // Ordinary blocks count in the same bound: what stands for a device here takes two thirds of it.
            let others = HostBuffer::from(data::bytes(Kind::Dense, 2 << 20, 9));
            let ticket = queue.offload(others.all(), Element::U32).unwrap();
            queue.wait(ticket).unwrap();
            let now = stub.count("pinned");
            assert!(now <= BOUND - (2 << 20) + (1 << 18), "{policy}: {now} beside 2 MiB");
        }
    });
}

#[test]
fn a_queue_that_is_always_full_keeps_to_its_bound() {
    const BOUND: u64 = 3 << 20;
    const LEN: usize = 1 << 20;
    with_threads("copies::a_queue_that_is_always_full_keeps_to_its_bound", 21, |stub| {
        let (device, stream) = open();
        let config = OffloadConfig::new(CopyConfig::default(), "fixed:none".parse().unwrap(), BOUND);
        let queue = OffloadQueue::start(config).unwrap();
        let (source, back) =
            (on_device(&device, &stream, &[5; LEN]), DeviceBuffer::alloc(&device, LEN).unwrap());
        let at = |buffer: &DeviceBuffer| buffer.all().after(&stream).unwrap();
        let (left, leaving) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let left = left;
                for round in 0..150 {
                    // It waits for copies that are under way, if there are any.
                    let ticket = loop {
                        match queue.offload(at(&source), Element::U32) {
                            Err(OffloadError::Full { .. }) => thread::yield_now(),
                            offloaded => break offloaded.unwrap(),
                        }
                    };
                    left.send(ticket).unwrap();
                    let pinned = stub.count("pinned");
                    assert!(pinned <= BOUND + (1 << 18), "round {round}: {pinned}");
                }
            });
            for ticket in leaving {
                queue.wait(ticket).unwrap();
                queue.prefetch(ticket, at(&back)).unwrap().wait().unwrap();
            }
        });
        assert!(bytes_of(&stream, &back.all()) == [5; LEN]);
    });
}

#[test]
fn a_queue_may_go_while_streams_record() {
    with_threads("copies::a_queue_may_go_while_streams_record", 22, |stub| {
        let (device, stream) = open();
        let library = Foreign::on(&device);
        let config = OffloadConfig::new(CopyConfig::default(), "fixed:none".parse().unwrap(), 8 << 20);
        let queue = OffloadQueue::start(config).unwrap();
        let memory = on_device(&device, &stream, &[5; 1 << 20]);
        let tickets = [(); 2].map(|()| {
            let ticket = queue.offload(memory.all().after(&stream).unwrap(), Element::U32).unwrap();
            queue.wait(ticket).unwrap();
            ticket
        });
        // One room is free, and one in use.
        queue.discard(tickets[0]).unwrap();
        let before = stub.count("pinned");
        assert!(library.stream().records(|| drop(queue)));
        assert!(stub.count("pinned") + (2 << 20) <= before, "its memory is given back");
    });
}

#[test]
fn c_programs_copy_device_memory() {
    with_threads("copies::c_programs_copy_device_memory", 12, |_| {
        let (device, stream) = open();
        let raw = data::bytes(Kind::Sparse, LEN, 2);
        let source = on_device(&device, &stream, &raw);
        let back = DeviceBuffer::alloc(&device, LEN).unwrap();
        let mut host = vec![0u8; LEN];
        let address = |buffer: &DeviceBuffer| {
            std::ptr::with_exposed_provenance_mut::<c_void>(buffer.all().region().address() as usize)
        };
        let (element, policy) = (MaybeUninit::new(mgcompElement::U32), c"fixed:bdi".as_ptr());
        let kind = MaybeUninit::new;
        let (mut copier, mut request) = (mgcompCopier { id: 0 }, mgcompRequest { id: 0 });
        let mut coded = 0;
        // SAFETY: `source`, `back` and `host` live until the copies are finished; the stream is one of the device.
        unsafe {
            assert_eq!(mgcompCreateCopier(1, 0, &raw mut copier), mgcompResult::Success);
            let result = mgcompMemcpyCompressedAsync(
                copier,
                host.as_mut_ptr().cast(),
                address(&source),
                LEN,
                kind(mgcompMemcpyKind::DeviceToHost),
                element,
                policy,
                stream.as_raw(),
                &raw mut request,
            );
            assert_eq!(result, mgcompResult::Success);
            assert_eq!(mgcompWaitRequest(request, &raw mut coded), mgcompResult::Success);
            assert!(host == raw && coded < LEN as u64 * 9 / 10);
            let copy = |kind_of| {
                mgcompMemcpyCompressed(
                    copier,
                    address(&back),
                    host.as_ptr().cast(),
                    LEN,
                    kind(kind_of),
                    element,
                    policy,
                    stream.as_raw(),
                    std::ptr::null_mut(),
                )
            };
            assert_eq!(copy(mgcompMemcpyKind::HostToDevice), mgcompResult::Success);
            assert!(bytes_of(&stream, &back.all()) == raw);
            assert_eq!(copy(mgcompMemcpyKind::HostToHost), mgcompResult::InvalidArgument);
        }
        assert_eq!(mgcompDestroyCopier(copier), mgcompResult::Success);
    });
}
