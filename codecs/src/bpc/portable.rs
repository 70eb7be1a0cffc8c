//! The definition of BPC.

use super::string::{BitReader, BitWriter};
use super::symbol::{Symbol, first_word_code, read_first_word, symbols};
use super::{DELTAS, ENTRY_LEN, Entry, PLANES, WORDS};
use crate::chunk::{ChunkError, SectionReader, SectionWriter};

pub(super) type Words = [u32; WORDS];

/// The entries of `raw`, the last one filled up with zeros.
fn entries(raw: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    raw.chunks(ENTRY_LEN).map(|bytes| {
        let mut entry = [0; ENTRY_LEN];
        entry[..bytes.len()].copy_from_slice(bytes);
        entry
    })
}

pub(super) fn encode(raw: &[u8], coded: &mut [u8]) -> usize {
    let (sizes, strings) = coded.split_at_mut(raw.len().div_ceil(ENTRY_LEN));
    let mut out = SectionWriter::new(strings);
    for (entry, size) in entries(raw).zip(sizes.iter_mut()) {
        *size = encode_entry(&entry, &mut out);
    }
    sizes.len() + out.len()
}

/// Appends one entry and returns its size in bytes.
pub(super) fn encode_entry(entry: &Entry, out: &mut SectionWriter<'_>) -> u8 {
    let size = entry_size(entry);
    if usize::from(size) == ENTRY_LEN {
        out.put(entry);
    } else if size > 0 {
        let words = words_of(entry);
        let dbp = planes_of(&words);
        let mut string = BitWriter::new();
        let (code, bits) = first_word_code(words[0]);
        string.push(code, bits);
        symbols(&dbp).for_each(|symbol| symbol.write_code(&mut string));
        for symbol in symbols(&dbp) {
            if let Symbol::Plane(dbx) = symbol {
                string.push(u64::from(dbx), DELTAS as u32);
            }
        }
        out.put(string.bytes());
    }
    size
}

pub(super) fn chunk_len(raw: &[u8]) -> usize {
    entries(raw).map(|entry| 1 + usize::from(entry_size(&entry))).sum()
}

/// The bytes that an entry takes in its section.
pub(super) fn entry_size(entry: &Entry) -> u8 {
    if entry == &[0; ENTRY_LEN] { 0 } else { code_bits(entry).div_ceil(8).min(ENTRY_LEN as u32) as u8 }
}

/// The bits that an entry would take if it were coded.
pub(super) fn code_bits(entry: &Entry) -> u32 {
    let words = words_of(entry);
    first_word_code(words[0]).1 + symbols(&planes_of(&words)).map(Symbol::bits).sum::<u32>()
}

fn words_of(entry: &Entry) -> Words {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(entry.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// The DBP of each plane, by its number.
fn planes_of(words: &Words) -> [u32; PLANES] {
    let mut dbp = [0; PLANES];
    let mut rows = [0; WORDS];
    for (i, pair) in words.windows(2).enumerate() {
        rows[i] = pair[1].wrapping_sub(pair[0]);
        // Bit 32 of the difference: it is negative.
        dbp[32] |= u32::from(pair[1] < pair[0]) << i;
    }
    transpose(&mut rows);
    dbp[..32].copy_from_slice(&rows);
    dbp
}

/// Swaps bit i of row k with bit k of row i, for all of them: halves first, then halves of those.
fn transpose(rows: &mut [u32; 32]) {
    let mut mask = 0x0000_ffff;
    for width in [16, 8, 4, 2, 1] {
        for k in (0..32).filter(|k| k & width == 0) {
            let differing = (rows[k] >> width ^ rows[k + width]) & mask;
            rows[k] ^= differing << width;
            rows[k + width] ^= differing;
        }
        mask ^= mask << (width / 2);
    }
}

/// The sections of a chunk whose lengths hold together.
pub(super) struct Sections<'a> {
    /// One byte per entry, at most 128.
    pub(super) sizes: &'a [u8],
    /// As many bytes as the sizes say, the first of them at this offset.
    pub(super) strings: &'a [u8],
    pub(super) offset: usize,
}

pub(super) fn sections(coded: &[u8], raw_len: usize) -> Result<Sections<'_>, ChunkError> {
    let mut sections = SectionReader::new(coded);
    let sizes = sections.take(raw_len.div_ceil(ENTRY_LEN))?;
    if let Some(entry) = sizes.iter().position(|&size| usize::from(size) > ENTRY_LEN) {
        return Err(ChunkError::EntrySize { entry, size: sizes[entry] });
    }
    let offset = sections.offset();
    let strings = sections.take(sizes.iter().map(|&size| usize::from(size)).sum())?;
    sections.finish()?;
    Ok(Sections { sizes, strings, offset })
}

