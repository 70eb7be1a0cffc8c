//! The decode kernels give the bytes that went in, whatever the data, the lengths, the grid and the lane order.

use mgcomp_codecs::frame::{self, ChunkSize, Frame, Options};
use mgcomp_codecs::{Algorithm, Element, codec};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, Status};

const CHUNK_SIZES: [ChunkSize; 3] = [ChunkSize::SMALL, ChunkSize::DEFAULT, ChunkSize::LARGE];
/// One of each width.
const ELEMENTS: [Element; 4] = [Element::F8E4M3, Element::Bf16, Element::F32, Element::U64];

/// Encodes `raw` and expects it back from the kernel, one block per chunk.
fn round_trip(shim: Shim, algorithm: Algorithm, element: Element, raw: &[u8], options: Options, what: &str) {
    let coded = frame::encode(codec(algorithm).unwrap(), element, raw, options).unwrap();
    let blocks = Frame::parse(&coded).unwrap().header().chunks().max(1) as u32;
    for order in LaneOrder::ALL {
        let (status, got) = shim.decode(algorithm, &coded, raw.len(), Launch::new(order, blocks));
        assert_eq!(status, Status::GOOD, "{algorithm} {element} {what} {order:?}");
        assert!(got == raw, "{algorithm} {element} {what} {order:?}: bytes differ");
    }
}

/// `border` and its neighbours.
fn around(border: usize) -> impl Iterator<Item = usize> {
    border.saturating_sub(1)..=border + 1
}

/// Lengths on the borders of everything in a chunk: element, unit, window, line, warp of lines, tile of masks.
fn lengths_in_a_chunk() -> Vec<usize> {
    let borders = [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048, 4096];
    let mut lengths: Vec<usize> = borders.into_iter().flat_map(around).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

#[test]
fn every_length_in_a_small_chunk() {
    let Some(shim) = Shim::or_skip("every_length_in_a_small_chunk") else { return };
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
    for len in lengths_in_a_chunk() {
        for kind in Kind::ALL {
            let raw = data::bytes(kind, len, len as u64);
            let what = format!("{kind:?} {len}");
            round_trip(shim, Algorithm::CpackZ, Element::U32, &raw, options, &what);
            for element in ELEMENTS {
                round_trip(shim, Algorithm::Zvc, element, &raw, options, &what);
            }
        }
    }
}

#[test]
fn every_length_around_chunks() {
    let Some(shim) = Shim::or_skip("every_length_around_chunks") else { return };
    for chunk_size in CHUNK_SIZES {
        let size = chunk_size.bytes();
        let lengths = around(size).chain(around(2 * size)).chain([3 * size + size / 2 + 13]);
        for (n, len) in lengths.enumerate() {
            let options = Options { chunk_size, checksum: n % 2 == 0 };
            for kind in Kind::ALL {
                let raw = data::bytes(kind, len, len as u64);
                let what = format!("{kind:?} {len} in chunks of {size}");
                round_trip(shim, Algorithm::CpackZ, Element::U8, &raw, options, &what);
                for element in ELEMENTS {
                    round_trip(shim, Algorithm::Zvc, element, &raw, options, &what);
                }
            }
        }
    }
}

#[test]
fn every_element() {
    let Some(shim) = Shim::or_skip("every_element") else { return };
    let raw = data::bytes(Kind::Sparse, 5003, 5);
    for element in Element::ALL {
        for algorithm in [Algorithm::Zvc, Algorithm::CpackZ] {
            round_trip(shim, algorithm, element, &raw, Options::for_len(raw.len()), "sparse");
        }
    }
}

#[test]
fn any_grid_and_any_destination() {
    let Some(shim) = Shim::or_skip("any_grid_and_any_destination") else { return };
    let raw = data::bytes(Kind::Mixed, 4 * 4096 + 77, 9);
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
    for algorithm in [Algorithm::Zvc, Algorithm::CpackZ] {
        let coded = frame::encode(codec(algorithm).unwrap(), Element::U16, &raw, options).unwrap();
        for (dst_offset, blocks) in (0..16).zip([1, 2, 3, 4, 5, 6, 17].into_iter().cycle()) {
            for order in LaneOrder::ALL {
                let launch = Launch { dst_offset, ..Launch::new(order, blocks) };
                let (status, got) = shim.decode(algorithm, &coded, raw.len(), launch);
                assert_eq!(status, Status::GOOD, "{algorithm} {launch:?}");
                assert!(got == raw, "{algorithm} {launch:?}: bytes differ");
            }
        }
    }
}

#[test]
fn frame_written_by_hand() {
    let Some(shim) = Shim::or_skip("frame_written_by_hand") else { return };
    // 40 u16 elements: 0x0102 at 1, 0x0304 at 33, and a byte that is no element.
    #[rustfmt::skip]
    let zvc = [
        b'M', b'G', 0, 4, 1, 0, 12, 0,   81, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0,         // ends after 1 unit; padding of the table
        2, 0, 0, 0, 2, 0, 0, 0,   2, 1, 4, 3, 9, 0, 0, 0,         // masks, elements, tail, padding
    ];
    let mut raw = [0; 81];
    raw[2..4].copy_from_slice(&[2, 1]);
    raw[66..68].copy_from_slice(&[4, 3]);
    raw[80] = 9;
    let got = shim.decode(Algorithm::Zvc, &zvc, 81, Launch::new(LaneOrder::Fifo, 1));
    assert_eq!(got, (Status::GOOD, raw.to_vec()));

    // A zero line, then one with all patterns: new, zero, equal, upper half, low byte, upper bytes, ten zeros.
    // Codes 2 1 3 3 3 3 1...: plane 0 is clear at word 0 alone, plane 1 set at 0 and 2 to 5.
    // Sub-codes 0 1 2 3 and indices 0 0 0, first in the lowest bits.
    #[rustfmt::skip]
    let cpackz = [
        b'M', b'G', 0, 3, 2, 0, 12, 0,   128, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0,
        0b10, 0b0, 0xfe, 0xff, 0x3d, 0x00, 0b11_10_01_00, 0,      // coded, raw, planes, sub-codes, padding
        0x44, 0x33, 0x22, 0x11,   0xbb, 0xaa,   0x07, 0x99,       // word, halfword, bytes
        0x00, 0x00,   0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0, // indices, padding
    ];
    let line = [0x1122_3344u32, 0, 0x1122_3344, 0x1122_aabb, 7, 0x1122_3399];
    let mut raw = [0; 128];
    raw[64..88].copy_from_slice(&line.map(u32::to_le_bytes).concat());
    let got = shim.decode(Algorithm::CpackZ, &cpackz, 128, Launch::new(LaneOrder::Fifo, 1));
    assert_eq!(got, (Status::GOOD, raw.to_vec()));
}
