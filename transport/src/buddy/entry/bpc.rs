//! Entries of 128 bytes, coded by BPC.
//!
//! | state | stored bytes | what they are |
//! |---|---|---|
//! | 0 | 0 | nothing: the entry is zero |
//! | 1–3 | 32, 64, 96 | a code that leaves 1–31 bytes, which are zero but for the last: it says how many they are |
//! | 4 | 128 | the raw bytes |
//! | 5–7 | 32, 64, 96 | a code that fills them |
//! | 8 | 8 | a code that leaves 1–7 bytes, as above |
//! | 9 | 8 | a code that fills them |
//!
//! So four bits tell the exact length of a code, and none of its bytes is lost for that.

use mgcomp_codecs::bpc::{Bpc, ENTRY_LEN};
use mgcomp_codecs::{ChunkError, Codec, Cpu, Element};

use super::super::error::EntryError;
use super::super::form::SECTOR_LEN;
use super::{Faults, room};

/// Entries whose states share a sector.
pub(super) const BATCH: usize = 2 * SECTOR_LEN;

/// The longest code that is worth keeping: more takes four sectors, like raw bytes.
const LONGEST: usize = ENTRY_LEN - SECTOR_LEN;
const ZERO: u16 = 0;
const RAW: u16 = 4;
/// What is added to the state of a code that leaves bytes if it leaves none.
const FULL: u16 = 4;
/// Bytes of the short states.
const SHORT_LEN: usize = 8;
const SHORT: u16 = 8;
const SHORT_FULL: u16 = 9;

pub(super) const fn stored_len(state: u16) -> Option<usize> {
    match state {
        ZERO..=RAW => Some(state as usize * SECTOR_LEN),
        5..=7 => Some((state - FULL) as usize * SECTOR_LEN),
        SHORT | SHORT_FULL => Some(SHORT_LEN),
        _ => None,
    }
}

/// The state of an entry whose code has `len` bytes.
const fn state_of(len: usize) -> u16 {
    match len {
        0 => ZERO,
        1..SHORT_LEN => SHORT,
        SHORT_LEN => SHORT_FULL,
        _ if len > LONGEST => RAW,
        _ => len.div_ceil(SECTOR_LEN) as u16 + if len.is_multiple_of(SECTOR_LEN) { FULL } else { 0 },
    }
}

fn bpc() -> Bpc {
    Bpc::on(Cpu::active())
}

/// Codes the entries in `raw` and returns their sizes and their codes, one after the other.
fn code<'a>(raw: &[u8], scratch: &'a mut Vec<u8>) -> (&'a [u8], &'a [u8]) {
    let coded = room(scratch, bpc().max_chunk_len(Element::U32, raw.len()));
    let len = bpc().encode_chunk(Element::U32, raw, coded);
    coded[..len].split_at(raw.len() / ENTRY_LEN)
}

pub(super) fn encode(
    raw: &[u8],
    scratch: &mut Vec<u8>,
    mut keep: impl FnMut(usize, u16, &[u8]) -> Result<(), EntryError>,
) -> Result<(), EntryError> {
    let (sizes, mut codes) = code(raw, scratch);
    for (entry, (&size, raw)) in sizes.iter().zip(raw.chunks_exact(ENTRY_LEN)).enumerate() {
        let (code, behind) = codes.split_at(size.into());
        codes = behind;
        match state_of(code.len()) {
            RAW => keep(entry, RAW, raw)?,
            state => {
                let mut stored = [0; LONGEST];
                let len = stored_len(state).unwrap_or(0);
                stored[..code.len()].copy_from_slice(code);
                if len > code.len() {
                    stored[len - 1] = (len - code.len()) as u8;
                }
                keep(entry, state, &stored[..len])?;
            }
        }
    }
    Ok(())
}

pub(super) fn states(raw: &[u8], scratch: &mut Vec<u8>, see: impl FnMut(u16)) {
    code(raw, scratch).0.iter().map(|&size| state_of(size.into())).for_each(see);
}

