//! Sockets that never wait and raise no signal.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::buffer::Buffer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv, sendmsg,
    socket_with, sockopt,
};

use crate::error::NetError;

const QUIETLY: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
/// A machine that is gone is noticed after two minutes on a connection on which nothing moves.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(10), 6);

/// A socket for addresses like this one.
pub(super) fn new(like: &SocketAddr) -> Result<OwnedFd, NetError> {
    let family = if like.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None).map_err(NetError::system("socket"))
}

/// Sets a connection as it is to be.
pub(super) fn prepare(socket: &OwnedFd) -> Result<(), NetError> {
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
pub(super) fn write(socket: &OwnedFd, pieces: &[IoSlice<'_>]) -> Result<Option<usize>, Errno> {
    let mut space: [MaybeUninit<u8>; 0] = [];
    now(sendmsg(socket, pieces, &mut SendAncillaryBuffer::new(&mut space), QUIETLY))
}

/// Reads some bytes; returns how many, if there are any now. That the other side has closed is an error.
pub(super) fn read(socket: &OwnedFd, room: impl Buffer<u8>) -> Result<Option<usize>, Errno> {
    match now(recv(socket, room, RecvFlags::DONTWAIT))? {
        Some((_, 0)) => Err(Errno::CONNRESET),
        read => Ok(read.map(|(_, len)| len)),
    }
}

/// Whether a connection that was asked for is up.
pub(super) fn is_up(socket: &OwnedFd) -> Result<bool, Errno> {
    let mut waiting = [PollFd::new(socket, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if now(poll(&mut waiting, Some(&at_once)))?.unwrap_or(0) == 0 {
        return Ok(false);
    }
    sockopt::socket_error(socket)?.map(|()| true)
}
