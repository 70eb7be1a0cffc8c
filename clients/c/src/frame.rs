//! Frames.
#![allow(unsafe_code)] // called from C

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use mgcomp_codecs::frame::{self, ChunkSize, Frame, FrameError, Header, Options, Workers};

use crate::chunk::codec_of;
use crate::error::{Failure, call, mgcompResult};
use crate::memory::{Out, Span, check_room, given};
use crate::number::{element, flag, mgcompAlgorithm, mgcompElement, named};
use crate::workers::{mgcompWorkers, workers};

/// Bytes of a frame that mgcompInspectFrame needs.
pub const MGCOMP_FRAME_HEADER_BYTES: usize = 16;

/// How a frame is laid out and made. Where NULL is given instead: chunks of the usual size, with checksums, on the thread of
/// the caller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompFrameOptions {
    /// Raw bytes of a chunk: 4096, 8192, 16384, 32768 or 65536; 0 for what is usual for the length.
    pub chunk_bytes: u32,
    /// 1 if each chunk is to have a checksum of its raw bytes, else 0.
    pub checksum: u32,
    /// Threads that work together; all zero for none but the caller's.
    pub workers: mgcompWorkers,
}

/// What the header of a frame says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompFrameInfo {
    /// Bytes that the frame decodes to.
    pub raw_bytes: u64,
    /// How many chunks it has.
    pub chunks: u64,
    /// How they are coded.
    pub algorithm: MaybeUninit<mgcompAlgorithm>,
    /// What the bytes are.
    pub element: MaybeUninit<mgcompElement>,
    /// Raw bytes of each chunk but the last.
    pub chunk_bytes: u32,
    /// 1 if chunks have checksums, else 0.
    pub checksum: u32,
    /// 1 if the frame names or carries a codebook, else 0.
    pub codebook: u32,
    /// Version of the layout.
    pub version: u32,
}

/// The most bytes that a frame of rawBytes raw bytes takes, whatever they are: the room that mgcompEncodeFrame needs. It is
/// little more than rawBytes.
///
/// @param rawBytes at most 68719476720.
/// @param options as mgcompEncodeFrame will get them, or NULL.
/// @param frameBytes set to the room.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompBoundFrame(
    raw_bytes: usize,
    options: *const mgcompFrameOptions,
    frame_bytes: *mut usize,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for options and a place for a number, or NULL.
        let (options, out) = unsafe { (How::new(options, raw_bytes)?, Out::new("frameBytes", frame_bytes)?) };
        out.set(frame::max_frame_len(raw_bytes, options.layout));
        Ok(())
    })
}

/// The bytes that mgcompEncodeFrame would write, without writing any. All of raw is looked at.
///
/// @param raw rawBytes bytes.
/// @param options as for mgcompEncodeFrame, or NULL.
/// @param frameBytes set to the length of the frame.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompMeasureFrame(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    element: MaybeUninit<mgcompElement>,
    raw: *const c_void,
    raw_bytes: usize,
    options: *const mgcompFrameOptions,
    frame_bytes: *mut u64,
) -> mgcompResult {
    call(|| {
        let (codec, element) = (codec_of(algorithm)?, self::element(element)?);
        let raw = Span::new("raw", raw, raw_bytes)?;
        // SAFETY: the header asks for these bytes, options, and a place for a number or NULL.
        let (raw, options, out) =
            unsafe { (raw.bytes(), How::new(options, raw_bytes)?, Out::new("frameBytes", frame_bytes)?) };
        out.set(frame::frame_len(codec, element, raw, options.layout));
        Ok(())
    })
}

/// About the bytes that mgcompEncodeFrame would write, from a sample of raw: fast, and the same each time. Data that changes
/// along the buffer may make it far off.
///
/// @param raw rawBytes bytes.
/// @param options as for mgcompEncodeFrame, or NULL.
/// @param sampleBytes about how much of raw is looked at; 0 for what costs at most a hundredth of encoding.
/// @param frameBytes set to the estimate.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompEstimateFrame(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    element: MaybeUninit<mgcompElement>,
    raw: *const c_void,
    raw_bytes: usize,
    options: *const mgcompFrameOptions,
    sample_bytes: usize,
    frame_bytes: *mut u64,
) -> mgcompResult {
    call(|| {
        let (codec, element) = (codec_of(algorithm)?, self::element(element)?);
        let raw = Span::new("raw", raw, raw_bytes)?;
        // SAFETY: the header asks for these bytes, options, and a place for a number or NULL.
        let (raw, options, out) =
            unsafe { (raw.bytes(), How::new(options, raw_bytes)?, Out::new("frameBytes", frame_bytes)?) };
        out.set(match sample_bytes {
            0 => frame::estimated_frame_len(codec, element, raw, options.layout),
            _ => frame::sampled_frame_len(codec, element, raw, options.layout, sample_bytes),
        });
        Ok(())
    })
}

