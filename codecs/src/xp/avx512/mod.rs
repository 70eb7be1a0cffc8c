//! XP with AVX-512: compares make planes, compress and expand move escapes, matrix products turn bits into planes.
//!
//! | file | what it does |
//! |---|---|
//! | `survey` | samples, and what an encoder decides from them |
//! | `masks`, `levels` | leaving values out and putting them back; masks without their zero bytes |
//! | `cut` | values to symbols and rests, and back |
//! | `tiers` | symbols to codes, and back |
//! | `encode`, `decode` | chunks |

// The entry points promise the instructions that their token stands for, and that pointers stay in their slices.
#![allow(unsafe_code)]

mod cut;
mod decode;
mod encode;
mod levels;
mod masks;
mod survey;
mod tiers;
mod vector;

use super::mode::Mode;
use super::portable;
use super::scratch::{MAX_RAW_LEN, Scratch};
use crate::chunk::ChunkError;
use crate::{Avx512, Codec, Cpu, Element};

pub(super) fn encode(cpu: Avx512, element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
    let room = super::Xp::on(Cpu::Avx512(cpu)).max_chunk_len(element, raw.len());
    assert!(coded.len() >= room, "{} bytes of room, {room} are needed", coded.len());
    if raw.len() > MAX_RAW_LEN {
        return portable::encode(element, raw, coded);
    }
    code::<true>(element, raw, coded.as_mut_ptr())
}

pub(super) fn chunk_len(_: Avx512, element: Element, raw: &[u8]) -> usize {
    if raw.len() > MAX_RAW_LEN {
        return portable::chunk_len(element, raw);
    }
    code::<false>(element, raw, std::ptr::null_mut())
}

fn code<const WRITE: bool>(element: Element, raw: &[u8], coded: *mut u8) -> usize {
    // SAFETY: a token says that this machine has the instructions; `raw` is not over the limit, and if anything
    // is written, `coded` has the room.
    Scratch::with(|scratch| unsafe {
        match element {
            Element::U8 | Element::F8E4M3 => encode::code::<8, 4, WRITE>(raw, coded, scratch),
            Element::F8E5M2 => encode::code::<8, 5, WRITE>(raw, coded, scratch),
            Element::F16 => encode::code::<16, 5, WRITE>(raw, coded, scratch),
            Element::U16 | Element::Bf16 => encode::code::<16, 8, WRITE>(raw, coded, scratch),
            Element::U32 | Element::F32 => encode::code::<32, 8, WRITE>(raw, coded, scratch),
            Element::U64 | Element::F64 => encode::code::<64, 11, WRITE>(raw, coded, scratch),
        }
    })
}

pub(super) fn decode(_: Avx512, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let decoded = if raw.len() > MAX_RAW_LEN {
        None
    } else {
        // SAFETY: the token says that this machine has the instructions.
        Scratch::with(|scratch| unsafe {
            match element {
                Element::U8 | Element::F8E4M3 => decode::decode::<8, 4>(coded, raw, scratch),
                Element::F8E5M2 => decode::decode::<8, 5>(coded, raw, scratch),
                Element::F16 => decode::decode::<16, 5>(coded, raw, scratch),
                Element::U16 | Element::Bf16 => decode::decode::<16, 8>(coded, raw, scratch),
                Element::U32 | Element::F32 => decode::decode::<32, 8>(coded, raw, scratch),
                Element::U64 | Element::F64 => decode::decode::<64, 11>(coded, raw, scratch),
            }
        })
    };
    decoded.map_or_else(
        || {
            // Raw bytes behind the mode, or an error: portable code copies those and finds the right words for this.
            let decoded = portable::decode(element, coded, raw);
            let stored = coded.starts_with(&Mode::STORED) || raw.len() > MAX_RAW_LEN;
            debug_assert!(decoded.is_err() || stored, "portable code takes what this does not");
            decoded
        },
        Ok,
    )
}
