//! Copies from one device to another, by the streams that they are on: which of them wait for which, and what that costs.
#![allow(unsafe_code)] // launches graphs, and borrows streams

use std::thread;
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{Buffer, Device, DeviceError, Graph, Stream};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::foreign::Foreign;
use mgcomp_tests::stub::{Libraries, Stub, with_stub};
use mgcomp_transport::peer_copy::{PeerCopier, PeerCopyConfig};

use crate::peer_rig::{Ends, bytes_of, config, filled};
use crate::rig::with_threads;

/// Of one segment, and of several.
const LENS: [usize; 3] = [20_000, 5000, 70_001];

/// Bytes on the first device that are to be copied to the second.
struct Parcel {
    raw: Vec<u8>,
    source: Buffer,
    into: Buffer,
}

impl Parcel {
    fn new([from, to]: &[Device; 2], len: usize, seed: u64) -> Self {
        let raw = data::bytes(Kind::Sparse, len, seed);
        let (here, there) = (from.stream().unwrap(), to.stream().unwrap());
        let source = filled(from, &here, &raw).unwrap();
        let into = filled(to, &there, &vec![9; len]).unwrap();
        Self { raw, source, into }
    }

    fn send(&self, copier: &mut PeerCopier, stream: &Stream) -> Result<(), DeviceError> {
        let copy = copier.copy(stream, Element::U32, self.source.region(), self.into.region())?;
        assert!(copy.path.is_coded());
        Ok(())
    }

    fn has_come(&self, to: &Device) -> bool {
        bytes_of(&to.stream().unwrap(), &self.into) == self.raw
    }
}

fn parcels(devices: &[Device; 2], count: u64) -> Vec<Parcel> {
    (0..count).map(|seed| Parcel::new(devices, LENS[seed as usize % LENS.len()], seed)).collect()
}

#[test]
fn copies_of_one_copier_keep_apart_on_all_streams() {
    with_threads("peer_streams::copies_of_one_copier_keep_apart_on_all_streams", 31, |stub| {
        for ends in Ends::ALL {
            let devices = ends.open(stub);
            let libraries = devices.each_ref().map(Foreign::on);
            let theirs = [libraries[0].stream(), libraries[0].blocking_stream(), libraries[1].stream()];
            let defaults =
                libraries.each_ref().map(|library| [library.default_stream(), library.stream_of_thread()]);
            let mut streams = vec![devices[0].stream().unwrap(), devices[0].stream().unwrap()];
            streams.push(devices[1].stream().unwrap());
            if ends != Ends::Contexts {
                // SAFETY: dropped before theirs.
                unsafe {
                    streams.extend(theirs[..2].iter().map(|stream| stream.lend(&devices[0])));
                    streams.push(theirs[2].lend(&devices[1]));
                    for (defaults, device) in defaults.iter().zip(&devices) {
                        streams.extend(defaults.iter().map(|stream| stream.lend(device)));
                    }
                }
            }
            let mut copier = PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap();
            let parcels = parcels(&devices, 60);
            for (parcel, round) in parcels.iter().zip(0usize..) {
                match round % 5 {
                    // Twice on the same one, so that there is none in between.
                    0..4 => parcel.send(&mut copier, &streams[round / 2 % streams.len()]).unwrap(),
                    // One that is gone when the next has its turn, which may get its handle.
                    _ => parcel.send(&mut copier, &devices[round / 5 % 2].stream().unwrap()).unwrap(),
                }
            }
            // Waits for all of them, whatever streams they are on.
            drop(copier);
            for (parcel, round) in parcels.iter().zip(0..) {
                assert!(parcel.has_come(&devices[1]), "{ends:?} {round}");
            }
        }
    });
}

#[test]
fn a_report_waits_for_a_copy_on_another_stream() {
    with_threads("peer_streams::a_report_waits_for_a_copy_on_another_stream", 32, |stub| {
        for ends in Ends::ALL {
            let devices = ends.open(stub);
            let [idle, busy, third] = [(); 3].map(|()| devices[0].stream().unwrap());
            let words = devices[0].alloc(8).unwrap();
            idle.zero(words.region()).unwrap();
            idle.wait().unwrap();
            let mut copier = PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap();
            let [short, long] = [20_000, 70_001].map(|len| Parcel::new(&devices, len, 1));
            short.send(&mut copier, &idle).unwrap();
            busy.wait_for(words.region().word(0), 1).unwrap();
            let (from, to) = (long.source.region(), long.into.region());
            let copy = copier.copy(&busy, Element::U32, from, to).unwrap();
            let report = thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(20));
                    third.post(words.region().word(0), 1).unwrap();
                });
                copier.report(&idle, &copy).unwrap()
            });
            let expected = copier.report(&busy, &copy).unwrap();
            assert_eq!(report.coded_bytes, expected.coded_bytes, "{ends:?}");
            assert!(report.coded_bytes > 0 && long.has_come(&devices[1]), "{ends:?}");
        }
    });
}

