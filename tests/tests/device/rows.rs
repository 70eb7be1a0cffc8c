//! Rows of packed tables, gathered by the device.
#![allow(unsafe_code)] // launches a graph, and regions that nobody has

use mgcomp_codecs::device::{
    Buffer, Device, DeviceError, GatherRows, PackedRows, PinnedBytes, Region, RowReader, RowReport, Status,
    Stream, Workspace, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::ibp::Granule;
use mgcomp_tests::data::{self, Random};
use mgcomp_tests::stub::{Libraries, with_stub};
use mgcomp_transport::table::{Gathered, Sample, Table, TableOptions};

use crate::rig::{self, download, upload};

const BAD_ROW: u32 = 26;

/// A table on the host, and all that the device needs of it.
struct Rig {
    table: Table<Vec<u8>>,
    reader: RowReader,
    slots: PinnedBytes,
    packed: Buffer,
    clusters: Option<Buffer>,
    workspace: Workspace<'static>,
}

impl Rig {
    fn new(device: &Device, stream: &Stream, row_len: usize, clusters: usize) -> Result<Self, DeviceError> {
        let options = TableOptions {
            granule: Some(Granule::Four),
            clusters,
            sample: Sample::All,
            ..TableOptions::default()
        };
        let table = Table::build(data::tensors(row_len, clusters, 50, 3), row_len, &options).unwrap();
        let mut slots = device.pinned_bytes(table.slots().len())?;
        slots.as_mut().copy_from_slice(table.slots());
        Ok(Self {
            reader: device.row_reader(stream, table.codebook())?,
            slots,
            packed: upload(device, stream, table.packed_mask())?,
            clusters: if clusters > 1 { Some(upload(device, stream, table.row_clusters())?) } else { None },
            workspace: device.workspace(stream, workspace_len(ChunkSize::SMALL, &[]))?,
            table,
        })
    }

    fn gather(&mut self, stream: &Stream, room: &Room) -> Result<(), DeviceError> {
        let clusters = self.clusters.as_ref().map(Buffer::region);
        let table = PackedRows { slots: &self.slots, packed: self.packed.region(), clusters, cache: None };
        self.reader.gather(stream, &mut self.workspace, &table, &room.wanted())
    }

    fn expected(&self, indices: &[u64]) -> (Gathered, Vec<u8>) {
        let mut rows = vec![0; indices.len() * self.table.row_len()];
        (self.table.gather(indices, &mut rows).unwrap(), rows)
    }
}

/// Indices on a device, and room for their rows.
struct Room {
    indices: Buffer,
    out: Buffer,
    report: Buffer,
}

impl Room {
    fn new(device: &Device, stream: &Stream, indices: &[u64], row_len: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            indices: upload(device, stream, &bytes_of(indices))?,
            out: device.alloc((indices.len() * row_len) as u64)?,
            report: device.alloc(RowReport::LEN)?,
        })
    }

    fn wanted(&self) -> GatherRows<'_> {
        let [indices, out, report] = [&self.indices, &self.out, &self.report].map(Buffer::region);
        GatherRows { indices, out, report }
    }

    fn result(&self, stream: &Stream) -> Result<(RowReport, Vec<u8>), DeviceError> {
        let report = download(stream, self.report.region())?;
        Ok((RowReport::from_bytes(&report.try_into().unwrap()), download(stream, self.out.region())?))
    }
}

fn bytes_of(indices: &[u64]) -> Vec<u8> {
    indices.iter().copied().flat_map(u64::to_le_bytes).collect()
}

fn report_of(gathered: Gathered) -> RowReport {
    let Gathered { rows, packed_rows, stored_bytes, link_bytes } = gathered;
    RowReport { status: Status::GOOD, rows, packed_rows, stored_bytes, link_bytes, hits: 0 }
}

#[test]
fn rows_come_when_somebody_waits() {
    with_stub("rows::rows_come_when_somebody_waits", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let mut random = Random::new(2);
        for (n, (row_len, clusters)) in
            [(1, 1), (10, 2), (129, 1), (1003, 3), (4096, 1)].into_iter().enumerate()
        {
            let mut rig = Rig::new(&device, &stream, row_len, clusters).unwrap();
            let indices: Vec<u64> = (0..[0, 1, 8, 100, 33][n]).map(|_| random.below(50) as u64).collect();
            let room = Room::new(&device, &stream, &indices, row_len).unwrap();
            stream.wait().unwrap();
            let launches = stub.count("launches");
            rig.gather(&stream, &room).unwrap();
            assert_eq!(stub.count("launches"), launches, "somebody waited");
            let (gathered, rows) = rig.expected(&indices);
            let (report, out) = room.result(&stream).unwrap();
            assert_eq!(stub.count("launches"), launches + 1);
            // A warp for each row, as many as the device has room for.
            assert!(stub.count("grid") <= (indices.len() as u64).div_ceil(8).max(1));
            assert_eq!(report, report_of(gathered), "{row_len} bytes");
            assert!(out == rows, "{row_len} bytes");
        }
    });
}

#[test]
fn a_gather_can_be_recorded() {
    with_stub("rows::a_gather_can_be_recorded", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let mut rig = Rig::new(&device, &stream, 129, 2).unwrap();
        let room = Room::new(&device, &stream, &[0; 20], 129).unwrap();
        let graph = stream.capture(|| rig.gather(&stream, &room)).unwrap();
        for first in [0, 7, 30] {
            let indices: Vec<u64> = (first..first + 20).collect();
            stream.upload(&bytes_of(&indices), room.indices.region()).unwrap();
            // SAFETY: rig and room outlive the work, which is waited for.
            unsafe { graph.launch(&stream).unwrap() };
            let (gathered, rows) = rig.expected(&indices);
            let (report, out) = room.result(&stream).unwrap();
            assert_eq!(report, report_of(gathered));
            assert!(out == rows, "from {first}");
        }
    });
}

