//! Batches: several buffers in one launch, each with its own length, element and answer.

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::shim::{Job, Kernel, LaneOrder, Launch, Shim, Status, launch};

const CHUNK: ChunkSize = ChunkSize::SMALL;

/// Raw bytes and their portable frame.
struct Sample {
    element: Element,
    raw: Vec<u8>,
    frame: Vec<u8>,
}

fn sample(algorithm: Algorithm, element: Element, kind: Kind, len: usize) -> Sample {
    let raw = data::bytes(kind, len, len as u64);
    let options = Options { chunk_size: CHUNK, checksum: false };
    let codec = codec_on(Cpu::Portable, algorithm).unwrap();
    let frame = frame::encode(codec, element, &raw, options).unwrap();
    Sample { element, raw, frame }
}

/// `count` buffers, of which some are empty, short, or several chunks long.
fn samples(algorithm: Algorithm, count: usize) -> Vec<Sample> {
    let lengths = [0, 1, 4096, 0, 0, 5000, 12_345, 16, 4095, 8192, 64];
    let sample_at = |n: usize| {
        let (element, kind) = (Element::ALL[n % 10], Kind::ALL[n % 7]);
        sample(algorithm, element, kind, lengths[n % lengths.len()])
    };
    (0..count).map(sample_at).collect()
}

fn launches() -> impl Iterator<Item = Launch> {
    let grids = [(1, 1), (3, 2), (40, 3)];
    grids
        .into_iter()
        .zip(LaneOrder::ALL)
        .map(|((blocks, os_threads), order)| Launch { os_threads, ..Launch::new(order, blocks) })
}

#[test]
fn all_jobs_are_done() {
    let Some(shim) = Shim::or_skip("all_jobs_are_done") else { return };
    for algorithm in shim.algorithms() {
        for jobs in [1, 2, 5, 11, launch::MAX_JOBS as usize] {
            let samples = samples(algorithm, jobs);
            for launch in launches() {
                let what = format!("{algorithm}, {jobs} jobs, {launch:?}");
                let encode = |s: &Sample| Job::encode(s.element, &s.raw, CHUNK, launch);
                let mut encoded: Vec<Job> = samples.iter().map(encode).collect();
                shim.run(algorithm, Kernel::Encode, &mut encoded, CHUNK, launch);
                let estimate = |s: &Sample| Job::new(s.element.number().into(), &s.raw, 0, launch);
                let mut estimated: Vec<Job> = samples.iter().map(estimate).collect();
                shim.run(algorithm, Kernel::Estimate, &mut estimated, CHUNK, launch);
                let decode = |s: &Sample| Job::decode(&s.frame, s.raw.len(), launch);
                let mut decoded: Vec<Job> = samples.iter().map(decode).collect();
                shim.run(algorithm, Kernel::Decode, &mut decoded, CHUNK, launch);
                for (n, sample) in samples.iter().enumerate() {
                    let statuses = [&encoded, &estimated, &decoded].map(|jobs| jobs[n].status());
                    assert_eq!(statuses, [Status::GOOD; 3], "{what}: job {n}");
                    assert!(encoded[n].frame() == sample.frame, "{what}: frame {n}");
                    assert_eq!(estimated[n].out_len(), sample.frame.len() as u64, "{what}: estimate {n}");
                    assert!(decoded[n].dst() == sample.raw, "{what}: raw bytes {n}");
                }
            }
        }
    }
}

/// Encodes good jobs around `bad`, which must get the code and nothing else.
fn expect_encode_code(shim: Shim, algorithm: Algorithm, bad: impl Fn(Launch) -> Job, code: u32) {
    let good = sample(algorithm, Element::F32, Kind::Sparse, 9000);
    for launch in launches() {
        let encode = || Job::encode(good.element, &good.raw, CHUNK, launch);
        let mut jobs = [encode(), bad(launch), encode()];
        shim.run(algorithm, Kernel::Encode, &mut jobs, CHUNK, launch);
        assert_eq!(jobs[1].status(), Status { code, chunk: 0 }, "{algorithm} {launch:?}");
        assert!(jobs[1].frame().is_empty(), "{algorithm} {launch:?}");
        for job in [&jobs[0], &jobs[2]] {
            assert_eq!(job.status(), Status::GOOD, "{algorithm} {launch:?}");
            assert!(job.frame() == good.frame, "{algorithm} {launch:?}");
        }
    }
}

