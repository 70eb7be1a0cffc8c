//! What a frame shows of the format, read by code that has nothing of the library: what FORMAT.md says, once more.
//!
//! Left out is what no encoder writes into a frame: chunks of XP with mode `80 00`, which are stored raw instead, INT with
//! lag *b* alone, and what the section "What a decoder must reject" lists as costlier than need be.

mod bits;
mod elements;
mod int;
mod lines;
mod xp;

use std::collections::BTreeSet;

pub(crate) use bits::Bytes;

/// Names of modes.
pub(crate) type Modes = BTreeSet<String>;

const ALGORITHMS: [&str; 11] =
    ["none", "bdi", "fpc", "cpackz", "zvc", "rle", "deflate", "bpc", "ibp", "xp", "int"];
const ELEMENTS: [&str; 10] = ["u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"];
const WIDTHS: [usize; 10] = [1, 2, 4, 8, 2, 2, 4, 8, 1, 1];

/// A coded chunk.
#[derive(Clone, Copy)]
pub(crate) struct Chunk<'a> {
    pub(crate) coded: Bytes<'a>,
    pub(crate) raw_len: usize,
    /// The element's number, and its width in bytes.
    pub(crate) element: usize,
    pub(crate) width: usize,
    /// Where it starts in the raw bytes.
    pub(crate) offset: usize,
    /// The body of the frame's codebook.
    pub(crate) codebook: Bytes<'a>,
}

/// The algorithm of a frame and its modes. `named` is the section of the codebook that it names.
pub(crate) fn of<'a>(frame: &'a [u8], named: Option<&'a [u8]>) -> (&'static str, Modes) {
    let bytes = Bytes(frame);
    let mut modes = Modes::new();
    let (algorithm, element, flags) = (bytes.u8(3), bytes.u8(4), bytes.u8(5));
    let (chunk_len, raw_len) = (1 << bytes.u8(6), bytes.number(8, 8) as usize);
    modes.insert(format!("chunks of {} KiB", chunk_len >> 10));
    modes.insert(ELEMENTS[element].to_owned());
    modes.insert(if flags & 1 != 0 { "checksums" } else { "no checksums" }.to_owned());
    let chunks = raw_len.div_ceil(chunk_len);
    modes.insert(["no chunk", "one chunk", "many chunks"][chunks.min(2)].to_owned());
    if chunks > 1 {
        modes.insert(
            if raw_len % chunk_len == 0 { "whole last chunk" } else { "short last chunk" }.to_owned(),
        );
    }
    let entry_len = if flags & 1 != 0 { 8 } else { 4 };
    let mut start = 16 + (chunks * entry_len).next_multiple_of(16);
    let mut codebook = Bytes(&[]);
    if flags & 2 != 0 {
        let body_len = bytes.number(start + 8, 8) as usize;
        modes.insert(if body_len == 0 { "codebook named" } else { "codebook carried" }.to_owned());
        codebook = if body_len == 0 {
            Bytes(&named.expect("the codebook that is named")[16..])
        } else {
            bytes.slice(start + 16, body_len)
        };
        start += 16 + body_len.next_multiple_of(16);
    }
    let first = start;
    for index in 0..chunks {
        let end = first + 16 * bytes.number(16 + index * entry_len, 4) as usize;
        let len = chunk_len.min(raw_len - index * chunk_len);
        if (end - start).div_ceil(16) == len.div_ceil(16) {
            modes.insert("raw chunk".to_owned());
        } else {
            modes.insert("coded chunk".to_owned());
            let (coded, offset) = (bytes.slice(start, end - start), index * chunk_len);
            let chunk = Chunk { coded, raw_len: len, element, width: WIDTHS[element], offset, codebook };
            read(algorithm, chunk, &mut modes);
        }
        start = end;
    }
    (ALGORITHMS[algorithm], modes)
}

fn read(algorithm: usize, chunk: Chunk<'_>, modes: &mut Modes) {
    match algorithm {
        1 => lines::bdi(chunk, modes),
        2 => lines::fpc(chunk, modes),
        3 => lines::cpackz(chunk, modes),
        4 => elements::zvc(chunk, modes),
        5 => elements::rle(chunk, modes),
        6 => elements::deflate(chunk, modes),
        7 => lines::bpc(chunk, modes),
        8 => elements::ibp(chunk, modes),
        9 => xp::xp(chunk, modes),
        10 => int::int(chunk, modes),
        _ => panic!("algorithm {algorithm}"),
    }
}

/// What the golden files must show, by algorithm.
pub(crate) fn expected() -> impl Iterator<Item = (&'static str, Modes)> {
    ALGORITHMS.into_iter().skip(1).map(|algorithm| {
        let mut modes = Modes::new();
        let mut add = |names: &[&str]| modes.extend(names.iter().map(|&name| name.to_owned()));
        add(&ELEMENTS);
        add(&["chunks of 4 KiB", "checksums", "no checksums", "one chunk", "many chunks"]);
        add(&["short last chunk", "raw chunk", "coded chunk"]);
        match algorithm {
            "bdi" => add(&[
                "form 0", "form 1", "form 2", "form 3", "form 4", "form 5", "form 6", "form 7", "form 8",
            ]),
            "fpc" => {
                add(&["zero line", "raw line", "coded line", "prefix 0", "prefix 1", "prefix 2", "prefix 3"]);
                add(&["prefix 4", "prefix 5", "prefix 6", "prefix 7"]);
            }
            "cpackz" => {
                add(&["zero line", "raw line", "coded line", "code 1", "code 2", "code 3"]);
                add(&["sub-code 0", "sub-code 1", "sub-code 2", "sub-code 3"]);
            }
            "zvc" => {
                // The frame itself, too.
                add(&["no chunk", "whole last chunk", "chunks of 8 KiB", "chunks of 16 KiB"]);
                add(&["chunks of 32 KiB", "chunks of 64 KiB"]);
                modes.extend(elements::expected_zvc());
            }
            "rle" => modes.extend(elements::expected_rle()),
            "deflate" => add(&["fixed codes", "dynamic codes"]),
            "bpc" => modes.extend(lines::expected_bpc()),
            "ibp" => {
                add(&["codebook carried", "codebook named", "granules of 4", "granules of 8", "one cluster"]);
                add(&["cluster 0", "cluster 1", "participates", "stays out", "tail", "tensor that is cut"]);
            }
            "xp" => modes.extend(xp::expected()),
            _ => modes.extend(int::expected()),
        }
        (algorithm, modes)
    })
}
