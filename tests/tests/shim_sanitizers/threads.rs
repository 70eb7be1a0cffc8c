//! Whether kernels have every barrier that they need: what they are given to do under the thread sanitizer, and barriers whose
//! loss it must find.

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::ibp::Granule;
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::data::{self, Kind, Random};
use mgcomp_tests::shim::buddy::{self, PortableEntries, bytes_of_all_kinds, entries_of_all_states};
use mgcomp_tests::shim::record::{self, Source};
use mgcomp_tests::shim::rows;
use mgcomp_tests::shim::toolchain::{Plant, Sanitizer};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim};
use mgcomp_transport::buddy::{Form, Target, XP_ENTRY_LEN};

use crate::records::{coded, predicted, reductions, row_tables};
use crate::{expect_report, replay, replay_others, toolchain_or_skip, write_records};

/// A few launches in which blocks take several chunks and chunks several rounds of a scan. Races show in every
/// lane order alike, so each runs in one only: a thread costs the sanitizer most of a millisecond.
fn records(shim: Shim, algorithm: Algorithm) -> Vec<u8> {
    let mut file = Vec::new();
    let mut push =
        |source: Source<'_>, jobs, launch| record::push(&mut file, shim, algorithm, source, jobs, launch);
    let raw = data::bytes(Kind::Mixed, 9001, 9001);
    let frame = coded(algorithm, Element::U32, Kind::Mixed, 9001, ChunkSize::SMALL);
    push(Source::Frame(&frame, 9001), 1, Launch::new(LaneOrder::Fifo, 1));
    push(Source::Frame(&frame, 9001), 1, Launch::new(LaneOrder::Random(7), 3));
    let crowd = Launch { os_threads: 3, ..Launch::new(LaneOrder::Fifo, 6) };
    push(Source::Raw(Element::U32, &raw, ChunkSize::SMALL), 2, crowd);
    push(Source::Raw(Element::U8, &raw, ChunkSize::SMALL), 1, Launch::new(LaneOrder::Lifo, 1));
    push(Source::Estimated(Element::U32, &raw, ChunkSize::SMALL), 2, Launch::new(LaneOrder::Fifo, 2));
    let rounds = coded(algorithm, Element::U8, Kind::Mixed, 20_000, ChunkSize::LARGE);
    push(Source::Frame(&rounds, 20_000), 1, Launch::new(LaneOrder::Lifo, 1));
    let raw = data::bytes(Kind::Mixed, 20_000, 20_000);
    push(Source::Raw(Element::U16, &raw, ChunkSize::LARGE), 1, Launch::new(LaneOrder::Lifo, 1));
    push(Source::Raw(Element::U32, &[], ChunkSize::SMALL), 5, Launch::new(LaneOrder::Lifo, 1));
    let mut bad = frame;
    bad[40] ^= 0xff;
    bad[16] = 0;
    push(Source::Frame(&bad, 9001), 1, Launch::new(LaneOrder::Fifo, 3));
    if algorithm != Algorithm::Int {
        return file;
    }
    for (element, raw) in predicted() {
        let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
        let frame =
            frame::encode(codec_on(Cpu::Portable, algorithm).unwrap(), element, &raw, options).unwrap();
        push(Source::Raw(element, &raw, ChunkSize::SMALL), 1, Launch::new(LaneOrder::Fifo, 1));
        push(Source::Frame(&frame, raw.len()), 1, Launch::new(LaneOrder::Lifo, 1));
    }
    file
}

/// Many rows for each warp, whose pieces take each other's places, and blocks that end at the same time.
fn gather_records(shim: Shim) -> Vec<u8> {
    let (mut file, mut random) = (Vec::new(), Random::new(8));
    for (granule, row_len, clusters) in
        [(Granule::Four, 131, 1), (Granule::Eight, 263, 1), (Granule::Four, 1001, 2)]
    {
        let indices: Vec<u64> = (0..200).map(|_| random.below(60) as u64).collect();
        for table in row_tables(granule, row_len, clusters, 60) {
            rows::push(&mut file, shim, &table, &indices, Launch::new(LaneOrder::Fifo, 1));
            let crowd = Launch { os_threads: 3, ..Launch::new(LaneOrder::Lifo, 4) };
            rows::push(&mut file, shim, &table, &indices, crowd);
        }
    }
    file
}

/// Several tiles for each warp, with partial entries, and blocks that end at the same time.
fn entry_records(shim: Shim) -> Vec<u8> {
    let (mut file, mut random) = (Vec::new(), Random::new(7));
    let len = 40 * 4096;
    let mut entries = PortableEntries::new(len, Form::Bpc, Target::Two).copy();
    for (turn, range) in [0..len, 5..len - 5, 0..len, 70..3 * 4096 + 7].into_iter().enumerate() {
        let data = entries_of_all_states(&mut random, (range.end - range.start) as usize);
        let crowd = Launch { os_threads: 3, ..Launch::new(LaneOrder::Lifo, 3) };
        let launch = if turn % 2 == 0 { Launch::new(LaneOrder::Fifo, 1) } else { crowd };
        buddy::push(&mut file, shim, &mut entries, range.clone(), Some(&data), launch);
        buddy::push(&mut file, shim, &mut entries, range, None, launch);
    }
    file
}

