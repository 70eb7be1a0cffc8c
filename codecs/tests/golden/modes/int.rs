//! INT.

use super::{Chunk, Modes};

pub(crate) fn expected() -> impl Iterator<Item = String> {
    let widths = [1, 2, 4, 8];
    let patches = widths
        .into_iter()
        .flat_map(|width| (1..=width).map(move |k| format!("width {width}, patches of {k}")));
    let planes = ["no plane", "some planes", "all planes"];
    let planes =
        widths.into_iter().flat_map(move |width| planes.map(|name| format!("width {width}, {name}")));
    let tails = widths.into_iter().skip(1).map(|width| format!("width {width}, tail"));
    let rest = [
        "identity",
        "zigzag",
        "reversed",
        "no lag",
        "one lag",
        "two lags",
        "no rotation",
        "rotation",
        "no low bits",
        "low bits",
        "base",
        "a short chunk",
        "a short block",
        "an odd half byte",
    ];
    patches.chain(planes).chain(tails).chain(rest.map(str::to_owned))
}

pub(crate) fn int(chunk: Chunk<'_>, modes: &mut Modes) {
    let mut add = |name: &str| modes.insert(name.to_owned());
    let (coded, width) = (chunk.coded, chunk.width);
    let (words, bits) = (chunk.raw_len / width, 8 * width);
    add(["identity", "zigzag", "reversed"][coded.u8(0)]);
    add(if coded.u8(1) == 0 { "no rotation" } else { "rotation" });
    add(if coded.u8(2) == 0 { "no low bits" } else { "low bits" });
    let lags = [4, 6].map(|at| usize::from(coded.number(at, 2) != 0));
    add(["no lag", "one lag", "two lags"][lags[0] + lags[1]]);
    if coded.number(8, width) != 0 {
        add("base");
    }
    if chunk.raw_len < 512 {
        add("a short chunk");
    }
    if !words.is_multiple_of(32) {
        add("a short block");
    }
    let blocks = words.div_ceil(32);
    if width == 1 && blocks % 2 == 1 {
        add("an odd half byte");
    }
    if !chunk.raw_len.is_multiple_of(width) {
        add(&format!("width {width}, tail"));
    }
    for block in 0..blocks {
        let at = 8 + width;
        let code = if width == 1 { coded.bits(8 * at + 4 * block, 4) } else { coded.u8(at + block) };
        add(&match code {
            0 => format!("width {width}, no plane"),
            code if code < bits => format!("width {width}, some planes"),
            code if code == bits => format!("width {width}, all planes"),
            code => format!("width {width}, patches of {}", code - bits),
        });
    }
}
