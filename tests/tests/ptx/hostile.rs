//! Damaged frames: judged as the portable decoder does, without an access outside of the buffers, which would be a fault.

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::damage;
use mgcomp_tests::data::{self, Kind, Random};
use mgcomp_tests::ptx::{Job, Order, Setup};
use mgcomp_tests::shim::{Kernel, Status, expected};

use crate::{kernels, of_each_algorithm};

of_each_algorithm! {
    judge_algorithm:
    bdi Bdi,
    fpc Fpc,
    cpackz CpackZ,
    zvc Zvc,
    rle Rle,
    bpc Bpc,
    ibp Ibp,
    xp Xp,
    int Int,
}

const MUTANTS: usize = 150;

fn judge_algorithm(algorithm: Algorithm) {
    let codec = codec_on(Cpu::Portable, algorithm).expect("a codec");
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
    let shapes = [
        (Element::U8, Kind::Sparse, 700),
        (Element::U16, Kind::Mixed, 1001),
        (Element::F32, Kind::Patterns, 900),
        (Element::U64, Kind::Deltas, 4096 + 333),
    ];
    let targets = shapes.map(|(element, kind, len)| {
        let raw = data::bytes(kind, len, len as u64);
        (len, frame::encode(codec, element, &raw, options).expect("a frame"))
    });
    let mut random = Random::new(u64::from(algorithm.number()));
    let mut refused = 0;
    for round in 0..MUTANTS {
        let (len, frame) = &targets[round % targets.len()];
        let mutant = damage::mutate(frame, &mut random);
        let setup = Setup {
            chunk_size: ChunkSize::LARGE,
            blocks: 1 + round as u32 % 2,
            order: Order::InTurn,
            raw_offset: random.below(16) as u64,
        };
        let wanted = expected(algorithm, &mutant, *len);
        let (answers, _) = kernels(algorithm)
            .run(Kernel::Decode, &[Job::decode(&mutant, *len)], setup)
            .unwrap_or_else(|fault| panic!("{algorithm}, mutant {round}: {fault}"));
        let head = &mutant[..mutant.len().min(64)];
        assert_eq!(answers[0].status == Status::GOOD, wanted.is_some(), "{algorithm} {head:02x?}");
        match wanted {
            Some(raw) => assert!(answers[0].bytes == raw, "{algorithm}: bytes differ {head:02x?}"),
            None => refused += 1,
        }
    }
    assert!(refused > MUTANTS / 5, "{algorithm}: {refused} refused");
}
