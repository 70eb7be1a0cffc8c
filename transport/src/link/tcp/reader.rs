//! Reads records from a socket without ever waiting for it: whoever serves the socket asks again when more may have come.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::record::{CHECKSUM, PREFIX_LEN, Prefix, Received, checksum};
use crate::link::movement::{Halfway, Movement};
use crate::link::{LinkError, Message};
use crate::memory::HeldMut;
use crate::message::{Header, MAX_HEADER_LEN, Rank};
use crate::payload::Payload;
use crate::pool::{Pool, Pooled};

/// Bytes that are read at once beyond what is asked for: many short messages, or the start of a long one, whose rest is
/// read to where it goes.
const AHEAD_BYTES: usize = 8 << 10;
/// Read at once of a long message, so that the checksum finds them in a cache.
const READ_BYTES: usize = 256 << 10;

/// Reads the records of one peer.
pub(super) struct RecordReader {
    peer: Rank,
    /// Records read so far.
    record: u64,
    /// Longest message in bytes.
    limit: u64,
    movement: Arc<Movement>,
    /// For what comes.
    pool: Pool,
    ahead: Ahead,
    open: Option<Open>,
}

/// What came of reading.
pub(super) enum Taken {
    /// A record, and the length of its message in bytes.
    Record(Received, u64),
    /// A part of one.
    Part,
    /// No more is there at the moment.
    Nothing,
}

/// A record of which a part is there.
struct Open {
    prefix: Prefix,
    digest: crc_fast::Digest,
    place: Place,
    len: usize,
    /// Bytes of the message that are in their place.
    filled: usize,
    _halfway: Halfway,
}

/// Where a message goes.
enum Place {
    /// All of it. With it comes what it begins with, and how long that is, if that is a header.
    Buffer(Pooled, Option<(Header, usize)>),
    /// Its payload, behind the header.
    Landing { header: Header, header_len: usize, payload: HeldMut },
}

impl RecordReader {
    /// Reads what comes from `peer`, of which `record` records were read before.
    pub(super) fn new((peer, record): (Rank, u64), limit: u64, movement: Arc<Movement>, pool: Pool) -> Self {
        Self { peer, record, limit, movement, pool, ahead: Ahead::default(), open: None }
    }

    /// Whether bytes were read that are yet to be looked at.
    pub(super) fn has_ahead(&self) -> bool {
        !self.ahead.bytes().is_empty()
    }

