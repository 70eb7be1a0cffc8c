//! The network interfaces of this machine, chosen as NCCL's own network does.
#![allow(unsafe_code)] // a list that the C library makes

use std::env;
use std::ffi::{CStr, CString};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use rustix::io::Errno;

use crate::abi::Text;
use crate::error::NetError;
use crate::logger;

/// Which interfaces: prefixes of names with commas between, after `=` whole names, after `^` those that are not to be used.
const NAMES: &str = "NCCL_SOCKET_IFNAME";
/// Which addresses of them: `AF_INET` or `AF_INET6`.
const FAMILY: &str = "NCCL_SOCKET_FAMILY";
/// Where whoever starts the job says how its ranks meet: an address and a port.
const MEETING: &str = "NCCL_COMM_ID";
/// What is taken before all else.
const FIRST: &str = "ib";
/// What is taken only where there is nothing else, the worst last.
const LAST: [&str; 3] = ["docker", "lo", "virbr"];
/// Devices that NCCL can have.
const MOST: usize = 32;
/// The rate of what does not say, in Mb/s.
const USUAL_SPEED_MBPS: i32 = 10_000;

/// An address that an interface has, and how much of it all that are reached without a router have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    name: String,
    address: SocketAddr,
    mask: Option<IpAddr>,
}

impl Found {
    /// Whether somebody is reached by it without a router.
    fn is_near(&self, other: IpAddr) -> bool {
        match (self.address.ip(), self.mask, other) {
            (IpAddr::V4(own), Some(IpAddr::V4(mask)), IpAddr::V4(other)) => own & mask == other & mask,
            (IpAddr::V6(own), Some(IpAddr::V6(mask)), IpAddr::V6(other)) => own & mask == other & mask,
            _ => false,
        }
    }
}

/// An interface, by one of its addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    pub(super) name: Text,
    pub(super) address: SocketAddr,
}

impl Interface {
    /// Its name stays for as long as the library, since NCCL keeps pointers to it.
    fn new(name: &str, address: SocketAddr) -> Option<Self> {
        let name = CString::new(name).ok()?;
        Some(Self { name: Text(CString::into_raw(name)), address })
    }

    fn name(&self) -> &str {
        // SAFETY: `new` has made it of a `CString`, which is never freed.
        unsafe { CStr::from_ptr(self.name.0) }.to_str().unwrap_or("?")
    }

    /// Its rate in Mb/s, as far as the system says.
    pub(super) fn speed_mbps(&self) -> i32 {
        let text = std::fs::read_to_string(format!("/sys/class/net/{}/speed", self.name()));
        let speed = text.ok().and_then(|text| text.trim().parse().ok());
        speed.filter(|&speed| speed > 0).unwrap_or(USUAL_SPEED_MBPS)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.address.ip())
    }
}

