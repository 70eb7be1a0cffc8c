//! Records: how messages stand one after the other in a TCP stream.
//!
//! ```text
//! byte 0             4             8
//!      length, u32   CRC32C, u32   message: header, then payload
//! ```
//! Both numbers are little-endian; the length is that of the message, and so is the checksum.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::time::Instant;

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, Interest};
use tokio::net::TcpStream;

use crate::link::movement::Movement;
use crate::link::{LinkError, Message};
use crate::memory::{HeldMut, HostSlice};
use crate::message::{Header, MAX_HEADER_LEN, MessageError, Rank};
use crate::payload::Payload;
use crate::pool::Pool;

/// Bytes before the message.
const PREFIX_LEN: usize = 8;
/// Read at once, so that the checksum finds them in a cache.
const READ_BYTES: usize = 256 << 10;
/// The kernel sends segments in trains of up to 64 KiB with headers: so much is in one, however long segments are.
const TRAIN_BYTES: usize = 60 << 10;
/// Where congestion control paces, as BBR does, a train waits as long as the one before it has taken, for a timer that may be
/// late by tens of microseconds. So what is so little more than full trains goes before them: behind them, a whole message
/// would wait for its end.
const MOST_AHEAD_BYTES: usize = 20 << 10;
/// In what is longer a timer more or less does not count.
const MOST_TRAINS: usize = 16;
/// CRC32C, as CPUs compute it.
const CHECKSUM: crc_fast::CrcAlgorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;

/// Reads the records of one peer.
pub(super) struct RecordReader<'a, R> {
    pub(super) stream: R,
    /// Who the records are from, or are claimed to be.
    pub(super) peer: Rank,
    /// Records read so far.
    pub(super) record: u64,
    /// Longest message in bytes.
    pub(super) limit: u64,
    pub(super) movement: &'a Movement,
    /// For what comes.
    pub(super) pool: Pool,
}

/// What a record brought.
pub(super) enum Received {
    /// A message.
    Message(Message),
    /// Bytes that are none.
    Malformed(MessageError),
}

