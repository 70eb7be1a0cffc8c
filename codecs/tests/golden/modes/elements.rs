//! The codecs of elements and of granules, and DEFLATE.

use super::{Chunk, Modes};

const WIDTHS: [usize; 4] = [1, 2, 4, 8];

/// Each of `names` for each width.
fn of_widths(names: &'static [&str]) -> impl Iterator<Item = String> {
    WIDTHS.into_iter().flat_map(|width| names.iter().map(move |name| format!("{name}, width {width}")))
}

/// Tails, which elements of one byte do not leave.
fn tails() -> impl Iterator<Item = String> {
    WIDTHS.into_iter().skip(1).map(|width| format!("tail, width {width}"))
}

pub(crate) fn expected_zvc() -> impl Iterator<Item = String> {
    of_widths(&["zero", "stored", "padding", "no padding", "unused bits"]).chain(tails())
}

pub(crate) fn zvc(chunk: Chunk<'_>, modes: &mut Modes) {
    let width = chunk.width;
    let mut add = |name: &str| modes.insert(format!("{name}, width {width}"));
    let elements = chunk.raw_len / width;
    for i in 0..elements {
        add(["zero", "stored"][chunk.coded.bit(i)]);
    }
    add(["no padding", "padding"][elements.div_ceil(32) % 2]);
    if !elements.is_multiple_of(32) {
        add("unused bits");
    }
    if !chunk.raw_len.is_multiple_of(width) {
        add("tail");
    }
}

pub(crate) fn expected_rle() -> impl Iterator<Item = String> {
    of_widths(&["zeros", "literals", "longest zeros", "longest literals"]).chain(tails())
}

pub(crate) fn rle(chunk: Chunk<'_>, modes: &mut Modes) {
    let width = chunk.width;
    let mut add = |name: &str| modes.insert(format!("{name}, width {width}"));
    for i in 0..chunk.coded.number(0, 4) as usize {
        let control = chunk.coded.u8(4 + i);
        add(["zeros", "literals"][control >> 7]);
        if control & 127 == 127 {
            add(["longest zeros", "longest literals"][control >> 7]);
        }
    }
    if !chunk.raw_len.is_multiple_of(width) {
        add("tail");
    }
}

/// The first block of each chunk.
pub(crate) fn deflate(chunk: Chunk<'_>, modes: &mut Modes) {
    let kind = chunk.coded.bits(17, 2);
    modes.insert(["stored block", "fixed codes", "dynamic codes"][kind].to_owned());
}

pub(crate) fn ibp(chunk: Chunk<'_>, modes: &mut Modes) {
    let body = chunk.codebook;
    let (granule, clusters) = (body.u8(1), body.number(2, 2));
    let tensor_len = body.number(4, 4) as usize;
    modes.insert(format!("granules of {granule}"));
    let granules = chunk.raw_len / granule;
    let end = chunk.offset + granules * granule;
    let mut at = 0;
    if clusters == 1 {
        modes.insert("one cluster".to_owned());
    } else {
        let tensors = end.div_ceil(tensor_len) - chunk.offset / tensor_len;
        modes.extend((0..tensors).map(|tensor| format!("cluster {}", chunk.coded.u8(tensor))));
        at = tensors;
    }
    if !chunk.offset.is_multiple_of(tensor_len) {
        modes.insert("tensor that is cut".to_owned());
    }
    for i in 0..granules {
        modes.insert(["stays out", "participates"][chunk.coded.bit(8 * at + i)].to_owned());
    }
    if !chunk.raw_len.is_multiple_of(granule) {
        modes.insert("tail".to_owned());
    }
}
