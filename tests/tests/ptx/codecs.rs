//! Frames and raw bytes.

use mgcomp_codecs::device::KernelSource;
use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::ptx::{Job, Kernels, Order, Setup};
use mgcomp_tests::shim::{Kernel, Status};

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

/// One of each width.
const ELEMENTS: [Element; 4] = [Element::F8E4M3, Element::Bf16, Element::F32, Element::U64];

/// On the borders of unit, line, warp of units and chunk, which has 4096 bytes.
const LENGTHS: [usize; 12] = [0, 1, 16, 63, 129, 511, 513, 4095, 4096, 4097, 8192, 2 * 4096 + 1003];

fn judge_algorithm(algorithm: Algorithm) {
    for (n, len) in LENGTHS.into_iter().enumerate() {
        for (k, kind) in Kind::ALL.into_iter().enumerate() {
            let order = if k % 2 == 0 { Order::InTurn } else { Order::OneByOne };
            let setup = Setup {
                chunk_size: ChunkSize::SMALL,
                blocks: 1 + (n + k) as u32 % 3,
                order,
                raw_offset: if k % 3 == 0 { n as u64 } else { 0 },
            };
            judge(algorithm, ELEMENTS[(n + k) % 4], &data::bytes(kind, len, len as u64), setup);
        }
    }
    // The most that a chunk holds, and a bit of the next one.
    let setup = Setup { chunk_size: ChunkSize::LARGE, blocks: 2, order: Order::InTurn, raw_offset: 0 };
    judge(algorithm, Element::U16, &data::bytes(Kind::Mixed, 65536 + 77, 3), setup);
}

/// Encodes, estimates and decodes `raw`.
fn judge(algorithm: Algorithm, element: Element, raw: &[u8], setup: Setup) {
    let what = || format!("{algorithm} {element} {} bytes, {setup:?}", raw.len());
    let options = Options { chunk_size: setup.chunk_size, checksum: false };
    let codec = codec_on(Cpu::Portable, algorithm).expect("a codec");
    let frame = frame::encode(codec, element, raw, options).expect("a frame");
    let run = |kernel, job| {
        let (mut answers, _) = kernels(algorithm)
            .run(kernel, &[job], setup)
            .unwrap_or_else(|fault| panic!("{}: {fault}", what()));
        let answer = answers.remove(0);
        assert_eq!(answer.status, Status::GOOD, "{kernel:?} {}", what());
        answer
    };
    let encoded = run(Kernel::Encode, Job::encode(algorithm, element, raw, setup.chunk_size));
    assert!(encoded.frame() == frame, "{}: frames differ", what());
    let estimated = run(Kernel::Estimate, Job::estimate(algorithm, element, raw));
    assert_eq!(estimated.len, frame.len() as u64, "{}: estimate", what());
    let decoded = run(Kernel::Decode, Job::decode(&frame, raw.len()));
    assert!(decoded.bytes == raw, "{}: raw bytes differ", what());
}

#[test]
fn a_wrong_instruction_shows() {
    let source = KernelSource::of(Algorithm::Zvc).expect("kernels");
    let text = source.shipped_ptx().expect("PTX");
    let setup = Setup { chunk_size: ChunkSize::SMALL, blocks: 1, order: Order::InTurn, raw_offset: 0 };
    let raw = data::bytes(Kind::Sparse, 4096, 1);
    let encode = |text: &str| {
        let kernels = Kernels::of(Algorithm::Zvc, text).expect("a program");
        let job = Job::encode(Algorithm::Zvc, Element::U32, &raw, setup.chunk_size);
        kernels.run(Kernel::Encode, &[job], setup).map(|(answers, _)| answers)
    };
    assert_ne!(encode(&text), encode(&text.replace("popc.b32", "clz.b32")));
}

#[test]
fn several_buffers_in_one_launch() {
    for algorithm in crate::algorithms() {
        let setup = Setup { chunk_size: ChunkSize::SMALL, blocks: 3, order: Order::InTurn, raw_offset: 0 };
        let raws: Vec<Vec<u8>> =
            [700, 0, 2 * 4096 + 9].map(|len| data::bytes(Kind::Mixed, len, len as u64)).to_vec();
        let options = Options { chunk_size: setup.chunk_size, checksum: false };
        let codec = codec_on(Cpu::Portable, algorithm).expect("a codec");
        let frames: Vec<Vec<u8>> = raws
            .iter()
            .map(|raw| frame::encode(codec, Element::U16, raw, options).expect("a frame"))
            .collect();
        let jobs: Vec<Job> =
            raws.iter().map(|raw| Job::encode(algorithm, Element::U16, raw, setup.chunk_size)).collect();
        let (encoded, _) = kernels(algorithm).run(Kernel::Encode, &jobs, setup).expect("no fault");
        assert!(encoded.iter().zip(&frames).all(|(answer, frame)| answer.frame() == frame), "{algorithm}");
        let jobs: Vec<Job> =
            frames.iter().zip(&raws).map(|(frame, raw)| Job::decode(frame, raw.len())).collect();
        let (decoded, _) = kernels(algorithm).run(Kernel::Decode, &jobs, setup).expect("no fault");
        assert!(decoded.iter().zip(&raws).all(|(answer, raw)| answer.bytes == *raw), "{algorithm}");
    }
}
