//! Who is at the other end of a Unix socket, as the kernel knows it.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The process that made a connection, or that listened when it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credentials {
    /// `None` if it is in a namespace whose processes are not seen from here.
    process: Option<Pid>,
    user: u32,
}

impl Credentials {
    /// Those of the peer of `socket`.
    pub(super) fn of(socket: &OwnedFd) -> io::Result<Self> {
        let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: pointer and length are those of `found`, which any bits may be written to.
        let status = unsafe {
            let found = (&raw mut found).cast();
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, found, &raw mut len)
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { process: Pid::from_raw(found.pid), user: found.uid })
    }

    /// Whether the peer runs as the same user as this process.
    pub(super) fn is_same_user(&self) -> bool {
        self.user == rustix::process::geteuid().as_raw()
    }

    /// A file that becomes readable when the peer's process ends, whoever else still has its connections; if the
    /// system has such files.
    ///
    /// # Errors
    /// [`Gone`] if the process has ended by now: others may still have its connections then, too.
    pub(super) fn watch(&self) -> Result<Option<OwnedFd>, Gone> {
        let Some(process) = self.process else { return Ok(None) };
        match pidfd_open(process, PidfdFlags::NONBLOCK) {
            Err(Errno::SRCH) => Err(Gone),
            watched => Ok(watched.ok()),
        }
    }
}

/// A process has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_before_is_told_from_who_cannot_be_watched() {
        let user = rustix::process::geteuid().as_raw();
        let watch = |process| Credentials { process, user }.watch();
        assert!(matches!(watch(Some(rustix::process::getpid())), Ok(Some(_))));
        assert!(matches!(watch(None), Ok(None)));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(watch(Pid::from_raw(child.id() as i32)).err(), Some(Gone));
    }
}
