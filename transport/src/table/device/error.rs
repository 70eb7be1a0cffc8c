//! What can be wrong with a table that a device gathers from.

use mgcomp_codecs::device::{DeviceError, RowsRefused};

use super::super::{TableError, TableFileError};

/// Why a call of a [`DeviceTable`](super::DeviceTable) or a [`DeviceCache`](super::DeviceCache) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceTableError {
    /// What was asked for, or the table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The file of a table.
    #[error(transparent)]
    File(#[from] TableFileError),
    /// The driver, or the regions of a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device found rows wrong that are right by now: the table's memory was written meanwhile.
    #[error("{0}; it is right by now")]
    Refused(RowsRefused),
    /// An update failed before the device knew of it.
    #[error(
        "an update of the table has not reached the device; update_rows, of no rows too, brings it there"
    )]
    Behind,
}
