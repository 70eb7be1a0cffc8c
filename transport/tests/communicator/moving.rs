//! Collectives that only move bytes, against what they should leave.

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_transport::communicator::{Block, Communicator, Datatype, Operation};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::Limits;
use mgcomp_transport::node::NodeConfig;

use super::{buffer_of, bytes_of, on_all, on_all_with};
use crate::common::LIMITS;
use crate::common::fabric::Fabric;
use crate::common::job::config;

const LENGTHS: [usize; 6] = [0, 1, 63, 65_536, 65_543, (1 << 20) + 13];

/// Blocks of all ranks, one after the other.
fn joined(world: &Communicator, len: usize) -> Vec<u8> {
    (0..world.size()).flat_map(|rank| bytes_of(rank, len)).collect()
}

pub(super) fn every_collective_moves_what_it_should(fabric: Fabric) {
    for ranks in [1, 2, 5] {
        on_all(fabric, ranks, "adaptive", |world| {
            let (own, ranks) = (world.rank(), world.size() as usize);
            for len in LENGTHS {
                let root = (len as u32 + 1) % world.size();
                let send = buffer_of(own, len);
                world.barrier().unwrap();

                let shared = buffer_of(own, len);
                world.broadcast(root, &shared.all(), Element::U32).unwrap();
                assert!(shared.all().to_vec() == bytes_of(root, len), "broadcast of {len}");

                let all = HostBuffer::zeroed(len * ranks);
                world.all_gather(&send.all(), &all.all(), Element::U32).unwrap();
                assert!(all.all().to_vec() == joined(world, len), "all_gather of {len}");

                let gathered = HostBuffer::zeroed(if own == root { len * ranks } else { 0 });
                world.gather(root, &send.all(), &gathered.all(), Element::U32).unwrap();
                let expected = if own == root { joined(world, len) } else { Vec::new() };
                assert!(gathered.all().to_vec() == expected, "gather of {len}");

                let block = HostBuffer::zeroed(len);
                let all_of_root = HostBuffer::from(if own == root { joined(world, len) } else { Vec::new() });
                world.scatter(root, &all_of_root.all(), &block.all(), Element::U32).unwrap();
                assert!(block.all().to_vec() == bytes_of(own, len), "scatter of {len}");

                // Block i of rank j is that of "rank" 10 j + i.
                let of = |from: usize, to: usize| bytes_of((10 * from + to) as u32, len);
                let outgoing: Vec<u8> = (0..ranks).flat_map(|to| of(own as usize, to)).collect();
                let incoming = HostBuffer::zeroed(len * ranks);
                world.all_to_all(&HostBuffer::from(outgoing).all(), &incoming.all(), Element::U32).unwrap();
                let expected: Vec<u8> = (0..ranks).flat_map(|from| of(from, own as usize)).collect();
                assert!(incoming.all().to_vec() == expected, "all_to_all of {len}");
            }
        });
    }
}

pub(super) fn a_broadcast_only_reads_at_its_root(fabric: Fabric) {
    on_all(fabric, 3, "adaptive", |world| {
        for len in [100, 65_543, (1 << 20) + 13] {
            let buffer = buffer_of(world.rank(), len).all();
            let broadcast = || world.broadcast(1, &buffer, Element::U32).unwrap();
            if world.rank() == 1 {
                // Nobody can write to it meanwhile.
                buffer.read(|_| broadcast());
            } else {
                broadcast();
            }
            assert!(buffer.to_vec() == bytes_of(1, len), "broadcast of {len}");
        }
    });
}

