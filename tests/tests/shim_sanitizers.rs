//! The decode kernels under the address, undefined-behaviour and thread sanitizers; and that shim and
//! sanitizers find what they are there to find.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Element, codec};
use mgcomp_tests::damage;
use mgcomp_tests::data::{self, Kind, Random};
use mgcomp_tests::shim::toolchain::{Plant, Sanitizer, Toolchain};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, record, skip};

const ALGORITHMS: [Algorithm; 2] = [Algorithm::Zvc, Algorithm::CpackZ];

/// The toolchain, or `None` and a line that says that `test` is skipped. Each test has its own folder.
fn toolchain_or_skip(test: &str, sanitizer: Sanitizer) -> Option<(Shim, Toolchain)> {
    let shim = Shim::or_skip(test)?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    Toolchain::build(sanitizer, folder).map_err(|reason| skip(test, &reason)).ok().map(|t| (shim, t))
}

fn coded(algorithm: Algorithm, element: Element, kind: Kind, len: usize, chunk_size: ChunkSize) -> Vec<u8> {
    let raw = data::bytes(kind, len, len as u64);
    let options = Options { chunk_size, checksum: false };
    frame::encode(codec(algorithm).unwrap(), element, &raw, options).unwrap()
}

/// Good frames of all kinds and widths, what is left of them when they are cut, and many mutants.
fn address_records(shim: Shim) -> Vec<u8> {
    let mut file = Vec::new();
    let mut random = Random::new(3);
    for algorithm in ALGORITHMS {
        let elements = [Element::U8, Element::U16, Element::U32, Element::U64];
        for (n, kind) in Kind::ALL.into_iter().cycle().take(24).enumerate() {
            let len = [1, 63, 64, 1000, 4095, 4096, 9001][n % 7];
            let frame = coded(algorithm, elements[n / 6], kind, len, ChunkSize::SMALL);
            let launch = Launch { dst_offset: n % 2 * 5, ..Launch::new(LaneOrder::ALL[n % 3], 2) };
            record::push(&mut file, shim, algorithm, &frame, len, launch);
            for _ in 0..30 {
                let mutant = damage::mutate(&frame, &mut random);
                record::push(&mut file, shim, algorithm, &mutant, len, launch);
            }
        }
        let frame = coded(algorithm, Element::U16, Kind::Mixed, 600, ChunkSize::SMALL);
        for len in 0..frame.len() {
            record::push(&mut file, shim, algorithm, &frame[..len], 600, Launch::new(LaneOrder::Lifo, 1));
        }
        let zeros = coded(algorithm, Element::U8, Kind::Zero, 4096 + 4095, ChunkSize::SMALL);
        for frame in damage::shorten_last_chunk(&zeros) {
            record::push(&mut file, shim, algorithm, &frame, 4096 + 4095, Launch::new(LaneOrder::Fifo, 2));
        }
        let large = coded(algorithm, Element::U8, Kind::Mixed, 70_001, ChunkSize::LARGE);
        record::push(&mut file, shim, algorithm, &large, 70_001, Launch::new(LaneOrder::Random(5), 2));
    }
    file
}

/// A few frames in which blocks take several chunks and chunks several rounds of a scan. Races show in every
/// lane order alike, so each frame runs in one only: a thread costs the sanitizer most of a millisecond.
fn thread_records(shim: Shim) -> Vec<u8> {
    let mut file = Vec::new();
    for algorithm in ALGORITHMS {
        let frame = coded(algorithm, Element::U32, Kind::Mixed, 9001, ChunkSize::SMALL);
        record::push(&mut file, shim, algorithm, &frame, 9001, Launch::new(LaneOrder::Fifo, 1));
        record::push(&mut file, shim, algorithm, &frame, 9001, Launch::new(LaneOrder::Random(7), 3));
        let rounds = coded(algorithm, Element::U8, Kind::Mixed, 20_000, ChunkSize::LARGE);
        record::push(&mut file, shim, algorithm, &rounds, 20_000, Launch::new(LaneOrder::Lifo, 1));
        let mut bad = frame;
        bad[40] ^= 0xff;
        bad[16] = 0;
        record::push(&mut file, shim, algorithm, &bad, 9001, Launch::new(LaneOrder::Fifo, 3));
    }
    file
}

