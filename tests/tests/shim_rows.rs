//! The kernel that gathers rows of packed tables: as portable code gathers them, bit for bit, and it judges what is damaged
//! as that does.

use mgcomp_codecs::ibp::{Codebook, Form, Granule, Invariants, Packer};
use mgcomp_codecs::{ChunkError, Cpu};
use mgcomp_tests::data::{Random, tensors};
use mgcomp_tests::shim::rows::{GONE, RowTable, sparse_table};
use mgcomp_tests::shim::{LaneOrder, Launch, Shim, Status, launch};
use mgcomp_transport::table::{Cache, Gathered, Sample, Table, TableOptions};

/// Rows that share bits, packed on portable code.
fn table(granule: Granule, row_len: usize, clusters: usize, rows: usize) -> Table {
    let options = TableOptions {
        granule: Some(granule),
        clusters,
        sample: Sample::All,
        cpu: Cpu::Portable,
        ..TableOptions::default()
    };
    Table::build(tensors(row_len, clusters, rows, row_len as u64), row_len, &options).unwrap()
}

/// Tables of granules, lengths and clusters as different as can be. Rows of many lengths start anywhere in a piece.
fn tables() -> Vec<Table> {
    let shapes = [
        (Granule::Four, 1, 1),
        (Granule::Four, 3, 1),
        (Granule::Four, 4, 1),
        (Granule::Four, 5, 2),
        (Granule::Eight, 7, 1),
        (Granule::Eight, 8, 1),
        (Granule::Eight, 15, 3),
        (Granule::Four, 31, 1),
        (Granule::Four, 64, 1),
        (Granule::Eight, 100, 3),
        (Granule::Four, 127, 1),
        (Granule::Eight, 128, 1),
        (Granule::Four, 129, 2),
        (Granule::Eight, 400, 1),
        (Granule::Four, 1000, 1),
        (Granule::Eight, 1021, 4),
        (Granule::Four, 2048, 1),
        (Granule::Four, 5004, 2),
        (Granule::Eight, 16_383, 1),
        (Granule::Four, 70_003, 1),
    ];
    let fitted = shapes
        .into_iter()
        .map(|(granule, len, clusters)| table(granule, len, clusters, (9000 / len).clamp(6, 60)));
    let sparse = [8, 70, 258, 1023, 4096].into_iter().map(|row_len| sparse_table(row_len, 30));
    fitted.chain(sparse).collect()
}

/// Some indices by chance, some of them twice, the last row among them.
fn indices(rows: u64, count: usize, random: &mut Random) -> Vec<u64> {
    let mut indices: Vec<u64> = (0..count).map(|_| random.below(rows as usize) as u64).collect();
    indices.push(rows - 1);
    indices
}

/// The words that tell of good rows.
fn report(gathered: Gathered, hits: u64) -> [u64; 6] {
    [0, gathered.rows, gathered.packed_rows, gathered.stored_bytes, gathered.link_bytes, hits]
}

#[test]
fn rows_of_every_shape() {
    let Some(shim) = Shim::or_skip("rows_of_every_shape") else { return };
    let mut random = Random::new(1);
    let mut seen = [0; 2];
    for table in tables() {
        let rows = RowTable::of(&table);
        for (n, order) in LaneOrder::ALL.into_iter().enumerate() {
            let indices = indices(table.rows(), [1, 9, 40][n], &mut random);
            let mut wanted = vec![0; indices.len() * table.row_len()];
            let gathered = table.gather(&indices, &mut wanted).unwrap();
            seen[0] += gathered.packed_rows;
            seen[1] += gathered.rows - gathered.packed_rows;
            for (blocks, dst_offset) in [(1, 0), (3, n + 1)] {
                let launch = Launch { dst_offset, os_threads: blocks, ..Launch::new(order, blocks) };
                let got = shim.gather(&rows, &indices, launch);
                let what = format!("{} bytes, {launch:?}", table.row_len());
                assert_eq!(got.report, report(gathered, 0), "{what}");
                assert!(got.out == wanted, "{what}");
            }
        }
    }
    assert!(seen.iter().all(|&rows| rows > 100), "packed and raw: {seen:?}");
}

