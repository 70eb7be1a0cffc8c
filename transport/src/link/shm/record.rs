//! Records: how messages stand one after the other in a ring.
//!
//! ```text
//! byte 0             4          8
//!      length, u32   kind, u32  message: header, then payload; then up to the next multiple of 64 anything
//! ```
//! Numbers are little-endian; the length is that of the message. The kind is 0; or, where a link on top of this one has memory
//! of its own, 1 for a message whose payload lies there: the 16 bytes behind the header say where. If that is over 1,024 bytes, the payload begins at the
//! first multiple of 64 behind the header: copies are up to twice as fast if both sides begin alike. A record longer
//! than the ring goes through it in pieces.

use bytes::Bytes;

use super::buffer::Buffer;
use super::guest::PLACE_LEN;
use super::ring::{LINE, Misplaced, PIECE_BYTES, Reader, Writer};
use crate::link::flow::held_bytes;
use crate::link::{LinkError, Message};
use crate::memory::HeldMut;
use crate::message::{Header, MAX_HEADER_LEN, MessageError, Rank};
use crate::payload::Payload;
use crate::pool::Pool;

/// Bytes before the message.
const PREFIX_LEN: usize = 8;
/// Bytes that hold the prefix and any header.
const FRONT_LEN: usize = PREFIX_LEN + MAX_HEADER_LEN;
/// The payloads of longer messages begin at a line.
const UNALIGNED_LEN: usize = 1024;

/// Messages of so many bytes go past the caches.
const STREAMED_LEN: usize = 32 << 10;

/// Kinds of records: of messages as they are, and of those whose payload is elsewhere.
const WHOLE: u32 = 0;
const PLACED: u32 = 1;

/// Where the payload of a message begins in its record.
fn payload_start(header_len: usize, message_len: usize) -> usize {
    let end = PREFIX_LEN + header_len;
    if message_len > UNALIGNED_LEN { end.next_multiple_of(LINE) } else { end }
}

/// A message that is to be written, or is being.
pub(super) struct Record {
    front: [u8; 2 * LINE],
    front_len: usize,
    message_len: usize,
    payload: Bytes,
    /// Bytes of the record that are in the ring.
    done: usize,
    /// What it counts for in a queue, in bytes.
    held_bytes: u64,
}

impl Record {
    /// The record of a message. Its length must fit in 32 bits, or the record must not be written.
    pub(super) fn new(header: &Header, payload: Bytes) -> Self {
        let header = header.encode();
        let message_len = header.len() + payload.len();
        let mut front = [0; 2 * LINE];
        front[..4].copy_from_slice(&(message_len as u32).to_le_bytes());
        front[PREFIX_LEN..PREFIX_LEN + header.len()].copy_from_slice(&header);
        let front_len = payload_start(header.len(), message_len);
        let held_bytes = held_bytes(message_len as u64);
        Self { front, front_len, message_len, payload, done: 0, held_bytes }
    }

    /// The record of a message whose payload is elsewhere.
    #[cfg(feature = "cuda")]
    pub(super) fn placed(header: &Header, place: [u8; PLACE_LEN]) -> Self {
        let mut record = Self::new(header, Bytes::copy_from_slice(&place));
        record.front[4..PREFIX_LEN].copy_from_slice(&PLACED.to_le_bytes());
        record
    }

    /// The same that counts for so many bytes in a queue.
    #[cfg(feature = "cuda")]
    pub(super) fn holding(self, held_bytes: u64) -> Self {
        Self { held_bytes, ..self }
    }

    /// What it counts for in a queue, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Bytes of the message.
    pub(super) fn message_len(&self) -> usize {
        self.message_len
    }

    /// Bytes of the record that are in the ring.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Writes as much as there is room for, at most `most` bytes. Returns whether all is written.
    pub(super) fn write(&mut self, writer: &mut Writer, most: usize) -> Result<bool, Misplaced> {
        let total = (self.front_len + self.payload.len()).next_multiple_of(LINE);
        let end = total.min(self.done + most);
        while self.done < end {
            let wanted = (end - self.done).min(PIECE_BYTES);
            let len = writer.room(wanted)?.min(wanted) / LINE * LINE;
            if len == 0 {
                return Ok(false);
            }
            self.put(writer, len);
            writer.publish(len);
            self.done += len;
        }
        Ok(self.done == total)
    }

