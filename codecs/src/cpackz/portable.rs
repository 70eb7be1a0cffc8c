//! The definition of C-Pack+Z.

use super::{PLANES_LEN, Totals};
use crate::chunk::{ChunkError, SectionReader, SectionWriter};
use crate::line::{
    Kind, KindReader, KindWriter, LINE_LEN, Line, RAW_LINE_BITS, StreamReader, StreamWriter, Taken,
    from_words, lines, words,
};
use crate::packed::{PackedWriter, packed_field, packed_len, packed_tail_is_zero};

const ZERO: u8 = 1;
const NEW: u8 = 2;
const EXTENDED: u8 = 3;

const EQUAL: u8 = 0;
const UPPER_HALF: u8 = 1;
const LOW_BYTE: u8 = 2;
const UPPER_BYTES: u8 = 3;

const ZERO_LINE_BITS: u32 = 2;

/// What a word is, with its place in the dictionary where it has one.
#[derive(Clone, Copy)]
enum Token {
    Zero,
    New(u32),
    Equal { index: u8 },
    UpperHalf { index: u8, low: u16 },
    LowByte(u8),
    UpperBytes { index: u8, low: u8 },
}

impl Token {
    const fn bits(self) -> u32 {
        match self {
            Self::Zero => 2,
            Self::New(_) => 2 + 32,
            Self::Equal { .. } => 4 + 4,
            Self::UpperHalf { .. } => 4 + 4 + 16,
            Self::LowByte(_) => 4 + 8,
            Self::UpperBytes { .. } => 4 + 4 + 8,
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Zero => ZERO,
            Self::New(_) => NEW,
            _ => EXTENDED,
        }
    }
}

/// The words a line has stored so far.
#[derive(Default)]
struct Dictionary {
    words: [u32; 16],
    len: u8,
}

impl Dictionary {
    fn token(&mut self, word: u32) -> Token {
        if word == 0 {
            return Token::Zero;
        }
        if word <= 0xff {
            return Token::LowByte(word as u8); // no such word is ever inserted, so none is equal
        }
        // At most one entry shares the upper halfword: a word that finds one is not inserted.
        let entries = self.words[..usize::from(self.len)].iter();
        let Some(index) = entries.map(|entry| entry ^ word).position(|difference| difference < 1 << 16)
        else {
            return self.insert(word);
        };
        let difference = self.words[index] ^ word;
        let index = index as u8;
        match difference {
            0 => Token::Equal { index },
            1..=0xff => Token::UpperBytes { index, low: word as u8 },
            _ => Token::UpperHalf { index, low: word as u16 },
        }
    }

    fn insert(&mut self, word: u32) -> Token {
        self.words[usize::from(self.len)] = word;
        self.len += 1;
        Token::New(word)
    }
}

fn tokens(words: &[u32; 16]) -> [Token; 16] {
    let mut dictionary = Dictionary::default();
    words.map(|word| dictionary.token(word))
}

fn coded_bits(tokens: &[Token; 16]) -> u32 {
    tokens.iter().map(|t| t.bits()).sum()
}

/// Size of one line in bits: 2 for an all-zero line, 512 for a line that stays raw.
///
/// # Source
/// IPDPS 2019, Table II.
#[must_use]
pub fn line_bits(line: &Line) -> u32 {
    let words = words(line);
    if words == [0; 16] {
        return ZERO_LINE_BITS;
    }
    coded_bits(&tokens(&words)).min(RAW_LINE_BITS)
}

pub(super) fn encode(raw: &[u8], coded: &mut [u8]) -> usize {
    let mut kinds = KindWriter::default();
    let mut planes = Vec::new();
    let mut subcodes = PackedWriter::<2>::default();
    let mut streams = StreamWriter::default();
    for line in lines(raw) {
        let words = words(&line);
        if words == [0; 16] {
            kinds.push(Kind::Zero);
            continue;
        }
        let tokens = tokens(&words);
        if coded_bits(&tokens) < RAW_LINE_BITS {
            kinds.push(Kind::Coded);
            push_planes(&tokens, &mut planes);
            tokens.into_iter().for_each(|token| push_data(token, &mut subcodes, &mut streams));
        } else {
            kinds.push(Kind::Raw);
            streams.line(&line);
        }
    }
    let mut out = SectionWriter::new(coded);
    kinds.write(&mut out);
    out.align(2);
    out.put(&planes);
    out.put(subcodes.bytes());
    streams.write(&mut out);
    out.len()
}

fn push_planes(tokens: &[Token; 16], planes: &mut Vec<u8>) {
    for bit in 0..2 {
        let plane = tokens
            .iter()
            .enumerate()
            .fold(0u16, |plane, (i, token)| plane | u16::from(token.code() >> bit & 1) << i);
        planes.extend_from_slice(&plane.to_le_bytes());
    }
}

fn push_data(token: Token, subcodes: &mut PackedWriter<2>, streams: &mut StreamWriter) {
    match token {
        Token::Zero => {}
        Token::New(word) => streams.word(word),
        Token::Equal { index } => {
            subcodes.push(EQUAL);
            streams.nibble(index);
        }
        Token::UpperHalf { index, low } => {
            subcodes.push(UPPER_HALF);
            streams.nibble(index);
            streams.half(low);
        }
        Token::LowByte(low) => {
            subcodes.push(LOW_BYTE);
            streams.byte(low);
        }
        Token::UpperBytes { index, low } => {
            subcodes.push(UPPER_BYTES);
            streams.nibble(index);
            streams.byte(low);
        }
    }
}