pub(super) fn decode(
    states: &[u16],
    scratch: &mut Vec<u8>,
    mut fetch: impl FnMut(usize, &mut [u8]) -> Result<(), EntryError>,
    raw: &mut [u8],
    (unknown, damaged): Faults<'_>,
) -> Result<(), EntryError> {
    let coded = room(scratch, states.len() * (1 + ENTRY_LEN));
    let mut end = states.len();
    for (entry, &state) in states.iter().enumerate() {
        let len = stored_len(state).ok_or_else(|| unknown(entry))?;
        let stored = &mut coded[end..end + len];
        fetch(entry, stored)?;
        let size = code_len(state, stored).map_err(|source| damaged(entry, source))?;
        coded[entry] = size as u8;
        end += size;
    }
    bpc().decode_chunk(Element::U32, &coded[..end], raw).map_err(|source| damaged(0, source))
}

/// The length of the code in `stored`.
fn code_len(state: u16, stored: &[u8]) -> Result<usize, ChunkError> {
    let (most, len) = match state {
        1..=3 => (SECTOR_LEN as u8 - 1, stored.len()),
        SHORT => (SHORT_LEN as u8 - 1, stored.len()),
        _ => return Ok(stored.len()),
    };
    let left = stored[len - 1];
    if left == 0 || left > most {
        return Err(ChunkError::Field { offset: len - 1, value: left.into(), most: most.into() });
    }
    let code_len = len - usize::from(left);
    if stored[code_len..len - 1].iter().any(|&byte| byte != 0) {
        return Err(ChunkError::Padding { offset: len - 1 });
    }
    Ok(code_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(entry: &[u8; ENTRY_LEN]) -> (u16, Vec<u8>) {
        let mut all = Vec::new();
        encode(entry, &mut Vec::new(), |_, state, stored| {
            all.push((state, stored.to_vec()));
            Ok(())
        })
        .unwrap();
        all.remove(0)
    }

    fn words(word: impl Fn(u32) -> u32) -> [u8; ENTRY_LEN] {
        let bytes: Vec<u8> = (0..32).flat_map(|i| word(i).to_le_bytes()).collect();
        bytes.try_into().unwrap()
    }

    #[test]
    fn states_tell_lengths() {
        let lens = [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128];
        let states = [0, 8, 8, 9, 1, 1, 5, 2, 2, 6, 3, 3, 7, 4, 4, 4];
        assert_eq!(lens.map(state_of), states);
        let stored = [0, 8, 8, 8, 32, 32, 32, 64, 64, 64, 96, 96, 96, 128, 128, 128];
        assert_eq!(states.map(|state| stored_len(state).unwrap()), stored);
        assert!((10..=u16::MAX).all(|state| stored_len(state).is_none()));
    }

    #[test]
    fn entries_become_sectors() {
        assert_eq!(stored(&[0; ENTRY_LEN]), (0, vec![]));
        // First word zero: 000. Differences 1: planes 32 to 1 are zero, 01 and 30 in five bits, the lowest first;
        // plane 0 is all ones, 00000. That is 000 01 01111 00000, two bytes; six of eight are left.
        let ramp = (8, vec![0b1101_0000, 0b11, 0, 0, 0, 0, 0, 6]);
        assert_eq!(stored(&words(|i| i)), ramp);
        let noise =
            words(|i| (i + 1).wrapping_mul(0x9e37_79b9) ^ i.wrapping_mul(0x85eb_ca6b).rotate_left(13));
        assert_eq!(stored(&noise), (4, noise.to_vec()));
    }

    #[test]
    fn damage_is_told() {
        let fault = |state: u16, bytes: &[u8]| code_len(state, bytes).unwrap_err();
        let mut bytes = [0; 32];
        assert_eq!(fault(1, &bytes), ChunkError::Field { offset: 31, value: 0, most: 31 });
        bytes[31] = 32;
        assert_eq!(fault(1, &bytes), ChunkError::Field { offset: 31, value: 32, most: 31 });
        (bytes[31], bytes[29]) = (3, 1);
        assert_eq!(fault(1, &bytes), ChunkError::Padding { offset: 31 });
        bytes[31] = 2;
        assert_eq!(code_len(1, &bytes), Ok(30));
        assert_eq!(fault(8, &[0, 0, 0, 0, 0, 0, 0, 8]), ChunkError::Field { offset: 7, value: 8, most: 7 });
    }
}
