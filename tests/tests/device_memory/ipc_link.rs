//! Ranks that could be processes, on several devices, over the link between the devices of processes. In one process windows are
//! shared by files; `ipc_failures` has several.

use std::process::id;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mgcomp_codecs::Element;
use mgcomp_codecs::device::Device;
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::link::Link;
use mgcomp_transport::link::cuda::ipc::{Carried, CudaIpc, CudaIpcConfig, Sharing};
use mgcomp_transport::link::shm::ShmJob;
use mgcomp_transport::memory::{DeviceBuffer, HostBuffer};
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::region::Access;

use crate::peer_link::{End, device, register, round_trip};
use crate::rig::{SECRET, bytes_of, end_of, nodes_over, on_device, with_threads};

pub(crate) fn job(name: &str, ranks: u32) -> ShmJob {
    ShmJob::new(SECRET, ranks).named(name)
}

/// A name that no other test has.
pub(crate) fn job_name() -> String {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    format!("ipc-{}-{}", id(), JOBS.fetch_add(1, Ordering::SeqCst))
}

/// So short windows that payloads wait for room in them, and some are longer.
const SHORT: Option<u64> = Some(64 << 10);

pub(crate) fn config() -> CudaIpcConfig {
    CudaIpcConfig { window_bytes: Some(1 << 20), ..CudaIpcConfig::new(NodeConfig::default().limits) }
}

/// The ends of ranks with these devices, and what they carry.
fn links(devices: &[Option<Device>], config: CudaIpcConfig) -> (Vec<Box<dyn Link>>, Vec<Arc<Carried>>) {
    let job = job(&job_name(), devices.len() as u32);
    let end = |(rank, device): (u32, &Option<Device>)| {
        let link = CudaIpc::new(job.clone(), Rank(rank), device.clone(), config).unwrap();
        let carried = link.carried();
        (Box::new(link) as Box<dyn Link>, carried)
    };
    (0..).zip(devices).map(end).unzip()
}

fn nodes(ends: &[End; 2], policy: &str, config: CudaIpcConfig) -> (Vec<Node>, Vec<Arc<Carried>>) {
    let devices: Vec<_> = ends.iter().map(|(device, _)| Some(device.clone())).collect();
    let (links, carried) = links(&devices, config);
    (nodes_over(links, policy), carried)
}

/// Bytes of all that went from device to device, and by way of the host.
fn totals(carried: &[Arc<Carried>]) -> (u64, u64) {
    carried.iter().fold((0, 0), |(windows, host), carried| {
        (windows + carried.window_bytes(), host + carried.host_bytes())
    })
}

#[test]
fn payloads_go_by_window_where_the_driver_shares_memory() {
    with_threads("ipc_link::payloads_go_by_window_where_the_driver_shares_memory", 1, |stub| {
        stub.set("devices", 2);
        let raws = [1, 4099, 100_001].map(|len| data::bytes(Kind::Deltas, len, 3));
        // No process opens its own handles.
        let ways = [
            (Sharing::Any, "", true),
            (Sharing::Files, "", true),
            (Sharing::Handles, "", false),
            (Sharing::Nothing, "", false),
            (Sharing::Any, "no_vmm", false),
            (Sharing::Any, "no_peers", false),
        ];
        for (sharing, without, by_window) in ways {
            if !without.is_empty() {
                stub.set(without, 1);
            }
            for policy in ["fixed:none", "fixed:bdi"] {
                let ends = [device(0), device(1)];
                let (nodes, carried) = nodes(&ends, policy, CudaIpcConfig { sharing, ..config() });
                raws.iter().for_each(|raw| round_trip(&nodes, &ends, raw));
                let (windows, host) = totals(&carried);
                let found = (windows > 100_000, host > 100_000, windows == 0 || host == 0);
                assert_eq!(found, (by_window, !by_window, true), "{sharing:?} {without} {policy}");
                let sent = nodes[0].stats().total();
                assert_eq!(sent.coded_bytes < sent.raw_bytes, policy == "fixed:bdi", "{sent:?}");
            }
            if !without.is_empty() {
                stub.set(without, 0);
            }
        }
    });
}

#[test]
fn memory_of_any_kind_is_sent() {
    with_threads("ipc_link::memory_of_any_kind_is_sent", 2, |stub| {
        stub.set("devices", 3);
        let raw = data::bytes(Kind::Deltas, 100_001, 2);
        for policy in ["fixed:none", "fixed:bdi"] {
            let (nodes, _) = nodes(&[device(0), device(1)], policy, config());
            // Of other devices than the ranks'.
            round_trip(&nodes, &[device(2), device(2)], &raw);
            round_trip(&nodes, &[device(1), device(0)], &raw);
            // That has no allocation of its own, as memory of pools has none.
            let (there, stream) = device(0);
            let mapped = there.alloc_shareable(raw.len() as u64).unwrap();
            stream.upload(&raw, mapped.region()).unwrap();
            let address = mapped.region().address();
            // SAFETY: the memory is there as long as its owner, which goes along.
            #[allow(unsafe_code)]
            let source = unsafe { DeviceBuffer::adopt(&there, address, raw.len(), mapped) };
            let (other, its_stream) = device(1);
            let region = DeviceBuffer::alloc(&other, raw.len()).unwrap();
            let to = register(&nodes[1], &region);
            let written = end_of(nodes[0].write(Rank(1), source.all(), Element::U32, to));
            assert_eq!(written, Ok(raw.len() as u64));
            assert!(bytes_of(&its_stream, &region.all()) == raw);
            drop(nodes);
        }
        // Ranks without a device.
        for devices in [vec![Some(device(0).0), None], vec![None, Some(device(0).0)], vec![None, None]] {
            let (links, _) = links(&devices, config());
            let nodes = nodes_over(links, "fixed:bdi");
            round_trip(&nodes, &[device(0), device(1)], &raw);
        }
    });
}

