//! Whether kernels stay inside their buffers: what they are given to do under the address and undefined-behaviour sanitizers,
//! and bugs that these must find.

use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::ibp::Granule;
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::damage;
use mgcomp_tests::data::{self, Kind, Random};
use mgcomp_tests::shim::buddy::{self, PortableEntries, bytes_of_all_kinds, entries_of_all_states};
use mgcomp_tests::shim::record::{self, Source};
use mgcomp_tests::shim::rows::{self, RowTable, sparse_table};
use mgcomp_tests::shim::toolchain::{Plant, Sanitizer};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim};
use mgcomp_transport::buddy::{Form, Target, XP_ENTRY_LEN};

use crate::records::{coded, predicted, reductions, row_tables};
use crate::{expect_good, expect_report, replay, replay_others, toolchain_or_skip, write_records};

/// Good frames of all kinds and widths, what is left of them when they are cut, and many mutants; the raw bytes
/// to encode and to estimate, with room enough and too little.
fn records(shim: Shim, algorithm: Algorithm) -> Vec<u8> {
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

/// Gathers of good rows and of damaged ones, the last row among them; of indices that there are and that there are not.
fn gather_records(shim: Shim) -> Vec<u8> {
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

/// Writes and reads of all targets, at all places in an entry, of good entries and of damaged ones.
fn entry_records(shim: Shim) -> Vec<u8> {
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
fn float_records(shim: Shim) -> Vec<u8> {
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
    replay(&toolchain, &write_records(test, shim, records), &plants);
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
    replay_others(test, &toolchain, ("rows", "ibp"), &gather_records(shim), &gathers);
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
    replay_others(test, &toolchain, ("buddy", "bpc_buddy"), &entry_records(shim), &entries);
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
    replay_others(test, &toolchain, ("buddy", "xp_buddy"), &float_records(shim), &floats);
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
