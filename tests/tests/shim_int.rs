//! INT on the shim, with data for which its encoder takes every way there is, and headers that no encoder writes.

use std::collections::BTreeSet;

use mgcomp_codecs::frame::{self, ChunkSize, Frame, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::damage;
use mgcomp_tests::data::Random;
use mgcomp_tests::series::{self, Near, Shape};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, Status, expected, launch};

/// One of each width.
const ELEMENTS: [Element; 4] = [Element::U8, Element::U16, Element::U32, Element::U64];

/// Where the first chunk of a frame of one chunk is.
const CHUNK: usize = 32;

fn portable_frame(element: Element, raw: &[u8], chunk_size: ChunkSize) -> Vec<u8> {
    let options = Options { chunk_size, checksum: false };
    frame::encode(codec_on(Cpu::Portable, Algorithm::Int).unwrap(), element, raw, options).unwrap()
}

/// Encodes, estimates and decodes `raw`; returns the frame.
fn judge(shim: Shim, element: Element, raw: &[u8], size: ChunkSize, launch: Launch, what: &str) -> Vec<u8> {
    let frame = portable_frame(element, raw, size);
    let (status, got) = shim.encode(Algorithm::Int, element, raw, size, launch);
    let differs = got.iter().zip(&frame).position(|(a, b)| a != b);
    let wanted = (Status::GOOD, None, frame.len());
    assert_eq!((status, differs, got.len()), wanted, "{what}: {element} {} bytes", raw.len());
    let estimate = shim.estimate(Algorithm::Int, element, raw, size, launch);
    assert_eq!(estimate, (Status::GOOD, frame.len() as u64), "{what}: {element} {} bytes", raw.len());
    let (status, got) = shim.decode(Algorithm::Int, &frame, raw.len(), launch);
    assert!(status == Status::GOOD && got == raw, "{what}: {element} {} bytes, {status:?}", raw.len());
    frame
}

/// What of the format chunks make use of.
#[derive(Debug, Default)]
struct Uses {
    maps: BTreeSet<u8>,
    lags: BTreeSet<&'static str>,
    rotated: bool,
    low_bits: BTreeSet<u8>,
    codes: BTreeSet<u8>,
}

impl Uses {
    fn add(&mut self, frame: &[u8], width_bytes: usize) {
        let frame = Frame::parse(frame).unwrap();
        for chunk in frame.chunks().filter(|chunk| !chunk.is_raw()) {
            let bytes = chunk.stored;
            self.maps.insert(bytes[0]);
            self.rotated |= bytes[1] != 0;
            self.low_bits.insert(bytes[2]);
            let lag = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            self.lags.insert(match (lag(4), lag(6)) {
                (0, 0) => "none",
                (1, 0) => "1",
                (2..=32, 0) => "short",
                (_, 0) => "row",
                (a, b) if a == b => "equal",
                (_, ..=32) => "two short",
                _ => "short and row",
            });
            let blocks = (chunk.raw_len / width_bytes).div_ceil(32);
            let code = |block: usize| {
                let codes = &bytes[8 + width_bytes..];
                if width_bytes == 1 { codes[block / 2] >> (block % 2 * 4) & 15 } else { codes[block] }
            };
            self.codes.extend((0..blocks).map(code));
        }
    }

    fn check(&self, width_bytes: usize) {
        assert_eq!(self.maps, BTreeSet::from([0, 1, 2]), "{width_bytes}");
        let lags = BTreeSet::from(["none", "1", "short", "row", "equal", "two short", "short and row"]);
        assert_eq!(self.lags, lags, "{width_bytes}");
        assert!(self.rotated && self.low_bits.len() > 4, "{width_bytes}: {self:?}");
        let bits = 8 * width_bytes as u8;
        // All widths of planes but a few, and all lengths of patches.
        assert!(self.codes.range(..=bits).count() > 3 * usize::from(bits) / 4, "{width_bytes}: {self:?}");
        assert_eq!(self.codes.range(bits + 1..).count(), width_bytes, "{width_bytes}: {self:?}");
    }
}

