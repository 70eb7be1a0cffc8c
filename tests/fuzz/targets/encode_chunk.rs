//! See `src/encode_chunk.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mgcomp_fuzz::encode_chunk::run(input));
