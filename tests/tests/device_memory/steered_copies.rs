//! Copies from one device to another, as an operator sees and steers them.

use std::sync::Arc;

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Stream};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::Lambda;
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::Stub;
use mgcomp_transport::control::{Attachment, Count, Settings, SizeGate, SlotKind, SlotView, attach};
use mgcomp_transport::peer_copy::{CopyPath, PeerCopier, PeerCopy};

use crate::peer_rig::{Ends, GATE_BYTES, MOST_BYTES, SLOW_NS_PER_KIB, bytes_of, config, filled, ways};
use crate::rig::{loopback, nodes, with_threads};

/// A copier, what it copies, and the page of the process as a daemon has it.
struct Rig {
    page: Arc<Attachment>,
    devices: [Device; 2],
    stream: Stream,
    copier: PeerCopier,
    raw: Vec<u8>,
    buffers: [Buffer; 2],
}

impl Rig {
    fn new(stub: &Stub, ends: Ends, policy: &str) -> Self {
        let page = attach().unwrap();
        page.page().set(None, &Settings::default());
        let devices = ends.open(stub);
        let stream = devices[0].stream().unwrap();
        let copier = PeerCopier::new(&devices[0], &devices[1], config(policy)).unwrap();
        let raw = data::bytes(Kind::Sparse, MOST_BYTES as usize, 3);
        let source = filled(&devices[0], &stream, &raw).unwrap();
        let into = devices[1].alloc(MOST_BYTES).unwrap();
        stream.wait().unwrap();
        Self { page, devices, stream, copier, raw, buffers: [source, into] }
    }

    fn set(&self, settings: &Settings) {
        self.page.page().set(None, settings);
    }

    fn enqueue(&mut self, len: u64) -> Result<PeerCopy, DeviceError> {
        let [source, into] = &self.buffers;
        self.copier.copy(&self.stream, Element::U32, source.slice(0..len), into.region())
    }

    /// Copies so many bytes, and says how they went and as how many.
    fn copy(&mut self, len: u64) -> (CopyPath, u64) {
        self.stream.zero(self.buffers[1].region()).unwrap();
        let copy = self.enqueue(len).unwrap();
        let report = self.copier.report(&self.stream, &copy).unwrap();
        let (got, len) = (bytes_of(&self.stream, &self.buffers[1]), len as usize);
        assert!(got[..len] == self.raw[..len] && got[len..].iter().all(|&byte| byte == 0));
        (report.path, report.coded_bytes)
    }

    fn view(&self) -> SlotView {
        view(&self.page, &self.devices)
    }

    /// What was carried by an algorithm.
    fn count(&self, algorithm: Algorithm) -> Count {
        self.view().algorithms[usize::from(algorithm.number())]
    }
}

/// What the page says of copies between these devices.
fn view(page: &Attachment, devices: &[Device; 2]) -> SlotView {
    let devices = devices.each_ref().map(|device| device.info().ordinal);
    let mut views = (0..page.page().used()).filter_map(|slot| page.page().view(slot));
    views.find(|view| view.devices() == Some(devices)).expect("it is seen")
}

fn policy(name: &str) -> Settings {
    Settings { policy: Some(name.parse().unwrap()), ..Settings::default() }
}

fn plus(count: Count, raw_bytes: u64, coded_bytes: u64) -> Count {
    Count {
        transfers: count.transfers + 1,
        raw_bytes: count.raw_bytes + raw_bytes,
        coded_bytes: count.coded_bytes + coded_bytes,
    }
}

