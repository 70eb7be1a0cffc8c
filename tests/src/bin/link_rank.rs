//! One rank of a job over TCP or shared memory, for tests that do things to processes: moves bytes to and from all peers, checks
//! them, and tells of it until it is told to leave.
//!
//! Arguments: `tcp`, `tcp_over_4` (connections) or `shm`, its rank, and the milliseconds that a peer may be silent. What it says,
//! a line each:
//!
//! | line | meaning |
//! |---|---|
//! | `LISTENING address` | the first line; then the rank file is expected on standard input, in one line |
//! | `ROUND peer n` | bytes went to `peer` and came back, and were right, for the n-th time |
//! | `LOST peer error` | a request failed; nothing more is asked of `peer` |
//! | `WRONG peer what` | bytes were not right |
//!
//! It leaves in good order at the next line, or the end, of standard input.

use std::error::Error;
use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_tests::data::{Kind, bytes};
use mgcomp_transport::link::Link;
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Limits, Rank, Tag};
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::region::{Access, RegionTable};
use mgcomp_transport::session::TransferError;

/// Bytes that go one way in a round, three times.
const LEN: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let mut number =
        || arguments.next().ok_or("a link and two numbers are expected")?.parse::<u32>().map_err(Box::from);
    let (rank, silence_ms): (u32, Result<u32, Box<dyn Error>>) = (number()?, number());
    let silence_timeout = Duration::from_millis(silence_ms?.into());

    let listener = Tcp::bind("127.0.0.1:0")?;
    tell(format_args!("LISTENING {}", listener.local_addr()?));
    let mut lines = io::stdin().lines();
    let rank_file = RankFile::parse(&lines.next().ok_or("a rank file is expected")??)?;

    let config = NodeConfig {
        secret: rank_file.secret,
        piece_bytes: 100_000,
        greeting_timeout: Duration::from_secs(20),
        silence_timeout,
        ..NodeConfig::default()
    };
    let link = link(&kind, listener, rank_file, Rank(rank), config.limits)?;
    let policy = "paper".parse::<PolicySpec>()?.build(&Steering::default());
    // A slot for each rank to write to.
    let mut regions = RegionTable::default();
    let memory = HostBuffer::zeroed(LEN * link.position().ranks as usize);
    regions.register(memory.all(), Element::U32, Access::all())?;
    let node = Node::start_with(link, policy, config, regions)?;

    let leaving = AtomicBool::new(false);
    thread::scope(|scope| {
        for peer in node.position().peers() {
            let (node, leaving) = (&node, &leaving);
            scope.spawn(move || talk(node, peer, leaving));
        }
        lines.next();
        leaving.store(true, Ordering::SeqCst);
        // Whoever waits for a peer would wait for as long as that is there.
        node.position().peers().for_each(|peer| node.disconnect(peer));
    });
    Ok(())
}

/// The rank's end of a link of this kind.
fn link(
    kind: &str,
    listener: TcpListener,
    rank_file: RankFile,
    rank: Rank,
    limits: Limits,
) -> Result<Box<dyn Link>, Box<dyn Error>> {
    match kind {
        "tcp" => Ok(Box::new(Tcp::new(listener, rank_file, rank, TcpConfig::new(limits))?)),
        "tcp_over_4" => {
            let config = TcpConfig { connections: "4".parse()?, ..TcpConfig::new(limits) };
            Ok(Box::new(Tcp::new(listener, rank_file, rank, config)?))
        }
        #[cfg(target_os = "linux")]
        "shm" => {
            use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
            let job = ShmJob::new(rank_file.secret, rank_file.ranks());
            Ok(Box::new(Shm::new(job, rank, ShmConfig::new(limits))?))
        }
        _ => Err(format!("no link {kind:?}").into()),
    }
}

fn talk(node: &Node, peer: Rank, leaving: &AtomicBool) {
    for n in 0.. {
        match round(node, peer, n) {
            _ if leaving.load(Ordering::SeqCst) => return,
            Ok(None) => tell(format_args!("ROUND {peer} {n}")),
            Ok(Some(what)) => return tell(format_args!("WRONG {peer} {what} in round {n}")),
            Err(error) => return tell(format_args!("LOST {peer} {error}")),
        }
    }
}

/// Writes to the peer, reads that back, and exchanges bytes with it; returns what was not right.
fn round(node: &Node, peer: Rank, n: u64) -> Result<Option<&'static str>, TransferError> {
    let own = node.position().rank;
    let data =
        |from: Rank, to: Rank| bytes(Kind::Mixed, LEN, n << 16 | u64::from(from.0) << 8 | u64::from(to.0));
    let source = HostBuffer::from(data(own, peer));
    let (back, received) = (HostBuffer::zeroed(LEN), HostBuffer::zeroed(LEN));
    let slot = Address::new(0, own.0 * LEN as u32);
    node.write(peer, source.all(), Element::U32, slot).wait()?;
    let receiving = node.receive(peer, Tag(n), received.all());
    let sending = node.send(peer, Tag(n), source.all(), Element::U32);
    node.read(peer, slot, back.all()).wait()?;
    sending.wait()?;
    receiving.wait()?;

    if back.all().to_vec() != data(own, peer) {
        return Ok(Some("what was written and read back"));
    }
    let as_sent = received.all().to_vec() == data(peer, own);
    Ok((!as_sent).then_some("what was received"))
}

/// Prints a line whole, whatever other threads print. Nobody may be there any more to read it.
fn tell(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}
