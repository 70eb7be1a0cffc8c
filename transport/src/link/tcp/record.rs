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
use crate::message::{Header, MessageError, Rank};
use crate::payload::Payload;

/// Bytes before the message.
pub(super) const PREFIX_LEN: usize = 8;
/// The kernel sends segments in trains of up to 64 KiB with headers: so much is in one, however long segments are.
const TRAIN_BYTES: usize = 60 << 10;
/// Where congestion control paces, as BBR does, a train waits as long as the one before it has taken, for a timer that may be
/// late by tens of microseconds. So what is so little more than full trains goes before them: behind them, a whole message
/// would wait for its end.
const MOST_AHEAD_BYTES: usize = 20 << 10;
/// In what is longer a timer more or less does not count.
const MOST_TRAINS: usize = 16;
/// CRC32C, as CPUs compute it.
pub(super) const CHECKSUM: crc_fast::CrcAlgorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;

/// What a record brought.
pub(super) enum Received {
    /// A message.
    Message(Message),
    /// Bytes that are none.
    Malformed(MessageError),
}

impl Received {
    /// What the bytes of a record say. `header` is what they begin with, if that was looked at and is good.
    pub(super) fn of(mut record: Bytes, header: Option<(Header, usize)>) -> Self {
        match header.map_or_else(|| Header::parse(&record), Ok) {
            Ok((header, header_len)) => {
                record.advance(header_len);
                Self::Message(Message { header, payload: Payload::from_bytes(record) })
            }
            Err(error) => Self::Malformed(error),
        }
    }
}

/// The first record of a stream, whatever it says.
pub(super) async fn first_record(
    stream: &mut (impl AsyncRead + Unpin),
    peer: Rank,
    limit: u64,
) -> Result<Bytes, LinkError> {
    let failed = |error| LinkError::io("reading from rank", peer, &error);
    let mut bytes = [0; PREFIX_LEN];
    stream.read_exact(&mut bytes).await.map_err(failed)?;
    let prefix = Prefix::of(bytes);
    let mut message = vec![0; prefix.check_len(peer, 0, limit)?];
    stream.read_exact(&mut message).await.map_err(failed)?;
    prefix.check(peer, 0, checksum([&message[..]]))?;
    Ok(message.into())
}

/// What is before a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    len: u32,
    checksum: u32,
}

impl Prefix {
    pub(super) fn of(bytes: [u8; PREFIX_LEN]) -> Self {
        let [len, checksum] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte])));
        Self { len, checksum }
    }

    /// The length of the message, unless it is longer than `limit`.
    pub(super) fn check_len(self, peer: Rank, record: u64, limit: u64) -> Result<usize, LinkError> {
        let len = u64::from(self.len);
        if len > limit {
            return Err(LinkError::RecordTooLong { peer, record, len, limit });
        }
        Ok(self.len as usize)
    }

    /// Compares what the checksum was and what it is.
    pub(super) fn check(self, peer: Rank, record: u64, computed: u32) -> Result<(), LinkError> {
        let stored = self.checksum;
        if computed == stored { Ok(()) } else { Err(LinkError::Checksum { peer, record, stored, computed }) }
    }
}

/// CRC32C of `pieces`, one after the other.
pub(super) fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(CHECKSUM);
    pieces.into_iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

/// A message as a record, or what is left of it to write.
#[derive(Debug)]
pub(super) struct Record {
    left: Chain<Bytes, Bytes>,
}

impl Clone for Record {
    /// The same bytes, not a copy of them.
    fn clone(&self) -> Self {
        Self { left: self.left.first_ref().clone().chain(self.left.last_ref().clone()) }
    }
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
