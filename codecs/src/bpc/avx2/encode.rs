//! From an entry to its codes and planes.

use std::arch::x86_64::*;

use super::{bytes_of, iota, planes};
use crate::bpc::vector::{Appender, ENTRY_ROOM, Kinds, MAX_CODED_BITS, first_word_code, push_codes};
use crate::bpc::{ALL_ONES, ENTRY_LEN, Entry, PLANES};
use crate::cpu::lanes::COMPRESS;
use crate::cpu::{array, array_mut, load256, store256};

/// The size of one entry in bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn entry_size(entry: &Entry) -> usize {
    let Some(planes) = Planes::of(entry) else { return 0 };
    let bits = first_word_code(planes.first_word).1 + planes.kinds.bits();
    (bits.div_ceil(8) as usize).min(ENTRY_LEN)
}

/// Writes one entry to the front of `room` and returns its size in bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn encode_entry(entry: &Entry, room: &mut [u8; ENTRY_ROOM]) -> u8 {
    let Some(planes) = Planes::of(entry) else { return 0 };
    let (code, code_bits) = first_word_code(planes.first_word);
    let bits = code_bits + planes.kinds.bits();
    if bits > MAX_CODED_BITS {
        room[..ENTRY_LEN].copy_from_slice(entry);
        return ENTRY_LEN as u8;
    }
    let mut out = Appender { room, bytes: 0, waiting: 0, waiting_bits: 0 };
    out.push(code, code_bits);
    push_codes(&mut out, &planes.kinds, &planes.dbx);
    planes.pack(out);
    bits.div_ceil(8) as u8
}

/// An entry that is not zero, as planes.
struct Planes {
    first_word: u32,
    /// In the order of their codes.
    dbx: [[u8; 4]; PLANES],
    kinds: Kinds,
}

impl Planes {
    /// `None` if the entry is zero.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn of(entry: &Entry) -> Option<Self> {
        let mut words = [_mm256_setzero_si256(); 4];
        let mut any = _mm256_setzero_si256();
        for (i, words) in words.iter_mut().enumerate() {
            *words = halves(&entry[16 * i..], &entry[64 + 16 * i..]);
            any = _mm256_or_si256(any, *words);
        }
        if _mm256_testz_si256(any, any) == 1 {
            return None;
        }
        let (differences, sign) = differences(entry, words);
        #[rustfmt::skip]
        let within = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let bytes = bytes_of(differences, _mm256_broadcastsi128_si256(within));
        let mut dbp = [[0; 4]; PLANES];
        dbp[0] = sign.to_le_bytes();
        for (planes_of_byte, bytes) in dbp[1..].rchunks_exact_mut(8).zip(bytes) {
            for (slot, plane) in planes_of_byte.iter_mut().rev().zip(planes(bytes)) {
                *slot = plane.to_le_bytes();
            }
        }
        let mut dbx = [[0; 4]; PLANES];
        dbx[0] = sign.to_le_bytes();
        let kinds = kinds(dbp.as_flattened(), dbx.as_flattened_mut()).with_sign(sign);
        let [a, b, c, d, ..] = *entry;
        Some(Self { first_word: u32::from_le_bytes([a, b, c, d]), dbx, kinds })
    }

    /// Writes the plain planes, 31 bits each, behind the codes.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn pack(&self, out: Appender<'_>) {
        // One field in front and some behind are zero, or have no room in the entry.
        let mut fields = [[0u8; 4]; 48];
        let plain = self.kinds.plain();
        fields[1] = self.dbx[0];
        let mut count = 1 + (plain & 1) as usize;
        for group in 0..4 {
            let mask = (plain >> (1 + 8 * group)) as u8;
            let dbx = load256(array(self.dbx[1 + 8 * group..].as_flattened()));
            let kept = _mm256_permutevar8x32_epi32(dbx, controls(mask));
            store256(array_mut(fields[count..].as_flattened_mut()), kept);
            count += mask.count_ones() as usize;
        }
        for field in fields[count..].iter_mut().take(8) {
            *field = [0; 4];
        }
        // Field k starts at bit 31k + w, behind w bits that wait: word k has all but its low k - w bits, then those
        // of field k + 1. Counts below zero shift everything out.
        let t = _mm256_sub_epi32(iota(), _mm256_set1_epi32(out.waiting_bits as i32));
        let [before, this, next] = [0, 1, 2].map(|k| array(fields[k..].as_flattened()));
        let up = _mm256_sllv_epi32(load256(this), _mm256_sub_epi32(_mm256_setzero_si256(), t));
        let ends = _mm256_srlv_epi32(load256(before), _mm256_add_epi32(_mm256_set1_epi32(31), t));
        let waiting = _mm256_setr_epi32(out.waiting as i32, 0, 0, 0, 0, 0, 0, 0);
        let first = _mm256_or_si256(_mm256_or_si256(up, ends), _mm256_or_si256(waiting, word(t, this, next)));
        let target = &mut out.room[out.bytes..];
        store256(array_mut(target), first);
        for group in 1..4 {
            let t = _mm256_add_epi32(t, _mm256_set1_epi32(8 * group as i32));
            let [this, next] = [1, 2].map(|k| array(fields[8 * group + k..].as_flattened()));
            store256(array_mut(&mut target[32 * group..]), word(t, this, next));
        }
    }
}

