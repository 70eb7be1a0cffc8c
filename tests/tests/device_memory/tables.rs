//! Tables whose rows a device reads by itself.
#![allow(unsafe_code)] // launches a graph

use std::path::Path;

use mgcomp_codecs::device::{
    Buffer, Device, DeviceError, GatherRows, Region, RowReport, Stream, Workspace, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_tests::data::{Random, tensors};
use mgcomp_tests::foreign::Foreign;
use mgcomp_tests::stub::{Libraries, OUT_OF_MEMORY, with_stub};
use mgcomp_transport::table::{
    CacheHits, DeviceCache, DeviceTable, DeviceTableError, Gathered, LoadOptions, Sample, Table, TableError,
    TableFileError, TableOptions,
};

use crate::rig::{open, with_threads};

const ROW_LEN: usize = 130;
const ROWS: u64 = 90;

fn options(clusters: usize) -> TableOptions {
    TableOptions { clusters, sample: Sample::All, ..TableOptions::default() }
}

fn raw() -> Vec<u8> {
    tensors(ROW_LEN, 2, ROWS as usize, 6)
}

/// Indices on a device, and room for their rows.
struct Room {
    indices: Buffer,
    out: Buffer,
    report: Buffer,
    workspace: Workspace<'static>,
}

impl Room {
    fn new(device: &Device, stream: &Stream, indices: &[u64]) -> Result<Self, DeviceError> {
        let bytes: Vec<u8> = indices.iter().copied().flat_map(u64::to_le_bytes).collect();
        let room = Self {
            indices: device.alloc(bytes.len() as u64)?,
            out: device.alloc((indices.len() * ROW_LEN) as u64)?,
            report: device.alloc(RowReport::LEN)?,
            workspace: device.workspace(stream, workspace_len(ChunkSize::SMALL, &[]))?,
        };
        stream.upload(&bytes, room.indices.region())?;
        Ok(room)
    }

    fn gather(&mut self, stream: &Stream, table: &DeviceTable) -> Result<Gathered, DeviceTableError> {
        let wanted = wanted(&self.indices, &self.out, &self.report);
        table.gather(stream, &mut self.workspace, &wanted)?;
        table.gathered(stream, &wanted)
    }

    fn find(
        &mut self,
        stream: &Stream,
        table: &DeviceTable,
        cache: &DeviceCache,
    ) -> Result<CacheHits, DeviceTableError> {
        let wanted = wanted(&self.indices, &self.out, &self.report);
        cache.gather(stream, &mut self.workspace, table, &wanted)?;
        cache.gathered(stream, table, &wanted)
    }

    fn rows(&self, stream: &Stream) -> Result<Vec<u8>, DeviceError> {
        let mut rows = vec![0; self.out.region().len() as usize];
        stream.download(self.out.region(), &mut rows)?;
        Ok(rows)
    }
}

fn wanted<'a>(indices: &'a Buffer, out: &'a Buffer, report: &'a Buffer) -> GatherRows<'a> {
    GatherRows { indices: indices.region(), out: out.region(), report: report.region() }
}

/// Rows of a table on the host.
fn expected(table: &Table<impl AsRef<[u8]> + Sync>, indices: &[u64]) -> (Gathered, Vec<u8>) {
    let mut rows = vec![0; indices.len() * ROW_LEN];
    (table.gather(indices, &mut rows).unwrap(), rows)
}

fn save(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("table");
    Table::build(raw(), ROW_LEN, &options(2)).unwrap().save(&path).unwrap();
    path
}

#[test]
fn a_device_gathers_what_the_host_gathers() {
    with_threads("tables::a_device_gathers_what_the_host_gathers", 3, |_| {
        let (device, stream) = open();
        let mut random = Random::new(1);
        for clusters in [1, 2] {
            let host = Table::build(raw(), ROW_LEN, &options(clusters)).unwrap();
            let table = DeviceTable::build(&device, &stream, &raw(), ROW_LEN, &options(clusters)).unwrap();
            assert_eq!(table.table().slots(), host.slots());
            for count in [0, 1, 7, 60] {
                let indices: Vec<u64> = (0..count).map(|_| random.below(ROWS as usize) as u64).collect();
                let mut room = Room::new(&device, &stream, &indices).unwrap();
                let (gathered, rows) = expected(&host, &indices);
                assert_eq!(room.gather(&stream, &table).unwrap(), gathered);
                assert!(room.rows(&stream).unwrap() == rows, "{clusters} clusters, {count} rows");
            }
        }
    });
}