pub(super) fn blocks_have_lengths_and_places_of_their_own(fabric: Fabric) {
    on_all(fabric, 4, "fixed:xp", |world| {
        let (own, ranks) = (world.rank() as usize, world.size() as usize);
        // Blocks in reverse, of 0, 1001, 2002 … bytes, with gaps of 3.
        let len = |rank: usize| rank * 1001;
        let mut blocks = vec![Block { offset: 0, len: 0 }; ranks];
        let mut end = 3;
        for rank in (0..ranks).rev() {
            blocks[rank] = Block { offset: end, len: len(rank) };
            end += len(rank) + 3;
        }
        let filled = |block_of: &dyn Fn(usize) -> Vec<u8>| {
            let mut bytes = vec![0xee; end];
            for (rank, block) in blocks.iter().enumerate() {
                bytes[block.offset..][..block.len].copy_from_slice(&block_of(rank));
            }
            bytes
        };
        let empty = || HostBuffer::from(vec![0xee; end]);
        let own_bytes = |rank: usize| bytes_of(rank as u32, len(rank));
        let send = HostBuffer::from(own_bytes(own));

        let all = empty();
        world.all_gather_v(&send.all(), &all.all(), &blocks, Element::F32).unwrap();
        assert!(all.all().to_vec() == filled(&own_bytes));

        let gathered = empty();
        world.gather_v(2, &send.all(), &gathered.all(), &blocks, Element::F32).unwrap();
        assert!(gathered.all().to_vec() == if own == 2 { filled(&own_bytes) } else { vec![0xee; end] });

        let block = HostBuffer::zeroed(len(own));
        world.scatter_v(3, &all.all(), &blocks, &block.all(), Element::F32).unwrap();
        assert!(block.all().to_vec() == own_bytes(own));

        // Rank j sends i · 500 bytes to rank i, so rank i gets i · 500 from each.
        let outgoing: Vec<Block> = (0..ranks).map(|to| Block { offset: to * 2000, len: to * 500 }).collect();
        let incoming: Vec<Block> =
            (0..ranks).map(|from| Block { offset: (ranks - 1 - from) * 1600, len: own * 500 }).collect();
        let (from, into) = (buffer_of(own as u32, 8000), HostBuffer::zeroed(6400));
        world.all_to_all_v(&from.all(), &outgoing, &into.all(), &incoming, Element::U8).unwrap();
        let mut expected = vec![0; 6400];
        for (rank, block) in incoming.iter().enumerate() {
            let sent = &bytes_of(rank as u32, 8000)[own * 2000..][..own * 500];
            expected[block.offset..][..block.len].copy_from_slice(sent);
        }
        assert!(into.all().to_vec() == expected);
    });
}

pub(super) fn in_place_is_the_same(fabric: Fabric) {
    on_all(fabric, 3, "adaptive", |world| {
        for len in [777, (1 << 20) + 13] {
            let own = world.rank() as usize;
            let own_only = || {
                let mut bytes = vec![0; 3 * len];
                bytes[own * len..][..len].copy_from_slice(&bytes_of(own as u32, len));
                HostBuffer::from(bytes)
            };
            let all = own_only();
            world.all_gather(&all.all().part(own * len, len).unwrap(), &all.all(), Element::U32).unwrap();
            assert!(all.all().to_vec() == joined(world, len));

            let gathered = own_only();
            world
                .gather(1, &gathered.all().part(own * len, len).unwrap(), &gathered.all(), Element::U32)
                .unwrap();
            if own == 1 {
                assert!(gathered.all().to_vec() == joined(world, len));
            }
            let scattered = HostBuffer::from(joined(world, len));
            let block = scattered.all().part(own * len, len).unwrap();
            world.scatter(1, &scattered.all(), &block, Element::U32).unwrap();
            assert!(scattered.all().to_vec() == joined(world, len));

            let exchanged = HostBuffer::from(blocks_from(own, &[len; 3]));
            world.all_to_all(&exchanged.all(), &exchanged.all(), Element::U32).unwrap();
            assert!(exchanged.all().to_vec() == blocks_to(own, &[len; 3]));
        }
    });
}

/// What `from` has for member `to`.
fn block(from: usize, to: usize, len: usize) -> Vec<u8> {
    bytes_of((10 * from + to) as u32, len)
}

/// What member `own` has for all, one after the other, of such lengths.
fn blocks_from(own: usize, lens: &[usize]) -> Vec<u8> {
    lens.iter().enumerate().flat_map(|(to, &len)| block(own, to, len)).collect()
}

/// What all have for it.
fn blocks_to(own: usize, lens: &[usize]) -> Vec<u8> {
    lens.iter().enumerate().flat_map(|(from, &len)| block(from, own, len)).collect()
}

