//! From codes and planes to an entry.

use std::arch::x86_64::*;

use super::{iota, transpose8};
use crate::ChunkError;
use crate::bpc::portable::{self, Sections};
use crate::bpc::vector::{Codes, ENTRY_ROOM, Spelled, fills_its_size, read_codes, window};
use crate::bpc::{ALL_ONES, ENTRY_LEN, Entry, PLANES};
use crate::cpu::{array, array_mut, load512, store512};

/// Decodes entry `i`, whose bytes start at `at`, and returns where they end. `padded` is scratch.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn decode_entry(
    sections: &Sections<'_>,
    i: usize,
    at: usize,
    padded: &mut [u8; ENTRY_ROOM],
    out: &mut Entry,
) -> Result<usize, ChunkError> {
    let size = usize::from(sections.sizes[i]);
    let string = &sections.strings[at..];
    if size == 0 {
        *out = [0; ENTRY_LEN];
    } else if size == ENTRY_LEN {
        out.copy_from_slice(&string[..ENTRY_LEN]);
    } else {
        let mut dbx = [[0; 4]; PLANES];
        let window = window(string, size, padded);
        match read_codes(window, &mut dbx) {
            Some(codes) if fills_its_size(&codes, window, size) => {
                let dbp = planes(&codes, window, &dbx);
                words(codes.first_word, dbp, out);
            }
            // Portable code says what is wrong.
            _ => *out = portable::decode_entry(&string[..size], i, sections.offset + at + size)?,
        }
    }
    Ok(at + size)
}

/// The inverse of the encoder's `PLANES_OF_BYTES`, with the planes of each 64-bit lane in the other order.
const BYTES_OF_PLANES: [u8; 64] = {
    let mut indices = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (q, j) = (i / 8, i % 8);
        indices[i] = (4 * (8 * (q / 4) + j) + q % 4) as u8;
        i += 1;
    }
    indices
};

/// Byte `k` of word `i`, from two vectors of bytes 3 and 2, 1 and 0. Plus 16, that of word `i` + 16.
const WORDS_OF_BYTES: [u8; 64] = {
    let mut indices = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (i, k) = (at / 4, at % 4);
        indices[at] = (32 * (3 - k) + i) as u8;
        at += 1;
    }
    indices
};

/// The DBP of planes 31 to 0, from the planes that stand in `window` behind the codes and those in `dbx`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi1,bmi2,popcnt")]
fn planes(codes: &Codes, window: &[u8; ENTRY_ROOM], dbx: &Spelled) -> [__m512i; 2] {
    let zero = _mm512_setzero_si512();
    let fields = fields(window, codes.bits);
    // Plane 32 comes first if it is there.
    let sign_is_plain = codes.plain & 1 == 1;
    let sign = if sign_is_plain { _mm512_cvtsi512_si32(fields[0]) } else { i32::from_le_bytes(dbx[0]) };
    let moved = if sign_is_plain { u16::MAX } else { 0 };
    let fields = [
        _mm512_mask_alignr_epi32::<1>(fields[0], moved, fields[1], fields[0]),
        _mm512_mask_alignr_epi32::<1>(fields[1], moved, zero, fields[1]),
    ];
    let (upper, lower) = ((codes.plain >> 1) as u16, (codes.plain >> 17) as u16);
    let from = _mm512_add_epi32(iota(), _mm512_set1_epi32(upper.count_ones() as i32));
    let back = _mm512_permutex2var_epi32(fields[0], from, fields[1]);
    let spelled = &dbx.as_flattened()[4..];
    let upper = _mm512_mask_expand_epi32(load512(array(spelled)), upper, fields[0]);
    let lower = _mm512_mask_expand_epi32(load512(array(&spelled[64..])), lower, back);

    // DBP is the exclusive or of the DBX of all planes above, down to here.
    let upper = _mm512_xor_si512(sums(upper, Sum::Xor), _mm512_set1_epi32(sign));
    let lower = _mm512_xor_si512(sums(lower, Sum::Xor), last(upper));
    anew([upper, lower], (codes.zero_dbp >> 1) as u32)
}