/// Writes the frame of raw. What does not shrink is stored as it is, so a frame is never longer than mgcompBoundFrame says.
/// The same bytes always give the same frame.
///
/// @param algorithm any that mgcompHasCodec says there is a codec for.
/// @param raw rawBytes bytes, at most 68719476720; they need not be whole values.
/// @param options or NULL.
/// @param frame room for frameCapacity bytes, as many as mgcompBoundFrame says or more. It may be written anywhere. It must not
/// overlap raw.
/// @param frameBytes set to the length of the frame, which starts at frame.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompEncodeFrame(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    element: MaybeUninit<mgcompElement>,
    raw: *const c_void,
    raw_bytes: usize,
    options: *const mgcompFrameOptions,
    frame: *mut c_void,
    frame_capacity: usize,
    frame_bytes: *mut usize,
) -> mgcompResult {
    call(|| {
        let (codec, element) = (codec_of(algorithm)?, self::element(element)?);
        let (raw, room) = (Span::new("raw", raw, raw_bytes)?, Span::new("frame", frame, frame_capacity)?);
        // SAFETY: the header asks for options and a place for a number, or NULL.
        let (how, out) = unsafe { (How::new(options, raw_bytes)?, Out::new("frameBytes", frame_bytes)?) };
        check_room("frame", frame::max_frame_len(raw_bytes, how.layout), frame_capacity)?;
        raw.apart_from(&room)?;
        // SAFETY: the header asks for these bytes; they do not overlap.
        let (raw, room) = unsafe { (raw.bytes(), room.bytes_mut()) };
        out.set(match how.workers {
            Some(workers) => workers.encode_to(codec, element, raw, how.layout, room, &|_| {})?,
            None => frame::encode_to(codec, element, raw, how.layout, room)?,
        });
        Ok(())
    })
}

/// Decodes a frame of any origin. All that it says is checked before it is used.
///
/// @param frame the frame: exactly its frameBytes bytes.
/// @param workers threads that work together; all zero for none but the caller's.
/// @param raw room for rawCapacity bytes, as many as mgcompInspectFrame says (rawBytes) or more. It must not overlap frame. After
/// MGCOMP_RESULT_BAD_DATA it holds anything.
/// @param rawBytes set to the bytes decoded, which start at raw. Bytes behind them are not touched.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompDecodeFrame(
    frame: *const c_void,
    frame_bytes: usize,
    workers: mgcompWorkers,
    raw: *mut c_void,
    raw_capacity: usize,
    raw_bytes: *mut usize,
) -> mgcompResult {
    call(|| {
        let (frame, room) = (Span::new("frame", frame, frame_bytes)?, Span::new("raw", raw, raw_capacity)?);
        frame.apart_from(&room)?;
        let workers = self::workers(workers)?;
        // SAFETY: the header asks for these bytes, which do not overlap, and a place for a number or NULL.
        let (frame, room, out) =
            unsafe { (frame.bytes(), room.bytes_mut(), Out::new("rawBytes", raw_bytes)?) };
        let frame = Frame::parse(frame)?;
        let raw_len = frame.header().raw_len as usize;
        check_room("raw", raw_len, raw_capacity)?;
        match workers {
            Some(workers) => workers.decode_into(&frame, &mut room[..raw_len])?,
            None => frame.decode_into(&mut room[..raw_len])?,
        }
        out.set(raw_len);
        Ok(())
    })
}

/// What the header of a frame says. The rest of the frame is neither needed nor looked at: whether it can be decoded is not
/// known before mgcompDecodeFrame has done it.
///
/// @param frame the frame, or its first bytes: MGCOMP_FRAME_HEADER_BYTES or more.
/// @param info set to what it says.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompInspectFrame(
    frame: *const c_void,
    frame_bytes: usize,
    info: *mut mgcompFrameInfo,
) -> mgcompResult {
    call(|| {
        let frame = Span::new("frame", frame, frame_bytes)?;
        // SAFETY: the header asks for these bytes, and a place for what they say or NULL.
        let (frame, out) = unsafe { (frame.bytes(), Out::new("info", info)?) };
        out.set(Header::parse(frame)?.into());
        Ok(())
    })
}

impl From<Header> for mgcompFrameInfo {
    fn from(header: Header) -> Self {
        Self {
            raw_bytes: header.raw_len,
            chunks: header.chunks() as u64,
            algorithm: named(header.algorithm.number()),
            element: named(header.element.number()),
            chunk_bytes: header.chunk_size.bytes() as u32,
            checksum: header.checksum.into(),
            codebook: header.codebook.into(),
            version: frame::VERSION.into(),
        }
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        let code = match &error {
            FrameError::Room { .. } => mgcompResult::BufferTooSmall,
            FrameError::Unsupported(_) | FrameError::Version(_) => mgcompResult::Unsupported,
            _ => mgcompResult::BadData,
        };
        Self::new(code, error)
    }
}

/// Options that were checked.
struct How {
    layout: Options,
    workers: Option<Arc<Workers>>,
}

impl How {
    /// Options for a frame of `raw_bytes` bytes, which it can hold.
    ///
    /// # Safety
    /// If they are not NULL, they must be there.
    unsafe fn new(options: *const mgcompFrameOptions, raw_bytes: usize) -> Result<Self, Failure> {
        if raw_bytes as u64 > frame::MAX_RAW_LEN {
            let most = frame::MAX_RAW_LEN;
            let text = format_args!("rawBytes is {raw_bytes}: a frame holds at most {most}").to_string();
            return Err(Failure::argument(text));
        }
        let usual = Options::for_len(raw_bytes);
        // SAFETY: as for this one; any bits are options.
        let Some(options) = (unsafe { given("options", options) })? else {
            return Ok(Self { layout: usual, workers: None });
        };
        let chunk_size = match options.chunk_bytes {
            0 => usual.chunk_size,
            bytes => chunk_size(bytes)?,
        };
        let checksum = flag("options.checksum", options.checksum)?;
        Ok(Self { layout: Options { chunk_size, checksum }, workers: workers(options.workers)? })
    }
}

fn chunk_size(bytes: u32) -> Result<ChunkSize, Failure> {
    let size = bytes.is_power_of_two().then(|| ChunkSize::from_log2(bytes.trailing_zeros() as u8)).flatten();
    size.ok_or_else(|| {
        Failure::argument(format_args!(
            "options.chunkBytes is {bytes}: 4096, 8192, 16384, 32768 or 65536 are possible, or 0"
        ))
    })
}