#[test]
fn what_an_operator_sets_holds_from_the_next_copy_on() {
    with_threads("steered_copies::what_an_operator_sets_holds_from_the_next_copy_on", 1, |stub| {
        for ends in Ends::ALL {
            let mut rig = Rig::new(stub, ends, "fixed:bdi");
            let goes = |rig: &mut Rig, len: u64, algorithm| {
                assert_eq!(rig.copy(len).0, ends.path(algorithm), "{ends:?} {len}");
            };
            goes(&mut rig, 50_000, Algorithm::Bdi);
            rig.set(&policy("fixed:zvc"));
            goes(&mut rig, 50_000, Algorithm::Zvc);
            rig.set(&Settings { compress: Some(false), ..policy("fixed:zvc") });
            goes(&mut rig, 50_000, Algorithm::None);
            let reason = rig.view().decision.unwrap().reason.unwrap();
            assert_eq!(reason.to_string(), "compression is switched off");

            // A gate above that of the program, and one below.
            let gate = |bytes| Settings { gate: SizeGate::try_new(bytes), ..policy("fixed:zvc") };
            rig.set(&gate(32_768));
            goes(&mut rig, 32_767, Algorithm::None);
            goes(&mut rig, 32_768, Algorithm::Zvc);
            rig.set(&gate(64));
            goes(&mut rig, GATE_BYTES - 1, Algorithm::Zvc);
            goes(&mut rig, 64, Algorithm::Zvc);
            // Below both it is one call of the driver, which never goes piece by piece.
            assert_eq!(rig.copy(63).0, CopyPath::Plain);

            // There are no kernels of that.
            let before = rig.view().not_followed;
            rig.set(&policy("fixed:xp"));
            goes(&mut rig, 50_000, Algorithm::None);
            goes(&mut rig, 50_000, Algorithm::None);
            assert_eq!(rig.view().not_followed - before, 1);
            rig.set(&Settings::default());
            goes(&mut rig, 50_000, Algorithm::Bdi);
            assert_eq!(rig.copy(GATE_BYTES - 1).0, CopyPath::Plain);
        }
    });
}

#[test]
fn a_policy_that_looks_and_times_can_be_set() {
    with_threads("steered_copies::a_policy_that_looks_and_times_can_be_set", 2, |stub| {
        for ends in [Ends::Peers, Ends::Strangers] {
            stub.set("link_ns_per_kib", SLOW_NS_PER_KIB);
            let mut rig = Rig::new(stub, ends, "fixed:none");
            let go = |rig: &mut Rig, settings: Settings| {
                rig.set(&settings);
                ways(&mut rig.copier, &rig.devices, &rig.stream, (MOST_BYTES, 30))
            };
            let plain = ends.path(Algorithm::None);
            assert_eq!(go(&mut rig, Settings::default()), [plain; 30]);
            assert_eq!(rig.copier.link(), None, "nobody goes by it");
            let adaptive = go(&mut rig, policy("adaptive"));
            // They show the link.
            assert_eq!(adaptive[..2], [plain; 2]);
            assert!(adaptive.iter().any(|way| way.is_coded()), "{ends:?} {adaptive:?}");
            // With this λ, time is all that counts.
            let lambda = Lambda::try_new(1e9).ok();
            let by_time = go(&mut rig, Settings { lambda, ..policy("adaptive") });
            assert_eq!(by_time.last(), Some(&plain), "{ends:?} {by_time:?}");
            // Nothing counts that another policy has found out.
            let paper = go(&mut rig, policy("paper"));
            assert_eq!(paper[0], plain);
            assert!(paper.iter().any(|way| way.is_coded()), "{ends:?} {paper:?}");
            assert_eq!(go(&mut rig, Settings::default()), [plain; 30]);
            let link = rig.copier.link().expect("it was seen");
            assert!((0.999..1.02).contains(&link.rate_gbps()), "{ends:?} {link:?}");
            assert_eq!(rig.view().link_gbps, Some(link.rate_gbps()));
        }
    });
}