pub(super) fn totals(raw: &[u8]) -> Totals {
    let mut totals = Totals::of_lines_in(raw);
    for words in lines(raw).map(|line| words(&line)).filter(|words| *words != [0; 16]) {
        let tokens = tokens(&words);
        if coded_bits(&tokens) < RAW_LINE_BITS {
            totals.coded_lines += 1;
            totals.extended += tokens.iter().filter(|token| token.code() == EXTENDED).count();
            tokens.into_iter().for_each(|token| count(token, &mut totals.fields));
        } else {
            totals.raw_lines += 1;
            totals.fields.words += 16;
        }
    }
    totals
}

fn count(token: Token, total: &mut Taken) {
    match token {
        Token::Zero => {}
        Token::New(_) => total.words += 1,
        Token::Equal { .. } => total.nibbles += 1,
        Token::LowByte(_) => total.bytes += 1,
        Token::UpperHalf { .. } => {
            total.nibbles += 1;
            total.halves += 1;
        }
        Token::UpperBytes { .. } => {
            total.nibbles += 1;
            total.bytes += 1;
        }
    }
}

pub(super) fn decode(coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let mut sections = SectionReader::new(coded);
    let kinds = KindReader::read(&mut sections, raw.len())?;
    sections.align(2)?;
    let planes = sections.take(PLANES_LEN * kinds.coded_lines())?;
    let codes = planes.as_chunks().0.iter().map(codes_of);

    let extended = codes.clone().flatten().filter(|&code| code == EXTENDED).count();
    let subcodes = sections.take(packed_len::<2>(extended))?;
    if !packed_tail_is_zero::<2>(subcodes, extended) {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    let new = codes.clone().flatten().filter(|&code| code == NEW).count();
    let total = fields_of(subcodes, extended, new + 16 * kinds.raw_lines());
    let streams = StreamReader::read(sections, total)?;

    let mut decoder = Decoder { codes, subcodes, extended: 0, streams };
    for (line, (kind, out)) in kinds.iter().zip(raw.chunks_mut(LINE_LEN)).enumerate() {
        let bytes = match kind {
            Kind::Zero => [0; LINE_LEN],
            Kind::Raw => decoder.streams.line(),
            Kind::Coded => decoder.coded_line(line)?,
        };
        out.copy_from_slice(&bytes[..out.len()]);
    }
    Ok(())
}

fn codes_of(planes: &[u8; PLANES_LEN]) -> [u8; 16] {
    let [a, b, c, d] = *planes;
    let [low, high] = [[a, b], [c, d]].map(u16::from_le_bytes);
    std::array::from_fn(|i| (low >> i & 1 | (high >> i & 1) << 1) as u8)
}

/// What all tags of the chunk ask of the data sections.
fn fields_of(subcodes: &[u8], extended: usize, words: usize) -> Taken {
    let mut total = Taken { words, ..Taken::default() };
    for i in 0..extended {
        let subcode = packed_field::<2>(subcodes, i);
        total.nibbles += usize::from(subcode != LOW_BYTE);
        total.halves += usize::from(subcode == UPPER_HALF);
        total.bytes += usize::from(subcode == LOW_BYTE || subcode == UPPER_BYTES);
    }
    total
}

struct Decoder<'a, C> {
    codes: C,
    subcodes: &'a [u8],
    /// Sub-codes used so far.
    extended: usize,
    streams: StreamReader<'a>,
}

impl<C: Iterator<Item = [u8; 16]>> Decoder<'_, C> {
    fn coded_line(&mut self, line: usize) -> Result<Line, ChunkError> {
        let codes = self.codes.next().unwrap_or([ZERO; 16]); // one set per coded line
        let dictionary = self.streams.taken().words;
        let mut words = [0; 16];
        for (word, code) in words.iter_mut().zip(codes) {
            *word = match code {
                ZERO => 0,
                NEW => self.streams.word(),
                EXTENDED => self.extended_word(line, dictionary)?,
                tag => return Err(ChunkError::Tag { line, tag }),
            };
        }
        Ok(from_words(&words))
    }

    fn extended_word(&mut self, line: usize, dictionary: usize) -> Result<u32, ChunkError> {
        let subcode = packed_field::<2>(self.subcodes, self.extended);
        self.extended += 1;
        let entry = if subcode == LOW_BYTE { 0 } else { self.dictionary_word(line, dictionary)? };
        Ok(match subcode {
            EQUAL => entry,
            UPPER_HALF => entry & 0xffff_0000 | u32::from(self.streams.half()),
            _ => entry & 0xffff_ff00 | u32::from(self.streams.byte()),
        })
    }

    /// The dictionary word that the next index names; the line's dictionary starts at word `dictionary`.
    fn dictionary_word(&mut self, line: usize, dictionary: usize) -> Result<u32, ChunkError> {
        let index = self.streams.nibble();
        let words = self.streams.taken().words - dictionary;
        if usize::from(index) >= words {
            return Err(ChunkError::Index { line, index, words });
        }
        Ok(self.streams.word_at(dictionary + usize::from(index)))
    }
}
