//! Invariant bit packing, worked out by hand from the rule: participation bits, kept bits, tail.

mod common;

use common::fence::{Fenced, Place};
use common::{Random, hex};
use mgcomp_codecs::ibp::{
    Codebook, CodebookSection, FitOptions, Form, Granule, Ibp, Invariants, Packed, Packer, fit,
};
use mgcomp_codecs::{ChunkError, Codec, Cpu, Element, Isa};

fn packers(codebook: &Codebook) -> impl Iterator<Item = (Isa, Packer)> + '_ {
    Cpu::available().map(|cpu| (cpu.isa(), Packer::on(cpu, codebook.clone())))
}

fn codecs(codebook: &Codebook) -> impl Iterator<Item = (Isa, Ibp)> + '_ {
    Cpu::available().map(|cpu| (cpu.isa(), Ibp::with(cpu, codebook.clone()).unwrap()))
}

/// Packs into a slot that held something else, and unpacks again.
fn check_tensor(codebook: &Codebook, tensor: &[u8], form: Form, stored: &[u8]) {
    for (isa, packer) in packers(codebook) {
        let expected = Packed { form, len: stored.len() };
        assert_eq!(packer.packed(tensor), expected, "{isa}");
        let mut slot = vec![0xa5; tensor.len()];
        assert_eq!(packer.pack(tensor, &mut slot), expected, "{isa}");
        assert_eq!(hex(&slot[..stored.len()]), hex(stored), "{isa}");
        let mut unpacked = vec![0xee; tensor.len()];
        assert_eq!(packer.unpack(form, &slot, &mut unpacked), Ok(stored.len()), "{isa}: slot");
        assert_eq!(packer.unpack(form, stored, &mut unpacked), Ok(stored.len()), "{isa}: exact");
        assert_eq!(hex(&unpacked), hex(tensor), "{isa}");
        for len in 0..stored.len() {
            assert!(packer.unpack(form, &stored[..len], &mut unpacked).is_err(), "{isa} {len}");
        }
    }
}

/// Two granules of 4 bytes and a tail of 2: the high nibble of byte 0 is 3, byte 1 is 12, byte 7 is 40.
fn small() -> Codebook {
    let mask = vec![0xf0, 0xff, 0, 0, 0, 0, 0, 0xff, 0, 0];
    let bitval = vec![0x30, 0x12, 0, 0, 0, 0, 0, 0x40, 0, 0];
    Codebook::new(Granule::Four, 10, vec![Invariants { mask, bitval }]).unwrap()
}

#[test]
fn both_granules_of_a_tensor_participate() {
    let tensor = [0x35, 0x12, 0xab, 0xcd, 0x01, 0x02, 0x03, 0x40, 0x77, 0x88];
    // 4 + 16 kept bits 5, ab, cd; then 24: 01, 02, 03. The last half byte is unused.
    let stored = [0b11, 0xb5, 0xda, 0x1c, 0x20, 0x30, 0x00, 0x77, 0x88];
    check_tensor(&small(), &tensor, Form::Packed { cluster: 0 }, &stored);
}

#[test]
fn a_tensor_that_would_not_get_shorter_is_raw() {
    // The second granule does not match: 20 + 32 bits are 7 bytes, with participation and tail as many as before.
    let tensor = [0x35, 0x12, 0xab, 0xcd, 0x01, 0x02, 0x03, 0x41, 0x77, 0x88];
    check_tensor(&small(), &tensor, Form::Raw, &tensor);
}

#[test]
fn a_granule_that_does_not_match_is_kept_whole() {
    // Granules of 8 bytes, of which 6 are always 0.
    let mask = [0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0].repeat(3);
    let invariants = Invariants { mask, bitval: vec![0; 24] };
    let codebook = Codebook::new(Granule::Eight, 24, vec![invariants]).unwrap();
    let mut tensor = [0; 24];
    (tensor[3], tensor[7]) = (0x11, 0x12);
    tensor[8..16].copy_from_slice(&[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]);
    (tensor[19], tensor[23]) = (0x31, 0x32);
    let stored = [0b101, 0x11, 0x12, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32];
    check_tensor(&codebook, &tensor, Form::Packed { cluster: 0 }, &stored);
}

