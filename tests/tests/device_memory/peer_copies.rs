//! Copies from one device to another, compressed on their way.

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Region, Stream};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::foreign::Foreign;
use mgcomp_tests::stub::{Libraries, with_stub};
use mgcomp_transport::peer_copy::{CopyPath, PeerCopier, PeerCopyError};

use crate::peer_rig::{Ends, GATE_BYTES, MOST_BYTES, SEGMENT_BYTES, bytes_of, config, filled};
use crate::rig::{on_device, with_threads};

#[test]
fn bytes_arrive_whatever_the_way() {
    with_threads("peer_copies::bytes_arrive_whatever_the_way", 1, |stub| {
        for (ends, seed) in Ends::ALL.into_iter().zip(1..) {
            let [from, to] = ends.open(stub);
            let stream = from.stream().unwrap();
            for (policy, algorithm) in [
                ("fixed:none", Algorithm::None),
                ("fixed:zvc", Algorithm::Zvc),
                ("fixed:bdi", Algorithm::Bdi),
            ] {
                let mut copier = PeerCopier::new(&from, &to, config(policy)).unwrap();
                assert_eq!(copier.is_direct(), ends.is_direct());
                for len in [100, SEGMENT_BYTES as usize, SEGMENT_BYTES as usize + 1, 90_001] {
                    let raw = data::bytes(Kind::Sparse, len, seed);
                    let source = filled(&from, &stream, &raw).unwrap();
                    let into = filled(&to, &stream, &vec![9; len + 16]).unwrap();
                    let copy = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
                    let report = copier.report(&stream, &copy).unwrap();
                    let got = bytes_of(&stream, &into);
                    assert!(got[..len] == raw && got[len..] == [9; 16], "{ends:?} {policy} {len}");
                    assert_eq!((report.path, report.raw_bytes), (ends.path(algorithm), len as u64));
                    let saves = algorithm == Algorithm::Zvc && len > 100;
                    assert!(!saves || report.coded_bytes < report.raw_bytes * 3 / 4, "{report:?}");
                }
            }
        }
    });
}

#[test]
#[allow(unsafe_code)] // memory that is nowhere
fn short_copies_are_plain_and_ask_nobody() {
    with_stub("peer_copies::short_copies_are_plain_and_ask_nobody", Libraries::DriverAndCompiler, |stub| {
        for (ends, policy) in
            Ends::ALL.into_iter().flat_map(|ends| [(ends, "fixed:zvc"), (ends, "paper"), (ends, "adaptive")])
        {
            let [from, to] = ends.open(stub);
            let stream = from.stream().unwrap();
            let mut copier = PeerCopier::new(&from, &to, config(policy)).unwrap();
            // Something is to be found out of this one, which may be so for long.
            let long = filled(&from, &stream, &[7; 1000]).unwrap();
            let into = to.alloc(1000).unwrap();
            let _ = copier.copy(&stream, Element::U8, long.region(), into.region()).unwrap();
            let short = long.slice(0..GATE_BYTES - 1);
            for _ in 0..3 {
                stub.fail(None, 0, 0);
                let copy = copier.copy(&stream, Element::U8, short, into.region()).unwrap();
                // The context in, the copy, the context out; between two, whether the stream records as well.
                let calls = if from.is_same(&to) { 3 } else { 4 };
                assert_eq!((copy.path, stub.count("calls")), (CopyPath::Plain, calls), "{ends:?} {policy}");
            }
            stream.wait().unwrap();
            // None at all.
            let copy = copier.copy(&stream, Element::U8, short.slice(0..0), into.slice(0..0)).unwrap();
            assert_eq!(copier.report(&stream, &copy).unwrap().coded_bytes, 0);
            // SAFETY: no memory at all.
            let nowhere = unsafe { Region::from_raw(0, 0) };
            let copy = copier.copy(&stream, Element::U8, nowhere, nowhere).unwrap();
            assert_eq!((copy.path, copy.raw_bytes), (CopyPath::Plain, 0));
        }
    });
}

