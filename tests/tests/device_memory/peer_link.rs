//! Ranks of one process on several devices, over the link from device memory to device memory.

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{Cache, Device, Stream};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::Stub;
use mgcomp_transport::memory::{DeviceBuffer, HostBuffer, Slice};
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::{Node, PeerState};
use mgcomp_transport::region::Access;

use crate::rig::{
    HANGS, bytes_of, cuda_over, end_of, end_with, node_with, nodes_over, on_device, with_threads,
};

/// A device and a stream of the test's own.
pub(crate) type End = (Device, Stream);

fn end(device: Device) -> End {
    let stream = device.stream().unwrap();
    (device, stream)
}

pub(crate) fn device(ordinal: u32) -> End {
    end(Device::open_with(ordinal, Cache::Off).unwrap())
}

/// Two nodes whose link has the devices of these ends.
fn nodes(ends: &[End; 2], policy: &str) -> Vec<Node> {
    nodes_over(cuda_over(ends.iter().map(|(device, _)| Some(device.clone())).collect()), policy)
}

/// Memory of the first goes to the second, to its host, and back again.
pub(crate) fn round_trip(nodes: &[Node], [first, second]: &[End; 2], raw: &[u8]) {
    let (element, len) = (Element::U32, raw.len());
    let source = on_device(&first.0, &first.1, raw);
    let region = DeviceBuffer::alloc(&second.0, len).unwrap();
    let address = nodes[1].register(region.all(), element, Access::all()).unwrap();
    assert_eq!(end_of(nodes[0].write(Rank(1), source.all(), element, address)), Ok(len as u64));
    assert!(bytes_of(&second.1, &region.all()) == raw, "written, {len} bytes");

    let back = DeviceBuffer::alloc(&first.0, len).unwrap();
    assert_eq!(end_of(nodes[0].read(Rank(1), address, back.all())), Ok(len as u64));
    assert!(bytes_of(&first.1, &back.all()) == raw, "read, {len} bytes");

    // What is left on a device by its maker may be wanted on the host.
    let host = HostBuffer::zeroed(len);
    let receiving = nodes[0].receive(Rank(1), Tag(7), host.all());
    let sending = nodes[1].send(Rank(0), Tag(7), region.all(), element);
    assert_eq!((end_of(receiving), end_of(sending)), (Ok(len as u64), Ok(len as u64)));
    assert!(host.all().to_vec() == raw, "sent, {len} bytes");

    first.1.zero(back.all().region()).unwrap();
    first.1.wait().unwrap();
    assert_eq!(
        end_of(nodes[1].write(Rank(0), host.all(), element, register(&nodes[0], &back))),
        Ok(len as u64)
    );
    assert!(bytes_of(&first.1, &back.all()) == raw, "written from the host, {len} bytes");
    nodes[1].unregister(address).unwrap();
}

pub(crate) fn register(node: &Node, buffer: &DeviceBuffer) -> mgcomp_transport::message::Address {
    node.register(buffer.all(), Element::U32, Access::all()).unwrap()
}

/// Copies from context to context while `work` is done.
fn peer_copies(stub: &Stub, work: impl FnOnce()) -> u64 {
    stub.fail(Some("cuMemcpyPeerAsync"), 0, 0);
    work();
    let copies = stub.count("calls");
    stub.fail(None, 0, 0);
    copies
}

