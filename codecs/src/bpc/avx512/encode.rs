//! From an entry to its codes and planes.

use std::arch::x86_64::*;

use super::{iota, transpose8};
use crate::bpc::vector::{Appender, ENTRY_ROOM, Kinds, MAX_CODED_BITS, first_word_code, sign_code};
use crate::bpc::{ALL_ONES, ENTRY_LEN, Entry};
use crate::cpu::{array, array_mut, load512, store512};

/// The size of one entry in bytes.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn entry_size(entry: &Entry) -> usize {
    let Some(planes) = Planes::of(entry) else { return 0 };
    let bits = first_word_code(planes.first_word).1 + planes.kinds().bits();
    (bits.div_ceil(8) as usize).min(ENTRY_LEN)
}

/// Writes one entry to the front of `room` and returns its size in bytes.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode_entry(entry: &Entry, room: &mut [u8; ENTRY_ROOM]) -> u8 {
    let Some(planes) = Planes::of(entry) else { return 0 };
    let kinds = planes.kinds();
    let (code, code_bits) = first_word_code(planes.first_word);
    let bits = code_bits + kinds.bits();
    if bits > MAX_CODED_BITS {
        room[..ENTRY_LEN].copy_from_slice(entry);
        return ENTRY_LEN as u8;
    }
    let (sign, sign_bits) = sign_code(&kinds, planes.sign);
    let mut out = Appender { room, bytes: 0, waiting: 0, waiting_bits: 0 };
    out.push(code | sign << code_bits, code_bits + sign_bits);
    let [codes, lengths] = planes.codes(&kinds);
    let left = bits - 31 * kinds.plain().count_ones() - code_bits - sign_bits;
    if left <= Appender::MOST {
        out.push(join_all(codes, lengths), left);
    } else {
        for (code, bits) in lanes(codes).into_iter().zip(lanes(lengths)) {
            out.push(code, bits as u32);
        }
    }
    let [low, high] = planes.packed(kinds.plain(), out.waiting, out.waiting_bits);
    let behind_codes = &mut out.room[out.bytes..];
    store512(array_mut(behind_codes), low);
    store512(array_mut(&mut behind_codes[64..]), high);
    bits.div_ceil(8) as u8
}

/// The lanes of a vector of 64-bit numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn lanes(vector: __m512i) -> [u64; 8] {
    let mut bytes = [0; 64];
    store512(&mut bytes, vector);
    let mut lanes = [0; 8];
    for (lane, bytes) in lanes.iter_mut().zip(bytes.as_chunks().0) {
        *lane = u64::from_le_bytes(*bytes);
    }
    lanes
}

/// Byte `j` of 64-bit lane `q`: byte 3 (`q` < 4) or 2 of words 8(`q` mod 4) to + 7, last word first. Plus 2, bytes
/// 1 and 0 come out.
const BYTES_OF_WORDS: [u8; 64] = {
    let mut indices = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (q, j) = (i / 8, i % 8);
        indices[i] = (4 * (8 * (q % 4) + 7 - j) + 1 - q / 4) as u8;
        i += 1;
    }
    indices
};

/// Byte `g` of 32-bit lane `e`: bits 8`g` to + 7 of plane 7 − `e` mod 8 of the first or last four 64-bit lanes.
const PLANES_OF_BYTES: [u8; 64] = {
    let mut indices = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (e, g) = (i / 4, i % 4);
        indices[i] = (8 * (4 * (e / 8) + g) + 7 - e % 8) as u8;
        i += 1;
    }
    indices
};

/// An entry that is not zero, as planes.
struct Planes {
    first_word: u32,
    /// Plane 32.
    sign: u32,
    dbp: [__m512i; 2],
    dbx: [__m512i; 2],
}

impl Planes {
    /// `None` if the entry is zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni,bmi1,bmi2")]
    fn of(entry: &Entry) -> Option<Self> {
        let words = [load512(array(entry)), load512(array(&entry[64..]))];
        let any = _mm512_or_si512(words[0], words[1]);
        if _mm512_test_epi32_mask(any, any) == 0 {
            return None;
        }
        // Behind the last word stands itself, for a difference of zero.
        let last = _mm512_permutexvar_epi32(_mm512_set1_epi32(15), words[1]);
        let next = [_mm512_alignr_epi32::<1>(words[1], words[0]), _mm512_alignr_epi32::<1>(last, words[1])];
        let low_half = _mm512_sub_epi32(next[0], words[0]);
        let high_half = _mm512_sub_epi32(next[1], words[1]);
        let negative = u32::from(_mm512_cmplt_epu32_mask(next[0], words[0]));
        let sign = negative | u32::from(_mm512_cmplt_epu32_mask(next[1], words[1])) << 16;
        let dbp = [planes_of_bytes::<2>(low_half, high_half), planes_of_bytes::<0>(low_half, high_half)];
        let above = [
            _mm512_alignr_epi32::<15>(dbp[0], _mm512_set1_epi32(sign as i32)),
            _mm512_alignr_epi32::<15>(dbp[1], dbp[0]),
        ];
        let dbx = [_mm512_xor_si512(dbp[0], above[0]), _mm512_xor_si512(dbp[1], above[1])];
        let first_word = _mm512_cvtsi512_si32(words[0]) as u32;
        Some(Self { first_word, sign, dbp, dbx })
    }

