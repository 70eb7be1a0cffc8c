//! Another library that uses CUDA in the process of a test, as PyTorch does: memory and streams that mgcomp has not made.
#![allow(unsafe_code)] // calls into the driver

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use libloading::Library;
use mgcomp_codecs::device::{Device, Region, Stream};

/// What may be on both sides of a tensor in its block.
const BETWEEN: u8 = 9;

/// The library, as far as it uses one device: by calls of its own, in the device's primary context.
#[derive(Debug)]
pub struct Foreign {
    driver: Library,
    device: i32,
    context: *mut c_void,
}

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// A stream of the library, destroyed when dropped if it was made.
#[derive(Debug)]
pub struct ForeignStream<'a> {
    owner: &'a Foreign,
    handle: *mut c_void,
}

/// Memory that the library has allocated as one block, to hand out parts of it, as a caching allocator does.
#[derive(Debug)]
pub struct Block<'a> {
    owner: &'a Foreign,
    address: u64,
    len: u64,
}

/// A part of a block.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    block: &'a Block<'a>,
    offset: u64,
    len: u64,
}

impl Foreign {
    /// Opens the device as mgcomp has it.
    ///
    /// # Panics
    /// If the stub of the driver is not there.
    #[must_use]
    pub fn on(device: &Device) -> Self {
        // SAFETY: the stub's initialisers do nothing.
        let driver = unsafe { Library::new("libcuda.so.1") }.expect("the stub of the driver");
        let device = device.info().ordinal as i32;
        let mut library = Self { driver, device, context: ptr::null_mut() };
        let mut context = ptr::null_mut::<c_void>();
        type Retain = unsafe extern "C" fn(*mut *mut c_void, i32) -> i32;
        // SAFETY: `context` is a live variable.
        good(unsafe { library.function::<Retain>("cuDevicePrimaryCtxRetain")(&raw mut context, device) });
        library.context = context;
        library
    }

    /// A function of the driver. Each caller names the type that cuda.h gives it.
    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: as said; the driver is never unloaded.
        *unsafe { self.driver.get(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Calls the driver with the device as the thread's own.
    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut popped = ptr::null_mut();
        type Push = unsafe extern "C" fn(*mut c_void) -> i32;
        type Pop = unsafe extern "C" fn(*mut *mut c_void) -> i32;
        // SAFETY: the context is held.
        good(unsafe { self.function::<Push>("cuCtxPushCurrent_v2")(self.context) });
        let result = work();
        // SAFETY: `popped` is a live variable.
        good(unsafe { self.function::<Pop>("cuCtxPopCurrent_v2")(&raw mut popped) });
        assert_eq!(popped, self.context, "somebody has left a context behind");
        result
    }

    /// A stream of its own, which knows nothing of the default one.
    ///
    /// # Panics
    /// If the driver does not make it.
    #[must_use]
    pub fn stream(&self) -> ForeignStream<'_> {
        const NON_BLOCKING: u32 = 1;
        self.stream_with(NON_BLOCKING)
    }

    /// A stream of its own that the default one waits for, and that waits for that.
    ///
    /// # Panics
    /// If the driver does not make it.
    #[must_use]
    pub fn blocking_stream(&self) -> ForeignStream<'_> {
        self.stream_with(0)
    }

    fn stream_with(&self, flags: u32) -> ForeignStream<'_> {
        type Create = unsafe extern "C" fn(*mut *mut c_void, u32) -> i32;
        let mut handle = ptr::null_mut::<c_void>();
        // SAFETY: `handle` is a live variable.
        self.within(|| unsafe {
            good(self.function::<Create>("cuStreamCreate")(&raw mut handle, flags));
        });
        ForeignStream { owner: self, handle }
    }

    /// The legacy default stream, on which PyTorch works if nobody says otherwise.
    #[must_use]
    pub const fn default_stream(&self) -> ForeignStream<'_> {
        ForeignStream { owner: self, handle: ptr::null_mut() }
    }

    /// The default stream of the calling thread, on which programs work that are compiled so.
    #[must_use]
    pub const fn stream_of_thread(&self) -> ForeignStream<'_> {
        ForeignStream { owner: self, handle: ptr::without_provenance_mut(PER_THREAD) }
    }

    /// A block of `len` bytes.
    ///
    /// # Panics
    /// If the driver does not give it.
    #[must_use]
    pub fn block(&self, len: u64) -> Block<'_> {
        type Alloc = unsafe extern "C" fn(*mut u64, usize) -> i32;
        let mut address = 0;
        // SAFETY: `address` is a live variable.
        self.within(|| unsafe {
            good(self.function::<Alloc>("cuMemAlloc_v2")(&raw mut address, len as usize));
        });
        Block { owner: self, address, len }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        type Release = unsafe extern "C" fn(i32) -> i32;
        // SAFETY: `on` has taken the hold.
        good(unsafe { self.function::<Release>("cuDevicePrimaryCtxRelease_v2")(self.device) });
    }
}

