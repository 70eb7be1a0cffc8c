//! Copies that are compressed on their way.
#![allow(unsafe_code)] // called from C

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use mgcomp_codecs::device::{Device, DeviceError};
use mgcomp_selector::PolicySpec;
use mgcomp_transport::copy::{Copier, CopyConfig, CopyError, CopyReport, Direction};
use mgcomp_transport::memory::Slice;
use mgcomp_transport::message::Status;

use crate::error::{Failure, call, making, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::lending::{Lent, Lot};
use crate::memory::{Out, Span, text};
use crate::number::{element, mgcompAlgorithm, mgcompElement, named, number};
use crate::request::{Work, begin, close, mgcompRequest};

static COPIERS: Handles<Desk> = Handles::new(Kind::Copier);

/// Threads that copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompCopier {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// Where a copy comes from and where it goes, as in cudaMemcpyKind.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub enum mgcompMemcpyKind {
    /// From host memory to host memory.
    HostToHost = 0,
    /// From host memory to a device.
    HostToDevice = 1,
    /// From a device to host memory.
    DeviceToHost = 2,
    /// From a device to a device.
    DeviceToDevice = 3,
}

/// What a copy came to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompMemcpyReport {
    /// Bytes that were copied.
    pub raw_bytes: u64,
    /// What was left of them on the way.
    pub coded_bytes: u64,
    /// How they were coded; none if nothing shrank.
    pub algorithm: MaybeUninit<mgcompAlgorithm>,
    /// Zero.
    pub reserved: u32,
    /// Time that codecs took to encode, all threads together, in nanoseconds.
    pub encode_ns: u64,
    /// Time that codecs took to decode.
    pub decode_ns: u64,
    /// From the call to the end.
    pub took_ns: u64,
}

/// A copier, and what copies that failed have left.
pub(crate) struct Desk {
    pub(crate) copier: Copier,
    device: Option<Device>,
    pub(crate) lot: Arc<Lot>,
}

/// The copier of a handle.
pub(crate) fn desk(copier: mgcompCopier) -> Result<Arc<Desk>, Failure> {
    COPIERS.get(copier.id)
}

/// Starts threads that copy.
///
/// @param threads that run codecs: 1 to 1024; 0 for as many as the launcher leaves this rank cores, at most 2.
/// @param cudaDevice the number of the CUDA device that copies may reach, or -1 for none. Its primary context is used, as the
/// CUDA runtime does. Where there is no driver or no such device, the call fails with MGCOMP_RESULT_UNSUPPORTED.
/// @param copier set to the handle, to be given to mgcompDestroyCopier.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompCreateCopier(
    threads: u32,
    cuda_device: i32,
    copier: *mut mgcompCopier,
) -> mgcompResult {
    making(|| {
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("copier", copier) }?;
        let device = match cuda_device {
            -1 => None,
            0.. => Some(Device::open(cuda_device as u32)?),
            _ => {
                let text = format!("cudaDevice is {cuda_device}: the number of a device, or -1");
                return Err(Failure::argument(text));
            }
        };
        let usual = CopyConfig::default();
        let codec_threads = if threads == 0 { usual.codec_threads } else { threads as usize };
        let copier = Copier::start(CopyConfig { codec_threads, ..usual })?;
        out.set(mgcompCopier { id: COPIERS.insert(Desk { copier, device, lot: Arc::default() })? });
        Ok(())
    })
}

/// Ends a copier. Copies that are under way are ended, and their requests fail; they are to be finished all the same.
///
/// @return MGCOMP_RESULT_BUSY if memory is still used after 20 s; it must be there then until the program ends. Work on a
/// CUDA stream, with memory of a device, is waited for without a limit: if the stream never comes to it, this never returns.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyCopier(copier: mgcompCopier) -> mgcompResult {
    call(|| {
        let desk = COPIERS.remove(copier.id)?;
        let lot = desk.lot.clone();
        drop(desk);
        close(&lot)
    })
}

