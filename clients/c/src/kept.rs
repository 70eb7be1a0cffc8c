//! Copies that stay compressed where they went, until they are expanded.
#![allow(unsafe_code)] // called from C

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};

use mgcomp_transport::copy::{CopyError, CopyHandle, CopyReport, Direction, Kept};

use crate::copy::{desk, direction, mgcompCopier, mgcompMemcpyKind, mgcompMemcpyReport, policy_of};
use crate::error::{Failure, call, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::memory::{Out, Span};
use crate::number::{element, mgcompAlgorithm, mgcompElement, named};
use crate::request::{Work, begin, mgcompRequest};

/// What is kept; empty while it is on its way.
static KEPT: Handles<OnceLock<Kept>> = Handles::new(Kind::Kept);

/// Bytes that are kept compressed in host memory of the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompKept {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// What is kept.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompKeptInfo {
    /// Bytes that it expands to.
    pub raw_bytes: u64,
    /// Bytes that it takes.
    pub coded_bytes: u64,
    /// What the bytes are.
    pub element: MaybeUninit<mgcompElement>,
    /// How they are coded; none if nothing shrank.
    pub algorithm: MaybeUninit<mgcompAlgorithm>,
}

/// Copies bytes to host memory of the library and keeps them there compressed; waits for the end.
///
/// @param source bytes bytes: a whole number of values. They are the program's again when this returns.
/// @param kind where they are: MGCOMP_MEMCPY_KIND_DEVICE_TO_HOST or MGCOMP_MEMCPY_KIND_HOST_TO_HOST.
/// @param element what they are; MGCOMP_ELEMENT_U8 for anything.
/// @param policy how a codec is chosen, as for mgcompMemcpyCompressed.
/// @param cudaStream as for mgcompMemcpyCompressed.
/// @param kept set to the handle, to be given to mgcompDestroyKept. It outlives the copier, and any copier expands it.
/// @param report set to what the copy came to; may be NULL.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompKeepCompressed(
    copier: mgcompCopier,
    source: *const c_void,
    bytes: usize,
    kind: MaybeUninit<mgcompMemcpyKind>,
    element: MaybeUninit<mgcompElement>,
    policy: *const c_char,
    cuda_stream: *mut c_void,
    kept: *mut mgcompKept,
    report: *mut mgcompMemcpyReport,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for the text and places for handle and report, or NULL.
        let (policy, out, info) =
            unsafe { (policy_of(policy)?, Out::new("kept", kept)?, Out::optional("report", report)?) };
        let (direction, element) = (leaving(kind, cuda_stream)?, self::element(element)?);
        let desk = desk(copier)?;
        let span = Span::new("source", source, bytes)?;
        // SAFETY: the header asks for the buffer; the call waits until nothing uses it.
        let (from, lent) =
            unsafe { desk.lend_one(&span, (direction.reads_device(), direction), cuda_stream) }?;
        let done = desk.copier.keep(from, direction, element, policy).and_then(CopyHandle::wait);
        let (kept, report) = desk.lot.settle(done.map_err(Failure::from), lent)?;
        out.set(mgcompKept { id: KEPT.insert(OnceLock::from(kept))? });
        if let Some(info) = info {
            info.set(report.into());
        }
        Ok(())
    })
}

/// As mgcompKeepCompressed, without waiting for the end.
///
/// @param kept set to the handle. It is of use once the request is finished; until then, calls that need what is kept fail with
/// MGCOMP_RESULT_BUSY. If the request fails, the handle is used up.
/// @param request set to what is under way; the bytes that mgcompWaitRequest tells are those that are kept. The source must be
/// there, and be left alone, until it is finished.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompKeepCompressedAsync(
    copier: mgcompCopier,
    source: *const c_void,
    bytes: usize,
    kind: MaybeUninit<mgcompMemcpyKind>,
    element: MaybeUninit<mgcompElement>,
    policy: *const c_char,
    cuda_stream: *mut c_void,
    kept: *mut mgcompKept,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for the text and places for handles, or NULL.
        let (policy, place, out) =
            unsafe { (policy_of(policy)?, Out::new("kept", kept)?, Out::new("request", request)?) };
        let (direction, element) = (leaving(kind, cuda_stream)?, self::element(element)?);
        let desk = desk(copier)?;
        let span = Span::new("source", source, bytes)?;
        // SAFETY: the header asks for the buffer until the request is finished.
        let (from, lent) =
            unsafe { desk.lend_one(&span, (direction.reads_device(), direction), cuda_stream) }?;
        let id = KEPT.insert(OnceLock::new())?;
        let keep = || Ok(Work::Keep(desk.copier.keep(from, direction, element, policy)?, id));
        begin(out, &desk.lot, lent, keep).inspect_err(|_| drop(KEPT.remove(id)))?;
        place.set(mgcompKept { id });
        Ok(())
    })
}