#[test]
#[allow(unsafe_code)] // launches a graph
fn counts_are_what_was_carried() {
    with_threads("steered_copies::counts_are_what_was_carried", 3, |stub| {
        let mut rig = Rig::new(stub, Ends::Peers, "fixed:zvc");
        let mut carried = Count::default();
        assert_eq!((rig.view().kind, rig.view().sent()), (SlotKind::Copied, carried));
        // The first 8 are watched, and count when the next one hears of them.
        for len in [1000, 20_000, 20_001, 99_999, 150_000, 5000, 101, 70_000] {
            let coded_bytes = rig.copy(len).1;
            assert_eq!(rig.count(Algorithm::Zvc), carried, "{len}");
            carried = plus(carried, len, coded_bytes);
        }
        // Nobody watches the next 7; they are as the last one was.
        for _ in 0..7 {
            carried = plus(carried, 70_000, rig.copy(70_000).1);
            assert_eq!(rig.count(Algorithm::Zvc), carried);
        }

        // Plain ones, but none that is below the gate or is not on its way yet.
        rig.set(&Settings { compress: Some(false), ..Settings::default() });
        for len in [150_000, GATE_BYTES, GATE_BYTES - 1, 0] {
            assert_eq!(rig.copy(len).1, len);
        }
        rig.set(&Settings::default());
        let plain =
            Count { transfers: 2, raw_bytes: 150_000 + GATE_BYTES, coded_bytes: 150_000 + GATE_BYTES };
        assert_eq!(rig.count(Algorithm::None), plain);
        let (recording, [source, into]) = (rig.devices[0].stream().unwrap(), &rig.buffers);
        let graph = recording.capture(|| {
            rig.copier.copy(&recording, Element::U32, source.slice(0..70_000), into.region()).map(drop)
        });
        // SAFETY: copier and buffers live until the graph has ended, and nothing else is under way.
        unsafe { graph.unwrap().launch(&recording) }.unwrap();
        recording.wait().unwrap();
        assert_eq!((rig.count(Algorithm::Zvc), rig.count(Algorithm::None)), (carried, plain));

        // The last one is watched, and counts at the end.
        carried = plus(carried, 3000, rig.copy(3000).1);
        assert_eq!(rig.count(Algorithm::Zvc).transfers, carried.transfers - 1);
        let Rig { copier, page, devices, .. } = rig;
        drop(copier);
        assert_eq!(view(&page, &devices).algorithms[usize::from(Algorithm::Zvc.number())], carried);
        assert_eq!(view(&page, &devices).errors, 0);
    });
}

#[test]
fn copies_that_nobody_waits_for_count_in_the_end() {
    with_threads("steered_copies::copies_that_nobody_waits_for_count_in_the_end", 4, |stub| {
        for ends in Ends::ALL {
            let mut rig = Rig::new(stub, ends, "fixed:bdi");
            let coded_bytes = rig.copy(70_000).1;
            let before = rig.count(Algorithm::Bdi);
            for _ in 0..20 {
                let _ = rig.enqueue(70_000).unwrap();
            }
            let Rig { copier, page, devices, .. } = rig;
            drop(copier);
            let after = view(&page, &devices).algorithms[usize::from(Algorithm::Bdi.number())];
            let carried = (after.transfers - before.transfers, after.raw_bytes - before.raw_bytes);
            assert_eq!(carried, (21, 21 * 70_000), "{ends:?}");
            assert_eq!(after.coded_bytes - before.coded_bytes, 21 * coded_bytes, "{ends:?}");
        }
    });
}

#[test]
fn what_fails_is_counted_as_that() {
    with_threads("steered_copies::what_fails_is_counted_as_that", 5, |stub| {
        let mut rig = Rig::new(stub, Ends::Peers, "fixed:zvc");
        stub.fail(Some("cuStreamWaitEvent"), 1, 1);
        rig.enqueue(50_000).unwrap_err();
        stub.fail(None, 0, 0);
        assert_eq!((rig.view().errors, rig.view().sent()), (1, Count::default()));
        // A kernel refuses what another one has spoiled.
        stub.set("wrong_byte", 1);
        let copy = rig.enqueue(50_000).unwrap();
        rig.copier.report(&rig.stream, &copy).unwrap_err();
        stub.set("wrong_byte", 0);
        let coded_bytes = rig.copy(50_000).1;
        assert_eq!((rig.view().errors, rig.view().sent()), (2, Count::default()));
        rig.copy(50_000);
        assert_eq!((rig.view().errors, rig.view().sent()), (2, plus(Count::default(), 50_000, coded_bytes)));
    });
}

#[test]
fn a_copier_beside_a_node_leaves_its_rank() {
    with_threads("steered_copies::a_copier_beside_a_node_leaves_its_rank", 6, |stub| {
        let first = Rig::new(stub, Ends::Peers, "adaptive");
        let rank = || first.page.page().identity().unwrap().rank;
        assert_eq!(first.view().rank, rank().unwrap_or(u32::MAX));
        // Rank 0 of 2 is the first that says so.
        let nodes = nodes(loopback, 2, "fixed:none");
        assert_eq!(rank(), Some(0));
        let second = Rig::new(stub, Ends::One, "adaptive");
        assert_eq!((rank(), second.view().rank), (Some(0), 0));
        assert_eq!(first.page.page().identity().unwrap().ranks, 2);
        drop(nodes);
    });
}
