//! IBP's kernels with codebooks of every shape, carried, named or wrong.

use mgcomp_codecs::frame::{self, ChunkSize, Frame, Options};
use mgcomp_codecs::ibp::{Codebook, CodebookSection, FitOptions, Granule, Ibp, Invariants, fit};
use mgcomp_codecs::{Algorithm, Cpu, Element};
use mgcomp_tests::data::{Random, tensors};
use mgcomp_tests::shim::{Job, Kernel, LaneOrder, Launch, Shim, Status, expected, launch};

const SMALL: Options = Options { chunk_size: ChunkSize::SMALL, checksum: false };

/// Codebooks of granules, tensors and clusters as different as can be, each with tensors that suit it.
fn codebooks() -> Vec<(Codebook, Vec<u8>)> {
    let shapes = [
        (Granule::Four, 4, 1),
        (Granule::Four, 12, 1),
        (Granule::Four, 100, 3),
        (Granule::Four, 4, 2),
        (Granule::Eight, 8, 1),
        (Granule::Eight, 64, 1),
        (Granule::Four, 64, 1),
        (Granule::Eight, 512, 1),
        (Granule::Eight, 1024, 2),
        (Granule::Eight, 24, 5),
        (Granule::Eight, 1000, 1),
        (Granule::Four, 5004, 2),
        (Granule::Eight, 16384, 1),
    ];
    let fitted = |(n, (granule, tensor_len, clusters)): (usize, (Granule, usize, usize))| {
        let raw = tensors(tensor_len, clusters, (22_000 / tensor_len).max(12), n as u64);
        let options = FitOptions { granule: Some(granule), clusters, stride: 1 };
        let codebook = fit(&raw, tensor_len, options).unwrap();
        (codebook, raw)
    };
    shapes.into_iter().enumerate().map(fitted).collect()
}

fn portable_frame(codebook: &Codebook, names: bool, raw: &[u8], options: Options) -> Vec<u8> {
    let codec = Ibp::with(Cpu::Portable, codebook.clone()).unwrap();
    let codec = if names { codec.naming() } else { codec };
    frame::encode(&codec, Element::F32, raw, options).unwrap()
}

fn section(codebook: &Codebook) -> Vec<u8> {
    CodebookSection::Carried(codebook.clone()).to_bytes()
}

fn run(shim: Shim, kernel: Kernel, job: Job, launch: Launch) -> Job {
    let chunk_size = if kernel == Kernel::Decode { launch.chunk_limit } else { ChunkSize::SMALL };
    let mut jobs = [job];
    shim.run(Algorithm::Ibp, kernel, &mut jobs, chunk_size, launch);
    let [job] = jobs;
    job
}

/// Encodes, estimates and decodes `raw`; returns whether the frame has the codebook.
fn judge(shim: Shim, codebook: &Codebook, raw: &[u8], launch: Launch) -> bool {
    let (tensor_len, granule) = (codebook.tensor_len(), codebook.granule());
    let what =
        format!("{granule:?} of {tensor_len}, {} clusters, {} bytes", codebook.clusters().len(), raw.len());
    let frame = portable_frame(codebook, launch.names_codebooks, raw, SMALL);
    let encode = Job::encode(Element::F32, raw, ChunkSize::SMALL, launch).with_codebook(&section(codebook));
    let encoded = run(shim, Kernel::Encode, encode, launch);
    assert_eq!(encoded.status(), Status::GOOD, "{what} {launch:?}");
    assert_eq!(encoded.frame().len(), frame.len(), "{what} {launch:?}: lengths of frames");
    assert!(encoded.frame() == frame, "{what} {launch:?}: frames");
    let estimate = Job::new(Element::F32.number().into(), raw, 0, launch).with_codebook(&section(codebook));
    let estimated = run(shim, Kernel::Estimate, estimate, launch);
    assert_eq!((estimated.status(), estimated.out_len()), (Status::GOOD, frame.len() as u64), "{what}");
    let decode = Job::decode(&frame, raw.len(), Launch { src_offset: 0, ..launch });
    let decode = if launch.names_codebooks { decode.with_codebook(&section(codebook)) } else { decode };
    let decoded = run(shim, Kernel::Decode, decode, launch);
    assert_eq!(decoded.status(), Status::GOOD, "{what} {launch:?}");
    assert!(decoded.dst() == raw, "{what} {launch:?}: raw bytes");
    Frame::parse(&frame).unwrap().codebook().is_some()
}

