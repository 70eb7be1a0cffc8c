//! Tables of rows that share bits.
#![allow(unsafe_code)] // called from C

use std::ffi::{c_char, c_void};
use std::sync::{PoisonError, RwLock};

use mgcomp_codecs::ibp::Granule;
use mgcomp_transport::table::{LoadOptions, Sample, Table, TableError, TableFileError, TableOptions};

use crate::error::{Failure, call, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::memory::{Out, Span, given, path};

static TABLES: Handles<Held> = Handles::new(Kind::Table);

/// Rows of one length, packed in place.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompTable {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// How a table is built. Where NULL is given instead: { 0, 1, 0, 1 }.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompTableOptions {
    /// Rows are cut into pieces of so many bytes: 4 or 8; 0 for whichever packs better.
    pub granule_bytes: u32,
    /// How many groups of rows may have invariant bits of their own: 1 to 256.
    pub clusters: u32,
    /// Rows that invariant bits are found from; 0 for a tenth of them.
    pub sample_rows: u64,
    /// Threads that pack and gather, the caller's counted: 1 to 1024.
    pub threads: u32,
}

/// What a table holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompTableInfo {
    /// How many rows there are.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Bytes of all rows.
    pub raw_bytes: u64,
    /// Bytes of all rows as they are stored.
    pub stored_bytes: u64,
}

/// What a gather read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompGathered {
    /// How many rows.
    pub rows: u64,
    /// How many of them were packed.
    pub packed_rows: u64,
    /// Their stored bytes.
    pub stored_bytes: u64,
    /// Bytes that a device would move over its link that reads host memory in aligned pieces of 128 bytes.
    pub link_bytes: u64,
}

/// A table, until its handle is destroyed.
#[derive(Debug)]
struct Held(RwLock<Option<Table<Rows>>>);

/// Where rows lie.
#[derive(Debug)]
enum Rows {
    Lent(Span),
    Own(Vec<u8>),
}

// SAFETY: a program that lends memory to a table lets whichever thread uses the table reach it.
unsafe impl Send for Rows {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Rows {}

impl AsRef<[u8]> for Rows {
    fn as_ref(&self) -> &[u8] {
        match self {
            // SAFETY: lent until the table is destroyed; `mgcompBuildTable` asks for that.
            Self::Lent(span) => unsafe { span.bytes() },
            Self::Own(bytes) => bytes,
        }
    }
}

impl AsMut<[u8]> for Rows {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: as above, and to nobody else; the borrow of `self` keeps this reference the only one.
            Self::Lent(span) => unsafe { span.bytes_mut() },
            Self::Own(bytes) => bytes,
        }
    }
}

/// Finds the bits that rows have in common, and packs each row where it is. Row i still starts at i * rowBytes, with only the
/// front of its place in use.
///
/// @param rows whole rows: bytes bytes. They are the table's until it is destroyed: the program neither changes nor frees them,
/// and gets rows by mgcompGatherRows. Afterwards they hold packed rows. If the call fails, they are as they were.
/// @param rowBytes bytes of a row: 1 to 131072 / clusters.
/// @param options or NULL.
/// @param table set to the handle, to be given to mgcompDestroyTable.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompBuildTable(
    rows: *mut c_void,
    bytes: usize,
    row_bytes: usize,
    options: *const mgcompTableOptions,
    table: *mut mgcompTable,
) -> mgcompResult {
    call(|| {
        let rows = Span::new("rows", rows, bytes)?;
        // SAFETY: the header asks for options and a place for a handle, or NULL.
        let (options, out) = unsafe { (table_options(options)?, Out::new("table", table)?) };
        // First of all: when rows are packed, nothing may fail any more.
        let id = TABLES.insert(Held(RwLock::new(None)))?;
        let held = TABLES.get(id)?;
        let table = Table::build(Rows::Lent(rows), row_bytes, &options);
        let table = table.inspect_err(|_| drop(TABLES.remove(id)))?;
        *held.0.write().unwrap_or_else(PoisonError::into_inner) = Some(table);
        out.set(mgcompTable { id });
        Ok(())
    })
}

