//! The other end of a TCP link, written from `WIRE.md` alone: bytes and sockets, none of the crate's own code.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::common::{HANGS, SECRET};

/// A connection that says what it likes.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The message of a record.
    Record(Vec<u8>),
    /// The end of the connection, in good order or not.
    End,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(HANGS)).unwrap();
        stream.set_write_timeout(Some(HANGS)).unwrap();
        Self { stream }
    }

    /// Writes bytes as they are. Nobody may be there any more to take them.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Writes `message` as a good record.
    pub(crate) fn record(&mut self, message: &[u8]) {
        self.bytes(&record(message));
    }

    /// Says that nothing more will come.
    pub(crate) fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// What comes next. Fails if nothing does.
    pub(crate) fn hear(&mut self) -> Heard {
        let Some(prefix) = self.read(8) else { return Heard::End };
        let number = |at: usize| u32::from_le_bytes(prefix[at..at + 4].try_into().unwrap());
        let message = self.read(number(0) as usize).expect("whole records");
        assert_eq!(number(4), crc32c(&message), "checksum of {message:02x?}");
        Heard::Record(message)
    }

    /// The next message that is not a probe.
    pub(crate) fn message(&mut self) -> Vec<u8> {
        match self.hear() {
            Heard::Record(message) => message,
            Heard::End => panic!("the connection ended instead"),
        }
    }

    /// Checks that the connection ends, and that nothing else comes before.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.hear(), Heard::End);
    }

    /// Checks that a refusal with `status` comes, which tells nothing but that, and then the end.
    #[track_caller]
    pub(crate) fn expect_refusal(&mut self, status: u8) {
        let mut refusal = vec![0; 64];
        refusal[..8].copy_from_slice(&[0x50, status, 0, 9, b'M', b'G', b'C', b'W']);
        assert_eq!(self.hear(), Heard::Record(refusal));
        self.expect_end();
    }

    /// `len` bytes, or `None` if the connection ended before the first.
    fn read(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut got = 0;
        while got < len {
            match self.stream.read(&mut bytes[got..]) {
                Ok(0) if got == 0 => return None,
                Ok(0) => panic!("the connection ended {got} bytes into {len}"),
                Ok(n) => got += n,
                // The test was stopped meanwhile, and goes on.
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    return None;
                }
                Err(error) => panic!("hangs, waiting for {len} bytes: {error}"),
            }
        }
        Some(bytes)
    }
}

/// A record as it should be.
pub(crate) fn record(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_le_bytes(), &crc32c(message).to_le_bytes(), message].concat()
}

/// A hello of this rank with the right secret, which takes 64 MiB a transfer and everything else without bounds.
pub(crate) fn hello(rank: u32, ranks: u32) -> Vec<u8> {
    let mut hello = vec![0x50, 0, 0, 9, b'M', b'G', b'C', b'W'];
    hello.extend(SECRET.bytes());
    hello.extend(rank.to_be_bytes());
    hello.extend(ranks.to_be_bytes());
    hello.extend((64u32 << 20).to_be_bytes());
    hello.extend(u64::MAX.to_be_bytes());
    hello.extend(65_536u32.to_be_bytes());
    hello.extend([0, 0b1_1111, 0b11, 0xff]);
    hello.extend([0; 12]);
    hello
}

/// The first message of connection `connection` of `connections`, of a set with this number.
pub(crate) fn join((rank, ranks): (u32, u32), (connection, connections): (u8, u8), set: u64) -> Vec<u8> {
    let mut join = vec![b'M', b'G', b'C', b'J', 9, 0, connections, connection];
    join.extend(SECRET.bytes());
    join.extend(rank.to_le_bytes());
    join.extend(ranks.to_le_bytes());
    join.extend(set.to_le_bytes());
    join
}

/// A Read request.
pub(crate) fn read_request(id: u16, region: u16, offset: u32, length: u32) -> Vec<u8> {
    // type 4, id 16, address 48, length 32, raw 4, reserved 24
    let bits = 1u128 << 124
        | u128::from(id) << 108
        | u128::from(region) << 92
        | u128::from(offset) << 60
        | u128::from(length) << 28;
    bits.to_be_bytes().to_vec()
}

/// CRC32C, a bit at a time.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

#[test]
fn records_and_messages_are_those_of_the_document() {
    // From WIRE.md: a Write-ACK as a record, and the Read request of the conversation.
    let ack = [4, 0, 0, 0, 0xbd, 0xab, 0xcc, 0x60, 0x40, 0xab, 0xd0, 0];
    assert_eq!(record(&[0x40, 0xab, 0xd0, 0]), ack);
    let read = [0x10, 0xab, 0xc0, 0, 0x30, 0, 1, 0, 0, 0, 0, 0, 0x80, 0, 0, 0];
    assert_eq!(read_request(0xabc, 3, 0x1000, 8), read);
    assert_eq!(hello(2, 4).len(), 64);
}
