//! Records: how messages travel over MPI.
//!
//! ```text
//! byte 0             4          8                 16
//!      CRC32C, u32   kind, u32  payload len, u64  header, then the payload if it fits, else its CRC32C, u32
//! ```
//! All numbers are little-endian; the checksum is that of everything behind it. A record is one MPI message of at most
//! [`RECORD_BYTES`]. A payload that does not fit follows in messages of [`PIECE_BYTES`], the last one shorter.

use bytes::{BufMut, Bytes, BytesMut};

use crate::link::{LinkError, Message};
use crate::message::{Header, Invalid, MessageError, Rank};
use crate::payload::Payload;

/// The longest record.
pub(super) const RECORD_BYTES: usize = 8192;
/// The longest piece of a payload. MPI tells nothing of a message before all of it is there, so pieces are short enough
/// for one to come now and then on the slowest link.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// Bytes before the header.
const PREFIX_BYTES: usize = 16;
/// Bytes of the checksum of a payload that follows.
const CHECKSUM_BYTES: usize = 4;
/// CRC32C, as CPUs compute it.
const CHECKSUM: crc_fast::CrcAlgorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;

const MESSAGE: u32 = 0;
const FAREWELL: u32 = 1;

/// What a record says.
#[derive(Debug)]
pub(super) enum Record {
    /// All of a message.
    Message(Message),
    /// A message whose payload follows.
    Head(Head),
    /// Nothing more comes.
    Farewell,
}

/// A message without its payload.
#[derive(Debug, PartialEq)]
pub(super) struct Head {
    pub(super) header: Header,
    pub(super) payload_len: usize,
    /// CRC32C of the payload.
    pub(super) checksum: u32,
}

/// Why a record is none.
#[derive(Debug)]
pub(super) enum RecordError {
    Link(LinkError),
    Message(MessageError),
}

/// The record that says that nothing more comes.
pub(super) fn farewell() -> Bytes {
    finish(prefix(FAREWELL, 0, 0))
}

/// The record of a message, and the payload if it has to follow.
pub(super) fn write(header: &Header, payload: Bytes) -> (Bytes, Bytes) {
    let header = header.encode();
    let fits = fits(header.len(), payload.len());
    let room = header.len() + if fits { payload.len() } else { CHECKSUM_BYTES };
    let mut record = prefix(MESSAGE, payload.len(), room);
    record.put_slice(&header);
    if !fits {
        record.put_u32_le(checksum(&payload));
        return (finish(record), payload);
    }
    record.put_slice(&payload);
    (finish(record), Bytes::new())
}

/// Reads record number `record` of `peer`, which may bring messages of at most `limit` bytes.
pub(super) fn read(peer: Rank, record: u64, bytes: Bytes, limit: u64) -> Result<Record, RecordError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        let got = bytes.len() as u64;
        return Err(RecordError::Link(LinkError::RecordTruncated { peer, record, got }));
    };
    let number = |at| prefix[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let (stored, kind) = (number(0), number(4));
    let payload_len = u64::from(number(12)) << 32 | u64::from(number(8));
    let computed = checksum(&bytes[CHECKSUM_BYTES..]);
    if computed != stored {
        return Err(RecordError::Link(LinkError::Checksum { peer, record, stored, computed }));
    }
    match kind {
        MESSAGE => {}
        FAREWELL => return Ok(Record::Farewell),
        kind => return Err(RecordError::Link(LinkError::RecordKind { peer, record, kind })),
    }
    let (header, header_len) = Header::parse(rest).map_err(RecordError::Message)?;
    let len = payload_len.saturating_add(header_len as u64);
    if len > limit {
        return Err(RecordError::Link(LinkError::RecordTooLong { peer, record, len, limit }));
    }
    if payload_len > 0 && !header.carries_payload() {
        let got = usize::try_from(payload_len).unwrap_or(usize::MAX);
        let trailing = Invalid::Trailing { kind: header.kind(), header_len, got };
        return Err(RecordError::Message(trailing.into()));
    }
    let here = &rest[header_len..];
    match (usize::try_from(payload_len), here.first_chunk()) {
        (Ok(payload_len), _) if here.len() == payload_len => {
            let payload = bytes.slice(PREFIX_BYTES + header_len..);
            Ok(Record::Message(Message { header, payload: Payload::from_bytes(payload) }))
        }
        // Nothing follows a payload that would have had its place here, and the record would wait for it for ever.
        (Ok(payload_len), Some(stored)) if here.len() == CHECKSUM_BYTES && !fits(header_len, payload_len) => {
            Ok(Record::Head(Head { header, payload_len, checksum: u32::from_le_bytes(*stored) }))
        }
        _ => {
            let got = bytes.len() as u64;
            Err(RecordError::Link(LinkError::RecordTruncated { peer, record, got }))
        }
    }
}

/// Whether a payload travels in the record of its message.
const fn fits(header_len: usize, payload_len: usize) -> bool {
    payload_len <= RECORD_BYTES - PREFIX_BYTES - header_len
}