    /// Reads on from `source`. A message comes checked against its checksum. `landing` says where a payload is to be put, if it is to be put
    /// anywhere: the message has it there then. After an error nothing is to be read any more.
    pub(super) fn take(
        &mut self,
        source: &mut impl Read,
        landing: impl FnOnce(&Header, u64) -> Option<HeldMut>,
    ) -> Result<Taken, LinkError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let Some((prefix, len)) = self.prefix(source)? else { return Ok(Taken::Nothing) };
                if self.ahead.bytes().len() >= len {
                    return Ok(Taken::Record(self.whole(prefix, len, landing)?, len as u64));
                }
                self.begin(prefix, len, landing)
            }
        };
        if open.filled < open.len && !self.read_on(source, &mut open)? {
            self.open = Some(open);
            return Ok(Taken::Nothing);
        }
        if open.filled < open.len {
            self.open = Some(open);
            return Ok(Taken::Part);
        }
        open.prefix.check(self.peer, self.record, open.digest.finalize() as u32)?;
        self.record += 1;
        let received = match open.place {
            Place::Buffer(buffer, header) => Received::of(Bytes::from_owner(buffer), header),
            Place::Landing { header, payload, .. } => {
                Received::Message(Message { header, payload: Payload::from_memory(payload.slice().clone()) })
            }
        };
        Ok(Taken::Record(received, open.len as u64))
    }

    /// What the next record begins with, and how long its message is; `None` where the front of that is not there yet.
    fn prefix(&mut self, source: &mut impl Read) -> Result<Option<(Prefix, usize)>, LinkError> {
        loop {
            if let Some((&bytes, message)) = self.ahead.bytes().split_first_chunk::<PREFIX_LEN>() {
                let prefix = Prefix::of(bytes);
                let len = prefix.check_len(self.peer, self.record, self.limit)?;
                if message.len() >= len.min(MAX_HEADER_LEN) {
                    self.ahead.skip(PREFIX_LEN);
                    return Ok(Some((prefix, len)));
                }
            }
            let got = self.ahead.bytes().len();
            let read = self.ahead.refill(source);
            if !self.check(read, got)? {
                return Ok(None);
            }
        }
    }

    /// The message of the next record, all of which is there, as of short ones.
    fn whole(
        &mut self,
        prefix: Prefix,
        len: usize,
        landing: impl FnOnce(&Header, u64) -> Option<HeldMut>,
    ) -> Result<Received, LinkError> {
        let message = &self.ahead.bytes()[..len];
        prefix.check(self.peer, self.record, checksum([message]))?;
        let received = match Header::parse(message) {
            Ok((header, header_len)) => {
                let bytes = &message[header_len..];
                let payload = match landing(&header, bytes.len() as u64) {
                    Some(mut place) => {
                        place.copy_from_slice(bytes);
                        Payload::from_memory(place.slice().clone())
                    }
                    None => Payload::from_bytes(Bytes::copy_from_slice(bytes)),
                };
                Received::Message(Message { header, payload })
            }
            Err(error) => Received::Malformed(error),
        };
        self.record += 1;
        self.ahead.skip(len);
        Ok(received)
    }

    /// Begins the next record, of which not all is there.
    fn begin(
        &mut self,
        prefix: Prefix,
        len: usize,
        landing: impl FnOnce(&Header, u64) -> Option<HeldMut>,
    ) -> Open {
        let here = self.ahead.bytes();
        let mut digest = crc_fast::Digest::new(CHECKSUM);
        digest.update(here);
        // What is no header is looked at again when all of it is there, and is known to be what was sent.
        let header = Header::parse_front(here, len).ok();
        let landing = header.and_then(|(header, header_len)| {
            let payload = landing(&header, (len - header_len) as u64)?;
            Some(Place::Landing { header, header_len, payload })
        });
        // At most `limit` bytes of address space; the system gives memory only for what arrives.
        let mut place = landing.unwrap_or_else(|| {
            let mut buffer = self.pool.take_room(len);
            buffer.truncate(len);
            Place::Buffer(buffer, header)
        });
        match &mut place {
            Place::Buffer(buffer, _) => buffer[..here.len()].copy_from_slice(here),
            Place::Landing { header_len, payload, .. } => {
                let here = &here[*header_len..];
                payload[..here.len()].copy_from_slice(here);
            }
        }
        let filled = here.len();
        self.ahead.skip(filled);
        Open { prefix, digest, place, len, filled, _halfway: self.movement.begin() }
    }

    /// Reads more of a message, of which something is missing; returns whether anything was there.
    fn read_on(&mut self, source: &mut impl Read, open: &mut Open) -> Result<bool, LinkError> {
        let got = PREFIX_LEN + open.filled;
        let missing = open.missing();
        let read = if missing.len() < AHEAD_BYTES {
            // What follows may be there as well.
            self.ahead.refill(source).map(|read| {
                let here = self.ahead.bytes();
                let here = &here[..here.len().min(missing.len())];
                missing[..here.len()].copy_from_slice(here);
                let taken = here.len();
                self.ahead.skip(taken);
                (read, taken)
            })
        } else {
            let most = missing.len().min(READ_BYTES);
            read(source, &mut missing[..most]).map(|read| (read, read))
        };
        let taken = read.as_ref().map_or(0, |(_, taken)| *taken);
        let came = self.check(read.map(|(read, _)| read), got)?;
        open.add(taken);
        Ok(came)
    }

    /// What came of reading some bytes; `got` bytes of the record were there before. Returns whether anything came.
    fn check(&self, read: io::Result<usize>, got: usize) -> Result<bool, LinkError> {
        let (peer, record) = (self.peer, self.record);
        match read {
            Ok(0) if got == 0 => Err(LinkError::PeerClosed(peer)),
            Ok(0) => Err(LinkError::RecordTruncated { peer, record, got: got as u64 }),
            Ok(_) => {
                self.movement.note(Instant::now());
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(LinkError::io("reading from rank", peer, &error)),
        }
    }
}

