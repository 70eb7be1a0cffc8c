//! What can be copied, and how.

use std::ops::Range;

use mgcomp_codecs::Element;

use super::{CopyConfig, CopyError, Direction, Kept};
use crate::memory::Slice;
use crate::payload::{MemoryKind, Payload};

/// Segments are multiples of so many bytes: any element fits, and every line of a codec.
const SEGMENT_GRAIN: usize = 64;
/// The longest segment, in bytes.
const LONGEST_SEGMENT: usize = 1 << 30;
/// The most segments under way in one direction.
const WIDEST_WINDOW: usize = 1 << 16;
/// The most threads.
const MOST_THREADS: usize = 1024;

pub(super) fn check_config(config: &CopyConfig) -> Result<(), CopyError> {
    let setting = |what, got: usize, least: usize, most: usize| match (least..=most).contains(&got) {
        true => Ok(()),
        false => Err(CopyError::Setting { what, got: got as u64, least: least as u64, most: most as u64 }),
    };
    setting("codec threads", config.codec_threads, 1, MOST_THREADS)?;
    setting("segment bytes", config.segment_bytes, SEGMENT_GRAIN, LONGEST_SEGMENT)?;
    setting("segment bytes beyond a multiple of 64", config.segment_bytes % SEGMENT_GRAIN, 0, 0)?;
    setting("window", config.window, 1, WIDEST_WINDOW)
}

pub(super) fn check_pair(
    destination: &Payload,
    source: &Payload,
    direction: Direction,
    element: Element,
) -> Result<(), CopyError> {
    check_source(source, direction, element)?;
    check_destination(destination, direction, source.capacity(), element)?;
    match overlap(reach(source)?, reach(destination)?) {
        Some(common) => Err(CopyError::Overlap { bytes: common.len(), offset: common.start }),
        None => Ok(()),
    }
}

pub(super) fn check_source(
    source: &Payload,
    direction: Direction,
    element: Element,
) -> Result<(), CopyError> {
    let (bytes, width_bytes) = (source.capacity(), element.width_bytes());
    if !bytes.is_multiple_of(width_bytes as u64) {
        return Err(CopyError::OddLength { bytes, width_bytes });
    }
    check_place(source, (direction, direction.reads_device()), element)
}

pub(super) fn check_destination(
    destination: &Payload,
    direction: Direction,
    source_bytes: u64,
    element: Element,
) -> Result<(), CopyError> {
    let destination_bytes = destination.capacity();
    if destination_bytes != source_bytes {
        return Err(CopyError::Length { source_bytes, destination_bytes });
    }
    check_place(destination, (direction, direction.writes_device()), element)
}

/// What is kept on a device is read from there.
pub(super) fn check_kept(kept: &Kept, direction: Direction) -> Result<(), CopyError> {
    let place = kept.memory_kind();
    if !matches!(place, MemoryKind::Device(_)) || direction.reads_device() {
        Ok(())
    } else {
        Err(CopyError::Direction { direction, place })
    }
}

/// Memory of the host may stand for that of a device; memory of a device is what it is.
fn check_place(
    payload: &Payload,
    (direction, may_be_device): (Direction, bool),
    element: Element,
) -> Result<(), CopyError> {
    let (slice, place) = (reach(payload)?, payload.memory_kind());
    if place != MemoryKind::Host && !may_be_device {
        return Err(CopyError::Direction { direction, place });
    }
    let (offset, width_bytes) = (offset(slice), element.width_bytes());
    // Where nothing is may be anywhere.
    if slice.is_empty() || offset.is_multiple_of(width_bytes) {
        Ok(())
    } else {
        Err(CopyError::Misaligned { offset, width_bytes })
    }
}

/// The memory behind a payload.
fn reach(payload: &Payload) -> Result<&Slice, CopyError> {
    payload.slice().ok_or(CopyError::Place { place: payload.memory_kind() })
}

/// Where it begins: in its buffer, or in the memory of a device.
fn offset(slice: &Slice) -> usize {
    match slice {
        Slice::Host(slice) => slice.offset(),
        #[cfg(feature = "cuda")]
        Slice::Device(slice) => slice.region().address() as usize,
    }
}

/// The bytes that both have.
fn overlap(a: &Slice, b: &Slice) -> Option<Range<usize>> {
    let range = |slice: &Slice| offset(slice)..offset(slice) + slice.len();
    let (a_range, b_range) = (range(a), range(b));
    a.overlaps(b).then(|| a_range.start.max(b_range.start)..a_range.end.min(b_range.end))
}
