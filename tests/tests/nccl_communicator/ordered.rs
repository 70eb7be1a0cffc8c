//! Reductions in the order of the ranks.

use std::thread;

use mgcomp_codecs::device::Graph;
use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::communicator::{Communicator, Datatype, Operation};
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::nccl::{NcclConfig, NcclError, Reductions};
use mgcomp_transport::node::{Node, NodeConfig};

use crate::rig::{Gate, RANKS, config, on_ranks, with_nccl};

fn ordered(policy: &str) -> NcclConfig {
    NcclConfig { reductions: Reductions::Ordered, ..config(policy) }
}

/// Numbers of a rank: of many sizes, whatever they are taken for.
fn numbers(rank: u32, len: usize) -> Vec<u8> {
    data::bytes(Kind::Deltas, len, 40 + u64::from(rank))
}

/// What ranks on hosts make of the same numbers.
fn on_hosts(len: usize, datatype: Datatype, operation: Operation) -> Vec<u8> {
    let policy = PolicySpec::default();
    let start = |link| {
        Node::start(Box::new(link), policy.build(&Steering::default()), NodeConfig::default()).unwrap()
    };
    let nodes: Vec<Node> = Loopback::fabric(RANKS, None).unwrap().into_iter().map(start).collect();
    let on_rank = |(rank, node): (u32, Node)| {
        let buffer = HostBuffer::from(numbers(rank, len));
        let world = Communicator::world(node);
        world.all_reduce(&buffer.all(), &buffer.all(), datatype, operation).unwrap();
        buffer.all().to_vec()
    };
    thread::scope(|scope| {
        let start = |rank_and_node| scope.spawn(move || on_rank(rank_and_node));
        let threads: Vec<_> = (0..).zip(nodes).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).next().unwrap()
    })
}

#[test]
fn order_decides_and_is_that_of_the_ranks() {
    with_nccl("ordered::order_decides_and_is_that_of_the_ranks", 41, |_, _| {
        on_ranks(
            RANKS,
            |_| ordered("fixed:xp"),
            |world, place| {
                let mut world = world.unwrap();
                // From the left 1e8 + 1 is 1e8, and nothing is left; any other order leaves 1.
                let own = [1e8f32, 1.0, -1e8][world.rank() as usize];
                for count in [0, 1, 2, 4099] {
                    let buffer = place.holding(&own.to_le_bytes().repeat(count));
                    let both = (buffer.region(), buffer.region());
                    world.all_reduce(&place.stream, both, Datatype::F32, Operation::Sum).unwrap();
                    world.wait(&place.stream).unwrap();
                    assert!(place.bytes_of(buffer.region()) == vec![0; 4 * count], "{count} numbers");
                }
            },
        );
    });
}

#[test]
fn bits_are_those_of_ranks_on_hosts() {
    with_nccl("ordered::bits_are_those_of_ranks_on_hosts", 42, |_, _| {
        let cases = [
            (Datatype::F32, Operation::Sum, 60_004),
            (Datatype::Bf16, Operation::Sum, 30_002),
            (Datatype::F16, Operation::Avg, 30_002),
            (Datatype::I16, Operation::Max, 30_000),
        ];
        let expected = cases.map(|(datatype, operation, len)| on_hosts(len, datatype, operation));
        on_ranks(
            RANKS,
            |_| ordered("fixed:bdi"),
            |world, place| {
                let mut world = world.unwrap();
                let rank = world.rank();
                for ((datatype, operation, len), expected) in cases.into_iter().zip(&expected) {
                    let (from, into) = (place.holding(&numbers(rank, len)), place.room(len));
                    let both = (from.region(), into.region());
                    world.all_reduce(&place.stream, both, datatype, operation).unwrap();
                    world.wait(&place.stream).unwrap();
                    assert!(place.bytes_of(into.region()) == *expected, "{operation} of {datatype}");
                    // As many numbers for each rank, in place.
                    let share = len / RANKS as usize / 4 * 4;
                    let all = from.slice(0..u64::from(RANKS) * share as u64);
                    let at = rank as usize * share;
                    let own = from.slice(at as u64..(at + share) as u64);
                    world.reduce_scatter(&place.stream, (all, own), datatype, operation).unwrap();
                    world.wait(&place.stream).unwrap();
                    assert!(
                        place.bytes_of(own) == expected[at..at + share],
                        "a share, {operation} of {datatype}"
                    );
                }
            },
        );
    });
}

