//! How a communicator goes about it.

use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{Fixed, Lambda, LinkFacts, PolicySpec};

use crate::control;

/// Settings of a [`NcclCommunicator`](super::NcclCommunicator).
#[derive(Clone, Copy, Debug)]
pub struct NcclConfig {
    /// How each rank chooses the codec of what it sends. Ranks may differ, but not in whether they compress at all.
    pub policy: PolicySpec,
    /// The weight of latency against size, for policies that go by one.
    pub lambda: Option<Lambda>,
    /// What is known of the link between the ranks; NCCL does not tell. If nothing is, calls with headers show it.
    pub link: Option<LinkFacts>,
    /// What goes from one rank to another goes by NCCL's plain calls if it is shorter. The same on all ranks.
    pub least_bytes: u64,
    /// Who computes reductions. The same on all ranks.
    pub reductions: Reductions,
    /// How long each thing that a call waits for may take before the other ranks are given up. Where nothing goes on any more,
    /// whatever waits for that returns within twice as long; see "Waits" of [this module](super), also for what does not count.
    pub limit: Duration,
}

impl Default for NcclConfig {
    /// `adaptive`, from 256 KiB on; NCCL's own reductions; ten minutes, which is what programs are used to from NCCL.
    fn default() -> Self {
        Self {
            policy: PolicySpec::default(),
            lambda: None,
            link: None,
            least_bytes: 256 << 10,
            reductions: Reductions::default(),
            limit: Duration::from_secs(600),
        }
    }
}

impl NcclConfig {
    /// Whether anything is ever compressed.
    pub(super) fn compresses(&self) -> bool {
        let none = Fixed::try_new(Algorithm::None).map(PolicySpec::Fixed);
        !control::is_switched_off() && none != Ok(self.policy)
    }

    /// What must be the same on all ranks, by name.
    pub(super) fn shared(&self) -> [(&'static str, u64); 4] {
        [
            ("the version of mgcomp's headers", super::entry::VERSION),
            ("whether to compress", u64::from(self.compresses())),
            ("the least length to compress", self.least_bytes),
            ("who computes reductions", self.reductions as u64),
        ]
    }
}

/// Who computes reductions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reductions {
    /// NCCL, on the devices. Its order, and with it the rounding, depends on the ranks' number and places and on its version.
    #[default]
    Nccl,
    /// This crate, in the order of the ranks: the bits are those of [`Operation`], the same as a
    /// [`Communicator`] makes them on any link. Numbers go to whom they concern as in `all_to_all`, compressed where that
    /// pays, and a kernel combines them, in memory of the communicator's. Graphs cannot record that. To find more of that
    /// memory, a call waits on the host; see "Memory" of [this module](super).
    ///
    /// [`Operation`]: crate::communicator::Operation
    /// [`Communicator`]: crate::communicator::Communicator
    Ordered,
}
