//! What is compressed: chosen anew for each call, by what is known by then.

use mgcomp_codecs::Element;
use mgcomp_codecs::device::Buffer;
use mgcomp_selector::{LinkFacts, Overlap};
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::nccl::{NcclCommunicator, NcclConfig, Sent};

use crate::rig::{Gate, Place, config, on_ranks, with_nccl};

const LEN: usize = 40_000;

fn over(policy: &str, gbps: f64) -> NcclConfig {
    NcclConfig { link: LinkFacts::try_new(gbps, 1000, Overlap::None).ok(), ..config(policy) }
}

/// Broadcasts what rank 0 has, and says what it has sent. All get it.
fn broadcast(world: &mut NcclCommunicator, place: &Place, from: &Buffer) -> Sent {
    let sent = world.broadcast(&place.stream, 0, from.region(), Element::U32).unwrap();
    world.wait(&place.stream).unwrap();
    sent
}

#[test]
fn what_pays_on_a_slow_link_does_not_on_a_fast_one() {
    with_nccl("choices::what_pays_on_a_slow_link_does_not_on_a_fast_one", 51, |_, _| {
        // So slow, and so fast, that it does not matter how long kernels take on this machine.
        for (gbps, pays) in [(1e-5, true), (1e6, false)] {
            on_ranks(
                2,
                |_| over("adaptive", gbps),
                |world, place| {
                    let mut world = world.unwrap();
                    let raw = data::bytes(Kind::Sparse, LEN, 1);
                    let buffer = place.room(LEN);
                    let mut is_coded = false;
                    for _ in 0..60 {
                        if world.rank() == 0 {
                            place.stream.upload(&raw, buffer.region()).unwrap();
                        }
                        let sent = broadcast(&mut world, place, &buffer);
                        is_coded |= sent.stored_bytes < sent.raw_bytes;
                        assert!(place.bytes_of(buffer.region()) == raw);
                    }
                    assert_eq!(is_coded, pays && world.rank() == 0, "{gbps} Gb/s");
                },
            );
        }
    });
}

#[test]
fn what_one_transfer_shows_decides_the_next_ones() {
    with_nccl("choices::what_one_transfer_shows_decides_the_next_ones", 52, |stub, _| {
        let met = Gate::new(2);
        on_ranks(
            2,
            |_| over("paper", 1.0),
            |world, place| {
                let mut world = world.unwrap();
                let buffer = place.holding(&data::bytes(Kind::Deltas, LEN, 2));
                met.pass();
                let before = stub.count("launches");
                met.pass();
                let first = broadcast(&mut world, place, &buffer);
                if world.rank() == 0 {
                    assert_eq!(first.stored_bytes, first.raw_bytes, "nothing is known yet");
                    assert!(stub.count("launches") > before, "nobody has looked");
                }
                let later: Vec<Sent> = (0..30).map(|_| broadcast(&mut world, place, &buffer)).collect();
                let is_coded = later.iter().any(|sent| sent.stored_bytes < sent.raw_bytes);
                assert_eq!(is_coded, world.rank() == 0);
            },
        );
    });
}

#[test]
fn calls_of_each_kind_are_chosen_for_apart() {
    with_nccl("choices::calls_of_each_kind_are_chosen_for_apart", 53, |_, _| {
        on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let sparse = place.holding(&data::bytes(Kind::Sparse, LEN, 3));
                let (dense, both) = (place.holding(&data::bytes(Kind::Dense, LEN, 4)), place.room(2 * LEN));
                for round in 0..12 {
                    // What does not shrink soon goes by plain calls, and the others go on as before.
                    let gathered =
                        world.all_gather(&place.stream, dense.region(), both.region(), Element::U32).unwrap();
                    assert_eq!(gathered.stored_bytes, gathered.raw_bytes, "{round}");
                    let sent = broadcast(&mut world, place, &sparse);
                    assert_eq!(sent.stored_bytes < sent.raw_bytes, world.rank() == 0, "{round}");
                }
            },
        );
    });
}
