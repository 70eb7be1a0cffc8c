//! Masks with their zero bytes left out, level by level: see `mask.rs`.

use super::Vectors;
use super::scratch::MAX_RAW_LEN;
use crate::xp::mask::MAX_DEPTH;

const LEVELS: usize = MAX_DEPTH as usize + 1;

/// Where each level starts: the one before has a bit for each byte of a chunk, or an eighth of it and so on,
/// and then 64 bytes.
const STARTS: [usize; LEVELS] = [0, FIRST, FIRST + FIRST / 8 + 64, FIRST + FIRST / 8 + FIRST / 64 + 128];
const FIRST: usize = MAX_RAW_LEN / 8 + 64;

/// A mask, the mask of its bytes that are not zero, the mask of those of its bytes, and so on.
pub(super) struct Levels<'a>(&'a mut [u8]);

/// How many bytes the levels of a mask have, and how many of them are not zero.
pub(super) struct Sizes {
    bytes: [usize; LEVELS],
    non_zero: [usize; LEVELS],
}

impl Sizes {
    /// The length of the mask at `depth`.
    pub(super) fn len(&self, depth: u8) -> usize {
        self.bytes[usize::from(depth)] + self.non_zero[..usize::from(depth)].iter().sum::<usize>()
    }

    pub(super) fn best_depth(&self) -> u8 {
        (0..=MAX_DEPTH).min_by_key(|&depth| self.len(depth)).unwrap_or(0)
    }
}

/// The bytes of each level of a mask of `bits` bits.
fn level_lens(bits: usize) -> [usize; LEVELS] {
    let mut bits = bits;
    std::array::from_fn(|_| {
        bits = bits.div_ceil(8);
        bits
    })
}

impl<'a> Levels<'a> {
    pub(super) fn new(room: &'a mut [u8]) -> Self {
        assert!(room.len() >= STARTS[3] + FIRST / 512 + 128, "{} bytes for the levels of a mask", room.len());
        Self(room)
    }

    /// The bytes of the mask itself: room for a bit for each byte of the longest chunk, and 64 bytes.
    pub(super) fn bits(&mut self) -> *mut u8 {
        self.level(0)
    }

    fn level(&mut self, level: usize) -> *mut u8 {
        self.0.as_mut_ptr().wrapping_add(STARTS[level])
    }

    /// Makes the levels above the mask.
    ///
    /// # Safety
    /// The mask has `bits` bits, not more than a chunk has bytes, and then zeros up to a multiple of 64
    /// bytes.
    pub(super) unsafe fn raise(&mut self, vectors: impl Vectors, bits: usize) -> Sizes {
        let bytes = level_lens(bits);
        let mut non_zero = [0; LEVELS];
        for level in 0..LEVELS - 1 {
            let (from, to, blocks) = (self.level(level), self.level(level + 1), bytes[level].div_ceil(64));
            // SAFETY: each block is in the level, which is full of zeros behind its end; the level above has
            // 8 bytes for each, and 64 bytes behind its own.
            unsafe {
                non_zero[level] = vectors.raise_level(from, blocks, to);
                to.add(8 * blocks).write_bytes(0, 64);
            }
        }
        Sizes { bytes, non_zero }
    }

    /// Writes the mask at `depth` and returns where it ends.
    ///
    /// # Safety
    /// `sizes` is what [`raise`](Self::raise) said; `to` has room for the mask and 64 bytes.
    pub(super) unsafe fn put(
        &mut self,
        vectors: impl Vectors,
        sizes: &Sizes,
        depth: u8,
        mut to: *mut u8,
    ) -> *mut u8 {
        let top = usize::from(depth);
        // SAFETY: the levels were made just now.
        unsafe {
            to.copy_from_nonoverlapping(self.level(top), sizes.bytes[top]);
            to = to.add(sizes.bytes[top]);
            for level in (0..top).rev() {
                let blocks = sizes.bytes[level].div_ceil(64);
                to = vectors.put_level(self.level(level + 1), self.level(level), blocks, to);
            }
        }
        to
    }

    /// Takes a mask of `bits` bits at `depth` off the front of `coded` and returns its length, or `None` if
    /// it is no such mask. Behind its bits the mask is zeros, up to a multiple of 64 bytes.
    pub(super) fn take(
        &mut self,
        vectors: impl Vectors,
        bits: usize,
        depth: u8,
        coded: &[u8],
    ) -> Option<usize> {
        let (lens, top) = (level_lens(bits), usize::from(depth));
        let mut at = lens[top];
        let stored = coded.get(..at)?;
        // SAFETY: a level has room for its bytes and 64 more.
        unsafe {
            self.level(top).copy_from_nonoverlapping(stored.as_ptr(), at);
            self.level(top).add(at).write_bytes(0, 64);
        }
        for level in (0..top).rev() {
            // SAFETY: the level above was written just now, and ends in zeros. It has a bit for each byte of
            // this one, which has room for whole blocks.
            unsafe {
                if !self.ends_in_zeros(level + 1, lens[level]) {
                    return None;
                }
                let above = self.level(level + 1);
                let needed = vectors.count_bits(above, lens[level + 1]);
                coded.get(at..at + needed)?;
                at += vectors.take_level(above, lens[level].div_ceil(64), &coded[at..], self.level(level));
            }
        }
        // SAFETY: the mask was written just now.
        unsafe { self.ends_in_zeros(0, bits).then_some(at) }
    }

    /// Whether the bits of the last byte behind `bits` bits are zero.
    ///
    /// # Safety
    /// The level has these bits.
    unsafe fn ends_in_zeros(&mut self, level: usize, bits: usize) -> bool {
        // SAFETY: the caller's promise.
        bits.is_multiple_of(8) || unsafe { *self.level(level).add(bits / 8) >> (bits % 8) == 0 }
    }

    /// The set bits of a mask of `bits` bits.
    ///
    /// # Safety
    /// The mask has these bits, and then zeros up to a multiple of 64 bytes.
    pub(super) unsafe fn count(&mut self, vectors: impl Vectors, bits: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { vectors.count_bits(self.level(0), bits.div_ceil(8)) }
    }
}
