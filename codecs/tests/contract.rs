//! One contract for every codec: what goes in comes out, in no more bytes than promised, the same each time.

mod common;

use std::sync::Mutex;

use common::data::{KINDS, kinds};
use common::{Random, all_codecs, encode_chunk_over};
use mgcomp_codecs::frame::{self, ChunkSize, Frame, HEADER_LEN, Options};
use mgcomp_codecs::{Codec, Element, codecs};

const CHUNK_SIZES: [ChunkSize; 3] = [ChunkSize::SMALL, ChunkSize::DEFAULT, ChunkSize::LARGE];

/// Every length next to a boundary of a line, of a window of 32 elements of any width, of 8 or 16 lines (a
/// byte of kind bits, a unit of them) and of a unit of the chunk table.
fn short_lengths() -> Vec<usize> {
    let boundaries = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 576, 1024, 4096];
    let mut lengths = vec![0];
    lengths.extend(boundaries.into_iter().flat_map(|boundary| boundary - 1..=boundary + 1));
    // 31, 32 and 33 elements of each width, and a byte more or less.
    lengths.extend([1, 2, 4, 8].into_iter().flat_map(|width| [31, 32, 33].map(|count| count * width)));
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// One and two chunks of `size`, and a byte and a line more or less.
fn chunk_lengths(size: ChunkSize) -> Vec<usize> {
    let distances = [-64, -1, 0, 1, 64];
    let one = size.bytes() as isize;
    [one, 2 * one].into_iter().flat_map(|len| distances.map(|d| (len + d) as usize)).collect()
}

fn check_frame(codec: &dyn Codec, element: Element, label: &str, raw: &[u8], options: Options) {
    let frame = frame::encode(codec, element, raw, options).unwrap();
    assert!(frame == frame::encode(codec, element, raw, options).unwrap(), "{label}: not deterministic");

    let entry_len = if options.checksum { 8 } else { 4 };
    let table_len = (raw.len().div_ceil(options.chunk_size.bytes()) * entry_len).next_multiple_of(16);
    let all_raw = HEADER_LEN + table_len + raw.len().next_multiple_of(16);
    assert_eq!(frame::max_frame_len(raw.len(), options), all_raw, "{label}: worst case");
    assert!(frame.len() <= all_raw, "{label}: {} bytes, at most {all_raw}", frame.len());

    let parsed = Frame::parse(&frame).unwrap();
    assert_eq!(parsed.header().element, element);
    assert_eq!(parsed.header().algorithm, codec.algorithm());
    assert!(parsed.decode_to_vec(raw.len() as u64).as_deref() == Ok(raw), "{label}: round trip");
}

/// Each kind of data takes every seventh length, each another seven, so every length meets several kinds.
#[test]
fn frames_round_trip_at_every_boundary() {
    let mut random = Random(3);
    for (isa, codec) in all_codecs() {
        for element in Element::ALL {
            for (i, kind) in kinds().enumerate() {
                for len in short_lengths().into_iter().skip(i % 7).step_by(7) {
                    let raw = kind.fill(&mut random, element, len);
                    let label = format!("{} {isa} {element} {} {len}", codec.algorithm(), kind.name);
                    check_frame(codec, element, &label, &raw, Options::for_len(len));
                }
            }
        }
    }
}

#[test]
fn frames_round_trip_next_to_chunk_boundaries() {
    let mut random = Random(4);
    for chunk_size in CHUNK_SIZES {
        for (i, len) in chunk_lengths(chunk_size).into_iter().enumerate() {
            for (k, kind) in kinds().enumerate().skip(i % 3).step_by(3) {
                let element = Element::ALL[(i + k) % Element::ALL.len()];
                let raw = kind.fill(&mut random, element, len);
                let options = Options { chunk_size, checksum: k % 2 == 0 };
                for codec in codecs() {
                    let label = format!("{} {element} {} {len} {chunk_size:?}", codec.algorithm(), kind.name);
                    check_frame(codec, element, &label, &raw, options);
                }
            }
        }
    }
}

#[test]
fn every_element_and_chunk_size_round_trips() {
    let raw = KINDS[KINDS.len() - 1].1(&mut Random(5), 20_011);
    for codec in codecs() {
        for element in Element::ALL {
            for log2 in 12..=16 {
                let chunk_size = ChunkSize::from_log2(log2).unwrap();
                let label = format!("{} {element} 2^{log2}", codec.algorithm());
                check_frame(codec, element, &label, &raw, Options { chunk_size, checksum: log2 % 2 == 0 });
            }
        }
    }
}

