//! Copies of all kinds of data, lengths and policies.

use std::thread;

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_transport::copy::{Copier, CopyConfig, CopyHandle, CopyReport, Direction, Order};
use mgcomp_transport::memory::HostBuffer;

use super::{Random, buffer, policy};

const SEGMENT: usize = 64 << 10;

fn config(order: Order) -> CopyConfig {
    CopyConfig { segment_bytes: SEGMENT, window: 4, order, ..CopyConfig::simulated(16.0).unwrap() }
}

#[test]
fn every_length_direction_and_policy_arrives_equal() {
    let copier = Copier::start(config(Order::Free)).unwrap();
    let lengths =
        [0, 4, 64, 4096, SEGMENT - 4, SEGMENT, SEGMENT + 4, 3 * SEGMENT, 5 * SEGMENT + 1020, 1 << 20];
    let mut random = Random(7);
    for len in lengths {
        for name in ["fixed:none", "fixed:zvc", "fixed:xp", "fixed:ibp", "adaptive", "paper"] {
            let direction = Direction::ALL[random.below(4) as usize];
            let source = buffer(&random.words(len, 70));
            let into = buffer(&vec![0xee; len]);
            let copied =
                copier.memcpy_compressed(into.all(), source.all(), direction, Element::F32, policy(name));
            let report = copied.unwrap();
            assert_eq!(into.all().to_vec(), source.all().to_vec(), "{name}: {len} bytes, {direction}");
            assert_eq!(report.raw_bytes, len as u64);
            assert!(report.coded_bytes <= report.raw_bytes, "{name}: {report}");
            assert!(report.reason.is_some());
            assert_eq!(report.simulated_gbps.is_some(), direction != Direction::HostToHost);
        }
    }
}

#[test]
fn pieces_of_buffers_are_copied_and_nothing_around_them() {
    let copier = Copier::start(config(Order::Free)).unwrap();
    let mut random = Random(11);
    let len = 4 * SEGMENT;
    let source = buffer(&random.words(len, 60));
    let mut expected = vec![0xee; len];
    let into = buffer(&expected);
    for _ in 0..40 {
        let start = random.below(len as u64 / 8) as usize * 8;
        let bytes = random.below((len - start) as u64 / 8 + 1) as usize * 8;
        let at = random.below((len - bytes) as u64 / 8 + 1) as usize * 8;
        let from = source.slice(start..start + bytes).unwrap();
        let to = into.slice(at..at + bytes).unwrap();
        let direction = Direction::DeviceToDevice;
        copier.memcpy_compressed(to, from, direction, Element::F64, policy("fixed:zvc")).unwrap();
        expected[at..at + bytes].copy_from_slice(&source.all().to_vec()[start..start + bytes]);
        assert!(into.all().to_vec() == expected, "{bytes} bytes from {start} to {at}");
    }
}

#[test]
fn many_threads_copy_at_once() {
    let copier = Copier::start(config(Order::Free)).unwrap();
    thread::scope(|scope| {
        for seed in 0..4 {
            let copier = &copier;
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..10 {
                    let len = random.below(4 * SEGMENT as u64) as usize / 4 * 4;
                    let source = buffer(&random.words(len, 50));
                    let into = HostBuffer::zeroed(len);
                    let direction = Direction::HostToDevice;
                    let policy = policy("fixed:zvc");
                    copier
                        .memcpy_compressed(into.all(), source.all(), direction, Element::F32, policy)
                        .unwrap();
                    assert!(into.all().to_vec() == source.all().to_vec());
                }
            });
        }
    });
}

#[test]
fn copies_in_order_finish_in_order() {
    let copier = Copier::start(config(Order::Asked)).unwrap();
    let mut random = Random(13);
    let mut copies: Vec<(CopyHandle<CopyReport>, HostBuffer, HostBuffer)> = Vec::new();
    for i in 0..30 {
        // Long ones, then short ones that could overtake them; some wait for a sample.
        let len = if i % 3 == 0 { 6 * SEGMENT } else { 256 };
        let (source, into) = (buffer(&random.words(len, 50)), HostBuffer::zeroed(len));
        let name = if i % 2 == 0 { "adaptive" } else { "fixed:zvc" };
        let direction = Direction::DeviceToHost;
        let copy = copier
            .memcpy_compressed_async(into.all(), source.all(), direction, Element::F32, policy(name))
            .unwrap();
        copies.push((copy, source, into));
    }
    // If one is finished, so are all before it.
    while !copies[29].0.is_finished() {
        let mut finished: Vec<bool> = copies.iter_mut().rev().map(|(copy, ..)| copy.is_finished()).collect();
        finished.reverse(); // asked from the last to the first: nothing can become finished in between that counts
        assert!(finished.is_sorted_by(|earlier, later| earlier >= later), "{finished:?}");
        thread::yield_now();
    }
    for (copy, source, into) in copies {
        copy.wait().unwrap();
        assert!(into.all().to_vec() == source.all().to_vec());
    }
}

#[test]
fn adaptive_compresses_what_a_slow_link_carries_and_nothing_on_none() {
    let slow = CopyConfig::simulated(0.05).unwrap();
    let copier = Copier::start(slow).unwrap();
    let source = buffer(&Random(17).words(2 << 20, 80));
    let into = HostBuffer::zeroed(source.len());
    let copy = |direction| {
        let policy = policy("adaptive");
        copier.memcpy_compressed(into.all(), source.all(), direction, Element::F32, policy).unwrap()
    };
    let report = copy(Direction::DeviceToHost);
    assert!(report.algorithm != Algorithm::None && report.ratio() > 3.0, "{report}");
    assert_eq!(copy(Direction::HostToHost).algorithm, Algorithm::None);
}
