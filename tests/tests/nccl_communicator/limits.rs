//! Where headers do not go: graphs. And what arguments are refused.

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{DeviceError, Graph};
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::communicator::{Block, CommunicatorError, Datatype, Operation};
use mgcomp_transport::nccl::{Message, NcclCommunicator, NcclError};

use crate::rig::{
    Gate, HANGS, Place, SHORT, all_end, alone, config, in_time, on_ranks, with_nccl, with_nccl_that_keeps,
};

#[test]
fn what_a_graph_records_is_plain_and_can_be_replayed() {
    with_nccl("limits::what_a_graph_records_is_plain_and_can_be_replayed", 11, |_, _| {
        let allocated = Gate::new(2);
        on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let (from, into) = (place.room(20_000), place.room(40_000));
                let (stream, rank) = (&place.stream, u64::from(world.rank()));
                // While anybody records, the stub lets nobody allocate.
                allocated.pass();
                let mut gather = || world.all_gather(stream, from.region(), into.region(), Element::U32);
                let graph: Result<Graph, NcclError> = stream.capture(|| {
                    let sent = gather()?;
                    assert_eq!((sent.raw_bytes, sent.stored_bytes), (20_000, 20_000));
                    Ok(())
                });
                let graph = graph.unwrap();
                for round in 0..20 {
                    let data = |rank| data::bytes(Kind::Sparse, 20_000, 2 * round + rank);
                    stream.upload(&data(rank), from.region()).unwrap();
                    stream.zero(into.region()).unwrap();
                    replay(&graph, stream);
                    assert!(place.bytes_of(into.region()) == [data(0), data(1)].concat(), "{round}");
                }
                // Not recorded, it is compressed.
                let sent = gather().unwrap();
                assert!(sent.stored_bytes < sent.raw_bytes);
                world.wait(stream).unwrap();
            },
        );
    });
}

/// To ask for streams, to wait and to allocate is else forbidden to it, and would spoil what it records.
#[test]
fn a_thread_that_records_may_make_other_calls() {
    with_nccl("limits::a_thread_that_records_may_make_other_calls", 13, |stub, _| {
        let together = Gate::new(2);
        on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let data = |rank| data::bytes(Kind::Sparse, 20_000, rank);
                let from = place.holding(&data(world.rank().into()));
                let (recorded, made) = (place.room(40_000), place.room(40_000));
                let (stream, other) = (&place.stream, place.device.stream().unwrap());
                // The stub is stricter than CUDA: while anybody records, nobody else may allocate.
                together.pass();
                let record = || {
                    world.all_gather(stream, from.region(), recorded.region(), Element::U32)?;
                    let sent = world.all_gather(&other, from.region(), made.region(), Element::U32)?;
                    assert!(sent.stored_bytes < sent.raw_bytes);
                    world.check()?;
                    world.wait(&other)
                };
                let graph: Result<Graph, NcclError> = stream.capture(record);
                together.pass();
                replay(&graph.unwrap(), stream);
                for gathered in [&recorded, &made] {
                    assert!(place.bytes_of(gathered.region()) == [data(0), data(1)].concat());
                }
            },
        );
        // The end of a communicator is no end of what is recorded.
        let place = Place::open(0);
        let buffer = place.room(100);
        let mut world = alone(&place, config("fixed:zvc"), HANGS);
        let record = || {
            stub.fail(Some("ncclBroadcast"), 1, 999);
            let failed = world.broadcast(&place.stream, 0, buffer.region(), Element::U8);
            stub.fail(None, 0, 0);
            assert!(matches!(failed, Err(NcclError::Call { .. })), "{failed:?}");
            drop(world);
            place.stream.zero(buffer.region())
        };
        let graph = place.stream.capture(record).unwrap();
        replay(&graph, &place.stream);
        assert!(place.bytes_of(buffer.region()) == [0; 100]);
    });
}