/// Copies what is kept to where it is needed, and decodes it there; waits for the end. It stays kept.
///
/// @param destination room for the raw bytes, exactly.
/// @param kind where they go: MGCOMP_MEMCPY_KIND_HOST_TO_DEVICE or MGCOMP_MEMCPY_KIND_HOST_TO_HOST.
/// @param cudaStream as for mgcompMemcpyCompressed.
/// @param report set to what the copy came to; may be NULL.
///
/// Any number of threads may call this at once, with the same handle too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompExpandKept(
    copier: mgcompCopier,
    destination: *mut c_void,
    bytes: usize,
    kept: mgcompKept,
    kind: MaybeUninit<mgcompMemcpyKind>,
    cuda_stream: *mut c_void,
    report: *mut mgcompMemcpyReport,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for the report, or NULL.
        let out = unsafe { Out::optional("report", report) }?;
        let direction = returning(kind, cuda_stream)?;
        let desk = desk(copier)?;
        let span = Span::new("destination", destination, bytes)?;
        // SAFETY: the header asks for the buffer; the call waits until nothing uses it.
        let (to, lent) =
            unsafe { desk.lend_one(&span, (direction.writes_device(), direction), cuda_stream) }?;
        let done = with(kept, |kept| Ok(desk.copier.expand(to, kept, direction)?.wait()?));
        let done = desk.lot.settle(done, lent)?;
        if let Some(out) = out {
            out.set(done.into());
        }
        Ok(())
    })
}

/// As mgcompExpandKept, without waiting for the end.
///
/// @param request set to what is under way; the bytes that mgcompWaitRequest tells are those that are kept. The destination
/// must be there, and be left alone, until it is finished; what is kept may be destroyed meanwhile.
///
/// Any number of threads may call this at once, with the same handle too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompExpandKeptAsync(
    copier: mgcompCopier,
    destination: *mut c_void,
    bytes: usize,
    kept: mgcompKept,
    kind: MaybeUninit<mgcompMemcpyKind>,
    cuda_stream: *mut c_void,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("request", request) }?;
        let direction = returning(kind, cuda_stream)?;
        let desk = desk(copier)?;
        let span = Span::new("destination", destination, bytes)?;
        // SAFETY: the header asks for the buffer until the request is finished.
        let (to, lent) =
            unsafe { desk.lend_one(&span, (direction.writes_device(), direction), cuda_stream) }?;
        begin(out, &desk.lot, lent, || {
            with(kept, |kept| Ok(Work::Copy(desk.copier.expand(to, kept, direction)?)))
        })
    })
}

/// What is kept, and how.
///
/// @param info set to that.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetKeptInfo(kept: mgcompKept, info: *mut mgcompKeptInfo) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for it, or NULL.
        let out = unsafe { Out::new("info", info) }?;
        with(kept, |kept| {
            let (raw_bytes, coded_bytes) = (kept.raw_bytes(), kept.bytes());
            let (element, algorithm) = (named(kept.element().number()), named(kept.algorithm().number()));
            out.set(mgcompKeptInfo { raw_bytes, coded_bytes, element, algorithm });
            Ok(())
        })
    })
}

/// Frees what is kept. A request that is to keep or to expand it goes on.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyKept(kept: mgcompKept) -> mgcompResult {
    call(|| KEPT.remove(kept.id).map(drop))
}

/// Takes in what came of a copy that was to be kept under a handle; returns the bytes that it takes.
pub(crate) fn settle(id: u64, result: Result<(Kept, CopyReport), CopyError>) -> Result<u64, Failure> {
    let (kept, report) = result.inspect_err(|_| drop(KEPT.remove(id)))?;
    // Where the program has destroyed it meanwhile, nobody wants it.
    if let Ok(place) = KEPT.get(id) {
        let _ = place.set(kept); // once: a request finishes once
    }
    Ok(report.coded_bytes)
}

fn with<R>(kept: mgcompKept, work: impl FnOnce(&Kept) -> Result<R, Failure>) -> Result<R, Failure> {
    let place: Arc<OnceLock<Kept>> = KEPT.get(kept.id)?;
    let kept = place
        .get()
        .ok_or_else(|| Failure::new(mgcompResult::Busy, "it is not kept yet: its request is not finished"))?;
    work(kept)
}

/// The direction of what is to be kept.
fn leaving(kind: MaybeUninit<mgcompMemcpyKind>, stream: *mut c_void) -> Result<Direction, Failure> {
    let direction = direction(kind, stream)?;
    if !direction.writes_device() {
        return Ok(direction);
    }
    Err(Failure::argument(format_args!("kind says {direction}, but what is kept is in host memory")))
}

/// The direction of what is expanded.
fn returning(kind: MaybeUninit<mgcompMemcpyKind>, stream: *mut c_void) -> Result<Direction, Failure> {
    let direction = direction(kind, stream)?;
    if !direction.reads_device() {
        return Ok(direction);
    }
    Err(Failure::argument(format_args!("kind says {direction}, but what is kept is in host memory")))
}
