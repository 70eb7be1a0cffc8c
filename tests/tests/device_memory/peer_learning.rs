//! What copies between devices show of the link and of kernels, and what later ones go by.

use mgcomp_codecs::device::{DeviceError, Stream};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::{Lambda, LinkFacts, Overlap};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::{Libraries, with_stub};
use mgcomp_transport::peer_copy::{CopyPath, PeerCopier, PeerCopyConfig};

use crate::peer_rig::{
    Ends, MOST_BYTES, SEGMENT_BYTES, SLOW_NS_PER_KIB, as_it_comes, bytes_of, config, filled, ways,
};
use crate::rig::with_threads;

#[test]
fn the_link_shows_in_plain_copies_and_decides_for_later_ones() {
    with_threads("peer_learning::the_link_shows_in_plain_copies_and_decides_for_later_ones", 9, |stub| {
        for ends in Ends::ALL {
            let devices = ends.open(stub);
            stub.set("link_ns_per_kib", SLOW_NS_PER_KIB);
            // A stream of either device.
            let stream = devices[usize::from(ends == Ends::Peers)].stream().unwrap();
            let mut copier = PeerCopier::new(&devices[0], &devices[1], as_it_comes()).unwrap();
            assert_eq!(copier.link(), None);
            let ways = ways(&mut copier, &devices, &stream, (MOST_BYTES, 30));
            // They show the link.
            assert_eq!(ways[..2], [ends.path(Algorithm::None); 2], "{ends:?}");
            assert!(ways.iter().any(|way| way.is_coded()), "{ends:?} {ways:?}");
            let link = copier.link().expect("it was seen");
            // Through the host bytes go over it twice, and the rate is that of once.
            assert!((0.999..1.02).contains(&link.rate_gbps()), "{ends:?} {link:?}");
            let overlap = if ends == Ends::Strangers { Overlap::Relayed } else { Overlap::Fused };
            assert_eq!((link.latency_ns(), link.overlap()), (10_000, overlap(SEGMENT_BYTES)));
        }
    });
}

#[test]
fn copies_over_a_fast_link_stay_plain() {
    with_threads("peer_learning::copies_over_a_fast_link_stay_plain", 10, |stub| {
        const LONG_BYTES: u64 = 2 << 20;
        // 400 Gb/s, and no time to speak of, which tells nothing.
        for (ns_per_kib, is_known) in [(20, true), (1, false)] {
            let devices = Ends::Peers.open(stub);
            stub.set("link_ns_per_kib", ns_per_kib);
            let stream = devices[0].stream().unwrap();
            let config = PeerCopyConfig { most_bytes: LONG_BYTES, ..as_it_comes() };
            let mut copier = PeerCopier::new(&devices[0], &devices[1], config).unwrap();
            assert_eq!(ways(&mut copier, &devices, &stream, (LONG_BYTES, 20)), [CopyPath::Plain; 20]);
            assert_eq!(copier.link().is_some(), is_known);
        }
    });
}

#[test]
fn kernels_that_are_slower_than_expected_are_seen() {
    with_threads("peer_learning::kernels_that_are_slower_than_expected_are_seen", 13, |stub| {
        for ends in [Ends::Peers, Ends::Strangers, Ends::One] {
            // Nobody knows yet how long kernels take here; and then they take longer than the raw bytes do.
            for (launch_ns, pays) in [(1, true), (5_000_000, false)] {
                let devices = ends.open(stub);
                stub.set("link_ns_per_kib", SLOW_NS_PER_KIB / 10);
                stub.set("launch_ns", launch_ns);
                let stream = devices[0].stream().unwrap();
                let mut copier = PeerCopier::new(&devices[0], &devices[1], as_it_comes()).unwrap();
                let ways = ways(&mut copier, &devices, &stream, (MOST_BYTES, 80));
                assert!(ways.iter().any(|way| way.is_coded()), "{ends:?} {launch_ns} {ways:?}");
                let late = ways[40..].iter().filter(|way| way.is_coded()).count();
                assert!(if pays { late > 30 } else { late < 5 }, "{ends:?} {launch_ns} {ways:?}");
                stub.set("launch_ns", 0);
            }
        }
    });
}

#[test]
fn data_that_no_longer_compresses_is_seen() {
    with_threads("peer_learning::data_that_no_longer_compresses_is_seen", 14, |stub| {
        let devices = Ends::Peers.open(stub);
        stub.set("link_ns_per_kib", SLOW_NS_PER_KIB);
        let stream = devices[1].stream().unwrap();
        let mut copier = PeerCopier::new(&devices[0], &devices[1], as_it_comes()).unwrap();
        let before = ways(&mut copier, &devices, &stream, (MOST_BYTES, 30));
        assert!(before.last().is_some_and(|way| way.is_coded()), "{before:?}");
        let raw = data::bytes(Kind::Dense, MOST_BYTES as usize, 5);
        let (source, into) =
            (filled(&devices[0], &stream, &raw).unwrap(), devices[1].alloc(MOST_BYTES).unwrap());
        let mut again = || {
            let copy = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
            assert!(bytes_of(&stream, &into) == raw);
            copy.path
        };
        // One in 8 is watched, and what was coded before is not condemned at once.
        let after: Vec<CopyPath> = std::iter::repeat_with(&mut again).take(80).collect();
        let late = after[60..].iter().filter(|way| way.is_coded()).count();
        assert!(late < 3, "{after:?}");
    });
}

