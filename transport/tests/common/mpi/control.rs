//! What the test process and the processes under mpirun say to each other.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::SystemTime;

use bytes::{Buf, Bytes};
use mgcomp_transport::link::{LinkError, Message, SendError};
use mgcomp_transport::message::{Header, Rank};
use mgcomp_transport::payload::Payload;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a process is told to do, with the link that it is about.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first of the processes make a link; all of them are told so.
    Make(Making),
    Start,
    /// A message follows.
    Send {
        to: u32,
    },
    HasMoved {
        peer: u32,
        /// By the clock that processes share: a span would begin later the longer this takes to arrive.
        since: SystemTime,
    },
    Close {
        peer: u32,
    },
    Release {
        credit: u64,
    },
    Drop,
}

/// A link that is to be made.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Making {
    /// The first so many processes have ends of it.
    pub(super) ranks: u32,
    pub(super) queue_bytes: u64,
    pub(super) max_transfer_bytes: u32,
}

/// What a process says of a link.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// To `Make`, `Close` and `Drop`.
    Done,
    Started(Result<(), Failure>),
    Sent(Result<(), Refusal>),
    HasMoved(bool),
    /// A message came, and follows.
    Message {
        from: u32,
        credit: u64,
    },
    Malformed {
        from: u32,
        text: String,
    },
    Closed {
        peer: u32,
        error: Failure,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    PeerClosed(u32),
    StartedTwice,
    Other(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Refusal {
    Full { queued_bytes: u64, limit: u64 },
    Closed(u32),
    Other(String),
}

/// Sends `what` about the link `link`, with the bytes of a message.
pub(super) fn write(
    stream: &Mutex<TcpStream>,
    link: u64,
    what: &impl Serialize,
    message: Option<&Message>,
) -> io::Result<()> {
    let text = serde_json::to_vec(&(link, what))?;
    let header = message.map(|message| message.header.encode());
    let header = header.as_ref().map_or(&[][..], |header| header);
    let payload = message.and_then(|message| message.payload.bytes()).map_or(&[][..], |payload| payload);
    let lens = [text.len() as u64, (header.len() + payload.len()) as u64].map(u64::to_le_bytes);
    let front = [&lens.concat()[..], &text, header].concat();
    let mut stream = stream.lock().unwrap();
    stream.write_all(&front)?;
    stream.write_all(payload)
}

/// The next thing that was sent, the link that it is about, and the message.
pub(super) fn read<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<(u64, T, Bytes)> {
    let mut lens = [0; 16];
    stream.read_exact(&mut lens)?;
    let mut lens = &lens[..];
    let (text_len, message_len) = (lens.get_u64_le() as usize, lens.get_u64_le() as usize);
    let mut text = vec![0; text_len];
    stream.read_exact(&mut text)?;
    let mut message = vec![0; message_len];
    stream.read_exact(&mut message)?;
    let (link, what) = serde_json::from_slice(&text)?;
    Ok((link, what, message.into()))
}

pub(super) fn message(mut bytes: Bytes) -> Message {
    let (header, header_len) = Header::parse(&bytes).expect("a message was sent");
    bytes.advance(header_len);
    Message { header, payload: Payload::from_bytes(bytes) }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::PeerClosed(peer) => Self::PeerClosed(peer.0),
            LinkError::StartedTwice => Self::StartedTwice,
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<Failure> for LinkError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::PeerClosed(peer) => Self::PeerClosed(Rank(peer)),
            Failure::StartedTwice => Self::StartedTwice,
            Failure::Other(text) => Self::io("as told by an agent", text, &io::Error::other("")),
        }
    }
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Full { queued_bytes, limit } => Self::Full { queued_bytes, limit },
            SendError::Closed(peer) => Self::Closed(peer.0),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<Refusal> for SendError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full { queued_bytes, limit } => Self::Full { queued_bytes, limit },
            Refusal::Closed(peer) => Self::Closed(Rank(peer)),
            Refusal::Other(text) => panic!("an agent could not send: {text}"),
        }
    }
}