#[test]
fn the_cluster_that_packs_shortest_is_taken() {
    let cluster = |value: u8, bytes: usize| {
        let mut mask = vec![0; 8];
        mask[..bytes].fill(0xff);
        Invariants { bitval: mask.iter().map(|byte| byte & value).collect(), mask }
    };
    let codebook =
        Codebook::new(Granule::Eight, 8, vec![cluster(7, 3), cluster(7, 5), cluster(9, 6), cluster(7, 5)]);
    let codebook = codebook.unwrap();
    let check = |tensor: [u8; 8], cluster, stored: &[u8]| {
        check_tensor(&codebook, &tensor, Form::Packed { cluster }, stored);
    };
    check([7, 7, 7, 7, 7, 1, 2, 3], 1, &[1, 1, 2, 3]);
    check([7, 7, 7, 8, 7, 1, 2, 3], 0, &[1, 8, 7, 1, 2, 3]);
    check([9, 9, 9, 9, 9, 9, 2, 3], 2, &[1, 2, 3]);
    check_tensor(&codebook, &[1, 2, 3, 4, 5, 6, 7, 8], Form::Raw, &[1, 2, 3, 4, 5, 6, 7, 8]);
}

/// A chunk at `offset` is stored as exactly `stored`.
fn check_chunk(codebook: &Codebook, offset: u64, raw: &[u8], stored: &[u8]) {
    for (isa, codec) in codecs(codebook) {
        let mut coded = vec![0xa5; codec.max_chunk_len(Element::U8, raw.len())];
        let len = codec.encode_chunk_at(offset, Element::U8, raw, &mut coded);
        assert_eq!(hex(&coded[..len]), hex(stored), "{isa}");
        assert_eq!(codec.chunk_len_at(offset, Element::U8, raw), len, "{isa}");
        let mut decoded = vec![0xee; raw.len()];
        assert_eq!(codec.decode_chunk_at(offset, Element::U8, stored, &mut decoded), Ok(()), "{isa}");
        assert_eq!(hex(&decoded), hex(raw), "{isa}");
    }
}

#[test]
fn a_chunk_starts_within_a_tensor_and_has_no_gaps_between_tensors() {
    // Tensors of 12 bytes: of their three granules, the second ends in 22 and the third in 33.
    let mask = vec![0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0xff];
    let bitval = vec![0, 0, 0, 0, 0, 0, 0, 0x22, 0, 0, 0, 0x33];
    let codebook = Codebook::new(Granule::Four, 12, vec![Invariants { mask, bitval }]).unwrap();
    // 4096 = 341 · 12 + 4: the chunk starts with a second granule.
    let raw = [1, 2, 3, 0x22, 4, 5, 6, 0x33, 7, 8, 9, 10, 11, 12, 13, 0x33, 14, 15];
    let stored = [0b0111, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0x33, 14, 15];
    check_chunk(&codebook, 4096, &raw, &stored);
}

#[test]
fn a_chunk_names_the_cluster_of_every_tensor_that_it_cuts() {
    let cluster = |value| Invariants { mask: vec![0xff; 8], bitval: vec![value; 8] };
    let codebook = Codebook::new(Granule::Four, 8, vec![cluster(1), cluster(2)]).unwrap();
    // From the middle of a tensor on: its second half, a whole one, half of one that is like neither.
    let raw = [2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 9, 9, 5];
    check_chunk(&codebook, 4, &raw, &[1, 0, 0, 0b0111, 9, 9, 9, 9, 5]);
}

