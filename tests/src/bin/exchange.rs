//! Two ranks in one process that write to each other until the input ends, and compare what arrives: something to
//! look at and to steer. Prints how many rounds it has made, now and then. Usage: exchange POLICY, or exchange offload
//! to take memory to the host and back instead, or exchange copies to copy memory of a device with the policy fixed:bdi.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{Cache, Device};
use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_transport::copy::CopyConfig;
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadQueue};
use mgcomp_transport::link::Shaping;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::Rank;
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::peer_copy::{PeerCopier, PeerCopyConfig};
use mgcomp_transport::region::Access;

/// Bytes of a round, and of each of its messages.
const BYTES: usize = 256 << 10;
const PIECE_BYTES: u32 = 16 << 10;

type Anything = Box<dyn std::error::Error>;

fn main() -> Result<(), Anything> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let over = Arc::new(AtomicBool::new(false));
    let seen = over.clone();
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        seen.store(true, Ordering::Relaxed);
    });
    match what.as_str() {
        "offload" => offload(&over),
        "copies" => copies(&over),
        policy => exchange(policy.parse()?, &over),
    }
}

/// Writes from one rank to the other.
fn exchange(policy: PolicySpec, over: &AtomicBool) -> Result<(), Anything> {
    let shaping = Shaping::try_new(4.0, Duration::from_micros(5))?;
    let start = |link| {
        let config = NodeConfig { piece_bytes: PIECE_BYTES, ..NodeConfig::default() };
        Node::start(Box::new(link), policy.build(&Steering::default()), config)
    };
    let nodes: Vec<Node> =
        Loopback::fabric(2, Some(shaping))?.into_iter().map(start).collect::<Result<_, _>>()?;
    let (from, to) = (HostBuffer::from(half_zero()), HostBuffer::zeroed(BYTES));
    let address = nodes[1].register(to.all(), Element::F32, Access::all())?;

    rounds(over, &from, &to, || {
        nodes[0].write(Rank(1), from.all(), Element::F32, address).wait()?;
        Ok(())
    })
}

/// Takes what would be memory of a device to the host, and back.
fn offload(over: &AtomicBool) -> Result<(), Anything> {
    let copy = CopyConfig { segment_bytes: PIECE_BYTES as usize, ..CopyConfig::default() };
    let queue = OffloadQueue::start(OffloadConfig::new(copy, "fixed:zvc".parse()?, 1 << 20))?;
    let (from, to) = (HostBuffer::from(half_zero()), HostBuffer::zeroed(BYTES));
    rounds(over, &from, &to, || {
        let ticket = queue.offload(from.all(), Element::F32)?;
        queue.prefetch(ticket, to.all())?.wait()?;
        Ok(())
    })
}

/// Copies from a device to itself, for want of another.
fn copies(over: &AtomicBool) -> Result<(), Anything> {
    let device = Device::open_with(0, Cache::Off)?;
    let stream = device.stream()?;
    let (policy, segment_bytes) = ("fixed:bdi".parse()?, PIECE_BYTES.into());
    let config = PeerCopyConfig { policy, segment_bytes, gate_bytes: 1000, ..PeerCopyConfig::default() };
    let mut copier = PeerCopier::new(&device, &device, config)?;
    let (from, to) = (HostBuffer::from(half_zero()), HostBuffer::zeroed(BYTES));
    let [source, into] = [device.alloc(BYTES as u64)?, device.alloc(BYTES as u64)?];
    stream.upload(&from.all().to_vec(), source.region())?;
    let mut arrived = vec![0; BYTES];
    rounds(over, &from, &to, || {
        let copy = copier.copy(&stream, Element::F32, source.region(), into.region())?;
        copier.report(&stream, &copy)?;
        stream.download(into.region(), &mut arrived)?;
        to.all().write(|bytes| bytes.copy_from_slice(&arrived));
        Ok(())
    })
}

/// Brings all of `from` to `to` by `round`, again and again.
fn rounds(
    over: &AtomicBool,
    from: &HostBuffer,
    to: &HostBuffer,
    mut round: impl FnMut() -> Result<(), Anything>,
) -> Result<(), Anything> {
    let (mut rounds, mut told) = (0u64, Instant::now());
    while !over.load(Ordering::Relaxed) {
        round()?;
        if to.all().to_vec() != from.all().to_vec() {
            return Err("bytes arrived that are not those that were sent".into());
        }
        to.all().write(|bytes| bytes.fill(0xff));
        rounds += 1;
        if told.elapsed() > Duration::from_millis(50) {
            told = Instant::now();
            writeln!(io::stdout(), "{rounds}")?;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Floats, every other one zero, so that every codec has something to do.
fn half_zero() -> Vec<u8> {
    let value = |index: u32| if index.is_multiple_of(2) { 0.0 } else { 1.0 + (index % 1009) as f32 / 1024.0 };
    (0..BYTES as u32 / 4).flat_map(|index| value(index).to_le_bytes()).collect()
}
