//! The functions of the CUDA driver that this crate calls.
//!
//! `cudarc` finds the library and names its types. Its functions are not called, because they panic where
//! one is missing and take a result that they do not know for one that they do: here a missing function is an
//! error, and a result is a number.
#![allow(unsafe_code, non_snake_case)] // calls into the driver; fields are called like its functions

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;
use sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule, CUstream};

use super::DeviceError;

/// The `CUresult` of a query whose answer is "not yet".
pub(super) const NOT_READY: u32 = 600;

macro_rules! functions {
    (
        $(fn $symbol:ident($($argument:ty),*);)*
        $(later fn $later:ident($($of_later:ty),*);)*
    ) => {
        /// The driver, loaded.
        #[derive(Debug)]
        pub(super) struct Driver {
            $(pub(super) $symbol: unsafe extern "C" fn($($argument),*) -> u32,)*
            $($later: Option<unsafe extern "C" fn($($of_later),*) -> u32>,)*
        }

        impl Driver {
            $(
                /// The function, if the driver is new enough to have it.
                pub(super) fn $later(&self) -> Result<unsafe extern "C" fn($($of_later),*) -> u32, DeviceError> {
                    self.$later.ok_or(missing(stringify!($later)))
                }
            )*
        }

        impl Driver {
            fn load() -> Result<Self, DeviceError> {
                // SAFETY: loading the driver runs its own initialisers, nothing else.
                if !unsafe { sys::is_culib_present() } {
                    return Err(DeviceError::NoDriver);
                }
                // SAFETY: as above; the library was just found.
                let library = unsafe { sys::culib() };
                Ok(Self {
                    $($symbol: {
                        // SAFETY: the signature is that of cuda.h. The library is never unloaded.
                        let found = unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) };
                        *found.map_err(|_| missing(stringify!($symbol)))?
                    },)*
                    $($later: {
                        // SAFETY: as above.
                        let found = unsafe { library.get(concat!(stringify!($later), "\0").as_bytes()) };
                        found.ok().map(|found| *found)
                    },)*
                })
            }
        }
    };
}

fn missing(symbol: &'static str) -> DeviceError {
    DeviceError::MissingSymbol { library: "the CUDA driver", symbol }
}