#[test]
fn codebooks_of_every_shape() {
    let Some(shim) = Shim::or_skip("codebooks_of_every_shape") else { return };
    let mut paying = 0;
    for (codebook, raw) in codebooks() {
        for (n, order) in LaneOrder::ALL.into_iter().enumerate() {
            let plain = Launch { os_threads: 1 + n as u32, ..Launch::new(order, [1, 3, 9][n]) };
            let launch = Launch { names_codebooks: n == 1, src_offset: 4 * n, dst_offset: 0, ..plain };
            paying += u32::from(judge(shim, &codebook, &raw, launch));
            for len in [0, 1, 7, 8, 100, 4096, 4100, 8191] {
                judge(shim, &codebook, &raw[..len], launch);
            }
        }
    }
    assert!(paying >= 20, "only {paying} frames have their codebook");
}

#[test]
fn a_codebook_has_to_pay() {
    let Some(shim) = Shim::or_skip("a_codebook_has_to_pay") else { return };
    // Each chunk saves 7 bits of 32, less the participation: some 750 bytes. The codebook takes 112 bytes and more.
    let half = Invariants { mask: [0, 0, 0, 0xfe].repeat(512), bitval: vec![0; 2048] };
    let codebook = Codebook::new(Granule::Four, 2048, vec![half]).unwrap();
    let mut random = Random::new(1);
    let raw: Vec<u8> = (0..8 * 4096).map(|i| if i % 4 == 3 { 0 } else { random.bits() as u8 }).collect();
    let mut seen = [0; 2];
    for chunks in 1..=8 {
        for order in LaneOrder::ALL {
            for (blocks, os_threads) in [(1, 1), (2, 2), (9, 3)] {
                let launch = Launch { os_threads, ..Launch::new(order, blocks) };
                let pays = judge(shim, &codebook, &raw[..4096 * chunks], launch);
                seen[usize::from(pays)] += 1;
                // One that is only named takes a unit.
                let named = Launch { names_codebooks: true, ..launch };
                assert!(judge(shim, &codebook, &raw[..4096 * chunks], named));
            }
        }
    }
    assert!(seen.iter().all(|&times| times > 10), "{seen:?}");
}

#[test]
fn jobs_have_codebooks_of_their_own() {
    let Some(shim) = Shim::or_skip("jobs_have_codebooks_of_their_own") else { return };
    let all = codebooks();
    for (n, order) in LaneOrder::ALL.into_iter().enumerate() {
        let launch = Launch { os_threads: 2, ..Launch::new(order, [1, 4, 20][n]) };
        let encode = |(codebook, raw): &(Codebook, Vec<u8>)| {
            Job::encode(Element::F32, raw, ChunkSize::SMALL, launch).with_codebook(&section(codebook))
        };
        let mut jobs: Vec<Job> = all.iter().map(encode).collect();
        shim.run(Algorithm::Ibp, Kernel::Encode, &mut jobs, ChunkSize::SMALL, launch);
        for (job, (codebook, raw)) in jobs.iter().zip(&all) {
            assert_eq!(job.status(), Status::GOOD, "{launch:?}");
            assert!(job.frame() == portable_frame(codebook, false, raw, SMALL), "{launch:?}");
        }
        let mut decoded: Vec<Job> = jobs
            .iter()
            .zip(&all)
            .map(|(job, (_, raw))| Job::decode(job.frame(), raw.len(), launch))
            .collect();
        shim.run(Algorithm::Ibp, Kernel::Decode, &mut decoded, ChunkSize::SMALL, launch);
        for (job, (_, raw)) in decoded.iter().zip(&all) {
            assert_eq!(job.status(), Status::GOOD, "{launch:?}");
            assert!(job.dst() == raw, "{launch:?}");
        }
    }
}