/// Calls of the driver that `work` makes, without those by which a context is made the thread's and the one before again.
fn calls(stub: &Stub, work: impl FnOnce()) -> u64 {
    stub.fail(None, 0, 0);
    work();
    let calls = stub.count("calls");
    assert!(calls.is_multiple_of(3), "{calls}: the context in, the call, the context out");
    calls / 3
}

#[test]
fn a_copy_of_one_segment_is_a_few_calls() {
    let test = "peer_streams::a_copy_of_one_segment_is_a_few_calls";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        // Whether the stream records, the encoder, the decoder, and the end, recorded. On another stream than the last copy, or
        // on one that may be another: wait for the end of that.
        let one = [4, 5, 5];
        // Between the kernels an event, recorded and waited for; and the stream waits for the end, which is on another one.
        let two = [7, 8, 8];
        for (ends, [same, other, adopted]) in
            [(Ends::One, one), (Ends::Peers, two), (Ends::Strangers, two), (Ends::Contexts, two)]
        {
            let devices = ends.open(stub);
            let (first, second) = (devices[0].stream().unwrap(), devices[0].stream().unwrap());
            let library = Foreign::on(&devices[0]);
            let theirs = library.stream();
            let mut copier = PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap();
            let parcel = Parcel::new(&devices, LENS[0], 3);
            // Those of the first copies that are watched make more; and one more hears of the last of these.
            for _ in 0..9 {
                parcel.send(&mut copier, &first).unwrap();
                first.wait().unwrap();
            }
            let mut expect = |stream: &Stream, expected| {
                let made = calls(stub, || parcel.send(&mut copier, stream).unwrap());
                assert_eq!(made, expected, "{ends:?}");
            };
            expect(&first, same);
            expect(&first, same);
            expect(&second, other);
            expect(&second, same);
            // SAFETY: dropped before theirs.
            let lent = unsafe { theirs.lend(&devices[0]) };
            expect(&lent, other);
            expect(&lent, adopted);
            lent.wait().unwrap();
            assert!(parcel.has_come(&devices[1]));
        }
        // A stream of the second device does what that one does, and the other one follows it: record, wait.
        let devices = Ends::Peers.open(stub);
        let stream = devices[1].stream().unwrap();
        let mut copier = PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap();
        let parcel = Parcel::new(&devices, LENS[0], 3);
        for _ in 0..9 {
            parcel.send(&mut copier, &stream).unwrap();
            stream.wait().unwrap();
        }
        assert_eq!(calls(stub, || parcel.send(&mut copier, &stream).unwrap()), 9);
        stream.wait().unwrap();
    });
}

/// Records copies of all parcels on some streams in turn, of which the first is there to record.
fn record(copier: &mut PeerCopier, streams: &[Stream], parcels: &[Parcel]) -> Graph {
    let graph = streams[0].capture(|| {
        for beside in &streams[1..] {
            beside.follow(&streams[0])?;
        }
        for (parcel, stream) in parcels.iter().zip(streams.iter().cycle()) {
            parcel.send(copier, stream)?;
        }
        streams[1..].iter().try_for_each(|beside| streams[0].follow(beside))
    });
    graph.unwrap()
}

#[test]
fn recorded_copies_keep_apart_beside_others() {
    with_threads("peer_streams::recorded_copies_keep_apart_beside_others", 32, |stub| {
        for ends in Ends::ALL {
            let devices = ends.open(stub);
            let mut copier = PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap();
            let stream = |end: usize| devices[end].stream().unwrap();
            // On one stream, and on branches that nothing else orders.
            for streams in
                [vec![stream(0)], vec![stream(0), stream(0), stream(1)], vec![stream(1), stream(0)]]
            {
                let sets: Vec<_> = (0..3).map(|_| parcels(&devices, 7)).collect();
                let send = |copier: &mut PeerCopier, parcels: &[Parcel]| {
                    parcels.iter().for_each(|parcel| parcel.send(copier, &streams[0]).unwrap());
                };
                send(&mut copier, &sets[0]);
                let graph = record(&mut copier, &streams, &sets[1]);
                let again = record(&mut copier, &streams, &sets[1]);
                send(&mut copier, &sets[2]);
                for _ in 0..3 {
                    // SAFETY: copier and buffers live until the end, and all other copies are before or behind on the stream.
                    unsafe { graph.launch(&streams[0]) }.unwrap();
                    send(&mut copier, &sets[2]);
                    // SAFETY: as above.
                    unsafe { again.launch(&streams[0]) }.unwrap();
                }
                streams[0].wait().unwrap();
                for parcel in sets.iter().flatten() {
                    assert!(parcel.has_come(&devices[1]), "{ends:?} {} streams", streams.len());
                }
            }
        }
    });
}

