//! Reductions of communicators in the memory of devices.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_codecs::device::DeviceError;
use mgcomp_codecs::reduction::{combine, finish};
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::communicator::{
    Block, CollectiveRequest, Communicator, CommunicatorError, Datatype, Operation,
};
use mgcomp_transport::memory::{DeviceBuffer, DeviceSlice, HostBuffer};
use mgcomp_transport::message::{Rank, Tag};

use crate::collectives::{RANKS, on_all_by, raw};
use crate::rig::{
    Busy, HANGS, Links, bytes_of, cuda, end_of, loopback, nodes, on_device, open_on, tcp, with_threads,
};

#[test]
fn reductions_are_of_devices_over_loopback() {
    with_threads("reductions::reductions_are_of_devices_over_loopback", 4, |stub| {
        // What is raw may travel by way of the host, but nothing is combined there.
        let launches = stub.count("launches");
        reduce(loopback, 1, "fixed:none");
        assert!(stub.count("launches") > launches);
    });
}

#[test]
fn reductions_are_of_devices_over_tcp() {
    with_threads("reductions::reductions_are_of_devices_over_tcp", 5, |_| reduce(tcp, 1, "fixed:bdi"));
}

#[test]
fn reductions_are_of_devices_over_cuda() {
    with_threads("reductions::reductions_are_of_devices_over_cuda", 6, |stub| {
        stub.set("devices", RANKS.into());
        reduce(cuda, RANKS, "fixed:xp");
    });
}

/// What portable code makes of the numbers of all ranks.
fn reduced(len: usize, datatype: Datatype, operation: Operation) -> Vec<u8> {
    let mut left = raw(0, len);
    (1..RANKS).for_each(|rank| combine(operation, datatype, &mut left, &raw(rank, len)));
    finish(operation, datatype, &mut left, RANKS);
    left
}

fn reduce(links: Links, devices: u32, policy: &str) {
    on_all_by(links, policy, |world| {
        let rank = world.rank() as usize;
        let (device, stream) = open_on(rank as u32 % devices);
        let cases = [
            (Datatype::F32, Operation::Sum, 108),
            (Datatype::Bf16, Operation::Avg, 16_384),
            (Datatype::F16, Operation::Max, 30_002),
            // Two parts of a share, and some more.
            (Datatype::I64, Operation::Sum, 3 * (520 << 10) + 24),
        ];
        for (datatype, operation, len) in cases {
            let expected = reduced(len, datatype, operation);
            let what = format!("{operation} of {datatype}, {len} bytes");
            let mine = || on_device(&device, &stream, &raw(rank as u32, len));

            // In place, from elsewhere, and where one rank has its numbers on the host and another gets them there.
            let buffer = mine();
            world.all_reduce(&buffer.all(), &buffer.all(), datatype, operation).unwrap();
            assert!(bytes_of(&stream, &buffer.all()) == expected, "all_reduce, {what}");
            let (from, into) = (mine(), DeviceBuffer::alloc(&device, len).unwrap());
            let on_host = HostBuffer::from(raw(rank as u32, len));
            if rank == 1 {
                world.all_reduce(&on_host.all(), &into.all(), datatype, operation).unwrap();
                assert!(bytes_of(&stream, &into.all()) == expected, "from the host, {what}");
            } else if rank == 2 {
                world.all_reduce(&from.all(), &on_host.all(), datatype, operation).unwrap();
                assert!(on_host.all().to_vec() == expected, "to the host, {what}");
            } else {
                let after = from.all().after(&stream).unwrap();
                world.start_all_reduce(&after, &into.all(), datatype, operation).wait().unwrap();
                assert!(bytes_of(&stream, &into.all()) == expected, "apart, {what}");
            }

            let (from, into) = (mine(), DeviceBuffer::alloc(&device, len).unwrap());
            world.reduce(1, &from.all(), &into.all(), datatype, operation).unwrap();
            if rank == 1 {
                assert!(bytes_of(&stream, &into.all()) == expected, "reduce, {what}");
            }

            // Blocks of different lengths, which do not lie on multiples of 16; in place.
            let width = datatype.width_bytes();
            let second = len / width / 2 * width;
            let blocks = [(0, width), (width, second - width), (second, len - second)];
            let blocks = blocks.map(|(offset, len)| Block { offset, len });
            let Block { offset, len: block_len } = blocks[rank];
            let buffer = mine();
            let own = buffer.slice(offset..offset + block_len).unwrap();
            world.reduce_scatter_v(&buffer.all(), &blocks, &own, datatype, operation).unwrap();
            assert!(
                bytes_of(&stream, &own) == expected[offset..offset + block_len],
                "reduce_scatter, {what}"
            );
        }
    });
}