    /// Copies the next `len` bytes, of which the last may lie behind the message.
    fn put(&self, writer: &Writer, len: usize) {
        let front = &self.front[self.done.min(self.front_len)..self.front_len.min(self.done + len)];
        writer.put(0, front, false);
        let start = (self.done + front.len()).saturating_sub(self.front_len);
        let payload = &self.payload[start.min(self.payload.len())..];
        let payload = &payload[..payload.len().min(len - front.len())];
        writer.put(front.len(), payload, self.message_len >= STREAMED_LEN);
    }
}

/// Takes records out of a ring.
pub(super) struct Intake {
    peer: Rank,
    /// Longest message in bytes.
    limit: u64,
    /// Records that are done.
    record: u64,
    open: Option<Open>,
    pool: Pool,
    /// Whether payloads may be elsewhere.
    takes_placed: bool,
}

/// The beginning of a record, and what it says.
struct Front {
    copy: [u8; FRONT_LEN],
    header: Header,
    header_len: usize,
    message_len: usize,
    kind: u32,
}

/// A message of which not all is there.
struct Open {
    header: Header,
    message_len: usize,
    kind: u32,
    payload: Landing,
    /// Bytes of the payload that are missing.
    missing: usize,
}

/// Where a payload is received.
enum Landing {
    Buffer(Buffer),
    /// Where whoever expects it wants it.
    Place(HeldMut),
}

/// What a look into the ring brings.
pub(super) enum Taken {
    /// All that is there was taken, and no message is complete.
    Nothing,
    /// Some of a message, which goes on.
    Part,
    /// A message, and how long it was.
    Message(Message, u64),
    /// The same of one whose payload is elsewhere.
    Placed(Header, [u8; PLACE_LEN], u64),
}

/// Why nothing more can be taken.
pub(super) enum Broken {
    /// The bytes are no message.
    Malformed(MessageError),
    /// The ring is out of order.
    Ring(LinkError),
}

impl Intake {
    pub(super) fn new(peer: Rank, limit: u64, pool: Pool, takes_placed: bool) -> Self {
        Self { peer, limit, record: 0, open: None, pool, takes_placed }
    }

    /// Takes at most a piece of the ring's bytes, or a small message. `landing` says where a payload is to be put, if it
    /// is to be put anywhere: the message has it there then.
    pub(super) fn take(
        &mut self,
        reader: &mut Reader,
        landing: impl FnOnce(&Header, u64) -> Option<HeldMut>,
    ) -> Result<Taken, Broken> {
        let peer = self.peer;
        let misplaced = |misplaced| Broken::Ring(out_of_place(peer, misplaced));
        let mut open = match self.open.take() {
            Some(open) => open,
            None => match self.begin(reader)? {
                Some(front) => self.land(reader, front, landing),
                None => return Ok(Taken::Nothing),
            },
        };
        let wanted = open.missing.min(PIECE_BYTES);
        let len = reader.available(wanted).map_err(misplaced)?.min(wanted);
        match &mut open.payload {
            Landing::Buffer(buffer) => reader.take(len, buffer.bytes_mut()),
            Landing::Place(place) => {
                let filled = place.len() - open.missing;
                reader.fill(&mut place[filled..filled + len]);
            }
        }
        open.missing -= len;
        if open.missing > 0 {
            self.open = Some(open);
            return Ok(if len > 0 { Taken::Part } else { Taken::Nothing });
        }
        reader.skip_to_line();
        self.record += 1;
        let message_len = open.message_len as u64;
        let payload = match open.payload {
            Landing::Buffer(mut buffer) if open.kind == PLACED => {
                // Its length was looked at when it began.
                let place = buffer.bytes_mut().as_slice().try_into().unwrap_or([0; PLACE_LEN]);
                return Ok(Taken::Placed(open.header, place, message_len));
            }
            Landing::Buffer(buffer) => Payload::from_bytes(buffer.freeze()),
            Landing::Place(place) => Payload::from_memory(place.slice().clone()),
        };
        Ok(Taken::Message(Message { header: open.header, payload }, message_len))
    }