#[test]
fn a_recording_of_copies_in_turn_is_a_chain_of_kernels() {
    let test = "peer_streams::a_recording_of_copies_in_turn_is_a_chain_of_kernels";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        let devices = Ends::One.open(stub);
        let mut copier = PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap();
        let stream = devices[0].stream().unwrap();
        let parcels = parcels(&devices, 6);
        parcels[0].send(&mut copier, &stream).unwrap();
        stream.wait().unwrap();
        stub.fail(Some("cuStreamWaitEvent"), 1, 1);
        let graph = record(&mut copier, std::slice::from_ref(&stream), &parcels);
        assert_eq!(stub.failed(), None, "nothing but the stream orders them");
        stub.fail(None, 0, 0);
        // SAFETY: copier and buffers live until the end, and nothing else is under way.
        unsafe { graph.launch(&stream) }.unwrap();
        stream.wait().unwrap();
        assert!(parcels.iter().all(|parcel| parcel.has_come(&devices[1])));
    });
}

/// Nothing is enqueued for those, so what comes next waits for the copies before, and a graph may have them.
#[test]
fn copies_of_no_bytes_leave_the_order_as_it_is() {
    with_threads("peer_streams::copies_of_no_bytes_leave_the_order_as_it_is", 34, |stub| {
        let devices = Ends::Strangers.open(stub);
        let own = PeerCopyConfig { gate_bytes: 0, ..config("fixed:zvc") };
        let mut copier = PeerCopier::new(&devices[0], &devices[1], own).unwrap();
        let streams = [1, 0, 0].map(|end: usize| devices[end].stream().unwrap());
        let parcels = parcels(&devices, 90);
        let ends = (parcels[0].source.region().slice(0..0), parcels[0].into.region());
        let none = |copier: &mut PeerCopier| copier.copy(&streams[1], Element::U32, ends.0, ends.1);
        for (parcel, round) in parcels.iter().zip(0usize..) {
            parcel.send(&mut copier, &streams[2 * (round % 2)]).unwrap();
            assert_eq!(none(&mut copier).unwrap().raw_bytes, 0);
        }
        let graph = streams[1].capture(|| {
            assert_eq!(none(&mut copier)?.raw_bytes, 0);
            parcels[0].send(&mut copier, &streams[1])
        });
        graph.unwrap();
        drop(copier);
        assert!(parcels.iter().all(|parcel| parcel.has_come(&devices[1])));
    });
}

#[test]
fn after_an_error_nothing_of_a_copy_is_under_way() {
    with_threads("peer_streams::after_an_error_nothing_of_a_copy_is_under_way", 33, |stub| {
        for ends in Ends::ALL {
            let devices = ends.open(stub);
            for (end, len) in [(0, LENS[0]), (0, LENS[2]), (1, LENS[0]), (1, LENS[2])] {
                let mut copier = PeerCopier::new(&devices[0], &devices[1], config("fixed:zvc")).unwrap();
                let (stream, other) = (devices[end].stream().unwrap(), devices[0].stream().unwrap());
                for at in 1.. {
                    let [before, spoiled, after] = [1, 2, 3].map(|seed| Parcel::new(&devices, len, seed));
                    before.send(&mut copier, &stream).unwrap();
                    stub.fail(None, at, 2);
                    let sent = spoiled.send(&mut copier, &stream);
                    let failed = stub.failed();
                    stub.fail(None, 0, 0);
                    if sent.is_err() {
                        // The stub does not let memory go that queued work uses.
                        drop(spoiled);
                    } else {
                        stream.wait().unwrap();
                        assert!(spoiled.has_come(&devices[1]), "{ends:?} {at}, {failed:?}");
                    }
                    // The next one is as if nothing had been, wherever it is.
                    after.send(&mut copier, if at % 2 == 0 { &stream } else { &other }).unwrap();
                    stream.wait().unwrap();
                    other.wait().unwrap();
                    for parcel in [&before, &after] {
                        assert!(parcel.has_come(&devices[1]), "{ends:?} {at}, {failed:?}");
                    }
                    if failed.is_none() {
                        break;
                    }
                }
            }
        }
    });
}