pub(super) fn decode(sections: &Sections<'_>, raw: &mut [u8]) -> Result<(), ChunkError> {
    let (mut start, all) = (0, sections.strings);
    for (entry, (&size, out)) in sections.sizes.iter().zip(raw.chunks_mut(ENTRY_LEN)).enumerate() {
        let end = start + usize::from(size);
        let bytes = decode_entry(&all[start..end], entry, sections.offset + end)?;
        out.copy_from_slice(&bytes[..out.len()]);
        start = end;
    }
    Ok(())
}

/// Decodes entry number `entry`, whose bytes end at byte `end` of the chunk.
pub(super) fn decode_entry(string: &[u8], entry: usize, end: usize) -> Result<Entry, ChunkError> {
    match string.len() {
        0 => return Ok([0; ENTRY_LEN]),
        ENTRY_LEN => return Ok(std::array::from_fn(|i| string[i])),
        _ => {}
    }
    let mut bits = BitReader::new(string);
    let first = read_first_word(&mut bits);
    let mut symbols = read_symbols(&mut bits, entry)?;
    for symbol in &mut symbols {
        if let Symbol::Plane(dbx) = symbol {
            *dbx = bits.take(DELTAS as u32) as u32;
        }
    }
    let taken = bits.taken();
    if taken.div_ceil(8) != string.len() {
        return Err(ChunkError::EntryBits { entry, needed: taken, got: 8 * string.len() });
    }
    if bits.take((8 * string.len() - taken) as u32) != 0 {
        return Err(ChunkError::Padding { offset: end });
    }
    Ok(entry_of(first, &symbols))
}

/// The symbol of each plane, plane 32 first.
fn read_symbols(bits: &mut BitReader, entry: usize) -> Result<[Symbol; PLANES], ChunkError> {
    let mut symbols = [Symbol::Zeros(1); PLANES];
    let mut read = 0;
    while read < PLANES {
        let symbol = Symbol::read_code(bits);
        let run = if let Some(Symbol::Zeros(run)) = symbol { run } else { 1 };
        match symbol {
            Some(symbol) if read + run <= PLANES => symbols[read] = symbol,
            _ => return Err(ChunkError::EntryCode { entry, plane: PLANES - 1 - read }),
        }
        read += run;
    }
    Ok(symbols)
}

/// The entry of a first word and the symbols of its planes, plane 32 first.
fn entry_of(first: u32, symbols: &[Symbol; PLANES]) -> Entry {
    let mut rows = [0; WORDS];
    let mut dbp = 0;
    for (plane, symbol) in (0..PLANES).rev().zip(symbols) {
        dbp = if *symbol == Symbol::ZeroDbp { 0 } else { dbp ^ symbol.dbx() };
        // Words have 32 bits: plane 32 is there for the planes below it.
        if let Some(row) = rows.get_mut(plane) {
            *row = dbp;
        }
    }
    transpose(&mut rows);
    let mut entry = [0; ENTRY_LEN];
    let mut word = first;
    for (bytes, difference) in entry.as_chunks_mut().0.iter_mut().zip(rows) {
        *bytes = word.to_le_bytes();
        word = word.wrapping_add(difference);
    }
    entry
}
