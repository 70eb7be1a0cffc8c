//! What coded copies show: how long kernels take, and what becomes of the bytes. Nobody waits for it.
#![allow(unsafe_code)] // words that a stream writes

use std::time::Duration;

use mgcomp_codecs::device::{Device, DeviceError, Event, Pinned, Region, Stream};

use super::pipe::Segment;

/// Watches one copy at a time, and of that the kernels of the first segment: none of them waits for another one's room.
#[derive(Debug)]
pub(super) struct Watch<T> {
    /// Around the first segment's encoder and decoder.
    encoding: [Event; 2],
    decoding: [Event; 2],
    /// Behind the last segment, when the words are here.
    fetched: Event,
    /// What the kernels have left of each segment.
    words: Pinned,
    under_way: Option<Watched<T>>,
}

/// A copy that is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched<T> {
    /// Whatever its owner wants to know of it later.
    pub(super) what: T,
    pub(super) raw_bytes: u64,
    pub(super) segment_bytes: u64,
    /// How many bytes of words it leaves.
    pub(super) words_len: u64,
}

/// What a copy has shown.
#[derive(Debug, PartialEq)]
pub(super) struct Shown<T> {
    pub(super) what: T,
    /// What encoder and decoder take for all segments, if they take as long for each as for the first.
    pub(super) times: [Duration; 2],
    /// What they have left of all segments.
    pub(super) words: Vec<u64>,
}

impl<T: Copy> Watch<T> {
    /// For copies that leave up to `words_len` bytes of words.
    pub(super) fn new(from: &Device, to: &Device, words_len: u64) -> Result<Self, DeviceError> {
        Ok(Self {
            encoding: [from.event()?, from.event()?],
            decoding: [to.event()?, to.event()?],
            fetched: to.event()?,
            words: to.alloc_pinned(words_len)?,
            under_way: None,
        })
    }

    /// Whether another copy can be watched.
    pub(super) const fn is_free(&self) -> bool {
        self.under_way.is_none()
    }

    /// Enqueues the encoder of a segment by `work`.
    pub(super) fn encode(
        &self,
        stream: &Stream,
        segment: Segment,
        work: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        around(&self.encoding, stream, segment, work)
    }

    /// Enqueues the decoder of a segment by `work`.
    pub(super) fn decode(
        &self,
        stream: &Stream,
        segment: Segment,
        work: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        around(&self.decoding, stream, segment, work)
    }

    /// Has `words` brought here, behind all that writes to them.
    pub(super) fn fetch(&self, stream: &Stream, words: Region<'_>) -> Result<(), DeviceError> {
        stream.copy(words, self.words.region())?;
        stream.record(&self.fetched)
    }

    /// All of the copy is enqueued.
    pub(super) fn begin(&mut self, watched: Watched<T>) {
        self.under_way = Some(watched);
    }

    /// What a copy has shown, if it is over by now.
    pub(super) fn read(&mut self) -> Result<Option<Shown<T>>, DeviceError> {
        let Some(watched) = self.under_way else { return Ok(None) };
        let shown = self.look(watched);
        if !matches!(shown, Ok(None)) {
            self.under_way = None;
        }
        shown
    }

    fn look(&self, watched: Watched<T>) -> Result<Option<Shown<T>>, DeviceError> {
        let Watched { what, raw_bytes, segment_bytes, words_len } = watched;
        if self.fetched.since_if_over(&self.decoding[0])?.is_none() {
            return Ok(None);
        }
        let whole = |[start, end]: &[Event; 2]| {
            let share = raw_bytes as f64 / segment_bytes.min(raw_bytes) as f64;
            end.since(start).map(|took| took.mul_f64(share))
        };
        let count = (words_len.min(self.words.region().len()) / 8) as usize;
        // SAFETY: the memory has so many words, on a multiple of 8; only what a copy enqueues writes there, that of the last one
        // has ended, and nothing of the next one is enqueued while `self` is looked at.
        let words = unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<u64>(), count) };
        let times = [whole(&self.encoding)?, whole(&self.decoding)?];
        Ok(Some(Shown { what, times, words: words.to_vec() }))
    }
}

/// Enqueues `work`, between two events if it is on the first segment.
fn around(
    [start, end]: &[Event; 2],
    stream: &Stream,
    segment: Segment,
    work: impl FnOnce() -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    if segment.number > 0 {
        return work();
    }
    stream.record(start)?;
    work()?;
    stream.record(end)
}