#[test]
fn thresholds_are_swept_for_the_shortest_total() {
    // Of ten tensors, nine end in 11 22; the other bytes are evenly split.
    let rows: Vec<u8> = (0..10u8)
        .flat_map(|i| {
            let byte = if i % 2 == 0 { 0x5a } else { 0xa5 };
            let end = if i == 3 { [0xee, 0xdd] } else { [0x11, 0x22] };
            [byte, byte, byte, byte, byte, byte, end[0], end[1]]
        })
        .collect();
    // Up to 0.9: 9 · (1 + 6) + 8 = 71 bytes. Above, nothing is invariant and all are raw, 80 bytes. At 0.5 the
    // evenly split bits are taken to be set, which no tensor's are.
    let invariants = only_cluster(&fit(&rows, 8, FitOptions::default()).unwrap());
    assert_eq!(hex(&invariants.mask), hex(&[0, 0, 0, 0, 0, 0, 0xff, 0xff]));
    assert_eq!(hex(&invariants.bitval), hex(&[0, 0, 0, 0, 0, 0, 0x11, 0x22]));
}

fn only_cluster(codebook: &Codebook) -> Invariants {
    assert_eq!(codebook.clusters().len(), 1);
    codebook.clusters()[0].clone()
}

#[test]
fn a_bit_that_one_tensor_in_five_has_is_not_worth_masking() {
    // Bit 4 of the first byte is set in 4 of 20 tensors. Masked, 16 tensors take 1 + 1 bytes and 4 take 4;
    // not masked, all take 1 + 1.
    let rows: Vec<u8> = (0..20u8).flat_map(|i| [i, 0, 0, 0x40]).collect();
    let codebook = fit(&rows, 4, FitOptions::default()).unwrap();
    let invariants = only_cluster(&codebook);
    assert_eq!(hex(&invariants.mask), hex(&[0xe0, 0xff, 0xff, 0xff]));
    assert_eq!(hex(&invariants.bitval), hex(&[0, 0, 0, 0x40]));
    assert_eq!(codebook.granule(), Granule::Four);
}

#[test]
fn a_bit_that_few_tensors_have_is_masked() {
    // As before, but bit 0 stands alone: set in 1 of 20 tensors. Masking it takes a tensor of 12 bytes, with
    // 2 · 4 other kept bits, from 1 + 2 to 1 + 1 bytes, and one of 20 to 1 + 1 + 4.
    let rows: Vec<u8> =
        (0..20u8).flat_map(|i| [u8::from(i == 7), 0, 0, 0, i % 16, 0, 0, 0, (i % 15) ^ 5, 0, 0, 0]).collect();
    let invariants = only_cluster(&fit(&rows, 12, FitOptions::default()).unwrap());
    assert_eq!(hex(&invariants.mask[..4]), hex(&[0xff; 4]));
    assert_eq!(hex(&invariants.mask[4..]), hex(&[0xf0, 0xff, 0xff, 0xff, 0xf0, 0xff, 0xff, 0xff]));
    assert_eq!(hex(&invariants.bitval), hex(&[0; 12]));
}

#[test]
fn clusters_find_what_no_common_mask_does() {
    // Two kinds of rows, one the complement of the other.
    let row: [u8; 16] = std::array::from_fn(|i| 17 * i as u8);
    let rows: Vec<u8> = (0..40).flat_map(|i| row.map(|byte| if i % 3 == 0 { !byte } else { byte })).collect();
    let codebook = fit(&rows, 16, FitOptions { clusters: 5, ..FitOptions::default() }).unwrap();
    let mut found: Vec<Vec<u8>> = codebook.clusters().iter().map(|c| c.bitval.clone()).collect();
    found.sort();
    assert_eq!(found, [row.to_vec(), row.map(|byte| !byte).to_vec()]);
    assert!(codebook.clusters().iter().all(|cluster| cluster.mask == [0xff; 16]));
    let packer = Packer::on(Cpu::active(), codebook);
    // Participation bits of two granules, and nothing else.
    assert!(rows.chunks(16).all(|row| packer.packed(row).len == 1));
}

