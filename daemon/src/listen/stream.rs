//! A connection of a user of this machine, who may send files beside the bytes.
//!
//! Only a hand-over takes one. To close any other may take for ever, and the kernel does that in whatever thread reads the
//! bytes that a file came with, or closes a connection where such bytes are unread. So bytes are looked at before they
//! are read, and a connection that has a file left is closed on a thread that may be held up.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use crate::node::Node;

/// So many connections that wait to be closed are worth a word.
const MANY_PARKED: usize = 256;

/// A connection that never takes a file by itself.
pub(super) struct Stream {
    /// `None` = it is being dropped.
    stream: Option<UnixStream>,
    node: Arc<Node>,
    /// Whose it is.
    pub(super) uid: u32,
    /// 0 = unknown.
    pub(super) pid: u32,
}

impl Stream {
    pub(super) fn new(node: Arc<Node>, stream: UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let stream = Self { stream: Some(stream), node, uid: credentials.uid(), pid };
        // A byte out of band would be skipped, and its file closed, by whoever reads what follows it.
        rustix::net::sockopt::set_socket_oobinline(&stream, true)?;
        Ok(stream)
    }

    pub(super) fn inner(&self) -> &UnixStream {
        self.stream.as_ref().unwrap_or_else(|| unreachable!("it is there until it is dropped"))
    }

    fn pinned(self: Pin<&mut Self>) -> Pin<&mut UnixStream> {
        let stream = self.get_mut().stream.as_mut();
        Pin::new(stream.unwrap_or_else(|| unreachable!("it is there until it is dropped")))
    }
}

/// Reads what has come, if no file has come with it; otherwise that is an error, and all of it stays.
fn receive(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<usize> {
    let flags = RecvFlags::DONTWAIT;
    let mut no_room = RecvAncillaryBuffer::default();
    let into = &mut [IoSliceMut::new(buffer)];
    let seen = rustix::net::recvmsg(stream, into, &mut no_room, flags | RecvFlags::PEEK)?;
    match seen.bytes {
        _ if seen.flags.contains(ReturnFlags::CTRUNC) => Err(io::ErrorKind::InvalidData.into()),
        // To read no bytes would take the file of the next ones.
        0 => Ok(0),
        // No more than was seen: what has come since may have a file.
        len => Ok(rustix::net::recv(stream, &mut buffer[..len], flags)?.0),
    }
}

/// Closes the connection when this user has a turn, for as long as it takes.
fn park(node: Arc<Node>, uid: u32, stream: UnixStream) {
    // Without a runtime the daemon is at its end, and so is whatever holds it up.
    let Ok(runtime) = Handle::try_current() else { return };
    let mut count = 0;
    node.turns.parked.send_modify(|parked| {
        *parked += 1;
        count = *parked;
    });
    if count % MANY_PARKED == 0 {
        tracing::warn!(count, uid, "connections cannot be closed; the last is of this user");
    }
    runtime.spawn(async move {
        let turn = node.turns.take(uid, false).await;
        let _ = tokio::task::spawn_blocking(move || drop((stream, turn))).await;
        node.turns.parked.send_modify(|parked| *parked -= 1);
    });
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        // Nothing comes any more once this is done; what has come is read, unless there is a file.
        let is_shut = rustix::net::shutdown(&stream, Shutdown::Both).is_ok();
        let mut unread = [0; 4096];
        let end = loop {
            match receive(&stream, &mut unread) {
                Ok(1..) => {}
                // It is gone, with answers that it has not read: that is told once.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                end => break end,
            }
        };
        if !(is_shut && matches!(end, Ok(0))) {
            park(self.node.clone(), self.uid, stream);
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner().as_fd()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.inner();
        while buffer.remaining() > 0 {
            ready!(stream.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            match stream.try_io(Interest::READABLE, || receive(stream, unfilled)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => {
                    buffer.advance(received?);
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.pinned().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pinned().poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_shutdown(context)
    }
}
