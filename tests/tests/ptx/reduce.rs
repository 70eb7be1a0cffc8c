//! Numbers of ranks.

use mgcomp_codecs::device::KernelSource;
use mgcomp_codecs::reduction::{Datatype, Operation};
use mgcomp_tests::ptx::{Order, Reducer};
use mgcomp_tests::shim::numbers::{Numbers, bytes_of, special_bits};

/// Each special number with each, so many numbers of them, and what comes of these with a third.
fn special(datatype: Datatype, operation: Operation, count: usize) -> Numbers {
    let special = special_bits(datatype);
    let all = || special.iter().copied();
    let left = all().flat_map(|bits| all().map(move |_| bits));
    let of_rank = |skip: usize| {
        let right = all().cycle().skip(skip);
        bytes_of(datatype, right.take(count))
    };
    let left = bytes_of(datatype, left.cycle().take(count));
    Numbers::new(datatype, operation, vec![left, of_rank(0), of_rank(7)])
}

#[test]
fn numbers_are_those_of_portable_code() {
    let reducer = Reducer::shipped().unwrap();
    for (n, datatype) in Datatype::ALL.into_iter().enumerate() {
        let width = datatype.width_bytes();
        for (k, operation) in Operation::ALL.into_iter().enumerate() {
            // All pairs, and from places of all kinds; the result does not lie on a multiple of the width in the last case.
            let pairs = special_bits(datatype).len().pow(2) + n;
            for (p, offsets) in
                [[0, 0, 0], [width % 16, 1, (16 - width) % 16], [3, 9, 8], [5, 0, 1]].into_iter().enumerate()
            {
                let count = [pairs, 40, 3 + k, 25][p];
                let own = (p > 0).then_some((n + k + p) % 3);
                let in_place = p == 2;
                let gap = [0, 3, 16, 1][p];
                let numbers = Numbers { own, in_place, offsets, gap, ..special(datatype, operation, count) };
                let order = if p % 2 == 0 { Order::InTurn } else { Order::OneByOne };
                let (got, _) = reducer
                    .reduce(&numbers, 1 + p as u32 % 2, order)
                    .unwrap_or_else(|fault| panic!("{operation} of {datatype}, {offsets:?}: {fault}"));
                assert!(got == numbers.expected(), "{operation} of {datatype}, {offsets:?}");
            }
        }
    }
}

/// Each byte comes from memory once, and none is written twice: aligned ones by 16 at a time.
#[test]
fn traffic_is_what_there_is() {
    let reducer = Reducer::shipped().unwrap();
    let numbers = special(Datatype::F32, Operation::Sum, 3 * 4096);
    let (_, counts) = reducer.reduce(&numbers, 2, Order::InTurn).unwrap();
    let len = numbers.len() as u64;
    assert_eq!((counts.loads.bytes, counts.stores.bytes), (3 * len, len));
    let sectors = |bytes: u64| bytes / mgcomp_tests::ptx::SECTOR_LEN;
    assert_eq!((counts.loads.sectors, counts.stores.sectors), (sectors(3 * len), sectors(len)));
}

#[test]
fn a_wrong_instruction_shows() {
    let text = KernelSource::of_reductions().shipped_ptx().expect("PTX");
    let numbers = special(Datatype::F32, Operation::Sum, 100);
    let reduce =
        |text: &str| Reducer::of(text).expect("a program").reduce(&numbers, 1, Order::InTurn).unwrap().0;
    assert_eq!(reduce(&text), numbers.expected());
    assert_ne!(reduce(&text.replace("add.rn.f32", "mul.rn.f32")), numbers.expected());
    // What is no number comes out as devices make it.
    let canonical = format!("{}", 0x7fc0_0000);
    assert!(text.contains(&canonical));
    assert_ne!(reduce(&text.replace(&canonical, "2147483647")), numbers.expected());
}