#[test]
fn a_sample_tells_the_same_bits() {
    let mut random = Random(40);
    let rows: Vec<u8> =
        (0..4000).flat_map(|_| [random.next() as u8, 0x3f, random.next() as u8, 0x40]).collect();
    let all = fit(&rows, 4, FitOptions::default()).unwrap();
    for stride in [16, 17, 99] {
        let sampled = fit(&rows, 4, FitOptions { stride, ..FitOptions::default() }).unwrap();
        assert_eq!(sampled.id(), all.id(), "{stride}");
    }
    assert_eq!(hex(&only_cluster(&all).mask), hex(&[0, 0xff, 0, 0xff]));
    // An even stride would see every second tensor of two kinds only.
    let rows: Vec<u8> = (0..400u32).flat_map(|i| [(i % 2) as u8; 8]).collect();
    let sampled = fit(&rows, 8, FitOptions { stride: 2, ..FitOptions::default() }).unwrap();
    assert_eq!(only_cluster(&sampled).mask[0] & 1, 0);
}

#[test]
fn no_tensors_have_no_invariant_bits() {
    for rows in [&[][..], &[1, 2, 3]] {
        assert_eq!(only_cluster(&fit(rows, 4, FitOptions::default()).unwrap()).mask, [0; 4]);
    }
}

#[test]
fn the_body_of_a_codebook_and_its_section() {
    let codebook = Codebook::new(
        Granule::Four,
        4,
        vec![
            Invariants { mask: vec![1, 2, 3, 4], bitval: vec![1, 0, 2, 4] },
            Invariants { mask: vec![0xff; 4], bitval: vec![5, 6, 7, 8] },
        ],
    );
    let codebook = codebook.unwrap();
    let body = [0, 4, 2, 0, 4, 0, 0, 0, 1, 2, 3, 4, 1, 0, 2, 4, 0xff, 0xff, 0xff, 0xff, 5, 6, 7, 8];
    assert_eq!(hex(&codebook.to_bytes()), hex(&body));
    assert_eq!(Codebook::parse(&body).as_ref(), Ok(&codebook));

    let id = codebook.id().to_le_bytes();
    let carried = [&id[..], &[24, 0, 0, 0, 0, 0, 0, 0], &body, &[0; 8]].concat();
    let section = CodebookSection::Carried(codebook.clone());
    assert_eq!(hex(&section.to_bytes()), hex(&carried));
    assert_eq!(CodebookSection::parse(&carried), Ok(section));

    let named = [&id[..], &[0; 8]].concat();
    let section = CodebookSection::Named(codebook.id());
    assert_eq!(hex(&section.to_bytes()), hex(&named));
    // More may follow: it is the frame's.
    assert_eq!(CodebookSection::parse(&[&named[..], &[7; 5]].concat()), Ok(section));
}

