//! Kernels that are loaded into a context.
#![allow(unsafe_code)] // calls into the driver

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUmodule, CUstream};
use tracing::warn;

use super::cache::Entry;
use super::context::{Context, Entered};
use super::driver::{Driver, call};
use super::image::Image;
use super::kernels::{KernelSource, Target};
use super::launch::{BLOCK_THREADS, Direction};
use super::nvrtc::Compiler;
use super::{Cache, Capability, DeviceError, DeviceInfo};

/// Where kernels come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled by this process.
    Compiled,
    /// Compiled earlier, and read from the cache.
    Cached,
    /// The PTX that ships with this crate, compiled by the driver.
    Shipped,
}

/// The kernels of one source, loaded. They live as long as the device's context is held.
#[derive(Debug)]
pub(super) struct Module {
    handle: CUmodule,
    pub(super) origin: Origin,
    /// By the ends of their names.
    kernels: Vec<(&'static str, Kernel)>,
    source: &'static KernelSource,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    handle: CUfunction,
    /// Shared memory that it takes whatever the launch asks for.
    static_shared: u32,
}

// SAFETY: the driver's handles may be used by any thread; the driver locks what it has to.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the kernels of `source`: from the cache, else compiled, else those that ship.
    pub(super) fn load(
        context: &Context,
        capability: Capability,
        cache: &Cache,
        source: &'static KernelSource,
    ) -> Result<Self, DeviceError> {
        let entered = context.enter()?;
        let target = Target::cubin(capability);
        let entry = Entry::of(cache, source, target).unwrap_or_else(|error| {
            warn!(%error, "kernels are compiled without a cache");
            None
        });
        if let Some(entry) = &entry {
            match Self::from_cache(&entered, source, entry) {
                Ok(None) => {}
                Ok(Some(module)) => return Ok(module),
                // Of a newer compiler than the driver, or not what its name says.
                Err(error) if is_about_image(&error) => {
                    warn!(%error, "a kernel in the cache is thrown away");
                    entry.remove();
                }
                Err(error) => return Err(error),
            }
        }
        let compiled = match Self::compile(&entered, source, target, entry.as_ref()) {
            Err(error) if is_about_image(&error) => Box::new(error),
            module => return module,
        };
        match Self::from_ptx(&entered, source) {
            Err(error) if is_about_image(&error) => {
                let shipped = Box::new(error);
                Err(DeviceError::NotLoaded { kernels: source.name, compiled, shipped })
            }
            module => module,
        }
    }

    /// The module in the cache, if there is one.
    fn from_cache(
        entered: &Entered<'_>,
        source: &'static KernelSource,
        entry: &Entry,
    ) -> Result<Option<Self>, DeviceError> {
        let image = entry.read().unwrap_or_else(|error| {
            warn!(%error, "a kernel in the cache is not used");
            None
        });
        let Some(image) = image else { return Ok(None) };
        Self::from_image(entered, source, &image_of(image)?, Origin::Cached).map(Some)
    }

    fn compile(
        entered: &Entered<'_>,
        source: &'static KernelSource,
        target: Target,
        entry: Option<&Entry>,
    ) -> Result<Self, DeviceError> {
        let image = Compiler::instance()?.compile(source, target)?.image;
        let module = Self::from_image(entered, source, &image_of(image.clone())?, Origin::Compiled)?;
        // Without a cache the next process compiles again, which is slower and not wrong.
        if let Some(Err(error)) = entry.map(|entry| entry.write(&image)) {
            warn!(%error, "a compiled kernel cannot be kept");
        }
        Ok(module)
    }

    fn from_ptx(entered: &Entered<'_>, source: &'static KernelSource) -> Result<Self, DeviceError> {
        let image = image_of(source.shipped_ptx()?.into_bytes())?;
        Self::from_image(entered, source, &image, Origin::Shipped)
    }

    /// Loads machine code or PTX.
    fn from_image(
        entered: &Entered<'_>,
        source: &'static KernelSource,
        image: &Image,
        origin: Origin,
    ) -> Result<Self, DeviceError> {
        let mut handle = ptr::null_mut();
        // SAFETY: an image says where it ends, and the driver copies it.
        unsafe { call!(entered.driver, cuModuleLoadData(&raw mut handle, image.as_ptr().cast()))? };
        let found = Self::find(entered, source, handle, origin);
        if found.is_err() {
            // SAFETY: it was just loaded, and nothing of it runs.
            let _ = unsafe { (entered.driver.cuModuleUnload)(handle) };
        }
        found
    }

    /// Looks up the kernels of a module that is loaded.
    fn find(
        entered: &Entered<'_>,
        source: &'static KernelSource,
        handle: CUmodule,
        origin: Origin,
    ) -> Result<Self, DeviceError> {
        let find = |name| {
            let kernel = Kernel::find(entered, handle, &format!("{}_{name}", source.name))?;
            Ok((name, kernel))
        };
        let kernels = source.kernels().into_iter().map(find).collect::<Result<_, DeviceError>>()?;
        Ok(Self { handle, origin, kernels, source })
    }

    /// The kernel for `direction`, ready to work on chunks of up to 2^`chunk_log2` bytes; `limit` is the shared
    /// memory that a block may have.
    pub(super) fn prepare(
        &self,
        entered: &Entered<'_>,
        direction: Direction,
        chunk_log2: u32,
        limit: u32,
    ) -> Result<Prepared, DeviceError> {
        let shared_len = self.source.shared_len(direction, chunk_log2);
        self.prepare_named(entered, direction.name(), shared_len, limit)
    }