#[test]
fn nothing_runs_and_nothing_is_looked_at_before_somebody_waits() {
    let test = "peer_copies::nothing_runs_and_nothing_is_looked_at_before_somebody_waits";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        for ends in Ends::ALL {
            let [from, to] = ends.open(stub);
            let stream = from.stream().unwrap();
            let mut copier = PeerCopier::new(&from, &to, config("fixed:zvc")).unwrap();
            let raw = data::bytes(Kind::Sparse, 90_000, 2);
            let source = filled(&from, &stream, &raw).unwrap();
            let into = to.alloc(90_000).unwrap();
            let before = stub.count("launches");
            for call in ["cuStreamSynchronize", "cuEventSynchronize", "cuStreamQuery", "cuMemAlloc_v2"] {
                stub.fail(Some(call), 1, 1);
                let copy = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
                assert_eq!(copy.path, ends.path(Algorithm::Zvc));
                assert_eq!(stub.failed(), None, "{ends:?}");
            }
            stub.fail(None, 0, 0);
            assert_eq!(stub.count("launches"), before, "{ends:?}");
            assert!(bytes_of(&stream, &into) == raw);
            assert_eq!(stub.count("launches") - before, 4 * 2 * 5);
        }
    });
}

#[test]
fn a_copy_is_in_the_order_of_its_stream() {
    with_threads("peer_copies::a_copy_is_in_the_order_of_its_stream", 3, |stub| {
        for (ends, policy) in
            Ends::ALL.into_iter().flat_map(|ends| [(ends, "fixed:zvc"), (ends, "fixed:none")])
        {
            let [from, to] = ends.open(stub);
            let mut copier = PeerCopier::new(&from, &to, config(policy)).unwrap();
            for seed in 0..5 {
                // A stream of either device, and a new one each time: copies of a copier keep apart all the same.
                let stream = if seed % 2 == 0 { from.stream() } else { to.stream() }.unwrap();
                let raw = data::bytes(Kind::Sparse, 70_000, seed);
                let first = filled(&from, &stream, &raw).unwrap();
                let len = raw.len() as u64;
                let (source, into, last) =
                    (from.alloc(len).unwrap(), to.alloc(len).unwrap(), to.alloc(len).unwrap());
                stream.copy(first.region(), source.region()).unwrap();
                for _ in 0..2 {
                    let _ = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
                }
                // The source is the program's again, and the destination is there.
                stream.zero(source.region()).unwrap();
                stream.copy(into.region(), last.region()).unwrap();
                assert!(bytes_of(&stream, &last) == raw, "{ends:?} {policy} {seed}");
            }
        }
    });
}

#[test]
#[allow(unsafe_code)] // launches graphs
fn a_recorded_copy_is_repeated_with_other_data() {
    with_threads("peer_copies::a_recorded_copy_is_repeated_with_other_data", 4, |stub| {
        for (ends, policy) in
            Ends::ALL.into_iter().flat_map(|ends| [(ends, "fixed:zvc"), (ends, "fixed:none")])
        {
            let [from, to] = ends.open(stub);
            let stream = from.stream().unwrap();
            let mut copier = PeerCopier::new(&from, &to, config(policy)).unwrap();
            let len = 90_000;
            let (source, into) = (from.alloc(len).unwrap(), to.alloc(len).unwrap());
            let mut copy = None;
            let graph = stream
                .capture(|| {
                    copy = Some(copier.copy(&stream, Element::U32, source.region(), into.region())?);
                    Ok::<(), DeviceError>(())
                })
                .unwrap();
            let mut coded_lens = std::collections::BTreeSet::new();
            for round in 0..12 {
                let kind = Kind::ALL[round % Kind::ALL.len()];
                let raw = data::bytes(kind, len as usize, round as u64);
                stream.upload(&raw, source.region()).unwrap();
                // SAFETY: the copier and the buffers live until the end, and nothing else is under way.
                unsafe { graph.launch(&stream) }.unwrap();
                let report = copier.report(&stream, &copy.unwrap()).unwrap();
                coded_lens.insert(report.coded_bytes);
                assert!(bytes_of(&stream, &into) == raw, "{ends:?} {policy} {round}");
            }
            assert_eq!(coded_lens.len() > 3, policy == "fixed:zvc", "lengths are found out anew");
            // A copy that is not recorded comes as before.
            let raw = data::bytes(Kind::Sparse, len as usize, 99);
            stream.upload(&raw, source.region()).unwrap();
            let _ = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
            assert!(bytes_of(&stream, &into) == raw, "{ends:?} {policy}");
        }
    });
}

