//! Base-delta-immediate: a line as one base and short differences from it.
//!
//! # Layout of a chunk of *n* lines
//! | section | length in bytes | content |
//! |---|---|---|
//! | forms | ⌈n / 2⌉ | 4 bits per line, line 2k in the low half of byte k; an unused half is zero |
//! | masks | sum of the mask column | for each base+delta line one bit per element, set = explicit base |
//! | padding | 0–3 | zero, up to a multiple of 4 |
//! | data | sum of the data column | line after line |
//!
//! | form | line | mask bytes | data bytes |
//! |---|---|---|---|
//! | 0 | all zero | 0 | 0 |
//! | 1 | eight equal 64-bit words | 0 | 8: the word |
//! | 2 | base 8, delta 1 | 1 | 16: base, then 8 deltas |
//! | 3 | base 8, delta 2 | 1 | 24 |
//! | 4 | base 8, delta 4 | 1 | 40 |
//! | 5 | base 4, delta 1 | 2 | 20: base, then 16 deltas |
//! | 6 | base 4, delta 2 | 2 | 36 |
//! | 7 | base 2, delta 1 | 4 | 34: base, then 32 deltas |
//! | 8 | raw | 0 | 64 |
//!
//! An element whose mask bit is clear is its delta, sign-extended; one whose bit is set is base + delta, the
//! delta unsigned. Lengths follow from the forms, so all lines of a chunk can be decoded at once.
//!
//! # Source
//! IPDPS 2019, Table II; Pekhimenko et al., PACT 2012. The choice of the base is ours: the smallest element
//! that is no short signed number, so that its deltas need no sign.

// What only the vector code uses is dead where there is none.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod plan;
mod portable;

use crate::chunk::{CHUNK_ALIGN, ChunkError, SectionReader};
use crate::line::{LINE_LEN, Line, RAW_LINE_BITS, line_count};
use crate::packed::{packed_field, packed_len, packed_tail_is_zero};
use crate::{Algorithm, Codec, Cpu, Element};

const ZERO: u8 = 0;
const REPEATED: u8 = 1;
const RAW: u8 = 8;
/// How many forms there are.
const FORMS: usize = 9;

/// The mask column of the second table, by form; nothing for forms without a meaning.
const MASK_LENS: [u8; 16] = [0, 0, 1, 1, 1, 2, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0];
/// The data column.
const DATA_LENS: [u8; 16] = [0, 8, 16, 24, 40, 20, 36, 34, 64, 0, 0, 0, 0, 0, 0, 0];

fn mask_len(form: u8) -> usize {
    MASK_LENS[usize::from(form)].into()
}

fn data_len(form: u8) -> usize {
    DATA_LENS[usize::from(form)].into()
}

/// 1 for [`RAW`].
#[cfg(target_arch = "x86_64")]
const RAW_LINES: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

/// The BDI codec. Elements do not matter to it.
#[derive(Clone, Copy, Debug)]
pub struct Bdi {
    cpu: Cpu,
}

/// What the lines of some forms add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    /// Bytes of masks.
    mask_len: usize,
    /// Bytes of data.
    data_len: usize,
    /// How many lines are raw.
    raw_lines: usize,
    /// Whether all forms have a meaning.
    all_known: bool,
}

impl Tally {
    const NONE: Self = Self { mask_len: 0, data_len: 0, raw_lines: 0, all_known: true };
}

/// Bytes that are classified at a time where nobody keeps the forms; a whole number of lines.
const PIECE_LEN: usize = 64 * 1024;

impl Bdi {
    /// The codec on `cpu`.
    #[must_use]
    pub const fn on(cpu: Cpu) -> Self {
        Self { cpu }
    }

    /// The size of `raw` in bits as the paper counts it: the sum of [`line_bits`] over its lines.
    #[must_use]
    pub fn paper_bits(self, raw: &[u8]) -> u64 {
        let total = self.measure(raw);
        let with_form = line_count(raw.len()) - total.raw_lines;
        4 * with_form as u64 + 8 * (total.mask_len as u64 + total.data_len as u64)
    }

