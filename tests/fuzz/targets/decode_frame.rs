//! See `src/decode_frame.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mgcomp_fuzz::decode_frame::run(input));