#[test]
fn every_way_to_code_a_chunk() {
    let Some(shim) = Shim::or_skip("every_way_to_code_a_chunk") else { return };
    for element in ELEMENTS {
        let width = element.width_bytes();
        let mut random = Random::new(width as u64);
        let mut uses = Uses::default();
        for round in 0..400 {
            let shape = Shape::random(&mut random, 8 * width as u32);
            // Chunks of another shape follow; the last one is cut anywhere.
            let mut raw = series::words(shape, width, 4096 / width, &mut random);
            let other = Shape::random(&mut random, 8 * width as u32);
            let more = 1 + random.below(5000 / width);
            raw.extend(series::words(other, width, more, &mut random));
            raw.truncate(raw.len() - random.below(width));
            let launch = Launch::new(LaneOrder::ALL[round % 3], 1 + round as u32 % 3);
            let what = format!("{round}: {shape:?} {other:?}");
            uses.add(&judge(shim, element, &raw, ChunkSize::SMALL, launch, &what), width);
        }
        uses.check(width);
    }
}

#[test]
fn larger_chunks() {
    let Some(shim) = Shim::or_skip("larger_chunks") else { return };
    for element in ELEMENTS {
        let width = element.width_bytes();
        let mut random = Random::new(40 + width as u64);
        for round in 0..24 {
            let shape = Shape::random(&mut random, 8 * width as u32);
            let size = [ChunkSize::DEFAULT, ChunkSize::LARGE][round % 2];
            let count = size.bytes() / width + random.below(4000);
            let raw = series::words(shape, width, count, &mut random);
            let launch = Launch::new(LaneOrder::ALL[round % 3], 2);
            judge(shim, element, &raw, size, launch, &format!("{round}: {shape:?}"));
        }
    }
}

#[test]
fn patches_that_find_no_room() {
    let Some(shim) = Shim::or_skip("patches_that_find_no_room") else { return };
    // Three of four words stand out by 7 of 8 bytes: patches would take two thirds of the chunk.
    let shape = Shape { near: Near::Base, noise_bits: 0, outlier_percent: 75, outlier_bits: 56, shift: 0 };
    for (size, order) in
        [ChunkSize::SMALL, ChunkSize::DEFAULT, ChunkSize::LARGE].into_iter().zip(LaneOrder::ALL)
    {
        let raw = series::words(shape, 8, size.bytes() / 8, &mut Random::new(7));
        let frame = judge(shim, Element::U64, &raw, size, Launch::new(order, 1), "patches");
        let codes = &Frame::parse(&frame).unwrap().chunk(0).stored[16..][..raw.len() / 256];
        let patched = codes.iter().take_while(|&&code| code > 64).count();
        let in_planes = codes[patched..].iter().filter(|&&code| code == 56).count();
        assert!(patched > codes.len() / 2 && in_planes == codes.len() - patched, "{codes:?}");
    }
}

#[test]
fn any_lags_that_a_header_may_have() {
    let Some(shim) = Shim::or_skip("any_lags_that_a_header_may_have") else { return };
    let lags: [u16; 24] = [
        0, 1, 2, 3, 5, 16, 17, 31, 32, 33, 63, 64, 85, 100, 127, 128, 129, 255, 256, 257, 600, 1023, 4096,
        0xffff,
    ];
    let shape = Shape { near: Near::Base, noise_bits: 5, outlier_percent: 3, outlier_bits: 7, shift: 0 };
    let mut random = Random::new(3);
    for element in ELEMENTS {
        let width = element.width_bytes();
        let raw = series::words(shape, width, 4001 / width, &mut random);
        let mut frame = portable_frame(element, &raw, ChunkSize::SMALL);
        for a in lags {
            for b in [0, a, lags[random.below(24)], lags[random.below(24)], random.bits() as u16] {
                frame[CHUNK] = random.below(3) as u8;
                frame[CHUNK + 1] = random.below(8 * width) as u8;
                frame[CHUNK + 4..][..2].copy_from_slice(&a.to_le_bytes());
                frame[CHUNK + 6..][..2].copy_from_slice(&b.to_le_bytes());
                let wanted = expected(Algorithm::Int, &frame, raw.len()).expect("a good frame");
                let order = LaneOrder::ALL[random.below(3)];
                let got = shim.decode(Algorithm::Int, &frame, raw.len(), Launch::new(order, 1));
                assert!(got == (Status::GOOD, wanted), "{element}: lags {a} {b}, {:?}", got.0);
            }
        }
    }
}