/// The front of a record, without its checksum, with room for `room` bytes behind.
fn prefix(kind: u32, payload_len: usize, room: usize) -> BytesMut {
    let mut record = BytesMut::with_capacity(PREFIX_BYTES + room);
    record.put_u32_le(0);
    record.put_u32_le(kind);
    record.put_u64_le(payload_len as u64);
    record
}

fn finish(mut record: BytesMut) -> Bytes {
    let checksum = checksum(&record[CHECKSUM_BYTES..]);
    record[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    record.freeze()
}

fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CHECKSUM, bytes) as u32
}

/// The checksum of bytes that come one after the other.
pub(super) struct Digest(crc_fast::Digest);

impl Digest {
    pub(super) fn new() -> Self {
        Self(crc_fast::Digest::new(CHECKSUM))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn checksum(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{MessageId, Status, Tag, TaggedSend, WriteAck};
    use mgcomp_codecs::Algorithm;

    const LIMIT: u64 = 1 << 20;

    fn send(length: u32) -> Header {
        Header::TaggedSend(TaggedSend {
            id: MessageId(7),
            algorithm: Algorithm::None,
            continued: false,
            unawaited: false,
            tag: Tag(9),
            length,
        })
    }

    fn read_first(bytes: Bytes) -> Result<Record, RecordError> {
        read(Rank(3), 0, bytes, LIMIT)
    }

    #[test]
    fn short_payloads_travel_in_the_record_and_long_ones_behind_it() {
        let longest = RECORD_BYTES - PREFIX_BYTES - send(0).encode().len();
        for len in [0, 1, longest] {
            let payload = Bytes::from(vec![5; len]);
            let (record, rest) = write(&send(len as u32), payload.clone());
            assert!(rest.is_empty() && record.len() <= RECORD_BYTES);
            let Record::Message(message) = read_first(record).unwrap() else { panic!("{len}") };
            assert_eq!(message.header, send(len as u32));
            assert_eq!(message.payload.bytes(), Some(&payload));
        }
        let (record, rest) = write(&send(9000), Bytes::from(vec![5; longest + 1]));
        assert_eq!(rest.len(), longest + 1);
        let Record::Head(head) = read_first(record).unwrap() else { panic!() };
        let mut digest = Digest::new();
        rest.chunks(5000).for_each(|piece| digest.update(piece));
        let (payload_len, checksum) = (longest + 1, digest.checksum());
        assert_eq!(head, Head { header: send(9000), payload_len, checksum });
        assert!(matches!(read_first(farewell()), Ok(Record::Farewell)));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let (record, _) = write(&send(20), Bytes::from(vec![5; 20]));
        for bit in 0..8 * record.len() {
            let mut bad = record.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let error = read_first(bad.into()).unwrap_err();
            assert!(matches!(error, RecordError::Link(LinkError::Checksum { record: 0, .. })), "bit {bit}");
        }
        for len in 0..record.len() {
            assert!(read_first(record.slice(..len)).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn claims_are_checked() {
        let lie = |header: &Header, payload_len: u64, kind: u32| {
            let (record, _) = write(header, Bytes::new());
            let mut record = BytesMut::from(&record[..]);
            record[4..8].copy_from_slice(&kind.to_le_bytes());
            record[8..16].copy_from_slice(&payload_len.to_le_bytes());
            read_first(finish(record)).unwrap_err()
        };
        let too_long = lie(&send(1), u64::MAX, MESSAGE);
        assert!(matches!(too_long, RecordError::Link(LinkError::RecordTooLong { limit: LIMIT, .. })));
        let kind = lie(&send(1), 0, 77);
        assert!(matches!(kind, RecordError::Link(LinkError::RecordKind { kind: 77, .. })));
        let acknowledgement = Header::WriteAck(WriteAck { id: MessageId(1), status: Status::Good });
        let trailing = lie(&acknowledgement, 5, MESSAGE);
        assert!(matches!(trailing, RecordError::Message(MessageError::Invalid(_))), "{trailing:?}");
        // A checksum of a payload that would have fitted, or of none, in its place.
        for payload_len in [0, 20] {
            let (record, _) = write(&send(payload_len as u32), Bytes::new());
            let mut record = BytesMut::from(&record[..]);
            record.put_u32_le(checksum(&[]));
            record[8..16].copy_from_slice(&u64::to_le_bytes(payload_len));
            let error = read_first(finish(record)).unwrap_err();
            assert!(matches!(error, RecordError::Link(LinkError::RecordTruncated { .. })), "{error:?}");
        }
        // Part of the payload here and the rest behind: not what a writer does.
        let (record, _) = write(&send(20), Bytes::from(vec![5; 20]));
        let mut record = BytesMut::from(&record[..record.len() - 1]);
        record = BytesMut::from(&finish(record)[..]);
        assert!(matches!(
            read_first(record.freeze()),
            Err(RecordError::Link(LinkError::RecordTruncated { .. }))
        ));
    }
}
