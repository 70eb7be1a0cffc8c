//! The kernels read and write the frozen frames, byte for byte.

use mgcomp_codecs::frame::Frame;
use mgcomp_codecs::ibp::CodebookSection;
use mgcomp_tests::golden::{self, Golden};
use mgcomp_tests::shim::{Job, Kernel, LaneOrder, Launch, Shim, Status};

/// The same frame as kernels write it: without checksums.
fn without_checksums(frame: &[u8]) -> Vec<u8> {
    if frame[5] & 1 == 0 {
        return frame.to_vec();
    }
    let mut plain = frame[..16].to_vec();
    plain[5] &= !1;
    let header = *Frame::parse(frame).unwrap().header();
    let table = &frame[16..16 + 8 * header.chunks()];
    plain.extend(table.chunks_exact(8).flat_map(|entry| &entry[..4]));
    plain.resize(plain.len().next_multiple_of(16), 0);
    plain.extend(&frame[16 + table.len().next_multiple_of(16)..]);
    plain
}

#[test]
fn kernels_read_and_write_the_golden_files() {
    let Some(shim) = Shim::or_skip("kernels_read_and_write_the_golden_files") else { return };
    let algorithms = shim.algorithms();
    let mut judged = 0;
    for golden in Golden::all(&golden::folder()) {
        let name = &golden.name;
        let parsed = Frame::parse(&golden.frame).unwrap();
        let header = parsed.header();
        if !algorithms.contains(&header.algorithm) {
            continue;
        }
        let launch = Launch {
            names_codebooks: golden.codebook.is_some(),
            ..Launch::new(LaneOrder::ALL[judged % 3], 1 + judged as u32 % 3)
        };
        let section = golden.codebook.clone().or_else(|| parsed.codebook().map(CodebookSection::to_bytes));
        let run = |kernel, mut job: Job| {
            if let Some(section) = &section {
                job = job.with_codebook(section);
            }
            let mut jobs = [job];
            shim.run(header.algorithm, kernel, &mut jobs, header.chunk_size, launch);
            let [job] = jobs;
            assert_eq!(job.status(), Status::GOOD, "{name}: {kernel:?}");
            job
        };
        let decoded = run(Kernel::Decode, Job::decode(&golden.frame, golden.raw.len(), launch));
        assert!(decoded.dst() == golden.raw, "{name}: raw bytes");
        let frame = without_checksums(&golden.frame);
        let encode = Job::encode(header.element, &golden.raw, header.chunk_size, launch);
        assert!(run(Kernel::Encode, encode).frame() == frame, "{name}: frame");
        let estimate = Job::new(header.element.number().into(), &golden.raw, 0, launch);
        assert_eq!(run(Kernel::Estimate, estimate).out_len(), frame.len() as u64, "{name}: estimate");
        judged += 1;
    }
    // Ten elements at least of each algorithm.
    assert!(judged >= 10 * algorithms.len(), "{judged} files");
}