/// The fields `this` without their low `t` bits, filled up with the low bits of `next`.
#[inline]
#[target_feature(enable = "avx2")]
fn word(t: __m256i, this: &[u8; 32], next: &[u8; 32]) -> __m256i {
    let rest = _mm256_sub_epi32(_mm256_set1_epi32(31), t);
    _mm256_or_si256(_mm256_srlv_epi32(load256(this), t), _mm256_sllv_epi32(load256(next), rest))
}

/// The lanes of the set bits of `mask`, then any.
#[inline]
#[target_feature(enable = "avx2")]
fn controls(mask: u8) -> __m256i {
    _mm256_cvtepu8_epi32(_mm_set_epi64x(0, i64::from_le_bytes(COMPRESS[usize::from(mask)])))
}

/// 16 bytes at the front of `low`, and 16 of `high`.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(low: &[u8], high: &[u8]) -> __m256i {
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(quarter(low)), quarter(high))
}

/// The 16 bytes at the front of `bytes`.
#[inline]
#[target_feature(enable = "avx2")]
fn quarter(bytes: &[u8]) -> __m128i {
    let [low, high] = [0, 8].map(|at| i64::from_le_bytes(*array(&bytes[at..])));
    _mm_set_epi64x(high, low)
}

/// The low 32 bits of the differences of words, and plane 32. Words are in the order of [`bytes_of`].
#[inline]
#[target_feature(enable = "avx2")]
fn differences(entry: &Entry, words: [__m256i; 4]) -> ([__m256i; 4], u32) {
    // Behind the last word stands itself, for a difference of zero.
    let last = quarter(&entry[112..]);
    let last = _mm256_castsi128_si256(_mm_shuffle_epi32::<0b11_11_10_01>(last));
    let next = [
        halves(&entry[4..], &entry[68..]),
        halves(&entry[20..], &entry[84..]),
        halves(&entry[36..], &entry[100..]),
        _mm256_inserti128_si256::<1>(
            _mm256_castsi128_si256(quarter(&entry[52..])),
            _mm256_castsi256_si128(last),
        ),
    ];
    let mut differences = [_mm256_setzero_si256(); 4];
    let mut negative = [_mm256_setzero_si256(); 4];
    // Words are unsigned: with the top bit turned, a signed comparison orders them.
    let top = _mm256_set1_epi32(i32::MIN);
    for i in 0..4 {
        differences[i] = _mm256_sub_epi32(next[i], words[i]);
        negative[i] = _mm256_cmpgt_epi32(_mm256_xor_si256(words[i], top), _mm256_xor_si256(next[i], top));
    }
    (differences, mask(negative))
}

/// One bit per lane, of lanes of ones or zeros in the order of [`bytes_of`].
#[inline]
#[target_feature(enable = "avx2")]
fn mask(lanes: [__m256i; 4]) -> u32 {
    let low = _mm256_packs_epi32(lanes[0], lanes[1]);
    let high = _mm256_packs_epi32(lanes[2], lanes[3]);
    _mm256_movemask_epi8(_mm256_packs_epi16(low, high)) as u32
}

/// Writes the DBX of all planes but the first, and returns their kinds.
#[inline]
#[target_feature(enable = "avx2")]
fn kinds(dbp: &[u8], dbx: &mut [u8]) -> Kinds {
    let nothing = _mm256_setzero_si256();
    let (mut zero, mut ones, mut zero_dbp) = ([nothing; 4], [nothing; 4], [nothing; 4]);
    let (mut pair, mut single) = ([nothing; 4], [nothing; 4]);
    for i in 0..4 {
        let (low, high) = (16 * i, 64 + 16 * i);
        let this = halves(&dbp[4 + low..], &dbp[4 + high..]);
        let x = _mm256_xor_si256(this, halves(&dbp[low..], &dbp[high..]));
        for (at, half) in [(low, _mm256_castsi256_si128(x)), (high, _mm256_extracti128_si256::<1>(x))] {
            let bytes = [_mm_cvtsi128_si64(half), _mm_extract_epi64::<1>(half)];
            dbx[4 + at..12 + at].copy_from_slice(&bytes[0].to_le_bytes());
            dbx[12 + at..20 + at].copy_from_slice(&bytes[1].to_le_bytes());
        }
        let lowest = _mm256_and_si256(x, _mm256_sub_epi32(nothing, x));
        let two = _mm256_add_epi32(lowest, _mm256_add_epi32(lowest, lowest));
        zero[i] = _mm256_cmpeq_epi32(x, nothing);
        ones[i] = _mm256_cmpeq_epi32(x, _mm256_set1_epi32(ALL_ONES as i32));
        zero_dbp[i] = _mm256_cmpeq_epi32(this, nothing);
        pair[i] = _mm256_cmpeq_epi32(x, two);
        single[i] = _mm256_cmpeq_epi32(x, lowest);
    }
    // The first row of the table that fits.
    let [zero, ones] = [mask(zero), mask(ones)].map(u64::from);
    let zero_dbp = u64::from(mask(zero_dbp)) & !(zero | ones);
    let others = !(zero | zero_dbp);
    Kinds {
        zero,
        ones,
        zero_dbp,
        pair: u64::from(mask(pair)) & others,
        single: u64::from(mask(single)) & others,
    }
}
