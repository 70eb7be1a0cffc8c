//! What these tests share: nodes, and buffers on a device.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::device::{Buffer, Cache, Device, Stream};
use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_tests::stub::{Libraries, Stub, with_stub};
use mgcomp_transport::link::Link;
use mgcomp_transport::link::cuda::Cuda;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::memory::{DeviceBuffer, DeviceSlice};
use mgcomp_transport::message::{Rank, Secret};
use mgcomp_transport::node::{Handle, Node, NodeConfig, PeerState, TransferResult};

pub(crate) const SECRET: Secret = Secret::new(*b"a secret of 128b");
/// Nothing takes this long unless it hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(100);

/// Runs `body` with a stub whose streams have threads; see [`with_stub`].
pub(crate) fn with_threads(test: &str, seed: u64, body: impl FnOnce(&Stub)) {
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        stub.set("threads", seed);
        stub.set("strict_free", 1);
        body(stub);
        // The threads of collectives that nobody waits for end a little after their results are there.
        let started = Instant::now();
        while !stub.left().is_empty() && started.elapsed() < HANGS {
            thread::sleep(Duration::from_millis(2));
        }
    });
}

/// A way to connect ranks of one process.
pub(crate) type Links = fn(u32) -> Vec<Box<dyn Link>>;

pub(crate) fn loopback(ranks: u32) -> Vec<Box<dyn Link>> {
    Loopback::fabric(ranks, None).unwrap().into_iter().map(|link| Box::new(link) as _).collect()
}

pub(crate) fn tcp(ranks: u32) -> Vec<Box<dyn Link>> {
    let listeners: Vec<_> = (0..ranks).map(|_| Tcp::bind("127.0.0.1:0").unwrap()).collect();
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let rank_file = RankFile { secret: SECRET, addresses };
    let config = TcpConfig { connect_timeout: HANGS, ..TcpConfig::new(NodeConfig::default().limits) };
    let link = |(rank, listener)| Tcp::new(listener, rank_file.clone(), rank, config).unwrap();
    (0..).map(Rank).zip(listeners).map(link).map(|link| Box::new(link) as _).collect()
}

/// Over devices from number 0 on, one for each rank.
pub(crate) fn cuda(ranks: u32) -> Vec<Box<dyn Link>> {
    cuda_over((0..ranks).map(|rank| Some(open_on(rank).0)).collect())
}

pub(crate) fn cuda_over(devices: Vec<Option<Device>>) -> Vec<Box<dyn Link>> {
    Cuda::fabric(devices).unwrap().into_iter().map(|link| Box::new(link) as _).collect()
}

/// The nodes of all ranks, which have met.
pub(crate) fn nodes(links: Links, ranks: u32, policy: &str) -> Vec<Node> {
    nodes_over(links(ranks), policy)
}

/// As [`nodes`], over links that are there.
pub(crate) fn nodes_over(links: Vec<Box<dyn Link>>, policy: &str) -> Vec<Node> {
    let nodes: Vec<_> = links.into_iter().map(|link| node_over(link, policy)).collect();
    for node in &nodes {
        assert!(node.wait_for_peers(HANGS).iter().all(|(_, state)| *state == PeerState::Open));
    }
    nodes
}

/// One of them, which has not met the others.
pub(crate) fn node_over(link: Box<dyn Link>, policy: &str) -> Node {
    node_with(link, policy, NodeConfig::default().codec_threads)
}

/// As [`node_over`], with so many codec threads for memory of the host.
pub(crate) fn node_with(link: Box<dyn Link>, policy: &str, codec_threads: usize) -> Node {
    let policy: PolicySpec = policy.parse().unwrap();
    let config = NodeConfig {
        secret: SECRET,
        piece_bytes: 40_000,
        greeting_timeout: HANGS,
        silence_timeout: HANGS,
        codec_threads,
        ..NodeConfig::default()
    };
    Node::start(link, policy.build(&Steering::default()), config).unwrap()
}

/// The end of the session with a rank, which must come.
pub(crate) fn end_with(node: &Node, peer: Rank) -> String {
    let started = Instant::now();
    loop {
        if let Some(PeerState::Over(error)) = node.peer_state(peer) {
            return error.to_string();
        }
        assert!(started.elapsed() < HANGS, "hangs: the session with rank {peer} does not end");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a request that must end.
#[track_caller]
pub(crate) fn end_of(mut handle: Handle) -> TransferResult {
    handle.wait_for(HANGS).expect("hangs: a request does not end").clone()
}

/// The device, without a cache, and a stream of the test's own.
pub(crate) fn open() -> (Device, Stream) {
    open_on(0)
}

/// The device with this number.
pub(crate) fn open_on(ordinal: u32) -> (Device, Stream) {
    let device = Device::open_with(ordinal, Cache::Off).unwrap();
    let stream = device.stream().unwrap();
    (device, stream)
}

/// A buffer that holds `bytes`.
pub(crate) fn on_device(device: &Device, stream: &Stream, bytes: &[u8]) -> DeviceBuffer {
    let buffer = DeviceBuffer::alloc(device, bytes.len()).unwrap();
    stream.upload(bytes, buffer.all().region()).unwrap();
    buffer
}

pub(crate) fn bytes_of(stream: &Stream, slice: &DeviceSlice) -> Vec<u8> {
    let mut bytes = vec![0; slice.len()];
    stream.download(slice.region(), &mut bytes).unwrap();
    bytes
}

/// Work of the program's on a device, which ends when it is told to. Where a test fails before that, nothing waits for it for ever.
pub(crate) struct Busy {
    other: Stream,
    words: Buffer,
    pub(crate) working: Stream,
}

impl Busy {
    pub(crate) fn on(ordinal: u32) -> Self {
        let (device, other) = open_on(ordinal);
        let (working, words) = (device.stream().unwrap(), device.alloc(8).unwrap());
        other.zero(words.region()).unwrap();
        other.wait().unwrap();
        working.wait_for(words.region().word(0), 1).unwrap();
        Self { other, words, working }
    }

    pub(crate) fn end(&self) {
        self.other.post(self.words.region().word(0), 1).unwrap();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.other.post(self.words.region().word(0), 1);
        }
    }
}
