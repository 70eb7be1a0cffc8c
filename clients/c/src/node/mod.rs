//! Nodes: a rank that others can reach.

mod choice;
pub mod ranks;
pub mod transfer;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mgcomp_transport::link::LinkError;
use mgcomp_transport::message::Address;
use mgcomp_transport::node::{Node, NodeError};

use self::ranks::mgcompNode;
use crate::error::{Failure, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::lending::{Lent, Lot};

static NODES: Handles<Seat> = Handles::new(Kind::Node);

/// A node, and what it was lent.
pub(crate) struct Seat {
    node: Arc<Node>,
    /// By address; none when the node is destroyed.
    regions: Mutex<Option<BTreeMap<u64, Lent>>>,
    lot: Arc<Lot>,
    has_world: AtomicBool,
}

/// The node of a handle.
pub(crate) fn seat(node: mgcompNode) -> Result<Arc<Seat>, Failure> {
    NODES.get(node.id)
}

impl Seat {
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(crate) fn lot(&self) -> &Arc<Lot> {
        &self.lot
    }

    /// Whether this is the first one to make a communicator of the node.
    pub(crate) fn claim_world(&self) -> bool {
        !self.has_world.swap(true, Ordering::SeqCst)
    }

    /// Ends all that is under way, and closes all memory.
    fn end(&self) {
        self.node.position().peers().for_each(|peer| self.node.disconnect(peer));
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner).take();
        for (address, lent) in regions.into_iter().flatten() {
            if let Some(address) = Address::from_bits(address) {
                let _ = self.node.unregister(address); // it was registered; and a child of the process has no node
            }
            let _ = self.lot.keep(lent); // closed by nobody but whoever calls this
        }
    }
}

fn gone() -> Failure {
    Failure::new(mgcompResult::InvalidHandle, "the node is being destroyed")
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        let code = match &error {
            LinkError::NoSuchRank { .. } | LinkError::TooManyRanks { .. } => mgcompResult::InvalidArgument,
            _ => mgcompResult::System,
        };
        Self::new(code, error)
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Link(error) => error.into(),
            NodeError::Thread(source) => Self::new(mgcompResult::System, format_args!("no thread: {source}")),
            _ => Self::argument(error),
        }
    }
}
