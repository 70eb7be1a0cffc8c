//! Codecs on single chunks.
#![allow(unsafe_code)] // called from C

use std::ffi::c_void;
use std::mem::MaybeUninit;

use mgcomp_codecs::{Algorithm, Codec, codec};

use crate::error::{Failure, call, mgcompResult};
use crate::memory::{Out, Span, check_room};
use crate::number::{algorithm, element, mgcompAlgorithm, mgcompElement};

/// The most raw bytes of a chunk.
pub const MGCOMP_MAX_CHUNK_BYTES: usize = 65536;

/// The room that mgcompEncodeChunk needs for the code of a chunk.
///
/// @param rawBytes bytes of the chunk, at most MGCOMP_MAX_CHUNK_BYTES.
/// @param codedBytes set to the room, in bytes. It may be more than rawBytes.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompBoundChunk(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    element: MaybeUninit<mgcompElement>,
    raw_bytes: usize,
    coded_bytes: *mut usize,
) -> mgcompResult {
    call(|| {
        let (codec, element) = (codec_of(algorithm)?, self::element(element)?);
        check_chunk(raw_bytes)?;
        // SAFETY: the header asks for a place for a number, or NULL.
        unsafe { Out::new("codedBytes", coded_bytes) }?.set(codec.max_chunk_len(element, raw_bytes));
        Ok(())
    })
}

/// The bytes that mgcompEncodeChunk would write, without writing any.
///
/// @param raw the chunk: rawBytes bytes, at most MGCOMP_MAX_CHUNK_BYTES.
/// @param codedBytes set to the length of the code.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompMeasureChunk(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    element: MaybeUninit<mgcompElement>,
    raw: *const c_void,
    raw_bytes: usize,
    coded_bytes: *mut usize,
) -> mgcompResult {
    call(|| {
        let (codec, element) = (codec_of(algorithm)?, self::element(element)?);
        let raw = Span::new("raw", raw, raw_bytes)?;
        check_chunk(raw_bytes)?;
        // SAFETY: the header asks for these bytes, and a place for a number or NULL.
        let (raw, out) = unsafe { (raw.bytes(), Out::new("codedBytes", coded_bytes)?) };
        out.set(codec.chunk_len(element, raw));
        Ok(())
    })
}

/// Encodes a chunk by itself, without header or checksum. What decodes it has to know algorithm, element and length; a frame
/// (mgcompEncodeFrame) says all that itself. A code may be longer than the chunk.
///
/// @param raw the chunk: rawBytes bytes, at most MGCOMP_MAX_CHUNK_BYTES.
/// @param coded room for codedCapacity bytes, as many as mgcompBoundChunk says or more. It may be written anywhere. It must not
/// overlap raw.
/// @param codedBytes set to the length of the code, which starts at coded.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompEncodeChunk(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    element: MaybeUninit<mgcompElement>,
    raw: *const c_void,
    raw_bytes: usize,
    coded: *mut c_void,
    coded_capacity: usize,
    coded_bytes: *mut usize,
) -> mgcompResult {
    call(|| {
        let (codec, element) = (codec_of(algorithm)?, self::element(element)?);
        let (raw, coded) = (Span::new("raw", raw, raw_bytes)?, Span::new("coded", coded, coded_capacity)?);
        check_chunk(raw_bytes)?;
        check_room("coded", codec.max_chunk_len(element, raw_bytes), coded_capacity)?;
        raw.apart_from(&coded)?;
        // SAFETY: the header asks for these bytes, which do not overlap, and a place for a number or NULL.
        let (raw, coded, out) =
            unsafe { (raw.bytes(), coded.bytes_mut(), Out::new("codedBytes", coded_bytes)?) };
        out.set(codec.encode_chunk(element, raw, coded));
        Ok(())
    })
}

/// Decodes what mgcompEncodeChunk has written.
///
/// @param coded the code: codedBytes bytes, of any origin.
/// @param raw room for the chunk: exactly its rawBytes bytes. It must not overlap coded. After MGCOMP_RESULT_BAD_DATA it holds
/// anything.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompDecodeChunk(
    algorithm: MaybeUninit<mgcompAlgorithm>,
    element: MaybeUninit<mgcompElement>,
    coded: *const c_void,
    coded_bytes: usize,
    raw: *mut c_void,
    raw_bytes: usize,
) -> mgcompResult {
    call(|| {
        let (codec, element) = (codec_of(algorithm)?, self::element(element)?);
        let (coded, raw) = (Span::new("coded", coded, coded_bytes)?, Span::new("raw", raw, raw_bytes)?);
        check_chunk(raw_bytes)?;
        coded.apart_from(&raw)?;
        // SAFETY: the header asks for these bytes, which do not overlap.
        let (coded, raw) = unsafe { (coded.bytes(), raw.bytes_mut()) };
        let decoded = codec.decode_chunk(element, coded, raw);
        decoded.map_err(|error| Failure::new(mgcompResult::BadData, error))
    })
}

/// The codec of an algorithm that has one.
pub(crate) fn codec_of(value: MaybeUninit<mgcompAlgorithm>) -> Result<&'static dyn Codec, Failure> {
    let algorithm = algorithm(value)?;
    codec(algorithm).ok_or_else(|| match algorithm {
        Algorithm::None => Failure::argument("algorithm none codes nothing"),
        _ => Failure::new(mgcompResult::Unsupported, format_args!("there is no codec for {algorithm}")),
    })
}

fn check_chunk(raw_bytes: usize) -> Result<(), Failure> {
    if raw_bytes <= MGCOMP_MAX_CHUNK_BYTES {
        return Ok(());
    }
    let most = MGCOMP_MAX_CHUNK_BYTES;
    Err(Failure::argument(format_args!("a chunk of {raw_bytes} bytes: at most {most} are possible")))
}
