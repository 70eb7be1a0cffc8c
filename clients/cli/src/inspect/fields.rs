//! The header of a frame, field by field, right or wrong.

use std::ops::Range;

use mgcomp_codecs::frame::{ChunkSize, MAGIC, MAX_RAW_LEN, VERSION};
use mgcomp_codecs::{Algorithm, Element, codec};
use serde::Serialize;

/// One field of the header as it stands there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Field {
    /// What the format calls it.
    pub(crate) field: &'static str,
    /// Its first byte.
    pub(crate) offset: usize,
    /// Its bytes in hexadecimal.
    pub(crate) bytes: String,
    /// What they say.
    pub(crate) meaning: String,
}

/// Name, place and reading of each field: of its bytes, and of the frame where these alone do not tell.
type Layout = (&'static str, Range<usize>, fn(&[u8], &[u8]) -> String);

const LAYOUT: [Layout; 8] = [
    ("magic", 0..2, magic),
    ("version", 2..3, version),
    ("algorithm", 3..4, algorithm),
    ("element", 4..5, element),
    ("flags", 5..6, flags),
    ("chunk size", 6..7, chunk_size),
    ("reserved", 7..8, reserved),
    ("raw length", 8..16, raw_length),
];

/// The fields that are there in full.
pub(crate) fn fields(frame: &[u8]) -> Vec<Field> {
    LAYOUT
        .into_iter()
        .filter_map(|(field, place, explain)| {
            let offset = place.start;
            let bytes = frame.get(place)?;
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(Field { field, offset, bytes: hex.join(" "), meaning: explain(bytes, frame) })
        })
        .collect()
}

fn magic(bytes: &[u8], _: &[u8]) -> String {
    if bytes == MAGIC { "\"MG\": a frame".into() } else { "wrong: a frame starts with 4d 47".into() }
}

fn version(bytes: &[u8], _: &[u8]) -> String {
    match bytes[0] {
        VERSION => format!("layout version {VERSION}"),
        other => format!("wrong: layout version {other}, this program knows {VERSION}"),
    }
}

fn algorithm(bytes: &[u8], _: &[u8]) -> String {
    match Algorithm::try_from(bytes[0]) {
        Ok(algorithm) if codec(algorithm).is_some() => format!("coded with {algorithm}"),
        Ok(algorithm) => format!("wrong: {algorithm}, which this program has no codec for"),
        Err(error) => format!("wrong: {error}"),
    }
}

fn element(bytes: &[u8], _: &[u8]) -> String {
    match Element::try_from(bytes[0]) {
        Ok(element) => format!("values are {element}, {} bits each", 8 * element.width_bytes()),
        Err(error) => format!("wrong: {error}"),
    }
}

/// The flags of header byte 5.
const FLAGS: [&str; 2] = [
    "bit 0: the table holds a CRC32C of each chunk's raw bytes",
    "bit 1: a codebook, without which the chunks cannot be decoded, follows the table",
];

fn flags(bytes: &[u8], frame: &[u8]) -> String {
    let byte = bytes[0];
    let has_codebook = byte & 2 != 0;
    if byte & !3 != 0 {
        return format!("wrong: only bits 0 and 1 have a meaning, {byte:#010b} has others set");
    }
    if has_codebook && frame[3] != Algorithm::Ibp as u8 {
        return format!("wrong: bit 1 says that there is a codebook, which only {} has", Algorithm::Ibp);
    }
    let set = FLAGS.into_iter().enumerate().filter(|(bit, _)| byte >> bit & 1 != 0);
    let set: Vec<_> = set.map(|(_, meaning)| meaning).collect();
    if byte & 1 == 0 { [&["no checksums"][..], &set].concat().join("; ") } else { set.join("; ") }
}

fn chunk_size(bytes: &[u8], _: &[u8]) -> String {
    match ChunkSize::from_log2(bytes[0]) {
        Some(size) => format!("2^{} = {} raw bytes per chunk", size.log2(), size.bytes()),
        None => format!("wrong: 2^{} bytes per chunk, only 2^12 to 2^16 are allowed", bytes[0]),
    }
}

fn reserved(bytes: &[u8], _: &[u8]) -> String {
    if bytes[0] == 0 { "always zero".into() } else { "wrong: must be zero".into() }
}

fn raw_length(bytes: &[u8], _: &[u8]) -> String {
    let len = bytes.iter().rev().fold(0, |len, &byte| len << 8 | u64::from(byte));
    if len > MAX_RAW_LEN {
        format!("wrong: {len} raw bytes, a frame holds at most {MAX_RAW_LEN}")
    } else {
        format!("{len} raw bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [u8; 16] = [b'M', b'G', 1, 4, 6, 1, 14, 0, 0x39, 0x30, 0, 0, 0, 0, 0, 0];

    #[test]
    fn good_fields_are_explained() {
        let fields = fields(&GOOD);
        let meaning = |name| &fields.iter().find(|f| f.field == name).unwrap().meaning;
        assert_eq!(meaning("algorithm"), "coded with zvc");
        assert_eq!(meaning("element"), "values are f32, 32 bits each");
        assert_eq!(meaning("chunk size"), "2^14 = 16384 raw bytes per chunk");
        assert_eq!(meaning("raw length"), "12345 raw bytes");
        assert!(fields.iter().all(|f| !f.meaning.starts_with("wrong")));
        // Together they are the header, without a gap.
        let bytes: Vec<&str> = fields.iter().flat_map(|f| f.bytes.split(' ')).collect();
        assert_eq!(bytes.join(""), "4d47010406010e003930000000000000");
    }

    #[test]
    fn each_wrong_field_says_so_and_no_other() {
        let wrong = [(0, 0), (2, 0), (3, 0), (3, 13), (4, 10), (5, 2), (6, 11), (6, 17), (7, 1), (15, 1)];
        for (at, value) in wrong {
            let mut header = GOOD;
            header[at] = value;
            let fields = fields(&header);
            let bad: Vec<_> = fields.iter().filter(|f| f.meaning.starts_with("wrong")).collect();
            assert_eq!(bad.len(), 1, "byte {at} = {value}: {bad:?}");
            assert!(LAYOUT.iter().any(|(name, place, _)| *name == bad[0].field && place.contains(&at)));
        }
    }

    #[test]
    fn flags_are_explained_one_by_one() {
        let meaning = |algorithm, flags| {
            let mut header = GOOD;
            (header[3], header[5]) = (algorithm, flags);
            fields(&header).into_iter().find(|field| field.field == "flags").unwrap().meaning
        };
        let ibp = Algorithm::Ibp as u8;
        assert_eq!(meaning(ibp, 0), "no checksums");
        assert_eq!(meaning(ibp, 1), FLAGS[0]);
        assert_eq!(meaning(ibp, 2), format!("no checksums; {}", FLAGS[1]));
        assert_eq!(meaning(ibp, 3), FLAGS.join("; "));
        assert!(meaning(4, 2).starts_with("wrong: bit 1 says that there is a codebook, which only ibp has"));
        assert!(meaning(ibp, 7).starts_with("wrong: only bits 0 and 1"));
    }

    #[test]
    fn a_cut_header_shows_what_is_there() {
        assert_eq!(fields(&GOOD[..15]).len(), 7);
        assert_eq!(fields(&GOOD[..1]).len(), 0);
    }
}
