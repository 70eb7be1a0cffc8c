//! XP.

use super::{Chunk, ELEMENTS, Modes};

/// Bits of an element, of them the rest's if unsigned.
const BITS: [(usize, usize); 10] =
    [(8, 4), (16, 8), (32, 24), (64, 53), (16, 11), (16, 8), (32, 24), (64, 53), (8, 4), (8, 3)];

pub(crate) fn expected() -> impl Iterator<Item = String> {
    let masks = ["zero mask", "change mask"];
    let depths =
        masks.into_iter().flat_map(|mask| (0..4).map(move |depth| format!("{mask} of depth {depth}")));
    let signs = ["unsigned", "signed"];
    // One element for each way to cut.
    let cut = ["u8", "f8e5m2", "f16", "bf16", "f32", "f64"];
    let signs = cut.into_iter().flat_map(move |element| signs.map(|sign| format!("{sign} {element}")));
    let rest =
        ["no mask", "both masks", "narrow", "wide", "no values left", "a whole group", "a group that is cut"];
    let tiers = ["narrow", "wide"]
        .into_iter()
        .flat_map(|form| (2..5).map(move |tier| format!("{form}, tier {tier}")));
    let others = ["tail".to_owned()];
    depths.chain(signs).chain(rest.map(str::to_owned)).chain(tiers).chain(others)
}

/// The element by which a cut is known.
fn cut(element: usize) -> &'static str {
    match ELEMENTS[element] {
        "u8" | "f8e4m3" => "u8",
        "u16" | "bf16" => "bf16",
        "u32" | "f32" => "f32",
        "u64" | "f64" => "f64",
        other => other,
    }
}

pub(crate) fn xp(chunk: Chunk<'_>, modes: &mut Modes) {
    let mut add = |name: &str| modes.insert(name.to_owned());
    let (flags, depths) = (chunk.coded.u8(0), chunk.coded.u8(1));
    let (signed, wide) = (flags & 1, flags >> 1 & 1);
    add(&format!("{} {}", ["unsigned", "signed"][signed], cut(chunk.element)));
    let form = ["narrow", "wide"][wide];
    if !chunk.raw_len.is_multiple_of(chunk.width) {
        add("tail");
    }
    if let Some(name) = [Some("no mask"), None, None, Some("both masks")][flags >> 2] {
        add(name);
    }
    let mut values = chunk.raw_len / chunk.width;
    let mut at = 2;
    for (mask, name) in ["zero mask", "change mask"].into_iter().enumerate() {
        if flags >> (2 + mask) & 1 == 1 {
            let depth = depths >> (4 * mask) & 3;
            add(&format!("{name} of depth {depth}"));
            (values, at) = read_mask(chunk, at, values, depth);
        }
    }
    if values == 0 {
        add("no values left");
        return;
    }
    add(form);
    add(if values.is_multiple_of(64) { "a whole group" } else { "a group that is cut" });
    let (bits, rest) = BITS[chunk.element];
    let rest = rest - signed;
    let table_len = [13, 17][wide] * if bits - rest > 8 { 2 } else { 1 };
    at = (at + table_len).next_multiple_of(8);
    let (mut escapes, mut at) = read_codes(chunk, at, values, 2);
    at += values * (rest / 8) + planes_len(values, rest % 8);
    for (tier, code_bits) in [(2, 2 + wide), (3, 3)] {
        if escapes > 0 {
            modes.insert(format!("{form}, tier {tier}"));
        }
        (escapes, at) = read_codes(chunk, at, escapes, code_bits);
    }
    if escapes > 0 {
        modes.insert(format!("{form}, tier 4"));
    }
}

/// A mask of `len` bits at byte `at`: how many are set, and where it ends.
fn read_mask(chunk: Chunk<'_>, at: usize, len: usize, depth: usize) -> (usize, usize) {
    let mut bytes = len.div_ceil(8);
    let mut at = at;
    if depth > 0 {
        (bytes, at) = read_mask(chunk, at, bytes, depth - 1);
    }
    (chunk.coded.slice(at, bytes).ones(), at + bytes)
}

/// A tier of `count` codes at byte `at`: how many are escapes, and where it ends.
fn read_codes(chunk: Chunk<'_>, at: usize, count: usize, bits: usize) -> (usize, usize) {
    let mut escapes = 0;
    for i in 0..count {
        let group = i / 64;
        let plane_len = (count - 64 * group).min(64).div_ceil(8);
        let start = at + group * 8 * bits;
        let code =
            (0..bits).map(|b| chunk.coded.bit(8 * (start + b * plane_len) + i % 64) << b).sum::<usize>();
        escapes += usize::from(code == (1 << bits) - 1);
    }
    (escapes, at + planes_len(count, bits))
}

/// Bytes of `bits` planes of `count` numbers.
fn planes_len(count: usize, bits: usize) -> usize {
    (count / 64 * 8 + (count % 64).div_ceil(8)) * bits
}