/// The table that FORMAT.md draws.
#[test]
fn the_documented_rows() {
    let Some(shim) = Shim::or_skip("the_documented_rows") else { return };
    let mask = vec![0xf0, 0xff, 0, 0, 0, 0, 0, 0xff, 0, 0];
    let bitval = vec![0x30, 0x12, 0, 0, 0, 0, 0, 0x40, 0, 0];
    let codebook = Codebook::new(Granule::Four, 10, vec![Invariants { mask, bitval }]).unwrap();
    let rows = [
        [0x35, 0x12, 0xab, 0xcd, 1, 2, 3, 0x40, 0x77, 0x88],
        [0x35, 0x12, 0xab, 0xcd, 1, 2, 3, 0x41, 0x77, 0x88],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    ];
    let table = Table::with_codebook(vec![0; 30], codebook, &TableOptions::default()).unwrap();
    let mut slots = rows.concat();
    slots[..9].copy_from_slice(&[0x03, 0xb5, 0xda, 0x1c, 0x20, 0x30, 0x00, 0x77, 0x88]);
    let mut rows_of = RowTable::of(&table).with_slots(&slots);
    rows_of.packed = vec![1];
    for order in LaneOrder::ALL {
        let got = shim.gather(&rows_of, &[2, 0, 1, 0], Launch::new(order, 1));
        assert_eq!(got.out, [rows[2], rows[0], rows[1], rows[0]].concat());
        // Two rows of 9 bytes, two of 10, each in one piece.
        assert_eq!(got.report, [0, 4, 2, 38, 4 * 128, 0]);
    }
    // A bit of the kept ones that has no use, then one of the participation.
    for (at, bit) in [(6, 0x80), (0, 0x04)] {
        let mut bad = slots.clone();
        bad[at] |= bit;
        let got = shim.gather(&rows_of.clone().with_slots(&bad), &[1, 0], Launch::new(LaneOrder::Fifo, 1));
        assert_eq!(got.status(), Status { code: launch::BAD_CHUNK_PADDING, chunk: 1 });
    }
}

#[test]
fn no_rows_are_good_rows() {
    let Some(shim) = Shim::or_skip("no_rows_are_good_rows") else { return };
    let table = table(Granule::Four, 64, 1, 6);
    let got = shim.gather(&RowTable::of(&table), &[], Launch::new(LaneOrder::Fifo, 2));
    assert_eq!((got.report, got.out.len()), ([0; 6], 0));
}

#[test]
fn the_first_index_of_no_row_is_told() {
    let Some(shim) = Shim::or_skip("the_first_index_of_no_row_is_told") else { return };
    let table = table(Granule::Four, 129, 2, 20);
    let rows = RowTable::of(&table);
    for bad in [20, 21, 1 << 32, u64::MAX / 129, u64::MAX] {
        for order in LaneOrder::ALL {
            let mut indices: Vec<u64> = (0..20).chain(0..20).collect();
            (indices[13], indices[31]) = (bad, u64::MAX);
            let got = shim.gather(&rows, &indices, Launch::new(order, 2));
            assert_eq!(got.status(), Status { code: launch::BAD_ROW, chunk: 13 }, "{bad}");
            // All others are there.
            let mut row = vec![0; 129];
            for at in [0, 12, 14, 39] {
                table.gather(&[indices[at]], &mut row).unwrap();
                assert!(got.out[129 * at..][..129] == row, "row at {at}");
            }
        }
    }
}