    #[inline]
    #[target_feature(enable = "avx512f,bmi1,bmi2,popcnt")]
    fn kinds(&self) -> Kinds {
        let upper = kinds_of(self.dbp[0], self.dbx[0]);
        let lower = kinds_of(self.dbp[1], self.dbx[1]);
        upper.followed_by(&lower).with_sign(self.sign)
    }

    /// The codes of all planes but 32, in eight 64-bit lanes, and their lengths in bits, at most 40.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt")]
    fn codes(&self, kinds: &Kinds) -> [__m512i; 2] {
        let (upper, upper_lengths) = half_codes::<0>(self.dbx[0], kinds);
        let (lower, lower_lengths) = half_codes::<16>(self.dbx[1], kinds);
        join([upper, lower], [upper_lengths, lower_lengths])
    }

    /// The planes of `plain`, 31 bits each, behind some bits that are waiting.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi1,bmi2,popcnt")]
    fn packed(&self, plain: u64, waiting: u64, waiting_bits: u32) -> [__m512i; 2] {
        let (upper, lower) = ((plain >> 1) as u16, (plain >> 17) as u16);
        let front = _mm512_maskz_compress_epi32(upper, self.dbx[0]);
        let back = _mm512_maskz_compress_epi32(lower, self.dbx[1]);
        // `back` continues where `front` ends.
        let count = upper.count_ones();
        let back = _mm512_permutexvar_epi32(_mm512_sub_epi32(iota(), _mm512_set1_epi32(count as i32)), back);
        let in_front = ((1u32 << count) - 1) as u16;
        let fields = [_mm512_mask_mov_epi32(back, in_front, front), _mm512_maskz_mov_epi32(in_front, back)];
        let with_sign = 0u16.wrapping_sub((plain & 1) as u16);
        let fields = [
            _mm512_mask_alignr_epi32::<15>(
                fields[0],
                with_sign,
                fields[0],
                _mm512_set1_epi32(self.sign as i32),
            ),
            _mm512_mask_alignr_epi32::<15>(fields[1], with_sign, fields[1], fields[0]),
        ];
        // Field k starts at bit 31k: word k has all but its low k bits, then those of field k + 1.
        let zero = _mm512_setzero_si512();
        let next =
            [_mm512_alignr_epi32::<1>(fields[1], fields[0]), _mm512_alignr_epi32::<1>(zero, fields[1])];
        let k = [iota(), _mm512_add_epi32(iota(), _mm512_set1_epi32(16))];
        let rest =
            [_mm512_sub_epi32(_mm512_set1_epi32(31), k[0]), _mm512_sub_epi32(_mm512_set1_epi32(31), k[1])];
        let packed = [
            _mm512_or_si512(_mm512_srlv_epi32(fields[0], k[0]), _mm512_sllv_epi32(next[0], rest[0])),
            _mm512_or_si512(_mm512_srlv_epi32(fields[1], k[1]), _mm512_sllv_epi32(next[1], rest[1])),
        ];
        // Room for the bits that wait.
        let count = _mm512_set1_epi32(waiting_bits as i32);
        let waiting = _mm512_set1_epi32((waiting << (32 - waiting_bits)) as u32 as i32);
        [
            _mm512_shldv_epi32(packed[0], _mm512_alignr_epi32::<15>(packed[0], waiting), count),
            _mm512_shldv_epi32(packed[1], _mm512_alignr_epi32::<15>(packed[1], packed[0]), count),
        ]
    }
}

/// The planes of bytes `BYTE` + 1 and `BYTE` of the words of two vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn planes_of_bytes<const BYTE: i8>(low_half: __m512i, high_half: __m512i) -> __m512i {
    let indices = _mm512_add_epi8(load512(&BYTES_OF_WORDS), _mm512_set1_epi8(BYTE));
    let bytes = _mm512_permutex2var_epi8(low_half, indices, high_half);
    _mm512_permutexvar_epi8(load512(&PLANES_OF_BYTES), transpose8(bytes))
}

/// The kinds of 16 planes.
#[inline]
#[target_feature(enable = "avx512f")]
fn kinds_of(dbp: __m512i, dbx: __m512i) -> Kinds {
    let zero = _mm512_testn_epi32_mask(dbx, dbx);
    let ones = _mm512_cmpeq_epi32_mask(dbx, _mm512_set1_epi32(ALL_ONES as i32));
    let zero_dbp = _mm512_testn_epi32_mask(dbp, dbp) & !(zero | ones);
    let lowest = lowest_ones(dbx);
    let two = _mm512_add_epi32(lowest, _mm512_add_epi32(lowest, lowest));
    let others = !(zero | zero_dbp);
    let pair = _mm512_cmpeq_epi32_mask(dbx, two) & others;
    let single = _mm512_cmpeq_epi32_mask(dbx, lowest) & others;
    Kinds {
        zero: u64::from(zero),
        ones: u64::from(ones),
        zero_dbp: u64::from(zero_dbp),
        pair: u64::from(pair),
        single: u64::from(single),
    }
}

