//! The kernels under the address, undefined-behaviour and thread sanitizers; and that shim and
//! sanitizers find what they are there to find.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::ibp::Granule;
use mgcomp_codecs::reduction::{Datatype, Operation};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::damage;
use mgcomp_tests::data::{self, Kind, Random};
use mgcomp_tests::series::{self, Near, Shape};
use mgcomp_tests::shim::buddy::{self, PortableEntries, bytes_of_all_kinds, entries_of_all_states};
use mgcomp_tests::shim::numbers::{self, Numbers};
use mgcomp_tests::shim::record::{self, Source};
use mgcomp_tests::shim::rows::{self, RowTable, sparse_table};
use mgcomp_tests::shim::toolchain::{Plant, Sanitizer, Toolchain};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, skip};
use mgcomp_transport::buddy::{Form, Target, XP_ENTRY_LEN};
use mgcomp_transport::table::{Cache, Sample, Table, TableOptions};

/// The toolchain, or `None` and a line that says that `test` is skipped. Each test has its own folder.
fn toolchain_or_skip(test: &str, sanitizer: Sanitizer) -> Option<(Shim, Toolchain)> {
    let shim = Shim::or_skip(test)?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    Toolchain::build(sanitizer, folder).map_err(|reason| skip(test, &reason)).ok().map(|t| (shim, t))
}

fn coded(algorithm: Algorithm, element: Element, kind: Kind, len: usize, chunk_size: ChunkSize) -> Vec<u8> {
    let raw = data::bytes(kind, len, len as u64);
    let options = Options { chunk_size, checksum: false };
    frame::encode(codec_on(Cpu::Portable, algorithm).unwrap(), element, &raw, options).unwrap()
}

/// Good frames of all kinds and widths, what is left of them when they are cut, and many mutants; the raw bytes
/// to encode and to estimate, with room enough and too little.
fn address_records(shim: Shim, algorithm: Algorithm) -> Vec<u8> {
    let mut file = Vec::new();
    let mut push = |source: Source<'_>, launch| record::push(&mut file, shim, algorithm, source, 1, launch);
    let mut random = Random::new(3);
    let elements = [Element::U8, Element::U16, Element::U32, Element::U64];
    for (n, kind) in Kind::ALL.into_iter().cycle().take(28).enumerate() {
        let len = [1, 63, 64, 1000, 4095, 4096, 9001, 130][n % 8];
        let element = elements[n / 7];
        let frame = coded(algorithm, element, kind, len, ChunkSize::SMALL);
        let launch = Launch::new(LaneOrder::ALL[n % 3], 2);
        let to = Launch { dst_offset: n % 2 * 5, ..launch };
        push(Source::Frame(&frame, len), to);
        for _ in 0..16 {
            push(Source::Frame(&damage::mutate(&frame, &mut random), len), to);
        }
        let raw = data::bytes(kind, len, len as u64);
        let from = Launch { src_offset: [0, 4, 5][n % 3], ..launch };
        push(Source::Raw(element, &raw, ChunkSize::SMALL), from);
        push(Source::Estimated(element, &raw, ChunkSize::SMALL), from);
        push(Source::Cramped(element, &raw, ChunkSize::SMALL, random.below(16 + len)), from);
    }
    let frame = coded(algorithm, Element::U16, Kind::Mixed, 600, ChunkSize::SMALL);
    for len in 0..frame.len() {
        push(Source::Frame(&frame[..len], 600), Launch::new(LaneOrder::Lifo, 1));
    }
    let zeros = coded(algorithm, Element::U8, Kind::Zero, 4096 + 4095, ChunkSize::SMALL);
    for frame in damage::shorten_last_chunk(&zeros) {
        push(Source::Frame(&frame, 4096 + 4095), Launch::new(LaneOrder::Fifo, 2));
    }
    for kind in [Kind::Mixed, Kind::Sparse] {
        let raw = data::bytes(kind, 70_001, 70_001);
        let large = coded(algorithm, Element::U8, kind, 70_001, ChunkSize::LARGE);
        push(Source::Frame(&large, 70_001), Launch::new(LaneOrder::Random(5), 2));
        push(Source::Raw(Element::U8, &raw, ChunkSize::LARGE), Launch::new(LaneOrder::Random(5), 2));
    }
    if algorithm != Algorithm::Int {
        return file;
    }
    for (element, raw) in predicted() {
        let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
        let frame =
            frame::encode(codec_on(Cpu::Portable, algorithm).unwrap(), element, &raw, options).unwrap();
        push(Source::Raw(element, &raw, ChunkSize::SMALL), Launch::new(LaneOrder::Fifo, 2));
        push(Source::Frame(&frame, raw.len()), Launch::new(LaneOrder::Lifo, 2));
        for _ in 0..60 {
            let mutant = damage::mutate(&frame, &mut random);
            push(Source::Frame(&mutant, raw.len()), Launch::new(LaneOrder::Fifo, 2));
        }
    }
    file
}

