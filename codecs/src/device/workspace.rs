//! Memory that the blocks of a launch share.
#![allow(unsafe_code)] // the caller's promises

use cudarc::driver::sys::{CUcontext, CUstream};

use super::launch::{MAX_JOBS, WORD, WORKSPACE_WORDS};
use super::{Buffer, DeviceError, Region, Stream};
use crate::frame::ChunkSize;

/// The length in bytes of the workspace that calls need whose buffers have these raw lengths, in chunks of
/// `chunk_size`. To estimate or to decompress, an empty list is enough.
///
/// Of two lists, the longer one in the sense of more and longer buffers needs no less.
#[must_use]
pub fn workspace_len(chunk_size: ChunkSize, raw_lens: &[u64]) -> u64 {
    let chunks = |lens: &[u64]| lens.iter().map(|len| chunks_of(chunk_size, *len)).sum::<u64>();
    WORD * (WORKSPACE_WORDS + raw_lens.chunks(MAX_JOBS).map(chunks).max().unwrap_or(0))
}

/// Chunks of a buffer, as the kernels count them: one without bytes counts as one.
pub(super) fn chunks_of(chunk_size: ChunkSize, raw_len: u64) -> u64 {
    raw_len.div_ceil(chunk_size.bytes() as u64).max(1)
}

/// Memory that the blocks of a launch share: zero before, and zero again after.
///
/// Calls on one stream can share a workspace, because they run one after another.
#[derive(Debug)]
pub struct Workspace<'a> {
    region: Region<'a>,
    /// The stream whose calls may use it, in its context, since default streams have one handle in all of them; `None` if the
    /// caller knows.
    stream: Option<(CUcontext, CUstream)>,
    /// Keeps the memory.
    _buffer: Option<Buffer>,
}

// SAFETY: the handles are only compared.
unsafe impl Send for Workspace<'_> {}
// SAFETY: as above.
unsafe impl Sync for Workspace<'_> {}

impl Workspace<'static> {
    /// Makes a workspace of `buffer` for calls on `stream`, and enqueues its zeros there.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn new(stream: &Stream, buffer: Buffer) -> Result<Self, DeviceError> {
        stream.zero(buffer.region())?;
        // SAFETY: the buffer is kept beside the region.
        let region = unsafe { Region::from_raw(buffer.region().address(), buffer.region().len()) };
        Ok(Self { region, stream: Some(handles(stream)), _buffer: Some(buffer) })
    }
}

impl<'a> Workspace<'a> {
    /// The same for calls on any stream.
    ///
    /// # Safety
    /// The calls with it must run one after another, and after its zeros if it was [new](Workspace::new).
    #[must_use]
    pub unsafe fn on_any_stream(self) -> Self {
        Self { stream: None, ..self }
    }

    /// A workspace in memory that somebody else owns, for calls on any stream.
    ///
    /// # Safety
    /// The memory must be zero when the first call with it runs, and nothing but such calls may write to it, one
    /// after another.
    #[must_use]
    pub const unsafe fn from_region(region: Region<'a>) -> Self {
        Self { region, stream: None, _buffer: None }
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.region.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.region.is_empty()
    }

    /// Its address, for a call on `stream` that needs `needed` bytes.
    pub(super) fn address_for(&self, stream: &Stream, needed: u64) -> Result<u64, DeviceError> {
        if self.stream.is_some_and(|own| own != handles(stream)) {
            return Err(DeviceError::OtherStream);
        }
        self.region.check_align("the workspace", WORD)?;
        self.region.check_len("the workspace", needed)?;
        Ok(self.region.address())
    }
}

/// Those of the stream's context and of the stream.
fn handles(stream: &Stream) -> (CUcontext, CUstream) {
    (stream.shared.context.handle, stream.handle)
}