    /// Looks at the front of the next record, if it is there.
    fn begin(&self, reader: &mut Reader) -> Result<Option<Front>, Broken> {
        let misplaced = |misplaced| Broken::Ring(out_of_place(self.peer, misplaced));
        let available = reader.available(1).map_err(misplaced)?;
        if available == 0 {
            return Ok(None);
        }
        // One copy, and all that is decided is decided by it.
        let mut copy = [0; FRONT_LEN];
        let front = &mut copy[..available.min(FRONT_LEN)];
        reader.peek(front);
        let (prefix, message) = front.split_at(PREFIX_LEN);
        let [len, kind] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|i| prefix[at + i])));
        let (len, limit) = (u64::from(len), self.limit);
        let is_known = kind == WHOLE || kind == PLACED && self.takes_placed;
        if !is_known {
            return Err(Broken::Ring(LinkError::RecordKind { peer: self.peer, record: self.record, kind }));
        }
        if len > limit {
            let (peer, record) = (self.peer, self.record);
            return Err(Broken::Ring(LinkError::RecordTooLong { peer, record, len, limit }));
        }
        let (message_len, wanted) = (len as usize, MAX_HEADER_LEN.min(len as usize));
        if message.len() < wanted {
            // The rest may have come since.
            let available = reader.available(PREFIX_LEN + wanted).map_err(misplaced)?;
            return if available >= PREFIX_LEN + wanted { self.begin(reader) } else { Ok(None) };
        }
        let message = &message[..wanted];
        let (header, header_len) = Header::parse_front(message, message_len).map_err(Broken::Malformed)?;
        if kind == PLACED && message_len != header_len + PLACE_LEN {
            let (peer, record, len) = (self.peer, self.record, (message_len - header_len) as u64);
            return Err(Broken::Ring(LinkError::RecordPlace { peer, record, len }));
        }
        if payload_start(header_len, message_len) > available {
            return Ok(None);
        }
        Ok(Some(Front { copy, header, header_len, message_len, kind }))
    }

    /// Begins to receive a message.
    fn land(
        &self,
        reader: &mut Reader,
        front: Front,
        landing: impl FnOnce(&Header, u64) -> Option<HeldMut>,
    ) -> Open {
        let Front { copy, header, header_len, message_len, kind } = front;
        let (start, payload_len) = (payload_start(header_len, message_len), message_len - header_len);
        // Of a payload that begins at a line nothing is in the copy, or is left there.
        let early = if message_len > UNALIGNED_LEN { 0 } else { payload_len.min(FRONT_LEN - start) };
        reader.skip(start + early);
        let missing = payload_len - early;
        if early == 0
            && let Some(place) = landing(&header, payload_len as u64)
        {
            return Open { header, message_len, kind, missing, payload: Landing::Place(place) };
        }
        let mut payload = Buffer::from_pool(&self.pool, payload_len);
        payload.bytes_mut().extend_from_slice(&copy[start..start + early]);
        Open { header, message_len, kind, missing, payload: Landing::Buffer(payload) }
    }

    /// What the end of the ring means: in good order only between records.
    pub(super) fn end(&self, reader: &mut Reader) -> LinkError {
        let (peer, record) = (self.peer, self.record);
        let got = match (&self.open, reader.available(1)) {
            (Some(open), _) => (open.message_len - open.missing) as u64,
            (None, Ok(0) | Err(_)) => return LinkError::PeerClosed(peer),
            (None, Ok(available)) => available as u64,
        };
        LinkError::RecordTruncated { peer, record, got }
    }
}

/// The peer is where it cannot be in a ring.
pub(super) fn out_of_place(peer: Rank, Misplaced { claimed, least, most }: Misplaced) -> LinkError {
    LinkError::RingPlace { peer, claimed, least, most }
}
