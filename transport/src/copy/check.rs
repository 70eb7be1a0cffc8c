//! What can be copied, and how.

use mgcomp_codecs::Element;

use super::{CopyConfig, CopyError};
use crate::memory::HostSlice;
use crate::payload::Payload;

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

pub(super) fn check_pair(destination: &Payload, source: &Payload, element: Element) -> Result<(), CopyError> {
    check_source(source, element)?;
    check_destination(destination, source.capacity(), element)?;
    match reach(source)?.overlap(reach(destination)?) {
        Some(common) => Err(CopyError::Overlap { bytes: common.len(), offset: common.start }),
        None => Ok(()),
    }
}

pub(super) fn check_source(source: &Payload, element: Element) -> Result<(), CopyError> {
    let (bytes, width_bytes) = (source.capacity(), element.width_bytes());
    if !bytes.is_multiple_of(width_bytes as u64) {
        return Err(CopyError::OddLength { bytes, width_bytes });
    }
    check_place(source, element)
}

pub(super) fn check_destination(
    destination: &Payload,
    source_bytes: u64,
    element: Element,
) -> Result<(), CopyError> {
    let destination_bytes = destination.capacity();
    if destination_bytes != source_bytes {
        return Err(CopyError::Length { source_bytes, destination_bytes });
    }
    check_place(destination, element)
}

fn check_place(payload: &Payload, element: Element) -> Result<(), CopyError> {
    let (offset, width_bytes) = (reach(payload)?.offset(), element.width_bytes());
    if offset.is_multiple_of(width_bytes) {
        Ok(())
    } else {
        Err(CopyError::Misaligned { offset, width_bytes })
    }
}

/// The host memory behind a payload.
fn reach(payload: &Payload) -> Result<&HostSlice, CopyError> {
    payload.memory().ok_or(CopyError::Place { place: payload.place() })
}
