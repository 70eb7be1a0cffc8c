//! Codebooks that are missing, of another length, or lying: an error with a place, never a panic.

mod common;

use common::{Random, hex};
use mgcomp_codecs::frame::{self, ChunkSize, Frame, FrameError, Options, Workers};
use mgcomp_codecs::ibp::{
    Codebook, CodebookError, CodebookSection, FitOptions, Form, Granule, Ibp, Invariants, MAX_CLUSTERS,
    MAX_CODEBOOK_LEN, Packer, fit,
};
use mgcomp_codecs::{Algorithm, ChunkError, Codec, Cpu, Element, codec, codecs};

const LIMIT: u64 = 1 << 20;

/// Rows of 40 bytes, ten floats of which only the low halves vary.
fn rows(count: usize) -> Vec<u8> {
    let mut random = Random(60);
    let float = |random: &mut Random, i: usize| {
        let low = random.next().to_le_bytes();
        [low[0], low[1], 0x10 * (i % 10) as u8, 0x3f]
    };
    (0..10 * count).flat_map(|i| float(&mut random, i)).collect()
}

fn codebook() -> Codebook {
    fit(&rows(100), 40, FitOptions::default()).unwrap()
}

fn options() -> Options {
    Options { chunk_size: ChunkSize::SMALL, checksum: true }
}

/// A frame of three chunks that carries the codebook, one that names it, and their raw bytes.
fn frames() -> [(Vec<u8>, Vec<u8>); 2] {
    let raw = rows(250);
    let codec = || Ibp::with(Cpu::active(), codebook()).unwrap();
    [codec(), codec().naming()].map(|codec| {
        let frame = frame::encode(&codec, Element::F32, &raw, options()).unwrap();
        (frame, raw.clone())
    })
}

fn decode(frame: &[u8]) -> Result<Vec<u8>, FrameError> {
    Frame::parse(frame)?.decode_to_vec(LIMIT)
}

#[test]
fn an_empty_frame_may_have_a_codebook() {
    // IBP on F32 in chunks of 4 KiB, no raw bytes; codebook number 1 by name.
    let mut frame = b"MG\x01\x08\x00\x02\x0c\x00".to_vec();
    frame.extend([0u64, 1, 0].map(u64::to_le_bytes).concat());
    let parsed = Frame::parse(&frame).unwrap();
    assert!(matches!(parsed.codebook(), Some(CodebookSection::Named(_))), "{:?}", parsed.codebook());
    assert_eq!(parsed.decode_to_vec(LIMIT), Ok(Vec::new()));
    // An encoder writes none.
    let codec = Ibp::with(Cpu::active(), codebook()).unwrap();
    assert_eq!(frame::encode(&codec, Element::F32, &[], options()).unwrap().len(), 16);
}

#[test]
fn a_frame_that_carries_its_codebook_needs_nothing_else() {
    let [(frame, raw), _] = frames();
    assert_eq!(decode(&frame), Ok(raw.clone()));
    // 4 bytes of each row's 40 are participation bits and halves: 5 bits and 160.
    assert!(frame.len() < raw.len() * 6 / 10, "{} of {}", frame.len(), raw.len());
    let parsed = Frame::parse(&frame).unwrap();
    assert_eq!(parsed.codebook(), Some(&CodebookSection::Carried(codebook())));
    assert!(parsed.chunks().all(|chunk| !chunk.is_raw()));
    for cpu in Cpu::available() {
        assert_eq!(parsed.clone().on(cpu).decode_to_vec(LIMIT), Ok(raw.clone()), "{:?}", cpu.isa());
        let codec = Ibp::with(cpu, codebook()).unwrap();
        let again = frame::encode(&codec, Element::F32, &raw, options()).unwrap();
        assert_eq!(hex(&again), hex(&frame), "{:?}", cpu.isa());
        assert_eq!(frame::frame_len(&codec, Element::F32, &raw, options()), frame.len() as u64);
    }
    let workers = Workers::new(2).unwrap();
    let mut decoded = vec![0; raw.len()];
    workers.decode_into(&parsed, &mut decoded).unwrap();
    assert!(decoded == raw);
}

