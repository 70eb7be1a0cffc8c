//! Two ranks that talk to each other while others misbehave.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use mgcomp_codecs::Element;
use mgcomp_transport::link::tcp::{RankFile, Tcp};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Rank};
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::region::Access;

use crate::common::fabric::tcp_config;
use crate::common::job::{config, end_of, node};
use crate::common::{HANGS, SECRET, sparse, wait_until};

/// Ranks in the job, of which some do not exist but as what the test makes of them.
pub(crate) const RANKS: u32 = 5;

const LEN: usize = 100_000;

/// Ranks 0 and 1 of a job of five, busy with each other. Where silence is to end sessions soon, rank 1 alone asks the other.
pub(crate) struct Bystanders {
    pub(crate) nodes: Arc<[Node; 2]>,
    /// Where strangers reach rank 0.
    pub(crate) address: SocketAddr,
    rounds: Arc<Mutex<u64>>,
    stop: Arc<AtomicBool>,
    busy: Option<JoinHandle<()>>,
}

impl Bystanders {
    pub(crate) fn start() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: NodeConfig) -> Self {
        let listeners: [_; 2] = std::array::from_fn(|_| Tcp::bind("127.0.0.1:0").unwrap());
        let address = listeners[0].local_addr().unwrap();
        let rank_file = rank_file(&listeners);
        // Rank 0 waits for nobody but those who are to be found silent: the other one may only be slow.
        let impatient = config.silence_timeout < HANGS;
        let of_rank_1 = NodeConfig { silence_timeout: config.silence_timeout.max(HANGS), ..config.clone() };
        let start = |(rank, listener, config)| {
            let link = Tcp::new(listener, rank_file.clone(), Rank(rank), tcp_config(64 << 20, None)).unwrap();
            node(Box::new(link), "fixed:zvc", config)
        };
        let [zero, one] = listeners;
        let nodes = Arc::new([(0, zero, config), (1, one, of_rank_1)].map(start));
        for node in nodes.iter() {
            let content = HostBuffer::from(sparse(node.position().rank.0.into(), LEN));
            node.register(content.all(), Element::U32, Access::all()).unwrap();
        }
        wait_for(&nodes[0], Rank(1), "a session", |state| state == "Open");
        let (rounds, stop) = (Arc::default(), Arc::<AtomicBool>::default());
        let mut all = Self { nodes, address, rounds, stop, busy: None };
        all.busy = Some(all.work(impatient));
        all
    }

    /// Checks that the two go on: a transfer that starts from now on goes well in both directions, or to rank 1 alone.
    pub(crate) fn check(&self) {
        let before = *self.rounds.lock().unwrap();
        // The first of these may have started before.
        wait_until("the other ranks go on", || *self.rounds.lock().unwrap() >= before + 2);
    }

    fn work(&self, impatient: bool) -> JoinHandle<()> {
        let (nodes, rounds, stop) = (self.nodes.clone(), self.rounds.clone(), self.stop.clone());
        thread::spawn(move || {
            let both = [(&nodes[1], Rank(0)), (&nodes[0], Rank(1))];
            let readers = if impatient { &both[..1] } else { &both[..] };
            while !stop.load(Ordering::SeqCst) {
                for &(node, peer) in readers {
                    let into = HostBuffer::zeroed(LEN);
                    assert_eq!(end_of(node.read(peer, Address::new(0, 0), into.all())), Ok(LEN as u64));
                    assert!(into.all().to_vec() == sparse(peer.0.into(), LEN));
                }
                *rounds.lock().unwrap() += 1;
            }
        })
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.busy.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

/// The job of these listeners, and of ranks that listen nowhere.
pub(crate) fn rank_file(listeners: &[TcpListener]) -> RankFile {
    let known = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string());
    let addresses = known.chain((1..).map(|port| format!("127.0.0.1:{port}"))).take(RANKS as usize).collect();
    RankFile { secret: SECRET, addresses }
}

/// The state of rank 0's session with `peer` must be reached in bounded time.
#[track_caller]
pub(crate) fn wait_for(node: &Node, peer: Rank, what: &str, holds: impl Fn(&str) -> bool) {
    let mut state = String::new();
    let started = std::time::Instant::now();
    while !holds(&state) {
        assert!(started.elapsed() < HANGS, "expected {what} of rank {peer}, got {state}");
        state = format!("{:?}", node.peer_state(peer).unwrap());
        thread::sleep(std::time::Duration::from_millis(2));
    }
}
