//! How copies between devices are made.

use mgcomp_codecs::{Algorithm, AlgorithmSet};
use mgcomp_selector::{Lambda, LinkFacts, PolicySpec};

/// Settings of a [`PeerCopier`](super::PeerCopier).
#[derive(Clone, Copy, Debug)]
pub struct PeerCopyConfig {
    /// Says of each copy whether and how it is coded.
    pub policy: PolicySpec,
    /// What may be chosen, by an operator's policy too; besides, what the name of [`policy`](Self::policy) stands for: the algorithm
    /// of a fixed one, those of the paper. The kernels of all are loaded at the start.
    pub algorithms: AlgorithmSet,
    /// The weight of latency against size, for policies that go by one.
    pub lambda: Option<Lambda>,
    /// What is known of the link between the devices: the rate of one pass, where bytes pass it twice, to the host and from there.
    /// How codecs overlap with it is known here. If nothing is said, plain copies show it.
    pub link: Option<LinkFacts>,
    /// Copies of fewer bytes are plain, before any policy is asked, unless an operator has set another gate.
    pub gate_bytes: u64,
    /// The most raw bytes of a segment. How long they are goes by the copy and by what is between the devices; see
    /// [segments](super#segments-and-memory), which also says how much memory a copier takes for them.
    pub segment_bytes: u64,
    /// The most raw bytes of a copy.
    pub most_bytes: u64,
}

impl Default for PeerCopyConfig {
    /// The policy `adaptive` among BDI, ZVC and XP, codecs for floats and zeros, nothing known of the link, a gate of 256 KiB, segments of
    /// up to 128 MiB, copies of up to 1 GiB.
    fn default() -> Self {
        Self {
            policy: PolicySpec::Adaptive,
            algorithms: AlgorithmSet::from_iter([Algorithm::Bdi, Algorithm::Zvc, Algorithm::Xp]),
            lambda: None,
            link: None,
            gate_bytes: 256 << 10,
            segment_bytes: 128 << 20,
            most_bytes: 1 << 30,
        }
    }
}
