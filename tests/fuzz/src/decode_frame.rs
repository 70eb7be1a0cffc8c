//! Any bytes as a frame.

use crate::common::back_ends::Places;
use crate::common::fence::{Fenced, Place};
use crate::common::hex;
use crate::input::{Sample, samples, with_back_ends};
use crate::round_trip::{small_options, workers};
use mgcomp_codecs::frame::{self, Frame};
use std::cell::RefCell;

/// No more raw bytes than this are asked for.
const MAX_RAW_LEN: u64 = 1 << 20;
/// A longer frame is nothing that libFuzzer makes.
const MAX_FRAME_LEN: usize = 1 << 20;

/// The input is the frame.
///
/// # Panics
/// If threads or instruction sets disagree about it, or a chunk's bytes are written elsewhere.
pub fn run(input: &[u8]) {
    thread_local!(static FRAME: RefCell<Fenced> = RefCell::new(Fenced::new(MAX_FRAME_LEN)));
    if input.len() <= MAX_FRAME_LEN {
        FRAME.with_borrow_mut(|fenced| decode(fenced.hold(Place::End, input)));
    }
}

fn decode(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(bytes) else { return };
    let header = frame.header();
    let decoded = frame.decode_to_vec(MAX_RAW_LEN);
    if header.raw_len > MAX_RAW_LEN {
        assert!(decoded.is_err(), "{} raw bytes, more than asked for", header.raw_len);
        return;
    }
    for workers in workers() {
        let mut raw = vec![0xc9; header.raw_len as usize];
        let result = workers.decode_into(&frame, &mut raw).map(|()| raw);
        assert!(result == decoded, "{} threads: {:?}", workers.threads(), result.err());
    }
    for chunk in frame.chunks().filter(|chunk| !chunk.is_raw()) {
        with_back_ends(|back_ends| {
            let (algorithm, element) = (header.algorithm, header.element);
            let result =
                back_ends.decode(algorithm, element, chunk.stored, chunk.raw_len, Places::END, "chunk");
            assert!(result.is_ok() || decoded.is_err(), "chunk {}: {}", chunk.index, hex(chunk.stored));
        });
    }
}

/// A frame of every algorithm for every kind of data, with and without checksums.
///
/// # Panics
/// Never: the data is far from too long for a frame.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |sample: Sample| {
        let options = small_options(sample.raw.len().is_multiple_of(2));
        frame::encode(sample.codec, sample.element, &sample.raw, options).expect("short enough")
    };
    samples(1500).map(seed).collect()
}
