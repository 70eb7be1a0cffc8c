//! Ranks on one or several machines: each reads a tensor from every other one.
//!
//! Give every rank the same rank file (see README.md) and its own number, at about the same time:
//!
//! ```sh
//! cargo run --release -p mgcomp-transport --example ranks -- job.json 0
//! cargo run --release -p mgcomp-transport --example ranks -- job.json 1
//! ```

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_transport::calibrate;
use mgcomp_transport::link::Link;
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Tag};
use mgcomp_transport::node::{Node, NodeConfig, PeerState};
use mgcomp_transport::region::{Access, RegionTable};

/// Values in each rank's tensor.
const VALUES: u32 = 1 << 22;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(rank_file), Some(rank)) = (args.next(), args.next()) else {
        return Err("usage: ranks RANK_FILE RANK".into());
    };
    let rank_file = RankFile::read(Path::new(&rank_file))?;
    let rank = Rank(rank.parse()?);

    let config = NodeConfig { secret: rank_file.secret, ..NodeConfig::default() };
    let tcp = TcpConfig {
        limits: config.limits,
        queue_bytes: 1 << 30,
        connect_timeout: Duration::from_secs(20),
        shaping: None,
    };
    let link = Tcp::listen(rank_file, rank, tcp)?;
    let peers: Vec<Rank> = link.position().peers().collect();
    // The policy that predicts, from what `mgcomp calibrate` measured on this machine if it was run.
    let (policy, steering) = (PolicySpec::Adaptive, Steering { lambda: None, speeds: calibrate::speeds() });
    // Every rank registers its tensor first, so it has the same address on all of them; before the node starts,
    // so that it is there when the first peer asks.
    let own = HostBuffer::from(tensor(rank));
    let mut regions = RegionTable::default();
    let address = regions.register(own.all(), Element::U32, Access::read_only())?;
    let node = Node::start_with(Box::new(link), policy.build(&steering), config, regions)?;
    for (peer, state) in node.wait_for_peers(Duration::from_secs(20)) {
        if let PeerState::Over(error) = state {
            return Err(format!("rank {peer}: {error}").into());
        }
    }
    for &peer in &peers {
        let copy = HostBuffer::zeroed(own.len());
        let started = Instant::now();
        let bytes = node.read(peer, address, copy.all()).wait()?;
        let gigabytes_per_second = bytes as f64 / started.elapsed().as_nanos() as f64;
        let equal = copy.all().to_vec() == tensor(peer);
        println!(
            "rank {rank} read {bytes} bytes of rank {peer} at {gigabytes_per_second:.2} GB/s, equal: {equal}"
        );
        if !equal {
            return Err("the bytes differ".into());
        }
    }
    // Nobody leaves before everybody has read: a send is finished when it was received.
    let nothing = HostBuffer::zeroed(0);
    let done: Vec<_> = peers
        .iter()
        .flat_map(|&peer| {
            [node.send(peer, Tag(0), nothing.all(), Element::U8), node.receive(peer, Tag(0), nothing.all())]
        })
        .collect();
    for handle in done {
        handle.wait()?;
    }
    let sent = node.stats().total();
    println!("rank {rank} sent {} bytes as {}", sent.raw_bytes, sent.coded_bytes);
    Ok(())
}

/// Numbers that count up, from another start on every rank.
fn tensor(rank: Rank) -> Vec<u8> {
    (0..VALUES).flat_map(|value| (value + rank.0 * VALUES).to_le_bytes()).collect()
}
