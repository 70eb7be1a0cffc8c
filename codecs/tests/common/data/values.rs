//! Values of an element: what programs keep in tensors, and what a codec of values may trip over.

use super::super::Random;
use super::floats::{self, bits};
use mgcomp_codecs::Element;

/// Makes so many values of an element, of which its low bits count.
pub(crate) type ValueFill = fn(&mut Random, Element, usize) -> Vec<u64>;

pub(crate) const VALUE_KINDS: [(&str, ValueFill); 33] = [
    ("weights", |random, element, count| collect(count, |_| bits(element, 0.03 * random.normal()))),
    ("gradients of growing layers", |random, element, count| {
        collect(count, |i| bits(element, random.normal() * 2f64.powi(-((i / 700) as i32 % 12))))
    }),
    ("relu map", |random, element, count| {
        collect(count, |_| bits(element, (random.normal() - 0.3).max(0.0)))
    }),
    ("gelu map", |random, element, count| collect(count, |_| bits(element, floats::gelu(random.normal())))),
    ("squares", |random, element, count| collect(count, |_| bits(element, (1e-2 * random.normal()).powi(2)))),
    ("masked gradient in runs", |random, element, count| {
        let mut kept = false;
        collect(count, |i| {
            kept = if i % 37 == 0 { random.below(9) == 0 } else { kept };
            bits(element, if kept { random.normal() } else { 0.0 })
        })
    }),
    ("any exponent", |random, element, count| collect(count, |_| floats::any_exponent(random, element))),
    ("one exponent", |random, element, count| collect(count, |_| bits(element, 1.0 + random.unit()))),
    ("exponents of powers", |random, element, count| {
        collect(count, |_| bits(element, 2f64.powi(random.below(11) as i32 - 5) * (1.0 + random.unit())))
    }),
    ("both zeros", |random, element, count| {
        collect(count, |_| bits(element, [0.0, -0.0, 1.5][random.below(3)]))
    }),
    ("specials", |random, element, count| collect(count, |_| floats::special(random, element))),
    ("specials among weights", |random, element, count| {
        collect(count, |_| match random.below(60) {
            0 => floats::special(random, element),
            _ => bits(element, random.normal()),
        })
    }),
    ("denormals", |random, _, count| collect(count, |_| random.below(100) as u64)),
    ("one-hot rows", |random, element, count| {
        let (row, mut hot) = (40 + random.below(400), 0);
        collect(count, |i| {
            hot = if i % row == 0 { random.below(row) } else { hot };
            bits(element, if i % row == hot { 1.0 } else { 0.0 })
        })
    }),
    ("one value, rarely", |random, element, count| {
        let value = bits(element, random.normal());
        collect(count, |_| if random.below(300) == 0 { value } else { 0 })
    }),
    ("few values, rarely", |random, element, count| {
        collect(count, |_| if random.below(90) == 0 { bits(element, random.normal()) } else { 0 })
    }),
    ("counts", |random, element, count| {
        collect(count, |_| bits(element, [0, 0, 0, 0, 1, 1, 2, 5][random.below(8)].into()))
    }),
    ("constant", |random, element, count| {
        let value = bits(element, random.normal());
        vec![value; count]
    }),
    ("constant and an outlier", |random, _, count| {
        let (value, outlier) = (random.next(), random.below(count + 1));
        collect(count, |i| if i == outlier { random.next() } else { value })
    }),
    ("smooth field", |_, element, count| collect(count, |i| bits(element, (i as f64 * 0.01).sin() + 2.0))),
    ("walk", |random, _, count| {
        let mut at = random.next();
        collect(count, |_| {
            at = at.wrapping_add(random.below(64) as u64).wrapping_sub(31);
            at
        })
    }),
    ("walk around the ends of the range", |random, _, count| {
        let end = [0, 1 << 7, 1 << 15, 1 << 31, 1 << 63][random.below(5)];
        collect(count, |_| (random.below(16) as u64).wrapping_add(end).wrapping_sub(8))
    }),
    ("row pointers", |random, _, count| {
        let mut at = 0;
        collect(count, |_| {
            at += random.below(12) as u64;
            at
        })
    }),
    ("neighbours, row by row", |random, _, count| {
        let mut at = 0;
        collect(count, |_| {
            at = if random.below(10) == 0 { random.below(50) as u64 } else { at + random.below(300) as u64 };
            at
        })
    }),
    ("sorted keys of 40 bits", |random, _, count| {
        let mut at = 0;
        collect(count, |_| {
            at = (at + random.below(1 << 20) as u64) & 0xff_ffff_ffff;
            at
        })
    }),
    ("token ids", |random, _, count| collect(count, |_| random.below(30_522) as u64)),
    ("pointers", |random, _, count| collect(count, |_| 0x7f32_1000_0000 + 64 * random.below(10_000) as u64)),
    ("rows that repeat", |random, _, count| {
        let row = [1, 2, 3, 4, 8, 16, 64][random.below(7)];
        let first: Vec<u64> = (0..row).map(|_| random.next()).collect();
        collect(count, |i| first[i % row].wrapping_add(random.below(3) as u64))
    }),
    ("counting down", |random, _, count| {
        let (start, step) = (random.next(), 1 + random.below(5) as u64);
        collect(count, |i| start.wrapping_sub(i as u64 * step))
    }),
    ("blocks of every width", |random, _, count| {
        let block = [16, 31, 32, 64, 128, 256][random.below(6)];
        collect(count, |i| random.next() & low_bits((i / block % 65) as u32))
    }),
    ("narrow with wide outliers", |random, _, count| {
        let (narrow, rare) = (random.below(20) as u32, 2 + random.below(150));
        collect(
            count,
            |_| if random.below(rare) == 0 { random.next() } else { random.next() & low_bits(narrow) },
        )
    }),
    ("rows with invariant bits", |random, _, count| {
        let (mask, value) = (random.next() & random.next(), random.next());
        collect(count, |_| match random.below(10) {
            0 => random.next(),
            _ => value & !mask | random.next() & mask,
        })
    }),
    ("another kind in the middle", |random, element, count| {
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            let kind = VALUE_KINDS[random.below(VALUE_KINDS.len() - 1)].1;
            let part = (1 + random.below(count)).min(count - values.len());
            values.extend(kind(random, element, part));
        }
        values
    }),
];

fn collect(count: usize, value: impl FnMut(usize) -> u64) -> Vec<u64> {
    (0..count).map(value).collect()
}

/// A mask of the low `count` bits, at most 64.
fn low_bits(count: u32) -> u64 {
    u64::MAX.checked_shr(64 - count).unwrap_or(0)
}
