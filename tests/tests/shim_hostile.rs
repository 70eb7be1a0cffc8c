//! The decode kernels accept exactly the frames that the portable decoder accepts, and touch nothing but them
//! and the destination.

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::damage;
use mgcomp_tests::data::{self, Kind, Random};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, Status, expected, launch};

const PLAIN: Options = Options { chunk_size: ChunkSize::SMALL, checksum: false };

fn coded(algorithm: Algorithm, element: Element, kind: Kind, raw_len: usize, options: Options) -> Vec<u8> {
    let raw = data::bytes(kind, raw_len, raw_len as u64);
    frame::encode(codec_on(Cpu::Portable, algorithm).unwrap(), element, &raw, options).unwrap()
}

/// Runs the kernel on `frame` and compares with the portable decoder; returns whether it was accepted.
fn judge(shim: Shim, algorithm: Algorithm, frame: &[u8], dst_len: usize, launch: Launch) -> bool {
    let wanted = expected(algorithm, frame, dst_len);
    let (status, got) = shim.decode(algorithm, frame, dst_len, launch);
    let head = &frame[..frame.len().min(64)];
    assert_eq!(status == Status::GOOD, wanted.is_some(), "{algorithm} {launch:?} {status:?} {head:02x?}");
    if let Some(raw) = &wanted {
        assert!(got == *raw, "{algorithm} {launch:?}: bytes differ {head:02x?}");
    }
    wanted.is_some()
}

#[test]
fn every_prefix_is_refused() {
    let Some(shim) = Shim::or_skip("every_prefix_is_refused") else { return };
    for algorithm in shim.algorithms() {
        let frame = coded(algorithm, Element::U16, Kind::Mixed, 4096 + 700, PLAIN);
        for len in 0..frame.len() {
            assert!(!judge(shim, algorithm, &frame[..len], 4096 + 700, Launch::new(LaneOrder::Fifo, 2)));
        }
        assert!(judge(shim, algorithm, &frame, 4096 + 700, Launch::new(LaneOrder::Fifo, 2)));
    }
}

#[test]
fn every_shorter_last_chunk_is_refused() {
    let Some(shim) = Shim::or_skip("every_shorter_last_chunk_is_refused") else { return };
    for algorithm in shim.algorithms() {
        let mut frames = Vec::new();
        for (element, kind) in [(Element::U8, Kind::Zero), (Element::U32, Kind::Mixed)] {
            frames.extend(damage::shorten_last_chunk(&coded(algorithm, element, kind, 4096 + 4095, PLAIN)));
        }
        assert!(frames.len() > 50, "{algorithm}: {} frames", frames.len());
        for frame in frames {
            assert!(!judge(shim, algorithm, &frame, 4096 + 4095, Launch::new(LaneOrder::Random(2), 2)));
        }
    }
}

/// Frames small enough that most changes hit something that matters.
fn mutation_targets(algorithm: Algorithm) -> Vec<(usize, Vec<u8>)> {
    let shapes = [
        (Element::U8, Kind::Sparse, 700),
        (Element::U16, Kind::Mixed, 1001),
        (Element::F32, Kind::Patterns, 900),
        (Element::U64, Kind::Sparse, 4096 + 333),
        (Element::U32, Kind::Dictionary, 2 * 4096 + 5),
        (Element::U32, Kind::Zero, 320),
        (Element::Bf16, Kind::Dense, 48),
        (Element::U8, Kind::Zero, 0),
    ];
    let mut targets = Vec::new();
    for (n, (element, kind, len)) in shapes.into_iter().enumerate() {
        let options = Options { checksum: n % 4 == 3, ..PLAIN };
        targets.push((len, coded(algorithm, element, kind, len, options)));
    }
    targets
}

#[test]
fn mutations_are_judged_as_by_the_portable_decoder() {
    let Some(shim) = Shim::or_skip("mutations_are_judged_as_by_the_portable_decoder") else { return };
    for algorithm in shim.algorithms() {
        let targets = mutation_targets(algorithm);
        let mut random = Random::new(u64::from(algorithm.number()));
        let (mut accepted, mut refused) = (0, 0);
        for round in 0..6000 {
            let (raw_len, frame) = &targets[round % targets.len()];
            let mutant = damage::mutate(frame, &mut random);
            let order = LaneOrder::ALL[random.below(3)];
            let launch = Launch { dst_offset: random.below(16), ..Launch::new(order, 1 + round as u32 % 3) };
            // Now and then the length that the frame claims, so that a changed one gets past the first check.
            let claimed = mutant.get(8..16).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()));
            let dst_len = if claimed < 1 << 16 && random.percent(50) { claimed as usize } else { *raw_len };
            if judge(shim, algorithm, &mutant, dst_len, launch) {
                accepted += 1;
            } else {
                refused += 1;
            }
        }
        println!("{algorithm}: {accepted} mutants accepted, {refused} refused");
        assert!(accepted > 300 && refused > 1000, "{algorithm}: {accepted} accepted, {refused} refused");
    }
}

