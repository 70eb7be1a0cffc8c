//! Calls on tensors of another library, on its streams.
#![allow(unsafe_code)] // memory and streams that mgcomp has not made

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{Graph, Stream};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::foreign::{Foreign, ForeignStream, Tensor};
use mgcomp_transport::communicator::{Datatype, Operation};
use mgcomp_transport::nccl::{Message, NcclCommunicator, NcclConfig, NcclError, Reductions};

use crate::rig::{Gate, HANGS, LEAST, Place, RANKS, alone, bytes_after, config, on_ranks, with_nccl};

/// Where tensors begin in their blocks: as an allocator aligns them, and as views of words do.
const OFFSETS: [u64; 3] = [512, 4, 2 * 512 + 12];
/// By plain calls, and with headers.
const LENS: [u64; 2] = [LEAST / 2, 70_000];

fn raw(rank: u32, len: u64) -> Vec<u8> {
    data::bytes(Kind::Sparse, len as usize, u64::from(rank))
}

/// What a rank has: the communicator, the stream on which it calls, by both names, and its library.
struct Member<'a> {
    world: NcclCommunicator,
    theirs: &'a ForeignStream<'a>,
    stream: &'a Stream,
    library: &'a Foreign,
    /// Whether long calls are to be compressed.
    is_coded: bool,
}

impl Member<'_> {
    /// Lets `call` bring something from one tensor to another, between copies of the library on the same stream. Nobody waits
    /// in between but as the call does. Returns what came.
    fn call(
        &mut self,
        offset: u64,
        bytes: &[u8],
        into_len: u64,
        call: impl FnOnce(&mut NcclCommunicator, &Stream, (Tensor<'_>, Tensor<'_>)),
    ) -> Vec<u8> {
        let Self { world, theirs, stream, library, .. } = self;
        let len = bytes.len() as u64;
        let blocks = [len, len, into_len, into_len].map(|len| library.block(offset + len + 700));
        let tensors = blocks.each_ref().map(|block| block.tensor(offset..block.len() - 700));
        let [staged, source, into, last] = tensors;
        theirs.write(bytes, staged);
        for tensor in [source, into, last] {
            theirs.write(&vec![1; tensor.len() as usize], tensor);
        }
        theirs.copy(staged, source);
        call(world, stream, (source, into));
        // The source is the library's again, and what came is there.
        theirs.fill(&blocks[1], 0xee);
        theirs.copy(into, last);
        world.wait(stream).unwrap();
        let _ = theirs.read(into);
        theirs.read(last)
    }
}