/// The codes of the 16 planes from plane 31 − `FROM` down, and their lengths in bits.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn half_codes<const FROM: u32>(dbx: __m512i, kinds: &Kinds) -> (__m512i, __m512i) {
    let number = _mm512_set1_epi32;
    // The mask of one kind. Plane 32 is in front of the other planes.
    let mask = |kind: u64| (kind >> (1 + FROM)) as u16;
    // Where the lowest one is, and how many planes are zero from here on.
    let index = _mm512_popcnt_epi32(_mm512_sub_epi32(lowest_ones(dbx), number(1)));
    let from_here = _mm512_add_epi32(iota(), number(FROM as i32));
    let zeros = _mm512_srlv_epi32(number((kinds.zero >> 1) as i32), from_here);
    let run = _mm512_popcnt_epi32(_mm512_andnot_si512(_mm512_add_epi32(zeros, number(1)), zeros));

    let index = _mm512_slli_epi32::<5>(index);
    let run = _mm512_sub_epi32(_mm512_slli_epi32::<2>(run), number((2 << 2) - 0b10));
    let (plain, starts) = (mask(kinds.plain()), mask(kinds.run_starts()));
    let code = _mm512_maskz_mov_epi32(plain, number(0b1));
    let code = _mm512_mask_mov_epi32(code, mask(kinds.zero_dbp), number(0b10000));
    let code = _mm512_mask_add_epi32(code, mask(kinds.pair), index, number(0b01000));
    let code = _mm512_mask_add_epi32(code, mask(kinds.single), index, number(0b11000));
    let code = _mm512_mask_mov_epi32(code, starts, run);
    let code = _mm512_mask_mov_epi32(code, mask(kinds.short_runs()), number(0b100));
    let length = _mm512_maskz_mov_epi32(plain, number(1));
    let length = _mm512_mask_mov_epi32(length, mask(kinds.ones | kinds.zero_dbp), number(5));
    let length = _mm512_mask_mov_epi32(length, mask(kinds.pair | kinds.single), number(10));
    let length = _mm512_mask_mov_epi32(length, starts, number(7));
    let length = _mm512_mask_mov_epi32(length, mask(kinds.short_runs()), number(3));
    (code, length)
}

/// The lowest one of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn lowest_ones(lanes: __m512i) -> __m512i {
    _mm512_and_si512(lanes, _mm512_sub_epi32(_mm512_setzero_si512(), lanes))
}

/// Joins 32 codes of at most 10 bits into eight of at most 40; codes and lengths.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn join(codes: [__m512i; 2], lengths: [__m512i; 2]) -> [__m512i; 2] {
    let (codes, lengths) = (halfwords(codes), halfwords(lengths));
    let low = _mm512_set1_epi32(0xffff);
    let upper = _mm512_sllv_epi32(_mm512_srli_epi32::<16>(codes), _mm512_and_si512(lengths, low));
    let codes = _mm512_or_si512(_mm512_and_si512(codes, low), upper);
    let lengths = _mm512_madd_epi16(lengths, _mm512_set1_epi16(1));
    let low = _mm512_set1_epi64(0xffff_ffff);
    let upper = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(codes), _mm512_and_si512(lengths, low));
    let codes = _mm512_or_si512(_mm512_and_si512(codes, low), upper);
    let lengths = _mm512_add_epi64(_mm512_and_si512(lengths, low), _mm512_srli_epi64::<32>(lengths));
    [codes, lengths]
}

/// The low halves of the lanes of two vectors, in one.
#[inline]
#[target_feature(enable = "avx512f")]
fn halfwords(words: [__m512i; 2]) -> __m512i {
    let low = _mm512_castsi256_si512(_mm512_cvtepi32_epi16(words[0]));
    _mm512_inserti64x4::<1>(low, _mm512_cvtepi32_epi16(words[1]))
}

/// Joins eight codes that have at most 64 bits together.
#[inline]
#[target_feature(enable = "avx512f")]
fn join_all(codes: __m512i, lengths: __m512i) -> u64 {
    // What comes down from other lanes than these is not looked at.
    let codes = _mm512_or_si512(codes, _mm512_sllv_epi64(_mm512_alignr_epi64::<1>(codes, codes), lengths));
    let lengths = _mm512_add_epi64(lengths, _mm512_alignr_epi64::<1>(lengths, lengths));
    let codes = _mm512_or_si512(codes, _mm512_sllv_epi64(_mm512_alignr_epi64::<2>(codes, codes), lengths));
    let lengths = _mm512_add_epi64(lengths, _mm512_alignr_epi64::<2>(lengths, lengths));
    let codes = _mm512_or_si512(codes, _mm512_sllv_epi64(_mm512_alignr_epi64::<4>(codes, codes), lengths));
    _mm_cvtsi128_si64(_mm512_castsi512_si128(codes)) as u64
}