/// A frame of two chunks: bytes 0 to 15 header, 16 to 23 table, 32 first chunk.
fn two_chunks(algorithm: Algorithm) -> Vec<u8> {
    let mut raw = vec![0; 4096 + 128];
    // One new word and one equal to it, in the first line of each chunk.
    for at in [0, 4, 4096, 4100] {
        raw[at..at + 4].copy_from_slice(&0x1122_3344u32.to_le_bytes());
    }
    frame::encode(codec_on(Cpu::Portable, algorithm).unwrap(), Element::U32, &raw, PLAIN).unwrap()
}

/// `code` for the frame with `byte` at `at`, and the same from the portable decoder's yes or no.
fn expect_code(shim: Shim, algorithm: Algorithm, at: usize, byte: u8, code: u32) {
    let mut frame = two_chunks(algorithm);
    assert_ne!(frame[at], byte, "byte {at} would not change");
    frame[at] = byte;
    assert!(expected(algorithm, &frame, 4096 + 128).is_none(), "byte {at}");
    for order in LaneOrder::ALL {
        let (status, _) = shim.decode(algorithm, &frame, 4096 + 128, Launch::new(order, 2));
        assert_eq!(status.code, code, "{algorithm}: byte {at} = {byte:#04x}, {order:?}");
    }
}

#[test]
fn each_fault_of_the_frame_has_its_code() {
    let Some(shim) = Shim::or_skip("each_fault_of_the_frame_has_its_code") else { return };
    for algorithm in shim.algorithms() {
        expect_code(shim, algorithm, 0, b'm', launch::BAD_MAGIC);
        expect_code(shim, algorithm, 1, b'g', launch::BAD_MAGIC);
        expect_code(shim, algorithm, 2, 0, launch::BAD_VERSION);
        expect_code(shim, algorithm, 2, 2, launch::BAD_VERSION);
        expect_code(shim, algorithm, 3, algorithm.number() ^ 1, launch::BAD_ALGORITHM);
        expect_code(shim, algorithm, 4, 10, launch::BAD_ELEMENT);
        expect_code(shim, algorithm, 5, 4, launch::BAD_FLAGS);
        if algorithm != Algorithm::Ibp {
            expect_code(shim, algorithm, 5, 2, launch::BAD_FLAGS); // a codebook
        }
        expect_code(shim, algorithm, 6, 11, launch::BAD_CHUNK_SIZE);
        expect_code(shim, algorithm, 6, 17, launch::BAD_CHUNK_SIZE);
        expect_code(shim, algorithm, 7, 1, launch::BAD_RESERVED);
        expect_code(shim, algorithm, 8, 0x7f, launch::BAD_DESTINATION);
        expect_code(shim, algorithm, 15, 1, launch::BAD_RAW_LENGTH);
        expect_code(shim, algorithm, 16, 0, launch::BAD_TABLE);
        expect_code(shim, algorithm, 18, 1, launch::BAD_TABLE);
        expect_code(shim, algorithm, 24, 1, launch::BAD_RESERVED);
    }
}

#[test]
fn each_fault_of_a_chunk_has_its_code() {
    let Some(shim) = Shim::or_skip("each_fault_of_a_chunk_has_its_code") else { return };
    // ZVC: chunk 0 has 32 masks (128 bytes) and two elements.
    let zvc = |at, byte, code| expect_code(shim, Algorithm::Zvc, at, byte, code);
    zvc(32, 0xff, launch::BAD_CHUNK_TRUNCATED);
    zvc(32 + 128 + 8, 1, launch::BAD_CHUNK_PADDING);
    // C-Pack+Z: chunk 0 has 64 lines, so 8 + 8 bytes of kinds, 4 of planes, 1 of sub-codes; the word at 24.
    let cpackz = |at, byte, code| expect_code(shim, Algorithm::CpackZ, at, byte, code);
    cpackz(32, 0xff, launch::BAD_CHUNK_TRUNCATED);
    cpackz(32 + 15, 0x80, launch::BAD_CHUNK_PADDING); // a raw bit where 63 are used
    cpackz(32 + 16, 0xf6, launch::BAD_CHUNK_TAG); // a word with code 0
    cpackz(32 + 20, 0x04, launch::BAD_CHUNK_PADDING); // behind the only sub-code
    cpackz(32 + 28, 0x01, launch::BAD_CHUNK_INDEX); // entry 1 of 1
    cpackz(32 + 28, 0x10, launch::BAD_CHUNK_PADDING); // behind the only index
    // RLE: chunk 0 has two controls, 2 literals and 1022 zeros, cut into 8 runs: 9 controls at 36.
    let rle = |at, byte, code| expect_code(shim, Algorithm::Rle, at, byte, code);
    rle(32, 0xff, launch::BAD_CHUNK_TRUNCATED);
    rle(35, 1, launch::BAD_CHUNK_RUNS); // more controls than elements
    rle(36, 0x80, launch::BAD_CHUNK_RUNS); // one literal only
    rle(36 + 9, 1, launch::BAD_CHUNK_PADDING); // before the literals
    // FPC: chunk 0 has 8 bytes of coded bits, 8 of raw bits, the planes of a line, 2 of padding, and two words.
    let fpc = |at, byte, code| expect_code(shim, Algorithm::Fpc, at, byte, code);
    fpc(32, 0, launch::BAD_CHUNK_TRAILING);
    fpc(32 + 8, 1, launch::BAD_CHUNK_TRUNCATED);
    fpc(32 + 15, 0x80, launch::BAD_CHUNK_PADDING);
    fpc(32 + 16, 0xff, launch::BAD_CHUNK_PADDING);
    fpc(32 + 22, 1, launch::BAD_CHUNK_PADDING);
    // BPC: chunk 0 has 32 sizes, of which one is not 0, and the 203 bits of an entry.
    let bpc = |at, byte, code| expect_code(shim, Algorithm::Bpc, at, byte, code);
    bpc(32, 27, launch::BAD_CHUNK_ENTRY);
    bpc(32 + 32 + 4, 0x14, launch::BAD_CHUNK_FIELD); // a run that is too long
    bpc(32 + 32 + 9, 0x91, launch::BAD_CHUNK_FIELD); // an index of 31
    bpc(32 + 32 + 25, 0x84, launch::BAD_CHUNK_PADDING);
    bpc(32 + 1, 128, launch::BAD_CHUNK_TRUNCATED);
    // XP: two bytes of mode.
    let xp = |at, byte, code| expect_code(shim, Algorithm::Xp, at, byte, code);
    xp(32, 0x10, launch::BAD_CHUNK_MODE);
    xp(33, 0x44, launch::BAD_CHUNK_MODE);
}