    /// The kernel whose name ends in `name`, ready for launches with `shared_len` bytes of shared memory.
    ///
    /// # Panics
    /// If the source has no such kernel.
    pub(super) fn prepare_named(
        &self,
        entered: &Entered<'_>,
        name: &str,
        shared_len: u32,
        limit: u32,
    ) -> Result<Prepared, DeviceError> {
        let found = self.kernels.iter().find(|kernel| kernel.0 == name);
        let (_, kernel) = found.unwrap_or_else(|| panic!("no {}_{name}", self.source.name));
        kernel.prepare(entered, shared_len, limit)
    }

    /// Unloads it.
    pub(super) fn unload(self, driver: &Driver) {
        // SAFETY: `from_image` has loaded it, and whoever could launch it held the device that gives it up.
        unsafe { (driver.cuModuleUnload)(self.handle) };
    }
}

impl Kernel {
    /// Ready for launches with `shared_len` bytes of shared memory; a block may have `limit`.
    fn prepare(self, entered: &Entered<'_>, shared_len: u32, limit: u32) -> Result<Prepared, DeviceError> {
        let kernel = self;
        let needed = u64::from(shared_len) + u64::from(kernel.static_shared);
        if needed > limit.into() {
            let what = "the shared memory of a block";
            return Err(DeviceError::TooShort { what, needed, got: limit.into() });
        }
        // All that it may have, so that preparing it for small chunks takes nothing from large ones.
        let most = (limit - kernel.static_shared) as i32;
        let mut blocks_per_sm = 0;
        // SAFETY: the kernel is loaded, and `blocks_per_sm` is a live variable.
        unsafe {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            call!(entered.driver, cuFuncSetAttribute(kernel.handle, attribute, most))?;
            call!(
                entered.driver,
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &raw mut blocks_per_sm,
                    kernel.handle,
                    BLOCK_THREADS as i32,
                    shared_len as usize,
                )
            )?;
        }
        Ok(Prepared { handle: kernel.handle, shared_len, blocks_per_sm: blocks_per_sm.max(1) as u32 })
    }

    fn find(entered: &Entered<'_>, module: CUmodule, name: &str) -> Result<Self, DeviceError> {
        let name = CString::new(name).unwrap_or_default();
        let mut handle = ptr::null_mut();
        let mut static_shared = 0;
        // SAFETY: `handle` and `static_shared` are live variables, and the name is a string.
        unsafe {
            call!(entered.driver, cuModuleGetFunction(&raw mut handle, module, name.as_ptr()))?;
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
            call!(entered.driver, cuFuncGetAttribute(&raw mut static_shared, attribute, handle))?;
        }
        Ok(Self { handle, static_shared: static_shared.max(0) as u32 })
    }
}

/// A kernel, and how to launch it for one chunk size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    handle: CUfunction,
    shared_len: u32,
    /// Blocks that run at the same time on one multiprocessor.
    blocks_per_sm: u32,
}

/// How many multiprocessors launches are to be for at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmLimit(u32);

impl SmLimit {
    /// All that there are.
    pub(super) const NONE: Self = Self(u32::MAX);

    /// So many, at least 1.
    pub(super) fn of(count: u32) -> Self {
        Self(count.max(1))
    }
}

// SAFETY: the driver's handles may be used by any thread; the driver locks what it has to.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

impl Prepared {
    /// How many blocks a launch has that `wanted` would have work: at least one, and no more than run at a time on the
    /// multiprocessors that it may be for.
    pub(super) fn blocks(&self, wanted: u64, limit: SmLimit, info: &DeviceInfo) -> u32 {
        let most = u64::from(limit.0.min(info.sm_count)) * u64::from(self.blocks_per_sm);
        u32::try_from(wanted.clamp(1, most.max(1))).unwrap_or(u32::MAX)
    }

    /// Enqueues a launch of `blocks` blocks.
    ///
    /// # Safety
    /// `P` must be the struct that the kernel takes. What it points to must be there, as `frame/batch.cuh`,
    /// `ibp/table.cuh`, `buddy/allocation.cuh` and `reduce/task.cuh` say, and its workspace must be zero and of nobody
    /// else's use until the launch has ended. The kernel must still be loaded.
    pub(super) unsafe fn launch<P>(
        &self,
        entered: &Entered<'_>,
        stream: CUstream,
        blocks: u32,
        parameters: &P,
    ) -> Result<(), DeviceError> {
        let parameters: *const P = parameters;
        let mut parameters: [*mut c_void; 1] = [parameters.cast_mut().cast()];
        // SAFETY: every kernel of this crate has one parameter, a struct by value, which the driver copies. The
        // rest is the caller's promise.
        unsafe {
            call!(
                entered.driver,
                cuLaunchKernel(
                    self.handle,
                    blocks,
                    1,
                    1,
                    BLOCK_THREADS,
                    1,
                    1,
                    self.shared_len,
                    stream,
                    parameters.as_mut_ptr(),
                    ptr::null_mut(),
                )
            )
        }
    }
}

fn image_of(bytes: Vec<u8>) -> Result<Image, DeviceError> {
    Image::of(bytes).map_err(DeviceError::Image)
}

/// Whether another image may fare better: the compiler is missing or does not know the device, the driver does not
/// take what it made, or a kernel is not in it.
fn is_about_image(error: &DeviceError) -> bool {
    match error {
        DeviceError::NoCompiler
        | DeviceError::NotShipped
        | DeviceError::MissingSymbol { .. }
        | DeviceError::Image(_)
        | DeviceError::Compiler { .. } => true,
        DeviceError::Driver { call, code, .. } => matches!(
            (*call, *code),
            ("cuModuleLoadData", 200 | 209 | 218 | 221..=223 | 300) | ("cuModuleGetFunction", 500)
        ),
        _ => false,
    }
}
