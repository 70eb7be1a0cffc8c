//! What communicators do: messages by tag, and collectives that only move bytes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use mgcomp_codecs::Element;
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::foreign::Foreign;
use mgcomp_transport::communicator::{Communicator, CommunicatorError, Datatype, Operation};
use mgcomp_transport::memory::{DeviceBuffer, HostBuffer, Slice};

use crate::rig::{Links, bytes_of, cuda, loopback, nodes, on_device, open_on, tcp, with_threads};

pub(crate) const RANKS: u32 = 3;

#[test]
fn collectives_take_device_memory_over_loopback() {
    with_threads("collectives::collectives_take_device_memory_over_loopback", 1, |_| collect(loopback, 1));
}

#[test]
fn collectives_take_device_memory_over_tcp() {
    with_threads("collectives::collectives_take_device_memory_over_tcp", 2, |_| collect(tcp, 1));
}

#[test]
fn collectives_take_device_memory_over_cuda() {
    with_threads("collectives::collectives_take_device_memory_over_cuda", 3, |stub| {
        stub.set("devices", RANKS.into());
        collect(cuda, RANKS);
    });
}

#[test]
fn messages_by_tag_take_device_memory_over_loopback() {
    with_threads("collectives::messages_by_tag_take_device_memory_over_loopback", 7, |_| pass(loopback, 1));
}

#[test]
fn messages_by_tag_take_device_memory_over_tcp() {
    with_threads("collectives::messages_by_tag_take_device_memory_over_tcp", 8, |_| pass(tcp, 1));
}

#[test]
fn messages_by_tag_take_device_memory_over_cuda() {
    with_threads("collectives::messages_by_tag_take_device_memory_over_cuda", 9, |stub| {
        stub.set("devices", RANKS.into());
        pass(cuda, RANKS);
    });
}

/// To free memory, the driver may wait for a kernel that waits for what the thread does next.
#[test]
fn longer_collectives_free_nothing_on_a_device() {
    const LENS: [usize; 3] = [300, 600_000, 4_500_000];
    with_threads("collectives::longer_collectives_free_nothing_on_a_device", 12, |stub| {
        let frees = AtomicU64::new(u64::MAX);
        on_all_by(loopback, "fixed:none", |world| {
            let (device, stream) = open_on(0);
            let rooms = [1, 1, 0].map(|byte| on_device(&device, &stream, &vec![byte; LENS[2]]));
            world.barrier().unwrap();
            if world.rank() == 0 {
                stub.fail(Some("cuMemFree_v2"), 0, 0);
            }
            world.barrier().unwrap();
            for len in LENS {
                let [numbers, blocks, sums] = rooms.each_ref().map(|room| room.slice(0..len).unwrap());
                world.all_reduce(&numbers, &numbers, Datatype::U8, Operation::Sum).unwrap();
                world.all_to_all(&blocks, &blocks, Element::U8).unwrap();
                world.reduce(1, &blocks, &sums, Datatype::U8, Operation::Sum).unwrap();
            }
            world.barrier().unwrap();
            if world.rank() == 0 {
                frees.store(stub.count("calls"), Ordering::Relaxed);
                stub.fail(None, 0, 0);
            }
            world.barrier().unwrap();
            let sums = rooms.each_ref().map(|room| bytes_of(&stream, &room.all()));
            assert!((sums[0][0], sums[0][LENS[2] - 1]) == (27, 3));
            assert!(sums[2].iter().all(|&sum| sum == if world.rank() == 1 { 3 } else { 0 }));
        });
        assert_eq!(frees.into_inner(), 0, "memory was freed");
    });
}

/// One after the other: blocks that change places and numbers that are combined on two devices and the host, in turn.
#[test]
fn collectives_on_other_memory_free_nothing_on_a_device() {
    const LEN: usize = 30_000;
    with_threads("collectives::collectives_on_other_memory_free_nothing_on_a_device", 13, |stub| {
        stub.set("devices", 2);
        let (frees, allocations) = (AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX));
        on_all_by(loopback, "fixed:none", |world| {
            let ends = [0, 1].map(open_on);
            let on_devices = ends.each_ref().map(|(device, stream)| on_device(device, stream, &[1; LEN]));
            let host = HostBuffer::from(vec![1; LEN]);
            let memories = [on_devices[0].all().into(), host.all().into(), on_devices[1].all().into()];
            let count = |call, into: &AtomicU64| {
                world.barrier().unwrap();
                if world.rank() == 0 {
                    into.store(stub.count("calls"), Ordering::Relaxed);
                    stub.fail(Some(call), 0, 0);
                }
                world.barrier().unwrap();
            };
            let all_in_turn = || {
                for memory in &memories {
                    let memory: &Slice = memory;
                    world.all_reduce(memory, memory, Datatype::U8, Operation::Sum).unwrap();
                    world.all_to_all(memory, memory, Element::U8).unwrap();
                }
            };
            count("cuMemFree_v2", &frees);
            all_in_turn();
            all_in_turn();
            count("cuMemAlloc_v2", &frees);
            // By now all is there.
            all_in_turn();
            count("", &allocations);
            for ((_, stream), memory) in ends.iter().zip(&on_devices) {
                assert_eq!(bytes_of(stream, &memory.all()), [27; LEN]);
            }
            assert_eq!(host.all().to_vec(), [27; LEN]);
        });
        assert_eq!((frees.into_inner(), allocations.into_inner()), (0, 0), "memory was freed, or made");
    });
}

