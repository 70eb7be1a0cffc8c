//! Entries of up to 32 KiB, coded by XP.
//!
//! | state | stored bytes | what they are |
//! |---|---|---|
//! | 0 | 0 | nothing: the entry is zero |
//! | 1 to below raw bytes / 16 | 16 · state | a chunk of XP, and 0–15 zero bytes |
//! | raw bytes / 16 | all | the raw bytes |

use mgcomp_codecs::xp::Xp;
use mgcomp_codecs::{Codec, Cpu, Element};

use super::super::error::EntryError;
use super::{Faults, room};

/// Bytes that a state counts: those to which frames round chunks up.
const UNIT_LEN: usize = 16;

pub(super) const fn stored_len(state: u16, raw_len: usize) -> Option<usize> {
    let len = state as usize * UNIT_LEN;
    if len <= raw_len { Some(len) } else { None }
}

fn xp() -> Xp {
    Xp::on(Cpu::active())
}

fn is_zero(raw: &[u8]) -> bool {
    raw.iter().fold(0, |all, byte| all | byte) == 0
}

pub(super) fn encode(
    element: Element,
    raw: &[u8],
    scratch: &mut Vec<u8>,
    mut keep: impl FnMut(usize, u16, &[u8]) -> Result<(), EntryError>,
) -> Result<(), EntryError> {
    if is_zero(raw) {
        return keep(0, 0, &[]);
    }
    let coded = room(scratch, xp().max_chunk_len(element, raw.len()));
    let len = xp().encode_chunk(element, raw, coded);
    let stored = len.next_multiple_of(UNIT_LEN);
    if stored >= raw.len() {
        return keep(0, (raw.len() / UNIT_LEN) as u16, raw);
    }
    coded[len..stored].fill(0);
    keep(0, (stored / UNIT_LEN) as u16, &coded[..stored])
}

pub(super) fn state(element: Element, raw: &[u8]) -> u16 {
    let len = if is_zero(raw) { 0 } else { xp().chunk_len(element, raw).min(raw.len()) };
    len.div_ceil(UNIT_LEN) as u16
}

pub(super) fn decode(
    element: Element,
    states: &[u16],
    scratch: &mut Vec<u8>,
    mut fetch: impl FnMut(usize, &mut [u8]) -> Result<(), EntryError>,
    raw: &mut [u8],
    (unknown, damaged): Faults<'_>,
) -> Result<(), EntryError> {
    let len = stored_len(states[0], raw.len()).ok_or_else(|| unknown(0))?;
    if len == 0 {
        raw.fill(0);
        return Ok(());
    }
    if len == raw.len() {
        return fetch(0, raw);
    }
    let coded = room(scratch, len);
    fetch(0, coded)?;
    xp().decode_chunk(element, coded, raw).map_err(|source| damaged(0, source))
}
