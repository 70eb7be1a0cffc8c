//! How the other side of a connection begins: a daemon that closes is told by it from what is none.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What HTTP/2 begins with on either side, where that is fixed: three bytes of length, which is below 2 to the power of 16 at
/// first, the type of a frame of settings, its flags, and the stream 0.
const SETTINGS: [Option<u8>; 9] = [Some(0), None, None, Some(4), None, Some(0), Some(0), Some(0), Some(0)];

/// The first bytes that came.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    /// Whether nobody who speaks HTTP/2 begins like this. Whoever has not said a word may be anybody.
    pub(super) fn is_foreign(&self) -> bool {
        self.with(|first| {
            first.iter().zip(SETTINGS).any(|(byte, fixed)| fixed.is_some_and(|fixed| fixed != *byte))
        })
    }

    #[cfg(test)]
    pub(super) fn of(bytes: &[u8]) -> Self {
        let heard = Self::default();
        heard.add(bytes);
        heard
    }

    fn is_empty(&self) -> bool {
        self.with(|first| first.is_empty())
    }

    fn add(&self, bytes: &[u8]) {
        self.with(|first| {
            let missing = SETTINGS.len() - first.len();
            first.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        });
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A stream whose first bytes are heard.
///
/// Nothing fails to be written before there are any, though the other side be gone: what it has said before is still there to
/// be read, and that it is gone shows there next.
pub(super) struct Hearing<S> {
    stream: S,
    heard: Heard,
}

impl<S> Hearing<S> {
    pub(super) fn new(stream: S, heard: Heard) -> Self {
        Self { stream, heard }
    }

    /// What became of something that is written; `done`: what is said if that is to show on reading.
    fn written<T>(&self, result: io::Result<T>, done: T) -> io::Result<T> {
        let is_gone = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
        };
        match result {
            Err(error) if is_gone(&error) && self.heard.is_empty() => Ok(done),
            other => other,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Hearing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        self.heard.add(&into.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Hearing<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(self.written(result, bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_flush(context));
        Poll::Ready(self.written(result, ()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::*;

    #[test]
    fn the_first_bytes_tell_who_speaks() {
        let is_foreign = |pieces: &[&[u8]]| {
            let heard = Heard::default();
            pieces.iter().for_each(|bytes| heard.add(bytes));
            heard.is_foreign()
        };
        // With two settings, and what follows.
        let settings = [0, 0, 12, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 4, 0];
        for len in 0..settings.len() {
            assert!(!is_foreign(&[&settings[..len]]), "{len}");
            assert!(!is_foreign(&[&settings[..len], &settings[len..]]), "{len}");
        }
        let alert = [0x15, 3, 3, 0, 2];
        let others: [&[u8]; 5] = [b"HTTP/1.1 400 Bad Request\r\n", b"S", &alert, &[0, 0, 0, 0, 1], &[0; 9]];
        for other in others {
            assert!(is_foreign(&[other]), "{other:?}");
        }
        assert!(is_foreign(&[&settings[..3], b"HTTP"]));
    }

    #[tokio::test]
    async fn what_was_said_before_the_end_is_heard() {
        for said in ["", "220 ready\r\n"] {
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(said.as_bytes()).await.unwrap();
            drop(far);
            let heard = Heard::default();
            let mut near = Hearing::new(near, heard.clone());
            near.write_all(b"PRI * HTTP/2.0").await.unwrap();
            let mut read = String::new();
            near.read_to_string(&mut read).await.unwrap();
            assert_eq!((read.as_str(), heard.is_foreign()), (said, !said.is_empty()));
            // What is written to one who has been heard is not taken for written.
            let again = near.write_all(b"SM").await.map_err(|error| error.kind());
            assert_eq!(again, if said.is_empty() { Ok(()) } else { Err(io::ErrorKind::BrokenPipe) });
        }
    }
}
