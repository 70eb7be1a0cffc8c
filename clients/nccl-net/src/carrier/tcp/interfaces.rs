//! The network interfaces of this machine, chosen as NCCL's own network does.
#![allow(unsafe_code)] // a list that the C library makes

use std::env;
use std::ffi::{CStr, CString};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rustix::io::Errno;

use crate::abi::Text;
use crate::error::NetError;

/// Which interfaces: prefixes of names with commas between, after `=` whole names, after `^` those that are not to be used.
const NAMES: &str = "NCCL_SOCKET_IFNAME";
/// Which addresses of them: `AF_INET` or `AF_INET6`.
const FAMILY: &str = "NCCL_SOCKET_FAMILY";
/// What is taken only where there is nothing else, the worst last.
const LAST: [&str; 2] = ["docker", "lo"];
/// Devices that NCCL can have.
const MOST: usize = 32;
/// The rate of what does not say, in Mb/s.
const USUAL_SPEED_MBPS: i32 = 10_000;

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
    let family = family(env::var(FAMILY).unwrap_or_default())?;
    let all = addresses().map_err(NetError::system("getifaddrs"))?;
    let chosen = choose(&all, &names, family);
    if chosen.is_empty() {
        return Err(NetError::Variable { variable: NAMES, value: names, wanted: "an interface that is up" });
    }
    Ok(chosen.into_iter().filter_map(|(name, address)| Interface::new(name, *address)).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

fn family(value: String) -> Result<Option<Family>, NetError> {
    match value.as_str() {
        "" => Ok(None),
        "AF_INET" => Ok(Some(Family::V4)),
        "AF_INET6" => Ok(Some(Family::V6)),
        _ => Err(NetError::Variable { variable: FAMILY, value, wanted: "AF_INET or AF_INET6" }),
    }
}

/// One address of each interface that is asked for.
fn choose<'a>(
    all: &'a [(String, SocketAddr)],
    names: &str,
    family: Option<Family>,
) -> Vec<(&'a str, &'a SocketAddr)> {
    let mut usable: Vec<(&str, &SocketAddr)> = Vec::new();
    for (name, address) in all {
        let fits = family.is_none_or(|family| address.is_ipv4() == (family == Family::V4));
        if fits && !usable.iter().any(|(known, _)| known == name) {
            usable.push((name, address));
        }
    }
    let pick = |is: &dyn Fn(&str) -> bool| {
        usable.iter().copied().filter(|(name, _)| is(name)).take(MOST).collect::<Vec<_>>()
    };
    if !names.is_empty() {
        return pick(&|name| is_asked_for(name, names));
    }
    let is_last = |name: &str| LAST.iter().any(|last| name.starts_with(last));
    let best = pick(&|name| !is_last(name));
    let others = || LAST.map(|last| pick(&|name| name.starts_with(last)));
    if best.is_empty() {
        others().into_iter().find(|some| !some.is_empty()).unwrap_or_default()
    } else {
        best
    }
}

fn is_asked_for(name: &str, names: &str) -> bool {
    let (names, is_wanted) = names.strip_prefix('^').map_or((names, true), |rest| (rest, false));
    let (names, is_exact) = names.strip_prefix('=').map_or((names, false), |rest| (rest, true));
    let mut list = names.split(',').filter(|known| !known.is_empty());
    list.any(|known| if is_exact { name == known } else { name.starts_with(known) }) == is_wanted
}

/// All addresses of interfaces that are up. Those that are good for their own cable only are left out.
fn addresses() -> Result<Vec<(String, SocketAddr)>, Errno> {
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
        if entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: the name of an entry is a text.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: the address of an entry is null or one.
        found.extend(unsafe { address(entry.ifa_addr) }.map(|address| (name, address)));
    }
    // SAFETY: the list is the one that was made above, and nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
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
            let usable = !ip.is_unicast_link_local();
            usable.then(|| SocketAddr::V6(SocketAddrV6::new(ip, 0, 0, v6.sin6_scope_id)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &str, family: Option<Family>) -> Vec<String> {
        let all = [
            ("lo", "127.0.0.1:0"),
            ("eth0", "10.0.0.1:0"),
            ("eth10", "10.0.1.1:0"),
            ("ib0", "10.0.2.1:0"),
            ("docker0", "172.17.0.1:0"),
            ("lo", "[::1]:0"),
            ("eth0", "[2001:db8::1]:0"),
        ];
        let all = all.map(|(name, address)| (name.to_owned(), address.parse().unwrap()));
        choose(&all, names, family).iter().map(|(name, address)| format!("{name} {}", address.ip())).collect()
    }

    #[test]
    fn names_are_prefixes_whole_or_excluded() {
        assert_eq!(chosen("", None), ["eth0 10.0.0.1", "eth10 10.0.1.1", "ib0 10.0.2.1"]);
        assert_eq!(chosen("eth", None), ["eth0 10.0.0.1", "eth10 10.0.1.1"]);
        assert_eq!(chosen("=eth0,ib0", None), ["eth0 10.0.0.1", "ib0 10.0.2.1"]);
        assert_eq!(chosen("=eth", None), Vec::<String>::new());
        assert_eq!(chosen("^eth,lo,docker", None), ["ib0 10.0.2.1"]);
        assert_eq!(chosen("^=eth0,lo", None), ["eth10 10.0.1.1", "ib0 10.0.2.1", "docker0 172.17.0.1"]);
        assert_eq!(chosen("lo", None), ["lo 127.0.0.1"]);
        assert_eq!(chosen("", Some(Family::V6)), ["eth0 2001:db8::1"]);
        assert_eq!(chosen("lo", Some(Family::V6)), ["lo ::1"]);
    }

    #[test]
    fn the_worst_comes_last() {
        let all = [("docker0", "172.17.0.1:0"), ("lo", "127.0.0.1:0")]
            .map(|(name, address)| (name.to_owned(), address.parse().unwrap()));
        assert_eq!(choose(&all, "", None)[0].0, "docker0");
        assert_eq!(choose(&all[1..], "", None)[0].0, "lo");
    }

    #[test]
    fn this_machine_has_a_loopback() {
        let all = addresses().unwrap();
        assert!(all.iter().any(|(name, address)| name == "lo" && address.ip().is_loopback()), "{all:?}");
    }
}
