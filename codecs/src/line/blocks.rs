//! Lines by the 32, the unit in which the vector back-ends of FPC and C-Pack+Z work.
//!
//! What a line has in each section is a mask of its 16 words, so a block has 32 masks for each section: one
//! 512-bit vector. Lines behind the end of a chunk count as zero lines; they have nothing in any section, and
//! the bits they would have among the kinds are cut off.

use super::{KindReader, LINE_LEN, LINE_WORDS, Line, StreamReader, Taken, kinds_len};
use crate::packed::packed_len;

/// Lines in a block.
pub(crate) const BLOCK_LINES: usize = 32;

/// Words in a block.
pub(crate) const BLOCK_WORDS: usize = BLOCK_LINES * LINE_WORDS;

/// Bytes in a block.
pub(crate) const BLOCK_LEN: usize = BLOCK_LINES * LINE_LEN;

pub(crate) type Block = [Line; BLOCK_LINES];

/// Bit i of mask k belongs to word i of line k.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Masks(pub(crate) [u16; BLOCK_LINES]);

impl Masks {
    pub(crate) const NONE: Self = Self([0; BLOCK_LINES]);
}

/// A chunk's lines; the last block is filled up with zeros.
pub(crate) struct Blocks<'a> {
    whole: &'a [Block],
    last: Option<Block>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn of(raw: &'a [u8]) -> Self {
        let (whole, rest) = raw.as_chunks::<BLOCK_LEN>();
        let whole = whole.as_flattened().as_chunks().0.as_chunks().0;
        let last = (!rest.is_empty()).then(|| {
            let mut last = [[0; LINE_LEN]; BLOCK_LINES];
            last.as_flattened_mut()[..rest.len()].copy_from_slice(rest);
            last
        });
        Self { whole, last }
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.len() + usize::from(self.last.is_some())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.whole.iter().chain(&self.last)
    }
}

/// What kind each line of a block is: zero where neither bit is set.
#[derive(Clone, Copy, Default)]
pub(crate) struct BlockKinds {
    /// Bit k: line k is coded.
    pub(crate) coded: u32,
    /// Bit k: line k is raw.
    pub(crate) raw: u32,
}

/// Which words of each line have a field in each of the data sections.
#[derive(Clone, Copy)]
pub(crate) struct BlockFields {
    pub(crate) words: Masks,
    pub(crate) halves: Masks,
    pub(crate) bytes: Masks,
    pub(crate) nibbles: Masks,
}

impl BlockFields {
    pub(crate) const NONE: Self =
        Self { words: Masks::NONE, halves: Masks::NONE, bytes: Masks::NONE, nibbles: Masks::NONE };
}

impl Taken {
    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }
}

impl std::ops::AddAssign for Taken {
    fn add_assign(&mut self, more: Self) {
        self.words += more.words;
        self.halves += more.halves;
        self.bytes += more.bytes;
        self.nibbles += more.nibbles;
    }
}

impl<'a> StreamReader<'a> {
    /// The bytes of the sections: words, halfwords, bytes, 4-bit fields.
    pub(crate) fn sections(&self) -> [&'a [u8]; 4] {
        [self.words.as_flattened(), self.halves.as_flattened(), self.bytes, self.nibbles]
    }
}

/// Appends bit strings to a slice, lowest bit first. Writes up to seven bytes of zeros behind them.
pub(crate) struct BitWriter<'a> {
    out: &'a mut [u8],
    /// Whole bytes written.
    at: usize,
    pending: u64,
    pending_bits: usize,
}

impl<'a> BitWriter<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0, pending: 0, pending_bits: 0 }
    }

    /// Appends the low `count` bits of `bits`, at most 32; the others must be clear.
    #[inline(always)]
    pub(crate) fn push(&mut self, bits: u32, count: usize) {
        self.pending |= u64::from(bits) << self.pending_bits;
        self.pending_bits += count;
        *room_at(self.out, self.at) = self.pending.to_le_bytes();
        let bytes = self.pending_bits / 8;
        self.at += bytes;
        self.pending >>= 8 * bytes;
        self.pending_bits %= 8;
    }
}

