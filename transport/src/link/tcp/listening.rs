//! Where a rank listens: on all addresses that its entry in the rank file stands for on this machine, and on no others unless that
//! would be of no use.
//!
//! Many systems have their own name stand for a loopback address (Debian: 127.0.1.1), which no other machine reaches. Then a rank
//! listens as well on those addresses that this machine has towards the ranks that are to connect. An address that is written as one
//! is meant, and so is `localhost`: nothing is added to these.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use super::rank_file::{RankFile, host};
use crate::link::LinkError;
use crate::message::Rank;

/// Of the time that ranks have to find each other, the part in which others' names are looked up, where that is needed.
const LOOKING_UP: u32 = 4;

/// Opens the sockets that the ranks above `rank` will connect to, which try so for `patience`.
pub(super) fn listen(
    rank_file: &RankFile,
    rank: Rank,
    patience: Duration,
) -> Result<Vec<TcpListener>, LinkError> {
    let (ranks, place) = (rank_file.ranks(), rank.0 as usize);
    let entry = rank_file.addresses.get(place).ok_or(LinkError::NoSuchRank { rank, ranks })?;
    let found = entry.to_socket_addrs();
    let found = found.map_err(|error| LinkError::io("cannot resolve", host(entry), &error))?;
    let own: Vec<_> = without_repeats(found).collect();
    let mut listeners = open_all(&own).map_err(|(address, error)| {
        let address = address.map(|address| address.to_string()).filter(|address| address != entry);
        let what = address.map_or(entry.clone(), |address| format!("{entry} ({address})"));
        LinkError::io("listening on", what, &error)
    })?;
    if !is_meant(entry)
        && let Some(port) = port_for_this_machine_only(&listeners)
    {
        let others = addresses_of(&rank_file.addresses[place + 1..], host(entry), patience / LOOKING_UP);
        listeners.extend(open_towards(entry, port, others));
    }
    Ok(listeners)
}

/// Listens on each of these addresses. A name may stand for some that this machine does not have, or of a kind that it does not
/// speak: these are passed over, if there is another one. On any other error, whoever connects there would find somebody else.
fn open_all(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, (Option<SocketAddr>, io::Error)> {
    let (mut listeners, mut passed_over) = (Vec::new(), None);
    for &address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_not_here(&error) => {
                tracing::warn!(%address, %error, "not listening on an address of this rank's name");
                passed_over.get_or_insert((Some(address), error));
            }
            Err(error) => return Err((Some(address), error)),
        }
    }
    match passed_over {
        Some(failed) if listeners.is_empty() => Err(failed),
        None if listeners.is_empty() => {
            Err((None, io::Error::new(ErrorKind::NotFound, "the name stands for no address")))
        }
        _ => Ok(listeners),
    }
}

/// Listens on the addresses that this machine has towards `others`, as soon as each is known. What does not go well is logged: it
/// may be that nobody needs it.
fn open_towards(entry: &str, port: u16, others: impl Iterator<Item = SocketAddr>) -> Vec<TcpListener> {
    let mut listeners = Vec::new();
    for address in without_repeats(others.filter_map(|other| address_towards(other, port))) {
        match TcpListener::bind(address) {
            Ok(listener) => {
                tracing::warn!(
                    "{entry} stands for a loopback address here, so this rank listens on {address} as well; better \
                     have the rank file name an address that all machines reach"
                );
                listeners.push(listener);
            }
            Err(error) => tracing::error!(
                "{entry} stands for a loopback address here, and listening on {address} as well failed ({error}): \
                 other machines cannot connect"
            ),
        }
    }
    listeners
}

/// Which of its addresses this machine uses to reach another one, with this `port`, if it is another one. Nothing is sent.
fn address_towards(other: SocketAddr, port: u16) -> Option<SocketAddr> {
    let any: IpAddr =
        if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(other).ok()?;
    let mut address = socket.local_addr().ok()?;
    address.set_port(port);
    (!address.ip().is_loopback() && !address.ip().is_unspecified()).then_some(address)
}

/// The addresses of ranks on other hosts than `own`, of which each is looked up when it is asked for. Those that cannot be found
/// out now, or in time, are left out.
fn addresses_of<'a>(
    entries: &'a [String],
    own: &'a str,
    patience: Duration,
) -> impl Iterator<Item = SocketAddr> + 'a {
    let (started, mut hosts) = (Instant::now(), HashSet::from([own]));
    let others = entries.iter().filter(move |entry| hosts.insert(host(entry)));
    let in_time = move |entry: &&String| {
        let in_time = started.elapsed() < patience;
        if !in_time {
            tracing::error!(%entry, "this name of a rank that is to connect, and those behind it, took too long to look up");
        }
        in_time
    };
    others.take_while(in_time).flat_map(|entry| {
        let found = entry.to_socket_addrs().inspect_err(
            |error| tracing::error!(entry, %error, "cannot resolve the name of a rank that is to connect"),
        );
        found.into_iter().flatten()
    })
}

/// Whether an entry can stand for nothing but what it says.
fn is_meant(entry: &str) -> bool {
    entry.parse::<SocketAddr>().is_ok() || host(entry).eq_ignore_ascii_case("localhost")
}

/// Their port, if no other machine reaches any of them.
fn port_for_this_machine_only(listeners: &[TcpListener]) -> Option<u16> {
    let mut open = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    let first = open.next()?;
    (first.ip().is_loopback() && open.all(|address| address.ip().is_loopback())).then_some(first.port())
}