/// The same of XP: several entries for a block.
fn float_records(shim: Shim) -> Vec<u8> {
    let (mut file, mut random) = (Vec::new(), Random::new(10));
    let len = 4 * XP_ENTRY_LEN as u64;
    for (element, target) in [(Element::Bf16, Target::EightThirds), (Element::F64, Target::Two)] {
        let form = Form::Xp(element);
        let mut entries = PortableEntries::new(len, form, target).copy();
        for (turn, range) in [0..len, 5..len - 5].into_iter().enumerate() {
            let data = bytes_of_all_kinds(&mut random, form, (range.end - range.start) as usize);
            let crowd = Launch { os_threads: 2, ..Launch::new(LaneOrder::Lifo, 2) };
            let launch = if turn == 0 { Launch::new(LaneOrder::Fifo, 1) } else { crowd };
            buddy::push(&mut file, shim, &mut entries, range.clone(), Some(&data), launch);
            buddy::push(&mut file, shim, &mut entries, range, None, launch);
        }
    }
    file
}

#[test]
fn kernels_have_every_barrier_they_need() {
    let test = "kernels_have_every_barrier_they_need";
    let Some((shim, toolchain)) = toolchain_or_skip(test, Sanitizer::Thread) else { return };
    let sums_written = "shared.warp_sums[warp] = inclusive;\n  __syncthreads();\n  T before";
    let sums_read = "__syncthreads();  // The next scan writes warp_sums again.";
    let plant = |file, find, replace| Plant { codec: "zvc", file, find, replace };
    let without_barrier = "shared.warp_sums[warp] = inclusive;\n  T before";
    let ibp = |find, replace| Plant { codec: "ibp", file: "ibp/ibp.cu", find, replace };
    let fpc = |find, replace| Plant { codec: "fpc", file: "fpc/fpc.cu", find, replace };
    let windows_counted = "if (block_fails(code)) return code;";
    let acquire_release = "atomic_add_acq_rel_gpu(&workspace_of(batch)->done, 1)";
    let loaded = "cp_async_wait<0>();\n  __syncthreads();\n}\n\n// The first";
    let loaded_alone = "cp_async_wait<0>();\n}\n\n// The first";
    let ticket_told = "__syncthreads();  // Nobody reads the last chunk's buffers any more, either.";
    let emitted = "  __syncthreads();\n  return {is_coded";
    let emitted_alone = "  return {is_coded";
    let in_int = |file, find, replace| Plant { codec: "int", file, find, replace };
    let columns_told = "sums[threadIdx.x] = own;\n  }";
    let prices_told = "__syncthreads();  // Prices are told.";
    let measured = "__syncthreads();  // All blocks are measured.";
    let header_told = "__syncthreads();  // The header is told.";
    let bytes_there = "lost to their atomics.\n    __syncthreads();";
    let race = "ThreadSanitizer: data race";
    let xp = |file, find| Plant { codec: "xp", file, find, replace: "" };
    let escapes_free = "__syncwarp();  // Nobody reads those of the second tier any more.";
    let plan_told = "__syncthreads();  // What thread 0 wrote is there.";
    // Or else loops over garbage would take for ever.
    let plan_guessed = "if (shared.plan.zeros.depth > XP_MAX_DEPTH) return;";
    let plants = [
        (plant("common/block.cuh", sums_written, without_barrier), race),
        (plant("common/block.cuh", sums_read, ""), race),
        (plant("zvc/zvc.cu", windows_counted, "if (code) return code;"), race),
        (plant("frame/batch.cuh", acquire_release, "atomicAdd(&workspace_of(batch)->done, 1u)"), race),
        (plant("frame/write.cuh", loaded, loaded_alone), race),
        (plant("frame/write.cuh", ticket_told, ""), race),
        (plant("frame/write.cuh", "__syncthreads();  // All threads have read this ticket.", ""), race),
        // Where to write is garbage: it is a race or the end.
        (plant("frame/write.cuh", emitted, emitted_alone), "ThreadSanitizer"),
        (plant("frame/read.cuh", "__syncthreads();  // The next chunk", "// The next chunk"), race),
        (fpc("fpc_classify(chunk, lines);\n    __syncthreads();", "fpc_classify(chunk, lines);"), race),
        (ibp("zero_units(coded, plan.len);\n    __syncthreads();", "zero_units(coded, plan.len);"), race),
        (fpc("plan.at.end);\n    __syncthreads();", "plan.at.end);"), race),
        (in_int("int/sums.cuh", "sums[threadIdx.x] = own;\n  }\n  __syncthreads();", columns_told), race),
        (in_int("int/price.cuh", prices_told, ""), race),
        (in_int("int/encode.cuh", measured, ""), race),
        (in_int("int/choose.cuh", header_told, ""), race),
        (Plant { codec: "cpackz", file: "cpackz/cpackz.cu", find: bytes_there, replace: "" }, race),
        // Which ends in other ways, too: what is read goes where it says.
        (plant("frame/read.cuh", "__syncthreads();  // The first chunk is found.", ""), "ThreadSanitizer"),
        (plant("frame/read.cuh", "__syncthreads();  // The bytes are there.", ""), "ThreadSanitizer"),
        (xp("xp/stream.cuh", "__syncthreads();  // The sums of all warps are there."), "ThreadSanitizer"),
        (xp("xp/plan.cuh", "__syncthreads();  // The sums of all warps are there."), "ThreadSanitizer"),
        (Plant { codec: "xp", file: "xp/encode.cuh", find: plan_told, replace: plan_guessed }, race),
        (xp("xp/stream.cuh", "__syncwarp();  // They are there for all lanes."), race),
        // Lanes take turns here, so wrong symbols come before a race is seen.
        (xp("xp/stream.cuh", escapes_free), "not as expected"),
        (xp("xp/stream.cuh", "__syncwarp();  // The symbols are there for all lanes."), "not as expected"),
        (xp("xp/decode.cuh", "__syncwarp();  // The values are there for all lanes."), race),
        (xp("xp/decode.cuh", "__syncwarp();  // The next values go to the same ring."), race),
    ];
    replay(&toolchain, &write_records(test, shim, records), &plants);
    let gathers = [
        ("ibp/pieces.cuh", "__syncwarp();  // Nobody reads the row before.", "", race),
        ("ibp/pieces.cuh", "__syncwarp();  // The piece is there.", "", race),
        ("ibp/pieces.cuh", "__syncwarp();  // Nobody reads the piece that it takes the place of.", "", race),
        ("ibp/pieces.cuh", "__syncwarp();  // As above.", "", race),
        ("ibp/rows.cuh", "__syncthreads();  // All warps of the block have added.", "", race),
        (
            "ibp/rows.cuh",
            "atomic_add_acq_rel_gpu(&workspace->done, 1)",
            "atomicAdd(&workspace->done, 1u)",
            race,
        ),
    ];
    replay_others(test, &toolchain, ("rows", "ibp"), &gather_records(shim), &gathers);
    let entries = [
        ("buddy/bpc.cu", "__syncwarp();  // Nobody uses the tile before.", "", race),
        ("buddy/bpc.cu", "__syncwarp();  // What is stored is there.", "", race),
        ("buddy/bpc.cu", "__syncwarp();  // Raw bytes are there for all lanes.", "", race),
        ("buddy/bpc.cu", "__syncwarp();  // Nobody looks at the entries before.", "", race),
        // Lanes take turns here, so the first codes what the others have not brought yet.
        ("buddy/bpc.cu", "__syncwarp();  // Raw bytes are there.", "", "not as expected"),
        ("buddy/bpc.cu", "__syncwarp();  // Codes are there for all lanes.", "", race),
        ("buddy/settle.cuh", "__syncthreads();  // All of the block have added.", "", race),
        (
            "buddy/settle.cuh",
            "atomic_add_acq_rel_gpu(&workspace->done, 1)",
            "atomicAdd(&workspace->done, 1u)",
            race,
        ),
    ];
    replay_others(test, &toolchain, ("buddy", "bpc_buddy"), &entry_records(shim), &entries);
    let floats = [
        ("buddy/xp.cu", "__syncthreads();  // What is stored is there.", "", race),
        ("buddy/xp.cu", "__syncthreads();  // The padding is there.", "", race),
        ("buddy/xp.cu", "__syncthreads();  // Nobody works on the entry before.", "", race),
        ("buddy/xp.cu", "block_fails(code) || is_whole", "code != MGC_GOOD || is_whole", race),
    ];
    replay_others(test, &toolchain, ("buddy", "xp_buddy"), &float_records(shim), &floats);
    let numbers = [
        // What a thread reads of its neighbours' units they write.
        ("reduce/units.cuh", "!cut.is_odd && at >= cut.start + shift", "at >= cut.start + shift", race),
        // Blocks do the same.
        ("reduce/reduce.cu", "first = blockIdx.x * per_block", "first = 0", race),
    ];
    let crowd = Launch { os_threads: 2, ..Launch::new(LaneOrder::Fifo, 2) };
    let numbers_of = reductions(&[2 * 8192 - 40, 8192 + 8, 408, 8192], crowd);
    replay_others(test, &toolchain, ("numbers", "reduce"), &numbers_of, &numbers);
    expect_report("race", &toolchain.run(&toolchain.link("selftest"), &["shared_race"]), "data race");
}