/// Also where they are not among those that may be chosen.
#[test]
fn a_policy_has_the_algorithms_that_it_is_named_for() {
    with_threads("peer_copies::a_policy_has_the_algorithms_that_it_is_named_for", 3, |stub| {
        let [from, to] = Ends::Peers.open(stub);
        let stream = from.stream().unwrap();
        let raw = data::bytes(Kind::Sparse, 50_000, 3);
        let source = filled(&from, &stream, &raw).unwrap();
        let into = to.alloc(50_000).unwrap();
        let mut copier = PeerCopier::new(&from, &to, config("fixed:int")).unwrap();
        let copy = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
        assert_eq!(copier.report(&stream, &copy).unwrap().path, CopyPath::Coded(Algorithm::Int));
        assert!(bytes_of(&stream, &into) == raw);

        let paper = PeerCopier::new(&from, &to, config("paper")).unwrap().algorithms();
        let [bdi, fpc, cpackz] =
            [Algorithm::Bdi, Algorithm::Fpc, Algorithm::CpackZ].map(|of| paper.contains(of));
        assert!(bdi && fpc && cpackz, "{paper:?}");
        let refused = PeerCopier::new(&from, &to, config("fixed:deflate")).unwrap_err();
        assert!(matches!(refused, DeviceError::NoKernels(Algorithm::Deflate)), "{refused}");
    });
}

#[test]
fn a_policy_that_wants_to_look_decides_for_later_copies() {
    with_threads("peer_copies::a_policy_that_wants_to_look_decides_for_later_copies", 5, |stub| {
        let [from, to] = Ends::Peers.open(stub);
        let stream = from.stream().unwrap();
        let mut copier = PeerCopier::new(&from, &to, config("paper")).unwrap();
        let raw = data::bytes(Kind::Deltas, 100_000, 5);
        let source = on_device(&from, &stream, &raw);
        let into = to.alloc(100_000).unwrap();
        let region = source.all();
        let copy = copier.copy(&stream, Element::U32, region.region(), into.region()).unwrap();
        assert_eq!(copy.path, CopyPath::Plain);
        copier.learn(Element::U32, &source.all());
        let copy = copier.copy(&stream, Element::U32, region.region(), into.region()).unwrap();
        assert_eq!(copy.path, CopyPath::Coded(Algorithm::Bdi));
        let report = copier.report(&stream, &copy).unwrap();
        assert!(report.coded_bytes < report.raw_bytes && bytes_of(&stream, &into) == raw);
    });
}

/// Of another library, in the mode that forbids most to all threads.
#[test]
fn copiers_come_learn_and_go_beside_a_recording() {
    with_threads("peer_copies::copiers_come_learn_and_go_beside_a_recording", 13, |stub| {
        for ends in Ends::ALL {
            let [from, to] = ends.open(stub);
            let (library, stream) = (Foreign::on(&from), from.stream().unwrap());
            let source = on_device(&from, &stream, &data::bytes(Kind::Deltas, 100_000, 5));
            let into = to.alloc(100_000).unwrap();
            stream.wait().unwrap();
            for policy in ["paper", "adaptive"] {
                // The first ones load the kernels, which stay.
                drop(PeerCopier::new(&from, &to, config(policy)).unwrap());
                let before = stub.left();
                let recording = library.stream();
                let mut copier = None;
                let made = || copier = Some(PeerCopier::new(&from, &to, config(policy)).unwrap());
                assert!(recording.records(made), "{ends:?} {policy}");
                let mut copier = copier.unwrap();
                assert!(recording.records(|| copier.learn(Element::U32, &source.all())), "{ends:?} {policy}");
                let all = source.all();
                let copy = copier.copy(&stream, Element::U32, all.region(), into.region()).unwrap();
                assert!(
                    policy != "paper" || copy.path == ends.path(Algorithm::Bdi),
                    "it has learned: {copy:?}"
                );
                // The copy is under way.
                assert!(recording.records(|| drop(copier)), "{ends:?} {policy}");
                drop(recording);
                assert_eq!(stub.left(), before, "{ends:?} {policy}");
                // One that is plain is all the stream's own.
                stream.wait().unwrap();
            }
        }
    });
}

