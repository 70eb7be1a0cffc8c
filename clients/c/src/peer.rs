//! Copies from one device to another, compressed on their way.
#![allow(unsafe_code)] // called from C

use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, forget};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Device, Region, Stream};
use mgcomp_selector::{Lambda, LinkFacts, Overlap};
use mgcomp_transport::fork::Process;
use mgcomp_transport::peer_copy::{
    CopyPath, PeerCopier, PeerCopy, PeerCopyConfig, PeerCopyError, PeerCopyReport,
};

use crate::error::{Failure, call, making, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::memory::{Out, Span, given, text};
use crate::number::{element, mgcompAlgorithm, mgcompElement, named};

static COPIERS: Handles<Held> = Handles::new(Kind::PeerCopier);

/// The most bytes of a copy, and of a segment, that may be asked for: no device has as many.
const MOST_BYTES: u64 = 1 << 40;

/// Makes copies from one CUDA device to another.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompPeerCopier {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// Settings of a peer copier. Where NULL is given instead, and where a field is 0 or NULL: what is usual.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompPeerCopierOptions {
    /// How codecs are chosen: "adaptive", "paper" or "fixed:ALGORITHM", such as "fixed:zvc". adaptive chooses among bdi, zvc and xp;
    /// the others have the algorithms that they are named for. MGCOMP_RESULT_UNSUPPORTED for "fixed:deflate", which does not run on
    /// devices. Usual: adaptive.
    pub policy: *const c_char,
    /// The weight of latency against size, in Gb/s, for policies that go by one. Usual: none.
    pub lambda_gbps: f64,
    /// The rate of the link between the devices, in Gb/s. Usual: not known; plain copies show it, unless there is a lambda.
    pub link_gbps: f64,
    /// What a copy over that link takes to begin, in nanoseconds. It counts with linkGbps alone.
    pub link_latency_ns: u64,
    /// Copies of fewer bytes are plain, before any policy is asked; 1 for none. Usual: 256 KiB.
    pub gate_bytes: u64,
    /// The most bytes of a segment: while one is decoded, the next is encoded. Within one device a copier takes so much device memory, or
    /// mostBytes if that is less; between devices up to 64 MiB, whatever is given, or 8 MiB of page-locked memory. Usual: 128 MiB; at
    /// most 1 TiB.
    pub segment_bytes: u64,
    /// The most bytes of a copy. Usual: 1 GiB; at most 1 TiB.
    pub most_bytes: u64,
}

/// What a copy from device to device came to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompPeerCopyReport {
    /// Bytes that were copied.
    pub raw_bytes: u64,
    /// Bytes that went from device to device.
    pub coded_bytes: u64,
    /// How they were coded; none if the copy was plain.
    pub algorithm: MaybeUninit<mgcompAlgorithm>,
    /// 1 if they went through page-locked memory of the host, a segment at a time; else 0.
    pub through_host: u32,
}

/// What is known of the link between two devices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompPeerLink {
    /// Its rate in Gb/s: what the options have said, else what plain copies have shown by now; 0 if nothing has.
    pub gbps: f64,
    /// What a copy takes to begin, in nanoseconds; 0 if nothing is known.
    pub latency_ns: u64,
    /// 1 if kernels of the first device store straight into the memory of the second; else 0.
    pub is_direct: u32,
    /// Zero.
    pub reserved: u32,
}

/// A copier, its ends, and the process that it works in.
struct Held {
    from: Device,
    to: Device,
    making: Mutex<Making>,
    process: Process,
}

struct Making {
    copier: PeerCopier,
    /// The last copy that was enqueued or recorded.
    last: Option<PeerCopy>,
}

