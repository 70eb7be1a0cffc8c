//! Any bytes as a frame.

use crate::common::fence::{Fenced, Place};
use crate::input::{Sample, samples};
use crate::round_trip::{small_options, workers};
use mgcomp_codecs::Cpu;
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
    for cpu in Cpu::available() {
        let frame = frame.clone().on(cpu);
        with_output(|output| {
            let raw = output.place(Place::End, header.raw_len as usize, 0x9c);
            let result = frame.decode_into(raw).map(|()| raw.to_vec());
            assert_eq!(output.harm(), None, "{}: written before the raw bytes", cpu.isa());
            assert!(result == decoded, "{}: {:?}", cpu.isa(), result.err());
        });
    }
}

fn with_output<T>(work: impl FnOnce(&mut Fenced) -> T) -> T {
    thread_local!(static OUTPUT: RefCell<Fenced> = RefCell::new(Fenced::new(MAX_RAW_LEN as usize)));
    OUTPUT.with_borrow_mut(work)
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
