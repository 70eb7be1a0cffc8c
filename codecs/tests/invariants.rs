//! Invariant bit packing with codebooks of every shape: what goes in comes out, and every instruction set
//! writes the same.

mod common;

use common::fence::{Fenced, Place};
use common::{Random, hex};
use mgcomp_codecs::ibp::{Codebook, Form, Granule, Ibp, Invariants, Packer};
use mgcomp_codecs::{Codec, Cpu, Element, Isa};

const GRANULES: [Granule; 2] = [Granule::Four, Granule::Eight];

/// Masks from empty to full, in runs and scattered.
fn masks(random: &mut Random, len: usize) -> Vec<u8> {
    let kind = random.below(9);
    let byte = |i: usize, random: &mut Random| match kind {
        0 => 0,
        1 => 0xff,
        2 => random.next() as u8,
        3 => (random.next() & random.next()) as u8,
        4 => (random.next() | random.next()) as u8,
        // The sign and the low bits of a float vary.
        5 => [0, 0, 0x80, 0x7f][i % 4],
        6 => 0x55,
        // The kept bits of 64 bytes fit a word, or nearly.
        7 => (0..4).fold(0, |mask, _| mask | random.next() as u8),
        _ => [0, 0xff, 0, 0, 0xf0, 0xff, 0xff, 0x0f][i / 3 % 8],
    };
    (0..len).map(|i| byte(i, random)).collect()
}

fn codebook(random: &mut Random, granule: Granule, tensor_len: usize, clusters: usize) -> Codebook {
    let whole = tensor_len - tensor_len % granule.bytes();
    let cluster = |random: &mut Random| {
        let mut mask = masks(random, tensor_len);
        mask[whole..].fill(0);
        let bitval = mask.iter().map(|byte| byte & random.next() as u8).collect();
        Invariants { mask, bitval }
    };
    Codebook::new(granule, tensor_len, (0..clusters).map(|_| cluster(random)).collect()).unwrap()
}

/// `len` bytes of tensors from `offset` on, of whose granules one in `rare` does not match the first cluster or
/// another.
fn tensors(random: &mut Random, codebook: &Codebook, offset: usize, len: usize, rare: usize) -> Vec<u8> {
    let (tensor_len, granule) = (codebook.tensor_len(), codebook.granule().bytes());
    let (mut cluster, mut matches) = (0, true);
    let byte = |i: usize| {
        let place = (offset + i) % tensor_len;
        if place == 0 || i == 0 {
            cluster = random.below(codebook.clusters().len());
        }
        if place.is_multiple_of(granule) {
            matches = random.below(rare) != 0;
        }
        let (mask, bitval) =
            (codebook.clusters()[cluster].mask[place], codebook.clusters()[cluster].bitval[place]);
        let noise = random.next() as u8;
        if matches { bitval | noise & !mask } else { noise }
    };
    (0..len).map(byte).collect()
}

/// One packer per instruction set; the first is the definition.
fn packers(codebook: &Codebook) -> Vec<(Isa, Packer)> {
    Cpu::available().map(|cpu| (cpu.isa(), Packer::on(cpu, codebook.clone()))).collect()
}

/// For what is read and what is written.
fn fences() -> [Fenced; 2] {
    [0, 1].map(|_| Fenced::new(1 << 16))
}

#[test]
fn tensors_of_every_length_are_packed_alike() {
    let (mut random, mut fences) = (Random(50), fences());
    let lengths = (1..150).chain([255, 256, 257, 384, 1000, 1023, 1024, 1025, 4096]);
    for (tensor_len, granule) in lengths.flat_map(|len| GRANULES.map(|granule| (len, granule))) {
        for clusters in [1, 3] {
            let codebook = codebook(&mut random, granule, tensor_len, clusters);
            let packers = packers(&codebook);
            for rare in [1, 2, 20, 1000] {
                let tensor = tensors(&mut random, &codebook, 0, tensor_len, rare);
                let label = format!("{tensor_len} {granule:?} {clusters} {rare}");
                check_tensor(&packers, &mut fences, &tensor, &label);
            }
        }
    }
}

