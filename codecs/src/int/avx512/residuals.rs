//! Words to residuals, a tile at a time.

// Words are loaded through pointers; see the vectors of words for their bounds.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::header::Header;
use super::super::plan::residual;
use super::super::word::word_bytes;
use super::tile::Tile;
use super::transform::Forward;
use super::vector::{Words, add, lanes, sub};
use crate::cpu::prefetch_line;

/// Makes residuals of the words of a chunk.
pub(super) struct Residuals<'a, const B: usize> {
    source: Words<'a, B>,
    transform: Forward<B>,
    header: &'a Header,
}

impl<'a, const B: usize> Residuals<'a, B> {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    pub(super) fn new(header: &'a Header, words: &'a [[u8; B]]) -> Self {
        Self { source: Words::new(words, header.base), transform: Forward::new(header), header }
    }

    /// Fills `tile` with the residuals of the words from `start` on, which is a multiple of a tile; zeros come
    /// behind the last word, to the end of its block.
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    pub(super) fn fill(&self, tile: &mut Tile, start: usize) {
        let source = &self.source;
        let end = source.len().min(start + Tile::words::<B>());
        let whole = start..end / lanes::<B>() * lanes::<B>();
        let lags = self.header.lags;
        let [a, b] = lags;
        // SAFETY: `each` passes indices of whole vectors, and all lags lie in the chunk where `at` is called.
        unsafe {
            match (a, b) {
                (0, 0) => self.each(tile, whole.clone(), |i| sub::<B>(source.at(i), source.base())),
                _ if start < a + b => self.each(tile, whole.clone(), |i| source.difference(i, lags)),
                (0, lag) | (lag, 0) => {
                    self.each(tile, whole.clone(), |i| sub::<B>(source.at(i), source.at(i - lag)));
                }
                _ => self.each(tile, whole.clone(), |i| {
                    let once = sub::<B>(source.at(i), source.at(i - a));
                    add::<B>(sub::<B>(once, source.at(i - b)), source.at(i - (a + b)))
                }),
            }
        }
        if whole.end < end {
            let bytes = &mut tile.bytes()[(whole.end - start) * B..];
            bytes.fill(0);
            for (index, place) in (whole.end..end).zip(bytes.as_chunks_mut::<B>().0) {
                *place = word_bytes(residual(self.header, source.words(), index));
            }
        } else if end == source.len() {
            tile.bytes()[(end - start) * B..].fill(0);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    fn each(&self, tile: &mut Tile, indices: std::ops::Range<usize>, differences: impl Fn(usize) -> __m512i) {
        let words = self.source.words();
        for index in indices.step_by(lanes::<B>()) {
            // Chunks mostly follow each other: the sample of the next one would wait for memory many times over.
            prefetch_line(words.as_ptr().wrapping_add(index + words.len()).cast());
            tile.set_vector(index / lanes::<B>(), self.transform.residuals(differences(index)));
        }
    }
}
