//! Blocks and where the parts of a chunk lie, the same for every back-end.

use super::BLOCK;
use super::header::Header;
use super::word::word_bits;
use crate::chunk::{CHUNK_ALIGN, ChunkError, SectionReader};
use crate::packed::{packed_field, packed_len, packed_tail_is_zero};

/// How one block is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// This many planes.
    Planes(u32),
    /// The chunk's low bits in planes, a plane that marks the longer residuals, and of each of those the bits
    /// above, in this many bytes.
    Patched(u32),
}

impl Form {
    /// The cheaper form of a block whose longest residual has `longest` bits, with `patches` residuals that are
    /// longer than `low_bits`; and the bytes of its patches.
    #[inline]
    pub(super) const fn cheapest(longest: u32, low_bits: u32, patches: u32) -> (Self, u32) {
        if longest > low_bits {
            let patch_len = (longest - low_bits).div_ceil(8);
            if 4 * (low_bits + 1) + patches * patch_len < 4 * longest {
                return (Self::Patched(patch_len), patches * patch_len);
            }
        }
        (Self::Planes(longest), 0)
    }

    pub(super) const fn code<const B: usize>(self) -> u8 {
        match self {
            Self::Planes(planes) => planes as u8,
            Self::Patched(patch_len) => (word_bits::<B>() + patch_len) as u8,
        }
    }

    /// The form that a code stands for, one that has a meaning.
    #[inline]
    pub(super) const fn of_code<const B: usize>(code: u8) -> Self {
        let (code, bits) = (code as u32, word_bits::<B>());
        if code <= bits { Self::Planes(code) } else { Self::Patched(code - bits) }
    }

    /// Planes of 32 bits, the marks of patches included.
    #[inline]
    pub(super) const fn planes(self, low_bits: u32) -> usize {
        match self {
            Self::Planes(planes) => planes as usize,
            Self::Patched(_) => low_bits as usize + 1,
        }
    }
}

/// Bytes of the codes of `blocks` blocks: half a byte each for bytes, else a byte.
pub(super) const fn codes_len<const B: usize>(blocks: usize) -> usize {
    if B == 1 { packed_len::<4>(blocks) } else { blocks }
}

/// Where planes start: behind header and codes, aligned to their words.
pub(super) const fn planes_offset<const B: usize>(words: usize) -> usize {
    (Header::len::<B>() + codes_len::<B>(words.div_ceil(BLOCK))).next_multiple_of(4)
}

/// The patches of one chunk may take half as many bytes as the chunk; blocks past that are stored in planes. So
/// an encoder can gather them behind the room for all planes.
pub(super) const fn most_patch_bytes(raw_len: usize) -> usize {
    raw_len / 2
}

/// Bytes that vector stores may write past planes and patches.
pub(super) const OVERSHOOT: usize = 320;

/// Where an encoder gathers patches before it knows where they go.
pub(super) const fn staging_offset<const B: usize>(raw_len: usize) -> usize {
    planes_offset::<B>(raw_len / B) + (raw_len / B).next_multiple_of(BLOCK) * B + OVERSHOOT
}

/// The room that an encoder needs.
pub(super) const fn room<const B: usize>(raw_len: usize) -> usize {
    (staging_offset::<B>(raw_len) + most_patch_bytes(raw_len) + OVERSHOOT).next_multiple_of(CHUNK_ALIGN)
}

/// The parts of a coded chunk, their lengths checked.
pub(super) struct Sections<'a> {
    pub(super) header: Header,
    pub(super) codes: &'a [u8],
    pub(super) planes: &'a [u8],
    pub(super) patches: &'a [u8],
    pub(super) tail: &'a [u8],
}

