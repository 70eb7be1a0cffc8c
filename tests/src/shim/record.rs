//! Records for `replay.cpp`: frames and what a kernel must answer to them.

use super::{Launch, Shim, launch};
use mgcomp_codecs::Algorithm;

/// Appends the record of one launch to `file`. The expected answer is that of this build's kernel, which other
/// tests compare with the portable decoder.
pub fn push(
    file: &mut Vec<u8>,
    shim: Shim,
    algorithm: Algorithm,
    frame: &[u8],
    dst_len: usize,
    launch: Launch,
) {
    let (status, raw) = shim.decode(algorithm, frame, dst_len, launch);
    let order = launch.order.number();
    for field in [algorithm.number().into(), launch.blocks, order, launch.dst_offset as u32] {
        file.extend(field.to_le_bytes());
    }
    for field in [u64::from(status.code), frame.len() as u64, dst_len as u64] {
        file.extend(field.to_le_bytes());
    }
    file.extend_from_slice(frame);
    if status.code == launch::GOOD {
        file.extend(raw);
    }
}
