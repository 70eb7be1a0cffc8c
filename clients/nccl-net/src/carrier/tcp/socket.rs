//! Sockets that never wait and raise no signal.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use mgcomp_transport::fork::Process;
use rustix::buffer::Buffer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType,
    connect_unspec, recv, sendmsg, shutdown, socket_with, sockopt,
};

use crate::error::NetError;

const QUIETLY: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
/// A machine that is gone is noticed after two minutes on a connection on which nothing moves.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(10), 6);

/// A socket. Where it is dropped, it ends for all that hold it: children that the program has forked do as well, and to close
/// it here alone would tell the other side nothing.
pub(super) struct Socket {
    file: OwnedFd,
    process: Process,
}

impl From<OwnedFd> for Socket {
    fn from(file: OwnedFd) -> Self {
        Self { file, process: Process::current() }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Socket {
    /// Does what the system does where the last one closes it: what was written still goes out. What nobody reads any more is
    /// answered with a reset, so that who waits for room to send hears of it as well.
    fn drop(&mut self) {
        if !self.process.is_current() {
            return; // it is the parent's to end
        }
        // One that is not connected has nothing to end.
        let ended = shutdown(&self.file, Shutdown::Both).is_ok();
        if ended && ioctl_fionread(&self.file).is_ok_and(|unread| unread > 0) {
            let _ = connect_unspec(&self.file);
        }
    }
}

/// A socket for addresses like this one.
pub(super) fn new(like: &SocketAddr) -> Result<Socket, NetError> {
    let family = if like.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None);
    socket.map(Socket::from).map_err(NetError::system("socket"))
}

/// Sets a connection as it is to be.
pub(super) fn prepare(socket: &Socket) -> Result<(), NetError> {
    let (idle, between, count) = KEEP_ALIVE;
    sockopt::set_tcp_nodelay(socket, true)
        .and_then(|()| sockopt::set_socket_keepalive(socket, true))
        .and_then(|()| sockopt::set_tcp_keepidle(socket, idle))
        .and_then(|()| sockopt::set_tcp_keepintvl(socket, between))
        .and_then(|()| sockopt::set_tcp_keepcnt(socket, count))
        .map_err(NetError::system("setsockopt"))
}

/// What a call comes to that could not go on at once.
fn now<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes some of the pieces; returns how many bytes, if any can be written now.
pub(super) fn write(socket: &Socket, pieces: &[IoSlice<'_>]) -> Result<Option<usize>, Errno> {
    let mut space: [MaybeUninit<u8>; 0] = [];
    now(sendmsg(socket, pieces, &mut SendAncillaryBuffer::new(&mut space), QUIETLY))
}

/// Reads some bytes; returns how many, if there are any now. That the other side has closed is an error.
pub(super) fn read(socket: &Socket, room: impl Buffer<u8>) -> Result<Option<usize>, Errno> {
    match now(recv(socket, room, RecvFlags::DONTWAIT))? {
        Some((_, 0)) => Err(Errno::CONNRESET),
        read => Ok(read.map(|(_, len)| len)),
    }
}

/// Whether a connection that was asked for is up.
pub(super) fn is_up(socket: &Socket) -> Result<bool, Errno> {
    let mut waiting = [PollFd::new(socket, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if now(poll(&mut waiting, Some(&at_once)))?.unwrap_or(0) == 0 {
        return Ok(false);
    }
    sockopt::socket_error(socket)?.map(|()| true)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// What the other side hears where one is dropped of which there is a copy, as a child has it; and what comes of it if it
    /// then sends.
    fn heard(unread: &[u8]) -> (Vec<u8>, Option<ErrorKind>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let (_copy, socket) = (socket.try_clone().unwrap(), Socket::from(OwnedFd::from(socket)));
        assert_eq!(write(&socket, &[IoSlice::new(b"last words")]), Ok(Some(10)));
        other.write_all(unread).unwrap();
        while ioctl_fionread(&socket).unwrap() < unread.len() as u64 {
            std::thread::yield_now();
        }
        drop(socket);
        let mut heard = Vec::new();
        other.read_to_end(&mut heard).unwrap();
        (heard, other.write(b"more").err().map(|error| error.kind()))
    }

    #[test]
    fn what_is_dropped_ends_whoever_has_a_copy() {
        assert_eq!(heard(b""), (b"last words".to_vec(), None));
        assert_eq!(heard(b"not read"), (b"last words".to_vec(), Some(ErrorKind::BrokenPipe)));
    }
}
