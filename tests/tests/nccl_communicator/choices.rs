//! What is compressed: chosen anew for each call, by what is known by then.

use mgcomp_codecs::Element;
use mgcomp_codecs::device::Buffer;
use mgcomp_selector::{LinkFacts, Overlap};
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::nccl::{Message, NcclCommunicator, NcclConfig, Sent};

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

/// Nothing known, as a program finds it; but the least length of these tests.
fn as_it_comes() -> NcclConfig {
    let NcclConfig { policy, link, .. } = NcclConfig::default();
    NcclConfig { policy, link, ..config("fixed:none") }
}

/// One call of a kind, in which each rank gets what the other has; says what this one has sent.
fn call(world: &mut NcclCommunicator, place: &Place, kind: u64, raw: &[u8]) -> Sent {
    let (rank, len, element) = (u64::from(world.rank()), raw.len() as u64, Element::U32);
    let (own, all) = (place.holding(raw), place.room(2 * raw.len()));
    let other = all.slice((1 - rank) * len..(2 - rank) * len);
    let sent = match kind {
        0 => world.all_gather(&place.stream, own.region(), all.region(), element),
        1 => {
            let to = 1 - world.rank();
            let messages =
                [Message::Send { to, from: own.region() }, Message::Receive { from: to, to: other }];
            world.exchange(&place.stream, &messages, element)
        }
        _ => {
            let sent = world.broadcast(&place.stream, 0, own.region(), element);
            let own = own.region();
            place.stream.copy(own, other).unwrap();
            sent
        }
    };
    world.wait(&place.stream).unwrap();
    assert!(place.bytes_of(other) == raw, "{kind}");
    sent.unwrap()
}

#[test]
fn the_link_shows_in_calls_and_decides_for_later_ones() {
    with_nccl("choices::the_link_shows_in_calls_and_decides_for_later_ones", 54, |stub, _| {
        // 1 Gb/s, 8.192 us for each KiB; 400 Gb/s, in calls that are long enough to show it; and no time to speak of.
        for (ns_per_kib, len, pays) in [(8192, 2 * LEN, true), (20, 500 * LEN, false), (1, LEN, false)] {
            stub.set("link_ns_per_kib", ns_per_kib);
            for kind in 0..3 {
                on_ranks(
                    2,
                    |_| as_it_comes(),
                    |world, place| {
                        let mut world = world.unwrap();
                        let raw = data::bytes(Kind::Sparse, len, 6);
                        let sends = world.rank() == 0 || kind != 2;
                        let times = if pays { 30 } else { 12 };
                        let sent: Vec<Sent> =
                            (0..times).map(|_| call(&mut world, place, kind, &raw)).collect();
                        let is_coded = |sent: &Sent| sent.stored_bytes < sent.raw_bytes;
                        // Two show the link, and after them two are plain for what they were.
                        assert!(!sent[..4].iter().any(is_coded), "{kind}");
                        assert_eq!(sent.iter().any(is_coded), pays && sends, "{ns_per_kib} {kind}");
                    },
                );
            }
        }
    });
}

#[test]
fn kernels_that_are_slower_than_expected_are_seen() {
    with_nccl("choices::kernels_that_are_slower_than_expected_are_seen", 56, |stub, _| {
        stub.set("link_ns_per_kib", 819);
        // Nobody knows yet how long kernels take here; and then they take longer than the raw bytes do.
        for (launch_ns, pays) in [(1, true), (20_000_000, false)] {
            stub.set("launch_ns", launch_ns);
            on_ranks(
                2,
                |_| as_it_comes(),
                |world, place| {
                    let mut world = world.unwrap();
                    let raw = data::bytes(Kind::Sparse, 20 * LEN, 6);
                    let sent: Vec<Sent> = (0..150).map(|_| call(&mut world, place, 0, &raw)).collect();
                    let is_coded = |sent: &Sent| sent.stored_bytes < sent.raw_bytes;
                    assert!(sent.iter().any(is_coded), "{launch_ns}");
                    // Nine codecs have to be seen, and none is condemned for a few slow calls.
                    let late = sent[120..].iter().filter(|sent| is_coded(sent)).count();
                    assert!(if pays { late > 20 } else { late < 5 }, "{launch_ns} {late}");
                },
            );
        }
    });
}

#[test]
fn a_link_that_is_stated_counts_whatever_calls_take() {
    with_nccl("choices::a_link_that_is_stated_counts_whatever_calls_take", 55, |stub, _| {
        stub.set("link_ns_per_kib", 8192);
        on_ranks(
            2,
            |_| NcclConfig { link: LinkFacts::try_new(1e6, 1000, Overlap::None).ok(), ..as_it_comes() },
            |world, place| {
                let mut world = world.unwrap();
                let raw = data::bytes(Kind::Sparse, LEN, 6);
                for _ in 0..20 {
                    let sent = call(&mut world, place, 0, &raw);
                    assert_eq!(sent.stored_bytes, sent.raw_bytes);
                }
            },
        );
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
