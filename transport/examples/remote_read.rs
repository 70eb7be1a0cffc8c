//! Remote memory: every rank opens its parameters to the others, and reads those of each.
//!
//! The head of `ranks/mod.rs` says how to start it.

mod ranks;

use std::process::ExitCode;
use std::time::Instant;

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::Rank;
use mgcomp_transport::region::Access;

/// Parameters of each rank.
const COUNT: u32 = 1 << 22;

fn main() -> ExitCode {
    ranks::run(read_all)
}

fn read_all(world: &Communicator) -> Result<String, ranks::Failure> {
    let node = world.node();
    let own = HostBuffer::from(parameters(world.rank()));
    // Every rank registers once, so the address is the same on all of them.
    let address = node.register(own.all(), Element::U32, Access::read_only())?;
    world.barrier()?; // all have registered
    let started = Instant::now();
    for peer in node.position().peers() {
        let copy = HostBuffer::zeroed(own.len());
        let bytes = node.read(peer, address, copy.all()).wait()?;
        let equal = copy.all().to_vec() == parameters(peer.0);
        let Rank(rank) = node.position().rank;
        println!("rank {rank} read {bytes} bytes of rank {peer}, equal: {equal}");
        if !equal {
            return Err("the bytes differ".into());
        }
    }
    Ok(format!("read the parameters of all others in {:.1?}", started.elapsed()))
}

/// Numbers that count up, from another start on every rank.
fn parameters(rank: u32) -> Vec<u8> {
    (0..COUNT).flat_map(|number| (number + rank * COUNT).to_le_bytes()).collect()
}
