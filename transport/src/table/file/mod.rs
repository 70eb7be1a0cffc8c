//! Tables in files.
//!
//! # Layout
//! Numbers are little-endian, checksums CRC32C. `FORMAT.md` has an example.
//! ```text
//! byte  0 .. 3   4         5 .. 7     8 .. 15     16 .. 23                        24 .. 27               28 .. 31
//!       "MGTB"   version   reserved   rows, u64   stored bytes of all rows, u64   codebook length, u32   checksum of these
//! byte 32 ..
//!       codebook, as in a frame
//!       one bit per row: set = packed; up to a whole byte
//!       with more than one cluster: one byte per row
//!       checksum of these three, u32
//! then for each block of rows
//!       its length in bytes, u32
//!       the stored bytes of its rows, one behind the other
//!       checksum of these two, u32
//! ```
//! A block has as many rows as fit 1 MiB raw, at least one; the last one has the rest.

mod error;
mod header;
mod read;
mod write;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mgcomp_codecs::Cpu;

pub use error::TableFileError;

use super::Table;
use crate::regular;
#[cfg(unix)]
use crate::regular::permissions::Replaced;

/// How a table is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// The most bytes of memory for the rows. A file of a few bytes can ask for 64 times as many, not for more.
    pub max_bytes: u64,
    /// Threads that gather, the caller's included.
    pub threads: usize,
    /// The instruction set to run on.
    pub cpu: Cpu,
}

impl Default for LoadOptions {
    /// As much memory as the file asks for, on the caller's thread.
    fn default() -> Self {
        Self { max_bytes: u64::MAX, threads: 1, cpu: Cpu::active() }
    }
}

impl<M: AsRef<[u8]>> Table<M> {
    /// Writes the table to a file. Whoever loads it meanwhile, or after the process or the machine has died in the middle, has
    /// what was there before. The folder must exist; a draft of a process that died stays in it, as `.mgcomp-table-…`. Where a
    /// link leads to a table, the link stays. On Unix, a file that is replaced passes its group and its permissions on, but for a list
    /// of who may do what (ACL). Where the new one cannot be of its group, or there was a list, no group may do anything with it.
    ///
    /// # Errors
    /// [`TableFileError`] if it cannot be written, or something is there that is no file; what was there before is still there,
    /// unless it says otherwise.
    pub fn save(&self, path: &Path) -> Result<(), TableFileError> {
        let wrong = |source| TableFileError::Write { path: path.to_owned(), source };
        let Some(target) = regular::target(path).map_err(wrong)? else {
            return Err(TableFileError::NotAFile { path: path.to_owned() });
        };
        let folder =
            target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut draft = tempfile::Builder::new();
        draft.prefix(".mgcomp-table-");
        // Whoever may not read the old table is not to read the new one, nor the draft.
        #[cfg(unix)]
        let replaced = Replaced::at(&target).map_err(wrong)?;
        #[cfg(unix)]
        draft.permissions(match &replaced {
            Some(replaced) => replaced.of_draft(),
            None => PermissionsExt::from_mode(0o666), // less the user's mask
        });
        let draft = draft.tempfile_in(folder).map_err(wrong)?;
        #[cfg(unix)]
        if let Some(replaced) = replaced {
            replaced.pass_on(draft.as_file()).map_err(wrong)?;
        }
        self.write_to(BufWriter::new(draft.as_file())).map_err(|error| error.of_file(wrong))?;
        draft.as_file().sync_all().map_err(wrong)?;
        draft.persist(&target).map_err(|error| wrong(error.error))?;
        sync_folder(folder).map_err(|source| TableFileError::NotSynced { path: path.to_owned(), source })
    }

    /// Writes what [`save`](Self::save) puts into a file.
    ///
    /// # Errors
    /// [`TableFileError`] if it cannot be written.
    pub fn write_to(&self, to: impl Write) -> Result<(), TableFileError> {
        write::write(self, to)
    }
}

impl Table {
    /// Reads a table that was [saved](Self::save). Every byte is checked: all of its rows can be gathered then.
    ///
    /// # Errors
    /// [`TableFileError`] if it cannot be read, is no table, of another version or damaged, or needs too much memory.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Self, TableFileError> {
        Self::load_into(path, options, allocate)
    }

    /// As [`load`](Self::load), from `len` bytes that `from` gives.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn read_from(from: impl Read, len: u64, options: &LoadOptions) -> Result<Self, TableFileError> {
        read::read(from, len, options, allocate)
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Table<M> {
    /// As [`Table::load`], with the rows in memory that `allocate` gives when asked for so many bytes.
    ///
    /// # Errors
    /// As [`Table::load`]; [`TableFileError::Memory`] if it gives none, or another number.
    pub fn load_into(
        path: &Path,
        options: &LoadOptions,
        allocate: impl FnOnce(usize) -> Option<M>,
    ) -> Result<Self, TableFileError> {
        let wrong = |source| TableFileError::Read { path: path.to_owned(), source };
        let Some(file) = regular::open(path).map_err(wrong)? else {
            return Err(TableFileError::NotAFile { path: path.to_owned() });
        };
        let len = file.metadata().map_err(wrong)?.len();
        read::read(file, len, options, allocate).map_err(|error| error.of_file(wrong))
    }
}

impl TableFileError {
    /// What failed on the way, as of a file that `wrong` names.
    fn of_file(self, wrong: impl FnOnce(io::Error) -> Self) -> Self {
        match self {
            Self::Io(source) => wrong(source),
            other => other,
        }
    }
}

/// Ordinary memory, if there is any.
fn allocate(bytes: usize) -> Option<Vec<u8>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).ok()?;
    memory.resize(bytes, 0);
    Some(memory)
}

/// Makes a change of names in `folder` last.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn checksum(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}