#[test]
fn a_device_that_fails_breaks_a_reduction() {
    with_threads("reductions::a_device_that_fails_breaks_a_reduction", 7, |stub| {
        let worlds: Vec<_> = nodes(loopback, 1, "fixed:none").into_iter().map(Communicator::world).collect();
        let (device, stream) = open_on(0);
        let buffer = on_device(&device, &stream, &raw(0, 60_000));
        let reduce = || worlds[0].all_reduce(&buffer.all(), &buffer.all(), Datatype::F32, Operation::Avg);
        reduce().unwrap();
        stub.fail(Some("cuLaunchKernel"), 1, 719);
        let Err(CommunicatorError::Device(DeviceError::Driver { call: "cuLaunchKernel", code: 719, .. })) =
            reduce()
        else {
            panic!("a launch that fails")
        };
        stub.fail(None, 0, 0);
        assert!(matches!(reduce(), Err(CommunicatorError::Broken(_))));
        // What is wrong with arguments is told before anything is sent.
        let world = Communicator::world(nodes(loopback, 1, "fixed:none").remove(0));
        let (odd, short) = (buffer.slice(0..10).unwrap(), buffer.slice(0..8).unwrap());
        let width = world.all_reduce(&odd, &odd, Datatype::F32, Operation::Sum).unwrap_err();
        assert_eq!(width, CommunicatorError::Width { len: 10, datatype: Datatype::F32 });
        let length = world.all_reduce(&short, &odd, Datatype::F32, Operation::Sum).unwrap_err();
        assert!(matches!(length, CommunicatorError::Length { got: 10, expected: 8, .. }), "{length}");
        let apart = buffer.slice(4..12).unwrap();
        let overlap = world.all_reduce(&short, &apart, Datatype::F32, Operation::Sum).unwrap_err();
        assert_eq!(overlap, CommunicatorError::Overlap);
        world.all_reduce(&short, &short, Datatype::F32, Operation::Sum).unwrap();
    });
}