/// Takes a chunk of `raw_len` bytes apart.
pub(super) fn sections<const B: usize>(coded: &[u8], raw_len: usize) -> Result<Sections<'_>, ChunkError> {
    let words = raw_len / B;
    let blocks = words.div_ceil(BLOCK);
    let mut sections = SectionReader::new(coded);
    let header = Header::read::<B>(&mut sections)?;
    let codes_offset = sections.offset();
    let codes = sections.take(codes_len::<B>(blocks))?;
    if B == 1 && !packed_tail_is_zero::<4>(codes, blocks) {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    sections.align(4)?;
    let planes_len = planes_len::<B>(codes, codes_offset, header.low_bits)?;
    let planes = sections.take(planes_len)?;
    if !words.is_multiple_of(BLOCK) {
        check_unused_bits::<B>(&header, codes, planes, words, sections.offset())?;
    }
    let patches = sections.take(patches_len::<B>(&header, codes, planes, blocks))?;
    let tail = sections.take(raw_len % B)?;
    sections.finish()?;
    Ok(Sections { header, codes, planes, patches, tail })
}

/// The form of block `index` of a chunk whose codes have been checked.
#[inline]
fn form_at<const B: usize>(codes: &[u8], index: usize) -> Form {
    Form::of_code::<B>(if B == 1 { packed_field::<4>(codes, index) } else { codes[index] })
}

/// The forms of the blocks of a chunk whose codes have been checked.
#[inline]
pub(super) fn forms<const B: usize>(codes: &[u8], blocks: usize) -> impl Iterator<Item = Form> {
    (0..blocks).map(|block| form_at::<B>(codes, block))
}

/// Bytes of all planes; also the check that every code has a meaning.
fn planes_len<const B: usize>(codes: &[u8], codes_offset: usize, low_bits: u32) -> Result<usize, ChunkError> {
    let (bits, most) = (word_bits::<B>() as u8, word_bits::<B>() as u8 + B as u8);
    let planes_of = |code: u8| if code <= bits { u32::from(code) } else { low_bits + 1 };
    let (planes, largest) = if B == 1 {
        // An unused half byte is zero, and zero is no planes.
        codes.iter().fold((0, 0), |(planes, largest), &byte| {
            let (even, odd) = (byte & 15, byte >> 4);
            (planes + planes_of(even) + planes_of(odd), even.max(odd).max(largest))
        })
    } else {
        codes.iter().fold((0, 0), |(planes, largest), &code| (planes + planes_of(code), code.max(largest)))
    };
    if largest <= most {
        return Ok(4 * planes as usize);
    }
    let code_in = |byte: u8| {
        if B == 1 && byte & 15 <= most {
            byte >> 4
        } else if B == 1 {
            byte & 15
        } else {
            byte
        }
    };
    let place = codes.iter().position(|&byte| code_in(byte) > most).unwrap_or(0);
    let value = u32::from(code_in(codes[place]));
    Err(ChunkError::Field { offset: codes_offset + place, value, most: u32::from(most) })
}

/// Bytes of all patches, from the marks in the last plane of each patched block.
fn patches_len<const B: usize>(header: &Header, codes: &[u8], planes: &[u8], blocks: usize) -> usize {
    let (mut len, mut end) = (0, 0);
    for form in forms::<B>(codes, blocks) {
        end += form.planes(header.low_bits);
        if let Form::Patched(patch_len) = form {
            len += plane(planes, end - 1).count_ones() as usize * patch_len as usize;
        }
    }
    len
}

/// Plane `index` of `planes`, which must have it.
#[inline]
pub(super) fn plane(planes: &[u8], index: usize) -> u32 {
    planes.as_chunks().0.get(index).map_or(0, |&bytes| u32::from_le_bytes(bytes))
}

/// Checks that the planes of the last block are zero past the last word.
fn check_unused_bits<const B: usize>(
    header: &Header,
    codes: &[u8],
    planes: &[u8],
    words: usize,
    offset: usize,
) -> Result<(), ChunkError> {
    let last = words / BLOCK;
    let count = form_at::<B>(codes, last).planes(header.low_bits);
    let all = planes.len() / 4;
    let used = (all - count..all).fold(0, |used, index| used | plane(planes, index));
    if used >> (words % BLOCK) == 0 { Ok(()) } else { Err(ChunkError::Padding { offset }) }
}
