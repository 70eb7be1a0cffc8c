//! The definition of BDI.

use crate::chunk::{ChunkError, SectionReader, SectionWriter};
use crate::line::{LINE_LEN, Line, RAW_LINE_BITS, lines};
use crate::packed::{PackedWriter, packed_field, packed_len, packed_tail_is_zero};

const ZERO: u8 = 0;
const REPEATED: u8 = 1;
const RAW: u8 = 8;

/// A base+delta form. Its functions are those of [`Elements`] for its widths.
struct DeltaForm {
    number: u8,
    mask_len: usize,
    data_len: usize,
    base_of: fn(&Line) -> Option<u64>,
    encode: fn(&Line, u64, &mut Vec<u8>, &mut Vec<u8>),
    decode: fn(&[u8], &[u8]) -> Line,
}

/// Forms 2 to 7, cheapest first, ties by the lower number: the first that fits wins.
static BY_SIZE: [DeltaForm; 6] = [
    Elements::<8, 1>::form(2), // 140 bits
    Elements::<4, 1>::form(5), // 180
    Elements::<8, 2>::form(3), // 204
    Elements::<4, 2>::form(6), // 308
    Elements::<2, 1>::form(7), // 308
    Elements::<8, 4>::form(4), // 332
];

fn delta_form(number: u8) -> Option<&'static DeltaForm> {
    BY_SIZE.iter().find(|form| form.number == number)
}

/// A line as elements of `B` bytes with deltas of `D` bytes.
struct Elements<const B: usize, const D: usize>;

impl<const B: usize, const D: usize> Elements<B, D> {
    const COUNT: usize = LINE_LEN / B;

    const fn form(number: u8) -> DeltaForm {
        DeltaForm {
            number,
            mask_len: Self::COUNT / 8,
            data_len: B + Self::COUNT * D,
            base_of: Self::base_of,
            encode: Self::encode,
            decode: Self::decode,
        }
    }

    fn of(line: &Line) -> impl Iterator<Item = u64> {
        line.as_chunks::<B>().0.iter().map(number)
    }

    /// Whether `element` is its own delta: a signed number of `D` bytes.
    fn fits_zero_base(element: u64) -> bool {
        let half = 1 << (8 * D - 1);
        sign_extended::<B>(element).wrapping_add(half) as u64 >> (8 * D) == 0
    }

    /// The explicit base of `line`, or `None` if the form does not fit it.
    fn base_of(line: &Line) -> Option<u64> {
        let (mut smallest, mut largest) = (u64::MAX, 0);
        for element in Self::of(line).filter(|&element| !Self::fits_zero_base(element)) {
            smallest = smallest.min(element);
            largest = largest.max(element);
        }
        if smallest > largest {
            return Some(0); // every element belongs to the zero base
        }
        (largest - smallest < 1 << (8 * D)).then_some(smallest)
    }

    fn encode(line: &Line, base: u64, masks: &mut Vec<u8>, data: &mut Vec<u8>) {
        let mut mask = 0u32;
        data.extend_from_slice(&bytes::<B>(base));
        for (i, element) in Self::of(line).enumerate() {
            let explicit = !Self::fits_zero_base(element);
            mask |= u32::from(explicit) << i;
            data.extend_from_slice(&bytes::<D>(if explicit { element - base } else { element }));
        }
        masks.extend_from_slice(&mask.to_le_bytes()[..Self::COUNT / 8]);
    }

    /// The line of a mask and its data, which have the form's lengths.
    fn decode(mask: &[u8], data: &[u8]) -> Line {
        let (base, deltas) = data.split_at(B);
        let base = base.as_chunks::<B>().0.iter().map(number).sum::<u64>();
        let mask = mask.iter().rev().fold(0u32, |mask, &byte| mask << 8 | u32::from(byte));
        let mut line = [0; LINE_LEN];
        let elements = line.as_chunks_mut::<B>().0.iter_mut().zip(deltas.as_chunks::<D>().0);
        for (i, (element, delta)) in elements.enumerate() {
            let delta = number(delta);
            let explicit = mask >> i & 1 == 1;
            let value = if explicit { base.wrapping_add(delta) } else { sign_extended::<D>(delta) as u64 };
            *element = bytes(value);
        }
        line
    }
}

