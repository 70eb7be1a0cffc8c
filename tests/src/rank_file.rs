//! Rank files of jobs whose ranks a test starts by hand.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

/// What the rank file of two ranks says. They have to listen by themselves, so their ports are free again; but on addresses
/// that nothing else takes ports of, neither connections, which begin at 127.0.0.1, nor other jobs of this process.
///
/// # Errors
/// Those of the network.
pub fn for_two() -> io::Result<String> {
    static JOBS: AtomicU8 = AtomicU8::new(1);
    let job = JOBS.fetch_add(1, Ordering::Relaxed);
    let listeners = [1, 2].map(|rank| TcpListener::bind((Ipv4Addr::new(127, 0, job, rank + 1), 0)));
    let [zero, one] = listeners.map(|listener| listener?.local_addr());
    let (zero, one) = (zero?, one?);
    Ok(format!(r#"{{"secret":"00112233445566778899aabbccddeeff","ranks":["{zero}","{one}"]}}"#))
}