#[test]
fn a_frame_that_names_its_codebook_needs_that_one() {
    let [(carried, _), (named, raw)] = frames();
    let id = codebook().id();
    assert_eq!(carried.len() - named.len(), codebook().to_bytes().len().next_multiple_of(16));
    let parsed = Frame::parse(&named).unwrap();
    assert_eq!(parsed.codebook(), Some(&CodebookSection::Named(id)));
    assert_eq!(parsed.decode_to_vec(LIMIT), Err(FrameError::CodebookMissing { id }));
    let with = parsed.clone().with_codebook(&codebook()).unwrap();
    assert_eq!(with.decode_to_vec(LIMIT), Ok(raw));

    let other = fit(&rows(100), 80, FitOptions::default()).unwrap();
    let expected = FrameError::CodebookOther { needed: id, given: other.id() };
    assert_eq!(parsed.with_codebook(&other).unwrap_err(), expected);
    // A frame that needs none.
    let bdi = frame::encode(codec(Algorithm::Bdi).unwrap(), Element::U8, &[0; 99], options()).unwrap();
    let expected = FrameError::CodebookOther { needed: 0, given: other.id() };
    assert_eq!(Frame::parse(&bdi).unwrap().with_codebook(&other).unwrap_err(), expected);
}

#[test]
fn a_codebook_that_does_not_pay_is_left_out() {
    let random = Random(61).bytes(10_000);
    let fitted = frame::encode(codec(Algorithm::Ibp).unwrap(), Element::U8, &random, options()).unwrap();
    for codec in [Ibp::with(Cpu::active(), codebook()).unwrap(), Ibp::on(Cpu::active())] {
        let frame = frame::encode(&codec, Element::U8, &random, options()).unwrap();
        assert!(frame.len() <= frame::max_frame_len(random.len(), options()));
        assert_eq!(frame::frame_len(&codec, Element::U8, &random, options()), frame.len() as u64);
        assert_eq!(Frame::parse(&frame).unwrap().codebook(), None);
        assert!(frame == fitted);
        assert!(decode(&frame).unwrap() == random);
    }
    // Two rows save less than the codebook of 96 bytes takes, and no row is saved by it alone.
    for count in 0..12 {
        let raw = rows(count);
        for codec in [Ibp::with(Cpu::active(), codebook()).unwrap(), Ibp::on(Cpu::active())] {
            let frame = frame::encode(&codec, Element::U8, &raw, options()).unwrap();
            assert!(frame.len() <= frame::max_frame_len(raw.len(), options()), "{count}");
            assert_eq!(decode(&frame), Ok(raw.clone()), "{count}");
        }
    }
}

#[test]
fn threads_write_the_frame_of_one() {
    let raw = rows(20_000);
    let workers = Workers::new(2).unwrap();
    let given = Ibp::with(Cpu::active(), codebook()).unwrap();
    let codecs: [&dyn Codec; 2] = [&given, codec(Algorithm::Ibp).unwrap()];
    for codec in codecs {
        for chunk_size in [ChunkSize::SMALL, ChunkSize::LARGE] {
            let options = Options { chunk_size, checksum: false };
            let expected = frame::encode(codec, Element::F32, &raw, options).unwrap();
            let mut room = vec![0; frame::max_frame_len(raw.len(), options)];
            let len = workers.encode_to(codec, Element::F32, &raw, options, &mut room, &|_| {}).unwrap();
            assert!(room[..len] == expected);
            assert!(decode(&expected).unwrap() == raw);
        }
    }
}

#[test]
fn clusters_and_cut_tensors_survive_a_frame() {
    // Tensors of 1,000 bytes of two kinds, so every chunk starts elsewhere in one.
    let mut random = Random(62);
    let raw: Vec<u8> = (0..50_000)
        .map(|i| if i / 1000 % 3 == 0 { random.next() as u8 & 0x0f } else { random.next() as u8 | 0xf0 })
        .collect();
    let codebook = fit(&raw, 1000, FitOptions { clusters: 2, ..FitOptions::default() }).unwrap();
    assert_eq!(codebook.clusters().len(), 2);
    let codec = Ibp::with(Cpu::active(), codebook).unwrap();
    let frame = frame::encode(&codec, Element::U8, &raw, options()).unwrap();
    // Half of the bits, and 1/64 more; the codebook takes 4,000 bytes.
    let data_len = frame.len() - Frame::parse(&frame).unwrap().chunks_offset();
    assert!(data_len < raw.len() * 53 / 100, "{data_len}");
    assert!(decode(&frame).unwrap() == raw);
}

