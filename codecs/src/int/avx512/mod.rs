//! The codec with AVX-512.
//!
//! Planes come from byte permutes and multiplications of 8 by 8 bits in a number of instructions that does not
//! depend on the data; patches are compressed and expanded by bytes.

// Functions with target features are unsafe to call where the compiler cannot see the features.
#![allow(unsafe_code)]

mod decode;
mod encode;
mod forms;
mod patches;
mod plan;
mod planes;
mod residuals;
mod sums;
mod tile;
mod transform;
mod vector;

use super::layout::Sections;
use crate::cpu::Avx512;

pub(super) fn encode<const B: usize>(cpu: Avx512, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode::encode::<B>(cpu, raw, coded) }
}

pub(super) fn len<const B: usize>(cpu: Avx512, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { encode::len::<B>(cpu, raw) }
}

pub(super) fn decode<const B: usize>(_: Avx512, sections: &Sections<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode::decode::<B>(sections, raw) }
}
