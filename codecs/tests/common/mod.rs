//! What the test files share: chunk calls without buffers, seeded random numbers, kinds of data.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

pub(crate) mod back_ends;
pub(crate) mod damage;
pub(crate) mod data;
pub(crate) mod fence;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod float_environment;
mod random;
pub(crate) mod reference;

pub(crate) use random::Random;

use mgcomp_codecs::line::Line;
use mgcomp_codecs::{Algorithm, ChunkError, Codec, Cpu, Element, Isa, codec, codecs_on};

pub(crate) const LINE_ALGORITHMS: [Algorithm; 3] = [Algorithm::Bdi, Algorithm::Fpc, Algorithm::CpackZ];

/// One element of each width: 1, 2, 4 and 8 bytes.
pub(crate) const ELEMENTS: [Element; 4] = [Element::U8, Element::F16, Element::F32, Element::U64];

pub(crate) fn codec_of(algorithm: Algorithm) -> &'static dyn Codec {
    codec(algorithm).unwrap_or_else(|| panic!("no codec for {algorithm}"))
}

/// Every codec on every instruction set of this machine.
pub(crate) fn all_codecs() -> impl Iterator<Item = (Isa, &'static dyn Codec)> {
    Cpu::available().flat_map(|cpu| codecs_on(cpu).map(move |codec| (cpu.isa(), codec)))
}

/// The codec of `algorithm` on every instruction set of this machine, portable code first.
pub(crate) fn codecs_of(algorithm: Algorithm) -> impl Iterator<Item = &'static dyn Codec> {
    all_codecs().map(|(_, codec)| codec).filter(move |codec| codec.algorithm() == algorithm)
}

/// The code of one chunk, written over `dirt`: a codec must not rely on what its buffer held.
pub(crate) fn encode_chunk_over(dirt: u8, codec: &dyn Codec, element: Element, raw: &[u8]) -> Vec<u8> {
    let mut coded = vec![dirt; codec.max_chunk_len(element, raw.len())];
    let len = codec.encode_chunk(element, raw, &mut coded);
    coded.truncate(len);
    coded
}

pub(crate) fn encode_chunk(codec: &dyn Codec, element: Element, raw: &[u8]) -> Vec<u8> {
    encode_chunk_over(0xa5, codec, element, raw)
}

/// Decodes into a buffer that held something else before.
pub(crate) fn decode_chunk(
    codec: &dyn Codec,
    element: Element,
    coded: &[u8],
    raw_len: usize,
) -> Result<Vec<u8>, ChunkError> {
    let mut raw = vec![0xee; raw_len];
    codec.decode_chunk(element, coded, &mut raw).map(|()| raw)
}

/// Checks that `raw` is stored as exactly `stored`, and that `stored` decodes to `raw`.
#[track_caller]
pub(crate) fn assert_chunk(algorithm: Algorithm, element: Element, raw: &[u8], stored: &[u8]) {
    let codec = codec_of(algorithm);
    assert_eq!(hex(&encode_chunk(codec, element, raw)), hex(stored), "stored bytes");
    assert_eq!(decode_chunk(codec, element, stored, raw.len()).as_deref(), Ok(raw), "decoded bytes");
}

/// The line of these words, the rest zero.
pub(crate) fn line_of(front: &[u32]) -> Line {
    let mut words = [0; 16];
    words[..front.len()].copy_from_slice(front);
    mgcomp_codecs::line::from_words(&words)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}
