//! The other end of a link over shared memory, written from `WIRE.md` alone: none of the crate's own code.
//!
//! It reaches the memory by reading and writing its file, so it needs no map of it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect, listen, recvmsg, sendmsg, socket_with,
};

use crate::common::{HANGS, SECRET};

/// Bytes of the rings that the tests share.
pub(crate) const RING: u64 = 8192;
/// Words of the ring from the maker, which the tests are: byte offsets in the memory.
pub(crate) const WRITTEN: u64 = 0;
const READ: u64 = 128;
/// Of the ring to the maker.
pub(crate) const READ_BACK: u64 = 512 + 128;
pub(crate) const WRITTEN_BACK: u64 = 512;
pub(crate) const READER_SLEEPS_BACK: u64 = 512 + 256;

/// A connection that says what it likes.
pub(crate) struct Raw {
    pub(crate) socket: OwnedFd,
    pub(crate) memory: File,
}

impl Raw {
    /// Connects to whoever listens as `name`, with good memory but without a hello.
    pub(crate) fn connect(name: &str) -> Self {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        Self { socket, memory: sealed(4096 + 2 * RING) }
    }

    /// Sends a message, and files with it. Nobody may be there any more to take it.
    pub(crate) fn say(&self, message: &[u8], files: &[&File]) {
        let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        }
        let _ = sendmsg(&self.socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL);
    }

    /// Sends the hello of `rank`, and the memory.
    pub(crate) fn hello(&self, rank: u32, ranks: u32) {
        self.say(&hello(rank, ranks), &[&self.memory]);
    }

    /// Waits until something has come.
    pub(crate) fn await_ready(&self) {
        await_ready(&self.socket);
    }

    /// What comes next; nothing is the end. Fails if nothing does.
    pub(crate) fn hear(&self) -> Vec<u8> {
        self.await_ready();
        let mut message = vec![0; 100];
        let mut control = RecvAncillaryBuffer::new(&mut []);
        let received =
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut message)], &mut control, RecvFlags::empty());
        // A connection that is closed with something unread is reset.
        message.truncate(received.map_or(0, |received| received.bytes));
        message
    }

    /// Checks that the answer is this status, and then the end if it is a refusal.
    #[track_caller]
    pub(crate) fn expect_answer(&self, status: u8) {
        let answer = self.hear();
        // The last byte tells what the other side's link is.
        assert_eq!(answer[..7], [b'M', b'G', b'C', b'S', 1, 0, status]);
        assert!(answer.len() == 8 && answer[7] <= 1, "{answer:?}");
        if status != 0 {
            self.expect_end();
        }
    }

    /// Checks that this comes next but for rings of the bell.
    #[track_caller]
    #[allow(dead_code, reason = "not every test program has notes")]
    pub(crate) fn expect_note(&self, note: &[u8]) {
        let mut heard = self.hear();
        while heard.len() == 1 {
            heard = self.hear();
        }
        assert_eq!(heard, note);
    }

    /// Checks that the connection ends; rings of the bell may come before.
    #[track_caller]
    pub(crate) fn expect_end(&self) {
        while !self.hear().is_empty() {}
    }

    pub(crate) fn word(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, offset).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Bytes of what was written that are read.
    pub(crate) fn read(&self) -> u64 {
        self.word(READ)
    }

    pub(crate) fn set(&self, offset: u64, value: u64) {
        self.memory.write_all_at(&value.to_le_bytes(), offset).unwrap();
    }

    /// Puts a record into the ring, at byte `at` of all; does not tell the reader.
    pub(crate) fn put(&self, at: u64, record: &[u8]) {
        let start = at % RING;
        let (first, second) = record.split_at(record.len().min((RING - start) as usize));
        self.memory.write_all_at(first, 4096 + start).unwrap();
        self.memory.write_all_at(second, 4096).unwrap();
    }

    /// Wakes the reader, whether or not it sleeps.
    pub(crate) fn ring(&self) {
        self.say(&[7], &[]);
    }

    /// Writes a record behind what is written, and tells the reader.
    pub(crate) fn record(&self, message: &[u8]) {
        let at = self.word(WRITTEN);
        let record = record(message);
        self.put(at, &record);
        self.set(WRITTEN, at + (record.len() as u64).next_multiple_of(64));
        self.ring();
    }
}

/// Listens as a rank does.
pub(crate) fn listen_as(name: &str) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    listen(&socket, 16).unwrap();
    socket
}

/// The next connection, whose hello is there.
pub(crate) fn accept_hello(listener: &OwnedFd) -> OwnedFd {
    await_ready(listener);
    let socket = accept(listener).unwrap();
    await_ready(&socket);
    socket
}

/// Waits until there is something to be read.
fn await_ready(file: &OwnedFd) {
    let mut ready = [PollFd::new(file, PollFlags::IN)];
    let timeout = Timespec::try_from(HANGS).unwrap();
    assert_ne!(poll(&mut ready, Some(&timeout)).unwrap(), 0, "hangs, waiting for the other side");
}

/// Memory of `len` bytes, sealed as it should be.
pub(crate) fn sealed(len: u64) -> File {
    let file = unsealed(len);
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    file
}

/// Memory of `len` bytes that anybody may make shorter.
pub(crate) fn unsealed(len: u64) -> File {
    let file = memfd_create("raw", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len).unwrap();
    file.into()
}

/// A hello with the right secret, for rings of [`RING`] bytes.
pub(crate) fn hello(rank: u32, ranks: u32) -> Vec<u8> {
    let mut hello = b"MGCS\x01\0\0\0".to_vec();
    hello.extend(SECRET.bytes());
    hello.extend(rank.to_le_bytes());
    hello.extend(ranks.to_le_bytes());
    hello.extend(RING.to_le_bytes());
    hello
}

/// A record as it should be, without what lies behind it.
pub(crate) fn record(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_le_bytes(), &[0; 4], message].concat()
}

/// The message with which a rank greets: the right secret, 64 MiB a transfer and everything else without bounds.
pub(crate) fn greeting(rank: u32, ranks: u32) -> Vec<u8> {
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
