//! Fuzz targets over frames and codecs: each a function of any bytes that panics where something is wrong.
//!
//! `tests/fuzz/run` links them with libFuzzer, one program per target. What it finds is stored in
//! `tests/fuzz/finds/<target>/` and replayed by an ordinary test, which needs no libFuzzer.
//!
//! | target | the bytes are | what has to hold |
//! |---|---|---|
//! | [`decode_frame`] | a frame | an error or the raw bytes, the same for every number of threads and instruction set |
//! | [`decode_chunk`] | a code of any algorithm | every instruction set gives portable code's verdict and bytes |
//! | [`encode_chunk`] | raw bytes of one chunk | every instruction set writes portable code's bytes, and they decode |
//! | [`round_trip`] | raw bytes of a frame | what goes in comes out, in no more bytes than promised, from any number of threads |
//! | [`estimate`] | raw bytes of a frame | the exact length is that of the frame, the sampled one is possible |
//! | [`codebook`] | a codebook, or tensors and codes | what is read is written again; every instruction set packs and unpacks alike |
//! | [`zcomp`] | vectors, or what was stored of them | every instruction set stores and loads alike, in the least room |

// The buffers between forbidden pages, the comparison of back-ends and the kinds of data are those of the
// codecs' own tests.
#[path = "../../../codecs/tests/common/mod.rs"]
mod common;

pub mod codebook;
pub mod decode_chunk;
pub mod decode_frame;
pub mod encode_chunk;
pub mod estimate;
mod input;
pub mod round_trip;
pub mod zcomp;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its module, its program and its folder of finds.
    pub name: &'static str,
    /// Takes any bytes.
    ///
    /// # Panics
    /// If something is wrong; a step out of a buffer ends the process.
    pub run: fn(&[u8]),
    /// Inputs to start from, the same every time.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 7] = [
    Target { name: "decode_frame", run: decode_frame::run, seeds: decode_frame::seeds },
    Target { name: "decode_chunk", run: decode_chunk::run, seeds: decode_chunk::seeds },
    Target { name: "encode_chunk", run: encode_chunk::run, seeds: encode_chunk::seeds },
    Target { name: "round_trip", run: round_trip::run, seeds: round_trip::seeds },
    Target { name: "estimate", run: estimate::run, seeds: estimate::seeds },
    Target { name: "codebook", run: codebook::run, seeds: codebook::seeds },
    Target { name: "zcomp", run: zcomp::run, seeds: zcomp::seeds },
];

/// A changed copy of `input`, for fuzzing without libFuzzer.
#[must_use]
pub fn mutate(input: &[u8], seed: u64) -> Vec<u8> {
    let random = &mut common::Random(seed);
    let kinds = common::damage::KINDS_OF_CHUNK_DAMAGE;
    let changes = 1 + random.below(3);
    (0..changes).fold(input.to_vec(), |bytes, _| {
        if bytes.is_empty() {
            return bytes;
        }
        let kind = kinds[random.below(kinds.len())];
        common::damage::damage_chunk(random, &bytes, kind)
    })
}
