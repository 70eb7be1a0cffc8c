//! The control page: how an operator sees and steers a running program.
//!
//! A process has one page, a memory file of [`PAGE_BYTES`] that it hands to the node's daemon over a Unix socket. Each
//! pair of peer and stream, and each copier from one device to another, has a slot there: one word of [`Settings`], which the
//! daemon writes and the process reads at each transfer, and counters and [`histogram`]s, which the process writes and the daemon
//! reads. Nothing waits for anybody: either side may be gone at any moment, and the data path pays some loads and stores.
//!
//! * **Settings** are one 64-bit word, so nobody sees half a change. A slot without a word of its own goes by the
//!   page's default. What a word says takes effect at the stream's next transfer; [`Settings`] says how it is packed. Copies
//!   between host and device have no slots: they go by the default as far as it turns compression off, and by the read cap.
//!   Those from one device to another have a slot for each copier ([`SlotKind::Copied`]), by the numbers of the two devices. These
//!   are no ranks, so settings of a peer are not theirs: they go by what holds for the job.
//! * **Trust**: none. The daemon maps a file only if it can never change its length ([`MapError`]), checks the header
//!   ([`PageError`]) and every number that is a length or an index, and uses all else as numbers. A process ignores
//!   settings that make no sense, and counts them.
//! * **Environment**: `MGCOMP=off` turns all compression off, and there is no page; so does any other value that does not
//!   say on, which `switch.rs` tells. `MGCOMP_SOCKET` says where the daemon
//!   listens; empty = it is not looked for; unset = `$XDG_RUNTIME_DIR/mgcomp.sock`, then `/run/mgcomp/mgcomp.sock`.
//!   `MGCOMP_JOB` names the job; without it SLURM, PMIx, PMI or Flux do.
//!
//! Nodes do all of this by themselves. `layout.rs` says where everything lies, `handover.rs` how a page gets to the
//! daemon.

mod attachment;
mod claims;
#[cfg(feature = "cuda")]
mod copies;
pub mod handover;
pub mod histogram;
mod identity;
mod layout;
mod map;
mod meter;
mod page;
mod process;
mod reason;
mod settings;
mod slot;
mod steered;
mod switch;
mod view;

use std::sync::Arc;

use mgcomp_selector::Policy;
use mgcomp_selector::speeds::Speeds;

pub use attachment::{Attachment, attach, sockets};
#[cfg(feature = "cuda")]
pub(crate) use copies::{Copies, Made};
pub(crate) use identity::local_ranks;
pub use identity::{Identity, MAX_NAME_BYTES};
pub use layout::PAGE_BYTES;
pub use map::MapError;
pub(crate) use meter::Meter;
pub use page::{Page, PageError};
pub(crate) use process::OfProcess;
pub use reason::LastDecision;
pub use settings::{PolicyName, PolicyNameError, ReadCap, Settings, SettingsError, SizeGate};
pub(crate) use switch::is_switched_off;
pub use view::{Count, SlotIdentity, SlotKind, SlotView};

use claims::NodeSlots;
use steered::{Steered, SwitchedOff};

use crate::link::Position;

/// Puts the policy of a node under the operator's settings; returns what counts beside it. Policies that the operator wants
/// instead start from `speeds`, or from those of codecs on this machine's processors.
pub(crate) fn steer(
    policy: Box<dyn Policy>,
    speeds: Option<Arc<Speeds>>,
    position: Position,
) -> (Box<dyn Policy>, Meter) {
    if is_switched_off() {
        return switched_off();
    }
    match attach() {
        Some(attachment) => steer_by(attachment, policy, speeds, position),
        None => (policy, Meter::default()),
    }
}

/// Whether nothing that this process sends is compressed now: because of `MGCOMP=off`, or because an operator has set it so for the
/// node or the job. Peers and streams may be set otherwise.
#[must_use]
pub fn is_off() -> bool {
    OfProcess::attach().is_off()
}

/// What compresses nothing, whoever sets what.
pub(crate) fn switched_off() -> (Box<dyn Policy>, Meter) {
    (Box::new(SwitchedOff), Meter::default())
}

fn steer_by(
    attachment: Arc<Attachment>,
    policy: Box<dyn Policy>,
    speeds: Option<Arc<Speeds>>,
    position: Position,
) -> (Box<dyn Policy>, Meter) {
    attachment.page().set_rank(position.rank.0, position.ranks);
    let slots = Arc::new(NodeSlots::new(attachment, position.rank.0));
    (Box::new(Steered::new(policy, speeds, slots.clone(), SlotKind::Sent)), Meter::new(slots))
}

/// The same for copies from one device to another; returns what tells their settings and counts them. The page keeps the rank
/// that it has.
#[cfg(feature = "cuda")]
pub(crate) fn steer_copies(
    policy: Box<dyn Policy>,
    devices: [u32; 2],
    speeds: Arc<Speeds>,
) -> (Box<dyn Policy>, Option<Copies>) {
    match attach() {
        Some(attachment) => {
            let (policy, copies) = steer_copies_by(attachment, policy, devices, speeds);
            (policy, Some(copies))
        }
        None => (policy, None),
    }
}

#[cfg(feature = "cuda")]
fn steer_copies_by(
    attachment: Arc<Attachment>,
    policy: Box<dyn Policy>,
    devices: [u32; 2],
    speeds: Arc<Speeds>,
) -> (Box<dyn Policy>, Copies) {
    let rank = attachment.page().rank();
    let slots = Arc::new(NodeSlots::new(attachment, rank));
    // Seen before the first copy.
    let copies = Copies::new(slots.clone(), devices);
    (Box::new(Steered::new(policy, Some(speeds), slots, SlotKind::Copied)), copies)
}

/// A policy as nodes run it: steered through `attachment`. For benches, which time what that costs.
#[must_use]
pub fn steered(attachment: Arc<Attachment>, policy: Box<dyn Policy>, position: Position) -> Box<dyn Policy> {
    steer_by(attachment, policy, None, position).0
}

#[cfg(test)]
mod tests;
