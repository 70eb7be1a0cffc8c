//! How a page gets to the daemon: over its Unix socket, with the file of the page beside the first bytes.
//!
//! | who | bytes |
//! |---|---|
//! | process | `MGCPAGE` and a zero byte, version 1 (u32), zero (u32); with it one file descriptor |
//! | daemon | status (u32: 0 adopted, 1 refused), length of a text (u32, at most 512), that text |
//! | process | from then on a byte 1 whenever it has taken new slots into use |
//!
//! All numbers are little-endian. The connection stays open as long as the process lives, and ends with it. A
//! client of the gRPC interface starts with other bytes, so both can use one socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// What a hand-over starts with.
pub const GREETING: [u8; 8] = *b"MGCPAGE\0";
/// The byte that tells of new slots.
pub const NEW_SLOTS: u8 = 1;
/// The longest text of an answer.
pub const MAX_TEXT_BYTES: usize = 512;

const VERSION: u32 = 1;
const OFFER_BYTES: usize = 16;

/// Offers the page in `file` on `socket`.
///
/// # Errors
/// What the system says if the socket does not take it at once.
pub fn offer(socket: impl AsFd, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut offer = [0; OFFER_BYTES];
    offer[..8].copy_from_slice(&GREETING);
    offer[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let files = [file];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !beside.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&offer)], &mut beside, SendFlags::NOSIGNAL)?;
    if sent == OFFER_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Takes the file that a process offers on `socket`, which must not block.
///
/// # Errors
/// [`OfferError`] if there is no whole offer of this version.
pub fn take(socket: impl AsFd) -> Result<OwnedFd, OfferError> {
    let mut offer = [0; OFFER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(&mut offer)];
    let received = rustix::net::recvmsg(socket, into, &mut beside, RecvFlags::CMSG_CLOEXEC)
        .map_err(|error| OfferError::System(error.into()))?;
    // Whatever is too much is closed when it is dropped.
    let files = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let mut files: Vec<OwnedFd> = files.flatten().collect();
    if received.bytes != OFFER_BYTES || offer[..8] != GREETING {
        return Err(OfferError::Greeting { got_bytes: received.bytes });
    }
    let version = u32::from_le_bytes([offer[8], offer[9], offer[10], offer[11]]);
    if version != VERSION {
        return Err(OfferError::Version { got: version });
    }
    match files.pop() {
        Some(file) if files.is_empty() && !received.flags.contains(ReturnFlags::CTRUNC) => Ok(file),
        _ => Err(OfferError::Files),
    }
}

/// The daemon's answer.
#[must_use]
pub fn answer(refused: Option<&str>) -> Vec<u8> {
    let text = refused.unwrap_or_default().as_bytes();
    let text = &text[..text.len().min(MAX_TEXT_BYTES)];
    [&u32::from(refused.is_some()).to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text].concat()
}

/// What a process makes of the bytes of an answer that it has so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// More must come.
    Incomplete,
    Adopted,
    Refused(String),
    /// This is no daemon.
    Nonsense,
}

pub(super) fn read_answer(bytes: &[u8]) -> Answer {
    let Some((status, rest)) = bytes.split_first_chunk() else { return Answer::Incomplete };
    let Some((len, rest)) = rest.split_first_chunk() else { return Answer::Incomplete };
    let len = u32::from_le_bytes(*len) as usize;
    match u32::from_le_bytes(*status) {
        _ if len > MAX_TEXT_BYTES => Answer::Nonsense,
        0 => Answer::Adopted,
        1 if rest.len() < len => Answer::Incomplete,
        1 => Answer::Refused(String::from_utf8_lossy(&rest[..len]).into_owned()),
        _ => Answer::Nonsense,
    }
}

/// Why an offer is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// Not the bytes of an offer.
    #[error(
        "not an offer of a control page: {got_bytes} bytes, {OFFER_BYTES} that start with MGCPAGE are one"
    )]
    Greeting {
        /// How many came.
        got_bytes: usize,
    },
    /// Of another version.
    #[error("an offer of version {got}, but this program knows version {VERSION}")]
    Version {
        /// What it says.
        got: u32,
    },
    /// Without a file, or with several.
    #[error("an offer comes with exactly one file descriptor")]
    Files,
    /// The system said no.
    #[error("cannot read the offer")]
    System(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_file_gets_to_the_other_side() {
        let (here, there) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        (&file).write_all(b"it is me").unwrap();
        offer(&here, file.as_fd()).unwrap();
        let taken = std::fs::File::from(take(&there).unwrap());
        assert_eq!(taken.metadata().unwrap().len(), 8);
    }

    #[test]
    fn half_an_offer_is_none() {
        let taken = |bytes: &[u8]| {
            let (mut here, there) = UnixStream::pair().unwrap();
            here.write_all(bytes).unwrap();
            drop(here);
            take(&there).unwrap_err().to_string()
        };
        assert!(taken(b"").starts_with("not an offer"));
        assert!(taken(b"PRI * HTTP/2.0\r\n").starts_with("not an offer"));
        assert!(taken(b"MGCPAGE\0\x01\0\0\0\0\0\0").contains("15 bytes"));
        assert!(taken(b"MGCPAGE\0\x02\0\0\0\0\0\0\0").contains("version 2"));
        assert_eq!(taken(b"MGCPAGE\0\x01\0\0\0\0\0\0\0"), "an offer comes with exactly one file descriptor");
    }

    #[test]
    fn several_files_are_not_an_offer() {
        let (here, there) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let files = [file.as_fd(), file.as_fd(), file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        assert!(beside.push(SendAncillaryMessage::ScmRights(&files)));
        let bytes = IoSlice::new(b"MGCPAGE\0\x01\0\0\0\0\0\0\0");
        rustix::net::sendmsg(&here, &[bytes], &mut beside, SendFlags::NOSIGNAL).unwrap();
        assert!(matches!(take(&there), Err(OfferError::Files)));
    }

    #[test]
    fn answers_come_in_pieces() {
        let refused = answer(Some("not today"));
        for len in 0..refused.len() {
            assert_eq!(read_answer(&refused[..len]), Answer::Incomplete, "{len}");
        }
        assert_eq!(read_answer(&refused), Answer::Refused("not today".to_owned()));
        assert_eq!(read_answer(&answer(None)), Answer::Adopted);
        assert_eq!(read_answer(&[2, 0, 0, 0, 0, 0, 0, 0]), Answer::Nonsense);
        assert_eq!(read_answer(&[1, 0, 0, 0, 1, 2, 0, 0]), Answer::Nonsense);
        assert_eq!(answer(Some(&"x".repeat(9999))).len(), 8 + MAX_TEXT_BYTES);
    }
}
