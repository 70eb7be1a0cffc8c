//! See `src/codebook.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mgcomp_fuzz::codebook::run(input));