impl Open {
    /// Where the bytes go that are missing.
    fn missing(&mut self) -> &mut [u8] {
        match &mut self.place {
            Place::Buffer(buffer, _) => &mut buffer[self.filled..],
            Place::Landing { header_len, payload, .. } => &mut payload[self.filled - *header_len..],
        }
    }

    /// So many more are there.
    fn add(&mut self, len: usize) {
        let (filled, digest) = (self.filled, &mut self.digest);
        let new = match &self.place {
            Place::Buffer(buffer, _) => &buffer[filled..filled + len],
            Place::Landing { header_len, payload, .. } => &payload[filled - header_len..][..len],
        };
        digest.update(new);
        self.filled += len;
    }
}

/// Reads what is there, whatever signals come.
fn read(source: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// What was read and not looked at yet.
struct Ahead {
    buffer: Box<[u8; AHEAD_BYTES]>,
    start: usize,
    end: usize,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { buffer: Box::new([0; AHEAD_BYTES]), start: 0, end: 0 }
    }
}

impl Ahead {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn skip(&mut self, len: usize) {
        self.start += len;
    }

    /// Reads more behind what is there, which is no more than the front of a record.
    fn refill(&mut self, source: &mut impl Read) -> io::Result<usize> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let read = read(source, &mut self.buffer[self.end..])?;
        self.end += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use mgcomp_codecs::Algorithm;

    use super::super::record::Record;
    use super::*;
    use crate::memory::HostBuffer;
    use crate::message::{MessageId, Tag, TaggedSend};

    const PEER: Rank = Rank(3);

    /// A socket that brings these pieces, and between them nothing; at its end it is closed.
    struct Script(VecDeque<Vec<u8>>);

    impl Script {
        fn of(bytes: &[u8], piece: usize) -> Self {
            Self(bytes.chunks(piece).flat_map(|piece| [piece.to_vec(), Vec::new()]).collect())
        }
    }

