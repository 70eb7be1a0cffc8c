//! The kernels give the portable frames, and from them the bytes that went in, whatever the data, the lengths,
//! the grid and the lane order.

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, Status};

const CHUNK_SIZES: [ChunkSize; 3] = [ChunkSize::SMALL, ChunkSize::DEFAULT, ChunkSize::LARGE];
/// One of each width.
const ELEMENTS: [Element; 4] = [Element::F8E4M3, Element::Bf16, Element::F32, Element::U64];

fn portable_frame(algorithm: Algorithm, element: Element, raw: &[u8], options: Options) -> Vec<u8> {
    frame::encode(codec_on(Cpu::Portable, algorithm).unwrap(), element, raw, options).unwrap()
}

/// Expects `raw` back from its portable frame.
fn expect_decoded(
    shim: Shim,
    algorithm: Algorithm,
    (frame, raw): (&[u8], &[u8]),
    launch: Launch,
    what: &dyn Fn() -> String,
) {
    let (status, got) = shim.decode(algorithm, frame, raw.len(), launch);
    assert_eq!(status, Status::GOOD, "{} {launch:?}", what());
    assert!(got == raw, "{} {launch:?}: raw bytes differ", what());
}

/// Expects the portable frame of `raw`, and its length.
fn expect_encoded(
    shim: Shim,
    (algorithm, element, chunk_size): (Algorithm, Element, ChunkSize),
    (frame, raw): (&[u8], &[u8]),
    launch: Launch,
    what: &dyn Fn() -> String,
) {
    let (status, got) = shim.encode(algorithm, element, raw, chunk_size, launch);
    assert_eq!(status, Status::GOOD, "{} {launch:?}", what());
    let differs = got.iter().zip(frame).position(|(a, b)| a != b);
    assert_eq!((differs, got.len()), (None, frame.len()), "{} {launch:?}: frames differ", what());
    // An estimate needs no place for a frame, so no offset of one matters.
    let (status, len) = shim.estimate(algorithm, element, raw, chunk_size, launch);
    assert_eq!((status, len), (Status::GOOD, frame.len() as u64), "{} {launch:?}: estimate", what());
}

/// Encodes, estimates and decodes `raw` in `orders`, one block per chunk; the same with checksums to decode.
fn judge(
    shim: Shim,
    algorithm: Algorithm,
    element: Element,
    raw: &[u8],
    chunk_size: ChunkSize,
    orders: &[LaneOrder],
) {
    let what = || format!("{algorithm} {element} {} bytes in chunks of {}", raw.len(), chunk_size.bytes());
    let blocks = raw.len().div_ceil(chunk_size.bytes()).max(1) as u32;
    let plain = portable_frame(algorithm, element, raw, Options { chunk_size, checksum: false });
    for &order in orders {
        let launch = Launch::new(order, blocks);
        expect_decoded(shim, algorithm, (&plain, raw), launch, &what);
        expect_encoded(shim, (algorithm, element, chunk_size), (&plain, raw), launch, &what);
    }
    let checked = portable_frame(algorithm, element, raw, Options { chunk_size, checksum: true });
    expect_decoded(shim, algorithm, (&checked, raw), Launch::new(orders[0], blocks), &what);
}

/// `border` and its neighbours.
fn around(border: usize) -> impl Iterator<Item = usize> {
    border.saturating_sub(1)..=border + 1
}