/// Those that the environment asks for.
pub(super) fn from_env() -> Result<Vec<Interface>, NetError> {
    let names = env::var(NAMES).unwrap_or_default();
    let family = family(&env::var(FAMILY).unwrap_or_default());
    let meeting = env::var(MEETING).ok().and_then(|text| text.to_socket_addrs().ok()?.next());
    let all = addresses().map_err(NetError::system("getifaddrs"))?;
    let chosen = choose(&all, &names, family, meeting.map(|meeting: SocketAddr| meeting.ip()));
    if chosen.is_empty() {
        return Err(NetError::Variable { variable: NAMES, value: names, wanted: "an interface that is up" });
    }
    Ok(chosen.into_iter().filter_map(|found| Interface::new(&found.name, found.address)).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

/// What is none is passed over, as NCCL does: with its own sockets the job would run.
fn family(value: &str) -> Option<Family> {
    match value {
        "" => None,
        "AF_INET" => Some(Family::V4),
        "AF_INET6" => Some(Family::V6),
        _ => {
            logger::warn(&format!("{FAMILY}={value} is neither AF_INET nor AF_INET6, so it says nothing"));
            None
        }
    }
}

/// One address of each interface that is asked for; else of those for clusters, then those that whoever starts the job is near to,
/// then all but those that lead nowhere else, and then these.
fn choose<'a>(
    all: &'a [Found],
    names: &str,
    family: Option<Family>,
    meeting: Option<IpAddr>,
) -> Vec<&'a Found> {
    let mut usable: Vec<&Found> = Vec::new();
    for found in all {
        let fits = family.is_none_or(|family| found.address.is_ipv4() == (family == Family::V4));
        // One address stands for an interface, and it is to be the one that is near.
        let is_near = |found: &Found| meeting.is_some_and(|meeting| found.is_near(meeting));
        match usable.iter_mut().find(|known| known.name == found.name) {
            Some(known) if fits && is_near(found) && !is_near(known) => *known = found,
            None if fits => usable.push(found),
            _ => {}
        }
    }
    let pick = |is: &dyn Fn(&Found) -> bool| -> Vec<&Found> {
        usable.iter().copied().filter(|found| is(found)).take(MOST).collect()
    };
    if !names.is_empty() {
        return pick(&|found| is_asked_for(&found.name, names));
    }
    let starts = |found: &Found, start: &str| found.name.starts_with(start);
    let is_last = |found: &Found| LAST.iter().any(|last| starts(found, last));
    let mut ranked = vec![pick(&|found| starts(found, FIRST))];
    ranked.extend(meeting.map(|meeting| pick(&|found| found.is_near(meeting))));
    ranked.push(pick(&|found| !is_last(found)));
    ranked.extend(LAST.map(|last| pick(&|found| starts(found, last))));
    ranked.into_iter().find(|some| !some.is_empty()).unwrap_or_default()
}

fn is_asked_for(name: &str, names: &str) -> bool {
    let (names, is_wanted) = names.strip_prefix('^').map_or((names, true), |rest| (rest, false));
    let (names, is_exact) = names.strip_prefix('=').map_or((names, false), |rest| (rest, true));
    let mut list = names.split(',').filter(|known| !known.is_empty());
    list.any(|known| if is_exact { name == known } else { name.starts_with(known) }) == is_wanted
}

/// All addresses of interfaces that are up and have a cable, or what stands for one. Those that are good for their own cable only are
/// left out.
fn addresses() -> Result<Vec<Found>, Errno> {
    const WORKS: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;

    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the place for the list is one.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: entries of the list are there until it is freed, and point to the next or to nothing.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_flags & WORKS != WORKS {
            continue;
        }
        // SAFETY: the name of an entry is a text.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: the address of an entry is null or one, and so is its mask.
        let (address, mask) = unsafe { (address(entry.ifa_addr), address(entry.ifa_netmask)) };
        let mask = mask.map(|mask| mask.ip());
        found.extend(address.filter(|address| !is_of_cable(address)).map(|address| Found {
            name,
            address,
            mask,
        }));
    }
    // SAFETY: the list is the one that was made above, and nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Whether an address means something on its own cable only.
fn is_of_cable(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local())
}

