//! The definition of XP.

use super::column::{self, little_endian};
use super::float::Float;
use super::mask;
use super::mode::Mode;
use super::table::{self, Table, tier_bits};
use crate::Element;
use crate::chunk::{ChunkError, SectionReader};

pub(super) fn encode(element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
    let code = code(element, raw);
    coded[..code.len()].copy_from_slice(&code);
    code.len()
}

pub(super) fn chunk_len(element: Element, raw: &[u8]) -> usize {
    code(element, raw).len()
}

fn code(element: Element, raw: &[u8]) -> Vec<u8> {
    let float = Float::of(element);
    let elements = raw.chunks_exact(element.width_bytes());
    let tail = elements.remainder();
    let mut values: Vec<u64> = elements.map(little_endian).collect();

    let mut mode = Mode::default();
    let mut masks = Vec::new();
    if table::has_zeros(&values, float) {
        let non_zero: Vec<bool> = values.iter().map(|&value| value != 0).collect();
        mode.zero_mask = Some(put_mask(&non_zero, &mut masks));
        values.retain(|&value| value != 0);
    }
    if table::has_repeats(&values, float) {
        let changed: Vec<bool> = (0..values.len()).map(|i| values[i] != table::before(&values, i)).collect();
        mode.change_mask = Some(put_mask(&changed, &mut masks));
        let mut changed = changed.into_iter();
        values.retain(|_| changed.next() == Some(true));
    }
    let mut body = Vec::new();
    if !values.is_empty() {
        let table = Table::of(&values, float);
        if table.hopeless && masks.is_empty() {
            return stored(raw);
        }
        (mode.signed, mode.wide) = (table.signed, table.wide);
        put_table(&table, float, mode, &mut masks);
        put_values(&values, float, &table, &mut body);
    }

    let code = [&mode.to_bytes(), &masks[..], &body, tail].concat();
    if code.len() > raw.len() { stored(raw) } else { code }
}

/// The code of what is not worth coding.
fn stored(raw: &[u8]) -> Vec<u8> {
    [&Mode::STORED, raw].concat()
}

fn put_mask(bits: &[bool], out: &mut Vec<u8>) -> u8 {
    let depth = mask::best_depth(bits);
    mask::put(bits, depth, out);
    depth
}

/// Appends the table behind the masks, and zeros up to a multiple of 8 bytes of the chunk.
fn put_table(table: &Table, float: Float, mode: Mode, masks: &mut Vec<u8>) {
    let bytes = mode.symbol_bytes(float);
    masks.extend(table.symbols.iter().flat_map(|symbol| symbol.to_le_bytes().into_iter().take(bytes)));
    masks.resize((Mode::LEN + masks.len()).next_multiple_of(8) - Mode::LEN, 0);
}

/// Appends the codes of the first tier, the rests, the codes of the other tiers, and the symbols without a
/// code.
fn put_values(values: &[u64], float: Float, table: &Table, out: &mut Vec<u8>) {
    let split = float.split(table.signed);
    let (mut symbols, rests): (Vec<u64>, Vec<u64>) = values.iter().map(|&value| split.apart(value)).unzip();
    let mut in_table = &table.symbols[..];
    for (tier, bits) in tier_bits(table.wide).into_iter().enumerate() {
        let escape = (1 << bits) - 1;
        let here = &in_table[..escape];
        in_table = &in_table[escape..];
        let code_of = |symbol| here.iter().position(|&s| s == symbol).unwrap_or(escape) as u64;
        let codes: Vec<u64> = symbols.iter().map(|&symbol| code_of(symbol)).collect();
        symbols.retain(|symbol| !here.contains(symbol));
        column::put(&codes, bits, out);
        if tier == 0 {
            column::put(&rests, split.rest_bits(), out);
        }
    }
    column::put(&symbols, split.symbol_bits, out);
}

pub(super) fn decode(element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let float = Float::of(element);
    let mut sections = SectionReader::new(coded);
    let Some(mode) = Mode::from_bytes(sections.take(Mode::LEN)?)? else {
        raw.copy_from_slice(sections.take(raw.len())?);
        return sections.finish();
    };
    let width = element.width_bytes();
    let mut mask_of = |depth: Option<u8>, count: usize| match depth {
        Some(depth) => mask::take(&mut sections, count, depth),
        None => Ok(vec![true; count]),
    };
    let non_zero = mask_of(mode.zero_mask, raw.len() / width)?;
    let changed = mask_of(mode.change_mask, count(&non_zero))?;
    let kept = count(&changed);
    let values = if kept > 0 { take_values(&mut sections, kept, float, mode)? } else { Vec::new() };
    let tail = sections.take(raw.len() % width)?;
    sections.finish()?;

    let (mut values, mut changed) = (values.into_iter(), changed.into_iter());
    let (mut value, mut elements) = (0, raw.chunks_exact_mut(width));
    for (element, non_zero) in elements.by_ref().zip(non_zero) {
        if non_zero && changed.next() == Some(true) {
            value = values.next().unwrap_or(0);
        }
        let stored = if non_zero { value } else { 0u64 };
        element.copy_from_slice(&stored.to_le_bytes()[..width]);
    }
    elements.into_remainder().copy_from_slice(tail);
    Ok(())
}

fn count(bits: &[bool]) -> usize {
    bits.iter().filter(|&&bit| bit).count()
}

/// Takes the table and what [`put_values`] wrote of `count` values.
fn take_values(
    sections: &mut SectionReader<'_>,
    count: usize,
    float: Float,
    mode: Mode,
) -> Result<Vec<u64>, ChunkError> {
    let split = float.split(mode.signed);
    let bytes = mode.symbol_bytes(float);
    let table = sections.take(table::table_len(mode.wide) * bytes)?;
    let table: Vec<u64> = table.chunks_exact(bytes).map(little_endian).collect();
    if table.iter().any(|symbol| symbol >> split.symbol_bits != 0) {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    sections.align(8)?;

    let [first, second, third] = tier_bits(mode.wide);
    let escapes = |codes: &[u64], bits: u32| codes.iter().filter(|&&code| code == (1 << bits) - 1).count();
    let first_codes = column::take(sections, count, first)?;
    let rests = column::take(sections, count, split.rest_bits())?;
    let second_codes = column::take(sections, escapes(&first_codes, first), second)?;
    let third_codes = column::take(sections, escapes(&second_codes, second), third)?;
    let mut symbols = column::take(sections, escapes(&third_codes, third), split.symbol_bits)?;

    // From the last tier to the first: what its codes name, and for escapes what the tiers behind it gave.
    let mut table_end = table.len();
    for (codes, bits) in [(third_codes, third), (second_codes, second), (first_codes, first)] {
        let here = &table[table_end - ((1 << bits) - 1)..table_end];
        table_end -= here.len();
        let mut escaped = symbols.into_iter();
        let symbol_of = |code: u64| here.get(code as usize).copied().or_else(|| escaped.next()).unwrap_or(0);
        symbols = codes.into_iter().map(symbol_of).collect();
    }
    Ok(symbols.into_iter().zip(rests).map(|(symbol, rest)| split.together(symbol, rest)).collect())
}