/// Copies bytes, compressed on their way and decoded where they go; waits for the end.
///
/// @param destination room for bytes bytes. It must not overlap source.
/// @param source bytes bytes: a whole number of values.
/// @param kind where they are.
/// @param element what they are; MGCOMP_ELEMENT_U8 for anything.
/// @param policy how a codec is chosen: "adaptive", "fixed:ALGORITHM" such as "fixed:zvc", or NULL for "adaptive".
/// @param cudaStream where one of the places is a device: the CUDA stream (CUstream or cudaStream_t) after whose work so far the
/// copy is made, NULL for the legacy default stream. Other streams need not wait: what was copied is there when the copy is
/// finished. NULL where both places are of the host.
/// @param report set to what the copy came to; may be NULL.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompMemcpyCompressed(
    copier: mgcompCopier,
    destination: *mut c_void,
    source: *const c_void,
    bytes: usize,
    kind: MaybeUninit<mgcompMemcpyKind>,
    element: MaybeUninit<mgcompElement>,
    policy: *const c_char,
    cuda_stream: *mut c_void,
    report: *mut mgcompMemcpyReport,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for the text and a place for the report, or NULL.
        let (policy, out) = unsafe { (policy_of(policy)?, Out::optional("report", report)?) };
        let (direction, element) = (direction(kind, cuda_stream)?, self::element(element)?);
        let desk = desk(copier)?;
        // SAFETY: the header asks for both buffers; the call waits until nothing uses them.
        let (to, from, lent) = unsafe { desk.lend((destination, source, bytes), direction, cuda_stream) }?;
        let done = desk.copier.memcpy_compressed(to, from, direction, element, policy);
        let done = desk.lot.settle(done.map_err(Failure::from), lent)?;
        if let Some(out) = out {
            out.set(done.into());
        }
        Ok(())
    })
}

/// As mgcompMemcpyCompressed, without waiting for the end.
///
/// @param request set to what is under way; the bytes that mgcompWaitRequest tells are those that were left on the way. Both
/// buffers must be there, and the destination be left alone, until it is finished.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompMemcpyCompressedAsync(
    copier: mgcompCopier,
    destination: *mut c_void,
    source: *const c_void,
    bytes: usize,
    kind: MaybeUninit<mgcompMemcpyKind>,
    element: MaybeUninit<mgcompElement>,
    policy: *const c_char,
    cuda_stream: *mut c_void,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for the text and a place for a handle, or NULL.
        let (policy, out) = unsafe { (policy_of(policy)?, Out::new("request", request)?) };
        let (direction, element) = (direction(kind, cuda_stream)?, self::element(element)?);
        let desk = desk(copier)?;
        // SAFETY: the header asks for both buffers until the request is finished.
        let (to, from, lent) = unsafe { desk.lend((destination, source, bytes), direction, cuda_stream) }?;
        begin(out, &desk.lot, lent, || {
            Ok(Work::Copy(desk.copier.memcpy_compressed_async(to, from, direction, element, policy)?))
        })
    })
}

impl Desk {
    /// Takes both buffers of a copy.
    ///
    /// # Safety
    /// They must be there until what is returned says that they are free, and the stream must be one of the device.
    unsafe fn lend(
        &self,
        (destination, source, bytes): (*mut c_void, *const c_void, usize),
        direction: Direction,
        stream: *mut c_void,
    ) -> Result<(Slice, Slice, Lent), Failure> {
        let (to, from) = (Span::new("destination", destination, bytes)?, Span::new("source", source, bytes)?);
        if direction.reads_device() == direction.writes_device() {
            to.apart_from(&from)?;
        }
        let mut lent = Lent::default();
        let stream = of_a_device(direction, stream);
        // SAFETY: as for this one.
        let mut take = |span, of_device, stream| unsafe { self.take(&mut lent, span, of_device, stream) };
        // What is read from a device is there after the stream's work, and so is what the host may write then.
        let to = match direction.writes_device() {
            true => take(&to, true, stream)?,
            false => take(&to, false, None)?,
        };
        let from = take(&from, direction.reads_device(), stream)?;
        Ok((to, from, lent))
    }

    /// Takes the buffer of a copy whose other side is the library's.
    ///
    /// # Safety
    /// As for [`lend`](Self::lend).
    pub(crate) unsafe fn lend_one(
        &self,
        span: &Span,
        (of_device, direction): (bool, Direction),
        stream: *mut c_void,
    ) -> Result<(Slice, Lent), Failure> {
        let mut lent = Lent::default();
        // SAFETY: as for this one.
        let slice = unsafe { self.take(&mut lent, span, of_device, of_a_device(direction, stream)) }?;
        Ok((slice, lent))
    }