/// # Safety
/// `address` is null, or an address as long as its family says.
unsafe fn address(address: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: as the caller says.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: of this family, so as long as this; it may lie anywhere.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), 0))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, 0, 0, v6.sin6_scope_id)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(all: &[(&str, &str)]) -> Vec<Found> {
        let masks = ["255.255.255.0", "ffff:ffff:ffff:ffff::"].map(|mask| mask.parse().unwrap());
        let found = |&(name, address): &(&str, &str)| {
            let address: SocketAddr = address.parse().unwrap();
            let mask = Some(masks[usize::from(address.is_ipv6())]);
            Found { name: name.to_owned(), address, mask }
        };
        all.iter().map(found).collect()
    }

    const ALL: [(&str, &str); 8] = [
        ("lo", "127.0.0.1:0"),
        ("virbr0", "192.168.122.1:0"),
        ("eth0", "10.0.0.1:0"),
        ("eth10", "10.0.1.1:0"),
        ("ib0", "10.0.2.1:0"),
        ("docker0", "172.17.0.1:0"),
        ("lo", "[::1]:0"),
        ("eth0", "[2001:db8::1]:0"),
    ];

    fn chosen_of(
        all: &[(&str, &str)],
        names: &str,
        family: Option<Family>,
        meeting: Option<&str>,
    ) -> Vec<String> {
        let (all, meeting) = (found(all), meeting.map(|ip| ip.parse().unwrap()));
        let chosen = choose(&all, names, family, meeting);
        chosen.iter().map(|found| format!("{} {}", found.name, found.address.ip())).collect()
    }

    fn chosen(names: &str, family: Option<Family>) -> Vec<String> {
        chosen_of(&ALL, names, family, None)
    }

    #[test]
    fn names_are_prefixes_whole_or_excluded() {
        assert_eq!(chosen("eth", None), ["eth0 10.0.0.1", "eth10 10.0.1.1"]);
        assert_eq!(chosen("=eth0,ib0", None), ["eth0 10.0.0.1", "ib0 10.0.2.1"]);
        assert_eq!(chosen("=eth", None), Vec::<String>::new());
        assert_eq!(chosen("^eth,lo,docker,virbr", None), ["ib0 10.0.2.1"]);
        assert_eq!(
            chosen("^=eth0,lo,virbr0", None),
            ["eth10 10.0.1.1", "ib0 10.0.2.1", "docker0 172.17.0.1"]
        );
        assert_eq!(chosen("lo", None), ["lo 127.0.0.1"]);
        assert_eq!(chosen("", Some(Family::V6)), ["eth0 2001:db8::1"]);
        assert_eq!(chosen("lo", Some(Family::V6)), ["lo ::1"]);
        assert_eq!(chosen("virbr", None), ["virbr0 192.168.122.1"]);
    }

    #[test]
    fn where_nobody_says_it_is_as_nccl_has_it() {
        // For clusters; else near to whoever starts the job; else what leads anywhere; else the worst last.
        assert_eq!(chosen("", None), ["ib0 10.0.2.1"]);
        let without_ib = ALL.map(|(name, address)| (if name == "ib0" { "eno1" } else { name }, address));
        let of = |meeting| chosen_of(&without_ib, "", None, meeting);
        let all = ["eth0 10.0.0.1", "eth10 10.0.1.1", "eno1 10.0.2.1"];
        assert_eq!(
            (of(None), of(Some("10.9.9.9"))),
            (all.map(str::to_owned).into(), all.map(str::to_owned).into())
        );
        assert_eq!(of(Some("10.0.1.77")), ["eth10 10.0.1.1"]);
        assert_eq!(of(Some("2001:db8::7")), ["eth0 2001:db8::1"]);
        let worst = [("virbr0", "192.168.122.1:0"), ("lo", "127.0.0.1:0"), ("docker0", "172.17.0.1:0")];
        for (len, name) in [(3, "docker0 172.17.0.1"), (2, "lo 127.0.0.1"), (1, "virbr0 192.168.122.1")] {
            assert_eq!(chosen_of(&worst[..len], "", None, None), [name]);
        }
    }

    #[test]
    fn a_family_that_is_none_says_nothing() {
        assert_eq!(
            ["", "AF_INET", "AF_INET6", "inet"].map(family),
            [None, Some(Family::V4), Some(Family::V6), None]
        );
    }

    #[test]
    fn this_machine_has_a_loopback() {
        let all = addresses().unwrap();
        assert!(
            all.iter().any(|found| found.name == "lo" && found.is_near(Ipv4Addr::LOCALHOST.into())),
            "{all:?}"
        );
    }
}
