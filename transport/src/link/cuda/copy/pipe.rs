//! Rooms between two devices, which one stream fills and another empties.

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Event, Pinned, Region, Stream};

/// While one room is emptied, the other is filled.
const ROOMS: usize = 2;

/// Memory between two devices, which both use.
#[derive(Debug)]
pub(super) enum Memory {
    /// Of the second device.
    Peer(Buffer),
    /// Of the host.
    Host(Pinned),
}

impl Memory {
    /// Memory of `to` if `from` reaches it, else of the host.
    pub(super) fn between(is_direct: bool, to: &Device, len: u64) -> Result<Self, DeviceError> {
        if is_direct { to.alloc(len).map(Self::Peer) } else { to.alloc_pinned(len).map(Self::Host) }
    }

    pub(super) fn region(&self) -> Region<'_> {
        match self {
            Self::Peer(buffer) => buffer.region(),
            Self::Host(pinned) => pinned.region(),
        }
    }
}

/// A stream of each device, and rooms between them.
#[derive(Debug)]
pub(super) struct Pipe {
    /// Of the first device: fills.
    pub(super) out: Stream,
    /// Of the second device: empties.
    pub(super) into: Stream,
    rooms: Vec<Room>,
    /// Behind all that was enqueued for a copy.
    end: Event,
}

#[derive(Debug)]
struct Room {
    memory: Memory,
    filled: Event,
    emptied: Event,
}

/// A part of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Segment {
    /// Those of a copy.
    pub(super) fn all(raw_len: u64, segment_bytes: u64) -> impl ExactSizeIterator<Item = Self> {
        let count = raw_len.div_ceil(segment_bytes) as usize;
        (0..count).map(move |number| {
            let offset = number as u64 * segment_bytes;
            Self { number: number as u64, offset, len: segment_bytes.min(raw_len - offset) }
        })
    }

    /// Its bytes of a whole copy's.
    pub(super) fn of(self, whole: Region<'_>) -> Region<'_> {
        whole.slice(self.offset..self.offset + self.len)
    }
}

impl Pipe {
    pub(super) fn new(
        from: &Device,
        to: &Device,
        room: impl Fn() -> Result<Memory, DeviceError>,
    ) -> Result<Self, DeviceError> {
        let room = |_| Ok(Room { memory: room()?, filled: from.milestone()?, emptied: to.milestone()? });
        Ok(Self {
            out: from.stream()?,
            into: to.stream()?,
            rooms: (0..ROOMS).map(room).collect::<Result<_, DeviceError>>()?,
            end: to.milestone()?,
        })
    }

    /// Enqueues, for each segment, that `fill` fills a room and then `empty` empties it: after what is on `stream`, and
    /// before what comes there next. After an error nothing of it is under way.
    pub(super) fn run(
        &mut self,
        stream: &Stream,
        segments: impl Iterator<Item = Segment>,
        fill: impl FnMut(&Stream, Segment, Region<'_>) -> Result<(), DeviceError>,
        empty: impl FnMut(&Stream, Segment, Region<'_>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let enqueued = self.enqueue(stream, segments, fill, empty);
        if enqueued.is_err() {
            self.settle();
        }
        enqueued
    }

    fn enqueue(
        &self,
        stream: &Stream,
        segments: impl Iterator<Item = Segment>,
        mut fill: impl FnMut(&Stream, Segment, Region<'_>) -> Result<(), DeviceError>,
        mut empty: impl FnMut(&Stream, Segment, Region<'_>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.out.follow(stream)?;
        for (segment, turn) in segments.zip(0..) {
            let room = &self.rooms[turn % ROOMS];
            // Of this copy: one that is recorded must not wait for what is not. `end` keeps whole copies apart.
            if turn >= ROOMS {
                self.out.follow_event(&room.emptied)?;
            }
            fill(&self.out, segment, room.memory.region())?;
            self.out.record(&room.filled)?;
            self.into.follow_event(&room.filled)?;
            empty(&self.into, segment, room.memory.region())?;
            self.into.record(&room.emptied)?;
        }
        self.into.record(&self.end)?;
        stream.follow_event(&self.end)?;
        self.out.follow_event(&self.end)
    }

    /// Waits until nothing is under way.
    pub(super) fn wait(&self) -> Result<(), DeviceError> {
        self.out.wait()?;
        self.into.wait()
    }

    /// The same where something has failed, or all is over. If even that fails, the context is lost and runs nothing any more, or the streams
    /// are being recorded and run nothing yet.
    fn settle(&self) {
        for stream in [&self.out, &self.into] {
            if let Err(error) = stream.wait() {
                tracing::warn!(%error, "a stream does not come to its end");
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_the_whole() {
        for (raw_len, segment_bytes) in [(0, 4), (1, 4), (4, 4), (5, 4), (12, 4), (u64::MAX - 1, 1 << 62)] {
            let segments: Vec<_> = Segment::all(raw_len, segment_bytes).collect();
            let mut end = 0;
            for segment in &segments {
                assert!(segment.offset == end && (1..=segment_bytes).contains(&segment.len), "{segment:?}");
                end += segment.len;
            }
            assert_eq!(end, raw_len);
        }
    }
}
