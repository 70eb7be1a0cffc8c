//! The kernel that combines numbers: the bits of portable code, whatever the numbers, their lengths and where they lie.

use mgcomp_codecs::reduction::{Datatype, Operation};
use mgcomp_tests::data::Random;
use mgcomp_tests::shim::numbers::{Numbers, bytes_of, special_bits};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim};

fn judge(shim: Shim, numbers: &Numbers, launch: Launch) {
    let (got, expected) = (shim.reduce(numbers, launch), numbers.expected());
    let width = numbers.datatype.width_bytes();
    let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) else { return };
    let of = |bytes: &[u8]| {
        let bytes = bytes[at / width * width..][..width].iter().rev();
        bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let from: Vec<String> = numbers.of_ranks.iter().map(|numbers| of(numbers)).collect();
    panic!(
        "{} of {} at byte {at} of {}, {launch:?}: {from:?} give {}, not {}",
        numbers.operation,
        numbers.datatype,
        got.len(),
        of(&got),
        of(&expected)
    );
}

/// Numbers of so many ranks by chance.
fn random(datatype: Datatype, ranks: usize, len: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let special = special_bits(datatype);
    let mut number = || if random.percent(40) { special[random.below(special.len())] } else { random.bits() };
    let count = len / datatype.width_bytes();
    (0..ranks).map(|_| bytes_of(datatype, (0..count).map(|_| number()))).collect()
}

#[test]
fn special_numbers_of_all_kinds() {
    let Some(shim) = Shim::or_skip("special_numbers_of_all_kinds") else { return };
    for datatype in Datatype::ALL {
        let special = special_bits(datatype);
        let all = || special.iter().copied();
        // Each with each, and then with some third.
        let left = bytes_of(datatype, all().flat_map(|bits| all().map(move |_| bits)));
        let right = bytes_of(datatype, all().flat_map(|_| all()));
        let third = bytes_of(datatype, all().flat_map(|_| all()).skip(5).chain(all().take(5)));
        for operation in Operation::ALL {
            for order in LaneOrder::ALL {
                for of_ranks in [
                    vec![left.clone()],
                    vec![left.clone(), right.clone()],
                    vec![left.clone(), right.clone(), third.clone()],
                ] {
                    judge(shim, &Numbers::new(datatype, operation, of_ranks), Launch::new(order, 1));
                }
            }
        }
    }
}

/// Every number of 16 bits, added to others and divided.
#[test]
fn every_short_float() {
    let Some(shim) = Shim::or_skip("every_short_float") else { return };
    let launch = Launch::new(LaneOrder::Fifo, 2);
    for datatype in [Datatype::F16, Datatype::Bf16] {
        let every = bytes_of(datatype, 0..1 << 16);
        let shifted = |by: u64| bytes_of(datatype, (0..1 << 16).map(|bits| (bits * 0x9e37 + by) & 0xffff));
        for (operation, others) in [
            (Operation::Sum, vec![shifted(0x0400)]),
            (Operation::Sum, vec![shifted(77), shifted(0x3c00)]),
            (Operation::Avg, vec![bytes_of(datatype, vec![0; 1 << 16])]),
            (Operation::Avg, vec![shifted(5), shifted(0x7123)]),
            (Operation::Min, vec![shifted(1)]),
            (Operation::Max, vec![shifted(9)]),
        ] {
            let of_ranks = [vec![every.clone()], others].concat();
            judge(shim, &Numbers::new(datatype, operation, of_ranks), launch);
        }
    }
}

