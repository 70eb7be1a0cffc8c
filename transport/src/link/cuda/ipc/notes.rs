//! What ranks say to each other of their windows, over the socket that wakes them.
//!
//! ```text
//! byte 0        8                    16
//!      1, zeros window bytes, u64    handle, 64 bytes    a window, by a handle of the driver
//!      2, zeros window bytes, u64                        a window, by the file that comes with the note
//!      3, zeros                                          there is no window, and will be none
//!      4, zeros                                          the window that was offered cannot be mapped
//!      5, zeros                                          the window is not mapped any more
//!      6, zeros text                                     the device is lost: the way ends
//! ```
//! Numbers are little-endian.

use mgcomp_codecs::device::{HANDLE_LEN, MemoryHandle};

use super::super::super::shm::guest::NOTE_LEN;
use super::slots::COUNT;
use super::{SLOT_ALIGN, WINDOW_BYTES};

const FRONT_LEN: usize = 8;
const OFFER_LEN: usize = 16;
/// Most notes that a peer has in all: it offers a window in each of two ways at most, and declines as many.
pub(super) const MOST_NOTES: usize = 16;
/// Most bytes of a text.
const TEXT_LEN: usize = NOTE_LEN - FRONT_LEN;

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// This rank's window has so many bytes.
    Offer {
        window_bytes: u64,
        by: By,
    },
    NoWindow,
    Declined,
    Dropped,
    Lost(String),
}

/// How a window is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Handle(MemoryHandle),
    /// That comes with the note.
    File,
}

impl Note {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, rest) = match self {
            Self::Offer { window_bytes, by: By::Handle(handle) } => {
                (1, [&window_bytes.to_le_bytes()[..], &handle.0].concat())
            }
            Self::Offer { window_bytes, by: By::File } => (2, window_bytes.to_le_bytes().to_vec()),
            Self::NoWindow => (3, Vec::new()),
            Self::Declined => (4, Vec::new()),
            Self::Dropped => (5, Vec::new()),
            Self::Lost(text) => (6, text.bytes().take(TEXT_LEN).collect()),
        };
        [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &rest].concat()
    }

    /// Reads a note; `None` if it is none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (front, rest) = bytes.split_at_checked(FRONT_LEN)?;
        let [kind, 0, 0, 0, 0, 0, 0, 0] = *front else { return None };
        match (kind, rest.len()) {
            (1, len) if len == OFFER_LEN - FRONT_LEN + HANDLE_LEN => {
                let (_, handle) = rest.split_at(OFFER_LEN - FRONT_LEN);
                let handle = MemoryHandle(handle.try_into().ok()?);
                Some(Self::Offer { window_bytes: window_bytes(rest)?, by: By::Handle(handle) })
            }
            (2, 8) => Some(Self::Offer { window_bytes: window_bytes(rest)?, by: By::File }),
            (3, 0) => Some(Self::NoWindow),
            (4, 0) => Some(Self::Declined),
            (5, 0) => Some(Self::Dropped),
            (6, len) if len <= TEXT_LEN => Some(Self::Lost(String::from_utf8_lossy(rest).into_owned())),
            _ => None,
        }
    }
}

/// The length of a window, if it can have that.
fn window_bytes(rest: &[u8]) -> Option<u64> {
    let bytes = u64::from_le_bytes(rest.get(..8)?.try_into().ok()?);
    (WINDOW_BYTES.contains(&bytes) && bytes.is_multiple_of(COUNT as u64 * SLOT_ALIGN)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [(Note, Vec<u8>); 6] {
        let front = |kind: u8| vec![kind, 0, 0, 0, 0, 0, 0, 0];
        let length = [0, 0, 1, 0, 0, 0, 0, 0];
        let by = By::Handle(MemoryHandle([7; HANDLE_LEN]));
        [
            (Note::Offer { window_bytes: 65_536, by }, [front(1), length.to_vec(), vec![7; 64]].concat()),
            (Note::Offer { window_bytes: 65_536, by: By::File }, [front(2), length.to_vec()].concat()),
            (Note::NoWindow, front(3)),
            (Note::Declined, front(4)),
            (Note::Dropped, front(5)),
            (Note::Lost("away".to_owned()), [front(6), b"away".to_vec()].concat()),
        ]
    }

    #[test]
    fn bytes_are_those_of_the_document() {
        for (note, bytes) in all() {
            assert_eq!(note.encode(), bytes);
            assert_eq!(Note::parse(&bytes), Some(note));
        }
        assert_eq!(Note::Lost("x".repeat(5000)).encode().len(), NOTE_LEN);
    }

    #[test]
    fn what_is_no_note_is_none() {
        for (note, bytes) in all() {
            (0..8).for_each(|len| assert_eq!(Note::parse(&bytes[..len]), None));
            for at in 1..8 {
                let mut bad = bytes.clone();
                bad[at] = 1;
                assert_eq!(Note::parse(&bad), None);
            }
            if !matches!(note, Note::Lost(_)) {
                (8..bytes.len()).for_each(|len| assert_eq!(Note::parse(&bytes[..len]), None));
                assert_eq!(Note::parse(&[&bytes[..], &[0]].concat()), None);
            }
        }
        for kind in [0, 7, 255] {
            assert_eq!(Note::parse(&[kind, 0, 0, 0, 0, 0, 0, 0]), None);
        }
        for window_bytes in [0u64, 1, 32_767, 32_769, (4 << 30) + 32_768, u64::MAX] {
            assert_eq!(
                Note::parse(&[&[2, 0, 0, 0, 0, 0, 0, 0][..], &window_bytes.to_le_bytes()].concat()),
                None
            );
        }
    }
}