/// The body of [`small`], field by field.
fn body(version: u8, granule: u8, clusters: u16, tensor_len: u32, masks: &[u8]) -> Vec<u8> {
    let mut body = vec![version, granule];
    body.extend_from_slice(&clusters.to_le_bytes());
    body.extend_from_slice(&tensor_len.to_le_bytes());
    body.extend_from_slice(masks);
    body
}

#[test]
fn every_field_of_a_body_is_checked() {
    let masks = [0xff, 0, 0, 0x0f, 0, 0, 0x10, 0, 0, 0x05, 0, 0];
    let good = body(0, 4, 1, 6, &masks);
    assert!(Codebook::parse(&good).is_ok());
    for len in 0..good.len() {
        let needed = if len < 8 { 8 } else { good.len() };
        assert_eq!(Codebook::parse(&good[..len]), Err(CodebookError::Truncated { needed, got: len }));
    }
    let longer = [&good[..], &[0]].concat();
    assert_eq!(Codebook::parse(&longer), Err(CodebookError::Trailing { end: 20, got: 21 }));

    let parse = |version, granule, clusters, tensor_len| {
        Codebook::parse(&body(version, granule, clusters, tensor_len, &masks)).unwrap_err()
    };
    assert_eq!(parse(1, 4, 1, 6), CodebookError::Version(1));
    assert_eq!(parse(0, 6, 1, 6), CodebookError::Granule(6));
    assert_eq!(parse(0, 4, 0, 6), CodebookError::Clusters(0));
    assert_eq!(parse(0, 4, 257, 6), CodebookError::Clusters(257));
    assert_eq!(parse(0, 4, 1, 0), CodebookError::TensorLen { tensor_len: 0, clusters: 1 });
    // Lengths that would be gigabytes are refused before anything is set aside.
    for (clusters, tensor_len) in [(1, u32::MAX), (1, (128 << 10) + 1), (256, 513), (2, 65_537)] {
        let (got, tensor) = (usize::from(clusters), tensor_len as usize);
        let expected = CodebookError::TensorLen { tensor_len: tensor, clusters: got };
        assert_eq!(parse(0, 4, clusters, tensor_len), expected);
    }
    assert_eq!(parse(0, 4, 1, 128 << 10), CodebookError::Truncated { needed: MAX_CODEBOOK_LEN, got: 20 });

    // A value outside the mask; a mask behind the last whole granule.
    let mut lying = good.clone();
    lying[8 + 6 + 3] = 0x10;
    let expected = CodebookError::Value { cluster: 0, byte: 3, bitval: 0x10, mask: 0x0f };
    assert_eq!(Codebook::parse(&lying), Err(expected));
    let mut lying = good;
    lying[8 + 5] = 1;
    assert_eq!(Codebook::parse(&lying), Err(CodebookError::Tail { cluster: 0, byte: 5 }));
}

#[test]
fn codebooks_made_in_the_process_are_checked_as_well() {
    let cluster = |mask: usize, bitval: usize| Invariants { mask: vec![0; mask], bitval: vec![0; bitval] };
    let new = |clusters| Codebook::new(Granule::Eight, 16, clusters).unwrap_err();
    assert_eq!(new(vec![]), CodebookError::Clusters(0));
    assert_eq!(new(vec![cluster(16, 16); 257]), CodebookError::Clusters(257));
    let expected = CodebookError::Cluster { cluster: 1, mask: 16, bitval: 15, tensor_len: 16 };
    assert_eq!(new(vec![cluster(16, 16), cluster(16, 15)]), expected);

    let options = FitOptions::default();
    assert_eq!(fit(&[1; 9], 0, options), Err(CodebookError::TensorLen { tensor_len: 0, clusters: 1 }));
    let tensor_len = usize::MAX;
    assert_eq!(fit(&[], tensor_len, options), Err(CodebookError::TensorLen { tensor_len, clusters: 1 }));
    let clusters = MAX_CLUSTERS + 1;
    assert_eq!(fit(&[], 8, FitOptions { clusters, ..options }), Err(CodebookError::Clusters(clusters)));
    assert_eq!(fit(&[], 8, FitOptions { clusters: 0, ..options }), Err(CodebookError::Clusters(0)));
    assert!(fit(&[1; 99], 8, FitOptions { stride: usize::MAX, ..options }).is_ok());

    // For tables of rows, but not for frames.
    let odd = fit(&rows(10), 10, options).unwrap();
    let expected = CodebookError::Cut { tensor_len: 10, granule: 4 };
    assert_eq!(Ibp::with(Cpu::active(), odd).unwrap_err(), expected);
}

