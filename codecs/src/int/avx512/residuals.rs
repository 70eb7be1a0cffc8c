//! Words to residuals, a tile at a time.

// Words are loaded through pointers; see the vectors of words for their bounds.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::header::Header;
use super::super::plan::residual;
use super::super::word::word_bytes;
use super::tile::Tile;
use super::transform::Forward;
use super::vector::{Words, add, lanes, permuted2, shift_index, sub};
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
        if !whole.is_empty() {
            self.fill_whole(tile, whole.clone());
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

    /// The part of [`fill`](Self::fill) that is whole vectors.
    ///
    /// What lies less than a vector back comes from the registers: a load across two lines takes twice as long.
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    fn fill_whole(&self, tile: &mut Tile, whole: Range<usize>) {
        let (source, start) = (&self.source, whole.start);
        let [a, b] = self.header.lags;
        let (short, long) = (a.min(b), a.max(b));
        let (is_short, is_long) = (short < lanes::<B>(), long >= lanes::<B>());
        // SAFETY: `each` passes indices of whole vectors, the first of which is at `start`; no word is loaded from
        // before the first one.
        unsafe {
            match (short, long) {
                (0, 0) => self.each(tile, whole, |i| sub::<B>(source.at(i), source.base())),
                (0, lag) if !is_long => {
                    let mut words = Shifted::<B>::new(lag, source.before(start, lanes::<B>()));
                    self.each(tile, whole, |i| words.difference(source.at(i)));
                }
                (0, lag) if start < lag => {
                    self.each(tile, whole, |i| sub::<B>(source.at(i), source.before(i, lag)));
                }
                (0, lag) => self.each(tile, whole, |i| sub::<B>(source.at(i), source.at(i - lag))),
                _ if !is_long => {
                    let mut words = Shifted::<B>::new(short, source.before(start, lanes::<B>()));
                    let mut differences = Shifted::<B>::new(
                        long,
                        sub::<B>(
                            source.before(start, lanes::<B>()),
                            source.before(start, lanes::<B>() + short),
                        ),
                    );
                    self.each(tile, whole, |i| differences.difference(words.difference(source.at(i))));
                }
                _ if is_short => {
                    let mut words = Shifted::<B>::new(short, source.before(start, lanes::<B>()));
                    let mut earlier = Shifted::<B>::new(short, source.before(start, lanes::<B>() + long));
                    if start < long {
                        self.each(tile, whole, |i| {
                            let once = words.difference(source.at(i));
                            sub::<B>(once, earlier.difference(source.before(i, long)))
                        });
                    } else {
                        self.each(tile, whole, |i| {
                            let once = words.difference(source.at(i));
                            sub::<B>(once, earlier.difference(source.at(i - long)))
                        });
                    }
                }
                _ if start < a + b => self.each(tile, whole, |i| source.difference(i, [a, b])),
                _ => self.each(tile, whole, |i| {
                    let once = sub::<B>(source.at(i), source.at(i - a));
                    add::<B>(sub::<B>(once, source.at(i - b)), source.at(i - (a + b)))
                }),
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    fn each(&self, tile: &mut Tile, indices: Range<usize>, mut differences: impl FnMut(usize) -> __m512i) {
        let words = self.source.words();
        for index in indices.step_by(lanes::<B>()) {
            // Chunks mostly follow each other: the sample of the next one would wait for memory many times over.
            prefetch_line(words.as_ptr().wrapping_add(index + words.len()).cast());
            tile.set_vector(index / lanes::<B>(), self.transform.residuals(differences(index)));
        }
    }
}

/// Vectors one after the other, of which the last one is kept.
struct Shifted<const B: usize> {
    index: __m512i,
    last: __m512i,
}

impl<const B: usize> Shifted<B> {
    /// For a lag shorter than a vector; `last` lies before the first one.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn new(lag: usize, last: __m512i) -> Self {
        Self { index: shift_index::<B>(lag), last }
    }

    /// The words of the next vector less those a lag before.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    fn difference(&mut self, next: __m512i) -> __m512i {
        let before = permuted2::<B>(self.last, self.index, next);
        self.last = next;
        sub::<B>(next, before)
    }
}