/// Runs `calls` on each rank, on streams of its library and at all offsets.
fn on_tensors(
    test: &str,
    seed: u64,
    (policy, reductions): (&str, Reductions),
    calls: fn(&mut Member<'_>, u64, u64),
) {
    with_nccl(test, seed, |stub, _| {
        on_ranks(
            RANKS,
            |_| NcclConfig { reductions, ..config(policy) },
            |world, place| {
                let library = Foreign::on(&place.device);
                let is_coded = policy != "fixed:none";
                let mut world = Some(world.unwrap());
                for theirs in [library.stream(), library.default_stream(), library.stream_of_thread()] {
                    // SAFETY: dropped before theirs.
                    let stream = unsafe { theirs.lend(&place.device) };
                    let (theirs, stream, library) = (&theirs, &stream, &library);
                    let own = world.take().unwrap();
                    let mut member = Member { world: own, theirs, stream, library, is_coded };
                    for (offset, len) in OFFSETS.into_iter().flat_map(|offset| LENS.map(|len| (offset, len)))
                    {
                        calls(&mut member, offset, len);
                    }
                    world = Some(member.world);
                }
                drop(world);
                // Its streams are as good as before.
                let block = library.block(100);
                library.default_stream().write(&[7; 100], block.tensor(0..100));
                assert_eq!(library.default_stream().read(block.tensor(0..100)), [7; 100]);
            },
        );
        assert_eq!(stub.left(), "", "left in the driver");
    });
}

fn moving(member: &mut Member<'_>, offset: u64, len: u64) {
    let (rank, is_coded) = (member.world.rank(), member.is_coded);
    let (own, last) = (raw(rank, len), (rank + RANKS - 1) % RANKS);
    let all: Vec<u8> = (0..RANKS).flat_map(|rank| raw(rank, len)).collect();
    let got = member.call(offset, &own, len * u64::from(RANKS), |world, stream, (from, into)| {
        // SAFETY: what is enqueued is waited for before the blocks go.
        let (from, into) = unsafe { (from.lend(), into.lend()) };
        let sent = world.all_gather(stream, from, into, Element::F32).unwrap();
        assert_eq!(sent.raw_bytes, len);
        assert_eq!(sent.stored_bytes < len, is_coded && len >= LEAST, "{sent:?}");
    });
    assert!(got == all, "all_gather of {len} bytes at {offset}");
    let got = member.call(offset, &own, len, |world, stream, (from, into)| {
        // SAFETY: as above.
        let (from, into) = unsafe { (from.lend(), into.lend()) };
        let send = Message::Send { to: (rank + 1) % RANKS, from };
        world.exchange(stream, &[send, Message::Receive { from: last, to: into }], Element::F32).unwrap();
    });
    assert!(got == raw(last, len), "messages of {len} bytes at {offset}");
    let got = member.call(offset, &own, len, |world, stream, (from, into)| {
        // SAFETY: as above.
        let (from, into) = unsafe { (from.lend(), into.lend()) };
        stream.copy(from, into).unwrap();
        world.broadcast(stream, 1, into, Element::F32).unwrap();
    });
    assert!(got == raw(1, len), "broadcast of {len} bytes at {offset}");
}

fn reducing(member: &mut Member<'_>, offset: u64, len: u64) {
    let rank = member.world.rank();
    let numbers =
        |factor: u32| -> Vec<u8> { (0..len as u32 / 4).flat_map(|i| (i * factor).to_le_bytes()).collect() };
    let sum = member.call(offset, &numbers(rank + 1), len, |world, stream, (from, into)| {
        // SAFETY: what is enqueued is waited for before the blocks go.
        let both = unsafe { (from.lend(), into.lend()) };
        world.all_reduce(stream, both, Datatype::U32, Operation::Sum).unwrap();
    });
    // 1 + 2 + 3 times each number.
    assert!(sum == numbers(6), "all_reduce of {len} bytes at {offset}");
}

#[test]
fn plain_calls() {
    on_tensors("foreign::plain_calls", 61, ("fixed:none", Reductions::Nccl), moving);
}

#[test]
fn compressed_calls() {
    on_tensors("foreign::compressed_calls", 62, ("fixed:xp", Reductions::Nccl), moving);
}

#[test]
fn reductions_of_nccl() {
    on_tensors("foreign::reductions_of_nccl", 63, ("fixed:xp", Reductions::Nccl), reducing);
}

#[test]
fn reductions_in_order() {
    on_tensors("foreign::reductions_in_order", 64, ("fixed:xp", Reductions::Ordered), reducing);
}

/// Calls are on the stream of a thread although NCCL enqueues on another one: what is recorded there is replayed there.
#[test]
fn the_stream_of_a_thread_records_calls() {
    with_nccl("foreign::the_stream_of_a_thread_records_calls", 65, |stub, _| {
        let together = Gate::new(2);
        on_ranks(
            2,
            |_| config("fixed:none"),
            |world, place| {
                let mut world = world.unwrap();
                let library = Foreign::on(&place.device);
                let theirs = library.stream_of_thread();
                // SAFETY: dropped before theirs.
                let stream = unsafe { theirs.lend(&place.device) };
                let (from, all) = (place.room(LEAST as usize), place.room(2 * LEAST as usize));
                let call = |world: &mut NcclCommunicator| {
                    world.all_gather(&stream, from.region(), all.region(), Element::F32).map(drop)
                };
                // While anybody records, the stub lets nobody allocate.
                together.pass();
                let graph: Result<Graph, NcclError> = stream.capture(|| call(&mut world));
                let graph = graph.unwrap();
                together.pass();
                for round in 0..20 {
                    let raw = |rank| raw(2 * round + rank, LEAST);
                    stream.upload(&raw(world.rank()), from.region()).unwrap();
                    stream.zero(all.region()).unwrap();
                    // SAFETY: the buffers outlive the graph.
                    unsafe { graph.launch(&stream) }.unwrap();
                    assert!(bytes_after(&stream, all.region()) == [raw(0), raw(1)].concat(), "{round}");
                }
            },
        );
        // A call that fails leaves what is recorded alone.
        let place = Place::open(0);
        let library = Foreign::on(&place.device);
        let theirs = library.stream_of_thread();
        // SAFETY: dropped before theirs.
        let stream = unsafe { theirs.lend(&place.device) };
        let buffer = place.room(100);
        let mut world = alone(&place, config("fixed:none"), HANGS);
        let recorded = stream.capture(|| {
            stub.fail(Some("ncclBroadcast"), 1, 999);
            let failed = world.broadcast(&stream, 0, buffer.region(), Element::U8);
            stub.fail(None, 0, 0);
            assert!(matches!(failed, Err(NcclError::Call { .. })), "{failed:?}");
            stream.zero(buffer.region())
        });
        // SAFETY: the buffer outlives the graph.
        unsafe { recorded.unwrap().launch(&stream) }.unwrap();
        assert!(bytes_after(&stream, buffer.region()) == [0; 100]);
    });
}
