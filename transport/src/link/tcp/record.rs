//! Records: how messages stand one after the other in a TCP stream.
//!
//! ```text
//! byte 0             4             8
//!      length, u32   CRC32C, u32   message: header, then payload
//! ```
//! Both numbers are little-endian; the length is that of the message, and so is the checksum.

use std::io::{self, IoSlice, Write};
use std::time::Instant;

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::link::movement::Movement;
use crate::link::{LinkError, Message};
use crate::message::{Header, MessageError, Rank};
use crate::payload::Payload;
use crate::pool::Pool;

/// Bytes before the message.
const PREFIX_LEN: usize = 8;

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

impl<R: AsyncRead + Unpin> RecordReader<'_, R> {
    /// The bytes of the next message, checked against their checksum.
    pub(super) async fn next(&mut self) -> Result<Bytes, LinkError> {
        let (peer, record) = (self.peer, self.record);
        let mut prefix = Vec::with_capacity(PREFIX_LEN);
        self.fill(&mut prefix, PREFIX_LEN, 0).await?;
        let mut prefix = &prefix[..];
        let (len, stored) = (prefix.get_u32_le(), prefix.get_u32_le());
        if u64::from(len) > self.limit {
            return Err(LinkError::RecordTooLong { peer, record, len: len.into(), limit: self.limit });
        }
        // At most `limit` bytes of address space; the system gives memory only for what arrives.
        let mut message = self.pool.take(len as usize);
        self.fill(&mut message, len as usize, PREFIX_LEN).await?;
        let computed = checksum([&message[..]]);
        if computed != stored {
            return Err(LinkError::Checksum { peer, record, stored, computed });
        }
        self.record += 1;
        Ok(Bytes::from_owner(message))
    }

    /// Reads until `bytes` holds `len` bytes; `before` bytes of the record came earlier.
    async fn fill(&mut self, bytes: &mut Vec<u8>, len: usize, before: usize) -> Result<(), LinkError> {
        let (peer, record) = (self.peer, self.record);
        while bytes.len() < len {
            let left = (len - bytes.len()) as u64;
            let read = (&mut self.stream).take(left).read_buf(bytes).await;
            match read.map_err(|error| LinkError::io("reading from rank", peer, &error))? {
                0 if bytes.is_empty() && before == 0 => return Err(LinkError::PeerClosed(peer)),
                0 => {
                    let got = (before + bytes.len()) as u64;
                    return Err(LinkError::RecordTruncated { peer, record, got });
                }
                _ => self.movement.note(Instant::now()),
            }
        }
        Ok(())
    }
}

/// Takes a message apart into header and payload.
pub(super) fn split(mut message: Bytes) -> Result<Message, MessageError> {
    let (header, header_len) = Header::parse(&message)?;
    message.advance(header_len);
    Ok(Message { header, payload: Payload::from_bytes(message) })
}

/// CRC32C of `pieces`, one after the other.
fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
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
        let header = header.encode();
        let checksum = checksum([&header[..], &payload]);
        let len = (header.len() + payload.len()) as u32;
        let front = [&len.to_le_bytes()[..], &checksum.to_le_bytes(), &header].concat();
        Self { left: Bytes::from(front).chain(payload) }
    }

    /// Bytes left to write.
    pub(super) fn remaining(&self) -> u64 {
        self.left.remaining() as u64
    }

    /// Writes as much as `socket` takes without waiting; returns whether that was all.
    pub(super) fn try_write(&mut self, mut socket: impl Write, movement: &Movement) -> io::Result<bool> {
        while self.left.has_remaining() {
            let mut pieces = [IoSlice::new(&[]); 2];
            let count = self.left.chunks_vectored(&mut pieces);
            match socket.write_vectored(&pieces[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.left.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            movement.note(Instant::now());
        }
        Ok(true)
    }

    /// Writes all of it.
    pub(super) async fn write<W: AsyncWrite + Unpin>(
        mut self,
        stream: &mut W,
        movement: &Movement,
    ) -> io::Result<()> {
        while self.left.has_remaining() {
            stream.write_buf(&mut self.left).await?;
            movement.note(Instant::now());
        }
        Ok(())
    }
}