/// Round the ranks, of which one has its memory on the host: messages of one part and of several, and one that the
/// receiver has no room for. Between them a part of the buffer is sent as soon as a stream has filled it.
fn pass(links: Links, devices: u32) {
    const PART: usize = 512 << 10; // longer messages travel in parts
    on_all(links, |world| {
        let rank = world.rank();
        let (next, before) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
        let (device, stream) = open_on(rank % devices);
        let is_host = rank == 1;
        let filled = |bytes: &[u8]| -> Slice {
            if is_host {
                HostBuffer::from(bytes.to_vec()).all().into()
            } else {
                on_device(&device, &stream, bytes).all().into()
            }
        };
        let bytes = |slice: &Slice| match slice {
            Slice::Device(slice) => bytes_of(&stream, slice),
            slice => slice.as_host().unwrap().to_vec(),
        };
        for len in [0, 100, 70_001, PART, PART + 9] {
            let (from, into) = (filled(&raw(rank, len)), filled(&vec![7; len + 5]));
            let got = world.send_receive((next, &from), (before, &into), 3, Element::U32);
            assert_eq!(got, Ok(len as u64));
            assert!(bytes(&into) == [raw(before, len), vec![7; 5]].concat(), "{len} bytes");
        }
        // Of these there is room for less than a part, and for less than the rest.
        for (len, room) in [(70_001, 70_000), (PART + 4000, 100), (2 * PART, PART + 1000)] {
            let (from, into) = (filled(&raw(rank, len)), filled(&vec![7; room]));
            // A message of one part is refused to who sends it as well, after it was.
            let sending = world.start_send(next, 4, &from, Element::U32).unwrap();
            let error = world.receive(before, 4, &into).unwrap_err();
            assert_eq!(error, CommunicatorError::Truncated { len: len as u64, capacity: room as u64 });
            let _ = sending.wait();
            assert_eq!(
                world.send_receive((next, &from), (before, &filled(&vec![0; len])), 4, Element::U32),
                Ok(len as u64),
                "the message after one of {len} bytes that there was no room for"
            );
        }
        // After what is enqueued, from one part of a buffer to another.
        let (both, filled) =
            (DeviceBuffer::alloc(&device, 140_000).unwrap(), on_device(&device, &stream, &raw(rank, 70_000)));
        let (front, rest) = (both.slice(0..70_000).unwrap(), both.slice(70_000..140_000).unwrap());
        stream.zero(front.region()).unwrap();
        stream.copy(filled.all().region(), front.region()).unwrap();
        let from = front.after(&stream).unwrap();
        let got = world.send_receive((next, &from), (before, &rest), 5, Element::U32);
        assert_eq!(got, Ok(70_000));
        assert!(bytes_of(&stream, &rest) == raw(before, 70_000));
    });
}

/// Every rank's own thread does `work`.
pub(crate) fn on_all(links: Links, work: impl Fn(&Communicator) + Sync) {
    on_all_by(links, "fixed:bdi", work);
}

/// The same, by another policy.
pub(crate) fn on_all_by(links: Links, policy: &str, work: impl Fn(&Communicator) + Sync) {
    let worlds: Vec<_> = nodes(links, RANKS, policy).into_iter().map(Communicator::world).collect();
    thread::scope(|scope| {
        for world in &worlds {
            let work = &work;
            scope.spawn(move || work(world));
        }
    });
}

pub(crate) fn raw(rank: u32, len: usize) -> Vec<u8> {
    data::bytes(Kind::Deltas, len, u64::from(rank))
}

