//! The worked example of `FORMAT.md`, read out of the document and held against the encoder and the decoder.
//!
//! A dump is a fenced block whose info string is `text` and a name. Each of its lines is an offset, bytes,
//! and behind a bar what they mean.

mod common;

use common::{assert_chunk, decode_chunk, encode_chunk, hex};
use mgcomp_codecs::frame::{self, ChunkSize, Frame, HEADER_LEN, Options};
use mgcomp_codecs::ibp::{CodebookSection, Ibp};
use mgcomp_codecs::{Algorithm, Codec, Cpu, Element, codec, codecs};

const DOCUMENT: &str = include_str!("../../FORMAT.md");

/// The bytes of the dump called `name`.
fn dump(name: &str) -> Vec<u8> {
    let opening = format!("```text {name}\n");
    assert_eq!(DOCUMENT.matches(&opening).count(), 1, "dumps called {name:?}");
    let (_, block) = DOCUMENT.split_once(&opening).unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let mut bytes = Vec::new();
    for line in block.lines() {
        let (numbers, _meaning) =
            line.split_once('|').unwrap_or_else(|| panic!("{name}: no bar in {line:?}"));
        let mut numbers = numbers.split_whitespace();
        let offset = numbers.next().map(|offset| usize::from_str_radix(offset, 16));
        assert_eq!(offset, Some(Ok(bytes.len())), "{name}: offset of {line:?}");
        bytes.extend(numbers.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    bytes
}

#[test]
fn the_raw_bytes_are_what_the_text_says() {
    let raw = dump("raw");
    assert_eq!(raw.len(), 146);
    assert_eq!(raw[..64], [0; 64]);
    assert_eq!(raw[64..68], 0x00ab_0000u32.to_le_bytes());
}

#[test]
fn the_chunks_are_what_the_codecs_write_and_read() {
    let raw = dump("raw");
    for algorithm in codecs().map(Codec::algorithm).filter(|&algorithm| algorithm != Algorithm::Ibp) {
        assert_chunk(algorithm, Element::U32, &raw, &dump(&format!("chunk {algorithm}")));
    }
}

#[test]
fn the_chunk_with_a_codebook_is_what_the_codec_writes_and_reads() {
    let (raw, stored) = (dump("raw"), dump("chunk ibp"));
    let section = CodebookSection::parse(&dump("codebook ibp")).unwrap();
    assert_eq!(hex(&section.to_bytes()), hex(&dump("codebook ibp")));
    let CodebookSection::Carried(codebook) = section else { panic!("the codebook is only named") };
    let codec = Ibp::with(Cpu::active(), codebook).unwrap();
    assert_eq!(hex(&encode_chunk(&codec, Element::U32, &raw)), hex(&stored));
    assert_eq!(decode_chunk(&codec, Element::U32, &stored, raw.len()), Ok(raw));
}

#[test]
fn the_frame_is_what_the_encoder_writes_and_the_decoder_reads() {
    let (raw, dumped) = (dump("raw"), dump("frame"));
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: true };
    let frame = frame::encode(codec(Algorithm::Fpc).unwrap(), Element::U32, &raw, options).unwrap();
    assert_eq!(hex(&frame), hex(&dumped));
    let parsed = Frame::parse(&dumped).unwrap();
    assert_eq!(parsed.decode_to_vec(146), Ok(raw));
    // Its only chunk is the one explained further down, padded.
    let chunk = dump("chunk fpc");
    assert_eq!(parsed.chunk(0).stored[..chunk.len()], chunk);
}

#[test]
fn every_codec_and_element_is_listed_with_its_number() {
    for codec in codecs() {
        let row = format!("| {} | `{}` |", codec.algorithm().number(), codec.algorithm());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for element in Element::ALL {
        let row = format!("| {} | `{element}` | {} |", element.number(), element.width_bytes());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}

#[test]
fn the_numbers_in_the_text_are_those_of_the_code() {
    let numbers = [
        format!("frame version {}", frame::VERSION),
        format!("header of {HEADER_LEN} bytes"),
        format!("at most {} raw bytes", frame::MAX_RAW_LEN),
        format!("units of {} bytes", frame::UNIT),
    ];
    for number in numbers {
        assert!(DOCUMENT.contains(&number), "{number:?} is not in the text");
    }
}

#[test]
fn the_worst_cases_are_those_of_the_text() {
    // Without a zero byte, and with nothing in common, every line is raw and every element is kept.
    let incompressible: Vec<u8> = common::Random(20).bytes(65_536).into_iter().map(|b| b.max(1)).collect();
    for len in (0..10_000usize).step_by(13).chain([63, 64, 65, 4096, 65_535, 65_536]) {
        let lines = len.div_ceil(64);
        for element in [Element::U8, Element::U16, Element::U32, Element::U64] {
            let width = element.width_bytes();
            let elements = len / width;
            let blocks = elements.div_ceil(32);
            let codes = if width == 1 { blocks.div_ceil(2) } else { blocks };
            let int = 4 * (8 + width + codes).div_ceil(4) + 32 * width * blocks + len % width;
            let expected = [
                (Algorithm::Bdi, 4 * lines.div_ceil(8) + 64 * lines),
                (Algorithm::Fpc, 2 * lines.div_ceil(8) + 7 + 64 * lines),
                (Algorithm::CpackZ, 2 * lines.div_ceil(8) + 6 + 64 * lines),
                (Algorithm::Zvc, 8 * elements.div_ceil(64) + len),
                (Algorithm::Rle, (4 + elements.div_ceil(128)).next_multiple_of(width) + len),
                (Algorithm::Deflate, (6 + 5 * len.div_ceil(65_535) + len).max(11)),
                (Algorithm::Bpc, 129 * len.div_ceil(128)),
                (Algorithm::Int, int),
                // Without a codebook: granules of 8 bytes, and no clusters.
                (Algorithm::Ibp, (len / 8).div_ceil(8) + len),
            ];
            for (algorithm, worst) in expected {
                let codec = codec(algorithm).unwrap();
                let coded_len = codec.chunk_len(element, &incompressible[..len]);
                let label = format!("{algorithm} {element} {len}: {coded_len} bytes, {worst} in the text");
                assert!(coded_len <= worst, "{label}");
                // Short lines, entries and blocks can take less.
                let whole = match algorithm {
                    Algorithm::Int => 32 * width,
                    Algorithm::Bpc => 128,
                    _ => 64,
                };
                assert!(len % whole != 0 || worst <= coded_len + 16, "{label}");
                assert!(worst <= codec.max_chunk_len(element, len), "{label}");
            }
        }
    }
}
