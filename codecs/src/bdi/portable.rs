//! The definition of BDI.

use super::{RAW, REPEATED, Tally, ZERO, data_len, mask_len};
use crate::line::{LINE_LEN, Line, lines};
use crate::packed::packed_field;

/// A base+delta form: the functions of [`Elements`] for its widths.
struct DeltaForm {
    fits: fn(&Line) -> bool,
    encode: fn(&Line, &mut [u8], &mut [u8]),
    decode: fn(&[u8], &[u8]) -> Line,
}

/// Forms 2 to 7.
static DELTA_FORMS: [DeltaForm; 6] = [
    Elements::<8, 1>::FORM,
    Elements::<8, 2>::FORM,
    Elements::<8, 4>::FORM,
    Elements::<4, 1>::FORM,
    Elements::<4, 2>::FORM,
    Elements::<2, 1>::FORM,
];

/// Forms 2 to 7, cheapest first, ties by the lower number: the first that fits wins. They take 140, 180, 204,
/// 308, 308 and 332 bits.
const BY_SIZE: [u8; 6] = [2, 5, 3, 6, 7, 4];

fn delta_form(number: u8) -> Option<&'static DeltaForm> {
    DELTA_FORMS.get(usize::from(number).wrapping_sub(2))
}

/// A line as elements of `B` bytes with deltas of `D` bytes.
struct Elements<const B: usize, const D: usize>;

impl<const B: usize, const D: usize> Elements<B, D> {
    const FORM: DeltaForm = DeltaForm { fits: Self::fits, encode: Self::encode, decode: Self::decode };

    fn of(line: &Line) -> impl Iterator<Item = u64> {
        line.as_chunks::<B>().0.iter().map(number)
    }

    /// Whether `element` is its own delta: a signed number of `D` bytes.
    fn fits_zero_base(element: u64) -> bool {
        let half = 1 << (8 * D - 1);
        element.wrapping_add(half) << (64 - 8 * B) >> (64 - 8 * B) < 2 * half
    }

    /// The smallest and the largest element that needs the explicit base, if any does.
    fn explicit_range(line: &Line) -> Option<(u64, u64)> {
        let (mut smallest, mut largest) = (u64::MAX, 0);
        for element in Self::of(line) {
            let short = Self::fits_zero_base(element);
            smallest = smallest.min(if short { u64::MAX } else { element });
            largest = largest.max(if short { 0 } else { element });
        }
        (smallest <= largest).then_some((smallest, largest))
    }

    fn fits(line: &Line) -> bool {
        Self::explicit_range(line).is_none_or(|(smallest, largest)| largest - smallest < 1 << (8 * D))
    }

    /// Writes a line that fits to `mask` and `data`, which have the form's lengths.
    fn encode(line: &Line, mask: &mut [u8], data: &mut [u8]) {
        let base = Self::explicit_range(line).map_or(0, |(smallest, _)| smallest);
        let (stored_base, deltas) = data.split_at_mut(B);
        stored_base.copy_from_slice(&bytes::<B>(base));
        let mut bits = 0u32;
        for (i, (delta, element)) in deltas.as_chunks_mut().0.iter_mut().zip(Self::of(line)).enumerate() {
            let explicit = !Self::fits_zero_base(element);
            bits |= u32::from(explicit) << i;
            *delta = bytes::<D>(if explicit { element - base } else { element });
        }
        mask.copy_from_slice(&bits.to_le_bytes()[..mask.len()]);
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

/// The form that a line takes.
pub(super) fn form_of(line: &Line) -> u8 {
    if line.iter().all(|&byte| byte == 0) {
        return ZERO;
    }
    if line.as_chunks::<8>().0.windows(2).all(|pair| pair[0] == pair[1]) {
        return REPEATED;
    }
    let fits = |number: &u8| delta_form(*number).is_some_and(|form| (form.fits)(line));
    BY_SIZE.into_iter().find(fits).unwrap_or(RAW)
}

/// Writes the form of every line of `raw`; `forms` has half a byte for each.
pub(super) fn classify(raw: &[u8], forms: &mut [u8]) {
    forms.fill(0);
    for (i, line) in lines(raw).enumerate() {
        forms[i / 2] |= form_of(&line) << (4 * (i % 2));
    }
}

/// What the lines of these forms add up to.
pub(super) fn tally(forms: &[u8]) -> Tally {
    let mut tally = Tally::NONE;
    for form in forms.iter().flat_map(|byte| [byte & 0xf, byte >> 4]) {
        tally.mask_len += mask_len(form);
        tally.data_len += data_len(form);
        tally.raw_lines += usize::from(form == RAW);
        tally.all_known &= form <= RAW;
    }
    tally
}

/// Writes the lines of `raw` to `masks` and `data`, which are as long as their forms say.
pub(super) fn encode(raw: &[u8], forms: &[u8], masks: &mut [u8], data: &mut [u8]) {
    let (mut mask_at, mut data_at) = (0, 0);
    for (i, line) in lines(raw).enumerate() {
        let form = packed_field::<4>(forms, i);
        let (mask_end, data_end) = (mask_at + mask_len(form), data_at + data_len(form));
        encode_line(form, &line, &mut masks[mask_at..mask_end], &mut data[data_at..data_end]);
        (mask_at, data_at) = (mask_end, data_end);
    }
}

/// Writes one line to `mask` and `data`, which have the form's lengths.
pub(super) fn encode_line(form: u8, line: &Line, mask: &mut [u8], data: &mut [u8]) {
    match delta_form(form) {
        Some(form) => (form.encode)(line, mask, data),
        None => data.copy_from_slice(&line[..data.len()]),
    }
}

/// Fills `raw` with the lines of `masks` and `data`, which are as long as their forms say.
pub(super) fn decode(forms: &[u8], masks: &[u8], data: &[u8], raw: &mut [u8]) {
    let (mut mask_at, mut data_at) = (0, 0);
    for (i, out) in raw.chunks_mut(LINE_LEN).enumerate() {
        let form = packed_field::<4>(forms, i);
        let (mask_end, data_end) = (mask_at + mask_len(form), data_at + data_len(form));
        let line = decode_line(form, &masks[mask_at..mask_end], &data[data_at..data_end]);
        out.copy_from_slice(&line[..out.len()]);
        (mask_at, data_at) = (mask_end, data_end);
    }
}

/// The line of a form, its mask and its data, which have the form's lengths.
pub(super) fn decode_line(form: u8, mask: &[u8], data: &[u8]) -> Line {
    let mut line = [0; LINE_LEN];
    match (form, delta_form(form)) {
        (_, Some(form)) => line = (form.decode)(mask, data),
        (REPEATED, _) => line.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(data)),
        _ => line[..data.len()].copy_from_slice(data),
    }
    line
}
