//! The forms of all blocks of a tile at once, a lane for each: numbers instead of jumps, which processors would
//! often guess wrong here.

use std::arch::x86_64::*;

use super::super::BLOCK;
use super::super::word::word_bits;
use super::tile::Tile;
use super::vector::{add, greater, lane_numbers, leading_zeros, permuted2, splat, sub};
use crate::cpu::{load512, store512};

/// The most blocks in a tile: those of bytes.
const MOST_BLOCKS: usize = Tile::words::<1>() / BLOCK;

/// What there is to know for the blocks of a chunk.
pub(super) struct Limits {
    low_bits: u32,
    /// The largest residual that needs no patch.
    longest_low: __m512i,
    /// Bytes that patches may still take; it is less than nothing once a block has wanted more.
    patch_bytes_left: i64,
}

/// The blocks of a tile.
pub(super) struct Forms {
    /// A bit for each residual: whether it is longer than the low bits.
    pub(super) marks: PerBlock,
    /// The same, but none in blocks that are not patched.
    pub(super) patched_marks: PerBlock,
    pub(super) patch_lens: PerBlock,
    /// Planes of the tile before those of the block.
    pub(super) starts: PerBlock,
    /// Planes of the tile before the one of marks; if the block is not patched, up to its end.
    pub(super) marks_at: PerBlock,
    /// The codes, half a byte each for bytes.
    pub(super) codes: [u8; 32],
    /// A bit for each block: whether it is patched.
    pub(super) patched: u64,
    /// The most planes of a block, without the one of marks.
    pub(super) most_dense: u32,
    /// All planes, and bytes of all patches.
    pub(super) planes: usize,
    pub(super) patch_bytes: usize,
}

/// A number or 32 bits for each block of a tile.
pub(super) struct PerBlock([[u8; 64]; MOST_BLOCKS / 16]);

impl PerBlock {
    const fn new() -> Self {
        Self([[0; 64]; MOST_BLOCKS / 16])
    }

    #[inline]
    pub(super) fn of(&self, block: usize) -> u32 {
        u32::from_le_bytes(self.0.as_flattened().as_chunks().0[block % MOST_BLOCKS])
    }

    /// Those of a pair of blocks, the first one's in the lower half.
    #[inline]
    pub(super) fn of_pair(&self, pair: usize) -> u64 {
        u64::from_le_bytes(self.0.as_flattened().as_chunks().0[pair % (MOST_BLOCKS / 2)])
    }
}

impl Limits {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn new<const B: usize>(low_bits: u32, most_patch_bytes: usize) -> Self {
        Self {
            low_bits,
            longest_low: splat::<B>((1 << low_bits) - 1),
            patch_bytes_left: most_patch_bytes as i64,
        }
    }
}

impl Forms {
    pub(super) const fn new() -> Self {
        Self {
            marks: PerBlock::new(),
            patched_marks: PerBlock::new(),
            patch_lens: PerBlock::new(),
            starts: PerBlock::new(),
            marks_at: PerBlock::new(),
            codes: [0; 32],
            patched: 0,
            most_dense: 0,
            planes: 0,
            patch_bytes: 0,
        }
    }

