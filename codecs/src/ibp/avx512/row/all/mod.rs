//! Tensors of which all granules participate, as most rows of a table are: each kept bit then has its place, the same
//! in every such tensor, so that nothing has to be summed up to find it.

mod places;

use std::arch::x86_64::*;

use super::{LINE, LineTable};
use crate::Avx512;
use crate::cpu::{load512, load512_partial, store512_partial};

/// Bytes whose kept bits are moved together: a granule of eight bytes, or two of four.
const WORD: usize = 8;

/// Where everything is in the code of such tensors, and where the kept bits go.
#[derive(Debug)]
pub(in crate::ibp) struct AllGranules {
    unpack: Unpack<1>,
    unpack_pair: Unpack<2>,
    /// The participation bits.
    participation: Vec<u8>,
    /// How many bits are kept.
    bits: usize,
    /// For each line the byte of the kept bits that it starts in.
    places: Vec<u32>,
    lines: Vec<Line>,
    /// For each line its fields: where in the eight bytes of a word one starts, modulo 64, and which of its bits count.
    fields: Vec<[LineTable; 2]>,
}

/// What is the same for all fields of a line.
#[derive(Debug)]
struct Line {
    /// The values of the invariant bits.
    bitvals: LineTable,
    /// For each word which eight bytes, from the line's place on, its kept bits start in; unless all start in the first.
    bytes: LineTable,
    /// For each word the bits of these that are before its own, as one number; if they reach further.
    shifts: LineTable,
}

/// How far kept bits that are moved together lie apart, with those before them in their first byte.
#[derive(Clone, Copy)]
enum Reach {
    /// Those of each line are in eight bytes.
    Line,
    /// Those of each word are.
    Word,
    /// Those of a word are in nine.
    Wide,
}

const LINE_REACH: u8 = Reach::Line as u8;
const WORD_REACH: u8 = Reach::Word as u8;
const WIDE_REACH: u8 = Reach::Wide as u8;

/// How tensors are unpacked, `N` at a time.
type Unpack<const N: usize> = unsafe fn(&AllGranules, [&[u8]; N], [&mut [u8]; N]) -> bool;

impl AllGranules {
    /// Unpacks the granules of the tensor at the front of `slot`; returns how many bytes they take there, whatever follows.
    /// `None` if not all of them participate or something is wrong with these bytes, and then `granules` hold anything.
    #[inline]
    pub(in crate::ibp) fn unpack(&self, _: Avx512, slot: &[u8], granules: &mut [u8]) -> Option<usize> {
        // SAFETY: the token says that this machine has the instructions.
        let unpacked = unsafe { (self.unpack)(self, [slot], [granules]) };
        unpacked.then(|| self.code_len())
    }

    /// The same of two tensors, whose granules take as many bytes: the tables are read for both at once.
    #[inline]
    pub(in crate::ibp) fn unpack_pair(
        &self,
        _: Avx512,
        slots: [&[u8]; 2],
        granules: [&mut [u8]; 2],
    ) -> Option<usize> {
        // SAFETY: as above.
        let unpacked = unsafe { (self.unpack_pair)(self, slots, granules) };
        unpacked.then(|| self.code_len())
    }

    /// Whether the code at the front of `slot` is that of a tensor all of whose granules participate.
    #[inline]
    #[target_feature(enable = "avx512bw,bmi2")]
    fn fits(&self, slot: &[u8]) -> bool {
        let Some((participation, kept)) = slot.split_at_checked(self.participation.len()) else {
            return false;
        };
        equal(participation, &self.participation) && ends_within(kept, self.bits)
    }

    /// How many lines, from the first on, have their windows of so many bytes within `kept`, of all tensors.
    #[inline]
    fn inner_lines<const N: usize>(&self, kept: [&[u8]; N], window_len: usize) -> usize {
        let len = kept.iter().fold(usize::MAX, |least, kept| least.min(kept.len()));
        let within = |place: &u32| *place as usize + window_len <= len;
        if self.places.last().is_some_and(within) {
            return self.places.len();
        }
        self.places.partition_point(within)
    }

    #[inline]
    fn code_len(&self) -> usize {
        self.participation.len() + self.bits.div_ceil(8)
    }
}

fn unpack_of<const N: usize>(fields: usize, reach: Reach) -> Unpack<N> {
    match (fields, reach) {
        (1, Reach::Line) => unpack::<1, LINE_REACH, N>,
        (2, Reach::Line) => unpack::<2, LINE_REACH, N>,
        (3, Reach::Line) => unpack::<3, LINE_REACH, N>,
        (_, Reach::Line) => unpack::<4, LINE_REACH, N>,
        (1, Reach::Word) => unpack::<1, WORD_REACH, N>,
        (2, Reach::Word) => unpack::<2, WORD_REACH, N>,
        (3, Reach::Word) => unpack::<3, WORD_REACH, N>,
        (_, Reach::Word) => unpack::<4, WORD_REACH, N>,
        (1, Reach::Wide) => unpack::<1, WIDE_REACH, N>,
        (2, Reach::Wide) => unpack::<2, WIDE_REACH, N>,
        (3, Reach::Wide) => unpack::<3, WIDE_REACH, N>,
        (_, Reach::Wide) => unpack::<4, WIDE_REACH, N>,
    }
}