/// A frame of `raw` whose codebook section is `section`.
fn frame_with(section: &[u8]) -> Vec<u8> {
    let [(frame, _), _] = frames();
    let table_end = Frame::parse(&frame).unwrap().header().table_end();
    let chunks = Frame::parse(&frame).unwrap().chunks_offset();
    [&frame[..table_end], section, &frame[chunks..]].concat()
}

#[test]
fn every_field_of_a_section_is_checked() {
    let good = CodebookSection::Carried(codebook()).to_bytes();
    assert!(decode(&frame_with(&good)).is_ok());
    let offset = Frame::parse(&frames()[0].0).unwrap().header().table_end() as u64;
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut section = good.clone();
        change(&mut section);
        match Frame::parse(&frame_with(&section)) {
            Err(FrameError::Codebook { offset: at, source }) if at == offset => source,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(with(&|s| s[..8].fill(0)), CodebookError::Empty);
    let computed = codebook().id();
    assert_eq!(with(&|s| s[0] ^= 1), CodebookError::Id { named: computed ^ 1, computed });
    assert!(matches!(with(&|s| s[16 + 8] ^= 1), CodebookError::Value { .. } | CodebookError::Id { .. }));
    assert_eq!(with(&|s| s[8..16].fill(0xff)), CodebookError::TooLong { got: u64::MAX });
    let body_len = codebook().to_bytes().len();
    assert_eq!(body_len % 16, 8);
    assert_eq!(with(&|s| s[8] -= 1), CodebookError::Padding { offset: 16 + body_len - 1, got: 0x3f });
    let last = good.len() - 1;
    assert_eq!(with(&|s| s[last] = 7), CodebookError::Padding { offset: last, got: 7 });
    // A length that its own fields deny: the padding taken for a part of the body.
    let expected = CodebookError::Trailing { end: body_len, got: body_len + 1 };
    assert_eq!(with(&|s| s[8] += 1), expected);
    // Tensors of 10 bytes have half a granule too many for a frame.
    let odd = fit(&rows(10), 10, FitOptions::default()).unwrap();
    let cut = CodebookSection::Carried(odd).to_bytes();
    let expected = CodebookError::Cut { tensor_len: 10, granule: 4 };
    assert_eq!(with(&|s| s.clone_from(&cut)), expected);
}

#[test]
fn a_section_that_is_not_all_there_is_truncated() {
    let good = CodebookSection::Carried(codebook()).to_bytes();
    let whole = frame_with(&good);
    let offset = Frame::parse(&whole).unwrap().header().table_end();
    for len in offset..offset + good.len() {
        let needed = if len < offset + 16 { 16 } else { good.len() as u64 };
        let (part, offset, got) = ("codebook", offset as u64, (len - offset) as u64);
        let expected = FrameError::Truncated { part, offset, needed, got };
        assert_eq!(Frame::parse(&whole[..len]).unwrap_err(), expected);
    }
}

#[test]
fn only_ibp_has_a_codebook() {
    for codec in codecs().filter(|codec| codec.algorithm() != Algorithm::Ibp) {
        let mut frame = frame::encode(codec, Element::U8, &[0; 99], options()).unwrap();
        frame[5] |= 2;
        assert_eq!(Frame::parse(&frame).unwrap_err(), FrameError::Flags(3), "{}", codec.algorithm());
    }
}

#[test]
fn a_coded_chunk_without_a_codebook_is_no_code() {
    // The flag and the section taken away, the coded chunks left.
    let mut frame = frame_with(&[]);
    frame[5] &= !2;
    let error = decode(&frame).unwrap_err();
    assert!(
        matches!(error, FrameError::Chunk { chunk: 0, source: ChunkError::Truncated { .. }, .. }),
        "{error}"
    );
}

#[test]
fn another_codebook_of_the_same_shape_is_noticed_by_length_or_checksum() {
    let cluster = |value: u8| Invariants { mask: vec![0xff, 0, 0, 0xff], bitval: vec![value, 0, 0, value] };
    let [one, two] = [1, 2].map(|value| Codebook::new(Granule::Four, 4, vec![cluster(value)]).unwrap());
    let raw: Vec<u8> = (0..3000).flat_map(|i| [1, i as u8, 7, 1]).collect();
    let codec = Ibp::with(Cpu::active(), one).unwrap();
    let frame = frame::encode(&codec, Element::U8, &raw, options()).unwrap();
    let parsed = Frame::parse(&frame).unwrap();
    let swapped = [
        &frame[..parsed.header().table_end()],
        &CodebookSection::Carried(two).to_bytes(),
        &frame[parsed.chunks_offset()..],
    ];
    assert!(matches!(decode(&swapped.concat()), Err(FrameError::Checksum { chunk: 0, .. })));
}

#[test]
fn impossible_clusters_are_refused() {
    let cluster = |value: u8| Invariants { mask: vec![0xff; 8], bitval: vec![value; 8] };
    let codebook = Codebook::new(Granule::Four, 8, vec![cluster(1), cluster(2)]).unwrap();
    for cpu in Cpu::available() {
        let codec = Ibp::with(cpu, codebook.clone()).unwrap();
        let mut raw = [0; 16];
        assert_eq!(codec.decode_chunk(Element::U8, &[1, 0, 0b1111], &mut raw), Ok(()));
        assert_eq!(raw, [2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]);
        let expected = ChunkError::Cluster { tensor: 1, cluster: 2, clusters: 2 };
        assert_eq!(codec.decode_chunk(Element::U8, &[1, 2, 0b1111], &mut raw), Err(expected));
        let packer = Packer::on(cpu, codebook.clone());
        let expected = ChunkError::Cluster { tensor: 0, cluster: 2, clusters: 2 };
        assert_eq!(packer.unpack(Form::Packed { cluster: 2 }, &[0b11], &mut raw[..8]), Err(expected));
    }
}

#[test]
fn bits_that_mean_nothing_must_be_zero() {
    let mask = Invariants { mask: vec![0xf0, 0xff, 0xff, 0xff], bitval: vec![0; 4] };
    let codebook = Codebook::new(Granule::Four, 4, vec![mask]).unwrap();
    for cpu in Cpu::available() {
        let codec = Ibp::with(cpu, codebook.clone()).unwrap();
        let decode = |coded: &[u8], raw_len| {
            let mut raw = vec![0xee; raw_len];
            codec.decode_chunk(Element::U8, coded, &mut raw).map(|()| raw)
        };
        // Three granules keep a nibble each: 12 bits.
        assert_eq!(decode(&[0b111, 0x21, 0x03], 12), Ok(vec![1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]));
        assert_eq!(decode(&[0b1111, 0x21, 0x03], 12), Err(ChunkError::Padding { offset: 1 }));
        assert_eq!(decode(&[0b111, 0x21, 0x13], 12), Err(ChunkError::Padding { offset: 3 }));
        let truncated = |offset, needed, got| Err(ChunkError::Truncated { offset, needed, got });
        assert_eq!(decode(&[0b111, 0x21], 12), truncated(1, 2, 1));
        assert_eq!(decode(&[0b111, 0x21, 0x03], 13), truncated(3, 1, 0));
        assert_eq!(decode(&[0b110, 0x21, 0x03], 12), truncated(1, 5, 2));
        let long = [&[0b111, 0x21, 0x03][..], &[0; 16]].concat();
        assert_eq!(decode(&long, 12), Err(ChunkError::Trailing { offset: 3, extra: 16 }));
        // A granule that would match need not participate.
        assert_eq!(decode(&[0b01, 0x21, 0, 0, 0, 0], 8), Ok(vec![1, 0, 0, 0, 2, 0, 0, 0]));
    }
}

#[test]
fn damaged_frames_with_codebooks_never_panic() {
    for (index, (frame, raw)) in frames().into_iter().enumerate() {
        let mut random = Random(63 + index as u64);
        for round in 0..6_000 {
            let mut damaged = frame.clone();
            for _ in 0..=random.below(3) {
                // Mostly the front: header, table, codebook, participation bits.
                let at = random.below(if round % 3 == 0 { damaged.len() } else { 300 });
                damaged[at] = random.next() as u8;
            }
            let Ok(parsed) = Frame::parse(&damaged) else { continue };
            let parsed = match parsed.clone().with_codebook(&codebook()) {
                Ok(with) if index == 1 => with,
                _ => parsed,
            };
            if let Ok(decoded) = parsed.decode_to_vec(LIMIT) {
                assert!(decoded == raw, "{round}: other bytes without an error");
            }
        }
    }
}