/// Fields of 31 bits that stand in `window` from bit `start`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn fields(window: &[u8; ENTRY_ROOM], start: usize) -> [__m512i; 2] {
    let zero = _mm512_setzero_si512();
    let front = &window[start / 8 % 64..];
    let packed = [load512(array(front)), load512(array(&front[64..]))];
    let count = _mm512_set1_epi32((start % 8) as i32);
    let packed = [
        _mm512_shrdv_epi32(packed[0], _mm512_alignr_epi32::<1>(packed[1], packed[0]), count),
        _mm512_shrdv_epi32(packed[1], _mm512_alignr_epi32::<1>(zero, packed[1]), count),
    ];
    // Field k starts at bit 31k: its low k bits end word k - 1.
    let before =
        [_mm512_alignr_epi32::<15>(packed[0], zero), _mm512_alignr_epi32::<15>(packed[1], packed[0])];
    let k = [iota(), _mm512_add_epi32(iota(), _mm512_set1_epi32(16))];
    let all_ones = _mm512_set1_epi32(ALL_ONES as i32);
    [
        _mm512_and_si512(_mm512_shldv_epi32(packed[0], before[0], k[0]), all_ones),
        _mm512_and_si512(_mm512_shldv_epi32(packed[1], before[1], k[1]), all_ones),
    ]
}

/// Starts the sums of exclusive or anew at each plane of `zero_dbp`, where bit 0 is plane 31.
#[inline]
#[target_feature(enable = "avx512f,bmi1")]
fn anew(mut dbp: [__m512i; 2], mut zero_dbp: u32) -> [__m512i; 2] {
    while zero_dbp != 0 {
        let plane = zero_dbp.trailing_zeros();
        let before = _mm512_permutex2var_epi32(dbp[0], _mm512_set1_epi32(plane as i32), dbp[1]);
        let from_here = u32::MAX << plane;
        dbp[0] = _mm512_mask_xor_epi32(dbp[0], from_here as u16, dbp[0], before);
        dbp[1] = _mm512_mask_xor_epi32(dbp[1], (from_here >> 16) as u16, dbp[1], before);
        zero_dbp &= zero_dbp - 1;
    }
    dbp
}

/// Writes the words that start at `first` and whose differences have these planes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn words(first: u32, dbp: [__m512i; 2], out: &mut Entry) {
    let bytes = [bytes_of_planes(dbp[0]), bytes_of_planes(dbp[1])];
    let low = sums(words_of_bytes::<0>(bytes), Sum::Add);
    let high = _mm512_add_epi32(sums(words_of_bytes::<16>(bytes), Sum::Add), last(low));
    let first = _mm512_set1_epi32(first as i32);
    let (out_low, out_high) = out.split_at_mut(64);
    let before = _mm512_alignr_epi32::<15>(low, _mm512_setzero_si512());
    store512(array_mut(out_low), _mm512_add_epi32(before, first));
    store512(array_mut(out_high), _mm512_add_epi32(_mm512_alignr_epi32::<15>(high, low), first));
}

/// Bytes 3 and 2 of all words from planes 31 to 16, or 1 and 0 from the others.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn bytes_of_planes(dbp: __m512i) -> __m512i {
    transpose8(_mm512_permutexvar_epi8(load512(&BYTES_OF_PLANES), dbp))
}

/// The 16 words from `FROM` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn words_of_bytes<const FROM: i8>(bytes: [__m512i; 2]) -> __m512i {
    let indices = _mm512_add_epi8(load512(&WORDS_OF_BYTES), _mm512_set1_epi8(FROM));
    _mm512_permutex2var_epi8(bytes[0], indices, bytes[1])
}

/// How lanes are summed up.
#[derive(Clone, Copy)]
enum Sum {
    Xor,
    Add,
}

/// Each lane's sum with all lanes before it.
#[inline]
#[target_feature(enable = "avx512f")]
fn sums(lanes: __m512i, sum: Sum) -> __m512i {
    let zero = _mm512_setzero_si512();
    let lanes = plus(lanes, _mm512_alignr_epi32::<15>(lanes, zero), sum);
    let lanes = plus(lanes, _mm512_alignr_epi32::<14>(lanes, zero), sum);
    let lanes = plus(lanes, _mm512_alignr_epi32::<12>(lanes, zero), sum);
    plus(lanes, _mm512_alignr_epi32::<8>(lanes, zero), sum)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn plus(a: __m512i, b: __m512i, sum: Sum) -> __m512i {
    match sum {
        Sum::Xor => _mm512_xor_si512(a, b),
        Sum::Add => _mm512_add_epi32(a, b),
    }
}

/// The last lane, in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn last(lanes: __m512i) -> __m512i {
    _mm512_permutexvar_epi32(_mm512_set1_epi32(15), lanes)
}