/// What portable code says of the row at `index` in `slots`.
fn judge(packer: &Packer, rows: &RowTable, slots: &[u8], index: usize) -> Result<Vec<u8>, u32> {
    let row_len = packer.codebook().tensor_len();
    let is_packed = rows.packed[index / 8] >> (index % 8) & 1 == 1;
    let cluster = rows.clusters.get(index).copied().unwrap_or(0);
    let form = if is_packed { Form::Packed { cluster } } else { Form::Raw };
    let mut row = vec![0; row_len];
    match packer.unpack(form, &slots[index * row_len..][..row_len], &mut row) {
        Ok(_) => Ok(row),
        Err(ChunkError::Truncated { .. }) => Err(launch::BAD_CHUNK_TRUNCATED),
        Err(ChunkError::Padding { .. }) => Err(launch::BAD_CHUNK_PADDING),
        Err(ChunkError::Cluster { .. }) => Err(launch::BAD_CHUNK_FIELD),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn damaged_rows_are_judged_as_by_portable_code() {
    let Some(shim) = Shim::or_skip("damaged_rows_are_judged_as_by_portable_code") else { return };
    let mut random = Random::new(5);
    let mut codes = std::collections::BTreeMap::<u32, u32>::new();
    for table in tables().iter().filter(|table| table.row_len() < 3000) {
        let packer = Packer::on(Cpu::Portable, table.codebook().clone());
        for order in LaneOrder::ALL.into_iter().cycle().take(12) {
            let (mut rows, mut slots) = (RowTable::of(table), table.slots().to_vec());
            for _ in 0..1 + random.below(6) {
                let index = random.below(table.rows() as usize);
                let front = index * table.row_len() + random.below(table.row_len().min(40));
                match random.below(4) {
                    0 => slots[front] = [0, 0xff][random.below(2)],
                    1 => slots[front] ^= 1 << random.below(8),
                    2 => rows.packed[index / 8] ^= 1 << (index % 8),
                    _ if rows.clusters.is_empty() => rows.packed[index / 8] ^= 1 << (index % 8),
                    _ => rows.clusters[index] = random.below(256) as u8,
                }
            }
            let rows = rows.with_slots(&slots);
            let all: Vec<u64> = (0..table.rows()).collect();
            let got = shim.gather(&rows, &all, Launch::new(order, 2));
            let wanted: Vec<_> = (0..all.len()).map(|index| judge(&packer, &rows, &slots, index)).collect();
            let first = wanted.iter().zip(0..).find_map(|(row, at)| Some((at, *row.as_ref().err()?)));
            let status = first.map_or(Status::GOOD, |(chunk, code)| Status { code, chunk });
            assert_eq!(got.status(), status, "{} bytes, {order:?}", table.row_len());
            *codes.entry(status.code).or_default() += 1;
            for (row, out) in wanted.iter().zip(got.out.chunks(table.row_len())) {
                assert!(row.as_ref().is_err() || row.as_ref().is_ok_and(|row| row == out));
            }
        }
    }
    let kinds =
        [launch::GOOD, launch::BAD_CHUNK_TRUNCATED, launch::BAD_CHUNK_PADDING, launch::BAD_CHUNK_FIELD];
    assert!(codes.keys().copied().eq(kinds), "{codes:?}");
}

#[test]
fn cached_rows_come_from_slabs() {
    let Some(shim) = Shim::or_skip("cached_rows_come_from_slabs") else { return };
    let mut random = Random::new(9);
    for table in tables() {
        let popular: Vec<u64> = (0..table.rows()).filter(|row| row % 3 != 1).collect();
        let room = table.stored_bytes() / 5;
        let lens = [room, 0, room + 1, 7, room, 3, 1, room];
        let cache = Cache::fill(&table, popular, &lens).unwrap();
        let rows = RowTable::of(&table).with_cache(&cache, 7);
        let indices = indices(table.rows(), 50, &mut random);
        let mut wanted = vec![0; indices.len() * table.row_len()];
        let found = cache.gather(&table, &indices, &mut wanted).unwrap();
        for order in LaneOrder::ALL {
            let got = shim.gather(&rows, &indices, Launch::new(order, 2));
            assert_eq!(got.report, report(found.from_table, found.hits), "{} bytes", table.row_len());
            assert!(got.out == wanted, "{} bytes", table.row_len());
        }
    }
}

#[test]
fn a_map_may_be_full_and_rows_may_have_left_it() {
    let Some(shim) = Shim::or_skip("a_map_may_be_full_and_rows_may_have_left_it") else { return };
    let table = table(Granule::Four, 64, 1, 40);
    let cache = Cache::fill(&table, 0..32, &[1 << 20]).unwrap();
    let mut rows = RowTable::of(&table).with_cache(&cache, 5);
    let all: Vec<u64> = (0..40).collect();
    let mut wanted = vec![0; 40 * 64];
    table.gather(&all, &mut wanted).unwrap();
    let got = shim.gather(&rows, &all, Launch::new(LaneOrder::Fifo, 1));
    assert_eq!((got.status(), got.report[5]), (Status::GOOD, 32));
    assert!(got.out == wanted);
    (0..5).for_each(|row| rows.insert(row, GONE));
    let got = shim.gather(&rows, &all, Launch::new(LaneOrder::Lifo, 1));
    assert_eq!((got.status(), got.report[5]), (Status::GOOD, 27));
    assert!(got.out == wanted);
}

/// Entries that no host makes: of slabs that are not there, or behind their ends.
#[test]
fn wrong_entries_are_errors() {
    let Some(shim) = Shim::or_skip("wrong_entries_are_errors") else { return };
    let table = table(Granule::Four, 129, 2, 20);
    let cache = Cache::fill(&table, 0..20, &[4000]).unwrap();
    let (end, packed) = (cache.used_bytes(), 1 << 43);
    let entries = [
        (1 << 40, launch::BAD_CHUNK_TRUNCATED),
        (end, launch::BAD_CHUNK_TRUNCATED),
        (end - 1, launch::BAD_CHUNK_TRUNCATED),
        ((1 << 40) - 1, launch::BAD_CHUNK_TRUNCATED),
        (packed | (end - 1), launch::BAD_CHUNK_TRUNCATED),
        (packed | 2 << 44, launch::BAD_CHUNK_FIELD),
    ];
    for (entry, code) in entries {
        let mut rows = RowTable::of(&table).with_cache(&cache, 6);
        rows.insert(7, entry);
        let got = shim.gather(&rows, &[6, 7, 8], Launch::new(LaneOrder::Random(3), 1));
        assert_eq!(got.status(), Status { code, chunk: 1 }, "{entry:#x}");
    }
}
