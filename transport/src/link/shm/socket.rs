//! The Unix sockets by which ranks find each other, hand over memory and wake each other.
//!
//! Names are abstract: they vanish with the last process that has the socket, however it ends. Every call says
//! itself that it must not wait and must not raise a signal, since options could be changed by whoever shares a file.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recv, recvmsg, send, sendmsg, shutdown, socket_with,
};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
const QUIETLY: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// Listens under an abstract name.
pub(super) fn listen_as(name: &[u8]) -> io::Result<OwnedFd> {
    let socket = new()?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to whoever listens under an abstract name.
pub(super) fn connect_to(name: &[u8]) -> io::Result<OwnedFd> {
    let socket = new()?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(socket)
}

/// The next connection that waits.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// Messages are kept apart by the system, so half a hello cannot be mistaken for one that is still coming.
fn new() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends a message, and a file with it if there is one.
pub(super) fn say(socket: &OwnedFd, message: &[u8], file: Option<&OwnedFd>) -> io::Result<()> {
    let files: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(socket, &[IoSlice::new(message)], &mut control, QUIETLY)?;
    Ok(())
}

/// A message, and the file that came with it.
pub(super) struct Heard {
    pub(super) message: Vec<u8>,
    pub(super) file: Option<OwnedFd>,
    /// A file came for which this process had no descriptor.
    pub(super) is_lost: bool,
}

/// Receives a message of at most `most` bytes. One that is longer is given as one of `most` + 1 bytes; none at all, of 0
/// bytes, is the end.
pub(super) fn hear(socket: &OwnedFd, most: usize) -> io::Result<Heard> {
    let mut message = vec![0; most + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut message)], &mut control, flags)?;
    message.truncate(received.bytes);
    let mut files: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    let is_cut = received.flags.contains(ReturnFlags::CTRUNC);
    // More than one file is none: whoever sends them does not know what to send.
    let (alone, is_lost) = (files.len() == 1 && !is_cut, files.is_empty() && is_cut);
    Ok(Heard { message, file: files.pop().filter(|_| alone), is_lost })
}

/// Wakes the peer. If there is no room for that, the peer has not woken from the last times yet. Returns `false` if the system
/// could not do it, as for want of memory.
#[must_use]
pub(super) fn ring(socket: &OwnedFd) -> bool {
    match send(socket, &[1], QUIETLY) {
        Ok(_) => true,
        Err(error) => matches!(error, Errno::AGAIN | Errno::PIPE | Errno::CONNRESET),
    }
}

/// Ends a connection for all who have it.
pub(super) fn end(socket: &OwnedFd) {
    let _ = shutdown(socket, Shutdown::Both); // it may be over
}

/// Two that are connected.
#[cfg(all(test, feature = "cuda"))]
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Takes in what woke this side. Returns whether the peer is still there.
pub(super) fn hush(socket: &OwnedFd) -> bool {
    let mut ignored = [0; 16];
    // Not to the end: a peer must not keep this side from others.
    for _ in 0..16 {
        match recv(socket, &mut ignored[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok(_) => {}
            Err(error) => return matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }
    true
}
