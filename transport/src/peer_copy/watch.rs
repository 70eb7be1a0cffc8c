//! What coded copies show: how long kernels take, and what becomes of the bytes. Nobody waits for it.
#![allow(unsafe_code)] // words that a stream writes

use std::time::Duration;

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Event, Pinned, Region, Stream};

/// Watches one copy at a time, and of that the kernels of one segment.
#[derive(Debug)]
pub(super) struct Watch<T> {
    /// Around that segment's encoder and decoder.
    encoding: [Event; 2],
    decoding: [Event; 2],
    /// Behind the last segment, when the words are here.
    fetched: Event,
    /// What the kernels have left of each segment.
    words: Pinned,
    /// Where it goes first if the kernels have left it on the host: the driver lets threads wait for copies from there to there.
    relay: Option<Buffer>,
    under_way: Option<Watched<T>>,
}

/// A copy that is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched<T> {
    /// Whatever its owner wants to know of it later.
    pub(super) what: T,
    pub(super) raw_bytes: u64,
    /// Of the segment whose kernels are timed.
    pub(super) segment_bytes: u64,
    /// How many bytes of words it leaves.
    pub(super) words_len: u64,
}

/// What a copy has shown.
#[derive(Debug, PartialEq)]
pub(super) struct Shown<T> {
    pub(super) what: T,
    /// What encoder and decoder take for all segments, if they take as long for each as for the one that is timed.
    pub(super) times: [Duration; 2],
    /// What they have left of all segments.
    pub(super) words: Vec<u64>,
}

impl<T: Copy> Watch<T> {
    /// For copies that leave up to `words_len` bytes of words, in the memory of `to` if `is_direct`, else on the host.
    pub(super) fn new(
        from: &Device,
        to: &Device,
        words_len: u64,
        is_direct: bool,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            encoding: [from.event()?, from.event()?],
            decoding: [to.event()?, to.event()?],
            fetched: to.event()?,
            words: to.alloc_pinned(words_len)?,
            relay: if is_direct { None } else { Some(to.alloc(words_len)?) },
            under_way: None,
        })
    }

    /// Whether another copy can be watched.
    pub(super) const fn is_free(&self) -> bool {
        self.under_way.is_none()
    }

    /// Which segment of a copy to time: not the first, which begins as soon as it is enqueued, in part; nor a later one, which
    /// waits for room. But one that is shorter than the others would say little of them.
    pub(super) const fn timed(raw_bytes: u64, segment_bytes: u64) -> u64 {
        if raw_bytes / 2 >= segment_bytes { 1 } else { 0 }
    }

    /// Enqueues the encoder that is timed by `work`.
    pub(super) fn encode(
        &self,
        stream: &Stream,
        work: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        around(&self.encoding, stream, work)
    }

    /// Enqueues the decoder that is timed by `work`.
    pub(super) fn decode(
        &self,
        stream: &Stream,
        work: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        around(&self.decoding, stream, work)
    }

    /// Has `words` brought here, behind all that writes to them.
    pub(super) fn fetch(&self, stream: &Stream, words: Region<'_>) -> Result<(), DeviceError> {
        let words = match &self.relay {
            Some(relay) => {
                stream.copy(words, relay.region())?;
                relay.region().slice(0..words.len())
            }
            None => words,
        };
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

/// Enqueues `work` between two events.
fn around(
    [start, end]: &[Event; 2],
    stream: &Stream,
    work: impl FnOnce() -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    stream.record(start)?;
    work()?;
    stream.record(end)
}