#[test]
fn copies_are_looked_at_on_their_way_and_decide_for_later_ones() {
    with_threads("peer_copies::copies_are_looked_at_on_their_way_and_decide_for_later_ones", 8, |stub| {
        for ends in [Ends::Peers, Ends::Strangers] {
            let [from, to] = ends.open(stub);
            let stream = to.stream().unwrap();
            let mut copier = PeerCopier::new(&from, &to, config("paper")).unwrap();
            let (source, into) = (from.alloc(100_000).unwrap(), to.alloc(100_000).unwrap());
            let ways: Vec<CopyPath> = (0..20)
                .map(|round| {
                    let raw = data::bytes(Kind::Deltas, 100_000, round);
                    stream.upload(&raw, source.region()).unwrap();
                    let copy = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
                    // What is looked at is not changed meanwhile.
                    stream.zero(source.region()).unwrap();
                    assert!(bytes_of(&stream, &into) == raw, "{ends:?} {round}");
                    copy.path
                })
                .collect();
            assert_eq!(ways[0], ends.path(Algorithm::None));
            assert!(ways.contains(&ends.path(Algorithm::Bdi)), "{ways:?}");
        }
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    with_stub("peer_copies::what_does_not_fit_is_refused", Libraries::DriverAndCompiler, |stub| {
        let [from, to] = Ends::Peers.open(stub);
        let stream = from.stream().unwrap();
        let mut copier = PeerCopier::new(&from, &to, config("fixed:zvc")).unwrap();
        let (source, into) = (from.alloc(MOST_BYTES + 1).unwrap(), to.alloc(MOST_BYTES).unwrap());
        let mut refuse = |from, to, error| {
            assert_eq!(copier.copy(&stream, Element::U32, from, to), Err(error));
        };
        let (what, limit) = ("the source of a copy", MOST_BYTES);
        let too_long = DeviceError::TooLong { what, limit, got: limit + 1 };
        refuse(source.region(), into.region(), too_long);
        let what = "the destination of a copy";
        let too_short = DeviceError::TooShort { what, needed: 5000, got: 4999 };
        refuse(source.slice(0..5000), into.slice(0..4999), too_short);
        assert_eq!(stub.count("launches"), 0);
    });
}

#[test]
fn frames_that_somebody_spoils_are_found() {
    with_threads("peer_copies::frames_that_somebody_spoils_are_found", 6, |stub| {
        let [from, to] = Ends::Peers.open(stub);
        let stream = from.stream().unwrap();
        let mut copier = PeerCopier::new(&from, &to, config("fixed:zvc")).unwrap();
        let source = filled(&from, &stream, &[3; 50_000]).unwrap();
        let into = to.alloc(50_000).unwrap();
        stub.set("wrong_byte", 1);
        let copy = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
        let error = copier.report(&stream, &copy).unwrap_err();
        assert!(matches!(error, PeerCopyError::Segment { segment: 0, .. }), "{error}");
        let text = "segment 0 of the copy: chunk 0: The first two bytes are not `MG` (status 4)";
        assert_eq!(error.to_string(), text);
        stub.set("wrong_byte", 0);
        let copy = copier.copy(&stream, Element::U32, source.region(), into.region()).unwrap();
        copier.report(&stream, &copy).unwrap();
    });
}

/// A copier, a copy, a recorded copy.
fn everything(
    [from, to]: &[Device; 2],
    stream: &Stream,
    [source, into]: [&Buffer; 2],
    policy: &str,
) -> Result<(), PeerCopyError> {
    let mut copier = PeerCopier::new(from, to, config(policy))?;
    for _ in 0..2 {
        let copy = copier.copy(stream, Element::U32, source.region(), into.region())?;
        copier.report(stream, &copy)?;
    }
    let record = || copier.copy(stream, Element::U32, source.region(), into.region()).map(drop);
    stream.capture(record).map(drop).map_err(PeerCopyError::from)
}

#[test]
fn every_call_may_fail() {
    with_threads("peer_copies::every_call_may_fail", 7, |stub| {
        let cases = [
            (Ends::Peers, "fixed:zvc"),
            (Ends::Strangers, "fixed:zvc"),
            (Ends::Strangers, "fixed:none"),
            (Ends::Peers, "adaptive"),
            (Ends::Strangers, "adaptive"),
        ];
        for ((ends, policy), first) in cases.into_iter().zip(1..) {
            let raw = data::bytes(Kind::Sparse, 2 * SEGMENT_BYTES as usize + 1000, 5);
            let devices = ends.open(stub);
            let stream = devices[0].stream().unwrap();
            let source = filled(&devices[0], &stream, &raw).unwrap();
            let into = filled(&devices[1], &stream, &raw).unwrap();
            let copy = || everything(&devices, &stream, [&source, &into], policy);
            copy().unwrap(); // the kernels stay
            let before = stub.left();
            let mut at = first;
            loop {
                stream.zero(into.region()).unwrap();
                stub.fail(None, at, 2);
                let result = copy();
                let failed = stub.failed();
                stub.fail(None, 0, 0);
                assert_eq!(stub.left(), before, "after call {at}, {failed:?}");
                let Some(failed) = failed else {
                    result.unwrap();
                    assert!(bytes_of(&stream, &into) == raw);
                    break;
                };
                match result {
                    // What could not be given back, or waited for at the end.
                    Ok(()) => assert!(bytes_of(&stream, &into) == raw, "call {at}, {failed}"),
                    Err(PeerCopyError::Device(DeviceError::Driver { call, .. })) => assert_eq!(call, failed),
                    Err(error) => panic!("call {at}, {failed}: {error}"),
                }
                at += 1 + at / 12;
            }
        }
    });
}
