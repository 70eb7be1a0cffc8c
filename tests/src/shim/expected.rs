//! What a kernel must answer, by the portable decoder.

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::frame::Frame;

/// The raw bytes of `frame`, if the portable decoder accepts it as `dst_len` bytes coded by `algorithm`.
///
/// Checksums in the chunk table are left out, because the kernels do not compare them.
#[must_use]
pub fn expected(algorithm: Algorithm, frame: &[u8], dst_len: usize) -> Option<Vec<u8>> {
    let frame = Frame::parse(frame).ok()?;
    let header = frame.header();
    if header.algorithm != algorithm || header.raw_len != dst_len as u64 {
        return None;
    }
    let mut raw = vec![0; dst_len];
    for (mut chunk, out) in frame.chunks().zip(raw.chunks_mut(header.chunk_size.bytes())) {
        chunk.checksum = None;
        frame.decode_chunk(&chunk, out).ok()?;
    }
    Some(raw)
}
