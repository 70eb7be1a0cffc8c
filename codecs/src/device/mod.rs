//! Codecs on CUDA devices, for buffers in device memory.
//!
//! A call enqueues one launch for every 63 buffers on a CUDA stream and returns: it allocates nothing and waits for nothing, so it can
//! be captured in a graph. Lengths and status words are left in device memory, where the next call finds them.
//! The frames are those of [`frame`](crate::frame), byte for byte, without checksums; for IBP if the codebook is the
//! one that the host has fitted. Without one, IBP stores raw.
//!
//! A [`Reducer`] combines numbers of several ranks, with the bits of [`reduction`](crate::reduction).
//!
//! A [`RowReader`] gathers rows of packed tables: by the indices in device memory, from the host's memory, where the rows
//! stay packed, to the device's.
//!
//! Nothing of CUDA is needed to build this. The driver is looked for when a [`Device`] is opened. Kernels are
//! compiled for the device by NVRTC when a [`Coder`] is made, and kept in a [`Cache`]; where there is no compiler,
//! PTX that ships with this crate does.
//!
//! ```
//! use mgcomp_codecs::device::{Compress, Decompress, Device, DeviceError, Status, workspace_len};
//! use mgcomp_codecs::frame::{ChunkSize, max_frame_len};
//! use mgcomp_codecs::{Algorithm, Element};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = match Device::open(0) {
//!     Err(DeviceError::NoDriver) => return Ok(()), // no GPU here
//!     device => device?,
//! };
//! let stream = device.stream()?;
//! let zvc = device.coder(Algorithm::Zvc, ChunkSize::DEFAULT)?;
//!
//! let raw = vec![0u8; 100_000];
//! let room = zvc.max_frame_len(raw.len() as u64);
//! let (src, coded, back) = (device.alloc(raw.len() as u64)?, device.alloc(room)?, device.alloc(raw.len() as u64)?);
//! let words = device.alloc(3 * 8)?;
//! let mut workspace = device.workspace(&stream, workspace_len(zvc.chunk_size(), &[raw.len() as u64]))?;
//!
//! stream.upload(&raw, src.region())?;
//! // From here on nothing waits until the last line.
//! let (len, status) = (words.region().word(0), words.region().word(8));
//! let (element, codebook) = (Element::F32, None);
//! let compress = Compress { element, src: src.region(), dst: coded.region(), codebook, len, status };
//! zvc.compress(&stream, &mut workspace, &[compress])?;
//! let decompress = Decompress {
//!     src: coded.region(),
//!     src_len: Some(len),
//!     dst: back.region(),
//!     status: words.region().word(16),
//! };
//! zvc.decompress(&stream, &mut workspace, &[decompress])?;
//!
//! assert!(stream.read(len)? < 20_000);
//! Status::from_word(stream.read(status)?).check()?;
//! Status::from_word(stream.read(decompress.status)?).check()?;
//! # Ok(())
//! # }
//! ```

mod buddy;
mod cache;
mod codebook;
mod coder;
mod context;
mod driver;
mod error;
mod event;
mod folder;
mod graph;
mod guest;
mod holder;
mod image;
mod ipc;
mod kernels;
mod launch;
mod memory;
mod module;
mod nvrtc;
mod peer;
mod pinned;
mod pinned_bytes;
mod probe;
mod reducer;
mod rows;
#[cfg(target_os = "linux")]
mod shareable;
mod signal;
mod status;
mod stream;
mod workspace;

pub use buddy::{
    BuddyEntries, EntriesRefused, EntryCounts, EntryForm, EntryMover, EntryReport, MoveEntries, SlotShare,
};
pub use cache::Cache;
pub use codebook::DeviceCodebook;
pub use coder::{Coder, Compress, Decompress, Estimate};
pub use error::{Capability, CompilerProblem, DeviceError};
pub use event::Event;
pub use graph::Graph;
pub use holder::{Holder, are_others_loaded, holder};
pub use image::ImageError;
pub use ipc::{EventHandle, HANDLE_LEN, Imported, MemoryHandle};
pub use kernels::{KernelSource, MIN_CAPABILITY, Target, UnknownTarget, algorithms, sources};
pub use memory::{Buffer, Region, Word};
pub use module::Origin;
pub use nvrtc::{Compiled, Compiler};
pub use pinned::Pinned;
pub use pinned_bytes::PinnedBytes;
pub use probe::{DeviceInfo, devices};
pub use reducer::{Reducer, Reduction};
pub use rows::{GatherRows, PackedRows, RowCache, RowReader, RowReport, RowsRefused};
#[cfg(target_os = "linux")]
pub use shareable::Shareable;
pub use status::{Refused, Status};
pub use stream::{Stream, StreamIdentity};
pub use workspace::{Workspace, workspace_len};

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use context::Context;
use cudarc::driver::sys::CUdevice;
use driver::Driver;
use module::Module;

use crate::Algorithm;
use crate::frame::ChunkSize;

/// The environment variable that names the folder of NVRTC's libraries, by an absolute path.
pub const COMPILER_VARIABLE: &str = "MGCOMP_NVRTC";

/// A device in use. Clones are the same device.
#[derive(Clone, Debug)]
pub struct Device {
    shared: Arc<Shared>,
}