    impl Read for Script {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some(mut piece) = self.0.pop_front() else { return Ok(0) };
            if piece.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let read = piece.len().min(into.len());
            into[..read].copy_from_slice(&piece[..read]);
            if read < piece.len() {
                self.0.push_front(piece.split_off(read));
            }
            Ok(read)
        }
    }

    fn reader() -> RecordReader {
        RecordReader::new((PEER, 7), 100_000, Arc::new(Movement::new()), Pool::default())
    }

    fn header(length: usize) -> Header {
        let (id, tag, length) = (MessageId(length as u16), Tag(4), length as u32);
        Header::TaggedSend(TaggedSend {
            id,
            algorithm: Algorithm::None,
            continued: false,
            unawaited: false,
            tag,
            length,
        })
    }

    fn payload(len: usize) -> Bytes {
        (0..len).map(|i| (i * 7 % 251) as u8).collect()
    }

    fn record(payload_len: usize) -> Vec<u8> {
        Record::new(&header(payload_len), payload(payload_len)).short(usize::MAX).unwrap()
    }

    /// All messages until the end, with the lengths that they are said to have; those with payloads of `landing` bytes are put
    /// into a buffer of that length.
    fn read_all(source: &mut Script, landing: usize) -> (Vec<(Header, Vec<u8>, u64)>, LinkError) {
        let (mut reader, mut messages) = (reader(), Vec::new());
        loop {
            let place = HostBuffer::zeroed(landing);
            let land = |_: &Header, len: u64| (len == landing as u64).then(|| place.all().hold_mut());
            match reader.take(source, land) {
                Ok(Taken::Record(Received::Message(Message { header, payload }), len)) => {
                    let bytes = match payload.memory() {
                        Some(slice) => slice.read(<[u8]>::to_vec),
                        None => payload.bytes().unwrap().to_vec(),
                    };
                    assert_eq!(payload.memory().is_some(), bytes.len() == landing);
                    messages.push((header, bytes, len));
                }
                Ok(Taken::Record(Received::Malformed(error), _)) => panic!("{error}"),
                Ok(Taken::Part | Taken::Nothing) => {}
                Err(error) => return (messages, error),
            }
        }
    }

    #[test]
    fn messages_are_the_same_in_whatever_pieces_they_come() {
        let lens = [0, 1, 300, AHEAD_BYTES - 17, 70_000, 5, 20_000, 20_000, 0];
        for (piece, count) in
            [(1, 3), (7, 3), (8, 4), (25, 4), (1000, 9), (AHEAD_BYTES, 9), (AHEAD_BYTES + 1, 9), (1 << 20, 9)]
        {
            let lens = &lens[..count];
            let stream: Vec<u8> = lens.iter().flat_map(|&len| record(len)).collect();
            for landing in [20_000, 70_000, 300, 1_000_000] {
                let (messages, end) = read_all(&mut Script::of(&stream, piece), landing);
                // A tagged send's header has 16 bytes.
                let expected = |&len: &usize| (header(len), payload(len).to_vec(), 16 + len as u64);
                let expected: Vec<_> = lens.iter().map(expected).collect();
                assert!(messages == expected, "pieces of {piece}, landing of {landing}");
                assert_eq!(end, LinkError::PeerClosed(PEER));
            }
        }
    }

    #[test]
    fn an_end_in_a_record_says_how_much_came() {
        let whole = record(40);
        for got in 1..whole.len() {
            let stream = [&record(3)[..], &whole[..got]].concat();
            let (messages, end) = read_all(&mut Script::of(&stream, 30), 0);
            assert_eq!(
                (messages.len(), end),
                (1, LinkError::RecordTruncated { peer: PEER, record: 8, got: got as u64 })
            );
        }
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let good = record(9000);
        for landing in [0, 9000] {
            for at in (4 * 8..good.len() * 8).step_by(101) {
                let mut bad = good.clone();
                bad[at / 8] ^= 1 << (at % 8);
                let mut reader = reader();
                let mut source = Script::of(&bad, 5000);
                let place = HostBuffer::zeroed(landing);
                let end = loop {
                    let land = |_: &Header, len: u64| (len == landing as u64).then(|| place.all().hold_mut());
                    match reader.take(&mut source, land) {
                        Ok(Taken::Part | Taken::Nothing) => {}
                        Ok(Taken::Record(..)) => panic!("bit {at} is not missed"),
                        Err(error) => break error,
                    }
                };
                assert!(
                    matches!(end, LinkError::Checksum { peer: PEER, record: 7, .. }),
                    "bit {at}: {end:?}"
                );
            }
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_not_read() {
        let long = record(100_000 - 16 + 1);
        let (messages, end) = read_all(&mut Script::of(&long[..PREFIX_LEN], 3), 0);
        assert!(messages.is_empty());
        assert_eq!(end, LinkError::RecordTooLong { peer: PEER, record: 7, len: 100_001, limit: 100_000 });
        assert_eq!(read_all(&mut Script::of(&record(100_000 - 16), 50_000), 0).0.len(), 1);
    }

    #[test]
    fn what_is_no_message_is_told_from_what_was_spoiled() {
        let mut source = Script::of(&Record::of(&[0xff; 30], Bytes::new()).short(usize::MAX).unwrap(), 9);
        let mut reader = reader();
        loop {
            match reader.take(&mut source, |_, _| None) {
                Ok(Taken::Part | Taken::Nothing) => {}
                Ok(Taken::Record(Received::Malformed(_), 30)) => break,
                _ => panic!("30 bytes that are no message"),
            }
        }
    }

    #[test]
    fn a_message_is_halfway_from_its_header_to_its_end() {
        let stream = record(20_000);
        let mut source = Script(
            [stream[..5].to_vec(), vec![], stream[5..9000].to_vec(), vec![], stream[9000..].to_vec()].into(),
        );
        let mut reader = reader();
        let movement = reader.movement.clone();
        let mut halfway = Vec::new();
        while !matches!(reader.take(&mut source, |_, _| None).unwrap(), Taken::Record(..)) {
            halfway.push(movement.is_halfway());
        }
        assert_eq!(halfway.first(), Some(&false));
        assert!(halfway.len() > 2 && halfway[1..].iter().all(|&halfway| halfway));
        assert!(!movement.is_halfway());
    }
}
