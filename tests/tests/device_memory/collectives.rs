//! Collectives that only move bytes.

use std::thread;

use mgcomp_codecs::Element;
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::memory::{DeviceBuffer, HostBuffer};

use crate::rig::{Links, bytes_of, cuda, loopback, nodes, on_device, open_on, tcp, with_threads};

const RANKS: u32 = 3;

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

/// Every rank's own thread does `work`.
fn on_all(links: Links, work: impl Fn(&Communicator) + Sync) {
    let worlds: Vec<_> = nodes(links, RANKS, "fixed:bdi").into_iter().map(Communicator::world).collect();
    thread::scope(|scope| {
        for world in &worlds {
            let work = &work;
            scope.spawn(move || work(world));
        }
    });
}

fn raw(rank: u32, len: usize) -> Vec<u8> {
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
        }
    });
}