#[test]
fn identities_are_fnv_1a() {
    // The published test vector of "foobar" in 64 bits is 85944171f73967e8; a body cannot be that, so the
    // same steps are done here on a body of 16 bytes.
    let fnv = |bytes: &[u8]| {
        let mut hash: u128 = 0xcbf2_9ce4_8422_2325;
        for byte in bytes {
            hash = (hash ^ u128::from(*byte)) * 0x0100_0000_01b3 % (1 << 64);
        }
        hash as u64
    };
    assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
    let nothing = Invariants { mask: vec![0; 4], bitval: vec![0; 4] };
    let codebook = Codebook::new(Granule::Four, 4, vec![nothing]).unwrap();
    assert_eq!(codebook.id(), fnv(&[0, 4, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(Codebook::empty().id(), 0);
}

/// Bits that vary in a granule of so many bits, for each kind of rows: from few that lie together to nearly all, and such that
/// a byte has several runs of them.
const VARYING: [fn(&mut Random, usize) -> u64; 10] = [
    |_, _| 0,
    |random, _| ones(random.below(7)),
    |random, bits| ones(1 + random.below(bits / 2)) << random.below(bits / 2),
    |_, bits| ones(bits),
    |random, bits| ones(bits) & !(1 << random.below(bits)),
    |random, bits| ones(bits) & random.next() & 0x0f3c_ff00_18ff_7ee7,
    |random, bits| ones([0, 1, bits - 1, bits][random.below(4)]),
    |_, bits| ones(bits) & 0x9999_9999_9999_9999,
    |_, bits| ones(bits) & 0x5b5b_5b5b_5b5b_5b5b,
    |_, bits| ones(bits) & 0x5555_5555_5555_5555,
];

fn ones(count: usize) -> u64 {
    if count == 0 { 0 } else { u64::MAX >> (64 - count) }
}

/// A codebook of rows of `len` bytes whose granules vary as `varying` says; and rows, of each granule of which `odd` of a
/// hundred do not participate.
fn rows(
    random: &mut Random,
    (granule, len): (Granule, usize),
    varying: fn(&mut Random, usize) -> u64,
    odd: usize,
) -> (Codebook, Vec<Vec<u8>>) {
    let bytes = granule.bytes();
    let whole = len - len % bytes;
    let (mut mask, mut bitval) = (vec![0; len], vec![0; len]);
    for at in (0..whole).step_by(bytes) {
        let invariant = !varying(random, 8 * bytes);
        mask[at..at + bytes].copy_from_slice(&invariant.to_le_bytes()[..bytes]);
        bitval[at..at + bytes].copy_from_slice(&(invariant & random.next()).to_le_bytes()[..bytes]);
    }
    let row = |random: &mut Random| {
        let mut row: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        for at in (0..whole).step_by(bytes).filter(|_| random.below(100) >= odd) {
            for i in at..at + bytes {
                row[i] = row[i] & !mask[i] | bitval[i];
            }
        }
        row
    };
    let rows = (0..6).map(|_| row(random)).collect();
    (Codebook::new(granule, len, vec![Invariants { mask, bitval }]).unwrap(), rows)
}

#[test]
fn rows_come_back_alone_and_in_pairs_whatever_their_bits() {
    let mut random = Random(77);
    // Nothing outside of codes and rows is touched.
    let [mut code, mut other, mut out] = [4096; 3].map(Fenced::new);
    let lens = [4, 8, 20, 60, 64, 68, 72, 128, 131, 200, 400, 516, 1024, 1029];
    for (granule, len) in [Granule::Four, Granule::Eight].into_iter().flat_map(|g| lens.map(|len| (g, len))) {
        for (kind, varying) in VARYING.into_iter().enumerate() {
            let odd = [0, 0, 1, 20][random.below(4)];
            let (codebook, rows) = rows(&mut random, (granule, len), varying, odd);
            for (isa, packer) in packers(&codebook) {
                let case = format!("{isa}, {granule:?}, {len} bytes, kind {kind}, odd {odd}");
                let stored: Vec<(Form, Vec<u8>)> = rows.iter().map(|row| stored(&packer, row)).collect();
                for ((first, second), rows) in stored.iter().zip(&stored[1..]).zip(rows.windows(2)) {
                    let [code, other] = [(&mut code, first), (&mut other, second)].map(|(fenced, stored)| {
                        let slot = fenced.place(Place::End, stored.1.len(), 0);
                        slot.copy_from_slice(&stored.1);
                        (stored.0, &*slot)
                    });
                    let rows_out = out.place(Place::End, 2 * len, 0xee);
                    let lens = [code.1.len(), other.1.len()];
                    assert_eq!(packer.unpack_pair([code, other], rows_out), Ok(lens), "{case}");
                    assert_eq!(hex(rows_out), hex(&rows.concat()), "{case}");
                    assert_eq!(out.harm(), None, "{case}");
                    let row_out = out.place(Place::End, len, 0xee);
                    assert_eq!(packer.unpack(code.0, code.1, row_out), Ok(code.1.len()), "{case}");
                    assert_eq!(hex(row_out), hex(&rows[0]), "{case}");
                    assert_eq!(out.harm(), None, "{case}");
                }
            }
        }
    }
}

#[test]
fn pairs_of_other_clusters_and_raw_rows_come_back() {
    // Rows whose upper nibbles are 1 in one cluster and 2 in the other.
    let cluster = |value| Invariants { mask: vec![0xf0; 16], bitval: vec![value; 16] };
    let codebook = Codebook::new(Granule::Eight, 16, vec![cluster(0x10), cluster(0x20)]).unwrap();
    let nibbles: Vec<u8> = (0..16).collect();
    let packed = [vec![0b11], (0..8).map(|i| (2 * i + 1) << 4 | (2 * i)).collect()].concat();
    let raw = vec![0xa5; 16];
    let [one, two] =
        [0x10, 0x20].map(|value| nibbles.iter().map(|nibble| value | nibble).collect::<Vec<u8>>());
    let forms = [
        (Form::Packed { cluster: 0 }, &packed, &one),
        (Form::Packed { cluster: 1 }, &packed, &two),
        (Form::Raw, &raw, &raw),
    ];
    for (isa, packer) in packers(&codebook) {
        for (first, second) in forms.iter().flat_map(|first| forms.iter().map(move |second| (first, second)))
        {
            let mut out = [0xee; 32];
            let lens = packer.unpack_pair([(first.0, first.1), (second.0, second.1)], &mut out);
            assert_eq!(lens, Ok([first.1.len(), second.1.len()]), "{isa}: {:?} {:?}", first.0, second.0);
            assert_eq!(
                hex(&out),
                hex(&[&first.2[..], second.2].concat()),
                "{isa}: {:?} {:?}",
                first.0,
                second.0
            );
        }
    }
}

#[test]
fn a_tensor_without_granules_is_its_tail() {
    let nothing = Invariants { mask: vec![0; 5], bitval: vec![0; 5] };
    let codebook = Codebook::new(Granule::Eight, 5, vec![nothing]).unwrap();
    for (isa, packer) in packers(&codebook) {
        let packed = (Form::Packed { cluster: 0 }, &[1, 2, 3, 4, 5, 6][..]);
        let mut out = [0xee; 10];
        assert_eq!(packer.unpack_pair([packed, packed], &mut out), Ok([5, 5]), "{isa}");
        assert_eq!(out, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5], "{isa}");
        assert_eq!(packer.unpack(packed.0, &packed.1[..4], &mut out[..5]), Err(truncated(0, 5, 4)), "{isa}");
    }
}

/// What is stored of a row, and no byte behind it.
fn stored(packer: &Packer, row: &[u8]) -> (Form, Vec<u8>) {
    let mut slot = vec![0xa5; row.len()];
    let Packed { form, len } = packer.pack(row, &mut slot);
    slot.truncate(len);
    (form, slot)
}

#[test]
fn of_a_pair_the_damaged_row_is_named() {
    let mut random = Random(78);
    // 25 granules have 4 bytes of participation bits, of which 7 bits mean nothing, and 10 bytes of kept ones: 5.
    let (codebook, rows) = rows(&mut random, (Granule::Eight, 200), |_, _| ones(3), 0);
    for (isa, packer) in packers(&codebook) {
        let (form, code) = stored(&packer, &rows[0]);
        assert_eq!((form, code.len()), (Form::Packed { cluster: 0 }, 14), "{isa}");
        let set = |byte: usize| {
            let mut damaged = code.clone();
            damaged[byte] |= 0x80;
            damaged
        };
        let damages = [
            (&set(3)[..], ChunkError::Padding { offset: 4 }),
            (&set(13), ChunkError::Padding { offset: 14 }),
            (&code[..3], truncated(0, 4, 3)),
            (&code[..13], truncated(4, 10, 9)),
        ];
        for (damaged, error) in damages {
            let mut out = vec![0; 400];
            assert_eq!(packer.unpack(form, damaged, &mut out[..200]), Err(error), "{isa}");
            let [good, bad] = [(form, &code[..]), (form, damaged)];
            assert_eq!(packer.unpack_pair([good, bad], &mut out), Err((1, error)), "{isa}");
            assert_eq!(hex(&out[..200]), hex(&rows[0]), "{isa}");
            assert_eq!(packer.unpack_pair([bad, good], &mut out), Err((0, error)), "{isa}");
        }
    }
}

fn truncated(offset: usize, needed: usize, got: usize) -> ChunkError {
    ChunkError::Truncated { offset, needed, got }
}