fn write_records(test: &str, records: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.records"));
    fs::write(&path, records).unwrap();
    path.into_os_string().into_string().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

fn expect_good(output: &Output) {
    assert!(output.status.success(), "{}\n{}", output.status, text(output));
}

/// Expects that the program failed and said `word` of it.
fn expect_report(what: &str, output: &Output, word: &str) {
    let text = text(output);
    assert!(!output.status.success() && text.contains(word), "{what}: {}\n{text}", output.status);
}

/// Replays `records`; then with each bug of `plants`, which must be reported in the words beside it.
fn replay(test: &str, toolchain: &Toolchain, records: &[u8], plants: &[(Plant, &str)]) {
    let file = write_records(test, records);
    let clean = toolchain.run(&toolchain.link("replay"), &[&file]);
    expect_good(&clean);
    assert!(text(&clean).contains(" 0 bad"), "{}", text(&clean));
    for (plant, word) in plants {
        let output = toolchain.run(&toolchain.link_planted("replay", *plant), &[&file]);
        expect_report(&format!("{plant:?}"), &output, word);
    }
}

#[test]
fn kernels_stay_inside_their_buffers() {
    let test = "kernels_stay_inside_their_buffers";
    let Some((shim, toolchain)) = toolchain_or_skip(test, Sanitizer::Address) else { return };
    let plant = |kernel, file, find, replace| Plant { kernel, file, find, replace };
    let plants = [
        // The table is believed.
        (plant("zvc.cu", "frame.cuh", "end > frame.payload_units", "false"), "AddressSanitizer"),
        // The last unit is written whole.
        (plant("cpackz.cu", "frame.cuh", "left >= MGC_UNIT && (u64)to", "(u64)to"), "AddressSanitizer"),
        // Masks are believed to be there.
        (plant("zvc.cu", "zvc.cu", "kept_offset > chunk.stored_len", "false"), "AddressSanitizer"),
        // Sections are believed to be there.
        (
            plant("cpackz.cu", "frame.cuh", "return MGC_BAD_CHUNK_TRUNCATED", "return MGC_GOOD"),
            "AddressSanitizer",
        ),
        // Sixteen bytes are written wherever the destination is.
        (plant("zvc.cu", "frame.cuh", " && (u64)to % MGC_UNIT == 0", ""), "misaligned address"),
        // An index may name a word of the next line.
        (plant("cpackz.cu", "cpackz.cu", "index >= dictionary_len", "false"), "expected code"),
    ];
    replay(test, &toolchain, &address_records(shim), &plants);

    let selftest = toolchain.link("selftest");
    expect_good(&toolchain.run(&selftest, &[]));
    expect_report("overrun", &toolchain.run(&selftest, &["shared_overrun"]), "AddressSanitizer");
}

#[test]
fn kernels_have_every_barrier_they_need() {
    let test = "kernels_have_every_barrier_they_need";
    let Some((shim, toolchain)) = toolchain_or_skip(test, Sanitizer::Thread) else { return };
    let sums_written = "shared.warp_sums[warp] = inclusive;\n  __syncthreads();";
    let sums_read = "__syncthreads();  // The next scan writes warp_sums again.";
    let plant = |kernel, file, find, replace| Plant { kernel, file, find, replace };
    let without_barrier = "shared.warp_sums[warp] = inclusive;";
    let masks_written = "if (block_fails(code)) return code;";
    let plants = [
        (plant("cpackz.cu", "block.cuh", sums_written, without_barrier), "ThreadSanitizer: data race"),
        (plant("zvc.cu", "block.cuh", sums_read, ""), "ThreadSanitizer: data race"),
        (plant("zvc.cu", "zvc.cu", masks_written, "if (code) return code;"), "ThreadSanitizer: data race"),
    ];
    replay(test, &toolchain, &thread_records(shim), &plants);
    expect_report("race", &toolchain.run(&toolchain.link("selftest"), &["shared_race"]), "data race");
}

#[test]
fn the_shim_computes_and_reports() {
    let test = "the_shim_computes_and_reports";
    let Some((_, toolchain)) = toolchain_or_skip(test, Sanitizer::None) else { return };
    let selftest = toolchain.link("selftest");
    expect_good(&toolchain.run(&selftest, &[]));
    let misuses = [
        ("divergent_barrier", "exits while others wait for it"),
        ("exit_before_barrier", "after a thread has exited"),
        ("partial_ballot", "deadlock"),
        ("mixed_collectives", "different collectives"),
        ("shuffle_outside", "outside the mask"),
        ("lane_not_in_mask", "not in the mask"),
        ("copy_not_awaited", "copies under way"),
    ];
    for (misuse, word) in misuses {
        expect_report(misuse, &toolchain.run(&selftest, &[misuse]), word);
    }
}