#[test]
fn files_are_read_into_memory_that_a_device_reads() {
    with_threads("tables::files_are_read_into_memory_that_a_device_reads", 4, |stub| {
        let folder = tempfile::tempdir().unwrap();
        let path = save(folder.path());
        let (device, stream) = open();
        let table = DeviceTable::load(&device, &stream, &path, &LoadOptions::default()).unwrap();
        let indices: Vec<u64> = (0..ROWS).rev().collect();
        let mut room = Room::new(&device, &stream, &indices).unwrap();
        room.gather(&stream, &table).unwrap();
        let rows: Vec<u8> = raw().chunks(ROW_LEN).rev().flatten().copied().collect();
        assert!(room.rows(&stream).unwrap() == rows);
        // The driver's word is told, not only that there is no memory.
        stub.fail(Some("cuMemHostAlloc"), 1, OUT_OF_MEMORY);
        let error = DeviceTable::load(&device, &stream, &path, &LoadOptions::default()).unwrap_err();
        assert!(matches!(&error, DeviceTableError::Device(error) if error.is_out_of_memory()), "{error}");
        let options = LoadOptions { max_bytes: 100, ..LoadOptions::default() };
        let error = DeviceTable::load(&device, &stream, &path, &options).unwrap_err();
        assert!(matches!(error, DeviceTableError::File(TableFileError::TooLarge { .. })), "{error}");
    });
}

#[test]
fn updates_reach_the_device() {
    with_threads("tables::updates_reach_the_device", 5, |_| {
        let (device, stream) = open();
        let mut table = DeviceTable::build(&device, &stream, &raw(), ROW_LEN, &options(2)).unwrap();
        let mut random = Random::new(7);
        let all: Vec<u64> = (0..ROWS).collect();
        let mut room = Room::new(&device, &stream, &all).unwrap();
        let mut now = raw();
        for round in 0..8 {
            // Rows of chance, which stay as they are, and rows of the others, which are packed.
            let indices = [random.below(90), random.below(90), 89 - round];
            let rows: Vec<u8> = if round % 2 == 0 {
                (0..3 * ROW_LEN).map(|_| random.bits() as u8).collect()
            } else {
                raw()[round * ROW_LEN..][..3 * ROW_LEN].to_vec()
            };
            let indices_of_call = indices.map(|index| index as u64);
            table.update_rows(&stream, &indices_of_call, &rows).unwrap();
            for (index, row) in indices.into_iter().zip(rows.chunks(ROW_LEN)) {
                now[index * ROW_LEN..][..ROW_LEN].copy_from_slice(row);
            }
            assert_eq!(room.gather(&stream, &table).unwrap(), expected(table.table(), &all).0);
            assert!(room.rows(&stream).unwrap() == now, "round {round}");
        }
        let error = table.update_rows(&stream, &[3, 90], &[0; 2 * ROW_LEN]).unwrap_err();
        assert!(matches!(error, DeviceTableError::Table(TableError::Index { position: 1, .. })), "{error}");
        room.gather(&stream, &table).unwrap();
        assert!(room.rows(&stream).unwrap() == now);
    });
}

#[test]
fn an_update_that_fails_on_its_way_is_made_good() {
    with_threads("tables::an_update_that_fails_on_its_way_is_made_good", 6, |stub| {
        let (device, stream) = open();
        let all: Vec<u64> = (0..ROWS).collect();
        for at in [1, 2] {
            let mut table = DeviceTable::build(&device, &stream, &raw(), ROW_LEN, &options(2)).unwrap();
            let mut room = Room::new(&device, &stream, &all).unwrap();
            stub.fail(Some("cuMemcpyHtoDAsync_v2"), at, OUT_OF_MEMORY);
            let chance: Vec<u8> = (0..ROW_LEN).map(|i| (i * 89) as u8).collect();
            let error = table.update_rows(&stream, &[40], &chance).unwrap_err();
            assert!(matches!(error, DeviceTableError::Device(_)), "{error}");
            assert!(matches!(room.gather(&stream, &table), Err(DeviceTableError::Behind)));
            table.update_rows(&stream, &[], &[]).unwrap();
            assert_eq!(room.gather(&stream, &table).unwrap(), expected(table.table(), &all).0);
            assert!(room.rows(&stream).unwrap()[40 * ROW_LEN..][..ROW_LEN] == chance);
        }
    });
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    with_threads("tables::what_is_wrong_is_told_with_its_place", 7, |_| {
        let (device, stream) = open();
        let mut memory = device.pinned_bytes(raw().len()).unwrap();
        memory.as_mut().copy_from_slice(&raw());
        let table = Table::build(memory, ROW_LEN, &options(1)).unwrap();
        let packed =
            (1..ROWS).find(|row| table.packed_mask()[*row as usize / 8] >> (row % 8) & 1 == 1).unwrap();
        let table = DeviceTable::new(&device, &stream, table).unwrap();
        let mut room = Room::new(&device, &stream, &[0, packed, ROWS, 3]).unwrap();
        let error = room.gather(&stream, &table).unwrap_err();
        let text = "index 90 at position 2: there are 90 rows";
        assert_eq!(error.to_string(), text);

        // Somebody else writes to the memory: no granule participates any more, and the row is longer than its place.
        let slot = table.table().slots()[packed as usize * ROW_LEN..].as_ptr();
        // SAFETY: the memory is there, and nobody looks at it until the work is done.
        let participation = unsafe { Region::from_raw(slot.addr() as u64, 4) };
        stream.zero(participation).unwrap();
        let error = room.gather(&stream, &table).unwrap_err();
        let is_row = matches!(&error, DeviceTableError::Table(TableError::Row { position: 1, index, .. }) if *index == packed);
        assert!(is_row, "{error}");
    });
}

