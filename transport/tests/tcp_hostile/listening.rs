//! Where a rank listens that the rank file calls by a name.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};

use mgcomp_transport::link::tcp::{RankFile, Tcp};
use mgcomp_transport::message::Rank;

use crate::common::end::End;
use crate::common::fabric::tcp_config;
use crate::common::{SECRET, watched};

/// An address of the documentation, which is nobody's.
const FAR: &str = "203.0.113.1:1";

/// This machine's name, if that stands for nothing but loopback addresses here.
fn loopback_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().to_owned();
    let mut found = (&name[..], 1).to_socket_addrs().ok()?;
    (name != "localhost" && found.all(|address| address.ip().is_loopback())).then_some(name)
}

/// The address that this machine has for others.
fn address_here() -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect(FAR).ok()?;
    socket.local_addr().ok().filter(|address| !address.ip().is_loopback())
}

#[test]
fn a_name_that_stands_for_loopback_is_listened_on_where_others_come_from() {
    watched(|| {
        let (Some(name), Some(here)) = (loopback_name(), address_here()) else {
            return println!(
                "SKIPPED: this machine's name is not one of loopback, or it has no way to others"
            );
        };
        let port = TcpListener::bind((here.ip(), 0)).unwrap().local_addr().unwrap().port();
        let near = format!("{name}:{port}").to_socket_addrs().unwrap().next().unwrap();
        let here = SocketAddr::new(here.ip(), port);
        // All that there is to reach where the other rank is here too, and where this one is called by an address.
        let all = |own: String, other: &str, reached: &[SocketAddr]| {
            let rank_file = RankFile { secret: SECRET, addresses: vec![own, other.to_owned()] };
            let link = Tcp::listen(rank_file, Rank(0), tcp_config(1 << 20, None)).unwrap();
            let end = End::start(Box::new(link));
            for address in [near, here] {
                let refused = TcpStream::connect(address).err().map(|error| error.kind());
                let expected = (!reached.contains(&address)).then_some(ErrorKind::ConnectionRefused);
                assert_eq!(refused, expected, "{address}");
            }
            drop(end);
            for address in [near, here] {
                let error = TcpStream::connect(address).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
            }
        };
        all(format!("{name}:{port}"), FAR, &[near, here]);
        all(format!("{name}:{port}"), "127.0.0.1:1", &[near]);
        all(near.to_string(), FAR, &[near]);
        all(here.to_string(), FAR, &[here]);
    });
}
