//! Calls that are longer than all before them.

use mgcomp_codecs::Element;
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::communicator::{Datatype, Operation};
use mgcomp_transport::nccl::{NcclConfig, Reductions};

use crate::rig::{Gate, Place, config, on_ranks, with_nccl};

/// Bytes of a rank: each call needs more room than the one before, for frames on both sides and for numbers to be combined.
const LENS: [u64; 3] = [20_000, 1_200_000, 3_000_000];

/// Ranks are threads of a process, whose devices have each other's memory. So whoever frees some may wait for what the others'
/// devices do, and these for this rank.
#[test]
fn nothing_is_freed_for_a_longer_call() {
    with_nccl("growth::nothing_is_freed_for_a_longer_call", 71, |stub, _| {
        let together = Gate::new(2);
        // The second time, whoever frees memory waits.
        for is_strict in [1, 0] {
            stub.set("strict_free", is_strict);
            on_ranks(
                2,
                |_| NcclConfig { reductions: Reductions::Ordered, ..config("fixed:zvc") },
                |world, place| {
                    let mut world = world.unwrap();
                    let (rank, stream) = (world.rank(), &place.stream);
                    let peer = Place::open(1 - rank);
                    assert!(place.device.reach(&peer.device).unwrap());
                    let raw = |rank: u32| data::bytes(Kind::Sparse, LENS[2] as usize, rank.into());
                    let (from, all) = (place.holding(&raw(rank)), place.room(2 * raw(rank).len()));
                    let numbers = place.holding(&vec![1; raw(rank).len()]);
                    together.pass_after(|| stub.fail(Some("cuMemFree_v2"), 0, 0));
                    for len in LENS {
                        let (own, into) = (from.slice(0..len), all.slice(0..2 * len));
                        let sent = world.all_gather(stream, own, into, Element::U32).unwrap();
                        assert!(sent.stored_bytes < sent.raw_bytes, "{sent:?}");
                        let both = (numbers.slice(0..len), numbers.slice(0..len));
                        world.all_reduce(stream, both, Datatype::U8, Operation::Sum).unwrap();
                    }
                    world.wait(stream).unwrap();
                    together.pass_after(|| {
                        assert_eq!(stub.count("calls"), 0, "memory was freed");
                        stub.fail(None, 0, 0);
                    });
                    assert!(place.bytes_of(all.region()) == [raw(0), raw(1)].concat());
                    // The shortest were combined three times, the longest once.
                    let sums = place.bytes_of(numbers.region());
                    assert!((sums[0], sums[1_000_000], sums[2_000_000]) == (8, 4, 2), "{:?}", &sums[..4]);
                },
            );
        }
    });
}