impl<R: AsyncRead + Unpin> RecordReader<'_, R> {
    /// The next message, checked against its checksum. `landing` says where a payload is to be put, if it is to be put
    /// anywhere: the message has it there then.
    pub(super) async fn next(
        &mut self,
        landing: impl FnOnce(&Header, u64) -> Option<HeldMut>,
    ) -> Result<Received, LinkError> {
        let (len, stored) = self.prefix().await?;
        let _halfway = self.movement.begin();
        // At most `limit` bytes of address space; the system gives memory only for what arrives.
        let mut message = self.pool.take(len);
        self.fill(&mut message, len.min(MAX_HEADER_LEN), PREFIX_LEN).await?;
        // What is no header is looked at again when all of it is there.
        let place = Header::parse(&message).ok().and_then(|(header, header_len)| {
            landing(&header, (len - header_len) as u64).map(|place| (header, header_len, place))
        });
        let mut digest = crc_fast::Digest::new(CHECKSUM);
        let received = if let Some((header, header_len, place)) = place {
            digest.update(&message[..header_len]);
            let slice = self.fill_place(place, &message[header_len..], &mut digest).await?;
            Received::Message(Message { header, payload: Payload::from_memory(slice) })
        } else {
            self.fill(&mut message, len, PREFIX_LEN).await?;
            digest.update(&message);
            Received::of(Bytes::from_owner(message))
        };
        self.end(stored, digest.finalize() as u32)?;
        Ok(received)
    }

    /// The bytes of the next record, checked against its checksum, whatever they say.
    pub(super) async fn next_bytes(&mut self) -> Result<Bytes, LinkError> {
        let (len, stored) = self.prefix().await?;
        let _halfway = self.movement.begin();
        let mut bytes = self.pool.take(len);
        self.fill(&mut bytes, len, PREFIX_LEN).await?;
        self.end(stored, checksum([&bytes[..]]))?;
        Ok(Bytes::from_owner(bytes))
    }

    /// Length and checksum of the next record.
    async fn prefix(&mut self) -> Result<(usize, u32), LinkError> {
        let (peer, record) = (self.peer, self.record);
        let mut prefix = Vec::with_capacity(PREFIX_LEN);
        self.fill(&mut prefix, PREFIX_LEN, 0).await?;
        let mut prefix = &prefix[..];
        let (len, stored) = (prefix.get_u32_le(), prefix.get_u32_le());
        if u64::from(len) > self.limit {
            return Err(LinkError::RecordTooLong { peer, record, len: len.into(), limit: self.limit });
        }
        Ok((len as usize, stored))
    }

    /// Ends a record whose bytes are all there.
    fn end(&mut self, stored: u32, computed: u32) -> Result<(), LinkError> {
        let (peer, record) = (self.peer, self.record);
        if computed != stored {
            return Err(LinkError::Checksum { peer, record, stored, computed });
        }
        self.record += 1;
        Ok(())
    }

    /// Reads a payload to its place; `front` of it came with the header.
    async fn fill_place(
        &mut self,
        mut place: HeldMut,
        front: &[u8],
        digest: &mut crc_fast::Digest,
    ) -> Result<HostSlice, LinkError> {
        place[..front.len()].copy_from_slice(front);
        digest.update(front);
        let mut filled = front.len();
        while filled < place.len() {
            let end = place.len().min(filled + READ_BYTES);
            let read = self.stream.read(&mut place[filled..end]).await;
            let read = self.check_read(read, PREFIX_LEN + MAX_HEADER_LEN + filled)?;
            digest.update(&place[filled..filled + read]);
            filled += read;
        }
        Ok(place.slice().clone())
    }

    /// Reads until `bytes` holds `len` bytes; `before` bytes of the record came earlier.
    async fn fill(&mut self, bytes: &mut Vec<u8>, len: usize, before: usize) -> Result<(), LinkError> {
        while bytes.len() < len {
            let left = (len - bytes.len()) as u64;
            let read = (&mut self.stream).take(left).read_buf(bytes).await;
            self.check_read(read, before + bytes.len())?;
        }
        Ok(())
    }

    /// What came of reading some bytes; `got` bytes of the record were there before.
    fn check_read(&self, read: io::Result<usize>, got: usize) -> Result<usize, LinkError> {
        let (peer, record) = (self.peer, self.record);
        match read.map_err(|error| LinkError::io("reading from rank", peer, &error))? {
            0 if got == 0 => Err(LinkError::PeerClosed(peer)),
            0 => Err(LinkError::RecordTruncated { peer, record, got: got as u64 }),
            read => {
                self.movement.note(Instant::now());
                Ok(read)
            }
        }
    }
}

impl Received {
    /// What the bytes of a record say.
    pub(super) fn of(mut record: Bytes) -> Self {
        match Header::parse(&record) {
            Ok((header, header_len)) => {
                record.advance(header_len);
                Self::Message(Message { header, payload: Payload::from_bytes(record) })
            }
            Err(error) => Self::Malformed(error),
        }
    }
}

/// CRC32C of `pieces`, one after the other.
fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(CHECKSUM);
    pieces.into_iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

/// A message as a record, or what is left of it to write.
#[derive(Debug)]
pub(super) struct Record {
    left: Chain<Bytes, Bytes>,
}

impl Record {
    /// The record of a message whose payload is `payload`.
    pub(super) fn new(header: &Header, payload: Bytes) -> Self {
        Self::of(&header.encode(), payload)
    }

    /// The record of `front`, and of `rest` behind it.
    pub(super) fn of(front: &[u8], rest: Bytes) -> Self {
        let checksum = checksum([front, &rest]);
        let len = (front.len() + rest.len()) as u32;
        let front = [&len.to_le_bytes()[..], &checksum.to_le_bytes(), front].concat();
        Self { left: Bytes::from(front).chain(rest) }
    }

    /// No record at all.
    pub(super) fn empty() -> Self {
        Self { left: Bytes::new().chain(Bytes::new()) }
    }

    /// The same behind records that are `before` it.
    pub(super) fn behind(self, before: Vec<u8>) -> Self {
        let (front, rest) = self.left.into_inner();
        let front = [&before[..], &front[..]].concat();
        Self { left: Bytes::from(front).chain(rest) }
    }