/// Lengths on the borders of everything in a chunk: element, unit, window, line, entry, warp of units.
fn lengths_in_a_chunk() -> Vec<usize> {
    let borders = [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
    let mut lengths: Vec<usize> = borders.into_iter().flat_map(around).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

#[test]
fn every_length_in_a_small_chunk() {
    let Some(shim) = Shim::or_skip("every_length_in_a_small_chunk") else { return };
    for algorithm in shim.algorithms() {
        for (n, len) in lengths_in_a_chunk().into_iter().enumerate() {
            for kind in Kind::ALL {
                let raw = data::bytes(kind, len, len as u64);
                for (e, element) in ELEMENTS.into_iter().enumerate() {
                    let orders = [LaneOrder::ALL[(n + e) % 3]];
                    judge(shim, algorithm, element, &raw, ChunkSize::SMALL, &orders);
                }
            }
        }
    }
}

#[test]
fn every_length_around_chunks() {
    let Some(shim) = Shim::or_skip("every_length_around_chunks") else { return };
    for algorithm in shim.algorithms() {
        for chunk_size in CHUNK_SIZES {
            let size = chunk_size.bytes();
            let lengths = around(size).chain(around(2 * size)).chain([3 * size + size / 2 + 13]);
            for (n, len) in lengths.enumerate() {
                for (k, kind) in Kind::ALL.into_iter().enumerate() {
                    let raw = data::bytes(kind, len, len as u64);
                    let element = ELEMENTS[(n + k) % 4];
                    // Larger chunks take longer, and no order sees more of them.
                    let orders = &LaneOrder::ALL[(n + k) % 3..][..1];
                    let orders = if chunk_size == ChunkSize::SMALL { &LaneOrder::ALL } else { orders };
                    judge(shim, algorithm, element, &raw, chunk_size, orders);
                }
            }
        }
    }
}

#[test]
fn every_element_in_every_order() {
    let Some(shim) = Shim::or_skip("every_element_in_every_order") else { return };
    for kind in [Kind::Sparse, Kind::Mixed] {
        let raw = data::bytes(kind, 5003, 5);
        for element in Element::ALL {
            for algorithm in shim.algorithms() {
                judge(shim, algorithm, element, &raw, ChunkSize::SMALL, &LaneOrder::ALL);
            }
        }
    }
}

#[test]
fn any_grid_and_any_buffer() {
    let Some(shim) = Shim::or_skip("any_grid_and_any_buffer") else { return };
    let raw = data::bytes(Kind::Mixed, 4 * 4096 + 77, 9);
    let (element, chunk_size) = (Element::U16, ChunkSize::SMALL);
    for algorithm in shim.algorithms() {
        let what = || format!("{algorithm}");
        let frame = portable_frame(algorithm, element, &raw, Options { chunk_size, checksum: false });
        for (offset, blocks) in (0..16).zip([1, 2, 3, 4, 5, 6, 17].into_iter().cycle()) {
            for (n, order) in LaneOrder::ALL.into_iter().enumerate() {
                let launch = Launch { os_threads: 1 + n as u32, ..Launch::new(order, blocks) };
                let to = Launch { dst_offset: offset, ..launch };
                expect_decoded(shim, algorithm, (&frame, &raw), to, &what);
                let from = Launch { src_offset: offset, ..launch };
                expect_encoded(shim, (algorithm, element, chunk_size), (&frame, &raw), from, &what);
            }
        }
    }
}

#[test]
fn zvc_written_by_hand() {
    let Some(shim) = Shim::or_skip("zvc_written_by_hand") else { return };
    // 40 u16 elements: 0x0102 at 1, 0x0304 at 33, and a byte that is no element.
    #[rustfmt::skip]
    let frame = [
        b'M', b'G', 1, 4, 1, 0, 12, 0,   81, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0,         // ends after 1 unit; padding of the table
        2, 0, 0, 0, 2, 0, 0, 0,   2, 1, 4, 3, 9, 0, 0, 0,         // masks, elements, tail, padding
    ];
    let mut raw = [0; 81];
    raw[2..4].copy_from_slice(&[2, 1]);
    raw[66..68].copy_from_slice(&[4, 3]);
    raw[80] = 9;
    let launch = Launch::new(LaneOrder::Fifo, 1);
    assert_eq!(shim.decode(Algorithm::Zvc, &frame, 81, launch), (Status::GOOD, raw.to_vec()));
    let encoded = shim.encode(Algorithm::Zvc, Element::U16, &raw, ChunkSize::SMALL, launch);
    assert_eq!(encoded, (Status::GOOD, frame.to_vec()));
}

#[test]
fn cpackz_written_by_hand() {
    let Some(shim) = Shim::or_skip("cpackz_written_by_hand") else { return };
    // A zero line, then one with all patterns: new, zero, equal, upper half, low byte, upper bytes, ten zeros.
    // Codes 2 1 3 3 3 3 1...: plane 0 is clear at word 0 alone, plane 1 set at 0 and 2 to 5.
    // Sub-codes 0 1 2 3 and indices 0 0 0, first in the lowest bits.
    #[rustfmt::skip]
    let frame = [
        b'M', b'G', 1, 3, 2, 0, 12, 0,   128, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0,
        0b10, 0b0, 0xfe, 0xff, 0x3d, 0x00, 0b11_10_01_00, 0,      // coded, raw, planes, sub-codes, padding
        0x44, 0x33, 0x22, 0x11,   0xbb, 0xaa,   0x07, 0x99,       // word, halfword, bytes
        0x00, 0x00,   0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0, // indices, padding
    ];
    let line = [0x1122_3344u32, 0, 0x1122_3344, 0x1122_aabb, 7, 0x1122_3399];
    let mut raw = [0; 128];
    raw[64..88].copy_from_slice(&line.map(u32::to_le_bytes).concat());
    let launch = Launch::new(LaneOrder::Fifo, 1);
    assert_eq!(shim.decode(Algorithm::CpackZ, &frame, 128, launch), (Status::GOOD, raw.to_vec()));
    let encoded = shim.encode(Algorithm::CpackZ, Element::U32, &raw, ChunkSize::SMALL, launch);
    assert_eq!(encoded, (Status::GOOD, frame.to_vec()));
}

#[test]
fn rle_written_by_hand() {
    let Some(shim) = Shim::or_skip("rle_written_by_hand") else { return };
    // 60 u16 elements: 7, a lone zero, 8, then 57 zeros; and a byte that is no element.
    #[rustfmt::skip]
    let frame = [
        b'M', b'G', 1, 5, 1, 0, 12, 0,   121, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0,   0x82, 56,   7, 0, 0, 0, 8, 0,   9, 0, 0, 0, // controls, literals, tail, padding
    ];
    let mut raw = [0; 121];
    raw[0] = 7;
    raw[4] = 8;
    raw[120] = 9;
    let launch = Launch::new(LaneOrder::Fifo, 1);
    assert_eq!(shim.decode(Algorithm::Rle, &frame, 121, launch), (Status::GOOD, raw.to_vec()));
    let encoded = shim.encode(Algorithm::Rle, Element::U16, &raw, ChunkSize::SMALL, launch);
    assert_eq!(encoded, (Status::GOOD, frame.to_vec()));
}
