//! The definition of ZCOMP.

use super::{Condition, HeaderSink, Lane, Source, Vector, ZcompError};

pub(super) fn store(
    lane: Lane,
    condition: Condition,
    vectors: &[Vector],
    headers: Option<&mut [u8]>,
    data: &mut [u8],
) -> usize {
    let width = lane.width_bytes();
    let (mut headers, mut at) = (HeaderSink::new(headers), 0);
    for vector in vectors {
        let kept = |element: &[u8]| is_kept(lane, condition, element);
        let elements = vector.chunks_exact(width);
        let mask = elements.clone().enumerate().fold(0, |mask, (i, e)| mask | u64::from(kept(e)) << i);
        at = headers.put(mask, lane.header_len(), data, at);
        for element in elements.filter(|e| kept(e)) {
            data[at..at + width].copy_from_slice(element);
            at += width;
        }
    }
    at
}

pub(super) fn load(
    lane: Lane,
    headers: Option<&[u8]>,
    data: &[u8],
    vectors: &mut [Vector],
) -> Result<usize, ZcompError> {
    let width = lane.width_bytes();
    let mut source = Source::new(headers, data);
    for vector in vectors {
        let (mask, mut at) = source.next(lane.header_len(), width)?;
        for (i, element) in vector.chunks_exact_mut(width).enumerate() {
            if mask >> i & 1 == 1 {
                element.copy_from_slice(&data[at..at + width]);
                at += width;
            } else {
                element.fill(0);
            }
        }
    }
    Ok(source.at)
}

fn is_kept(lane: Lane, condition: Condition, element: &[u8]) -> bool {
    let mut wide = [0; 8];
    wide[..element.len()].copy_from_slice(element);
    let bits = u64::from_le_bytes(wide);
    match (condition, lane) {
        (Condition::EqZ, _) => bits != 0,
        (Condition::LteZ, Lane::I8) => bits as i8 > 0,
        (Condition::LteZ, Lane::I32) => bits as i32 > 0,
        (Condition::LteZ, Lane::F16) => is_positive_or_nan(bits, 0x8000, 0x7c00),
        (Condition::LteZ, Lane::F32) => is_positive_or_nan(bits, 0x8000_0000, 0x7f80_0000),
        (Condition::LteZ, Lane::F64) => is_positive_or_nan(bits, 1 << 63, 0x7ff << 52),
    }
}

/// Whether a float with this sign bit and infinity is above zero, or no number.
const fn is_positive_or_nan(bits: u64, sign: u64, infinity: u64) -> bool {
    let is_positive = bits & sign == 0 && bits != 0;
    is_positive || bits & !sign > infinity
}
