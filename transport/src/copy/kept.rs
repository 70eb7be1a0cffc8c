//! What is kept compressed.

use bytes::Bytes;
use mgcomp_codecs::frame::Frame;
use mgcomp_codecs::{Algorithm, Element};

use super::CopyError;
use crate::message::Status;
use crate::payload::{MemoryKind, Payload};

/// Bytes that are kept compressed where a copy left them, in the memory of the host or of a device. Clones share it.
///
/// One segment after the other: each is a frame, or raw (algorithm `none`) where a frame would not be smaller. A copy that is
/// no longer than a segment is one frame.
#[derive(Clone, Debug)]
pub struct Kept {
    pub(super) element: Element,
    pub(super) raw_bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) segments: Vec<Coded>,
}

/// A coded segment.
#[derive(Clone, Debug)]
pub(super) struct Coded {
    pub(super) algorithm: Algorithm,
    /// Ready.
    pub(super) bytes: Payload,
}

impl Kept {
    /// Takes in segments that were kept elsewhere, in host memory; each is checked as far as its header goes.
    ///
    /// # Errors
    /// [`CopyError::Segment`] naming the first segment that is not of `segment_bytes` raw bytes (the last one: of what is left),
    /// of `element`, or as its algorithm says.
    pub fn from_segments(
        element: Element,
        raw_bytes: u64,
        segment_bytes: u64,
        segments: Vec<(Algorithm, Bytes)>,
    ) -> Result<Self, CopyError> {
        let expected = raw_bytes
            .checked_div(segment_bytes)
            .map_or(u64::MAX, |whole| whole + u64::from(!raw_bytes.is_multiple_of(segment_bytes)));
        if segments.len() as u64 != expected {
            let (got, least) = (segments.len() as u64, expected);
            return Err(CopyError::Setting { what: "number of segments", got, least, most: least });
        }
        let mut taken = Vec::with_capacity(segments.len());
        for (index, (algorithm, bytes)) in segments.into_iter().enumerate() {
            let start = index as u64 * segment_bytes;
            let end = raw_bytes.min(start.saturating_add(segment_bytes));
            if !is_whole(algorithm, &bytes, element, end - start) {
                let status = Status::BadPayload;
                return Err(CopyError::Segment { start, end, raw_bytes, status, written_bytes: 0 });
            }
            taken.push(Coded { algorithm, bytes: Payload::from_bytes(bytes) });
        }
        Ok(Self { element, raw_bytes, segment_bytes, segments: taken })
    }

    /// What the bytes are.
    #[must_use]
    pub fn element(&self) -> Element {
        self.element
    }

    /// Bytes that it expands to.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Raw bytes of each segment but the last.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes.capacity()).sum()
    }

    /// The segments in order: how each is coded, and its frame or raw bytes, which are ready.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = (Algorithm, &Payload)> {
        self.segments.iter().map(|segment| (segment.algorithm, &segment.bytes))
    }

    /// Where it is; that of no bytes is in host memory.
    #[must_use]
    pub fn memory_kind(&self) -> MemoryKind {
        self.segments.first().map_or(MemoryKind::Host, |segment| segment.bytes.memory_kind())
    }

    /// How it is coded; `none` if no segment is.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        let coded = self.segments.iter().map(|segment| segment.algorithm);
        coded.into_iter().find(|algorithm| *algorithm != Algorithm::None).unwrap_or(Algorithm::None)
    }
}

/// Whether `bytes` say of themselves that they are `raw_bytes` bytes of `element`.
fn is_whole(algorithm: Algorithm, bytes: &Bytes, element: Element, raw_bytes: u64) -> bool {
    if algorithm == Algorithm::None {
        return bytes.len() as u64 == raw_bytes;
    }
    Frame::parse(bytes).is_ok_and(|frame| {
        let header = frame.header();
        header.algorithm == algorithm && header.element == element && header.raw_len == raw_bytes
    })
}
