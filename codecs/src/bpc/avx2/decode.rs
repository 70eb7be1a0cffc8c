//! From codes and planes to an entry.

use std::arch::x86_64::*;

use super::{bytes_of, iota, planes};
use crate::ChunkError;
use crate::bpc::portable::{self, Sections};
use crate::bpc::vector::{Codes, ENTRY_ROOM, Spelled, fills_its_size, read_codes, window};
use crate::bpc::{ALL_ONES, ENTRY_LEN, Entry, PLANES};
use crate::cpu::lanes::EXPAND;
use crate::cpu::{array, array_mut, load256, store256};

/// Decodes entry `i`, whose bytes start at `at`, and returns where they end. `padded` is scratch.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
                let dbp = planes_of(&codes, window, &dbx);
                words(codes.first_word, dbp, out);
            }
            // Portable code says what is wrong.
            _ => *out = portable::decode_entry(&string[..size], i, sections.offset + at + size)?,
        }
    }
    Ok(at + size)
}

/// The DBP of planes 31 to 0, from the planes that stand in `window` behind the codes and those in `dbx`.
#[inline]
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn planes_of(codes: &Codes, window: &[u8; ENTRY_ROOM], dbx: &Spelled) -> [__m256i; 4] {
    let mut fields = [[0; 4]; 40];
    unpack(window, codes.bits, &mut fields);
    // Plane 32 comes first if it is there.
    let mut count = (codes.plain & 1) as usize;
    let sign = if count == 1 { fields[0] } else { dbx[0] };
    let mut above = _mm256_set1_epi32(i32::from_le_bytes(sign));
    let mut dbp = [_mm256_setzero_si256(); 4];
    for (group, dbp) in dbp.iter_mut().enumerate() {
        let mask = (codes.plain >> (1 + 8 * group)) as u8;
        let controls = i64::from_le_bytes(EXPAND[usize::from(mask)]);
        // A lane that nothing goes to has a negative control.
        let controls = _mm256_cvtepi8_epi32(_mm_set_epi64x(0, controls));
        let stored = load256(array(fields[count..].as_flattened()));
        let plain = _mm256_permutevar8x32_epi32(stored, controls);
        let plain = _mm256_andnot_si256(_mm256_srai_epi32::<31>(controls), plain);
        let spelled = load256(array(dbx[1 + 8 * group..].as_flattened()));
        count += mask.count_ones() as usize;
        // DBP is the exclusive or of the DBX of all planes above, down to here.
        *dbp = _mm256_xor_si256(exclusive_ors(_mm256_or_si256(plain, spelled)), above);
        above = _mm256_permutevar8x32_epi32(*dbp, _mm256_set1_epi32(7));
    }
    if codes.zero_dbp >> 1 != 0 { anew(dbp, (codes.zero_dbp >> 1) as u32) } else { dbp }
}

/// Fields of 31 bits that stand in `window` from bit `start`.
#[inline]
#[target_feature(enable = "avx2")]
fn unpack(window: &[u8; ENTRY_ROOM], start: usize, fields: &mut [[u8; 4]; 40]) {
    let front = &window[start / 8 % 64..];
    let all_ones = _mm256_set1_epi32(ALL_ONES as i32);
    // Field k starts at bit 31k + s: t = k - s of its low bits end word k - 1. Counts below zero shift all out.
    let t = _mm256_sub_epi32(iota(), _mm256_set1_epi32((start % 8) as i32));
    let this = load256(array(front));
    let before = _mm256_permutevar8x32_epi32(this, _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6));
    let whole = _mm256_srlv_epi32(this, _mm256_sub_epi32(_mm256_setzero_si256(), t));
    let rest = _mm256_sllv_epi32(load256(array(&front[4..])), _mm256_add_epi32(_mm256_set1_epi32(32), t));
    let first = _mm256_or_si256(_mm256_or_si256(whole, rest), field(t, before, this));
    store256(array_mut(fields.as_flattened_mut()), _mm256_and_si256(first, all_ones));
    for group in 1..4 {
        let t = _mm256_add_epi32(t, _mm256_set1_epi32(8 * group as i32));
        let [before, this] = [32 * group - 4, 32 * group].map(|at| array(&front[at..]));
        let field = _mm256_and_si256(field(t, load256(before), load256(this)), all_ones);
        store256(array_mut(fields[8 * group..].as_flattened_mut()), field);
    }
}

/// The top `t` bits of `before`, followed by `this`.
#[inline]
#[target_feature(enable = "avx2")]
fn field(t: __m256i, before: __m256i, this: __m256i) -> __m256i {
    let down = _mm256_sub_epi32(_mm256_set1_epi32(32), t);
    _mm256_or_si256(_mm256_srlv_epi32(before, down), _mm256_sllv_epi32(this, t))
}

/// Starts the exclusive ors anew at each plane of `zero_dbp`, where bit 0 is plane 31.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1")]
fn anew(dbp: [__m256i; 4], mut zero_dbp: u32) -> [__m256i; 4] {
    let mut planes = [[0; 4]; 32];
    for (group, dbp) in dbp.into_iter().enumerate() {
        store256(array_mut(planes[8 * group..].as_flattened_mut()), dbp);
    }
    while zero_dbp != 0 {
        let plane = zero_dbp.trailing_zeros() as usize;
        let before = u32::from_le_bytes(planes[plane]);
        for plane in &mut planes[plane..] {
            *plane = (u32::from_le_bytes(*plane) ^ before).to_le_bytes();
        }
        zero_dbp &= zero_dbp - 1;
    }
    let mut dbp = dbp;
    for (group, dbp) in dbp.iter_mut().enumerate() {
        *dbp = load256(array(planes[8 * group..].as_flattened()));
    }
    dbp
}

/// Each lane xor all lanes before it.
#[inline]
#[target_feature(enable = "avx2")]
fn exclusive_ors(lanes: __m256i) -> __m256i {
    let lanes = _mm256_xor_si256(lanes, _mm256_slli_si256::<4>(lanes));
    let lanes = _mm256_xor_si256(lanes, _mm256_slli_si256::<8>(lanes));
    // The last lane of the low half goes to all lanes of the high half.
    let low = _mm256_permute2x128_si256::<0b0000_1000>(lanes, lanes);
    _mm256_xor_si256(lanes, _mm256_shuffle_epi32::<0xff>(low))
}

/// Writes the words that start at `first` and whose differences have these planes.
#[inline]
#[target_feature(enable = "avx2")]
fn words(first: u32, dbp: [__m256i; 4], out: &mut Entry) {
    // Planes from 0 up, four at a time: 0 and 16, 4 and 20, 8 and 24, 12 and 28.
    let rows = [
        _mm256_permute2x128_si256::<0x31>(dbp[3], dbp[1]),
        _mm256_permute2x128_si256::<0x20>(dbp[3], dbp[1]),
        _mm256_permute2x128_si256::<0x31>(dbp[2], dbp[0]),
        _mm256_permute2x128_si256::<0x20>(dbp[2], dbp[0]),
    ];
    #[rustfmt::skip]
    let within = _mm_setr_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3);
    let bytes = bytes_of(rows, _mm256_broadcastsi128_si256(within));
    let mut word = first;
    for (out, bytes) in out.as_chunks_mut::<32>().0.iter_mut().zip(bytes) {
        for (out, difference) in out.as_chunks_mut().0.iter_mut().zip(planes(bytes)) {
            *out = word.to_le_bytes();
            word = word.wrapping_add(difference);
        }
    }
}
