//! What can be wrong with a trace.

use std::io;

use super::super::transfer::{GPUS, MAX_PAYLOAD_LEN};

/// Why a file is no trace, or why it is not taken. Records count from 0; offsets are those of the record in the plain file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TraceError {
    #[error("the trace is empty")]
    Empty,
    #[error("with it, there are more than {max} records in all traces together")]
    TooMany { max: u64 },
    #[error("record {record} at byte {offset} cannot be read")]
    Unreadable { record: u64, offset: u64, source: io::Error },
    #[error("record {record} at byte {offset} is cut short: {got} of {needed} bytes")]
    Truncated { record: u64, offset: u64, needed: usize, got: usize },
    #[error("record {record} at byte {offset}: kind is {kind}, but must be 0 (read response) or 1 (write)")]
    Kind { record: u64, offset: u64, kind: u8 },
    #[error("record {record} at byte {offset}: {field} is GPU {gpu}, but GPUs are 1 to {GPUS}")]
    Gpu { record: u64, offset: u64, field: &'static str, gpu: u8 },
    #[error("record {record} at byte {offset}: sender and receiver are both GPU {gpu}")]
    OneGpu { record: u64, offset: u64, gpu: u8 },
    #[error(
        "record {record} at byte {offset}: payload length is {bytes} bytes, but must be 1 to {MAX_PAYLOAD_LEN}"
    )]
    Length { record: u64, offset: u64, bytes: u32 },
    #[error(
        "record {record} at byte {offset}: time is {time} ps, before that of the record before, {before} ps"
    )]
    Time { record: u64, offset: u64, time: u64, before: u64 },
}