/// The unsigned number in `W` little-endian bytes.
fn number<const W: usize>(bytes: &[u8; W]) -> u64 {
    let mut wide = [0; 8];
    wide[..W].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// The low `W` bytes of `number`.
fn bytes<const W: usize>(number: u64) -> [u8; W] {
    let mut bytes = [0; W];
    bytes.copy_from_slice(&number.to_le_bytes()[..W]);
    bytes
}

/// `number` as a signed number of `W` bytes.
const fn sign_extended<const W: usize>(number: u64) -> i64 {
    let unused = 64 - 8 * W;
    (number << unused) as i64 >> unused
}

/// The form a line takes, with the explicit base where it has one.
enum Form {
    Zero,
    Repeated,
    Delta(&'static DeltaForm, u64),
    Raw,
}

fn form_of(line: &Line) -> Form {
    if line.iter().all(|&byte| byte == 0) {
        return Form::Zero;
    }
    if line.as_chunks::<8>().0.windows(2).all(|pair| pair[0] == pair[1]) {
        return Form::Repeated;
    }
    let fitting = BY_SIZE.iter().find_map(|form| (form.base_of)(line).map(|base| Form::Delta(form, base)));
    fitting.unwrap_or(Form::Raw)
}

/// Size of one line in bits, its 4-bit form and mask included; 512 if it stays raw.
///
/// # Source
/// IPDPS 2019, Table II.
#[must_use]
pub fn line_bits(line: &Line) -> u32 {
    match form_of(line) {
        Form::Zero => 4,
        Form::Repeated => 4 + 64,
        Form::Delta(form, _) => 4 + 8 * (form.mask_len + form.data_len) as u32,
        Form::Raw => RAW_LINE_BITS,
    }
}

pub(super) fn encode(raw: &[u8], coded: &mut [u8]) -> usize {
    let mut forms = PackedWriter::<4>::default();
    let (mut masks, mut data) = (Vec::new(), Vec::new());
    for line in lines(raw) {
        forms.push(match form_of(&line) {
            Form::Zero => ZERO,
            Form::Repeated => {
                data.extend_from_slice(&line[..8]);
                REPEATED
            }
            Form::Delta(form, base) => {
                (form.encode)(&line, base, &mut masks, &mut data);
                form.number
            }
            Form::Raw => {
                data.extend_from_slice(&line);
                RAW
            }
        });
    }
    let mut out = SectionWriter::new(coded);
    out.put(forms.bytes());
    out.put(&masks);
    out.align(4);
    out.put(&data);
    out.len()
}

pub(super) fn chunk_len(raw: &[u8]) -> usize {
    let (mut mask_len, mut data_len) = (0, 0);
    for line in lines(raw) {
        let (mask, data) = match form_of(&line) {
            Form::Zero => (0, 0),
            Form::Repeated => (0, 8),
            Form::Delta(form, _) => (form.mask_len, form.data_len),
            Form::Raw => (0, LINE_LEN),
        };
        mask_len += mask;
        data_len += data;
    }
    let forms_len = packed_len::<4>(crate::line::line_count(raw.len()));
    (forms_len + mask_len).next_multiple_of(4) + data_len
}

pub(super) fn decode(coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let lines = crate::line::line_count(raw.len());
    let mut sections = SectionReader::new(coded);
    let forms = sections.take(packed_len::<4>(lines))?;
    if !packed_tail_is_zero::<4>(forms, lines) {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    let (mask_len, data_len) = section_lens(forms, lines)?;
    let mut masks = sections.take(mask_len)?;
    sections.align(4)?;
    let mut data = sections.take(data_len)?;
    sections.finish()?;

    for (i, out) in raw.chunks_mut(LINE_LEN).enumerate() {
        let line = decode_line(packed_field::<4>(forms, i), &mut masks, &mut data);
        out.copy_from_slice(&line[..out.len()]);
    }
    Ok(())
}

/// Lengths of the mask and data sections in bytes; also the check that every form has a meaning.
fn section_lens(forms: &[u8], lines: usize) -> Result<(usize, usize), ChunkError> {
    let (mut mask_len, mut data_len) = (0, 0);
    for line in 0..lines {
        let form = packed_field::<4>(forms, line);
        let (mask, data) = match form {
            ZERO => (0, 0),
            REPEATED => (0, 8),
            RAW => (0, LINE_LEN),
            _ => delta_form(form)
                .map(|form| (form.mask_len, form.data_len))
                .ok_or(ChunkError::Tag { line, tag: form })?,
        };
        mask_len += mask;
        data_len += data;
    }
    Ok((mask_len, data_len))
}

/// Takes one line off `masks` and `data`, which [`section_lens`] has sized.
fn decode_line(form: u8, masks: &mut &[u8], data: &mut &[u8]) -> Line {
    let mut line = [0; LINE_LEN];
    if form == REPEATED {
        let word = split_off(data, 8);
        line.chunks_exact_mut(8).for_each(|out| out.copy_from_slice(word));
    } else if form == RAW {
        line.copy_from_slice(split_off(data, LINE_LEN));
    } else if let Some(form) = delta_form(form) {
        line = (form.decode)(split_off(masks, form.mask_len), split_off(data, form.data_len));
    }
    line
}

fn split_off<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (front, rest) = bytes.split_at(len);
    *bytes = rest;
    front
}
