//! Reductions, against a fold in the order of the ranks.

use mgcomp_transport::communicator::{Block, Communicator, Datatype, Operation};
use mgcomp_transport::memory::HostBuffer;

use super::on_all;
use crate::common::Random;
use crate::common::fabric::Fabric;

/// Floats whose sum depends on the order.
fn floats(rank: u32, count: usize) -> Vec<f32> {
    let mut random = Random(u64::from(rank) + 1);
    (0..count)
        .map(|_| (random.below(2001) as f32 - 1000.0) * 10f32.powi(random.below(9) as i32 - 4))
        .collect()
}

fn bytes<const W: usize>(numbers: impl IntoIterator<Item = [u8; W]>) -> Vec<u8> {
    numbers.into_iter().flatten().collect()
}

fn f32s(numbers: &[f32]) -> Vec<u8> {
    bytes(numbers.iter().map(|number| number.to_le_bytes()))
}

/// The sum from the left, number by number.
fn sum(ranks: u32, count: usize) -> Vec<f32> {
    let mut left = floats(0, count);
    for rank in 1..ranks {
        left.iter_mut().zip(floats(rank, count)).for_each(|(left, right)| *left += right);
    }
    left
}

pub(super) fn reductions_are_from_the_left_in_the_order_of_the_ranks(fabric: Fabric) {
    for ranks in [1, 2, 3, 5] {
        on_all(fabric, ranks, "adaptive", |world| {
            for count in [0, 1, 4096, 4097, 1_000_003] {
                let send = HostBuffer::from(f32s(&floats(world.rank(), count)));
                let expected = f32s(&sum(ranks, count));
                let task = (Datatype::F32, Operation::Sum);
                let result = HostBuffer::zeroed(4 * count);
                world.all_reduce(&send.all(), &result.all(), task.0, task.1).unwrap();
                assert!(result.all().to_vec() == expected, "all_reduce of {count} on {ranks}");

                let root = ranks - 1;
                let at_root = HostBuffer::zeroed(if world.rank() == root { 4 * count } else { 0 });
                world.reduce(root, &send.all(), &at_root.all(), task.0, task.1).unwrap();
                assert!(
                    at_root.is_empty() || at_root.all().to_vec() == expected,
                    "reduce of {count} on {ranks}"
                );

                // Unequal blocks, the first of them empty.
                let cut = |rank: u32| count * (rank * rank) as usize / (ranks * ranks) as usize * 4;
                let blocks: Vec<Block> = (0..ranks)
                    .map(|rank| Block { offset: cut(rank), len: cut(rank + 1) - cut(rank) })
                    .collect();
                let own = blocks[world.rank() as usize];
                let block = HostBuffer::zeroed(own.len);
                world.reduce_scatter_v(&send.all(), &blocks, &block.all(), task.0, task.1).unwrap();
                assert!(
                    block.all().to_vec() == expected[own.offset..][..own.len],
                    "reduce_scatter of {count}"
                );

                world.all_reduce(&send.all(), &send.all(), task.0, task.1).unwrap();
                assert!(send.all().to_vec() == expected, "all_reduce in place of {count}");
            }
            integers(world);
        });
    }
}

/// Every integer type and operation at once, on three numbers that all ranks know.
fn integers(world: &Communicator) {
    let ranks = i128::from(world.size());
    let own = i128::from(world.rank());
    // 5, −7 as the type has it, and the rank.
    for (datatype, signed) in [
        (Datatype::I8, true),
        (Datatype::I16, true),
        (Datatype::I32, true),
        (Datatype::I64, true),
        (Datatype::U8, false),
        (Datatype::U16, false),
        (Datatype::U32, false),
        (Datatype::U64, false),
    ] {
        let width = datatype.width_bytes();
        let lowest = if signed { -7 } else { 2 };
        let encode = |numbers: &[i128]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()[..width].to_vec()).collect()
        };
        let send = HostBuffer::from(encode(&[5, lowest, own]));
        for (operation, expected) in [
            (Operation::Sum, [5 * ranks, lowest * ranks, ranks * (ranks - 1) / 2]),
            (Operation::Min, [5, lowest, 0]),
            (Operation::Max, [5, lowest, ranks - 1]),
            (Operation::Avg, [5, lowest, (ranks - 1) / 2]),
        ] {
            let result = HostBuffer::zeroed(send.len());
            world.all_reduce(&send.all(), &result.all(), datatype, operation).unwrap();
            assert_eq!(result.all().to_vec(), encode(&expected), "{operation} of {datatype}");
        }
    }
}

pub(super) fn compression_changes_no_bit(fabric: Fabric) {
    // Random bits: NaNs, infinities, denormals and all.
    const LEN: usize = 3 << 19;
    let results = |fabric, policy: &str| {
        on_all(fabric, 3, policy, |world| {
            let send = HostBuffer::from(crate::common::noise(world.rank().into(), LEN));
            let mut all = Vec::new();
            for datatype in [Datatype::F16, Datatype::Bf16, Datatype::F32, Datatype::F64] {
                for operation in Operation::ALL {
                    let result = HostBuffer::zeroed(LEN);
                    world.all_reduce(&send.all(), &result.all(), datatype, operation).unwrap();
                    all.push(result.all().to_vec());
                    let block = HostBuffer::zeroed(LEN / 3);
                    world.reduce_scatter(&send.all(), &block.all(), datatype, operation).unwrap();
                    let start = world.rank() as usize * LEN / 3;
                    assert!(block.all().to_vec() == result.all().to_vec()[start..][..LEN / 3]);
                }
            }
            all
        })
    };
    let raw = results(Fabric::loopback(), "fixed:none");
    assert!(raw.iter().all(|rank| *rank == raw[0]), "all ranks have the same");
    for policy in ["fixed:none", "fixed:xp", "adaptive"] {
        assert!(results(fabric, policy) == raw, "{policy}");
    }
}
