//! The codec with AVX2.
//!
//! Planes are gathered by sign bits, eight for each byte of a word that is in use, and turned back by three swaps
//! of bits for each eight. Patches go one by one: they are few.

// Functions with target features are unsafe to call where the compiler cannot see the features.
#![allow(unsafe_code)]

mod decode;
mod encode;
mod patches;
mod plan;
mod planes;
mod residuals;
mod sums;
mod transform;
mod vector;

use super::layout::Sections;
use crate::cpu::Avx2;

pub(super) fn encode<const B: usize>(cpu: Avx2, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode::encode::<B>(cpu, raw, coded) }
}

pub(super) fn len<const B: usize>(cpu: Avx2, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { encode::len::<B>(cpu, raw) }
}

pub(super) fn decode<const B: usize>(_: Avx2, sections: &Sections<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode::decode::<B>(sections, raw) }
}