/// Reads a table from a file that mgcompSaveTable has written. Every byte is checked. The rows lie in memory of the library.
///
/// @param path the file's name, ended by a zero.
/// @param maxBytes the most memory for rows; a file of a few bytes can ask for 64 times as many.
/// @param threads threads that gather, the caller's counted: 1 to 1024.
/// @param table set to the handle, to be given to mgcompDestroyTable.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompLoadTable(
    path: *const c_char,
    max_bytes: u64,
    threads: u32,
    table: *mut mgcompTable,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a text and a place for a handle, or NULL.
        let (path, out) = unsafe { (self::path("path", path)?, Out::new("table", table)?) };
        let options = LoadOptions { max_bytes, threads: threads as usize, ..LoadOptions::default() };
        let table = Table::load_into(path, &options, |bytes| zeroed(bytes).map(Rows::Own))?;
        out.set(mgcompTable { id: insert(table)? });
        Ok(())
    })
}

/// Writes a table to a file. Whoever loads it meanwhile, or after a crash in the middle, has what was there before.
///
/// @param path the file's name, ended by a zero; its folder must exist.
///
/// Any number of threads may call this at once, and gather meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompSaveTable(table: mgcompTable, path: *const c_char) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a text, or NULL.
        let path = unsafe { self::path("path", path) }?;
        reading(table, |table| Ok(table.save(path)?))
    })
}

/// Gives rows by their indices, decoded, one behind the other.
///
/// @param indices count indices, each less than the number of rows; the same one may be there more than once.
/// @param out room for the rows: exactly outBytes = count * rowBytes bytes. Nothing is written if an index is wrong.
/// @param gathered set to what was read; may be NULL.
///
/// Any number of threads may gather from a table at once. A thread that updates it waits for them, and they for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGatherRows(
    table: mgcompTable,
    indices: *const u64,
    count: usize,
    out: *mut c_void,
    out_bytes: usize,
    gathered: *mut mgcompGathered,
) -> mgcompResult {
    call(|| {
        let (indices, room) = (Span::of("indices", indices, count)?, Span::new("out", out, out_bytes)?);
        // SAFETY: the header asks for a place for what was read, or NULL.
        let info = unsafe { Out::optional("gathered", gathered) }?;
        room.apart_from(&indices)?;
        reading(table, |table| {
            room.apart_from(&slots(table)?)?;
            // SAFETY: the header asks for both; they overlap neither each other nor the table.
            let (indices, room) = unsafe { (indices.values(), room.bytes_mut()) };
            let read = table.gather(indices, room)?;
            if let Some(info) = info {
                let (rows, packed_rows) = (read.rows, read.packed_rows);
                let (stored_bytes, link_bytes) = (read.stored_bytes, read.link_bytes);
                info.set(mgcompGathered { rows, packed_rows, stored_bytes, link_bytes });
            }
            Ok(())
        })
    })
}

/// Gives rows other bytes. Invariant bits stay what they are: where most rows change, a new table packs better.
///
/// @param indices count indices, each less than the number of rows. Of a row that is named twice, the last bytes count.
/// @param rows the new bytes: exactly bytes = count * rowBytes, one row behind the other.
///
/// Any number of threads may call this at once; one after the other has its turn, and waits for those that gather.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompUpdateRows(
    table: mgcompTable,
    indices: *const u64,
    count: usize,
    rows: *const c_void,
    bytes: usize,
) -> mgcompResult {
    call(|| {
        let (indices, rows) = (Span::of("indices", indices, count)?, Span::new("rows", rows, bytes)?);
        let held = TABLES.get(table.id)?;
        let mut held = held.0.write().unwrap_or_else(PoisonError::into_inner);
        let held = held.as_mut().ok_or_else(gone)?;
        let slots = slots(held)?;
        indices.apart_from(&slots)?;
        rows.apart_from(&slots)?;
        // SAFETY: the header asks for both; they do not overlap the table, which is what is written.
        let (indices, rows) = unsafe { (indices.values(), rows.bytes()) };
        Ok(held.update_rows(indices, rows)?)
    })
}