/// Lengths and places on the borders of units and of what a block has at a time, which is 8 KiB.
#[test]
fn any_length_and_place() {
    let Some(shim) = Shim::or_skip("any_length_and_place") else { return };
    let mut random_numbers = Random::new(3);
    let counts = |width: usize| {
        let block = (8 << 10) / width;
        [0, 1, 2, 3, 16 / width, 16 / width + 1, 48 / width, block - 1, block, block + 1, 2 * block + 5]
    };
    let (mut places, mut misaligned) = (0, [0; 2]);
    for (n, datatype) in Datatype::ALL.into_iter().enumerate() {
        let width = datatype.width_bytes();
        for (k, count) in counts(width).into_iter().enumerate() {
            // Each a multiple of the width behind a unit; of any number of bytes; and the result alone on such a place, without
            // a rank whose numbers lie elsewhere and with one, whose numbers may be where the result goes.
            for (p, offsets) in [
                [0, 0, 0],
                [width % 16, 8, (16 - width) % 16],
                [1, 7, 0],
                [15, 3, 8 * width % 16],
                [4, 0, 1 + k % 15],
                [4, 0, 1 + (7 * n + k) % 15],
            ]
            .into_iter()
            .enumerate()
            {
                let ranks = 1 + (n + k + p) % 4;
                let own = (p % 2 == 1).then_some((n + k) % ranks);
                let in_place = own.is_some() && k % 2 == 0;
                places += usize::from(own.is_some());
                misaligned[usize::from(in_place)] +=
                    usize::from(own.is_some() && count > 0 && !offsets[2].is_multiple_of(width));
                let numbers = Numbers {
                    own,
                    in_place,
                    offsets,
                    gap: [0, 5, 16][(k + p) % 3],
                    ..Numbers::new(
                        datatype,
                        Operation::ALL[(n + k + p) % 4],
                        random(datatype, ranks, count * width, &mut random_numbers),
                    )
                };
                let blocks = 1 + (k + p) as u32 % 3;
                let order = LaneOrder::ALL[(n + k + p) % 3];
                judge(shim, &numbers, Launch { os_threads: blocks, ..Launch::new(order, blocks) });
            }
        }
    }
    assert!(places > 200 && misaligned.iter().all(|&count| count > 30), "{places} {misaligned:?}");
}

#[test]
fn the_order_is_that_of_the_ranks() {
    let Some(shim) = Shim::or_skip("the_order_is_that_of_the_ranks") else { return };
    let ranks = [1e8f32, 1.0, -1e8].map(|number| number.to_le_bytes().repeat(70));
    for (order, sum) in [([0, 1, 2], 0f32), ([0, 2, 1], 1.0), ([1, 2, 0], 0.0)] {
        let of_ranks = order.map(|rank| ranks[rank].clone()).to_vec();
        for own in [None, Some(0), Some(1), Some(2)] {
            let numbers = Numbers { own, ..Numbers::new(Datatype::F32, Operation::Sum, of_ranks.clone()) };
            let got = shim.reduce(&numbers, Launch::new(LaneOrder::Lifo, 1));
            assert!(got == sum.to_le_bytes().repeat(70), "{order:?}");
        }
    }
}

/// By the rules, not by what portable code makes of them.
#[test]
fn known_answers() {
    let Some(shim) = Shim::or_skip("known_answers") else { return };
    let cases: [(Datatype, Operation, &[u64], u64); 14] = [
        // The NaN of sums is the quiet one without sign and payload; devices add to 0x7fffffff.
        (Datatype::F32, Operation::Sum, &[0xffc1_2345, 0x3f80_0000], 0x7fc0_0000),
        (Datatype::F32, Operation::Avg, &[0x7f80_0000, 0xff80_0000], 0x7fc0_0000),
        (Datatype::F64, Operation::Sum, &[0x7ff0_0000_0000_0001, 0], 0x7ff8_0000_0000_0000),
        (Datatype::F16, Operation::Sum, &[0x7c00, 0xfc00], 0x7e00),
        (Datatype::Bf16, Operation::Sum, &[0xffff, 0x3f80], 0x7fc0),
        // Min and max keep it, the left one; −0 is less than +0.
        (Datatype::F32, Operation::Min, &[0x3f80_0000, 0xff80_0001, 0x7fc0_0002], 0xff80_0001),
        (Datatype::F32, Operation::Min, &[0, 0x8000_0000], 0x8000_0000),
        (Datatype::F16, Operation::Max, &[0x8000, 0], 0),
        // Denormals are numbers.
        (Datatype::F32, Operation::Sum, &[1, 2], 3),
        (Datatype::F16, Operation::Avg, &[1, 2], 2),
        // 65504 + 32 is above the middle between it and 65536.
        (Datatype::F16, Operation::Sum, &[0x7bff, 0x5000], 0x7c00),
        // 256 + 1 is rounded to the even 256 in each step.
        (Datatype::Bf16, Operation::Sum, &[0x4380, 0x3f80, 0x3f80], 0x4380),
        // 100 + 100 wraps to −56, half of which is −28.
        (Datatype::I8, Operation::Avg, &[100, 100], 0xe4),
        (Datatype::I64, Operation::Avg, &[1 << 63, 1], 0xc000_0000_0000_0001),
    ];
    for (datatype, operation, numbers, result) in cases {
        let of_ranks = numbers.iter().map(|&bits| bytes_of(datatype, [bits; 3])).collect();
        let numbers = Numbers::new(datatype, operation, of_ranks);
        let got = shim.reduce(&numbers, Launch::new(LaneOrder::Fifo, 1));
        assert_eq!(got, bytes_of(datatype, [result; 3]), "{operation} of {datatype}");
        assert_eq!(got, numbers.expected());
    }
}