#[test]
fn device_memory_travels_from_device_to_device() {
    with_threads("peer_link::device_memory_travels_from_device_to_device", 1, |stub| {
        stub.set("devices", 2);
        for no_peers in [0, 1] {
            stub.set("no_peers", no_peers);
            let apart = || end(Device::open_apart(1, Cache::Off).unwrap());
            let pairs = [[device(0), device(1)], [device(1), apart()], [device(0), device(0)]];
            for (ends, seed) in pairs.into_iter().zip(1..) {
                let is_same = ends[0].0.is_same(&ends[1].0);
                for policy in ["fixed:none", "fixed:bdi", "adaptive"] {
                    let nodes = nodes(&ends, policy);
                    let raws = [1, 4099, 100_001].map(|len| data::bytes(Kind::Deltas, len, seed));
                    let copies =
                        peer_copies(stub, || raws.iter().for_each(|raw| round_trip(&nodes, &ends, raw)));
                    assert_eq!(copies == 0, is_same, "{copies} copies, {policy}");
                    // What `adaptive` does is a matter of time.
                    if policy != "adaptive" {
                        let sent = nodes[0].stats().total();
                        let is_coded = sent.coded_bytes < sent.raw_bytes;
                        assert_eq!(is_coded, policy == "fixed:bdi", "{policy} {sent:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn memory_of_another_device_than_the_rank_s_does_as_well() {
    with_threads("peer_link::memory_of_another_device_than_the_rank_s_does_as_well", 2, |stub| {
        stub.set("devices", 3);
        let raw = data::bytes(Kind::Deltas, 100_001, 2);
        for policy in ["fixed:none", "fixed:bdi"] {
            let nodes = nodes(&[device(0), device(1)], policy);
            round_trip(&nodes, &[device(2), device(2)], &raw);
            round_trip(&nodes, &[device(1), device(0)], &raw);
            // A rank without a device.
            let nodes = nodes_over(cuda_over(vec![Some(device(0).0), None]), policy);
            round_trip(&nodes, &[device(0), device(1)], &raw);
            round_trip(&nodes, &[device(1), device(0)], &raw);
        }
    });
}

#[test]
fn a_device_without_kernels_gets_frames_all_the_same() {
    with_threads("peer_link::a_device_without_kernels_gets_frames_all_the_same", 3, |stub| {
        stub.set("devices", 2);
        let raw = data::bytes(Kind::Deltas, 60_000, 2);
        let with = device(0);
        stub.set("shared_len", 1 << 10);
        let ends = [with, device(1)];
        stub.set("shared_len", 227 << 10);
        let nodes = nodes(&ends, "fixed:bdi");
        round_trip(&nodes, &ends, &raw);
        let sent = nodes[0].stats().total();
        assert!(sent.coded_bytes < sent.raw_bytes, "{sent:?}");
    });
}

#[test]
fn messages_stay_in_order_whatever_memory_they_come_from() {
    with_threads("peer_link::messages_stay_in_order_whatever_memory_they_come_from", 4, |stub| {
        stub.set("devices", 2);
        let ends = [device(0), device(1)];
        let nodes = nodes(&ends, "fixed:zvc");
        let raws: Vec<_> = (0..24).map(|i| data::bytes(Kind::Sparse, 1 + 3000 * i, i as u64)).collect();
        let into: Vec<_> =
            raws.iter().map(|raw| DeviceBuffer::alloc(&ends[1].0, raw.len()).unwrap()).collect();
        let receiving: Vec<_> =
            into.iter().map(|into| nodes[1].receive(Rank(0), Tag(1), into.all())).collect();
        let sending: Vec<_> = raws
            .iter()
            .enumerate()
            .map(|(i, raw)| match i % 2 {
                0 => {
                    nodes[0].send(Rank(1), Tag(1), on_device(&ends[0].0, &ends[0].1, raw).all(), Element::U32)
                }
                _ => nodes[0].send(Rank(1), Tag(1), HostBuffer::from(raw.clone()).all(), Element::U32),
            })
            .collect();
        sending.into_iter().chain(receiving).for_each(|handle| assert!(end_of(handle).is_ok()));
        for (raw, into) in raws.iter().zip(&into) {
            assert!(bytes_of(&ends[1].1, &into.all()) == *raw, "{} bytes", raw.len());
        }
    });
}

#[test]
fn every_call_may_fail() {
    with_threads("peer_link::every_call_may_fail", 5, |stub| {
        stub.set("devices", 2);
        let raw = data::bytes(Kind::Sparse, 50_000, 3);
        let (mut at, mut failures) = (1, 0);
        loop {
            let ends = [device(0), device(1)];
            let nodes = nodes(&ends, "fixed:bdi");
            let source = on_device(&ends[0].0, &ends[0].1, &raw);
            let zeros = vec![0; raw.len()];
            let [back, region] = [0, 1].map(|i| on_device(&ends[i].0, &ends[i].1, &zeros));
            let address = register(&nodes[1], &region);
            stub.fail(None, at, 2);
            let written = end_of(nodes[0].write(Rank(1), source.all(), Element::U32, address));
            let read = end_of(nodes[0].read(Rank(1), address, back.all()));
            let failed = stub.failed();
            stub.fail(None, 0, 0);
            failures += usize::from(written.is_err() || read.is_err());
            if written.is_ok() {
                assert!(bytes_of(&ends[1].1, &region.all()) == raw, "written, {failed:?} failed");
            }
            if written.is_ok() && read.is_ok() {
                assert!(bytes_of(&ends[0].1, &back.all()) == raw, "read, {failed:?} failed");
            }
            drop((nodes, source, region, back, ends));
            assert_eq!(stub.left(), "", "after call {at}, {failed:?}");
            if failed.is_none() {
                break;
            }
            at += 1 + at / 10;
        }
        assert!(failures > 0);
    });
}

#[test]
fn a_lost_device_ends_what_waits_for_it() {
    with_threads("peer_link::a_lost_device_ends_what_waits_for_it", 6, |stub| {
        stub.set("devices", 2);
        for call in ["cuMemcpyPeerAsync", "cuLaunchKernel"] {
            let raw = data::bytes(Kind::Sparse, 150_000, 3);
            let ends = [device(0), device(1)];
            let nodes = nodes(&ends, "fixed:bdi");
            let source = on_device(&ends[0].0, &ends[0].1, &raw);
            let region = DeviceBuffer::alloc(&ends[1].0, raw.len()).unwrap();
            let address = register(&nodes[1], &region);
            // As after an access outside of memory, of which this is the first call to hear.
            stub.fail(Some(call), 2, 700);
            let writes: Vec<_> =
                (0..3).map(|_| nodes[0].write(Rank(1), source.all(), Element::U32, address)).collect();
            assert!(writes.into_iter().map(end_of).any(|end| end.is_err()), "{call}");
            stub.fail(None, 0, 0);
        }
    });
}

/// What was said of a device that is lost: not by the rank itself.
const TOLD: &str = "peer ended the session: device lost";

#[test]
fn a_device_that_is_lost_when_bytes_are_fetched_from_it_is_heard_of_by_all() {
    with_threads(
        "peer_link::a_device_that_is_lost_when_bytes_are_fetched_from_it_is_heard_of_by_all",
        7,
        |stub| {
            stub.set("devices", 4);
            let ends = [0, 1, 2, 3].map(device);
            let raw = data::bytes(Kind::Deltas, 60_000, 4);
            let source = on_device(&ends[1].0, &ends[1].1, &raw);
            // A rank with a device may still want bytes on the host, or on another one.
            let (host, other) = (HostBuffer::zeroed(raw.len()), on_device(&ends[3].0, &ends[3].1, &raw));
            for (into, threads) in
                [(Slice::from(host.all()), 1), (host.all().into(), 0), (other.all().into(), 1)]
            {
                let devices = ends[..3].iter().map(|(device, _)| Some(device.clone())).collect();
                let links = cuda_over(devices).into_iter();
                let nodes: Vec<_> = links.map(|link| node_with(link, "fixed:bdi", threads)).collect();
                nodes.iter().for_each(|node| drop(node.wait_for_peers(HANGS)));
                let waiting = nodes[2].receive(Rank(0), Tag(1), HostBuffer::zeroed(8).all());
                stub.fail(Some("cuMemcpyDtoHAsync_v2"), 1, 719);
                let sending = nodes[1].send(Rank(0), Tag(1), source.all(), Element::U32);
                let lost = end_of(nodes[0].receive(Rank(1), Tag(1), into)).unwrap_err().to_string();
                let cause = "a device of this rank is lost: cuMemcpyDtoHAsync_v2 failed: CUDA error 719";
                assert!(lost.contains(cause), "{threads} threads: {lost}");
                for heard in [end_of(sending), end_of(waiting)] {
                    let heard = heard.unwrap_err().to_string();
                    assert!(heard.contains(TOLD), "{threads} threads: {heard}");
                }
                assert!(end_with(&nodes[0], Rank(2)).contains(cause));
                stub.fail(None, 0, 0);
            }
        },
    );
}

/// Four ranks, of which 0 and 3 have one device, and bytes on that.
struct Four {
    ends: [End; 3],
    raw: Vec<u8>,
    source: DeviceBuffer,
}

impl Four {
    fn new(stub: &Stub) -> Self {
        stub.set("devices", 3);
        let (ends, raw) = ([0, 1, 2].map(device), data::bytes(Kind::Deltas, 60_000, 4));
        let source = on_device(&ends[0].0, &ends[0].1, &raw);
        Self { ends, raw, source }
    }

    fn nodes(&self) -> Vec<Node> {
        let devices = [0, 1, 2, 0].map(|end: usize| Some(self.ends[end].0.clone()));
        nodes_over(cuda_over(devices.into()), "fixed:none")
    }

    /// Sends the bytes from rank 0 to rank 1 when the `at`th `call` from now finds something lost, and expects that all ways end of
    /// the ranks `lost`, and that one, and no others. `false` if the call was not one for that copy.
    fn copy(&self, stub: &Stub, (call, at): (&str, u64), lost: &[u32]) -> bool {
        let nodes = self.nodes();
        let never = HostBuffer::zeroed(8);
        let waiting: Vec<_> =
            lost.iter().map(|&rank| nodes[2].receive(Rank(rank), Tag(1), never.all())).collect();
        let taken = DeviceBuffer::alloc(&self.ends[1].0, self.raw.len()).unwrap();
        let receiving = nodes[1].receive(Rank(0), Tag(1), taken.all());
        stub.fail(Some(call), at, 700);
        let sent = end_of(nodes[0].send(Rank(1), Tag(1), self.source.all(), Element::U32));
        stub.fail(None, 0, 0);
        let said = sent.err().map_or(String::new(), |error| error.to_string());
        let failing = lost.first().unwrap_or(&0);
        if !said.contains(&format!("the device of rank {failing} fails: {call}")) {
            return false;
        }
        assert!(end_of(receiving).unwrap_err().to_string().contains("CUDA error 700"));
        for (handle, rank) in waiting.into_iter().zip(lost) {
            let heard = end_of(handle).unwrap_err().to_string();
            let cause = format!("the device of rank {rank} fails: {call} failed: CUDA error 700");
            assert!(heard.contains(&cause), "{heard}");
            assert!(end_with(&nodes[*rank as usize], Rank(2)).contains(&cause));
        }
        self.go_on(&nodes, lost);
        true
    }

    /// The ranks that are not lost reach each other, but for the two that the copy was between.
    fn go_on(&self, nodes: &[Node], lost: &[u32]) {
        let left: Vec<u32> = (0..4).filter(|rank| !lost.contains(rank)).collect();
        let pairs = left.iter().flat_map(|&one| left.iter().map(move |&other| [one, other]));
        let pairs = pairs.filter(|pair| pair[0] != pair[1] && ![[0, 1], [1, 0]].contains(pair));
        for [from, to] in pairs.map(|pair| pair.map(Rank)) {
            assert_eq!(nodes[from.0 as usize].peer_state(to), Some(PeerState::Open), "{from} {to} {lost:?}");
            let (host, into) = (HostBuffer::from(self.raw.clone()), HostBuffer::zeroed(self.raw.len()));
            let receiving = nodes[to.0 as usize].receive(from, Tag(2), into.all());
            let sending = nodes[from.0 as usize].send(to, Tag(2), host.all(), Element::U32);
            let len = self.raw.len() as u64;
            assert_eq!([end_of(sending), end_of(receiving)], [Ok(len), Ok(len)], "{from} {to} {lost:?}");
        }
    }
}

#[test]
fn a_device_that_has_no_room_because_it_is_lost_is_lost_to_its_rank() {
    let test = "peer_link::a_device_that_has_no_room_because_it_is_lost_is_lost_to_its_rank";
    with_threads(test, 8, |stub| {
        let four = Four::new(stub);
        // Some are a codec's.
        assert!((1..6).filter(|&at| four.copy(stub, ("cuMemAlloc_v2", at), &[1])).count() > 0);
    });
}

#[test]
fn a_device_that_a_copy_comes_from_and_finds_lost_is_lost_to_all_its_ranks() {
    let test = "peer_link::a_device_that_a_copy_comes_from_and_finds_lost_is_lost_to_all_its_ranks";
    with_threads(test, 9, |stub| {
        let four = Four::new(stub);
        stub.lose(0);
        assert!(four.copy(stub, ("cuMemcpyPeerAsync", 1), &[0, 3]));
    });
}

/// The driver says so to who copies, which is another device.
#[test]
fn a_device_that_a_copy_goes_to_and_finds_lost_is_lost_to_its_rank_alone() {
    let test = "peer_link::a_device_that_a_copy_goes_to_and_finds_lost_is_lost_to_its_rank_alone";
    with_threads(test, 10, |stub| {
        let four = Four::new(stub);
        stub.lose(1);
        assert!(four.copy(stub, ("cuMemcpyPeerAsync", 1), &[1]));
    });
}

#[test]
fn a_copy_that_fails_while_both_devices_are_there_ends_that_way_alone() {
    let test = "peer_link::a_copy_that_fails_while_both_devices_are_there_ends_that_way_alone";
    with_threads(test, 11, |stub| {
        let four = Four::new(stub);
        assert!(four.copy(stub, ("cuMemcpyPeerAsync", 1), &[]));
    });
}

#[test]
fn what_a_full_device_cannot_keep_goes_by_way_of_the_host() {
    with_threads("peer_link::what_a_full_device_cannot_keep_goes_by_way_of_the_host", 12, |stub| {
        stub.set("devices", 2);
        for policy in ["fixed:none", "fixed:bdi"] {
            let ends = [device(0), device(1)];
            let nodes = nodes(&ends, policy);
            let raw = data::bytes(Kind::Sparse, 100_001, 6);
            let source = on_device(&ends[0].0, &ends[0].1, &raw);
            let into = DeviceBuffer::alloc(&ends[1].0, raw.len()).unwrap();
            ends[1].1.zero(into.all().region()).unwrap();
            ends[1].1.wait().unwrap();
            let address = register(&nodes[1], &into);
            stub.set("full", 1);
            let written = end_of(nodes[0].write(Rank(1), source.all(), Element::U32, address));
            stub.set("full", 0);
            assert_eq!(written, Ok(raw.len() as u64), "{policy}");
            assert!(bytes_of(&ends[1].1, &into.all()) == raw, "{policy}");
        }
    });
}
