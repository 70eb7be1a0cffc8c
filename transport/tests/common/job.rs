//! Nodes under test.

use std::time::Duration;

use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_transport::link::Link;
use mgcomp_transport::message::Rank;
use mgcomp_transport::node::{Handle, Node, NodeConfig, PeerState, TransferResult};

use super::fabric::Fabric;
use super::{HANGS, LIMITS, SECRET};

/// Settings that no test waits for.
pub(crate) fn config() -> NodeConfig {
    NodeConfig {
        secret: SECRET,
        limits: LIMITS,
        greeting_timeout: HANGS,
        silence_timeout: HANGS,
        ..NodeConfig::default()
    }
}

pub(crate) fn node(link: Box<dyn Link>, policy: &str, config: NodeConfig) -> Node {
    let policy: PolicySpec = policy.parse().unwrap();
    Node::start(link, policy.build(&Steering::default()), config).unwrap()
}

/// The nodes of all ranks, which have met.
pub(crate) fn nodes(fabric: Fabric, ranks: u32, policy: &str, config: &NodeConfig) -> Vec<Node> {
    let start = |link| node(link, policy, config.clone());
    let nodes: Vec<_> = fabric.links(ranks, 1 << 30).into_iter().map(start).collect();
    nodes.iter().for_each(meet);
    nodes
}

/// Waits until the sessions of `node` are open.
pub(crate) fn meet(node: &Node) {
    for (peer, state) in node.wait_for_peers(HANGS) {
        assert_eq!(state, PeerState::Open, "rank {peer} as rank {} sees it", node.position().rank);
    }
}

/// Waits for a request that must end.
#[track_caller]
pub(crate) fn end_of(mut handle: Handle) -> TransferResult {
    handle.wait_for(HANGS).expect("hangs: a request does not end").clone()
}

/// Waits until the session of `node` with `peer` is over.
#[track_caller]
pub(crate) fn wait_until_over(node: &Node, peer: Rank) -> mgcomp_transport::session::SessionError {
    let mut found = None;
    super::wait_until("the session is over", || {
        if let Some(PeerState::Over(error)) = node.peer_state(peer) {
            found = Some(error);
        }
        found.is_some()
    });
    found.unwrap()
}

/// Short enough to wait for, long enough for a busy machine.
pub(crate) const SHORT: Duration = Duration::from_millis(1500);

/// How long peers may be silent where some are and others are not to be taken for such: no machine is so busy.
pub(crate) const SILENCE: Duration = Duration::from_secs(4);