#[test]
fn jobs_that_cannot_be_encoded_have_their_codes() {
    let Some(shim) = Shim::or_skip("jobs_that_cannot_be_encoded_have_their_codes") else { return };
    for algorithm in shim.algorithms() {
        for len in [0, 1, 5000] {
            let raw = data::bytes(Kind::Dense, len, 1);
            let longest = frame::max_frame_len(len, Options { chunk_size: CHUNK, checksum: false });
            for room in [0, 15, longest / 2, longest - 1] {
                let bad = |launch| Job::new(Element::U8.number().into(), &raw, room.min(longest - 1), launch);
                expect_encode_code(shim, algorithm, bad, launch::BAD_ROOM);
            }
            let odd = |launch| Job::new(10, &raw, longest, launch);
            expect_encode_code(shim, algorithm, odd, launch::BAD_ELEMENT);
            let misplaced =
                |launch| Job::encode(Element::U8, &raw, CHUNK, Launch { dst_offset: 8, ..launch });
            expect_encode_code(shim, algorithm, misplaced, launch::BAD_ALIGNMENT);
        }
    }
}

#[test]
fn a_bad_frame_leaves_the_others_alone() {
    let Some(shim) = Shim::or_skip("a_bad_frame_leaves_the_others_alone") else { return };
    for algorithm in shim.algorithms() {
        let good = sample(algorithm, Element::F32, Kind::Sparse, 9000);
        // The ends of chunks 1 and 2 in the table of another frame.
        let mut bad = sample(algorithm, Element::U16, Kind::Dense, 5 * 4096);
        bad.frame[16 + 4] += 1;
        bad.frame[16 + 8] += 1;
        for launch in launches() {
            let decode = |s: &Sample| Job::decode(&s.frame, s.raw.len(), launch);
            let mut jobs =
                [decode(&good), decode(&bad), Job::decode(&good.frame[..20], 9000, launch), decode(&good)];
            shim.run(algorithm, Kernel::Decode, &mut jobs, CHUNK, launch);
            assert_eq!(
                jobs[1].status(),
                Status { code: launch::BAD_TABLE, chunk: 1 },
                "{algorithm} {launch:?}"
            );
            assert_eq!(jobs[2].status().code, launch::BAD_TRUNCATED, "{algorithm} {launch:?}");
            for job in [&jobs[0], &jobs[3]] {
                assert_eq!(job.status(), Status::GOOD, "{algorithm} {launch:?}");
                assert!(job.dst() == good.raw, "{algorithm} {launch:?}");
            }
        }
    }
}

#[test]
fn the_length_of_a_frame_may_be_in_memory() {
    let Some(shim) = Shim::or_skip("the_length_of_a_frame_may_be_in_memory") else { return };
    for algorithm in shim.algorithms() {
        let good = sample(algorithm, Element::F32, Kind::Mixed, 9000);
        let room = [good.frame.clone(), vec![0xee; 100]].concat();
        let launch = Launch::new(LaneOrder::Fifo, 2);
        let lengths = [good.frame.len(), good.frame.len() + 1, good.frame.len() - 16, 0, room.len() + 1];
        let decode = |len: usize| Job::decode(&room, 9000, launch).with_len_in_memory(len as u64);
        let mut jobs: Vec<Job> = lengths.into_iter().map(decode).collect();
        shim.run(algorithm, Kernel::Decode, &mut jobs, CHUNK, launch);
        let codes: Vec<u32> = jobs.iter().map(|job| job.status().code).collect();
        let short = launch::BAD_TRUNCATED;
        assert_eq!(codes, [launch::GOOD, launch::BAD_TRAILING, short, short, short], "{algorithm}");
        assert!(jobs[0].dst() == good.raw, "{algorithm}");
    }
}

#[test]
fn chunks_above_the_limit_are_refused() {
    let Some(shim) = Shim::or_skip("chunks_above_the_limit_are_refused") else { return };
    for algorithm in shim.algorithms() {
        let raw = data::bytes(Kind::Sparse, 9000, 9);
        let options = Options { chunk_size: ChunkSize::DEFAULT, checksum: false };
        let codec = codec_on(Cpu::Portable, algorithm).unwrap();
        let frame = frame::encode(codec, Element::U8, &raw, options).unwrap();
        let code = |chunk_limit| {
            let launch = Launch { chunk_limit, ..Launch::new(LaneOrder::Fifo, 1) };
            shim.decode(algorithm, &frame, raw.len(), launch).0.code
        };
        assert_eq!(code(ChunkSize::from_log2(13).unwrap()), launch::BAD_CHUNK_LIMIT, "{algorithm}");
        assert_eq!(code(ChunkSize::DEFAULT), launch::GOOD, "{algorithm}");
    }
}
