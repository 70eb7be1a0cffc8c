//! Whatever call of the driver fails: transfers end, what arrives is right, and nothing is left behind.

use std::sync::{Arc, mpsc};

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::executor::{self, Done, Ticket, Work};
use mgcomp_transport::memory::{DeviceBuffer, DeviceSlice, HostBuffer};
use mgcomp_transport::message::{Rank, Status, Tag};
use mgcomp_transport::node::Node;
use mgcomp_transport::payload::Payload;
use mgcomp_transport::region::Access;
use mgcomp_transport::session::TransferError;

use crate::rig::{Links, bytes_of, end_of, loopback, nodes, on_device, open, tcp, with_threads};

const OUT_OF_MEMORY: u32 = 2;

#[test]
fn every_call_may_fail() {
    with_threads("failures::every_call_may_fail", 1, |stub| {
        let raw = data::bytes(Kind::Sparse, 50_000, 3);
        let (mut at, mut failures) = (1, 0);
        loop {
            let (device, stream) = open();
            let nodes = nodes(loopback, 2, "fixed:bdi");
            let source = on_device(&device, &stream, &raw);
            let (region, back) = (on_device(&device, &stream, &raw), on_device(&device, &stream, &raw));
            stream.zero(region.all().region()).unwrap();
            stream.zero(back.all().region()).unwrap();
            stream.wait().unwrap();
            let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();

            stub.fail(None, at, OUT_OF_MEMORY);
            let written = end_of(nodes[0].write(Rank(1), source.all(), Element::U32, address));
            let read = end_of(nodes[0].read(Rank(1), address, back.all()));
            let failed = stub.failed();
            stub.fail(None, 0, 0);
            failures += usize::from(written.is_err() || read.is_err());
            if written.is_ok() {
                assert!(bytes_of(&stream, &region.all()) == raw, "written, {failed:?} failed");
            }
            if written.is_ok() && read.is_ok() {
                assert!(bytes_of(&stream, &back.all()) == raw, "read, {failed:?} failed");
            }
            drop((nodes, source, region, back, stream, device));
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
fn a_fault_of_a_kernel_ends_every_transfer() {
    with_threads("failures::a_fault_of_a_kernel_ends_every_transfer", 2, |stub| {
        stub.set("faulty_launch", 3);
        let raw = data::bytes(Kind::Sparse, 150_000, 3);
        let (device, stream) = open();
        let nodes = nodes(loopback, 2, "fixed:bdi");
        let source = on_device(&device, &stream, &raw);
        let region = DeviceBuffer::alloc(&device, raw.len()).unwrap();
        let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();
        let write = || nodes[0].write(Rank(1), source.all(), Element::U32, address);
        let writes: Vec<_> = (0..3).map(|_| write()).collect();
        assert!(writes.into_iter().map(end_of).any(|end| end.is_err()));
        assert!(end_of(write()).is_err(), "the context is lost");
        drop((nodes, source, region, stream, device));
    });
}

#[test]
fn a_device_that_a_codec_loses_is_heard_of_on_all_ranks() {
    with_threads("failures::a_device_that_a_codec_loses_is_heard_of_on_all_ranks", 5, |stub| {
        let raw = data::bytes(Kind::Sparse, 50_000, 3);
        let (device, stream) = open();
        for links in [loopback as Links, tcp] {
            let nodes = nodes(links, 3, "fixed:bdi");
            let source = on_device(&device, &stream, &raw);
            let (into, host) = (HostBuffer::zeroed(raw.len()), HostBuffer::from(raw.clone()));
            let address = nodes[1].register(into.all(), Element::U32, Access::all()).unwrap();
            let write = || nodes[0].write(Rank(1), source.all(), Element::U32, address);
            end_of(write()).unwrap();
            // Of another rank, which has nothing to do with it, but waits.
            let waiting = nodes[2].receive(Rank(0), Tag(1), HostBuffer::zeroed(8).all());
            stub.fail(Some("cuLaunchKernel"), 1, 719);
            let lost = end_of(write()).unwrap_err().to_string();
            stub.fail(None, 0, 0);
            let cause = "a device of this rank is lost: cuLaunchKernel failed: CUDA error 719";
            assert!(lost.contains(cause), "{lost}");
            for (rank, error) in [(2, end_of(waiting).unwrap_err()), (1, end_with_zero(&nodes[1]))] {
                assert!(error.to_string().contains("peer ended the session: device lost"), "{rank}: {error}");
            }
            // At once and for good, also with those that nothing was on its way to, and of memory of the host.
            assert_eq!(end_of(write()).unwrap_err().to_string(), lost);
            let late = end_of(nodes[0].send(Rank(2), Tag(1), host.all(), Element::U32)).unwrap_err();
            assert!(late.to_string().contains(cause), "{late}");
            // The others go on.
            let written = end_of(nodes[2].write(Rank(1), host.all(), Element::U32, address));
            assert_eq!(written, Ok(raw.len() as u64));
        }
    });
}

/// How what is asked of rank 0 ends.
fn end_with_zero(node: &Node) -> TransferError {
    end_of(node.receive(Rank(0), Tag(7), HostBuffer::zeroed(8).all())).unwrap_err()
}

#[test]
fn a_device_without_kernels_moves_raw_bytes() {
    with_threads("failures::a_device_without_kernels_moves_raw_bytes", 3, |stub| {
        let raw = data::bytes(Kind::Sparse, 50_000, 3);
        let (device, stream) = open();
        let nodes = nodes(loopback, 2, "fixed:bdi");
        // Less than any kernel needs.
        stub.set("shared_len", 1 << 10);
        let (device_without, _) = open();
        assert!(device_without.info().shared_bytes < device.info().shared_bytes);
        let source = on_device(&device_without, &stream, &raw);
        let region = DeviceBuffer::alloc(&device_without, raw.len()).unwrap();
        let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();
        assert_eq!(
            end_of(nodes[0].write(Rank(1), source.all(), Element::U32, address)),
            Ok(raw.len() as u64)
        );
        assert!(bytes_of(&stream, &region.all()) == raw);
        let sent = nodes[0].stats().total();
        assert_eq!(sent.coded_bytes, sent.raw_bytes);
        // A frame from the host is decoded by the host.
        let host = HostBuffer::from(raw.clone());
        assert_eq!(end_of(nodes[0].write(Rank(1), host.all(), Element::U32, address)), Ok(raw.len() as u64));
        assert!(bytes_of(&stream, &region.all()) == raw);
        let sent = nodes[0].stats().total();
        assert!(sent.coded_bytes < sent.raw_bytes);
    });
}

#[test]
#[allow(unsafe_code)] // memory that the test owns
fn an_owner_that_panics_ends_only_its_transfer() {
    with_threads("failures::an_owner_that_panics_ends_only_its_transfer", 4, |_| {
        struct Owner;
        impl Drop for Owner {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let (device, stream) = open();
        let (report, reports) = mpsc::channel();
        let sink =
            Arc::new(move |done: Done| report.send((done.ticket, done.result.map(drop))).unwrap()) as _;
        let mut executor = executor::start(1, true, &sink).unwrap();
        let memory = on_device(&device, &stream, &[1; 5000]);
        let address = memory.all().region().address();
        // SAFETY: the memory outlives the executor.
        let lent = unsafe { DeviceBuffer::adopt(&device, address, 5000, Owner) }.all();
        let mut encode = |ticket, source: DeviceSlice| {
            let source = Payload::from_memory(source);
            let work = Work::Encode {
                source,
                element: Element::U8,
                algorithm: Algorithm::None,
                lent: false,
                shelf: None,
            };
            assert!(executor.submit(ticket, work).is_none());
            reports.recv().unwrap()
        };
        assert_eq!(encode(Ticket(1), lent), (Ticket(1), Err(Status::Internal)));
        assert_eq!(encode(Ticket(2), memory.all()), (Ticket(2), Ok(())));
    });
}