/// Words that INT predicts, of each width, that stand out by all lengths of patches: more than a chunk of them.
fn predicted() -> impl Iterator<Item = (Element, Vec<u8>)> {
    let shape = |near, noise_bits, outlier_bits, shift| {
        let outlier_percent = if outlier_bits == 56 { 75 } else { 4 };
        Shape { near, noise_bits, outlier_percent, outlier_bits, shift }
    };
    let shapes = [
        (Element::U8, shape(Near::Before(1), 1, 7, 0)),
        (Element::U8, shape(Near::Plane(4, 64), 2, 8, 0)),
        (Element::U16, shape(Near::Plane(1, 128), 2, 12, 3)),
        (Element::F32, shape(Near::BaseFromTop, 5, 16, 0)),
        (Element::U32, shape(Near::Plane(3, 17), 3, 24, 0)),
        (Element::U64, shape(Near::Before(27), 9, 40, 0)),
        (Element::U64, shape(Near::Base, 0, 56, 0)),
    ];
    shapes.into_iter().map(|(element, shape)| {
        let width = element.width_bytes();
        (element, series::words(shape, width, 4300 / width, &mut Random::new(6)))
    })
}

/// A few launches in which blocks take several chunks and chunks several rounds of a scan. Races show in every
/// lane order alike, so each runs in one only: a thread costs the sanitizer most of a millisecond.
fn thread_records(shim: Shim, algorithm: Algorithm) -> Vec<u8> {
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

/// A table of `rows` rows with a tail, and the same with some of them cached.
fn row_tables(granule: Granule, row_len: usize, clusters: usize, rows: usize) -> [RowTable; 2] {
    let options =
        TableOptions { granule: Some(granule), clusters, sample: Sample::All, ..TableOptions::default() };
    let raw = data::tensors(row_len, clusters, rows, row_len as u64);
    let table = Table::build(raw, row_len, &options).unwrap();
    let room = table.stored_bytes() / 4;
    let cache = Cache::fill(&table, (0..table.rows()).step_by(2), &[room, room + 1]).unwrap();
    [RowTable::of(&table), RowTable::of(&table).with_cache(&cache, 7)]
}

/// Gathers of good rows and of damaged ones, the last row among them; of indices that there are and that there are not.
fn address_gathers(shim: Shim) -> Vec<u8> {
    let (mut file, mut random) = (Vec::new(), Random::new(4));
    let shapes = [
        (Granule::Four, 3, 1, 50),
        (Granule::Four, 10, 2, 33),
        (Granule::Eight, 129, 1, 30),
        (Granule::Four, 1001, 3, 12),
        (Granule::Eight, 5003, 1, 5),
    ];
    for (granule, row_len, clusters, count) in shapes {
        for mut table in row_tables(granule, row_len, clusters, count) {
            let all: Vec<u64> = (0..count as u64).collect();
            for (n, order) in LaneOrder::ALL.into_iter().enumerate() {
                let launch = Launch { dst_offset: n, ..Launch::new(order, 2) };
                rows::push(&mut file, shim, &table, &all, launch);
            }
            let launch = Launch::new(LaneOrder::Fifo, 1);
            for bad in [count as u64, count as u64 + 70, 1 << 40] {
                rows::push(&mut file, shim, &table, &[0, bad, all[count - 1]], launch);
            }
            for _ in 0..20 {
                let at = random.below(count);
                table.packed[at / 8] ^= 1 << (at % 8);
                if let Some(cluster) = table.clusters.get_mut(at) {
                    *cluster = random.below(256) as u8;
                }
                rows::push(&mut file, shim, &table, &all, launch);
            }
        }
    }
    for row_len in [66, 259, 1001] {
        let all: Vec<u64> = (0..40).collect();
        rows::push(
            &mut file,
            shim,
            &RowTable::of(&sparse_table(row_len, 40)),
            &all,
            Launch::new(LaneOrder::Lifo, 1),
        );
    }
    let [_, mut cached] = row_tables(Granule::Four, 129, 1, 30);
    for entry in [(1 << 40) - 1, 1 << 43 | 900, 5 << 40, 1 << 43 | 1 << 40 | 3] {
        cached.insert(7, entry);
        rows::push(&mut file, shim, &cached, &[6, 7, 8], Launch::new(LaneOrder::Fifo, 1));
    }
    file
}

/// Many rows for each warp, whose pieces take each other's places, and blocks that end at the same time.
fn thread_gathers(shim: Shim) -> Vec<u8> {
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

/// Writes and reads of all targets, at all places in an entry, of good entries and of damaged ones.
fn address_entries(shim: Shim) -> Vec<u8> {
    let (mut file, mut random) = (Vec::new(), Random::new(6));
    for &target in Form::Bpc.targets() {
        for len in [1, 127, 129, 128 * 33, 128 * 40 + 5] {
            let mut portable = PortableEntries::new(len, Form::Bpc, target);
            let all = entries_of_all_states(&mut random, len as usize);
            portable.pool.write(portable.allocation, 0..len, &all).unwrap();
            for turn in 0..18 {
                if turn % 6 == 5 {
                    let entry = random.below(len.div_ceil(128) as usize);
                    portable.set_state(entry, random.below(16) as u16);
                    portable.damage(random.bits() as usize, 1 << random.below(8));
                }
                let mut entries = portable.copy();
                let start = random.below(len as usize) as u64;
                let end = start + 1 + random.below((len - start) as usize) as u64;
                let range = if turn % 6 == 5 { 0..len } else { start..end };
                let data = entries_of_all_states(&mut random, (range.end - range.start) as usize);
                let launch = Launch { dst_offset: turn % 7, ..Launch::new(LaneOrder::ALL[turn % 3], 2) };
                let data = (turn % 2 == 0).then_some(&data[..]);
                buddy::push(&mut file, shim, &mut entries, range, data, launch);
            }
        }
    }
    file
}

/// The same of XP, of each width: entries that are whole, that are not, and damaged ones.
fn address_floats(shim: Shim) -> Vec<u8> {
    let (mut file, mut random) = (Vec::new(), Random::new(9));
    let elements = [Element::U8, Element::Bf16, Element::F32, Element::F64];
    for (n, element) in elements.into_iter().cycle().take(16).enumerate() {
        let form = Form::Xp(element);
        let len = [XP_ENTRY_LEN + 128, 130, 2 * XP_ENTRY_LEN, XP_ENTRY_LEN + 777][n / 4] as u64;
        let mut portable = PortableEntries::new(len, form, form.targets()[n % 7]);
        let all = bytes_of_all_kinds(&mut random, form, len as usize);
        portable.pool.write(portable.allocation, 0..len, &all).unwrap();
        for turn in 0..8 {
            let is_damaged = turn % 4 == 3;
            if is_damaged {
                let entry = random.below(len.div_ceil(XP_ENTRY_LEN as u64) as usize);
                portable.damage_entry(entry, random.below(60), 1 << random.below(8));
                portable.set_state(0, random.below([200, 1 << 16][turn / 4]) as u16);
            }
            let mut entries = portable.copy();
            let start = random.below(len as usize) as u64;
            let end = start + 1 + random.below((len - start) as usize) as u64;
            let range = if turn % 2 == 0 { 0..len } else { start..end };
            let data = bytes_of_all_kinds(&mut random, form, (range.end - range.start) as usize);
            let launch = Launch { dst_offset: turn % 3 * 5, ..Launch::new(LaneOrder::ALL[turn % 3], 2) };
            let data = (turn / 2 % 2 == 0).then_some(&data[..]);
            buddy::push(&mut file, shim, &mut entries, range, data, launch);
        }
    }
    // Zeros and repeats whose masks do not pay, so that what they took out is needed again.
    for len in [XP_ENTRY_LEN as u64, 2000] {
        let mut data: Vec<u8> = (0..len).map(|_| random.bits() as u8).collect();
        for at in (0..len as usize).step_by(8 * 20) {
            data[at..].iter_mut().take(8).for_each(|byte| *byte = 0);
        }
        let mut entries = PortableEntries::new(len, Form::Xp(Element::F64), Target::Two).copy();
        let launch = Launch::new(LaneOrder::Fifo, 1);
        buddy::push(&mut file, shim, &mut entries, 0..len, Some(&data), launch);
        buddy::push(&mut file, shim, &mut entries, 9..len - 9, Some(&data[9..len as usize - 9]), launch);
    }
    file
}

/// Numbers of three ranks, of lengths on the borders of units and of what a block has at a time, which is 8 KiB.
fn reductions(lens: &[usize], launch: Launch) -> Vec<u8> {
    let mut file = Vec::new();
    for (n, datatype) in Datatype::ALL.into_iter().enumerate() {
        let (special, width) = (numbers::special_bits(datatype), datatype.width_bytes());
        for (k, len) in lens.iter().enumerate() {
            let bits = |rank: usize| special.iter().copied().cycle().skip(3 * rank).take(len / width);
            let of_ranks = (0..3).map(|rank| numbers::bytes_of(datatype, bits(rank))).collect();
            let own = [None, Some(0), Some(2)][(n + k) % 3];
            let offsets = [[0, 0, 0], [8, 1, 8], [1, 5, 0], [3, 0, 1]][k % 4];
            let operation = Operation::ALL[(n + k / 4) % 4];
            let in_place = own.is_some() && n % 2 == 0;
            let numbers =
                Numbers { own, in_place, offsets, gap: k % 3, ..Numbers::new(datatype, operation, of_ranks) };
            let order = LaneOrder::ALL[(n + k) % 3];
            numbers::push(&mut file, &numbers, Launch { order, ..launch });
        }
    }
    file
}

/// Several tiles for each warp, with partial entries, and blocks that end at the same time.
fn thread_entries(shim: Shim) -> Vec<u8> {
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
fn thread_floats(shim: Shim) -> Vec<u8> {
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

/// Replays what is not a codec's as [`replay`] does codecs: records of `name`, by kernels of `source`.
fn replay_others(
    test: &str,
    toolchain: &Toolchain,
    (name, source): (&str, &'static str),
    records: &[u8],
    plants: &[(&'static str, &'static str, &'static str, &str)],
) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.{name}.records"));
    fs::write(&path, records).unwrap();
    let (path, program) = (path.to_str().unwrap(), format!("replay_{name}"));
    let clean = toolchain.run(&toolchain.link(&program), &[path]);
    expect_good(&clean);
    assert!(text(&clean).contains(" 0 bad"), "{}", text(&clean));
    for &(file, find, replace, word) in plants {
        let plant = Plant { codec: source, file, find, replace };
        let output = toolchain.run(&toolchain.link_planted(&program, plant, 0), &[path]);
        expect_report(&format!("{plant:?}"), &output, word);
    }
}

/// Writes the records of each algorithm to a file of its own.
fn write_records(
    test: &str,
    shim: Shim,
    records: fn(Shim, Algorithm) -> Vec<u8>,
) -> BTreeMap<&'static str, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let write = |algorithm: Algorithm| {
        let path = folder.join(format!("{test}.{algorithm}.records"));
        fs::write(&path, records(shim, algorithm)).unwrap();
        (algorithm.name(), path.into_os_string().into_string().unwrap())
    };
    shim.algorithms().into_iter().map(write).collect()
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

/// Replays the records of every algorithm; then, with each bug of `plants`, those of the kernel it is planted
/// into, which must be reported in the words beside it.
fn replay(toolchain: &Toolchain, files: &BTreeMap<&str, String>, plants: &[(Plant, &str)]) {
    let program = toolchain.link("replay");
    for file in files.values() {
        let clean = toolchain.run(&program, &[file]);
        expect_good(&clean);
        assert!(text(&clean).contains(" 0 bad"), "{file}: {}", text(&clean));
    }
    let sow = |bed: usize, plants: &[(Plant, &str)]| {
        for (plant, word) in plants {
            let file = &files[plant.codec];
            let output = toolchain.run(&toolchain.link_planted("replay", *plant, bed), &[file]);
            expect_report(&format!("{plant:?}"), &output, word);
        }
    };
    // Compilers take most of the time, one core each.
    let beds = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let sow = &sow;
        for (bed, plants) in plants.chunks(plants.len().div_ceil(beds)).enumerate() {
            scope.spawn(move || sow(bed, plants));
        }
    });
}

#[test]
fn kernels_stay_inside_their_buffers() {
    let test = "kernels_stay_inside_their_buffers";
    let Some((shim, toolchain)) = toolchain_or_skip(test, Sanitizer::Address) else { return };
    let plant = |codec, file, find, replace| Plant { codec, file, find, replace };
    let plants = [
        // The table is believed.
        (plant("zvc", "frame/frame.cuh", "end > frame.payload_units", "false"), "AddressSanitizer"),
        // The last unit is written whole.
        (plant("zvc", "frame/frame.cuh", "left >= MGC_UNIT && (u64)to", "(u64)to"), "AddressSanitizer"),
        // Masks are believed to be there.
        (plant("zvc", "zvc/zvc.cu", "at.kept > chunk.stored_len", "false"), "AddressSanitizer"),
        // Sections are believed to be there.
        (
            plant("cpackz", "frame/frame.cuh", "return MGC_BAD_CHUNK_TRUNCATED", "return MGC_GOOD"),
            "AddressSanitizer",
        ),
        (plant("rle", "rle/rle.cu", "RLE_COUNT_LEN + count > chunk.stored_len", "false"), "AddressSanitizer"),
        // An index may name a word of the next line.
        (plant("cpackz", "cpackz/decode.cuh", "index >= dictionary_len", "false"), "expected 12"),
        // Runs may go on behind the last element.
        (plant("rle", "rle/rle.cu", "counts.elements != elements", "false"), "expected 17"),
        // Forms are believed to have their bytes.
        (
            plant("bdi", "bdi/decode.cuh", "check_chunk_end(chunk, at.data + data_len)", "MGC_GOOD"),
            "AddressSanitizer",
        ),
        // Encoders write a field too many.
        (
            plant("bdi", "bdi/encode.cuh", "data + element_len + deltas_len", "data + 16 + deltas_len"),
            "AddressSanitizer",
        ),
        (
            plant("rle", "rle/rle.cu", "coded[plan.len - tail_len + t]", "coded[plan.len + 15 + t]"),
            "AddressSanitizer",
        ),
        (
            plant("cpackz", "cpackz/encode.cuh", "cpackz_is_long(cpackz", "!cpackz_is_long(cpackz"),
            "expected 0",
        ),
        // INT: planes and patches are believed to be there.
        (plant("int", "int/decode.cuh", "at->patches_at > chunk.stored_len", "false"), "AddressSanitizer"),
        (
            plant("int", "int/decode.cuh", "check_chunk_end(chunk, at->end + chunk.raw_len % B)", "MGC_GOOD"),
            "AddressSanitizer",
        ),
        // Patches of half a chunk and more are written.
        (plant("int", "int/encode.cuh", "wanted > most_patch_bytes", "false"), "AddressSanitizer"),
        // Sixteen bytes are written wherever the destination is.
        (plant("zvc", "frame/frame.cuh", " && (u64)to % MGC_UNIT == 0", ""), "misaligned address"),
        // The room is believed to be there.
        (plant("zvc", "frame/write.cuh", "job.dst_len < longest", "false"), "AddressSanitizer"),
        // A code that is longer than its chunk is written.
        (plant("zvc", "frame/write.cuh", "if (is_coded) Codec", "Codec"), "AddressSanitizer"),
        // A code that saves nothing is kept.
        (
            plant(
                "zvc",
                "frame/write.cuh",
                "units_of(plan.len) < units_of",
                "units_of(plan.len) <= units_of",
            ),
            "not as expected",
        ),
        // Lengths from behind the nearest end are added.
        (plant("zvc", "frame/lookback.cuh", "wanted >> lane & 1 ?", "true ?"), "not as expected"),
        // What the look-back leaves is not cleared away.
        (
            plant(
                "zvc",
                "frame/write.cuh",
                "clear_workspace(batch, batch.chunks)",
                "clear_workspace(batch, 0)",
            ),
            "not as expected",
        ),
        // Raw bytes are loaded by whole units.
        (
            plant("zvc", "frame/write.cuh", "len / MGC_UNIT * MGC_UNIT", "round_up(len, MGC_UNIT)"),
            "AddressSanitizer",
        ),
        // Planes are believed to be there.
        (plant("fpc", "fpc/line.cuh", "tags_end > chunk.stored_len", "false"), "AddressSanitizer"),
        // Sizes are believed to be there.
        (plant("bpc", "bpc/bpc.cu", "entries > chunk.stored_len", "false"), "AddressSanitizer"),
        // A codebook is believed to be there.
        (plant("ibp", "frame/codebook.cuh", "room < codebook->section_len", "false"), "AddressSanitizer"),
    ];
    replay(&toolchain, &write_records(test, shim, address_records), &plants);
    let gathers = [
        // Indices are believed.
        ("ibp/rows.cuh", "index < table.rows ?", "true ?", "AddressSanitizer"),
        // Clusters are believed.
        ("ibp/rows.cuh", "place.cluster >= table.cluster_count", "false", "AddressSanitizer"),
        // Pieces are read whole where the memory ends.
        ("ibp/pieces.cuh", " && at < pieces.readable", "", "AddressSanitizer"),
        // Words are written wherever the rows go.
        ("ibp/rows.cuh", "(u64)to % 4 == 0", "true", "misaligned address"),
        // Entries are believed.
        (
            "ibp/rows.cuh",
            "place.start < place.memory_len ? place.memory_len - place.start : 0",
            "table.row_len",
            "AddressSanitizer",
        ),
        // A piece that was not sure to be needed is taken for one that is under way.
        ("ibp/pieces.cuh", "if (pieces.arrived >= before)", "if (false)", "not as expected"),
    ];
    replay_others(test, &toolchain, ("rows", "ibp"), &address_gathers(shim), &gathers);
    let entries = [
        // All of an entry is believed to fit its slot.
        ("buddy/bpc.cu", "if (at < buddy.slot_len)", "if (true)", "AddressSanitizer"),
        // States are read of entries that there are not.
        ("buddy/bpc.cu", "has_states ? buddy.states", "true ? buddy.states", "AddressSanitizer"),
        // Raw bytes are moved whole wherever they lie.
        ("buddy/bytes.cuh", "(u64)outside % 16 == 0", "true", "misaligned address"),
        // What lies before or behind the range is moved, too.
        (
            "buddy/bpc.cu",
            "copy_bytes<32>(tile.raw, from, from, part.from,",
            "copy_bytes<32>(tile.raw, from, from, 0,",
            "Sanitizer",
        ),
        // States without a meaning are believed.
        ("buddy/bpc.cu", "part.state < BUDDY_STATES ?", "true ?", "not as expected"),
        // The last entry is not filled up.
        ("buddy/bpc.cu", "at < filled; at += 32", "at < 0; at += 32", "not as expected"),
    ];
    replay_others(test, &toolchain, ("buddy", "bpc_buddy"), &address_entries(shim), &entries);
    let floats = [
        // All of an entry is believed to be in its slot.
        (
            "buddy/xp.cu",
            "(to, slot, slot, 0, len < entry.slot_len ? len : entry.slot_len)",
            "(to, slot, slot, 0, len)",
            "AddressSanitizer",
        ),
        // States without a meaning are believed.
        ("buddy/xp.cu", "entry.stored_len > entry.raw_len) return", "false) return", "AddressSanitizer"),
        // The last entry is read whole, with what fills it up.
        ("buddy/xp.cu", "entry.end == entry.raw_len && (u64)", "(u64)", "AddressSanitizer"),
        // What masks have taken out is not brought again.
        ("buddy/xp.cu", "(XP_ZERO_MASK | XP_CHANGE_MASK)) != 0}", "0) != 0}", "not as expected"),
    ];
    replay_others(test, &toolchain, ("buddy", "xp_buddy"), &address_floats(shim), &floats);
    let of_units = "reduce/units.cuh";
    let numbers = [
        // Units around a shifted one are read wherever the numbers end, and wherever they begin.
        (of_units, " && at + 2 * MGC_UNIT - shift <= cut.end", "", "AddressSanitizer"),
        (of_units, "at >= cut.start + shift && ", "", "AddressSanitizer"),
        // The last unit is read, and written, whole.
        (
            of_units,
            "is_whole = at >= cut.start && at + MGC_UNIT <= cut.end",
            "is_whole = true",
            "AddressSanitizer",
        ),
        (
            of_units,
            "!cut.is_odd && at >= cut.start && at + MGC_UNIT <= cut.end",
            "!cut.is_odd",
            "AddressSanitizer",
        ),
        // Sixteen bytes are written wherever the result is.
        (
            of_units,
            "!cut.is_odd && at >= cut.start && at + MGC",
            "at >= cut.start && at + MGC",
            "misaligned address",
        ),
        // The rest of a unit is not read.
        (of_units, "at + i >= cut.start && at + i < cut.end ?", "false ?", "not as expected"),
        // NaNs are those of the device.
        (
            "reduce/numbers.cuh",
            "value == value ? __float_as_uint(value) : 0x7fc00000u",
            "__float_as_uint(value)",
            "not as expected",
        ),
        // The second NaN is kept.
        ("reduce/numbers.cuh", "if (Form::is_nan(left)) return left;", "", "not as expected"),
        // −0 is more than +0.
        (
            "reduce/numbers.cuh",
            "(T)~bits : (T)(bits | top_bit<T>())",
            "bits : (T)(bits | top_bit<T>())",
            "not as expected",
        ),
        // Numbers of 16 bits have no denormals.
        ("reduce/numbers.cuh", "magnitude < (127u - 14) << 23", "false", "not as expected"),
        // Integers have no sign.
        ("reduce/numbers.cuh", "is_signed ? (T)(bits ^ top_bit<T>()) : bits", "bits", "not as expected"),
        // The own numbers are taken from among the others'.
        ("reduce/reduce.cu", "rank == task.own_rank ? task.own :", "false ? task.own :", "Sanitizer"),
    ];
    let lens = [0, 8, 16, 56, 4096 + 8, 8192 + 40, 2 * 8192, 104];
    let numbers_of = reductions(&lens, Launch::new(LaneOrder::Fifo, 2));
    replay_others(test, &toolchain, ("numbers", "reduce"), &numbers_of, &numbers);

    let selftest = toolchain.link("selftest");
    expect_good(&toolchain.run(&selftest, &[]));
    expect_report("overrun", &toolchain.run(&selftest, &["shared_overrun"]), "AddressSanitizer");
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
    replay(&toolchain, &write_records(test, shim, thread_records), &plants);
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
    replay_others(test, &toolchain, ("rows", "ibp"), &thread_gathers(shim), &gathers);
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
    replay_others(test, &toolchain, ("buddy", "bpc_buddy"), &thread_entries(shim), &entries);
    let floats = [
        ("buddy/xp.cu", "__syncthreads();  // What is stored is there.", "", race),
        ("buddy/xp.cu", "__syncthreads();  // The padding is there.", "", race),
        ("buddy/xp.cu", "__syncthreads();  // Nobody works on the entry before.", "", race),
        ("buddy/xp.cu", "block_fails(code) || is_whole", "code != MGC_GOOD || is_whole", race),
    ];
    replay_others(test, &toolchain, ("buddy", "xp_buddy"), &thread_floats(shim), &floats);
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
