//! What the two processes say to each other: a message of JSON each, with a file at most.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::SharedError;

/// Longer messages there are none.
const MOST_LEN: usize = 8192;

/// What the second process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) ordinal: u32,
    pub(super) bytes: usize,
    pub(super) rounds: usize,
    /// Of the memory, unless it comes as a file.
    pub(super) handle: Vec<u8>,
    /// That the second process records, if there is one.
    pub(super) event: Vec<u8>,
}

/// How it went.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) failure: Option<Failure>,
    /// Whether it has recorded the event behind its last write; else that has ended.
    pub(super) event: bool,
    /// Of a copy out of the memory, and of one of the same length from memory of its own.
    pub(super) seconds: f64,
    pub(super) plain_seconds: f64,
}

/// Why it did not go well, in words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    /// The memory was not opened, because the machine or the driver does not do that.
    Unsupported(String),
    /// Anything else.
    Wrong(String),
}

/// One end of what joins the two.
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// One end, and the other for another process.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(own), theirs))
    }

    /// That which this process was started with, as its standard input.
    pub(super) fn inherited() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?))
    }

    pub(super) fn send(&self, message: &impl Serialize, file: Option<&OwnedFd>) -> Result<(), SharedError> {
        let text = serde_json::to_vec(message)?;
        let files: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::Error::from(io::ErrorKind::OutOfMemory).into());
        }
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)
            .map_err(io::Error::from)?;
        Ok(())
    }

    /// Waits for the next message.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> Result<(T, Option<OwnedFd>), SharedError> {
        let mut text = vec![0; MOST_LEN];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut text)], &mut control, flags)
            .map_err(io::Error::from)?;
        if received.bytes == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok((serde_json::from_slice(&text[..received.bytes])?, file))
    }

    /// Waits until the other side has gone.
    pub(super) fn wait_for_end(&self) {
        let end = self.receive::<Order>();
        drop(end); // an error: nothing more is said
    }
}
