//! Words to residuals, a tile at a time, so that each step of encoding is a short loop of its own.

// Words are loaded through pointers; see the vectors of words for their bounds.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::BLOCK;
use super::super::header::{Header, Map};
use super::super::plan::residual;
use super::super::word::word_bytes;
use super::planes::Block;
use super::transform::{reversed, rotated_right};
use super::vector::{Words, add, lanes, splat, sub, zigzag};
use crate::cpu::{load256, prefetch_line, store256};

/// Vectors in a tile: 2 KiB, which stay in the first-level cache.
const VECTORS: usize = 64;

/// Residuals on the way to their planes.
#[repr(align(64))]
pub(super) struct Tile([[u8; 32]; VECTORS]);

impl Tile {
    pub(super) const fn new() -> Self {
        Self([[0; 32]; VECTORS])
    }

    /// Words in a tile.
    pub(super) const fn words<const B: usize>() -> usize {
        VECTORS * lanes::<B>()
    }

    /// The block that starts with word `start` of the tile.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn block<const B: usize>(&self, start: usize) -> Block {
        let mut block = [_mm256_setzero_si256(); 8];
        for (i, vector) in block[..B].iter_mut().enumerate() {
            *vector = load256(&self.0[(start / lanes::<B>() + i) % VECTORS]);
        }
        block
    }

    /// The words of the same block.
    pub(super) fn block_words<const B: usize>(&self, start: usize) -> &[[u8; B]] {
        &self.0.as_flattened().as_chunks().0[start..start + BLOCK]
    }
}

/// Makes residuals of the words of a chunk.
pub(super) struct Residuals<'a, const B: usize> {
    source: Words<'a, B>,
    header: &'a Header,
}

impl<'a, const B: usize> Residuals<'a, B> {
    pub(super) const fn new(header: &'a Header, words: &'a [[u8; B]]) -> Self {
        Self { source: Words::new(words, header.base), header }
    }

    /// Fills `tile` with the residuals of the words from `start` on, which is a multiple of a tile; zeros come
    /// behind the last word.
    #[target_feature(enable = "avx2")]
    pub(super) fn fill(&self, tile: &mut Tile, start: usize) {
        let (source, rotation) = (&self.source, self.header.rotation);
        let words = source.words();
        let end = words.len().min(start + Tile::words::<B>());
        let whole = start..end / lanes::<B>() * lanes::<B>();
        let lags = self.header.lags;
        let [a, b] = lags;
        let base = splat::<B>(self.header.base);
        let turned = |mapped| rotated_right::<B>(mapped, rotation);
        // SAFETY: `each` passes indices of whole vectors, and all lags lie in the chunk where `at` is called.
        unsafe {
            match (self.header.map, a, b) {
                (Map::Identity, 0, 0) => {
                    self.each(tile, whole.clone(), |i| turned(sub::<B>(source.at(i), base)));
                }
                (Map::Reversed, 0, 0) => {
                    self.each(tile, whole.clone(), |i| turned(reversed::<B>(sub::<B>(source.at(i), base))));
                }
                // All others are zigzag: the encoder chooses nothing else with lags.
                _ if start < a + b => {
                    self.each(tile, whole.clone(), |i| turned(zigzag::<B>(source.difference(i, lags))));
                }
                (_, lag, 0) => self.each(tile, whole.clone(), |i| {
                    turned(zigzag::<B>(sub::<B>(source.at(i), source.at(i - lag))))
                }),
                _ => self.each(tile, whole.clone(), |i| {
                    let once = sub::<B>(source.at(i), source.at(i - a));
                    turned(zigzag::<B>(add::<B>(sub::<B>(once, source.at(i - b)), source.at(i - (a + b)))))
                }),
            }
        }
        if end == words.len() {
            let bytes = &mut tile.0.as_flattened_mut()[(whole.end - start) * B..];
            bytes.fill(0);
            for (index, place) in (whole.end..end).zip(bytes.as_chunks_mut::<B>().0) {
                *place = word_bytes(residual(self.header, words, index));
            }
        }
    }

    /// Puts into `tile` what `residuals` makes of the vector at each of these indices.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn each(&self, tile: &mut Tile, indices: Range<usize>, residuals: impl Fn(usize) -> __m256i) {
        let words = self.source.words();
        for index in indices.step_by(lanes::<B>()) {
            // Chunks mostly follow each other: the sample of the next one would wait for memory many times over.
            prefetch_line(words.as_ptr().wrapping_add(index + words.len()).cast());
            store256(&mut tile.0[index / lanes::<B>() % VECTORS], residuals(index));
        }
    }
}
