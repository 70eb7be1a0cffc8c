//! See `src/decode_chunk.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mgcomp_fuzz::decode_chunk::run(input));