#[test]
fn graphs_do_not_record_them() {
    with_nccl("ordered::graphs_do_not_record_them", 43, |_, _| {
        let together = Gate::new(2);
        on_ranks(
            2,
            |_| ordered("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let buffer = place.holding(&[1; 64]);
                let both = (buffer.region(), buffer.region());
                let mut reduce = || world.all_reduce(&place.stream, both, Datatype::U8, Operation::Sum);
                // While anybody records, the stub lets nobody allocate.
                together.pass();
                let recorded: Result<Graph, NcclError> = place.stream.capture(&mut reduce);
                assert_eq!(recorded.unwrap_err(), NcclError::Recorded);
                together.pass();
                reduce().unwrap();
                assert!(place.bytes_of(buffer.region()) == [2; 64]);
            },
        );
        // Who computes is the same on all ranks.
        let who = |rank| if rank == 0 { ordered("fixed:zvc") } else { config("fixed:zvc") };
        let errors = on_ranks(2, who, |world, _| world.unwrap_err().to_string());
        assert!(errors.iter().any(|error| error.starts_with("who computes reductions is ")), "{errors:?}");
    });
}

#[test]
fn nothing_comes_to_the_host() {
    with_nccl("ordered::nothing_comes_to_the_host", 44, |stub, _| {
        let expected = on_hosts(60_004, Datatype::F32, Operation::Sum);
        let together = Gate::new(RANKS);
        on_ranks(
            RANKS,
            |_| ordered("fixed:none"),
            |world, place| {
                let mut world = world.unwrap();
                let buffer = place.holding(&numbers(world.rank(), 60_004));
                let both = (buffer.region(), buffer.region());
                together.pass_after(|| stub.fail(Some("cuMemcpyDtoHAsync_v2"), u64::MAX, 2));
                world.all_reduce(&place.stream, both, Datatype::F32, Operation::Sum).unwrap();
                world.wait(&place.stream).unwrap();
                together.pass_after(|| {
                    assert_eq!(stub.count("calls"), 0, "copies to the host");
                    stub.fail(None, 0, 0);
                });
                assert!(place.bytes_of(buffer.region()) == expected);
            },
        );
    });
}

/// The room of the first is too short for the second, whose kernel fails.
#[test]
fn a_kernel_that_fails_ends_all_ranks() {
    with_nccl("ordered::a_kernel_that_fails_ends_all_ranks", 45, |stub, _| {
        const ILLEGAL_ADDRESS: u32 = 700;
        let together = Gate::new(2);
        let ends = on_ranks(
            2,
            |_| ordered("fixed:none"),
            |world, place| {
                let (short, long) = (place.holding(&[1; 4096]), place.holding(&vec![1; 5 << 20]));
                // Goes before the buffers, which its last work may still use.
                let mut world = world.unwrap();
                for (buffer, fails) in [(&short, false), (&long, false), (&long, true)] {
                    together.pass_after(|| {
                        if fails {
                            stub.fail(Some("cuLaunchKernel"), 1, ILLEGAL_ADDRESS);
                        }
                    });
                    let both = (buffer.region(), buffer.region());
                    let reduced = world.all_reduce(&place.stream, both, Datatype::U8, Operation::Sum);
                    let ended = reduced.and_then(|()| world.wait(&place.stream));
                    if fails {
                        return ended;
                    }
                    ended.unwrap();
                }
                Ok(())
            },
        );
        stub.fail(None, 0, 0);
        assert!(ends.iter().all(Result::is_err), "{ends:?}");
        assert!(ends.iter().any(|end| matches!(end, Err(NcclError::Device(_)))), "{ends:?}");
    });
}