/// What a table holds.
///
/// @param info set to that.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetTableInfo(table: mgcompTable, info: *mut mgcompTableInfo) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for it, or NULL.
        let out = unsafe { Out::new("info", info) }?;
        reading(table, |table| {
            let (rows, row_bytes) = (table.rows(), table.row_len() as u64);
            let (raw_bytes, stored_bytes) = (table.raw_bytes(), table.stored_bytes());
            out.set(mgcompTableInfo { rows, row_bytes, raw_bytes, stored_bytes });
            Ok(())
        })
    })
}

/// Destroys a table, when the calls that use it are over. Memory that was given to mgcompBuildTable is the program's again
/// when this returns, and holds packed rows.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyTable(table: mgcompTable) -> mgcompResult {
    call(|| {
        let held = TABLES.remove(table.id)?;
        let table = held.0.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(table);
        Ok(())
    })
}

fn insert(table: Table<Rows>) -> Result<u64, Failure> {
    TABLES.insert(Held(RwLock::new(Some(table))))
}

/// Does something with a table that does not change it.
fn reading(
    table: mgcompTable,
    work: impl FnOnce(&Table<Rows>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let held = TABLES.get(table.id)?;
    let held = held.0.read().unwrap_or_else(PoisonError::into_inner);
    work(held.as_ref().ok_or_else(gone)?)
}

/// Another thread has destroyed it since the handle was looked up.
fn gone() -> Failure {
    Failure::new(mgcompResult::InvalidHandle, "the table is being destroyed")
}

/// The memory of a table's rows.
fn slots(table: &Table<Rows>) -> Result<Span, Failure> {
    let slots = table.slots();
    Span::new("the table", slots.as_ptr().cast(), slots.len())
}

fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).ok()?;
    memory.resize(bytes, 0);
    Some(memory)
}

/// # Safety
/// If they are not NULL, options must be there.
unsafe fn table_options(options: *const mgcompTableOptions) -> Result<TableOptions, Failure> {
    let usual = TableOptions::default();
    // SAFETY: as for this one; any bits are options.
    let Some(options) = (unsafe { given("options", options) })? else { return Ok(usual) };
    let granule = match options.granule_bytes {
        0 => None,
        4 => Some(Granule::Four),
        8 => Some(Granule::Eight),
        bytes => {
            let text = format!("options.granuleBytes is {bytes}: 4 or 8 are possible, or 0");
            return Err(Failure::argument(text));
        }
    };
    let sample = match options.sample_rows {
        0 => usual.sample,
        rows => Sample::Rows(rows),
    };
    let (clusters, threads) = (options.clusters as usize, options.threads as usize);
    Ok(TableOptions { granule, clusters, sample, threads, ..usual })
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Workers(error) => error.into(),
            TableError::Row { .. } => Self::new(mgcompResult::BadData, error),
            _ => Self::argument(error),
        }
    }
}

impl From<TableFileError> for Failure {
    fn from(error: TableFileError) -> Self {
        let code = match error {
            TableFileError::Workers(error) => return error.into(),
            TableFileError::Read { .. }
            | TableFileError::Write { .. }
            | TableFileError::NotSynced { .. }
            | TableFileError::NotAFile { .. }
            | TableFileError::Io(_) => mgcompResult::System,
            TableFileError::Version { .. } => mgcompResult::Unsupported,
            TableFileError::Memory { .. } | TableFileError::TooLarge { .. } => mgcompResult::NoMemory,
            _ => mgcompResult::BadData,
        };
        Self::new(code, error)
    }
}