#[test]
fn a_named_codebook_must_be_known() {
    let Some(shim) = Shim::or_skip("a_named_codebook_must_be_known") else { return };
    let all = codebooks();
    let ((codebook, raw), (other, _)) = (&all[4], &all[5]);
    let frame = portable_frame(codebook, true, raw, SMALL);
    let launch = Launch::new(LaneOrder::Fifo, 2);
    let code = |job| run(shim, Kernel::Decode, job, launch).status().code;
    let decode = || Job::decode(&frame, raw.len(), launch);
    assert_eq!(code(decode()), launch::BAD_CODEBOOK);
    assert_eq!(code(decode().with_codebook(&section(other))), launch::BAD_CODEBOOK);
    assert_eq!(code(decode().with_codebook(&section(codebook))), launch::GOOD);
    // Chunks that are stored raw need none.
    let mut raw_frame = portable_frame(codebook, true, &[0x5a; 4096 * 3], SMALL);
    let raw_len = 16 * 256;
    raw_frame[8..16].copy_from_slice(&(raw_len as u64).to_le_bytes());
    raw_frame.truncate(48);
    raw_frame[16..20].copy_from_slice(&256u32.to_le_bytes());
    raw_frame[20..32].fill(0);
    raw_frame[5] = launch::FLAG_CODEBOOK as u8;
    raw_frame[32..40].copy_from_slice(&7u64.to_le_bytes());
    raw_frame[40..48].fill(0);
    raw_frame.extend(vec![3; raw_len]);
    assert_eq!(expected(Algorithm::Ibp, &raw_frame, raw_len), Some(vec![3; raw_len]));
    assert_eq!(code(Job::decode(&raw_frame, raw_len, launch)), launch::GOOD);
}

#[test]
fn a_codebook_to_encode_with_must_be_good() {
    let Some(shim) = Shim::or_skip("a_codebook_to_encode_with_must_be_good") else { return };
    let (codebook, raw) = &codebooks()[4];
    let launch = Launch::new(LaneOrder::Fifo, 2);
    for (at, byte) in [(8, 0), (16, 1), (17, 5), (18, 0), (20, 7)] {
        let mut section = section(codebook);
        section[at] = byte;
        for kernel in [Kernel::Encode, Kernel::Estimate] {
            let job = Job::encode(Element::U8, raw, ChunkSize::SMALL, launch).with_codebook(&section);
            let job = run(shim, kernel, job, launch);
            assert_eq!(job.status().code, launch::BAD_CODEBOOK, "byte {at}");
            assert_eq!(job.out_len(), 0);
        }
    }
    // It says that it is longer than what there is of it; nothing behind that is read.
    let section = section(codebook);
    for len in [0, 16, 32, section.len() - 16] {
        for kernel in [Kernel::Encode, Kernel::Estimate] {
            let job = Job::encode(Element::U8, raw, ChunkSize::SMALL, launch).with_codebook(&section[..len]);
            let job = run(shim, kernel, job, launch);
            assert_eq!(job.status().code, launch::BAD_TRUNCATED, "{len} bytes");
            assert_eq!(job.out_len(), 0);
        }
    }
}

#[test]
fn each_fault_of_a_codebook_is_found() {
    let Some(shim) = Shim::or_skip("each_fault_of_a_codebook_is_found") else { return };
    let (codebook, raw) = &codebooks()[9];
    let raw = &raw[..10_000];
    let frame = portable_frame(codebook, false, raw, SMALL);
    let at = 32; // three chunks: the table ends there
    let judge = |frame: &[u8], code: Option<u32>| {
        let wanted = expected(Algorithm::Ibp, frame, raw.len());
        for order in LaneOrder::ALL {
            let (status, got) = shim.decode(Algorithm::Ibp, frame, raw.len(), Launch::new(order, 2));
            assert_eq!(status == Status::GOOD, wanted.is_some(), "{status:?}");
            assert!(code.is_none_or(|code| code == status.code), "{status:?}");
            assert!(wanted.as_ref().is_none_or(|wanted| *wanted == got));
        }
    };
    let section_len = section(codebook).len();
    for i in 0..section_len {
        let mut bad = frame.clone();
        bad[at + i] ^= 1 << (i % 8);
        // The chunks may be found to be wrong as well, and that code may be the lower one.
        judge(&bad, None);
        assert_eq!(expected(Algorithm::Ibp, &bad, raw.len()), None, "byte {i}");
    }
    let mut nameless = frame.clone();
    nameless[at..at + 8].fill(0);
    judge(&nameless, Some(launch::BAD_CODEBOOK));
    let mut granule = frame.clone();
    granule[at + 17] = 16;
    judge(&granule, Some(launch::BAD_CODEBOOK));
    for len in at..at + section_len {
        judge(&frame[..len], Some(launch::BAD_TRUNCATED));
    }
    let mut without = frame.clone();
    without[5] = 0;
    judge(&without, None);
    // The first chunk names a cluster that is not there.
    let mut cluster = frame;
    cluster[at + section_len] = codebook.clusters().len() as u8;
    judge(&cluster, Some(launch::BAD_CHUNK_FIELD));
}
