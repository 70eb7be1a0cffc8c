//! A few vectors between two steps of a codec, so that each step is a short loop of its own.

use std::arch::x86_64::*;

use super::vector::lanes;
use crate::cpu::{load512, store512};

/// Vectors in a tile: 2 KiB, which stay in the first-level cache.
const VECTORS: usize = 32;

/// Words on the way to or from their planes.
#[repr(align(64))]
pub(super) struct Tile([[u8; 64]; VECTORS]);

impl Tile {
    pub(super) const fn new() -> Self {
        Self([[0; 64]; VECTORS])
    }

    /// Vectors in a tile.
    pub(super) const VECTORS: usize = VECTORS;

    /// Words in a tile.
    pub(super) const fn words<const B: usize>() -> usize {
        VECTORS * lanes::<B>()
    }

    /// Vector `index`; numbers past the last start again.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn vector(&self, index: usize) -> __m512i {
        load512(&self.0[index % VECTORS])
    }

    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn set_vector(&mut self, index: usize, vector: __m512i) {
        store512(&mut self.0[index % VECTORS], vector);
    }

    /// Its bytes.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.0.as_flattened_mut()
    }
}