    /// What the lines of `raw` add up to.
    fn measure(self, raw: &[u8]) -> Tally {
        let mut forms = [0; packed_len::<4>(line_count(PIECE_LEN))];
        let mut total = Tally::NONE;
        for piece in raw.chunks(PIECE_LEN) {
            let forms = &mut forms[..packed_len::<4>(line_count(piece.len()))];
            self.classify(piece, forms);
            let tally = self.tally(forms);
            total.mask_len += tally.mask_len;
            total.data_len += tally.data_len;
            total.raw_lines += tally.raw_lines;
        }
        total
    }

    /// Writes the form of every line of `raw`; `forms` has half a byte for each.
    fn classify(self, raw: &[u8], forms: &mut [u8]) {
        match self.cpu {
            Cpu::Portable => portable::classify(raw, forms),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::classify(cpu, raw, forms),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::classify(cpu, raw, forms),
        }
    }

    fn tally(self, forms: &[u8]) -> Tally {
        match self.cpu {
            Cpu::Portable => portable::tally(forms),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::tally(cpu, forms),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::tally(cpu, forms),
        }
    }

    /// Writes the lines of `raw` to `masks` and `data`, which are as long as their forms say.
    fn encode(self, raw: &[u8], forms: &[u8], masks: &mut [u8], data: &mut [u8]) {
        match self.cpu {
            Cpu::Portable => portable::encode(raw, forms, masks, data),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::encode(cpu, raw, forms, masks, data),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::encode(cpu, raw, forms, masks, data),
        }
    }

    /// Fills `raw` with the lines of `masks` and `data`, which are as long as their forms say.
    fn decode(self, forms: &[u8], masks: &[u8], data: &[u8], raw: &mut [u8]) {
        match self.cpu {
            Cpu::Portable => portable::decode(forms, masks, data, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::decode(cpu, forms, masks, data, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::decode(cpu, forms, masks, data, raw),
        }
    }
}

impl Codec for Bdi {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Bdi
    }

    fn max_chunk_len(&self, _: Element, raw_len: usize) -> usize {
        let lines = line_count(raw_len);
        (lines.div_ceil(2).next_multiple_of(4) + lines * LINE_LEN).next_multiple_of(CHUNK_ALIGN)
    }

    fn encode_chunk(&self, _: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        let (forms, rest) = coded.split_at_mut(packed_len::<4>(line_count(raw.len())));
        self.classify(raw, forms);
        let tally = self.tally(forms);
        let (masks, rest) = rest.split_at_mut(tally.mask_len);
        let masks_end = forms.len() + masks.len();
        let (padding, rest) = rest.split_at_mut(masks_end.next_multiple_of(4) - masks_end);
        padding.fill(0);
        self.encode(raw, forms, masks, &mut rest[..tally.data_len]);
        masks_end + padding.len() + tally.data_len
    }

    fn chunk_len(&self, _: Element, raw: &[u8]) -> usize {
        let total = self.measure(raw);
        (packed_len::<4>(line_count(raw.len())) + total.mask_len).next_multiple_of(4) + total.data_len
    }

    fn decode_chunk(&self, _: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        let lines = line_count(raw.len());
        let mut sections = SectionReader::new(coded);
        let forms = sections.take(packed_len::<4>(lines))?;
        if !packed_tail_is_zero::<4>(forms, lines) {
            return Err(ChunkError::Padding { offset: sections.offset() });
        }
        let tally = self.tally(forms);
        if !tally.all_known {
            return Err(unknown_form(forms, lines));
        }
        let masks = sections.take(tally.mask_len)?;
        sections.align(4)?;
        let data = sections.take(tally.data_len)?;
        sections.finish()?;
        self.decode(forms, masks, data, raw);
        Ok(())
    }
}

/// The error for the first line whose form has no meaning.
fn unknown_form(forms: &[u8], lines: usize) -> ChunkError {
    let (line, tag) = (0..lines)
        .map(|line| (line, packed_field::<4>(forms, line)))
        .find(|&(_, form)| form > RAW)
        .unwrap_or_default();
    ChunkError::Tag { line, tag }
}

/// Size of one line in bits, its 4-bit form and mask included; 512 if it stays raw.
///
/// # Source
/// IPDPS 2019, Table II.
#[must_use]
pub fn line_bits(line: &Line) -> u32 {
    match portable::form_of(line) {
        RAW => RAW_LINE_BITS,
        form => 4 + 8 * (mask_len(form) + data_len(form)) as u32,
    }
}