#[test]
fn a_link_that_gets_faster_is_seen_though_copies_are_coded() {
    with_threads("peer_learning::a_link_that_gets_faster_is_seen_though_copies_are_coded", 11, |stub| {
        let devices = Ends::Peers.open(stub);
        stub.set("link_ns_per_kib", SLOW_NS_PER_KIB);
        let stream = devices[0].stream().unwrap();
        let mut copier = PeerCopier::new(&devices[0], &devices[1], as_it_comes()).unwrap();
        let before = ways(&mut copier, &devices, &stream, (60_000, 30));
        assert!(before.last().is_some_and(|way| way.is_coded()), "{before:?}");
        stub.set("link_ns_per_kib", SLOW_NS_PER_KIB / 16);
        let after = ways(&mut copier, &devices, &stream, (60_000, 300));
        assert!(after.contains(&CopyPath::Plain), "none shows the link");
        // A quarter of the way to what it is now, at least.
        let link = copier.link().unwrap();
        assert!(link.rate_gbps() > 4.0, "{link:?}");
    });
}

#[test]
fn a_link_that_is_stated_or_not_asked_for_is_not_timed() {
    let test = "peer_learning::a_link_that_is_stated_or_not_asked_for_is_not_timed";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        let devices = Ends::Peers.open(stub);
        stub.set("link_ns_per_kib", SLOW_NS_PER_KIB);
        let stream = devices[0].stream().unwrap();
        let fast = LinkFacts::try_new(1e6, 0, Overlap::None).unwrap();
        // With this λ, time counts for next to nothing.
        let lambda = Lambda::try_new(1e-3).unwrap();
        for (config, link, is_coded) in [
            (PeerCopyConfig { link: Some(fast), ..as_it_comes() }, Some(fast), false),
            (PeerCopyConfig { lambda: Some(lambda), ..as_it_comes() }, None, true),
            (config("fixed:none"), None, false),
            (config("fixed:zvc"), None, true),
        ] {
            let mut copier = PeerCopier::new(&devices[0], &devices[1], config).unwrap();
            // Coded copies are watched, for those who look at the page of the process.
            if config.policy == self::config("fixed:none").policy {
                stub.fail(Some("cuEventElapsedTime"), 1, 1);
            }
            let ways = ways(&mut copier, &devices, &stream, (MOST_BYTES, 40));
            assert_eq!(stub.failed(), None);
            assert_eq!(copier.link(), link);
            assert_eq!(ways.iter().any(|way| way.is_coded()), is_coded, "{config:?}");
            stub.fail(None, 0, 0);
        }
    });
}

#[test]
#[allow(unsafe_code)] // launches graphs
fn recorded_copies_are_not_timed() {
    with_threads("peer_learning::recorded_copies_are_not_timed", 12, |stub| {
        for ends in Ends::ALL {
            let devices = ends.open(stub);
            stub.set("link_ns_per_kib", SLOW_NS_PER_KIB);
            let [stream, beside] = [0, 1].map(|_| devices[0].stream().unwrap());
            let mut copier = PeerCopier::new(&devices[0], &devices[1], as_it_comes()).unwrap();
            let (source, into) =
                (devices[0].alloc(MOST_BYTES).unwrap(), devices[1].alloc(MOST_BYTES).unwrap());
            let copy = |copier: &mut PeerCopier, stream: &Stream| {
                copier.copy(stream, Element::U32, source.region(), into.region())
            };
            let _ = copy(&mut copier, &beside).unwrap();
            beside.wait().unwrap();
            let graph = stream.capture(|| {
                for _ in 0..3 {
                    assert_eq!(copy(&mut copier, &stream)?.path, ends.path(Algorithm::None));
                }
                // One that is not recorded, where the copier's own streams are not either: how long the first took is asked.
                if ends != Ends::Strangers {
                    let _ = copy(&mut copier, &beside)?;
                }
                Ok::<(), DeviceError>(())
            });
            let graph = graph.unwrap();
            assert_eq!(copier.link(), None, "{ends:?}");
            beside.wait().unwrap();
            for _ in 0..3 {
                // SAFETY: the copier and the buffers live until the end, and nothing else is under way.
                unsafe { graph.launch(&stream) }.unwrap();
                stream.wait().unwrap();
            }
            for _ in 0..3 {
                let _ = copy(&mut copier, &beside).unwrap();
                beside.wait().unwrap();
            }
            let link = copier.link().expect("three were timed");
            assert!((0.5..1.02).contains(&link.rate_gbps()), "{ends:?} {link:?}");
        }
    });
}
