//! What the kernel counts of a connection.
#![allow(unsafe_code)] // a call of getsockopt

use std::os::fd::AsFd;
use std::time::Duration;

/// Counters of a connection, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Bytes that the peer's system has acknowledged.
    pub(super) acknowledged_bytes: u64,
    /// How long there was anything that it had not.
    pub(super) busy: Duration,
    /// The shortest time from a byte's departure to its acknowledgement; zero while the kernel has measured none.
    pub(super) round_trip: Duration,
}

impl Counters {
    /// Those of `socket`; `None` where the system does not count.
    #[cfg(target_os = "linux")]
    pub(super) fn of(socket: impl AsFd) -> Option<Self> {
        use std::os::fd::AsRawFd as _;

        let mut info = [0u64; layout::WORDS];
        let mut len = size_of_val(&info) as libc::socklen_t;
        let socket = socket.as_fd().as_raw_fd();
        // SAFETY: pointer and length are those of `info`, which any bits may be written to.
        let status = unsafe {
            libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut len)
        };
        (status == 0 && len as usize >= layout::KNOWN_BYTES).then(|| layout::read(&info))
    }

    /// Those of `socket`; `None` where the system does not count.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: impl AsFd) -> Option<Self> {
        None
    }
}

/// `struct tcp_info` of `linux/tcp.h`, of which newer systems know more than older ones: all of this from Linux 4.10 on.
#[cfg(target_os = "linux")]
mod layout {
    use super::{Counters, Duration};

    /// More than is asked for, so that the whole structure fits.
    pub(super) const WORDS: usize = 40;
    /// `tcpi_bytes_acked`, a u64.
    const ACKNOWLEDGED: usize = 120;
    /// `tcpi_min_rtt` in microseconds, a u32.
    const ROUND_TRIP: usize = 148;
    /// `tcpi_busy_time` in microseconds, a u64.
    const BUSY: usize = 168;
    pub(super) const KNOWN_BYTES: usize = BUSY + 8;

    pub(super) fn read(info: &[u64; WORDS]) -> Counters {
        let round_trip = info[ROUND_TRIP / 8].to_ne_bytes();
        let round_trip = u32::from_ne_bytes(std::array::from_fn(|byte| round_trip[ROUND_TRIP % 8 + byte]));
        // All bits are set while there is none.
        let round_trip = if round_trip == u32::MAX { 0 } else { round_trip };
        Counters {
            acknowledged_bytes: info[ACKNOWLEDGED / 8],
            busy: Duration::from_micros(info[BUSY / 8]),
            round_trip: Duration::from_micros(round_trip.into()),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_counts_what_arrives() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        let before = Counters::of(&writer).unwrap();
        let echo = std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 20];
            reader.read_exact(&mut bytes).unwrap();
            reader.write_all(&[1]).unwrap();
        });
        writer.write_all(&vec![7; 1 << 20]).unwrap();
        writer.read_exact(&mut [0]).unwrap();
        echo.join().unwrap();
        // The answer acknowledges all that was read before it.
        let after = Counters::of(&writer).unwrap();
        assert_eq!(after.acknowledged_bytes - before.acknowledged_bytes, 1 << 20);
        assert!(after.busy >= before.busy && after.round_trip < Duration::from_secs(60), "{after:?}");
        assert_eq!(Counters::of(std::fs::File::open("/dev/null").unwrap()), None);
    }
}