// Drivers of CUDA 11.0 have all but those of later ones, which only what needs them asks for.
functions! {
    fn cuInit(u32);
    fn cuGetErrorName(u32, *mut *const c_char);
    fn cuDriverGetVersion(*mut i32);
    fn cuDeviceGetCount(*mut i32);
    fn cuDeviceGet(*mut CUdevice, i32);
    fn cuDeviceGetName(*mut c_char, i32, CUdevice);
    fn cuDeviceTotalMem_v2(*mut usize, CUdevice);
    fn cuDeviceGetAttribute(*mut i32, sys::CUdevice_attribute, CUdevice);
    fn cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(CUdevice);
    fn cuDeviceCanAccessPeer(*mut i32, CUdevice, CUdevice);
    fn cuCtxCreate_v2(*mut CUcontext, u32, CUdevice);
    fn cuCtxDestroy_v2(CUcontext);
    fn cuCtxEnablePeerAccess(CUcontext, u32);
    fn cuCtxPushCurrent_v2(CUcontext);
    fn cuCtxPopCurrent_v2(*mut CUcontext);
    fn cuCtxSynchronize();
    fn cuModuleLoadData(*mut CUmodule, *const c_void);
    fn cuModuleUnload(CUmodule);
    fn cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    fn cuFuncGetAttribute(*mut i32, sys::CUfunction_attribute, CUfunction);
    fn cuFuncSetAttribute(CUfunction, sys::CUfunction_attribute, i32);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut i32, CUfunction, i32, usize);
    fn cuMemAlloc_v2(*mut CUdeviceptr, usize);
    fn cuMemFree_v2(CUdeviceptr);
    fn cuMemHostAlloc(*mut *mut c_void, usize, u32);
    fn cuMemFreeHost(*mut c_void);
    fn cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    fn cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    fn cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    fn cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
    fn cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    fn cuMemGetAddressRange_v2(*mut CUdeviceptr, *mut usize, CUdeviceptr);
    fn cuMemGetAllocationGranularity(*mut usize, *const sys::CUmemAllocationProp, sys::CUmemAllocationGranularity_flags);
    fn cuMemCreate(*mut u64, usize, *const sys::CUmemAllocationProp, u64);
    fn cuMemRelease(u64);
    fn cuMemExportToShareableHandle(*mut c_void, u64, sys::CUmemAllocationHandleType, u64);
    fn cuMemImportFromShareableHandle(*mut u64, *mut c_void, sys::CUmemAllocationHandleType);
    fn cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, u64);
    fn cuMemAddressFree(CUdeviceptr, usize);
    fn cuMemMap(CUdeviceptr, usize, usize, u64, u64);
    fn cuMemUnmap(CUdeviceptr, usize);
    fn cuMemSetAccess(CUdeviceptr, usize, *const sys::CUmemAccessDesc, usize);
    fn cuIpcGetMemHandle(*mut sys::CUipcMemHandle, CUdeviceptr);
    fn cuIpcOpenMemHandle_v2(*mut CUdeviceptr, sys::CUipcMemHandle, u32);
    fn cuIpcCloseMemHandle(CUdeviceptr);
    fn cuIpcGetEventHandle(*mut sys::CUipcEventHandle, CUevent);
    fn cuIpcOpenEventHandle(*mut CUevent, sys::CUipcEventHandle);
    fn cuStreamCreate(*mut CUstream, u32);
    fn cuStreamDestroy_v2(CUstream);
    fn cuStreamSynchronize(CUstream);
    fn cuStreamQuery(CUstream);
    fn cuStreamGetCtx(CUstream, *mut CUcontext);
    fn cuStreamWaitEvent(CUstream, CUevent, u32);
    fn cuStreamBeginCapture_v2(CUstream, sys::CUstreamCaptureMode);
    fn cuStreamEndCapture(CUstream, *mut CUgraph);
    fn cuStreamGetCaptureInfo(CUstream, *mut u32, *mut u64);
    fn cuThreadExchangeStreamCaptureMode(*mut u32);
    fn cuEventCreate(*mut CUevent, u32);
    fn cuEventRecord(CUevent, CUstream);
    fn cuEventSynchronize(CUevent);
    fn cuEventQuery(CUevent);
    fn cuEventElapsedTime(*mut f32, CUevent, CUevent);
    fn cuEventDestroy_v2(CUevent);
    fn cuGraphLaunch(CUgraphExec, CUstream);
    fn cuGraphExecDestroy(CUgraphExec);
    fn cuGraphDestroy(CUgraph);
    fn cuLaunchKernel(CUfunction, u32, u32, u32, u32, u32, u32, u32, CUstream, *mut *mut c_void, *mut *mut c_void);
    // 11.4
    later fn cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
    // 11.7
    later fn cuStreamWaitValue32_v2(CUstream, CUdeviceptr, u32, u32);
    later fn cuStreamWriteValue32_v2(CUstream, CUdeviceptr, u32, u32);
}

impl Driver {
    /// The driver of this machine, loaded once.
    pub(super) fn instance() -> Result<&'static Self, DeviceError> {
        static DRIVER: OnceLock<Result<Driver, DeviceError>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    /// What `code` is called.
    fn error_name(&self, code: u32) -> &'static str {
        let mut name = std::ptr::null();
        // SAFETY: `name` is a live variable.
        let unknown = unsafe { (self.cuGetErrorName)(code, &raw mut name) } != 0 || name.is_null();
        if unknown {
            return "unknown";
        }
        // SAFETY: the driver gave a string of its own, which lives as long as the driver: for ever.
        unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("unknown")
    }

    /// The result of `call`, as an error if it is one.
    pub(super) fn check(&self, call: &'static str, code: u32) -> Result<(), DeviceError> {
        match code {
            0 => Ok(()),
            _ => Err(self.error(call, code)),
        }
    }

    /// The error `code` of `call`.
    pub(super) fn error(&self, call: &'static str, code: u32) -> DeviceError {
        DeviceError::Driver { call, code, name: self.error_name(code) }
    }
}

/// Calls a function of a [`Driver`] and makes an error of its result, under its name. To be used in an `unsafe`
/// block that says why the arguments are right.
macro_rules! call {
    ($driver:expr, $symbol:ident($($argument:expr),* $(,)?)) => {{
        let driver: &$crate::device::driver::Driver = $driver;
        driver.check(stringify!($symbol), (driver.$symbol)($($argument),*))
    }};
}
pub(super) use call;