#[test]
fn mutations_of_all_shapes() {
    let Some(shim) = Shim::or_skip("mutations_of_all_shapes") else { return };
    let mut random = Random::new(10);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..6000 {
        let element = ELEMENTS[round % 4];
        let width = element.width_bytes();
        let shape = Shape::random(&mut random, 8 * width as u32);
        let count = (300 + random.below(1200)) / width;
        let raw = series::words(shape, width, count, &mut random);
        let mutant = damage::mutate(&portable_frame(element, &raw, ChunkSize::SMALL), &mut random);
        let wanted = expected(Algorithm::Int, &mutant, raw.len());
        let launch = Launch::new(LaneOrder::ALL[round % 3], 1);
        let (status, got) = shim.decode(Algorithm::Int, &mutant, raw.len(), launch);
        let head = &mutant[..mutant.len().min(64)];
        assert_eq!(status == Status::GOOD, wanted.is_some(), "{round}: {status:?} {head:02x?}");
        match wanted {
            Some(raw) => {
                assert!(got == raw, "{round}: bytes differ {head:02x?}");
                accepted += 1;
            }
            None => refused += 1,
        }
    }
    assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
}

/// Expects `code` for a frame that the portable decoder refuses as well.
fn expect_code(shim: Shim, frame: &[u8], raw_len: usize, code: u32) {
    assert_eq!(expected(Algorithm::Int, frame, raw_len), None);
    for order in LaneOrder::ALL {
        let (status, _) = shim.decode(Algorithm::Int, frame, raw_len, Launch::new(order, 1));
        assert_eq!(status, Status { code, chunk: 0 }, "{order:?}");
    }
}

#[test]
fn each_fault_has_its_code() {
    let Some(shim) = Shim::or_skip("each_fault_has_its_code") else { return };
    // 65 words of two bytes, 0 and 1 in turn, and a byte: one plane in each of three blocks, no patches.
    let mut raw: Vec<u8> = (0..65).flat_map(|i| [i % 2, 0]).collect();
    raw.push(9);
    let good = portable_frame(Element::U16, &raw, ChunkSize::SMALL);
    // Header 10, codes 3, padding 3, planes 12, tail 1, and padding.
    assert_eq!(good[CHUNK..][..16], [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]);
    assert_eq!(good[CHUNK + 16..], [0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 9, 0, 0, 0, 0, 0, 0, 0]);
    let fault = |at: usize, byte: u8, code: u32| {
        let mut frame = good.clone();
        frame[CHUNK + at] = byte;
        expect_code(shim, &frame, raw.len(), code);
    };
    fault(0, 3, launch::BAD_CHUNK_FIELD);
    fault(1, 16, launch::BAD_CHUNK_FIELD);
    fault(2, 16, launch::BAD_CHUNK_FIELD);
    fault(3, 1, launch::BAD_CHUNK_FIELD);
    fault(12, 19, launch::BAD_CHUNK_FIELD);
    fault(13, 1, launch::BAD_CHUNK_PADDING);
    fault(15, 1, launch::BAD_CHUNK_PADDING);
    fault(31, 1, launch::BAD_CHUNK_PADDING);
    // Planes that are not there, and one that has a bit past the last word: the tail's.
    fault(12, 16, launch::BAD_CHUNK_TRUNCATED);
    fault(12, 1, launch::BAD_CHUNK_PADDING);
    // Block 0 in patches, whose marks are the plane of block 1: 16 of a byte each.
    fault(10, 17, launch::BAD_CHUNK_TRUNCATED);
}