    /// All of it, if it is no longer than `most` bytes.
    pub(super) fn short(&self, most: usize) -> Option<Vec<u8>> {
        (self.left.remaining() <= most).then(|| [&self.left.first_ref()[..], self.left.last_ref()].concat())
    }

    /// Bytes left to write.
    pub(super) fn remaining(&self) -> u64 {
        self.left.remaining() as u64
    }

    /// Writes as much as `socket` takes without waiting; returns whether that was all.
    pub(super) fn try_write(&mut self, socket: impl AsFd, movement: &Movement) -> io::Result<bool> {
        while self.left.has_remaining() {
            match self.write_some(&socket) {
                Ok(()) => movement.note(Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Writes all of it.
    pub(super) async fn write(mut self, stream: &TcpStream, movement: &Movement) -> io::Result<()> {
        while self.left.has_remaining() {
            let written = stream.async_io(Interest::WRITABLE, || self.write_some(stream)).await;
            match written {
                Ok(()) => movement.note(Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_some(&mut self, socket: impl AsFd) -> io::Result<()> {
        let [front, rest] = [&self.left.first_ref()[..], self.left.last_ref()];
        let most = at_once(self.left.remaining());
        let front = &front[..front.len().min(most)];
        let rest = &rest[..rest.len().min(most - front.len())];
        match write_quietly(socket, &[IoSlice::new(front), IoSlice::new(rest)])? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => {
                self.left.advance(written);
                Ok(())
            }
        }
    }
}

/// How much to write at once of `len` bytes that are left.
const fn at_once(len: usize) -> usize {
    let more = len % TRAIN_BYTES;
    if TRAIN_BYTES < len && len <= MOST_TRAINS * TRAIN_BYTES && 0 < more && more <= MOST_AHEAD_BYTES {
        more
    } else {
        len
    }
}

/// Writes to a socket whose peer may be gone, without a signal to the program, which may not be used to that.
fn write_quietly(socket: impl AsFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    {
        use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
        Ok(sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }
    // Elsewhere sockets are made so that they raise none.
    #[cfg(not(target_os = "linux"))]
    Ok(rustix::io::writev(socket, pieces)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_more_than_full_trains_goes_before_them() {
        const KIB: usize = 1 << 10;
        for (len, first) in [
            (0, 0),
            (60 * KIB, 60 * KIB),
            (60 * KIB + 1, 1),
            (64 * KIB + 100, 4 * KIB + 100),
            (80 * KIB, 20 * KIB),
            (80 * KIB + 1, 80 * KIB + 1),
            (120 * KIB, 120 * KIB),
            (128 * KIB, 8 * KIB),
            (256 * KIB, 16 * KIB),
            (15 * 60 * KIB + 5, 5),
            (16 * 60 * KIB + 5, 16 * 60 * KIB + 5),
            (usize::MAX, usize::MAX),
        ] {
            assert_eq!(at_once(len), first, "{len}");
            // What is left then goes at once.
            assert_eq!(at_once(len - first), len - first, "{len}");
        }
    }

    #[test]
    fn a_record_in_parts_is_the_same_bytes() {
        use std::io::Read;
        let payload: Vec<u8> = (0..70_000u32).map(|i| (i % 251) as u8).collect();
        for front_len in [5, 100, 6000] {
            let (mine, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let front = vec![7; front_len];
            let mut record = Record::of(&front, Bytes::from(payload.clone()));
            let len = record.remaining() as usize;
            assert!(at_once(len) < len);
            let reading = std::thread::spawn(move || {
                let mut got = vec![0; len];
                theirs.read_exact(&mut got).map(|()| got)
            });
            assert!(record.try_write(&mine, &Movement::new()).unwrap());
            let got = reading.join().unwrap().unwrap();
            assert_eq!(got[..4], ((len - PREFIX_LEN) as u32).to_le_bytes());
            assert!(got[PREFIX_LEN..][..front_len] == front && got[PREFIX_LEN + front_len..] == payload);
        }
    }
}