#[test]
fn parts_are_combined_without_a_wait_between_them() {
    with_threads("reductions::parts_are_combined_without_a_wait_between_them", 8, |stub| {
        const PARTS: usize = 4;
        let len = PARTS * (256 << 10);
        let worlds: Vec<_> = nodes(loopback, 2, "fixed:none").into_iter().map(Communicator::world).collect();
        let (device, stream) = open_on(0);
        let numbers = |rank| data::bytes(Kind::Deltas, 2 * len, rank);
        let [from, into] = [0, 1].map(|_| [0, 1].map(|rank| on_device(&device, &stream, &numbers(rank))));
        let mut expected = numbers(0);
        combine(Operation::Sum, Datatype::I32, &mut expected, &numbers(1));
        let share = |rank: usize| into[rank].slice(0..len).unwrap();
        let scatter = |rank: usize, share: &DeviceSlice| {
            worlds[rank].start_reduce_scatter(&from[rank].all(), share, Datatype::I32, Operation::Sum)
        };
        let check = || {
            for rank in 0..2 {
                assert!(bytes_of(&stream, &share(rank)) == expected[rank * len..][..len], "rank {rank}");
            }
        };
        // Loads the kernel, and gets rooms.
        [0, 1]
            .map(|rank| scatter(rank, &share(rank)))
            .into_iter()
            .for_each(|request| request.wait().unwrap());
        check();

        // One wait of each rank, however many parts there are.
        into.iter().for_each(|into| stream.zero(into.all().region()).unwrap());
        stream.wait().unwrap();
        stub.fail(Some("cuStreamSynchronize"), 0, 0);
        [0, 1]
            .map(|rank| scatter(rank, &share(rank)))
            .into_iter()
            .for_each(|request| request.wait().unwrap());
        assert_eq!(stub.count("calls"), 2);
        check();

        // What rank 0 may not write yet holds its parts up on the device, and not the calls that combine them.
        into.iter().for_each(|into| stream.zero(into.all().region()).unwrap());
        stream.wait().unwrap();
        let busy = Busy::on(0);
        let launches = stub.count("launches");
        stub.fail(Some("cuLaunchKernel"), 0, 0);
        let late = share(0).after(&busy.working).unwrap();
        let requests = [scatter(0, &late), scatter(1, &share(1))];
        let started = Instant::now();
        while stub.count("calls") < PARTS as u64 + 2 || stub.count("launches") < launches + PARTS as u64 {
            assert!(started.elapsed() < HANGS, "hangs: {} launches", stub.count("calls"));
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(stub.count("launches"), launches + PARTS as u64, "those of rank 1");
        assert!(bytes_of(&stream, &share(0)).iter().all(|&byte| byte == 0));
        busy.end();
        requests.into_iter().for_each(|request| request.wait().unwrap());
        check();
    });
}

#[test]
fn a_device_that_is_lost_ends_a_reduction_on_all_ranks() {
    with_threads("reductions::a_device_that_is_lost_ends_a_reduction_on_all_ranks", 9, |stub| {
        let worlds: Vec<_> =
            nodes(loopback, RANKS, "fixed:none").into_iter().map(Communicator::world).collect();
        let (device, stream) = open_on(0);
        let buffers = [0, 1, 2].map(|rank| on_device(&device, &stream, &raw(rank, 600_000)));
        let reduce = || {
            let request = |(world, buffer): (&Communicator, &DeviceBuffer)| {
                world.start_all_reduce(&buffer.all(), &buffer.all(), Datatype::I32, Operation::Sum)
            };
            let requests: Vec<_> = worlds.iter().zip(&buffers).map(request).collect();
            requests.into_iter().map(CollectiveRequest::wait).collect::<Vec<_>>()
        };
        assert!(reduce().iter().all(Result::is_ok));
        // On one of the ranks, which alone has lost its device.
        stub.fail(Some("cuLaunchKernel"), 1, 719);
        let ends: Vec<_> = reduce().into_iter().map(|end| end.unwrap_err().to_string()).collect();
        stub.fail(None, 0, 0);
        let says = |word: &str| ends.iter().filter(|text| text.contains(word)).count();
        assert_eq!((says("CUDA error 719"), says("device lost")), (1, 2), "{ends:?}");
        for (end, first) in reduce().into_iter().zip(ends) {
            let text = end.unwrap_err().to_string();
            assert!(text.contains(&first), "{text}, {first} before");
        }
    });
}

#[test]
fn an_error_of_a_device_ends_a_reduction_on_all_ranks() {
    with_threads("reductions::an_error_of_a_device_ends_a_reduction_on_all_ranks", 10, |stub| {
        let (device, stream) = open_on(0);
        for links in [loopback as Links, tcp] {
            let worlds: Vec<_> =
                nodes(links, RANKS, "fixed:none").into_iter().map(Communicator::world).collect();
            let buffers = [0, 1, 2].map(|rank| on_device(&device, &stream, &raw(rank, 600_000)));
            let reduce = || {
                let request = |(world, buffer): (&Communicator, &DeviceBuffer)| {
                    world.start_all_reduce(&buffer.all(), &buffer.all(), Datatype::I32, Operation::Sum)
                };
                let requests: Vec<_> = worlds.iter().zip(&buffers).map(request).collect();
                requests.into_iter().map(ended).collect::<Vec<_>>()
            };
            assert!(reduce().iter().all(Result::is_ok));
            // An invalid value, which the device survives, and one of the ranks has.
            stub.fail(Some("cuLaunchKernel"), 1, 1);
            let ends: Vec<_> = reduce().into_iter().map(|end| end.unwrap_err().to_string()).collect();
            stub.fail(None, 0, 0);
            let says = |words: &str| ends.iter().filter(|text| text.contains(words)).count();
            let told = "has given the operation up: internal failure";
            assert_eq!((says("cuLaunchKernel failed: CUDA error 1"), says(told)), (1, 2), "{ends:?}");
            for (end, first) in reduce().into_iter().zip(ends) {
                let text = end.unwrap_err().to_string();
                assert!(text.contains(&first), "{text}, {first} before");
            }
            // The sessions go on.
            let into = HostBuffer::zeroed(600_000);
            let receiving = worlds[1].node().receive(Rank(2), Tag(1), into.all());
            let sending = worlds[2].node().send(Rank(1), Tag(1), buffers[0].all(), Element::U32);
            assert_eq!([end_of(sending), end_of(receiving)], [Ok(600_000), Ok(600_000)]);
        }
    });
}

/// The end of a collective, which must come.
fn ended(mut request: CollectiveRequest) -> Result<(), CommunicatorError> {
    let started = Instant::now();
    while !request.is_finished() {
        assert!(started.elapsed() < HANGS, "hangs: a collective does not end");
        thread::sleep(Duration::from_millis(2));
    }
    request.wait()
}