fn check_tensor(packers: &[(Isa, Packer)], fences: &mut [Fenced; 2], tensor: &[u8], label: &str) {
    let [read, written] = fences;
    let mut expected = vec![0; tensor.len()];
    let packed = packers[0].1.pack(tensor, &mut expected);
    expected.truncate(packed.len);
    for (isa, packer) in packers {
        let tensor = read.hold(Place::End, tensor);
        assert_eq!(packer.packed(tensor), packed, "{label} {isa}");
        let slot = written.place(Place::End, tensor.len(), 0xa5);
        assert_eq!(packer.pack(tensor, slot), packed, "{label} {isa}");
        assert_eq!(hex(&slot[..packed.len]), hex(&expected), "{label} {isa}");
        assert_eq!(written.harm(), None, "{label} {isa}");
        let (slot, tensor) = (written.content().to_vec(), tensor.to_vec());
        for len in [packed.len, tensor.len()] {
            let slot = read.hold(Place::End, &slot[..len]);
            let unpacked = written.place(Place::End, tensor.len(), 0xee);
            assert_eq!(packer.unpack(packed.form, slot, unpacked), Ok(packed.len), "{label} {isa}");
            assert_eq!(hex(unpacked), hex(&tensor), "{label} {isa}");
            assert_eq!(written.harm(), None, "{label} {isa}");
            assert_eq!(packer.stored_len(packed.form, slot), Ok(packed.len), "{label} {isa}");
        }
    }
}

#[test]
fn chunks_at_every_offset_are_coded_alike() {
    let (mut random, mut fences) = (Random(51), fences());
    for granule in GRANULES {
        for tensors_len in [1, 2, 3, 8, 9, 13, 16, 64, 125, 128] {
            let tensor_len = tensors_len * granule.bytes();
            for clusters in [1, 2, 5] {
                let codebook = codebook(&mut random, granule, tensor_len, clusters);
                let codecs: Vec<_> = Cpu::available()
                    .map(|cpu| (cpu.isa(), Ibp::with(cpu, codebook.clone()).unwrap()))
                    .collect();
                for round in 0..12 {
                    let offset = granule.bytes() * random.below(3 * tensors_len);
                    let len = [0, 1, 4096, random.below(100), random.below(1500)][round % 5];
                    let rare = [1, 2, 20, 1000][round % 4];
                    let raw = tensors(&mut random, &codebook, offset, len, rare);
                    let label = format!("{granule:?} {tensor_len} {clusters} at {offset}, {len} bytes");
                    check_chunk(&codecs, &mut fences, offset as u64, &raw, &label);
                }
            }
        }
    }
}

fn check_chunk(codecs: &[(Isa, Ibp)], fences: &mut [Fenced; 2], offset: u64, raw: &[u8], label: &str) {
    let [read, written] = fences;
    let mut expected = Vec::new();
    for (isa, codec) in codecs {
        let raw = read.hold(Place::End, raw);
        let room = codec.max_chunk_len(Element::U8, raw.len());
        let coded = written.place(Place::End, room, 0xa5);
        let len = codec.encode_chunk_at(offset, Element::U8, raw, coded);
        let mut coded = coded[..len].to_vec();
        if *isa == Isa::Portable {
            expected.clone_from(&coded);
        }
        assert_eq!(hex(&coded), hex(&expected), "{label} {isa}");
        assert_eq!(codec.chunk_len_at(offset, Element::U8, raw), len, "{label} {isa}");
        assert_eq!(written.harm(), None, "{label} {isa}");
        let raw = raw.to_vec();
        for padding in [0, 15] {
            coded.resize(len + padding, 0);
            let coded = read.hold(Place::End, &coded);
            let decoded = written.place(Place::End, raw.len(), 0xee);
            assert_eq!(codec.decode_chunk_at(offset, Element::U8, coded, decoded), Ok(()), "{label} {isa}");
            assert_eq!(hex(decoded), hex(&raw), "{label} {isa}");
            assert_eq!(written.harm(), None, "{label} {isa}");
        }
    }
}

#[test]
fn damaged_tensors_are_refused_or_read_alike() {
    let mut random = Random(52);
    let mut refused = 0;
    for round in 0..2000 {
        let granule = GRANULES[round % 2];
        let (tensor_len, clusters) = (1 + random.below(200), 1 + random.below(3));
        let codebook = codebook(&mut random, granule, tensor_len, clusters);
        let packers = packers(&codebook);
        let len = random.below(tensor_len + 8);
        let mut slot = random.bytes(len);
        if round % 4 == 0 {
            let tensor = tensors(&mut random, &codebook, 0, tensor_len, 5);
            slot = vec![0; tensor_len];
            let packed = packers[0].1.pack(&tensor, &mut slot);
            slot.truncate(packed.len);
            let at = random.below(slot.len());
            slot[at] ^= 1 << random.below(8);
        }
        let form = if round % 16 == 15 { Form::Raw } else { Form::Packed { cluster: random.below(4) as u8 } };
        let results: Vec<_> = packers
            .iter()
            .map(|(_, packer)| {
                let mut tensor = vec![0xee; tensor_len];
                packer.unpack(form, &slot, &mut tensor).map(|len| (len, tensor))
            })
            .collect();
        assert!(results.iter().all(|result| result == &results[0]), "{round}");
        refused += usize::from(results[0].is_err());
    }
    assert!((500..1900).contains(&refused), "{refused} of 2000");
}