#[test]
fn who_keeps_what_came_holds_nobody_up() {
    with_threads("ipc_link::who_keeps_what_came_holds_nobody_up", 4, |stub| {
        stub.set("devices", 2);
        let ends = [device(0), device(1)];
        let config = CudaIpcConfig { window_bytes: SHORT, ..config() };
        let (nodes, carried) = nodes(&ends, "fixed:none", config);
        // From nothing to longer than the window, from the device and the host in turn; received in the opposite order.
        let raws: Vec<_> = (0..24).map(|i| data::bytes(Kind::Dense, 3500 * i, i as u64)).collect();
        let tag = |i: usize| Tag(i as u64);
        let sending: Vec<_> = raws
            .iter()
            .enumerate()
            .map(|(i, raw)| match i % 3 {
                0 => {
                    let source = HostBuffer::from(raw.clone());
                    nodes[0].send(Rank(1), tag(i), source.all(), Element::U8)
                }
                _ => {
                    let source = on_device(&ends[0].0, &ends[0].1, raw);
                    nodes[0].send(Rank(1), tag(i), source.all(), Element::U8)
                }
            })
            .collect();
        for (i, raw) in raws.iter().enumerate().rev() {
            let into = DeviceBuffer::alloc(&ends[1].0, raw.len()).unwrap();
            let received = end_of(nodes[1].receive(Rank(0), tag(i), into.all()));
            assert_eq!(received, Ok(raw.len() as u64), "message {i}");
            assert!(bytes_of(&ends[1].1, &into.all()) == *raw, "message {i}");
        }
        sending.into_iter().for_each(|handle| assert!(end_of(handle).is_ok()));
        let (windows, host) = totals(&carried);
        assert!(windows > 0 && host > 0, "{windows} by window, {host} by the host");
    });
}

#[test]
fn messages_of_one_tag_stay_in_order() {
    with_threads("ipc_link::messages_of_one_tag_stay_in_order", 5, |stub| {
        stub.set("devices", 2);
        let ends = [device(0), device(1)];
        let config = CudaIpcConfig { window_bytes: SHORT, ..config() };
        let (nodes, _) = nodes(&ends, "fixed:zvc", config);
        let raws: Vec<_> = (0..24).map(|i| data::bytes(Kind::Sparse, 1 + 3000 * i, i as u64)).collect();
        let into: Vec<_> =
            raws.iter().map(|raw| DeviceBuffer::alloc(&ends[1].0, raw.len()).unwrap()).collect();
        let receiving: Vec<_> =
            into.iter().map(|into| nodes[1].receive(Rank(0), Tag(1), into.all())).collect();
        let sending: Vec<_> = (0..)
            .zip(&raws)
            .map(|(i, raw)| {
                let source = on_device(&ends[0].0, &ends[0].1, raw);
                let host = HostBuffer::from(raw.clone());
                match i % 2 {
                    0 => nodes[0].send(Rank(1), Tag(1), source.all(), Element::U32),
                    _ => nodes[0].send(Rank(1), Tag(1), host.all(), Element::U32),
                }
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
    with_threads("ipc_link::every_call_may_fail", 6, |stub| {
        stub.set("devices", 2);
        let raw = data::bytes(Kind::Sparse, 50_000, 3);
        // When the ranks meet, and when they talk.
        for meeting in [true, false] {
            let (mut at, mut failures) = (1, 0);
            loop {
                let ends = [device(0), device(1)];
                let zeros = vec![0; raw.len()];
                let source = on_device(&ends[0].0, &ends[0].1, &raw);
                let [back, region] = [0, 1].map(|i| on_device(&ends[i].0, &ends[i].1, &zeros));
                if meeting {
                    stub.fail(None, at, 2);
                }
                let (nodes, _) = nodes(&ends, "fixed:bdi", config());
                if !meeting {
                    stub.fail(None, at, 2);
                }
                let address = nodes[1].register(region.all(), Element::U32, Access::all()).unwrap();
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
                drop((nodes, source, back, region, ends));
                assert_eq!(stub.left(), "", "after call {at}, {failed:?}");
                if failed.is_none() {
                    break;
                }
                at += 1 + at / 10;
            }
            assert!(failures > 0 || meeting);
        }
    });
}