#[test]
fn rows_that_there_are_not_are_told() {
    with_stub("rows::rows_that_there_are_not_are_told", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let mut rig = Rig::new(&device, &stream, 129, 2).unwrap();
        let room = Room::new(&device, &stream, &[3, 49, 50, u64::MAX], 129).unwrap();
        rig.gather(&stream, &room).unwrap();
        let (report, out) = room.result(&stream).unwrap();
        assert_eq!(report.status, Status { code: BAD_ROW, chunk: 2 });
        assert_eq!(report.rows, 2);
        let text = report.check().unwrap_err().to_string();
        assert_eq!(text, "the row at position 2: No row of the table has this index (status 26)");
        assert!(out[..2 * 129] == rig.expected(&[3, 49]).1);
        // The next gather knows nothing of that.
        let room = Room::new(&device, &stream, &[3], 129).unwrap();
        rig.gather(&stream, &room).unwrap();
        assert_eq!(room.result(&stream).unwrap().0, report_of(rig.expected(&[3]).0));
    });
}

#[test]
fn regions_must_fit() {
    with_stub("rows::regions_must_fit", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let mut rig = Rig::new(&device, &stream, 129, 2).unwrap();
        let room = Room::new(&device, &stream, &[1, 2, 3], 129).unwrap();
        let table = PackedRows {
            slots: &rig.slots,
            packed: rig.packed.region(),
            clusters: rig.clusters.as_ref().map(Buffer::region),
            cache: None,
        };
        let workspace = &mut rig.workspace;
        let mut refused = |table: PackedRows<'_>, wanted: GatherRows<'_>| {
            rig.reader.gather(&stream, workspace, &table, &wanted).unwrap_err()
        };
        let short = |what, needed, got| DeviceError::TooShort { what, needed, got };
        let wanted = room.wanted();
        let packed = table.packed.slice(0..6);
        assert_eq!(refused(PackedRows { packed, ..table }, wanted), short("the bits of the rows", 7, 6));
        let what = "the clusters of the rows";
        let clusters = table.clusters.map(|clusters| clusters.slice(0..49));
        assert_eq!(refused(PackedRows { clusters, ..table }, wanted), short(what, 50, 49));
        assert_eq!(refused(PackedRows { clusters: None, ..table }, wanted), short(what, 50, 0));

        let indices = wanted.indices.slice(0..23);
        assert_eq!(refused(table, GatherRows { indices, ..wanted }), short("the last index", 8, 7));
        let room_for_rows = "the room for rows";
        let out = wanted.out.slice(0..3 * 129 - 1);
        assert_eq!(refused(table, GatherRows { out, ..wanted }), short(room_for_rows, 387, 386));
        let indices = wanted.indices.slice(0..16);
        let long = DeviceError::TooLong { what: room_for_rows, limit: 258, got: 387 };
        assert_eq!(refused(table, GatherRows { indices, ..wanted }), long);
        let report = wanted.report.slice(0..40);
        assert_eq!(refused(table, GatherRows { report, ..wanted }), short("the report of a gather", 48, 40));
        // SAFETY: calls with it fail before anything is enqueued.
        let nowhere = unsafe { Region::from_raw(4, 24) };
        let misaligned = |what| DeviceError::Misaligned { what, address: 4, align: 8 };
        assert_eq!(refused(table, GatherRows { indices: nowhere, ..wanted }), misaligned("the indices"));
        // SAFETY: as above.
        let nowhere = unsafe { Region::from_raw(4, 48) };
        assert_eq!(
            refused(table, GatherRows { report: nowhere, ..wanted }),
            misaligned("the report of a gather")
        );

        let other = device.stream().unwrap();
        assert_eq!(rig.reader.gather(&other, workspace, &table, &wanted), Err(DeviceError::OtherStream));
        assert_eq!(stub.count("launches"), 0);
    });
}

#[test]
fn every_call_may_fail() {
    with_stub("rows::every_call_may_fail", Libraries::DriverAndCompiler, |stub| {
        let run = || -> Result<bool, DeviceError> {
            let device = Device::open_with(0, mgcomp_codecs::device::Cache::Off)?;
            let stream = device.stream()?;
            let mut rig = Rig::new(&device, &stream, 129, 2)?;
            let indices = [4, 4, 49, 0];
            let room = Room::new(&device, &stream, &indices, 129)?;
            rig.gather(&stream, &room)?;
            let (gathered, rows) = rig.expected(&indices);
            Ok(room.result(&stream)? == (report_of(gathered), rows))
        };
        stub.fail_each_call(run);
    });
}

#[test]
fn memory_that_devices_read_is_the_hosts() {
    with_stub("rows::memory_that_devices_read_is_the_hosts", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        for len in [0, 1, 127, 128, 1000] {
            let mut bytes = device.pinned_bytes(len).unwrap();
            assert_eq!(bytes.as_ref(), vec![0; len]);
            bytes.as_mut().fill(7);
            assert_eq!(bytes.as_ref(), vec![7; len]);
        }
        assert!(device.pinned_bytes(usize::MAX).unwrap_err().is_out_of_memory());
    });
}
