//! The definition of FPC.

use super::{PLANES_LEN, Totals};
use crate::chunk::{ChunkError, SectionReader, SectionWriter};
use crate::line::{
    Kind, KindReader, KindWriter, LINE_LEN, Line, RAW_LINE_BITS, StreamReader, StreamWriter, Taken,
    from_words, lines, words,
};

const UNMATCHED: u8 = 0;
const ZERO: u8 = 1;
const EQUAL_BYTES: u8 = 2;
const SIGNED_4: u8 = 3;
const SIGNED_8: u8 = 4;
const SIGNED_16: u8 = 5;
const LOW_HALF_ZERO: u8 = 6;
const TWO_SIGNED_8: u8 = 7;

/// Data bits by prefix.
const DATA_BITS: [u32; 8] = [32, 0, 8, 4, 8, 16, 16, 16];
const PREFIX_BITS: u32 = 3;

/// Whether `word` is a signed number of `bits` bits.
const fn is_signed(word: u32, bits: u32) -> bool {
    let unused = 32 - bits;
    ((word << unused) as i32) >> unused == word as i32
}

/// The matching prefix with the fewest data bits, ties by the lower number.
const fn prefix_of(word: u32) -> u8 {
    if word == 0 {
        ZERO
    } else if is_signed(word, 4) {
        SIGNED_4
    } else if word == (word & 0xff) * 0x0101_0101 {
        EQUAL_BYTES
    } else if is_signed(word, 8) {
        SIGNED_8
    } else if is_signed(word, 16) {
        SIGNED_16
    } else if word & 0xffff == 0 {
        LOW_HALF_ZERO
    } else if is_halves_of_signed_8(word) {
        TWO_SIGNED_8
    } else {
        UNMATCHED
    }
}

const fn is_halves_of_signed_8(word: u32) -> bool {
    (word as u16) as i16 == word as u8 as i8 as i16
        && (word >> 16) as u16 as i16 == (word >> 16) as u8 as i8 as i16
}

/// The size of a line with these prefixes, in bits.
fn coded_bits(prefixes: &[u8; 16]) -> u32 {
    prefixes.iter().map(|&p| PREFIX_BITS + DATA_BITS[usize::from(p)]).sum()
}

/// Size of one line in bits: 3 for an all-zero line, 512 for a line that stays raw.
///
/// # Source
/// IPDPS 2019, Table II, with 3 + 32 bits for an unmatched word.
#[must_use]
pub fn line_bits(line: &Line) -> u32 {
    let words = words(line);
    if words == [0; 16] {
        return PREFIX_BITS;
    }
    coded_bits(&words.map(prefix_of)).min(RAW_LINE_BITS)
}

pub(super) fn encode(raw: &[u8], coded: &mut [u8]) -> usize {
    let mut kinds = KindWriter::default();
    let mut planes = Vec::new();
    let mut streams = StreamWriter::default();
    for line in lines(raw) {
        let words = words(&line);
        if words == [0; 16] {
            kinds.push(Kind::Zero);
            continue;
        }
        let prefixes = words.map(prefix_of);
        if coded_bits(&prefixes) < RAW_LINE_BITS {
            kinds.push(Kind::Coded);
            push_planes(&prefixes, &mut planes);
            for (word, prefix) in words.into_iter().zip(prefixes) {
                push_data(word, prefix, &mut streams);
            }
        } else {
            kinds.push(Kind::Raw);
            streams.line(&line);
        }
    }
    let mut out = SectionWriter::new(coded);
    kinds.write(&mut out);
    out.align(2);
    out.put(&planes);
    streams.write(&mut out);
    out.len()
}

fn push_planes(prefixes: &[u8; 16], planes: &mut Vec<u8>) {
    for bit in 0..PREFIX_BITS {
        let plane =
            prefixes.iter().enumerate().fold(0u16, |plane, (i, p)| plane | u16::from(p >> bit & 1) << i);
        planes.extend_from_slice(&plane.to_le_bytes());
    }
}

fn push_data(word: u32, prefix: u8, streams: &mut StreamWriter) {
    match prefix {
        UNMATCHED => streams.word(word),
        ZERO => {}
        SIGNED_4 => streams.nibble(word as u8 & 0xf),
        EQUAL_BYTES | SIGNED_8 => streams.byte(word as u8),
        SIGNED_16 => streams.half(word as u16),
        LOW_HALF_ZERO => streams.half((word >> 16) as u16),
        _ => streams.half(u16::from_le_bytes([word as u8, (word >> 16) as u8])),
    }
}

pub(super) fn totals(raw: &[u8]) -> Totals {
    let mut totals = Totals::of_lines_in(raw);
    for words in lines(raw).map(|line| words(&line)).filter(|words| *words != [0; 16]) {
        let prefixes = words.map(prefix_of);
        if coded_bits(&prefixes) < RAW_LINE_BITS {
            totals.coded_lines += 1;
            prefixes.into_iter().for_each(|prefix| count(prefix, &mut totals.fields));
        } else {
            totals.raw_lines += 1;
            totals.fields.words += 16;
        }
    }
    totals
}

pub(super) fn decode(coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let mut sections = SectionReader::new(coded);
    let kinds = KindReader::read(&mut sections, raw.len())?;
    sections.align(2)?;
    let planes = sections.take(PLANES_LEN * kinds.coded_lines())?;
    let mut prefixes = planes.as_chunks().0.iter().map(prefixes_of);

    let mut total = Taken { words: 16 * kinds.raw_lines(), ..Taken::default() };
    prefixes.clone().flatten().for_each(|prefix| count(prefix, &mut total));
    let mut streams = StreamReader::read(sections, total)?;

    for (kind, out) in kinds.iter().zip(raw.chunks_mut(LINE_LEN)) {
        let line = match kind {
            Kind::Zero => [0; LINE_LEN],
            Kind::Raw => streams.line(),
            Kind::Coded => {
                let prefixes = prefixes.next().unwrap_or([ZERO; 16]); // one set per coded line
                from_words(&prefixes.map(|prefix| take_data(prefix, &mut streams)))
            }
        };
        out.copy_from_slice(&line[..out.len()]);
    }
    Ok(())
}

fn prefixes_of(planes: &[u8; PLANES_LEN]) -> [u8; 16] {
    let [a, b, c, d, e, f] = *planes;
    let [low, middle, high] = [[a, b], [c, d], [e, f]].map(u16::from_le_bytes);
    std::array::from_fn(|i| (low >> i & 1 | (middle >> i & 1) << 1 | (high >> i & 1) << 2) as u8)
}

fn count(prefix: u8, total: &mut Taken) {
    match prefix {
        UNMATCHED => total.words += 1,
        ZERO => {}
        SIGNED_4 => total.nibbles += 1,
        EQUAL_BYTES | SIGNED_8 => total.bytes += 1,
        _ => total.halves += 1,
    }
}

fn take_data(prefix: u8, streams: &mut StreamReader<'_>) -> u32 {
    match prefix {
        UNMATCHED => streams.word(),
        ZERO => 0,
        EQUAL_BYTES => u32::from(streams.byte()) * 0x0101_0101,
        SIGNED_4 => ((streams.nibble() << 4) as i8 >> 4) as u32,
        SIGNED_8 => streams.byte() as i8 as u32,
        SIGNED_16 => streams.half() as i16 as u32,
        LOW_HALF_ZERO => u32::from(streams.half()) << 16,
        _ => {
            let [low, high] = streams.half().to_le_bytes().map(|byte| u32::from(byte as i8 as u16));
            low | high << 16
        }
    }
}