/// Whether the address is none of this machine's, or of a kind that it does not speak.
fn is_not_here(error: &io::Error) -> bool {
    let unspoken = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(unspoken)
}

fn without_repeats(addresses: impl Iterator<Item = SocketAddr>) -> impl Iterator<Item = SocketAddr> {
    let mut seen = HashSet::new();
    addresses.filter(move |&address| seen.insert(address))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::Arc;

    use super::super::{Tcp, TcpConfig};
    use super::*;
    use crate::link::Link as _;
    use crate::message::Limits;

    /// An address of this machine that others have a way to; the documentation's addresses are nobody's.
    fn address_here() -> Option<SocketAddr> {
        address_towards("203.0.113.1:1".parse().unwrap(), 0)
    }

    /// Addresses of this machine with one port that nobody has.
    fn addresses_with_one_port(hosts: [&str; 2]) -> Option<[SocketAddr; 2]> {
        let free = TcpListener::bind((hosts[0], 0)).ok()?.local_addr().unwrap().port();
        let addresses = hosts.map(|host| SocketAddr::new(host.parse().unwrap(), free));
        addresses.iter().all(|address| TcpListener::bind(address).is_ok()).then_some(addresses)
    }

    #[test]
    fn every_address_of_the_name_is_listened_on() {
        let Some(addresses) = addresses_with_one_port(["127.0.0.4", "127.0.0.5"]) else {
            return println!("SKIPPED: this machine has but one loopback address");
        };
        let listeners = open_all(&addresses).unwrap();
        addresses.iter().for_each(|address| drop(TcpStream::connect(address).unwrap()));
        drop(listeners);
        // One that is not this machine's does no harm, wherever it stands.
        let far: SocketAddr = (Ipv4Addr::new(203, 0, 113, 1), addresses[0].port()).into();
        let listeners = open_all(&[far, addresses[0], far, addresses[1]]).unwrap();
        let open: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        assert_eq!(open, addresses);
        assert_eq!(open_all(&[far]).unwrap_err().0, Some(far));
    }

    #[test]
    fn a_link_lets_in_on_every_address_until_it_is_gone() {
        let Some(addresses) = addresses_with_one_port(["127.0.0.8", "127.0.0.9"]) else {
            return println!("SKIPPED: this machine has but one loopback address");
        };
        let entries = addresses.map(|address| address.to_string());
        let rank_file = RankFile { secret: "00".repeat(16).parse().unwrap(), addresses: entries.to_vec() };
        let limits = Limits { max_transfer_bytes: 1 << 20, window_bytes: 1 << 20, max_in_flight: 4 };
        let config = TcpConfig::new(limits);
        let mut link = Tcp::over(open_all(&addresses).unwrap(), rank_file, Rank(0), config).unwrap();
        link.start(Arc::new(|_| ())).unwrap();
        for address in addresses.iter().chain(&addresses) {
            let mut stranger = TcpStream::connect(address).unwrap();
            stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stranger.write_all(&[0xff; 8]).unwrap(); // no record is so long
            assert_eq!(stranger.read(&mut [0]).unwrap(), 0);
        }
        drop(link);
        for address in addresses {
            assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn an_address_that_another_process_has_is_an_error() {
        let Some(addresses) = addresses_with_one_port(["127.0.0.6", "127.0.0.7"]) else {
            return println!("SKIPPED: this machine has but one loopback address");
        };
        for address in addresses {
            let _other = TcpListener::bind(address).unwrap();
            let (named, error) = open_all(&addresses).unwrap_err();
            assert_eq!((named, error.kind()), (Some(address), ErrorKind::AddrInUse));
        }
    }

    #[test]
    fn who_is_known_by_a_loopback_address_listens_where_others_come_from() {
        let far = "203.0.113.1:1".parse().unwrap();
        let Some(here) = address_here() else {
            return println!("SKIPPED: this machine has no way to others");
        };
        let near: SocketAddr = "127.0.0.1:1".parse().unwrap();
        // A port that nobody has here.
        let port = TcpListener::bind(here).unwrap().local_addr().unwrap().port();
        let listeners = open_towards("node:1", port, [far, near, far].into_iter());
        let open: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        assert_eq!(open, [SocketAddr::new(here.ip(), port)]);
        assert_eq!(port_for_this_machine_only(&listeners), None);
        // Where all ranks are here there is nobody to listen for.
        assert!(open_towards("node:1", port, [near].into_iter()).is_empty());
        let loopback = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = loopback.local_addr().unwrap().port();
        assert_eq!(port_for_this_machine_only(&[loopback]), Some(own));
    }

    #[test]
    fn names_are_looked_up_once_and_in_time() {
        let entries = ["own:1", "127.0.0.1:2", "127.0.0.1:3", "no-such-host.invalid:4", "127.0.0.2:5"];
        let entries = entries.map(str::to_owned);
        let found: Vec<_> = addresses_of(&entries, "own", Duration::from_secs(600)).collect();
        assert_eq!(found, ["127.0.0.1:2", "127.0.0.2:5"].map(|address| address.parse().unwrap()));
        assert_eq!(addresses_of(&entries, "own", Duration::ZERO).count(), 0);
    }

    #[test]
    fn an_address_that_is_written_as_one_is_meant() {
        for entry in ["127.0.0.1:1", "[::1]:1", "localhost:1", "LOCALHOST:1"] {
            assert!(is_meant(entry), "{entry}");
        }
        assert!(!is_meant("node:1") && !is_meant("localhost.example:1"));
    }
}
