//! From bits to granules.

// Bits are read at any byte; each place is checked.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tables::Walk;
use super::{LINE, each, lanes, shift_down, shift_up};
use crate::cpu::{array_mut, store256};
use crate::ibp::bits::{Source, marks_at, ones};
use crate::ibp::plan::Plan;

/// Bytes that half a vector is read from: its own, and one for bits that begin within a byte.
const WINDOW: usize = 17;
/// Bytes behind which all windows of a line end, wherever in the first byte it begins.
const REACH: usize = LINE + WINDOW;

/// Decodes with `P` runs to move, or 0 for the stages.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn lines<const G: usize, const P: usize>(
    plan: &Plan,
    phase: usize,
    source: &mut Source<'_>,
    raw: &mut [u8],
) {
    let mut walk = Walk::<P>::new(plan, phase);
    let done = lines_within::<G, P>(&mut walk, source, raw);
    if done == raw.len() {
        return;
    }
    // Fewer bytes than a line may need are left.
    let place = source.bit / 8;
    let left = &source.kept[place..];
    let mut kept = [0; 2 * REACH];
    kept[..left.len()].copy_from_slice(left);
    let Source { participation, granules, bit, .. } = *source;
    let mut last = Source { participation, kept: &kept, granules, bit: bit % 8 };
    lines_within::<G, P>(&mut walk, &mut last, &mut raw[done..]);
    (source.granules, source.bit) = (last.granules, last.bit + 8 * place);
}

/// Decodes lines as long as the source has [`REACH`] bytes for each; returns how many bytes these are.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn lines_within<const G: usize, const P: usize>(
    walk: &mut Walk<'_, P>,
    source: &mut Source<'_>,
    raw: &mut [u8],
) -> usize {
    let mut reader = Reader::new(source.kept, source.bit);
    let mut done = 0;
    while done < raw.len() && reader.has_line() {
        let line = &mut raw[done..];
        let len = line.len().min(LINE);
        let marks = marks_at(source.participation, source.granules) & ones((len / G) as u32);
        let mut decoded = [_mm256_setzero_si256(); 2];
        for (i, decoded) in decoded.iter_mut().enumerate() {
            let place = walk.step();
            let participants = lanes::<G>(marks >> (32 / G * i));
            let saved = _mm256_and_si256(place.savings(), participants);
            let words = reader.words::<G>(_mm256_sub_epi32(each::<G>(8 * G), saved));
            *decoded = _mm256_blendv_epi8(words, place.scatter::<G>(words), participants);
        }
        match line.first_chunk_mut() {
            Some(line) => store(line, decoded),
            None => {
                let mut whole = [0; LINE];
                store(&mut whole, decoded);
                line.copy_from_slice(&whole[..len]);
                // Granules that are not there have been counted.
                reader.bit -= 8 * (LINE - len);
            }
        }
        source.granules += len / G;
        done += len;
    }
    source.bit = reader.bit;
    done
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(line: &mut [u8; LINE], decoded: [__m256i; 2]) {
    store256(array_mut(line), decoded[0]);
    store256(array_mut(&mut line[32..]), decoded[1]);
}

/// Takes granules out of kept bits.
struct Reader<'a> {
    kept: &'a [u8],
    /// How many bits are taken.
    bit: usize,
    /// The same in each lane of four bytes, modulo anything that 8 divides.
    bits: __m256i,
}

impl<'a> Reader<'a> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(kept: &'a [u8], bit: usize) -> Self {
        Self { kept, bit, bits: _mm256_set1_epi32((bit % 8) as i32) }
    }

    /// Whether there are the bytes of a line's windows.
    #[inline]
    fn has_line(&self) -> bool {
        self.bit / 8 + REACH <= self.kept.len()
    }

    /// The next granules, which have so many bits: each with all that a granule can have, so that behind those of a
    /// shorter one others follow.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn words<const G: usize>(&mut self, lens: __m256i) -> __m256i {
        let (starts, totals) = sums::<G>(lens);
        let others = _mm256_permute2x128_si256::<0x01>(totals, totals);
        let before = _mm256_blend_epi32::<0xf0>(_mm256_setzero_si256(), others);
        let begin = _mm256_and_si256(_mm256_add_epi32(self.bits, before), each::<G>(7));
        self.bits = _mm256_add_epi32(self.bits, _mm256_add_epi32(totals, others));

        let lower = self.bit;
        let upper = lower + _mm_cvtsi128_si32(_mm256_castsi256_si128(totals)) as u32 as usize;
        self.bit = upper + _mm_cvtsi128_si32(_mm256_castsi256_si128(others)) as u32 as usize;
        let [low, high] = self.windows(lower / 8, upper / 8);
        pick::<G>(low, high, _mm256_add_epi32(starts, begin))
    }

    /// Sixteen bytes from either place on, one for each half, and those a byte behind.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn windows(&self, lower: usize, upper: usize) -> [__m256i; 2] {
        let last = self.kept.len() - WINDOW;
        assert!(lower <= last && upper <= last, "kept bits end before byte {upper}");
        // SAFETY: from either place on there are 17 bytes.
        let load = |place: usize| unsafe { _mm_loadu_si128(self.kept.as_ptr().add(place).cast()) };
        [0, 1].map(|behind| _mm256_set_m128i(load(upper + behind), load(lower + behind)))
    }
}

/// For each granule the lengths of those before it in its half, and in all places what its half has in all.
#[inline]
#[target_feature(enable = "avx2")]
fn sums<const G: usize>(lens: __m256i) -> (__m256i, __m256i) {
    if G == 8 {
        return (_mm256_slli_si256::<8>(lens), _mm256_add_epi32(lens, _mm256_shuffle_epi32::<0x4e>(lens)));
    }
    let pairs = _mm256_add_epi32(lens, _mm256_slli_si256::<4>(lens));
    let ends = _mm256_add_epi32(pairs, _mm256_slli_si256::<8>(pairs));
    (_mm256_sub_epi32(ends, lens), _mm256_shuffle_epi32::<0xff>(ends))
}

/// The granules that start at these bits of the bytes of their half; also given are those a byte behind.
#[inline]
#[target_feature(enable = "avx2")]
fn pick<const G: usize>(low: __m256i, high: __m256i, starts: __m256i) -> __m256i {
    // The low byte of each start goes to all bytes of the granule, which are one behind the other.
    let (spread, steps) = if G == 8 {
        (_mm256_set_epi64x(EIGHTS, 0, EIGHTS, 0), 0x0706_0504_0302_0100)
    } else {
        (_mm256_set_epi64x(TWELVES, FOURS, TWELVES, FOURS), 0x0302_0100_0302_0100)
    };
    let bytes = _mm256_shuffle_epi8(_mm256_srli_epi32::<3>(starts), spread);
    let bytes = _mm256_add_epi8(bytes, _mm256_set1_epi64x(steps));
    let shifts = _mm256_and_si256(starts, each::<G>(7));
    let low = shift_down::<G>(_mm256_shuffle_epi8(low, bytes), shifts);
    let back = _mm256_sub_epi32(each::<G>(8), shifts);
    _mm256_or_si256(low, shift_up::<G>(_mm256_shuffle_epi8(high, bytes), back))
}

/// Numbers of bytes: those of the second granule of eight bytes; of the first two of four bytes, and the others.
const EIGHTS: i64 = 0x0808_0808_0808_0808;
const FOURS: i64 = 0x0404_0404_0000_0000;
const TWELVES: i64 = 0x0c0c_0c0c_0808_0808;