#[test]
fn a_cache_on_the_device_counts_what_it_finds() {
    with_threads("tables::a_cache_on_the_device_counts_what_it_finds", 8, |_| {
        let (device, stream) = open();
        let mut table = DeviceTable::build(&device, &stream, &raw(), ROW_LEN, &options(2)).unwrap();
        let popular = || (0..ROWS).filter(|row| row % 3 == 0);
        let mut cache = DeviceCache::fill(&stream, &table, popular(), &[2000, 900, 5]).unwrap();
        let host = mgcomp_transport::table::Cache::fill(table.table(), popular(), &[2000, 900, 5]).unwrap();
        assert!(cache.rows() == host.rows() && cache.rows() > 5, "{} rows", cache.rows());
        let indices: Vec<u64> = (0..ROWS).chain(0..9).collect();
        let mut room = Room::new(&device, &stream, &indices).unwrap();
        let mut rows = vec![0; indices.len() * ROW_LEN];
        let wanted_hits = host.gather(table.table(), &indices, &mut rows).unwrap();
        assert_eq!(room.find(&stream, &table, &cache).unwrap(), wanted_hits);
        assert!(room.rows(&stream).unwrap() == rows);
        let misses = indices.len() as u64 - wanted_hits.hits;
        assert_eq!(cache.hits_and_misses(&stream).unwrap(), (wanted_hits.hits, misses));

        // Recorded, and launched three times.
        let graph = {
            let wanted = wanted(&room.indices, &room.out, &room.report);
            stream.capture(|| cache.gather(&stream, &mut room.workspace, &table, &wanted)).unwrap()
        };
        for _ in 0..3 {
            // SAFETY: all that it uses is there until the stream is waited for.
            unsafe { graph.launch(&stream).unwrap() };
        }
        assert_eq!(cache.hits_and_misses(&stream).unwrap(), (4 * wanted_hits.hits, 4 * misses));

        // The row leaves the cache; the map has room for it no more than before.
        let row = [0x77; ROW_LEN];
        cache.update(&stream, &mut table, 3, &row).unwrap();
        let found = room.find(&stream, &table, &cache).unwrap();
        assert_eq!((found.hits, cache.rows()), (wanted_hits.hits - 2, host.rows() - 1));
        assert!(room.rows(&stream).unwrap()[3 * ROW_LEN..][..ROW_LEN] == row);
        table.update_rows(&stream, &[3], &row).unwrap();
        let error = room.find(&stream, &table, &cache).unwrap_err();
        assert!(matches!(error, DeviceTableError::Table(TableError::Stale { .. })), "{error}");
        drop(graph);
    });
}

#[test]
fn tables_and_caches_go_beside_a_recording() {
    with_threads("tables::tables_and_caches_go_beside_a_recording", 9, |stub| {
        let (device, stream) = open();
        let library = Foreign::on(&device);
        let table = DeviceTable::build(&device, &stream, &raw(), ROW_LEN, &options(2)).unwrap();
        let cache = DeviceCache::fill(&stream, &table, [5, 6, 80], &[1000]).unwrap();
        assert!(library.stream().records(|| drop((cache, table))));
        assert!(!stub.left().contains("allocations"), "{}", stub.left());
    });
}

#[test]
fn every_call_may_fail() {
    with_stub("tables::every_call_may_fail", Libraries::DriverAndCompiler, |stub| {
        let folder = tempfile::tempdir().unwrap();
        let path = save(folder.path());
        let indices: Vec<u64> = (0..ROWS).collect();
        let row = [0x3c; ROW_LEN];
        let mut good = raw();
        good[5 * ROW_LEN..][..ROW_LEN].copy_from_slice(&row);
        let run = || -> Result<bool, DeviceTableError> {
            let device = Device::open_with(0, mgcomp_codecs::device::Cache::Off)?;
            let stream = device.stream()?;
            let mut table = DeviceTable::load(&device, &stream, &path, &LoadOptions::default())?;
            let mut cache = DeviceCache::fill(&stream, &table, [5, 6, 80], &[1000])?;
            cache.update(&stream, &mut table, 5, &row)?;
            let mut room = Room::new(&device, &stream, &indices)?;
            let found = room.find(&stream, &table, &cache)?;
            let counted = cache.hits_and_misses(&stream)?;
            Ok(found.hits == 2 && counted == (2, ROWS - 2) && room.rows(&stream)? == good)
        };
        stub.fail_each_call(|| {
            run().map_err(|error| match error {
                DeviceTableError::Device(error) => error,
                error => panic!("{error}"),
            })
        });
    });
}