/// Prepares copies from the memory of one CUDA device to that of another: loads kernels, which the first time may mean to compile
/// them, and allocates all that copies need.
///
/// @param fromDevice the number of the CUDA device that bytes come from. Its primary context is used, as the CUDA runtime does.
/// Where there is no driver or no such device, the call fails with MGCOMP_RESULT_UNSUPPORTED.
/// @param toDevice the number of the one that they go to; may be the same.
/// @param options or NULL.
/// @param copier set to the handle, to be given to mgcompDestroyPeerCopier.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompCreatePeerCopier(
    from_device: u32,
    to_device: u32,
    options: *const mgcompPeerCopierOptions,
    copier: *mut mgcompPeerCopier,
) -> mgcompResult {
    making(|| {
        // SAFETY: the header asks for options and a place for a handle, or NULL.
        let (options, out) = unsafe { (given("options", options)?, Out::new("copier", copier)?) };
        // SAFETY: the header asks for a text, or NULL.
        let mut config =
            options.map_or(Ok(PeerCopyConfig::default()), |options| unsafe { config(&options) })?;
        let link = options.map_or(Ok(None), |options| stated_link(&options))?;
        let from = Device::open(from_device)?;
        let to = if from_device == to_device { from.clone() } else { Device::open(to_device)? };
        if let Some(link) = link {
            let overlap = PeerCopier::overlap(&from, &to, config.segment_bytes)?;
            config.link = Some(link.with_overlap(overlap).map_err(Failure::argument)?);
        }
        let copier = PeerCopier::new(&from, &to, config)?;
        let making = Mutex::new(Making { copier, last: None });
        let held = Held { from, to, making, process: Process::current() };
        out.set(mgcompPeerCopier { id: COPIERS.insert(held)? });
        Ok(())
    })
}

/// Ends a copier. Waits for the copies that are under way. Graphs that have recorded copies of it must not be launched any more.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyPeerCopier(copier: mgcompPeerCopier) -> mgcompResult {
    call(|| {
        let held = COPIERS.remove(copier.id)?;
        if !held.process.is_current() {
            // The driver is of no use in a child made by fork.
            forget(held);
        }
        Ok(())
    })
}

/// Enqueues a copy on a CUDA stream, as cudaMemcpyPeerAsync does, and returns: after what is on the stream, and before what comes
/// there next. Bytes are coded and decoded by the devices where that pays; nobody waits.
///
/// @param destination room for bytes bytes in the memory of the second device, at any address. It must not overlap source.
/// Both must be there, and be left alone, until the copy has ended, as with any work on the stream.
/// @param source bytes bytes in the memory of the first device, at any address: of cudaMalloc, or a part of what another library
/// has allocated, such as a tensor.
/// @param bytes up to mostBytes of the options.
/// @param element what they are; MGCOMP_ELEMENT_U8 for anything.
/// @param cudaStream the CUDA stream (CUstream or cudaStream_t), of either device; NULL for the legacy default stream of the first.
/// While it records a graph, the copy is recorded. When such a graph is launched, no other copy of this copier may be under way.
///
/// Any number of threads may call this at once; one after the other has its turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompMemcpyPeerAsync(
    copier: mgcompPeerCopier,
    destination: *mut c_void,
    source: *const c_void,
    bytes: usize,
    element: MaybeUninit<mgcompElement>,
    cuda_stream: *mut c_void,
) -> mgcompResult {
    call(|| {
        let (to, from) = (Span::new("destination", destination, bytes)?, Span::new("source", source, bytes)?);
        to.apart_from(&from)?;
        let element = self::element(element)?;
        let held = held(copier)?;
        // SAFETY: the header asks for a stream of one of the devices; it is used for no longer than this call.
        let stream = unsafe { held.stream(cuda_stream) }?;
        // SAFETY: the header asks for both until the copy has ended.
        let [from, to] = [&from, &to].map(|span| unsafe { region(span) });
        let mut making = held.making();
        let copy = making.copier.copy(&stream, element, from, to)?;
        making.last = Some(copy);
        Ok(())
    })
}

/// What came of the last copy that was enqueued, by whatever thread, or of the last one that a graph has made. Waits for all that
/// is on the stream, and for a copy that is coded. Threads that want to know of their own copies have a copier each.
///
/// @param cudaStream the stream of that copy, or one that follows it; as for mgcompMemcpyPeerAsync. It must not record.
/// @param report set to what it came to. MGCOMP_RESULT_BAD_DATA if a frame was damaged on its way: then the destination holds
/// anything.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetPeerCopyReport(
    copier: mgcompPeerCopier,
    cuda_stream: *mut c_void,
    report: *mut mgcompPeerCopyReport,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for the report, or NULL.
        let out = unsafe { Out::new("report", report) }?;
        let held = held(copier)?;
        // SAFETY: the header asks for a stream of one of the devices; it is used for no longer than this call.
        let stream = unsafe { held.stream(cuda_stream) }?;
        // Before its turn: others need not wait for what is on the stream.
        stream.wait()?;
        let making = held.making();
        let last = making.last.ok_or_else(|| Failure::argument("the copier has made no copy yet"))?;
        out.set(making.copier.report(&stream, &last)?.into());
        Ok(())
    })
}

