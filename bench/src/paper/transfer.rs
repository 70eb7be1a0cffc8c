//! A payload that crosses from one GPU to another.

use mgcomp_codecs::line::LINE_LEN;

/// GPUs of the modelled system.
pub(super) const GPUS: usize = 4;
/// The longest payload: with its header it fits into a buffer of 4 KB, and it has whole lines.
pub(super) const MAX_PAYLOAD_LEN: usize = 63 * LINE_LEN;

/// Which message carries the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data-Ready, the answer to a Read request.
    Read,
    /// Write request, to be acknowledged.
    Write,
}

/// A payload and where it goes. GPUs count from 0 here, and from 1 in traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer<'a> {
    pub(super) kind: Kind,
    /// The GPU that sends the payload.
    pub(super) from: u8,
    /// The GPU that receives it.
    pub(super) to: u8,
    /// 1 to [`MAX_PAYLOAD_LEN`] bytes.
    pub(super) payload: &'a [u8],
}