/// What a codec may take of a chunk's raw length, and a little for its tables and its last vector.
fn most_room(raw_len: usize) -> usize {
    raw_len + raw_len / 2 + 4096
}

#[test]
fn room_for_a_chunk_grows_with_the_chunk_and_stays_small() {
    for (isa, codec) in all_codecs() {
        for element in Element::ALL {
            let mut before = 0;
            for len in (0..=65_536).step_by(61).chain([65_536]) {
                let room = codec.max_chunk_len(element, len);
                let label = format!("{} {isa} {element} {len}: room for {room}", codec.algorithm());
                assert!(room >= before, "{label}, a shorter chunk needs {before}");
                assert!(len <= room && room <= most_room(len), "{label}, at most {}", most_room(len));
                before = room;
            }
        }
    }
}

/// A frame stores such a chunk raw, but its encoder has to get through it first.
#[test]
fn random_data_grows_by_no_more_than_an_eighth() {
    let random = Random(7).bytes(65_536);
    for (isa, codec) in all_codecs() {
        for element in Element::ALL {
            for len in [1, 63, 64, 1000, 4096, 16_384, 65_535, 65_536] {
                // The buffer ends where the promised room does: more would panic.
                let coded = encode_chunk_over(0, codec, element, &random[..len]);
                let most = len + len / 8 + 512;
                let label = format!("{} {isa} {element} {len}", codec.algorithm());
                assert!(coded.len() <= most, "{label}: {} bytes, at most {most}", coded.len());
            }
        }
    }
}

#[test]
fn incompressible_data_is_stored_raw_and_hopeless_chunks_do_not_spoil_others() {
    let mut raw = Random(8).bytes(4096);
    raw.extend_from_slice(&[0; 4096]);
    for (isa, codec) in all_codecs() {
        let options = Options { chunk_size: ChunkSize::SMALL, checksum: true };
        let frame = frame::encode(codec, Element::U32, &raw, options).unwrap();
        let parsed = Frame::parse(&frame).unwrap();
        let [first, second] = [0, 1].map(|i| parsed.chunk(i));
        assert!(first.is_raw() && first.stored == &raw[..4096], "{} {isa}", codec.algorithm());
        assert!(!second.is_raw() && second.stored.len() <= 128, "{} {isa}", codec.algorithm());
        assert_eq!(first.checksum, Some(crc32c::crc32c(&raw[..4096])));
    }
}

#[test]
fn progress_counts_raw_bytes_up_to_all_of_them() {
    let raw = vec![1; 100_000];
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
    for codec in codecs() {
        let (mut frame, encoded) = (vec![9; 3], Mutex::new(Vec::new()));
        let progress = |done| encoded.lock().unwrap().push(done);
        frame::encode_into(codec, Element::U8, &raw, options, &mut frame, &progress).unwrap();
        let encoded = encoded.into_inner().unwrap();
        assert!(encoded.len() > 2 && encoded.is_sorted(), "{encoded:?}");
        assert_eq!(encoded.last(), Some(&100_000));
        assert_eq!(frame, frame::encode(codec, Element::U8, &raw, options).unwrap());
    }
}

#[test]
fn what_a_buffer_held_before_does_not_show() {
    // Long enough to be written past the caches.
    let raw: Vec<u8> = (0..9u32 << 18).flat_map(|i| (i / 3 * u32::from(i % 7 != 0)).to_le_bytes()).collect();
    let options = Options::for_len(raw.len());
    for codec in codecs().filter(|codec| codec.algorithm() != mgcomp_codecs::Algorithm::Deflate) {
        let expected = frame::encode(codec, Element::U32, &raw, options).unwrap();
        for before in [0, 1000, frame::max_frame_len(raw.len(), options), 16 << 20] {
            let mut frame = vec![0xee; before];
            frame::encode_into(codec, Element::U32, &raw, options, &mut frame, &|_| {}).unwrap();
            assert!(frame == expected, "{} over {before} bytes", codec.algorithm());
        }
    }
}

#[test]
fn an_empty_buffer_is_a_header_alone() {
    for codec in codecs() {
        let frame = frame::encode(codec, Element::U64, &[], Options::for_len(0)).unwrap();
        assert_eq!(frame.len(), HEADER_LEN);
        assert_eq!(Frame::parse(&frame).unwrap().decode_to_vec(0), Ok(vec![]));
    }
}
