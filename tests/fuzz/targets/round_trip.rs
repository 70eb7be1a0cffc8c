//! See `src/round_trip.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mgcomp_fuzz::round_trip::run(input));