    /// Takes the forms that the blocks of `tile`, the next of the chunk, have.
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
    )]
    pub(super) fn take<const B: usize>(&mut self, tile: &Tile, limits: &mut Limits) {
        let lengths = lengths_of_blocks::<B>(tile);
        for (index, marks) in
            self.marks.0.as_flattened_mut().chunks_exact_mut(8 / B).take(Tile::VECTORS).enumerate()
        {
            let longer = greater::<B>(tile.vector(index), limits.longest_low);
            marks.copy_from_slice(&longer.to_le_bytes()[..8 / B]);
        }
        (self.patched, self.most_dense, self.planes, self.patch_bytes) = (0, 0, 0, 0);
        for group in 0..(64 / B).div_ceil(16) {
            self.take_sixteen::<B>(group, lengths, limits);
        }
    }

    /// Takes the forms of 16 blocks; see [`Form::cheapest`](super::super::layout::Form::cheapest).
    #[inline]
    #[target_feature(
        enable = "avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq,avx512cd,avx512dq,avx512vl,gfni,lzcnt,popcnt,bmi1,bmi2"
    )]
    fn take_sixteen<const B: usize>(&mut self, group: usize, lengths: __m512i, limits: &mut Limits) {
        let number = |number: u32| _mm512_set1_epi32(number as i32);
        let lengths_at = _mm512_mullo_epi16(
            _mm512_add_epi32(lane_numbers::<4>(), number(16 * group as u32)),
            number(B as u32),
        );
        let first_bytes = if B == 8 { 0x1111_1111 } else { 0x1111_1111_1111_1111 };
        let longest = _mm512_maskz_permutexvar_epi8(first_bytes, lengths_at, lengths);
        let marks = load512(&self.marks.0[group]);
        let low_bits = number(limits.low_bits);

        // No bytes if nothing is longer, and then patches never pay.
        let longer_by = _mm512_subs_epu16(longest, low_bits);
        let patch_len = _mm512_srli_epi32::<3>(_mm512_add_epi32(longer_by, number(7)));
        let patches_len = _mm512_mullo_epi16(_mm512_popcnt_epi32(marks), patch_len);
        let patched_len = _mm512_add_epi32(number(4 * (limits.low_bits + 1)), patches_len);
        let pays = _mm512_cmplt_epu32_mask(patched_len, _mm512_slli_epi32::<2>(longest));
        // Patches that find no room count too.
        let wanted = prefix_sums(_mm512_maskz_mov_epi32(pays, patches_len));
        let left = limits.patch_bytes_left.clamp(-1, i64::from(i32::MAX)) as i32;
        let patched = _mm512_mask_cmple_epi32_mask(pays, wanted, _mm512_set1_epi32(left));
        limits.patch_bytes_left -= i64::from(last(wanted));

        let dense = _mm512_mask_mov_epi32(longest, patched, low_bits);
        let planes = _mm512_mask_add_epi32(dense, patched, dense, number(1));
        let codes = _mm512_mask_add_epi32(longest, patched, patch_len, number(word_bits::<B>()));
        let ends = prefix_sums(planes);
        let starts = _mm512_add_epi32(_mm512_sub_epi32(ends, planes), number(self.planes as u32));
        store512(&mut self.patched_marks.0[group], _mm512_maskz_mov_epi32(patched, marks));
        store512(&mut self.patch_lens.0[group], patch_len);
        store512(&mut self.starts.0[group], starts);
        store512(&mut self.marks_at.0[group], _mm512_add_epi32(starts, dense));
        self.store_codes::<B>(group, codes);
        self.patched |= u64::from(patched) << (16 * group);
        self.most_dense = self.most_dense.max(_mm512_reduce_max_epu32(dense));
        self.planes += last(ends) as usize;
        self.patch_bytes += _mm512_reduce_add_epi32(_mm512_maskz_mov_epi32(patched, patches_len)) as usize;
    }

    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl")]
    fn store_codes<const B: usize>(&mut self, group: usize, codes: __m512i) {
        if B == 1 {
            let pairs = _mm512_or_si512(codes, _mm512_srli_epi64::<28>(codes));
            let pairs = _mm_cvtsi128_si64(_mm512_cvtepi64_epi8(pairs));
            self.codes[8 * group..][..8].copy_from_slice(&pairs.to_le_bytes());
        } else {
            let codes = _mm512_cvtepi32_epi8(codes);
            let halves = [_mm_cvtsi128_si64(codes), _mm_extract_epi64::<1>(codes)];
            self.codes[16 * group..][..8].copy_from_slice(&halves[0].to_le_bytes());
            self.codes[16 * group + 8..][..8].copy_from_slice(&halves[1].to_le_bytes());
        }
    }
}

/// The bits of the longest residual of each block of a tile, in lanes of `B` bytes.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,gfni")]
fn lengths_of_blocks<const B: usize>(tile: &Tile) -> __m512i {
    let (per_block, mut count) = if B == 1 { (1, Tile::VECTORS) } else { (B / 2, Tile::VECTORS / (B / 2)) };
    let mut any = [_mm512_setzero_si512(); Tile::VECTORS];
    for (block, any) in any[..count].iter_mut().enumerate() {
        for i in 0..per_block {
            *any = _mm512_or_si512(*any, tile.vector(block * per_block + i));
        }
    }
    // Neighbouring lanes of two vectors are joined to those of one, until a block has one lane.
    let numbers = lane_numbers::<B>();
    let even = add::<B>(numbers, numbers);
    let odd = add::<B>(even, splat::<B>(1));
    while count > 1 {
        count /= 2;
        for i in 0..count {
            let (low, high) = (any[2 * i], any[2 * i + 1]);
            any[i] = _mm512_or_si512(permuted2::<B>(low, even, high), permuted2::<B>(low, odd, high));
        }
    }
    sub::<B>(splat::<B>(u64::from(word_bits::<B>())), leading_zeros::<B>(any[0]))
}

/// The sum of each number and all those before it.
#[inline]
#[target_feature(enable = "avx512f")]
fn prefix_sums(numbers: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    let sums = _mm512_add_epi32(numbers, _mm512_alignr_epi32::<15>(numbers, zero));
    let sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<14>(sums, zero));
    let sums = _mm512_add_epi32(sums, _mm512_alignr_epi32::<12>(sums, zero));
    _mm512_add_epi32(sums, _mm512_alignr_epi32::<8>(sums, zero))
}

/// The number in the last lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn last(numbers: __m512i) -> u32 {
    _mm_extract_epi32::<3>(_mm512_extracti32x4_epi32::<3>(numbers)) as u32
}
