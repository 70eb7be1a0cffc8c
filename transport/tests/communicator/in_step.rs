//! Members that send no further ahead than their links need: over imitated ones, of which it is known what that is.

use std::array;

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Block, Communicator, Datatype, Operation};
use mgcomp_transport::memory::HostBuffer;

use super::common::fabric::Fabric;
use super::common::watched;
use super::{buffer_of, bytes_of, on_all};

/// Links over which members go in step, and links that are too long for that. What a link is like is known when something was sent.
fn on_each_link(ranks: u32, policy: &str, work: impl Fn(&Communicator) + Sync) {
    for latency_us in [1, 80, 1000] {
        for fabric in [Fabric::loopback(), Fabric::shm(), Fabric::tcp()] {
            on_all(fabric.shaped(10.0, latency_us), ranks, policy, |world| {
                let (send, all) = (buffer_of(world.rank(), 100), HostBuffer::zeroed(100 * ranks as usize));
                world.all_gather(&send.all(), &all.all(), Element::U8).unwrap();
                work(world);
            });
        }
    }
}

/// One behind the other.
fn joined<const N: usize>(lens: [usize; N]) -> [Block; N] {
    array::from_fn(|rank| Block { offset: lens[..rank].iter().sum(), len: lens[rank] })
}

#[test]
fn blocks_of_different_lengths_come_to_all() {
    watched(|| {
        on_each_link(4, "fixed:xp", |world| {
            let own = world.rank() as usize;
            // None, many parts, less than one, and some.
            for lens in [[0, 3_000_001, 5, 700_000], [1 << 20; 4]] {
                let (blocks, len) = (joined(lens), lens.iter().sum());
                let (send, all) = (buffer_of(own as u32, lens[own]), HostBuffer::zeroed(len));
                world.all_gather_v(&send.all(), &all.all(), &blocks, Element::F32).unwrap();
                let expected = (0..4).flat_map(|rank| bytes_of(rank, lens[rank as usize]));
                assert!(all.all().to_vec() == expected.collect::<Vec<_>>(), "{lens:?}");
            }
        });
    });
}

#[test]
fn numbers_of_blocks_of_different_lengths_are_combined() {
    watched(|| {
        on_each_link(3, "adaptive", |world| {
            let own = world.rank() as usize;
            let numbers = |from: usize| 1_000_000 * from as u32 + 7;
            let buffer = |count: usize| {
                let numbers = (0..count as u32).map(|number| number + numbers(own));
                HostBuffer::from(numbers.flat_map(u32::to_le_bytes).collect::<Vec<_>>())
            };
            let sums = |numbers: std::ops::Range<usize>| -> Vec<u8> {
                numbers.flat_map(|number| (3 * number as u32 + 3_000_021).to_le_bytes()).collect()
            };
            for counts in [[0, 700_001, 3], [1, 300_000, 90_000]] {
                let blocks = joined(counts.map(|count| 4 * count));
                let (send, share) = (buffer(counts.iter().sum()), HostBuffer::zeroed(blocks[own].len));
                world
                    .reduce_scatter_v(&send.all(), &blocks, &share.all(), Datatype::U32, Operation::Sum)
                    .unwrap();
                let start = blocks[own].offset / 4;
                assert!(share.all().to_vec() == sums(start..start + counts[own]), "{counts:?}");
            }
            for count in [2, 100_001, 1_000_000] {
                let (send, all) = (buffer(count), HostBuffer::zeroed(4 * count));
                world.all_reduce(&send.all(), &all.all(), Datatype::U32, Operation::Sum).unwrap();
                assert!(all.all().to_vec() == sums(0..count), "{count}");
            }
        });
    });
}

#[test]
fn who_exchanges_in_place_goes_by_rounds_and_others_do_not_wait_for_that() {
    watched(|| {
        on_each_link(3, "adaptive", |world| exchange_in_place_and_not(world, 1_500_000));
        on_each_link(2, "adaptive", |world| exchange_in_place_and_not(world, 4_000_000));
    });
}

/// Each of some members in place, and the others not.
fn exchange_in_place_and_not(world: &Communicator, len: usize) {
    let (own, ranks) = (world.rank(), world.size());
    for in_place in 0..1 << ranks {
        let send = buffer_of(own, ranks as usize * len);
        let is_in_place = in_place >> own & 1 == 1;
        let receive = if is_in_place { send.clone() } else { HostBuffer::zeroed(ranks as usize * len) };
        world.all_to_all(&send.all(), &receive.all(), Element::F32).unwrap();
        let of = |rank| bytes_of(rank, ranks as usize * len)[own as usize * len..][..len].to_vec();
        assert!(receive.all().to_vec() == (0..ranks).flat_map(of).collect::<Vec<_>>(), "{in_place:b}");
    }
}