/// Writes the kinds section of a chunk of `lines` lines and returns its length. `keep` is the bits of its
/// first argument at the set bits of its second, moved together.
///
/// Writes up to 16 bytes behind the section.
#[inline(always)]
pub(crate) fn write_kinds(
    lines: usize,
    kinds: impl Iterator<Item = BlockKinds> + Clone,
    keep: impl Fn(u32, u32) -> u32,
    out: &mut [u8],
) -> usize {
    let mut coded_lines = 0;
    let mut bits = BitWriter::new(out);
    for BlockKinds { coded, .. } in kinds.clone() {
        bits.push(coded, BLOCK_LINES);
        coded_lines += coded.count_ones() as usize;
    }
    let mut bits = BitWriter::new(&mut out[packed_len::<1>(lines)..]);
    for BlockKinds { coded, raw } in kinds {
        bits.push(keep(raw, !coded), coded.count_zeros() as usize);
    }
    kinds_len(lines, coded_lines)
}

impl KindReader<'_> {
    /// The kinds block by block. `spread` undoes `keep` of [`write_kinds`]: it moves the low bits of its first
    /// argument to the set bits of its second.
    #[inline(always)]
    pub(crate) fn blocks(&self, spread: impl Fn(u32, u32) -> u32) -> impl Iterator<Item = BlockKinds> {
        let mut uncoded = 0;
        (0..self.lines.div_ceil(BLOCK_LINES)).map(move |block| {
            let coded = bits_at(self.coded, block * BLOCK_LINES);
            let raw = spread(bits_at(self.raw, uncoded), !coded);
            uncoded += coded.count_zeros() as usize;
            BlockKinds { coded, raw }
        })
    }
}

/// 32 bits of `bytes` from bit `at` on; zeros behind the end.
#[inline(always)]
fn bits_at(bytes: &[u8], at: usize) -> u32 {
    let mut window = [0; 8];
    let rest = bytes.get(at / 8..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(front) => window = *front,
        None => window[..rest.len()].copy_from_slice(rest),
    }
    (u64::from_le_bytes(window) >> (at % 8)) as u32
}

/// The `N` bytes of `out` from byte `at` on.
///
/// # Panics
/// If there are fewer: then an encoder was given less room than it asks for.
#[inline(always)]
pub(crate) fn room_at<const N: usize>(out: &mut [u8], at: usize) -> &mut [u8; N] {
    #[cold]
    #[inline(never)]
    fn no_room(at: usize, needed: usize) -> ! {
        panic!("no room for {needed} bytes at byte {at}")
    }
    match out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        Some(room) => room,
        None => no_room(at, N),
    }
}

/// Writes zeros from byte `at` on up to a multiple of `to`; returns where they end.
#[inline(always)]
pub(crate) fn align(out: &mut [u8], at: usize, to: usize) -> usize {
    let end = at.next_multiple_of(to);
    out[at..end].fill(0);
    end
}

/// Calls `decode` with each block of `raw` and its index; what it writes behind the end of `raw` is dropped.
#[inline(always)]
pub(crate) fn decode_blocks(raw: &mut [u8], mut decode: impl FnMut(usize, &mut Block)) {
    let (whole, rest) = raw.as_chunks_mut::<BLOCK_LEN>();
    let whole = whole.as_flattened_mut().as_chunks_mut().0.as_chunks_mut().0;
    let blocks = whole.len();
    for (index, block) in whole.iter_mut().enumerate() {
        decode(index, block);
    }
    if !rest.is_empty() {
        let mut last = [[0; LINE_LEN]; BLOCK_LINES];
        decode(blocks, &mut last);
        rest.copy_from_slice(&last.as_flattened()[..rest.len()]);
    }
}
