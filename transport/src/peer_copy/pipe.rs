//! Rooms between two devices, which one stream fills and another empties, or the same where both devices are one context.
//!
//! The stream that a copy is enqueued on does itself what a stream of its context can do, so that events are only recorded and
//! waited for where work goes on on another stream. Copies share the rooms, so each waits for the end of the last one, wherever that was.

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Event, Pinned, Region, Stream, StreamIdentity};

/// While one room is emptied, the other is filled. Where one stream does both, a second one is of no use.
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

/// Streams of both devices, and rooms between them.
#[derive(Debug)]
pub(super) struct Pipe {
    /// The first one.
    device: Device,
    /// Of the first device: fills, unless the stream of a copy does.
    pub(super) out: Stream,
    /// Of the second device: empties, unless another one does.
    pub(super) into: Stream,
    rooms: Vec<Room>,
    /// Behind what is before a copy, on a stream of the second device.
    given: Event,
    /// Behind all that was enqueued for the last copy, and so for those before.
    end: Event,
    /// The same in a recording. What is recorded must not wait for what is not, nor the other way round.
    recorded_end: Event,
    /// What is behind `end`; none if nothing is under way.
    last: Option<Behind>,
    /// The last recording with a copy, and what is behind `recorded_end`.
    recorded: Option<(u64, Behind)>,
}

/// The stream that a copy was enqueued on, which so comes behind its end; `None` if nothing tells it from others.
type Behind = Option<StreamIdentity>;

#[derive(Debug)]
struct Room {
    memory: Memory,
    filled: Event,
    emptied: Event,
}

/// The streams that do the work of a copy.
#[derive(Clone, Copy)]
struct Workers<'a> {
    fills: &'a Stream,
    empties: &'a Stream,
    /// Whether that is one stream, whose order needs no events.
    is_one: bool,
    /// Whether the stream of the copy is the one that empties.
    ends_on_stream: bool,
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
        let rooms = if from.is_same(to) { 1 } else { ROOMS };
        Ok(Self {
            device: from.clone(),
            out: from.stream()?,
            into: to.stream()?,
            rooms: (0..rooms).map(room).collect::<Result<_, DeviceError>>()?,
            given: to.milestone()?,
            end: to.milestone()?,
            recorded_end: to.milestone()?,
            last: None,
            recorded: None,
        })
    }

    /// Enqueues, for each segment, that `fill` fills a room and then `empty` empties it: after what is on `stream`, and
    /// before what comes there next. `recording` is what [`Stream::recording`] says of it. After an error nothing of it is under way.
    pub(super) fn run(
        &mut self,
        (stream, recording): (&Stream, Option<u64>),
        segments: impl ExactSizeIterator<Item = Segment>,
        fill: impl FnMut(&Stream, Segment, Region<'_>) -> Result<(), DeviceError>,
        empty: impl FnMut(&Stream, Segment, Region<'_>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let enqueued = self.enqueue((stream, recording), segments, fill, empty);
        if enqueued.is_err() {
            let Workers { fills, empties, .. } = self.workers(stream);
            self.settle([fills, empties]);
        }
        // Where it has failed, nobody knows what `end` is behind of.
        let behind = stream.identity().filter(|_| enqueued.is_ok());
        match recording {
            None => self.last = Some(behind),
            Some(id) => {
                let is_marked = enqueued.is_ok() || self.recorded.is_some_and(|(last, _)| last == id);
                // Else `recorded_end` may be of another recording, which this one cannot wait for.
                if is_marked {
                    self.recorded = Some((id, behind));
                }
            }
        }
        enqueued
    }

    fn enqueue(
        &self,
        (stream, recording): (&Stream, Option<u64>),
        segments: impl ExactSizeIterator<Item = Segment>,
        mut fill: impl FnMut(&Stream, Segment, Region<'_>) -> Result<(), DeviceError>,
        mut empty: impl FnMut(&Stream, Segment, Region<'_>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Workers { fills, empties, is_one, ends_on_stream } = self.workers(stream);
        self.begin((stream, recording), fills)?;
        let (count, rooms) = (segments.len(), self.rooms.len());
        for (segment, turn) in segments.zip(0..) {
            let room = &self.rooms[turn % rooms];
            // Of this copy, since the end of the last one is waited for.
            if turn >= rooms && !is_one {
                fills.follow_event(&room.emptied)?;
            }
            fill(fills, segment, room.memory.region())?;
            if !is_one {
                fills.record(&room.filled)?;
                empties.follow_event(&room.filled)?;
            }
            empty(empties, segment, room.memory.region())?;
            if turn + rooms < count && !is_one {
                empties.record(&room.emptied)?;
            }
        }
        let end = if recording.is_some() { &self.recorded_end } else { &self.end };
        empties.record(end)?;
        if ends_on_stream { Ok(()) } else { stream.follow_event(end) }
    }

    /// Who works on a copy on `stream`.
    fn workers<'a>(&'a self, stream: &'a Stream) -> Workers<'a> {
        let own = |own: &'a Stream| if stream.is_beside(own) { stream } else { own };
        let (fills, is_one) = (own(&self.out), self.out.is_beside(&self.into));
        let empties = if is_one { fills } else { own(&self.into) };
        Workers { fills, empties, is_one, ends_on_stream: stream.is_beside(&self.into) }
    }

    /// Lets what comes next on the stream that fills wait for what is on `stream`, and for the last copy.
    fn begin(&self, (stream, recording): (&Stream, Option<u64>), fills: &Stream) -> Result<(), DeviceError> {
        let last = match (recording, self.recorded) {
            (None, _) => self.last.map(|behind| (&self.end, behind)),
            (Some(id), Some((last, behind))) if id == last => Some((&self.recorded_end, behind)),
            // What is launched later comes behind other copies because whoever launches it sees to that.
            (Some(_), _) => None,
        };
        if let Some((end, behind)) = last
            && (behind.is_none() || behind != fills.identity())
        {
            fills.follow_event(end)?;
        }
        if stream.is_beside(fills) {
            Ok(())
        } else if self.given.is_of(stream) {
            stream.record(&self.given)?;
            fills.follow_event(&self.given)
        } else {
            fills.follow(stream)
        }
    }

    /// Lets what comes next on `stream` wait for the last copy, wherever that was, unless it was recorded.
    pub(super) fn let_follow(&self, stream: &Stream) -> Result<(), DeviceError> {
        match self.last {
            Some(behind) if behind.is_none() || behind != stream.identity() => stream.follow_event(&self.end),
            _ => Ok(()),
        }
    }

    /// Waits until nothing is under way but what was recorded.
    pub(super) fn wait(&self) -> Result<(), DeviceError> {
        self.out.wait()?;
        self.into.wait()?;
        self.end.wait()
    }

    /// Whether nothing is.
    pub(super) fn is_idle(&self) -> Result<bool, DeviceError> {
        // Other streams may record.
        self.device.relaxed(|| self.end.is_over())
    }

    /// Waits for streams where something has failed, also while others record. If even that fails, the context is lost and runs
    /// nothing any more, or these streams are being recorded and run nothing yet.
    fn settle(&self, streams: [&Stream; 2]) {
        for stream in streams {
            if let Err(error) = self.device.relaxed(|| stream.wait()) {
                tracing::warn!(%error, "a stream does not come to its end");
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.settle([&self.out, &self.into]);
        if let Err(error) = self.device.relaxed(|| self.end.wait()) {
            tracing::warn!(%error, "copies do not come to their end");
        }
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
