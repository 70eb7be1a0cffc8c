//! XP with AVX2: small bit matrices are transposed to make planes and back, shuffles after controls from tables
//! or after computed ranks move escapes. No bit deposits or extracts, which some machines do bit by bit.

// The loops are unsafe functions over pointers: see `Vectors`.
#![allow(unsafe_code)]

mod cut;
mod join;
mod lanes;
mod levels;
mod masks;
mod planes;
mod rank;
mod read;
mod tiers;
mod write;

use super::column::planes_len;
use super::vector::cut::Rests;
use super::vector::{Ranked, Vectors};
use crate::Avx2;

// SAFETY: a token says that this machine has the instructions.
unsafe impl Vectors for Avx2 {
    unsafe fn leave_out<const B: u32, const REPEATS: bool>(
        self,
        values: *const u8,
        count: usize,
        bits: *mut u8,
        kept: *mut u8,
    ) -> usize {
        // SAFETY: the caller's promise, here and below.
        unsafe { masks::leave_out::<B, REPEATS>(values, count, bits, kept) }
    }

    unsafe fn put_zeros_back<const B: u32>(self, bits: *const u8, kept: *const u8, to: &mut [u8]) {
        // SAFETY: as above.
        unsafe { masks::put_zeros_back::<B>(bits, kept, to) }
    }

    unsafe fn put_repeats_back<const B: u32>(self, bits: *const u8, kept: *const u8, to: &mut [u8]) {
        // SAFETY: as above.
        unsafe { masks::put_repeats_back::<B>(bits, kept, to) }
    }

    unsafe fn raise_level(self, bytes: *const u8, blocks: usize, bits: *mut u8) -> usize {
        // SAFETY: as above.
        unsafe { levels::raise_level(bytes, blocks, bits) }
    }

    unsafe fn put_level(self, bits: *const u8, bytes: *const u8, blocks: usize, to: *mut u8) -> *mut u8 {
        // SAFETY: as above.
        unsafe { levels::put_level(bits, bytes, blocks, to) }
    }

    unsafe fn take_level(self, bits: *const u8, blocks: usize, stored: &[u8], to: *mut u8) -> usize {
        // SAFETY: as above.
        unsafe { levels::take_level(bits, blocks, stored, to) }
    }

    unsafe fn count_bits(self, bytes: *const u8, len: usize) -> usize {
        // SAFETY: as above.
        unsafe { levels::count_bits(bytes, len) }
    }

    fn rank(self, counts: &[u8]) -> Ranked {
        // SAFETY: as above.
        unsafe { rank::rank(counts) }
    }

    unsafe fn cut_values<const B: u32, const E: u32, const S: bool, const WRITE: bool>(
        self,
        values: *const u8,
        count: usize,
        tops: &[u16],
        escapes: *mut u8,
        to: *mut u8,
    ) -> usize {
        // SAFETY: as above.
        unsafe { write::cut_values::<B, E, S, WRITE>(values, count, tops, escapes, to) }
    }

    unsafe fn put_tier<const TOP: usize, const CODE: usize, const WRITE: bool>(
        self,
        symbols: *mut u8,
        count: usize,
        tops: &[u16],
        to: *mut u8,
    ) -> usize {
        // SAFETY: as above.
        unsafe { tiers::encode::<TOP, CODE, WRITE>(symbols, count, tops, to) }
    }

    unsafe fn put_symbols<const B: u32, const E: u32, const S: bool>(
        self,
        symbols: *const u8,
        count: usize,
        to: *mut u8,
    ) {
        // SAFETY: as above.
        unsafe { write::put_symbols::<B, E, S>(symbols, count, to) }
    }

    fn count_escapes<const CODE: usize>(self, column: &[u8], count: usize) -> usize {
        assert!(column.len() >= planes_len(count, CODE), "{count} codes in {} bytes", column.len());
        // SAFETY: as above.
        unsafe { read::count_escapes::<CODE>(column, count) }
    }

    unsafe fn take_symbols<const B: u32, const E: u32, const S: bool>(
        self,
        column: *const u8,
        count: usize,
        to: *mut u8,
    ) {
        // SAFETY: as above.
        unsafe { read::take_symbols::<B, E, S>(column, count, to) }
    }

    unsafe fn take_tier<const TOP: usize, const CODE: usize>(
        self,
        column: *const u8,
        count: usize,
        tops: &[u16],
        escaped: *const u8,
        to: *mut u8,
    ) {
        // SAFETY: as above.
        unsafe { tiers::decode::<TOP, CODE>(column, count, tops, escaped, to) }
    }

    unsafe fn join_values<const B: u32, const E: u32, const S: bool>(
        self,
        codes: *const u8,
        rests: Rests,
        count: usize,
        tops: &[u16],
        escaped: *const u8,
        to: *mut u8,
    ) {
        // SAFETY: as above.
        unsafe { read::join_values::<B, E, S>(codes, rests, count, tops, escaped, to) }
    }
}