/// What everything on a device holds on to.
#[derive(Debug)]
struct Shared {
    context: Context,
    info: DeviceInfo,
    cache: Cache,
    /// Loaded kernels. None is unloaded before the last hold on the device is gone: a graph, say, may still
    /// launch it.
    modules: Mutex<HashMap<&'static str, Module>>,
}

impl Device {
    /// The device with number `ordinal`, with the default cache of kernels.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(ordinal: u32) -> Result<Self, DeviceError> {
        Self::open_with(ordinal, Cache::Default)
    }

    /// The device with number `ordinal`, with compiled kernels in `cache`.
    ///
    /// It uses the device's primary context, as the CUDA runtime does, and leaves each thread's current context
    /// as it is.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`], [`DeviceError::NoDevice`], [`DeviceError::TooOld`], and whatever the driver
    /// says.
    pub fn open_with(ordinal: u32, cache: Cache) -> Result<Self, DeviceError> {
        Self::open_in(ordinal, cache, Context::retain)
    }

    /// As [`open_with`](Self::open_with), in a context of its own: to the CUDA driver it is as another device, whose
    /// memory is not that of the primary context. Programs need no such thing; it lets one GPU stand for several.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open_apart(ordinal: u32, cache: Cache) -> Result<Self, DeviceError> {
        Self::open_in(ordinal, cache, Context::create)
    }

    fn open_in(
        ordinal: u32,
        cache: Cache,
        context: impl FnOnce(&'static Driver, CUdevice) -> Result<Context, DeviceError>,
    ) -> Result<Self, DeviceError> {
        let driver = Driver::instance()?;
        let (handle, info) = probe::find(driver, ordinal)?;
        if info.capability < MIN_CAPABILITY {
            return Err(DeviceError::TooOld { found: info.capability, needed: MIN_CAPABILITY });
        }
        let context = context(driver, handle)?;
        let modules = Mutex::default();
        Ok(Self { shared: Arc::new(Shared { context, info, cache, modules }) })
    }

    /// What there is to know of it.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    /// `len` bytes of its memory.
    ///
    /// # Errors
    /// Whatever the driver says; see [`DeviceError::is_out_of_memory`].
    pub fn alloc(&self, len: u64) -> Result<Buffer, DeviceError> {
        Buffer::allocate(&self.shared, len)
    }

    /// A new stream.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn stream(&self) -> Result<Stream, DeviceError> {
        Stream::create(&self.shared)
    }

    /// A stream that somebody else owns. Null is the legacy default stream, as `CU_STREAM_LEGACY` is, whatever a program was
    /// compiled to take it for.
    ///
    /// `CU_STREAM_PER_THREAD` is another stream on each thread: that of whichever makes a call. So what is made of it, and
    /// workspaces for it, are for one thread; and whatever hands work to other threads orders it by events of that one, or does
    /// not take such a [stream](Stream::is_per_thread).
    ///
    /// # Safety
    /// `stream` must be a `CUstream` of the device's primary context, or null, for as long as the result is used.
    #[must_use]
    #[allow(unsafe_code)] // the caller promises
    pub unsafe fn adopt_stream(&self, stream: *mut c_void) -> Stream {
        Stream::adopt(&self.shared, stream)
    }

    /// Whether a stream that somebody else owns is of this device's context. Null is of any.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Safety
    /// `stream` must be a `CUstream`, or null.
    #[allow(unsafe_code)] // the caller promises
    pub unsafe fn has_stream(&self, stream: *mut c_void) -> Result<bool, DeviceError> {
        // SAFETY: as for this one.
        unsafe { Stream::is_in(stream, &self.shared.context) }
    }

    /// A workspace of `len` bytes for calls on `stream`; see [`workspace_len`].
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn workspace(&self, stream: &Stream, len: u64) -> Result<Workspace<'static>, DeviceError> {
        Workspace::new(stream, self.alloc(len)?)
    }

    /// The codec of `algorithm`, to write frames with chunks of `chunk_size` and to read frames with chunks of
    /// up to that.
    ///
    /// The first time this loads the kernels, which may mean to compile them: seconds, not microseconds. It
    /// must not be done while a stream of this thread records.
    ///
    /// # Errors
    /// [`DeviceError::NoKernels`], [`DeviceError::NotLoaded`], [`DeviceError::TooShort`] if a block of this
    /// device has too little shared memory for such chunks, and whatever the driver says.
    pub fn coder(&self, algorithm: Algorithm, chunk_size: ChunkSize) -> Result<Coder, DeviceError> {
        let source = KernelSource::of(algorithm).ok_or(DeviceError::NoKernels(algorithm))?;
        self.shared.with_module(source, |module| Coder::new(&self.shared, module, algorithm, chunk_size))
    }
}

impl Shared {
    /// Uses the kernels of `source`, which are loaded if they are not yet.
    fn with_module<T>(
        &self,
        source: &'static KernelSource,
        usage: impl FnOnce(&Module) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        match modules.entry(source.name) {
            Entry::Occupied(entry) => usage(entry.get()),
            Entry::Vacant(entry) => {
                let capability = self.info.capability;
                usage(entry.insert(Module::load(&self.context, capability, &self.cache, source)?))
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let modules = self.modules.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _relaxed = guest::relax(self.context.driver);
        self.context.release(|driver| modules.drain().for_each(|(_, module)| module.unload(driver)));
    }
}