impl ForeignStream<'_> {
    /// The stream as mgcomp takes it.
    ///
    /// # Safety
    /// It must not be used for longer than this one is there, and `device` must be the library's.
    #[must_use]
    pub unsafe fn lend(&self, device: &Device) -> Stream {
        // SAFETY: the caller's promise.
        unsafe { device.adopt_stream(self.handle) }
    }

    /// Records while `work` runs, in the mode that forbids most to all threads. Whether nobody has spoiled that.
    ///
    /// # Panics
    /// If the driver does not record.
    pub fn records(&self, work: impl FnOnce()) -> bool {
        const GLOBAL: u32 = 0;
        type Begin = unsafe extern "C" fn(*mut c_void, u32) -> i32;
        type End = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32;
        type Destroy = unsafe extern "C" fn(*mut c_void) -> i32;
        // SAFETY: the stream is there.
        self.owner.within(|| unsafe {
            good(self.owner.function::<Begin>("cuStreamBeginCapture_v2")(self.handle, GLOBAL));
        });
        work();
        let mut graph = ptr::null_mut::<c_void>();
        // SAFETY: `graph` is a live variable; what was recorded is of no use.
        self.owner.within(|| unsafe {
            let is_good = self.owner.function::<End>("cuStreamEndCapture")(self.handle, &raw mut graph) == 0;
            if !graph.is_null() {
                good(self.owner.function::<Destroy>("cuGraphDestroy")(graph));
            }
            is_good
        })
    }

    /// Enqueues a copy.
    ///
    /// # Panics
    /// If the driver refuses it.
    pub fn copy(&self, from: Tensor<'_>, to: Tensor<'_>) {
        type Copy = unsafe extern "C" fn(u64, u64, usize, *mut c_void) -> i32;
        assert_eq!(from.len, to.len);
        let len = from.len as usize;
        // SAFETY: both tensors have so many bytes.
        self.owner.within(|| unsafe {
            let copy = self.owner.function::<Copy>("cuMemcpyAsync");
            good(copy(to.address(), from.address(), len, self.handle));
        });
    }

    /// Enqueues that all of a block is `byte`.
    ///
    /// # Panics
    /// If the driver refuses it.
    pub fn fill(&self, block: &Block<'_>, byte: u8) {
        type Fill = unsafe extern "C" fn(u64, u8, usize, *mut c_void) -> i32;
        // SAFETY: the block has so many bytes.
        self.owner.within(|| unsafe {
            let fill = self.owner.function::<Fill>("cuMemsetD8Async");
            good(fill(block.address, byte, block.len as usize, self.handle));
        });
    }

    /// Enqueues that a tensor holds `bytes`, and whatever else is in its block `BETWEEN`.
    ///
    /// # Panics
    /// If the driver refuses it.
    pub fn write(&self, bytes: &[u8], to: Tensor<'_>) {
        type Upload = unsafe extern "C" fn(u64, *const c_void, usize, *mut c_void) -> i32;
        assert_eq!(bytes.len() as u64, to.len);
        self.fill(to.block, BETWEEN);
        // SAFETY: the tensor has so many bytes; those of the host are taken at once, as they are pageable.
        self.owner.within(|| unsafe {
            let upload = self.owner.function::<Upload>("cuMemcpyHtoDAsync_v2");
            good(upload(to.address(), bytes.as_ptr().cast(), bytes.len(), self.handle));
        });
    }

    /// What a tensor holds when all that is enqueued has ended. Nothing but `BETWEEN` may be in its block besides.
    ///
    /// # Panics
    /// If the driver refuses it, or something else is there.
    #[must_use]
    pub fn read(&self, tensor: Tensor<'_>) -> Vec<u8> {
        type Download = unsafe extern "C" fn(*mut c_void, u64, usize, *mut c_void) -> i32;
        let Block { address, len, .. } = *tensor.block;
        let mut block = vec![0u8; len as usize];
        // SAFETY: the block has so many bytes; the call returns when they are here, as that memory is pageable.
        self.owner.within(|| unsafe {
            let download = self.owner.function::<Download>("cuMemcpyDtoHAsync_v2");
            good(download(block.as_mut_ptr().cast(), address, block.len(), self.handle));
        });
        let (start, end) = (tensor.offset as usize, (tensor.offset + tensor.len) as usize);
        let is_kept = block[..start].iter().chain(&block[end..]).all(|&byte| byte == BETWEEN);
        assert!(is_kept, "something else in the block of {tensor:?} was written");
        block[start..end].to_vec()
    }
}

impl Drop for ForeignStream<'_> {
    fn drop(&mut self) {
        type Destroy = unsafe extern "C" fn(*mut c_void) -> i32;
        if !self.handle.is_null() && self.handle.addr() != PER_THREAD {
            // SAFETY: `stream_with` has made it.
            good(unsafe { self.owner.function::<Destroy>("cuStreamDestroy_v2")(self.handle) });
        }
    }
}

impl Block<'_> {
    /// Its length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "no block is empty")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside the block.
    #[must_use]
    pub fn tensor(&self, range: Range<u64>) -> Tensor<'_> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        Tensor { block: self, offset: range.start, len: range.end - range.start }
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        type Free = unsafe extern "C" fn(u64) -> i32;
        // SAFETY: `block` has allocated it. The stub ends the process if somebody else has freed it, or still uses it.
        good(unsafe { self.owner.function::<Free>("cuMemFree_v2")(self.address) });
    }
}

impl<'a> Tensor<'a> {
    /// Its length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub const fn len(self) -> u64 {
        self.len
    }

    const fn address(self) -> u64 {
        self.block.address + self.offset
    }

    /// The tensor as mgcomp takes it.
    ///
    /// # Safety
    /// What is enqueued on it must have ended when the block is dropped.
    #[must_use]
    pub const unsafe fn lend(self) -> Region<'a> {
        // SAFETY: the block is borrowed; else the caller's promise.
        unsafe { Region::from_raw(self.address(), self.len) }
    }
}

#[track_caller]
fn good(result: i32) {
    assert_eq!(result, 0, "an error of the driver");
}
