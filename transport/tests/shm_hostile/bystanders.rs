//! Two ranks that talk to each other while others misbehave.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::link::Link;
use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, Rank};
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::region::Access;

use crate::common::fabric::shm_config;
use crate::common::job::{config, end_of, node};
use crate::common::{HANGS, LIMITS, SECRET, sparse, wait_until};
use crate::raw::Raw;

/// Ranks in the job, of which some do not exist but as what the test makes of them.
pub(crate) const RANKS: u32 = 5;

const LEN: usize = 100_000;

/// Ranks 0 and 1 of a job of five, busy with each other. Where silence is to end sessions soon, rank 1 alone asks the other.
pub(crate) struct Bystanders {
    pub(crate) nodes: Arc<[Node; 2]>,
    /// The job's name, and that under which rank 0 listens.
    pub(crate) job: String,
    pub(crate) name: String,
    rounds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    busy: Option<JoinHandle<()>>,
}

impl Bystanders {
    pub(crate) fn start() -> Self {
        Self::start_with(&config(), shm_config(LIMITS))
    }

    pub(crate) fn start_with(config: &NodeConfig, shm: ShmConfig) -> Self {
        Self::start_over(config, |job, rank| Box::new(Shm::new(job, rank, shm).unwrap()))
    }

    /// Over links of another kind.
    pub(crate) fn start_over(config: &NodeConfig, link: impl Fn(ShmJob, Rank) -> Box<dyn Link>) -> Self {
        static JOBS: AtomicU64 = AtomicU64::new(0);
        let job_name = format!("hostile-{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::SeqCst));
        let job = ShmJob::new(SECRET, RANKS).named(&job_name);
        // Rank 0 waits for nobody but those who are to be found silent: the other one may only be slow.
        let impatient = config.silence_timeout < HANGS;
        let of_rank_1 = NodeConfig { silence_timeout: config.silence_timeout.max(HANGS), ..config.clone() };
        let start =
            |rank, config: &NodeConfig| node(link(job.clone(), Rank(rank)), "fixed:zvc", config.clone());
        let nodes = Arc::new([start(0, config), start(1, &of_rank_1)]);
        for node in nodes.iter() {
            let content = HostBuffer::from(sparse(node.position().rank.0.into(), LEN));
            node.register(content.all(), Element::U32, Access::all()).unwrap();
        }
        wait_for(&nodes[0], Rank(1), "a session", |state| state == "Open");
        let (rounds, stop) = (Arc::default(), Arc::<AtomicBool>::default());
        let name = format!("mgcomp-{job_name}-0");
        let mut all = Self { nodes, job: job_name, name, rounds, stop, busy: None };
        all.busy = Some(all.work(impatient));
        all
    }

    /// Connects to rank 0 as `rank`, which rank 0 then takes for its peer.
    pub(crate) fn join(&self, rank: u32) -> Raw {
        let raw = Raw::connect(&self.name);
        raw.hello(rank, RANKS);
        raw.expect_answer(0);
        raw
    }

    /// Checks that the two go on: a transfer that starts from now on goes well in both directions, or to rank 1 alone.
    pub(crate) fn check(&self) {
        let before = self.rounds.load(Ordering::SeqCst);
        // The first of these may have started before.
        wait_until("the other ranks go on", || self.rounds.load(Ordering::SeqCst) >= before + 2);
    }

    /// The session with `rank` must end, for a reason whose words begin like this.
    #[track_caller]
    pub(crate) fn expect_over(&self, rank: u32, reason: &str) {
        let over = format!("Over({reason}");
        wait_for(&self.nodes[0], Rank(rank), &over, |state| state.starts_with(&over));
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
                rounds.fetch_add(1, Ordering::SeqCst);
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

/// The state of the session with `peer` must be reached in bounded time.
#[track_caller]
pub(crate) fn wait_for(node: &Node, peer: Rank, what: &str, holds: impl Fn(&str) -> bool) {
    let mut state = String::new();
    let started = Instant::now();
    while !holds(&state) {
        assert!(started.elapsed() < HANGS, "expected {what} of rank {peer}, got {state}");
        state = format!("{:?}", node.peer_state(peer).unwrap());
        thread::sleep(Duration::from_millis(2));
    }
}