#[test]
fn what_records_is_not_waited_for_and_goes_on() {
    with_nccl("limits::what_records_is_not_waited_for_and_goes_on", 15, |_, _| {
        let allocated = Gate::new(2);
        on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let data = |rank| data::bytes(Kind::Sparse, 20_000, rank);
                let (from, into) = (place.holding(&data(world.rank().into())), place.room(40_000));
                let stream = &place.stream;
                allocated.pass();
                let graph: Result<Graph, NcclError> = stream.capture(|| {
                    world.all_gather(stream, from.region(), into.region(), Element::U32)?;
                    assert_eq!(world.wait(stream), Err(DeviceError::Recording.into()));
                    Ok(())
                });
                allocated.pass();
                replay(&graph.unwrap(), stream);
                assert!(place.bytes_of(into.region()) == [data(0), data(1)].concat());
                stream.zero(into.region()).unwrap();
                let sent = world.all_gather(stream, from.region(), into.region(), Element::U32).unwrap();
                assert!(sent.stored_bytes < sent.raw_bytes);
                world.wait(stream).unwrap();
                assert!(place.bytes_of(into.region()) == [data(0), data(1)].concat());
            },
        );
    });
}

/// NCCL ends no communicator before all graphs are destroyed that have recorded its calls, which is up to who waits for it.
#[test]
fn who_records_may_end_what_is_recorded() {
    with_nccl_that_keeps("limits::who_records_may_end_what_is_recorded", 14, |stub, nccl| {
        let place = Place::open(0);
        let buffer = place.room(100);
        let call = |world: &mut NcclCommunicator| {
            world.broadcast(&place.stream, 0, buffer.region(), Element::U8).map(drop)
        };
        let fails = || {
            let mut world = alone(&place, config("fixed:zvc"), SHORT);
            place.stream.capture(|| {
                call(&mut world)?;
                stub.fail(Some("ncclBroadcast"), 1, 999);
                let failed = call(&mut world);
                stub.fail(None, 0, 0);
                assert!(failed.is_err());
                drop(world);
                Ok(())
            })
        };
        let ends = || {
            let mut world = alone(&place, config("fixed:zvc"), SHORT);
            place.stream.capture(|| call(&mut world))
        };
        for graph in [in_time(fails), in_time(ends)] {
            assert_ne!(nccl.live(), 0);
            drop(graph);
        }
        all_end(nccl);
    });
}

#[allow(unsafe_code)] // launches a graph
fn replay(graph: &Graph, stream: &mgcomp_codecs::device::Stream) {
    // SAFETY: the buffers outlive the graph.
    unsafe { graph.launch(stream) }.unwrap();
}

#[test]
fn wrong_arguments_are_errors_and_nothing_happens() {
    with_nccl("limits::wrong_arguments_are_errors_and_nothing_happens", 12, |_, _| {
        on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let (stream, element) = (&place.stream, Element::U32);
                let (ten, twelve) = (place.room(10), place.room(12));
                let (ten, twelve) = (ten.region(), twelve.region());
                let rank = NcclError::Arguments(CommunicatorError::Rank { rank: 2, ranks: 2 });
                assert_eq!(world.broadcast(stream, 2, ten, element), Err(rank.clone()));
                assert_eq!(world.gather(stream, 2, (ten, ten), element), Err(rank.clone()));
                assert_eq!(world.scatter(stream, 2, (ten, ten), element), Err(rank.clone()));
                assert_eq!(world.send(stream, 2, ten, element), Err(rank));
                let refused = |result: Result<_, NcclError>| matches!(result, Err(NcclError::Arguments(_)));
                assert!(refused(world.all_gather(stream, ten, ten, element)));
                assert!(refused(world.all_to_all(stream, ten, twelve, element)));
                let odd = ten.slice(0..9);
                assert!(refused(world.all_to_all(stream, odd, odd, element)));
                let blocks = |len| [Block { offset: 0, len: 5 }, Block { offset: 5, len }];
                assert!(refused(world.all_gather_v(stream, ten, (ten, &blocks(6)), element)));
                assert!(refused(world.all_gather_v(stream, ten, (ten, &blocks(usize::MAX)), element)));
                assert!(refused(world.all_gather_v(stream, ten, (ten, &blocks(5)[..1]), element)));
                let own = Message::Send { to: world.rank(), from: ten };
                assert!(refused(world.exchange(stream, &[own], element)));
                let i16 = world.all_reduce(stream, (ten, ten), Datatype::I16, Operation::Sum);
                assert!(matches!(i16, Err(NcclError::Unsupported { .. })));
                let width = world.all_reduce(stream, (ten, ten), Datatype::F32, Operation::Sum).unwrap_err();
                assert_eq!(width.to_string(), "10 bytes are no whole number of f32");
                // It goes on.
                world.broadcast(stream, 0, ten, element).unwrap();
                world.wait(stream).unwrap();
            },
        );
    });
}
