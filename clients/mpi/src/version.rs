//! What ranks have to have in common to understand each other.

use mgcomp_codecs::{AlgorithmSet, ElementSet, frame};
use mgcomp_transport::attach::envelope;

/// How ranks do things together; those of another version do them in another way.
const PROTOCOL: u16 = 8;

/// All that their messages are by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    protocol: u16,
    envelope: u8,
    frame: u8,
    algorithms: AlgorithmSet,
    elements: ElementSet,
}

impl Version {
    pub(crate) fn own() -> Self {
        Self {
            protocol: PROTOCOL,
            envelope: envelope::VERSION,
            frame: frame::VERSION,
            algorithms: AlgorithmSet::supported(),
            elements: ElementSet::all(),
        }
    }

    /// All of it. What ranks tell each other at the beginning must not become longer: MPI would refuse that where versions differ.
    pub(crate) fn word(&self) -> u64 {
        let Self { protocol, envelope, frame, algorithms, elements } = *self;
        u64::from(protocol)
            | u64::from(envelope) << 16
            | u64::from(frame) << 24
            | u64::from(algorithms.bits()) << 32
            | u64::from(elements.bits()) << 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_wherever_one_rank_might_not_understand_another() {
        let own = Version::own();
        let others = [
            Version { protocol: own.protocol + 1, ..own },
            Version { envelope: own.envelope + 1, ..own },
            Version { frame: own.frame + 1, ..own },
            Version { algorithms: AlgorithmSet::from_bits(own.algorithms.bits() ^ 1 << 15), ..own },
            Version { elements: ElementSet::from_bits(own.elements.bits() ^ 1), ..own },
        ];
        let mut words: Vec<u64> = others.iter().chain([&own]).map(Version::word).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), others.len() + 1);
    }
}