/// With the ranks' memory spread over so many devices.
fn collect(links: Links, devices: u32) {
    on_all(links, |world| {
        let rank = world.rank();
        let (device, stream) = open_on(rank % devices);
        for len in [100, 70_001] {
            // One is on the host: members need not have the same kind of memory.
            let whole: Vec<u8> = (0..RANKS).flat_map(|rank| raw(rank, len)).collect();
            let mine = on_device(&device, &stream, &raw(rank, len));
            let all = DeviceBuffer::alloc(&device, whole.len()).unwrap();
            if rank == 1 {
                let all = HostBuffer::zeroed(whole.len());
                world.all_gather(&mine.all(), &all.all(), Element::U32).unwrap();
                assert!(all.all().to_vec() == whole, "all_gather to the host, {len} bytes");
            } else {
                world.all_gather(&mine.all(), &all.all(), Element::U32).unwrap();
                assert!(bytes_of(&stream, &all.all()) == whole, "all_gather, {len} bytes");
            }
            for root in 0..RANKS {
                let buffer = on_device(&device, &stream, &raw(rank, len));
                world.broadcast(root, &buffer.all(), Element::U32).unwrap();
                assert!(bytes_of(&stream, &buffer.all()) == raw(root, len), "broadcast, {len} bytes");
            }
            let gathered = DeviceBuffer::alloc(&device, whole.len()).unwrap();
            world.gather(2, &mine.all(), &gathered.all(), Element::U32).unwrap();
            if rank == 2 {
                assert!(bytes_of(&stream, &gathered.all()) == whole, "gather, {len} bytes");
            }
            let share = DeviceBuffer::alloc(&device, len).unwrap();
            world.scatter(2, &gathered.all(), &share.all(), Element::U32).unwrap();
            assert!(bytes_of(&stream, &share.all()) == raw(rank, len), "scatter, {len} bytes");
            let block = len / 3;
            let from = on_device(&device, &stream, &whole[..3 * block]);
            let into = DeviceBuffer::alloc(&device, 3 * block).unwrap();
            world.start_all_to_all(&from.all(), &into.all(), Element::U8).wait().unwrap();
            let expected: Vec<u8> =
                (0..RANKS).flat_map(|_| whole[rank as usize * block..][..block].to_vec()).collect();
            assert!(bytes_of(&stream, &into.all()) == expected, "all_to_all, {len} bytes");
            // In place, after what is enqueued: one is on the host.
            if rank == 1 {
                let buffer = HostBuffer::from(whole[..3 * block].to_vec());
                world.all_to_all(&buffer.all(), &buffer.all(), Element::U8).unwrap();
                assert!(buffer.all().to_vec() == expected, "all_to_all in place on the host, {len} bytes");
            } else {
                let all = from.all().after(&stream).unwrap();
                world.all_to_all(&all, &from.all(), Element::U8).unwrap();
                assert!(bytes_of(&stream, &from.all()) == expected, "all_to_all in place, {len} bytes");
            }
        }
    });
}

/// Of another library, in the mode that forbids most to all threads: a sum, and blocks that change places, in memory of a device.
#[test]
fn collectives_go_on_beside_a_recording() {
    with_threads("collectives::collectives_go_on_beside_a_recording", 10, |_| {
        let (device, _) = open_on(0);
        let library = Foreign::on(&device);
        let numbers = |rank: u32| [vec![rank; 3000], vec![7; 3000], vec![1 << rank; 3000]].concat();
        let bytes = |numbers: Vec<u32>| numbers.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        let buffers: Vec<_> = (0..RANKS)
            .map(|rank| {
                let (device, stream) = open_on(0);
                let buffer = on_device(&device, &stream, &bytes(numbers(rank)));
                (buffer, stream)
            })
            .collect();
        let worlds: Vec<_> =
            nodes(loopback, RANKS, "fixed:bdi").into_iter().map(Communicator::world).collect();
        assert!(library.stream().records(|| {
            thread::scope(|scope| {
                for (world, (buffer, _)) in worlds.iter().zip(&buffers) {
                    scope.spawn(move || {
                        let all = buffer.all();
                        world.all_to_all(&all, &all, Element::U32).unwrap();
                        world.all_reduce(&all, &all, Datatype::U32, Operation::Sum).unwrap();
                    });
                }
            });
        }));
        for (rank, (buffer, stream)) in (0..).zip(&buffers) {
            // Block `rank` of all, one after the other, summed over the ranks: of each sender what it had for all.
            let of = |sender: u32| [sender, 7, 1 << sender].iter().sum::<u32>();
            let expected = bytes((0..RANKS).flat_map(|sender| vec![of(sender); 3000]).collect());
            assert!(bytes_of(stream, &buffer.all()) == expected, "rank {rank}");
        }
    });
}

#[test]
fn communicators_go_beside_a_recording() {
    with_threads("collectives::communicators_go_beside_a_recording", 14, |stub| {
        let (device, stream) = open_on(0);
        let library = Foreign::on(&device);
        let worlds: Vec<_> =
            nodes(loopback, RANKS, "fixed:none").into_iter().map(Communicator::world).collect();
        thread::scope(|scope| {
            for world in &worlds {
                scope.spawn(|| {
                    let all = on_device(&device, &stream, &[1; 9000]).all();
                    world.all_to_all(&all, &all, Element::U32).unwrap();
                    world.all_reduce(&all, &all, Datatype::U32, Operation::Sum).unwrap();
                });
            }
        });
        assert!(library.stream().records(|| drop(worlds)));
        assert!(!stub.left().contains("allocations"), "{}", stub.left());
    });
}