#[test]
fn faults_of_size_and_place_have_their_codes() {
    let Some(shim) = Shim::or_skip("faults_of_size_and_place_have_their_codes") else { return };
    for algorithm in shim.algorithms() {
        let frame = two_chunks(algorithm);
        let code = |frame: &[u8], dst_len, launch| shim.decode(algorithm, frame, dst_len, launch).0.code;
        let plain = Launch::new(LaneOrder::Fifo, 2);
        assert_eq!(code(&frame, 4096 + 127, plain), launch::BAD_DESTINATION);
        assert_eq!(code(&frame[..15], 4096 + 128, plain), launch::BAD_TRUNCATED);
        assert_eq!(code(&frame[..31], 4096 + 128, plain), launch::BAD_TRUNCATED);
        assert_eq!(code(&frame[..frame.len() - 1], 4096 + 128, plain), launch::BAD_TRUNCATED);
        for extra in [1, 15, 16, 17] {
            let long = [frame.as_slice(), &vec![0; extra]].concat();
            assert_eq!(code(&long, 4096 + 128, plain), launch::BAD_TRAILING);
        }
        for src_offset in [1, 4, 8] {
            let launch = Launch { src_offset, ..plain };
            assert_eq!(code(&frame, 4096 + 128, launch), launch::BAD_ALIGNMENT);
        }
        let empty = coded(algorithm, Element::U8, Kind::Zero, 0, PLAIN);
        assert_eq!(code(&empty, 0, plain), launch::GOOD);
        assert_eq!(code(&[empty.as_slice(), &[0]].concat(), 0, plain), launch::BAD_TRAILING);
    }
}

#[test]
fn a_chunk_with_a_unit_too_many_is_refused() {
    let Some(shim) = Shim::or_skip("a_chunk_with_a_unit_too_many_is_refused") else { return };
    for algorithm in shim.algorithms() {
        let mut frame = two_chunks(algorithm);
        // The last chunk gets a unit of zeros and a table entry to match.
        frame.extend([0; 16]);
        frame[20] += 1;
        assert_eq!(expected(algorithm, &frame, 4096 + 128), None);
        let (status, _) = shim.decode(algorithm, &frame, 4096 + 128, Launch::new(LaneOrder::Fifo, 2));
        assert!(status.code != launch::GOOD && status.chunk == 1, "{algorithm}: {status:?}");
    }
}

#[test]
fn the_lowest_bad_chunk_is_named() {
    let Some(shim) = Shim::or_skip("the_lowest_bad_chunk_is_named") else { return };
    let raw_len = 6 * 4096;
    for algorithm in shim.algorithms() {
        let frame = coded(algorithm, Element::U32, Kind::Dense, raw_len, PLAIN);
        // Dense chunks are raw, 256 units each; an end one unit off makes two chunks wrong.
        let mut frame = frame;
        for entry in [2, 4] {
            frame[16 + 4 * entry] += 1;
        }
        for order in LaneOrder::ALL {
            for blocks in [1, 2, 6] {
                let (status, _) = shim.decode(algorithm, &frame, raw_len, Launch::new(order, blocks));
                assert_eq!(
                    status,
                    Status { code: launch::BAD_TABLE, chunk: 2 },
                    "{algorithm} {order:?} {blocks}"
                );
            }
        }
    }
}