#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2")]
fn unpack<const P: usize, const REACH: u8, const N: usize>(
    all: &AllGranules,
    slots: [&[u8]; N],
    granules: [&mut [u8]; N],
) -> bool {
    for slot in slots {
        if !all.fits(slot) {
            return false;
        }
    }
    let mut kept = slots;
    for kept in &mut kept {
        *kept = &kept[all.participation.len()..];
    }
    let fields = all.fields.as_chunks().0;
    let inner = all.inner_lines(kept, window_len(REACH)).min(fields.len());
    let inner = granules.iter().fold(inner, |inner, granules| inner.min(granules.len() / LINE));
    for number in 0..inner {
        // SAFETY: there are so many lines, each with its fields and place. Its windows are in the kept bits, and its bytes in
        // the granules.
        unsafe {
            let (line, fields) = (all.lines.get_unchecked(number), fields.get_unchecked(number));
            let place = *all.places.get_unchecked(number) as usize;
            // All are decoded before one is written: so the tables are read once.
            let mut decoded = [_mm512_setzero_si512(); N];
            for i in 0..N {
                let window = window::<REACH>(kept[i].as_ptr().add(place));
                decoded[i] = decode::<P, REACH>(window, line, fields);
            }
            for i in 0..N {
                _mm512_storeu_si512(granules[i].as_mut_ptr().add(LINE * number).cast(), decoded[i]);
            }
        }
    }
    if inner < all.lines.len() {
        for (kept, granules) in kept.into_iter().zip(granules) {
            outer_lines::<P, REACH>(all, inner, kept, granules);
        }
    }
    true
}

/// Decodes the lines from number `first` on, whose windows may go on behind `kept`, and the last of which may be shorter.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2")]
fn outer_lines<const P: usize, const REACH: u8>(
    all: &AllGranules,
    first: usize,
    kept: &[u8],
    granules: &mut [u8],
) {
    let tables = all.lines.iter().zip(all.fields.as_chunks().0).zip(&all.places);
    for (((line, fields), &place), granules) in tables.zip(granules.chunks_mut(LINE)).skip(first) {
        let left = kept.get(place as usize..).unwrap_or_default();
        let low = load512_partial(left);
        let low =
            if REACH == LINE_REACH { _mm512_broadcastq_epi64(_mm512_castsi512_si128(low)) } else { low };
        let high = load512_partial(left.get(WORD..).unwrap_or_default());
        store512_partial(granules, decode::<P, REACH>([low, high], line, fields));
    }
}

/// Whether two slices of one length are the same.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
fn equal(a: &[u8], b: &[u8]) -> bool {
    for (a, b) in a.chunks(LINE).zip(b.chunks(LINE)) {
        if _mm512_cmpneq_epi8_mask(load512_partial(a), load512_partial(b)) != 0 {
            return false;
        }
    }
    true
}

/// Whether `kept` has so many bits, and no others in the byte of the last one.
#[inline]
fn ends_within(kept: &[u8], bits: usize) -> bool {
    let unused = if bits.is_multiple_of(8) { 0 } else { 0xff << (bits % 8) };
    bits == 0 || kept.get((bits - 1) / 8).is_some_and(|last| last & unused == 0)
}

/// Decodes a line whose kept bits start in the first byte of `window`.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2")]
fn decode<const P: usize, const REACH: u8>(
    window: [__m512i; 2],
    line: &Line,
    fields: &[[LineTable; 2]; P],
) -> __m512i {
    let words = words::<REACH>(window, line);
    let mut decoded = load512(&line.bitvals.0);
    for [starts, keeps] in fields {
        let moved = _mm512_multishift_epi64_epi8(load512(&starts.0), words);
        decoded = _mm512_ternarylogic_epi64::<0xf8>(decoded, moved, load512(&keeps.0)); // decoded | (moved & keeps)
    }
    decoded
}

/// Eight bytes for each word of a line, in which its kept bits are; from the first on, if words reach further.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2")]
fn words<const REACH: u8>([low, high]: [__m512i; 2], line: &Line) -> __m512i {
    if REACH == LINE_REACH {
        return low;
    }
    let bytes = load512(&line.bytes.0);
    let low = _mm512_permutexvar_epi8(bytes, low);
    if REACH == WORD_REACH {
        return low;
    }
    _mm512_shrdv_epi64(low, _mm512_permutexvar_epi8(bytes, high), load512(&line.shifts.0))
}

/// The bytes of the kept bits that a line is decoded from: 64 of them and, if its words reach further, those behind the first
/// word; or the first word for all.
///
/// # Safety
/// There are [`window_len`] bytes from `start` on.
#[inline]
#[target_feature(enable = "avx512bw")]
unsafe fn window<const REACH: u8>(start: *const u8) -> [__m512i; 2] {
    // SAFETY: as for this function.
    unsafe {
        match REACH {
            LINE_REACH => [_mm512_set1_epi64(start.cast::<i64>().read_unaligned()), _mm512_setzero_si512()],
            WORD_REACH => [_mm512_loadu_si512(start.cast()), _mm512_setzero_si512()],
            _ => [_mm512_loadu_si512(start.cast()), _mm512_loadu_si512(start.add(WORD).cast())],
        }
    }
}

/// How many bytes of the kept bits are looked at for a line, from the one on that it starts in.
const fn window_len(reach: u8) -> usize {
    match reach {
        LINE_REACH => WORD,
        WORD_REACH => LINE,
        _ => LINE + WORD,
    }
}