/// What is known of the link between the devices of a copier. Does not wait for copies.
///
/// @param link set to that.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetPeerLink(
    copier: mgcompPeerCopier,
    link: *mut mgcompPeerLink,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for it, or NULL.
        let out = unsafe { Out::new("link", link) }?;
        let held = held(copier)?;
        let making = held.making();
        let (gbps, latency_ns) =
            making.copier.link().map_or((0.0, 0), |link| (link.rate_gbps(), link.latency_ns()));
        let is_direct = making.copier.is_direct().into();
        out.set(mgcompPeerLink { gbps, latency_ns, is_direct, reserved: 0 });
        Ok(())
    })
}

/// The copier of a handle, if it is of this process.
fn held(copier: mgcompPeerCopier) -> Result<Arc<Held>, Failure> {
    let held = COPIERS.get(copier.id)?;
    if held.process.is_current() {
        return Ok(held);
    }
    forget(held);
    let text = "the peer copier belongs to the process that this one was forked from";
    Err(Failure::new(mgcompResult::Transfer, text))
}

impl Held {
    fn making(&self) -> MutexGuard<'_, Making> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream of a handle, of whichever device it is.
    ///
    /// # Safety
    /// It must be a CUDA stream, or NULL, for as long as the result is used.
    unsafe fn stream(&self, handle: *mut c_void) -> Result<Stream, Failure> {
        for device in [&self.from, &self.to] {
            // SAFETY: as for this one.
            if handle.is_null() || unsafe { device.has_stream(handle) }? {
                // SAFETY: a stream of this device's; else as for this one.
                return Ok(unsafe { device.adopt_stream(handle) });
            }
        }
        Err(Failure::argument("cudaStream is a stream of neither device's primary context"))
    }
}

/// # Safety
/// The bytes must be memory of a device until what is enqueued on them has ended.
unsafe fn region<'a>(span: &Span) -> Region<'a> {
    // SAFETY: as for this one.
    unsafe { Region::from_raw(span.start().addr().get() as u64, span.len() as u64) }
}

/// What options say, but for the link.
///
/// # Safety
/// If it is not NULL, the policy must be a text.
unsafe fn config(options: &mgcompPeerCopierOptions) -> Result<PeerCopyConfig, Failure> {
    let mut config = PeerCopyConfig::default();
    if !options.policy.is_null() {
        // SAFETY: as for this one.
        let policy = unsafe { text("options.policy", options.policy) }?;
        config.policy = policy.parse().map_err(Failure::argument)?;
    }
    if options.lambda_gbps != 0.0 {
        let lambda = Lambda::try_new(options.lambda_gbps);
        config.lambda = Some(lambda.map_err(|error| wrong("options.lambdaGbps", error))?);
    }
    if options.gate_bytes > 0 {
        config.gate_bytes = options.gate_bytes;
    }
    let lens = [
        ("options.segmentBytes", options.segment_bytes, &mut config.segment_bytes),
        ("options.mostBytes", options.most_bytes, &mut config.most_bytes),
    ];
    for (what, given, place) in lens {
        match given {
            0 => {}
            1..=MOST_BYTES => *place = given,
            _ => return Err(wrong(what, format_args!("{given} bytes are more than {MOST_BYTES}"))),
        }
    }
    Ok(config)
}

/// What options say of the link, if anything, but for when kernels work beside it.
fn stated_link(options: &mgcompPeerCopierOptions) -> Result<Option<LinkFacts>, Failure> {
    if options.link_gbps == 0.0 {
        return Ok(None);
    }
    let link = LinkFacts::try_new(options.link_gbps, options.link_latency_ns, Overlap::None);
    link.map(Some).map_err(|error| wrong("options.linkGbps", error))
}

fn wrong(what: &str, why: impl std::fmt::Display) -> Failure {
    Failure::argument(format_args!("{what}: {why}"))
}

impl From<PeerCopyReport> for mgcompPeerCopyReport {
    fn from(report: PeerCopyReport) -> Self {
        let algorithm = match report.path {
            CopyPath::Coded(algorithm) | CopyPath::CodedThroughHost(algorithm) => algorithm,
            _ => Algorithm::None,
        };
        Self {
            raw_bytes: report.raw_bytes,
            coded_bytes: report.coded_bytes,
            algorithm: named(algorithm.number()),
            through_host: matches!(report.path, CopyPath::PlainThroughHost | CopyPath::CodedThroughHost(_))
                .into(),
        }
    }
}

impl From<PeerCopyError> for Failure {
    fn from(error: PeerCopyError) -> Self {
        match error {
            PeerCopyError::Device(error) => error.into(),
            error => Self::new(mgcompResult::BadData, error),
        }
    }
}