pub(super) fn all_to_all_is_in_place_on_any_of_the_members(fabric: Fabric) {
    const PART: usize = 512 << 10;
    // Nothing, less than a part, just one, and more than both rooms hold; the same both ways.
    let lens = [
        [5, 0, 70, PART, PART + 1],
        [0, 0, 3 * PART + 7, 1000, 1],
        [70, 3 * PART + 7, 64, PART - 1, 4099],
        [PART, 1000, PART - 1, 2 * PART, 0],
        [PART + 1, 1, 4099, 0, 9],
    ];
    on_all(fabric, lens.len() as u32, "adaptive", |world| {
        let own = world.rank() as usize;
        // From nobody to everybody in place.
        for in_place in 0..=lens.len() {
            // In reverse, with gaps of 3.
            let mut blocks = [Block { offset: 0, len: 0 }; 5];
            let mut end = 3;
            for (other, &len) in lens[own].iter().enumerate().rev() {
                blocks[other] = Block { offset: end, len };
                end += len + 3;
            }
            let filled = |block_of: &dyn Fn(usize, usize) -> Vec<u8>| {
                let mut bytes = vec![0xee; end];
                for (other, &Block { offset, len }) in blocks.iter().enumerate() {
                    bytes[offset..][..len].copy_from_slice(&block_of(other, len));
                }
                bytes
            };
            let send = HostBuffer::from(filled(&|to, len| block(own, to, len)));
            let receive = if own < in_place { send.clone() } else { HostBuffer::from(vec![0xee; end]) };
            world.all_to_all_v(&send.all(), &blocks, &receive.all(), &blocks, Element::U8).unwrap();
            assert!(
                receive.all().to_vec() == filled(&|from, len| block(from, own, len)),
                "{in_place} in place"
            );
        }
        // Many short ones share a room.
        for len in [0, 1, 64, 40_000, 200_000] {
            let exchanged = HostBuffer::from(blocks_from(own, &[len; 5]));
            world.start_all_to_all(&exchanged.all(), &exchanged.all(), Element::F32).wait().unwrap();
            assert!(exchanged.all().to_vec() == blocks_to(own, &[len; 5]), "all_to_all of {len}");
        }
    });
}

pub(super) fn what_several_members_get_is_encoded_once(fabric: Fabric) {
    // Without codec threads it is there when the second member's turn comes, and else under way, as a rule.
    // Where peers take little unasked, they fetch parts, whenever that is.
    let narrow = Limits { max_transfer_bytes: 512 << 10, window_bytes: 512 << 10, ..LIMITS };
    for (codec_threads, limits) in [(0, LIMITS), (2, LIMITS), (2, narrow)] {
        let config = NodeConfig { codec_threads, limits, ..config() };
        on_all_with(fabric, 4, "fixed:xp", &config, |world| {
            // Of the payloads since the last time, reports left out: how many there are, and for how many a codec has worked.
            let mut before = 0;
            let mut encoded = |what: &str| {
                let records = world.node().decisions();
                let new: Vec<_> = records[before..].iter().filter(|r| r.facts.raw_bytes > 1000).collect();
                before = records.len();
                assert!(new.iter().all(|r| r.outcome.sent == Algorithm::Xp), "{what}: {new:?}");
                (new.len(), new.iter().filter(|record| record.outcome.encode.is_some()).count())
            };
            let own = world.rank();
            world.barrier().unwrap();
            encoded("what came before");

            // Each part goes to three others.
            let parts = |len: usize, part_bytes| len.div_ceil(part_bytes);
            let part_bytes = fabric.part_bytes;
            let (send, all) = (buffer_of(own, 1 << 20), HostBuffer::zeroed(4 << 20));
            world.all_gather(&send.all(), &all.all(), Element::U32).unwrap();
            let count = parts(1 << 20, part_bytes);
            assert_eq!(encoded("all_gather"), (3 * count, count));
            assert!(all.all().to_vec() == joined(world, 1 << 20));

            let short = buffer_of(own, 60_000);
            world.broadcast(1, &short.all(), Element::U32).unwrap();
            assert_eq!(encoded("a short broadcast"), if own == 1 { (3, 1) } else { (0, 0) });
            assert!(short.all().to_vec() == bytes_of(1, 60_000));

            // The root sends three others a share of 256 KiB each, and its own; those send theirs to two.
            let long = buffer_of(own, 1 << 20);
            world.broadcast(1, &long.all(), Element::U32).unwrap();
            let count = parts(256 << 10, part_bytes);
            let expected = if own == 1 { (6 * count, 4 * count) } else { (2 * count, count) };
            assert_eq!(encoded("a long broadcast"), expected);
            assert!(long.all().to_vec() == bytes_of(1, 1 << 20));

            // Shares of 512 KiB, in parts of 256 at most: to each of three others, then those of the result to all three.
            let (numbers, sums) = (vec![own; 1 << 19], HostBuffer::zeroed(2 << 20));
            let numbers =
                HostBuffer::from(numbers.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>());
            world.all_reduce(&numbers.all(), &sums.all(), Datatype::U32, Operation::Sum).unwrap();
            let count = parts(512 << 10, part_bytes.min(256 << 10));
            assert_eq!(encoded("all_reduce"), (6 * count, 4 * count));
            assert!(sums.all().to_vec().chunks_exact(4).all(|sum| sum == [6, 0, 0, 0]));
        });
    }
}
