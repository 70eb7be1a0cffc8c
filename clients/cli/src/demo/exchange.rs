//! What each rank does: reads the next rank's tensor, writes its own to the rank before, compares.

use std::time::{Duration, Instant};

use mgcomp_selector::{Fixed, Lambda, PolicySpec, Steering};
use mgcomp_transport::calibrate;
use mgcomp_transport::control;
use mgcomp_transport::executor::shared_codec_threads;
use mgcomp_transport::link::Link;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Rank, Secret, Tag};
use mgcomp_transport::node::{Handle, Node, NodeConfig, PeerState};
use mgcomp_transport::region::Access;
use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::error::DemoError;
use crate::room::Room;

/// Bytes per message. Small enough that a tensor of a few hundred KiB is many transfers, as a policy that
/// samples some of them needs.
const PIECE_BYTES: u32 = 128 << 10;
/// How long ranks wait for each other at the start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// How one exchange is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Without one all goes raw, also where an operator's settings say otherwise.
    pub(super) policy: Option<PolicySpec>,
    pub(super) lambda: Option<Lambda>,
    pub(super) secret: Secret,
    pub(super) rounds: u32,
    /// How many of its last decisions each rank is to report.
    pub(super) decisions: usize,
}

/// What a rank has to say of an exchange.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RankReport {
    /// Time of all rounds, comparing not counted, in nanoseconds.
    pub(super) elapsed_ns: u64,
    /// Whether compression was switched off at its end, whatever the policy says.
    pub(super) is_off: bool,
    /// Whether all that arrived was right.
    pub(super) equal: bool,
    /// What the rank sent, by algorithm.
    pub(super) sent: Vec<Sent>,
    /// Its last decisions, as lines and as objects.
    pub(super) decisions: Vec<(String, serde_json::Value)>,
}

/// Payloads under one algorithm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) algorithm: String,
    pub(super) transfers: u64,
    pub(super) raw_bytes: u64,
    pub(super) coded_bytes: u64,
}

impl Exchange {
    /// Takes part as the rank that `link` belongs to, with buffers in `room`.
    pub(super) fn run(
        &self,
        link: Box<dyn Link>,
        room: &Room,
        dataset: &Dataset,
    ) -> Result<RankReport, DemoError> {
        let position = link.position();
        let ranks = position.ranks;
        let next = Rank((position.rank.0 + 1) % ranks);
        let previous = Rank((position.rank.0 + ranks - 1) % ranks);
        let policy = self.policy.unwrap_or(PolicySpec::Fixed(Fixed::BYPASS));
        let steering = Steering { lambda: self.lambda, speeds: calibrate::speeds() };
        let node = Node::start(link, policy.build(&steering), self.config(ranks))?;
        node.set_compression(self.policy.is_some());

        let (bytes, expected) = (dataset.of_rank(position.rank.0, ranks), dataset.of_rank(next.0, ranks));
        let own = room.zeroed(bytes.len())?;
        own.fill(|offset, into| into.copy_from_slice(&bytes[offset..][..into.len()]))?;
        let (copy, inbox) = (room.zeroed(bytes.len())?, room.zeroed(bytes.len())?);
        // All ranks register in this order, so the addresses are the same everywhere.
        let source = node.register(own.slice().clone(), dataset.element, Access::read_only())?;
        let target = node.register(inbox.slice().clone(), dataset.element, Access::all())?;
        wait_for_peers(&node)?;

        let (mut elapsed, mut equal) = (Duration::ZERO, true);
        for round in 0..u64::from(self.rounds) {
            barrier(&node, Tag(2 * round))?;
            let started = Instant::now();
            let read = node.read(next, source, copy.slice().clone());
            let write = node.write(previous, own.slice().clone(), dataset.element, target);
            wait(&node, read)?;
            wait(&node, write)?;
            barrier(&node, Tag(2 * round + 1))?;
            elapsed += started.elapsed();
            for arrived in [&copy, &inbox] {
                arrived.look(|offset, bytes| equal &= *bytes == expected[offset..][..bytes.len()])?;
                // So that the next round has to bring everything again.
                arrived.fill(|_, bytes| bytes.fill(0))?;
            }
        }
        Ok(RankReport {
            elapsed_ns: elapsed.as_nanos() as u64,
            is_off: control::is_off(),
            equal,
            sent: sent(&node),
            decisions: decisions(&node),
        })
    }

    fn config(&self, ranks: u32) -> NodeConfig {
        NodeConfig {
            secret: self.secret,
            piece_bytes: PIECE_BYTES,
            greeting_timeout: CONNECT_TIMEOUT,
            // All ranks share this machine's cores.
            codec_threads: shared_codec_threads(ranks),
            remembered_decisions: self.decisions,
            ..NodeConfig::default()
        }
    }
}

fn wait_for_peers(node: &Node) -> Result<(), DemoError> {
    let rank = node.position().rank;
    let late = node.wait_for_peers(CONNECT_TIMEOUT).into_iter().find(|(_, state)| *state != PeerState::Open);
    late.map_or(Ok(()), |(peer, state)| Err(DemoError::NotConnected { rank, peer, state }))
}

/// Returns when every rank has got here: all report to rank 0, which then lets them go.
fn barrier(node: &Node, tag: Tag) -> Result<(), DemoError> {
    let position = node.position();
    let nothing = HostBuffer::zeroed(0);
    let send = |peer| node.send(peer, tag, nothing.all(), mgcomp_codecs::Element::U8);
    let receive = |peer| node.receive(peer, tag, nothing.all());
    let peers = || if position.rank == Rank(0) { position.peers().collect() } else { vec![Rank(0)] };
    let steps: [&dyn Fn(Rank) -> Handle; 2] =
        if position.rank == Rank(0) { [&receive, &send] } else { [&send, &receive] };
    for step in steps {
        let handles: Vec<Handle> = peers().into_iter().map(step).collect();
        for handle in handles {
            wait(node, handle)?;
        }
    }
    Ok(())
}

fn wait(node: &Node, handle: Handle) -> Result<u64, DemoError> {
    handle.wait().map_err(|source| DemoError::Transfer { rank: node.position().rank, source })
}

fn decisions(node: &Node) -> Vec<(String, serde_json::Value)> {
    let entry = |record: &mgcomp_selector::Record| (record.to_string(), serde_json::json!(record));
    node.decisions().iter().map(entry).collect()
}

/// What the node sent, by algorithm.
fn sent(node: &Node) -> Vec<Sent> {
    let entry = |(algorithm, tally): (mgcomp_codecs::Algorithm, mgcomp_transport::node::Tally)| Sent {
        algorithm: algorithm.name().to_owned(),
        transfers: tally.transfers,
        raw_bytes: tally.raw_bytes,
        coded_bytes: tally.coded_bytes,
    };
    node.stats().sent.into_iter().map(entry).collect()
}