    /// A buffer that is to be used after the work of a stream, if there is one.
    ///
    /// # Safety
    /// As for [`lend`](Self::lend).
    unsafe fn take(
        &self,
        lent: &mut Lent,
        span: &Span,
        of_device: bool,
        stream: Option<*mut c_void>,
    ) -> Result<Slice, Failure> {
        if !of_device {
            // SAFETY: as for this one.
            let slice = unsafe { lent.take_host(span) };
            return Ok(match (&self.device, stream) {
                // SAFETY: as for this one; the stream is used for no longer than this call.
                (Some(device), Some(stream)) => slice.after(&unsafe { device.adopt_stream(stream) })?.into(),
                _ => slice.into(),
            });
        }
        let device = self.device.as_ref().ok_or_else(|| {
            Failure::argument("the copier was made without a CUDA device: cudaDevice was -1")
        })?;
        // SAFETY: as for this one.
        let slice = unsafe { lent.take_of(device, span) };
        Ok(match stream {
            // SAFETY: as for this one; the stream is used for no longer than this call.
            Some(stream) => slice.after(&unsafe { device.adopt_stream(stream) })?.into(),
            None => slice.into(),
        })
    }
}

/// The stream that goes with a copy, if one of its places is a device.
fn of_a_device(direction: Direction, stream: *mut c_void) -> Option<*mut c_void> {
    (direction != Direction::HostToHost).then_some(stream)
}

/// What a kind says, if a stream goes with it.
pub(crate) fn direction(
    kind: MaybeUninit<mgcompMemcpyKind>,
    stream: *mut c_void,
) -> Result<Direction, Failure> {
    let number = number(kind);
    match Direction::ALL.get(number as usize) {
        Some(Direction::HostToHost) if !stream.is_null() => {
            Err(Failure::argument("cudaStream is not NULL, but both places are of the host"))
        }
        Some(direction) => Ok(*direction),
        None => Err(Failure::argument(format_args!("kind {number}: there are 0 to 3"))),
    }
}

/// # Safety
/// If it is not NULL, it must be a text.
pub(crate) unsafe fn policy_of(policy: *const c_char) -> Result<PolicySpec, Failure> {
    if policy.is_null() {
        return Ok(PolicySpec::default());
    }
    // SAFETY: as for this one.
    unsafe { text("policy", policy) }?.parse().map_err(Failure::argument)
}

impl From<CopyReport> for mgcompMemcpyReport {
    fn from(report: CopyReport) -> Self {
        Self {
            raw_bytes: report.raw_bytes,
            coded_bytes: report.coded_bytes,
            algorithm: named(report.algorithm.number()),
            reserved: 0,
            encode_ns: report.encode.as_nanos() as u64,
            decode_ns: report.decode.as_nanos() as u64,
            took_ns: report.took.as_nanos() as u64,
        }
    }
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        let code = match &error {
            // What failed was not the bytes.
            CopyError::Segment { status: Status::DeviceLost | Status::Internal, .. } => mgcompResult::System,
            CopyError::Segment { .. } => mgcompResult::BadData,
            CopyError::Closed { .. } | CopyError::Forked => mgcompResult::Transfer,
            CopyError::Place { .. } => mgcompResult::Unsupported,
            CopyError::Thread(_) => mgcompResult::System,
            _ => mgcompResult::InvalidArgument,
        };
        Self::new(code, error)
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        let code = match &error {
            DeviceError::NoDriver
            | DeviceError::NoDevice { .. }
            | DeviceError::TooOld { .. }
            | DeviceError::NoKernels(_)
            | DeviceError::MissingSymbol { .. } => mgcompResult::Unsupported,
            DeviceError::TooLong { .. } | DeviceError::Recording => mgcompResult::InvalidArgument,
            error if error.is_out_of_memory() => mgcompResult::NoMemory,
            _ => mgcompResult::System,
        };
        Self::new(code, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bad_bytes_are_bad_data() {
        let code = |status| {
            let (start, end, raw_bytes, written_bytes) = (0, 8, 16, 8);
            let error = CopyError::Segment { start, end, raw_bytes, status, written_bytes };
            call(|| Err(error.into()))
        };
        assert_eq!(code(Status::BadPayload), mgcompResult::BadData);
        assert_eq!(code(Status::DeviceLost), mgcompResult::System);
        assert_eq!(code(Status::Internal), mgcompResult::System);
    }
}
