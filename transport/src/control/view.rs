//! What a slot says, read at one moment.

use std::sync::atomic::{AtomicU64, Ordering};

use mgcomp_codecs::Algorithm;

use super::layout::{COUNTER_WORDS, counter};
use super::page::last_decision;
use super::reason::LastDecision;
use super::settings::Settings;

/// What a slot counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SlotKind {
    /// What is sent to a peer in a stream.
    Sent = 1,
    /// All that is received from a peer.
    Received = 2,
    /// Streams that have no slot of their own.
    Other = 3,
    /// Copies from one device of the process to another.
    Copied = 4,
}

impl SlotKind {
    /// Whether there is another rank on the other side.
    #[must_use]
    pub const fn has_peer(self) -> bool {
        matches!(self, Self::Sent | Self::Received)
    }
}

/// Whose a slot is; this never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotIdentity {
    /// What it counts.
    pub kind: SlotKind,
    /// Rank on this side; `u32::MAX` where it is not known.
    pub rank: u32,
    /// Rank on the other side; of copies, the number of the device that they go to.
    pub peer: u32,
    /// Which stream; no meaning for what is received; of copies, the number of the device that they come from.
    pub stream: u32,
}

/// Payloads under one algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub transfers: u64,
    /// Their raw bytes.
    pub raw_bytes: u64,
    /// Their bytes on the link.
    pub coded_bytes: u64,
}

/// Everything in a slot but its histograms. Each number is right by itself; they are not of exactly one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotView {
    /// What it counts.
    pub kind: SlotKind,
    /// Rank on this side; `u32::MAX` where it is not known.
    pub rank: u32,
    /// Rank on the other side; of copies, the number of the device that they go to.
    pub peer: u32,
    /// Which stream; no meaning for what is received; of copies, the number of the device that they come from.
    pub stream: u32,
    /// Rate of the link in Gb/s, as the policy knows it.
    pub link_gbps: Option<f64>,
    /// Its latency in ns.
    pub link_latency_ns: u64,
    /// By algorithm.
    pub algorithms: [Count; 11],
    /// Transfers that were sampled.
    pub sampled: u64,
    /// What that took.
    pub sampling_ns: u64,
    /// What encoders took.
    pub encode_ns: u64,
    /// What decoders took.
    pub decode_ns: u64,
    /// Transfers that the peer acknowledged.
    pub acknowledged: u64,
    /// What these took, from plan to acknowledgement.
    pub acknowledged_ns: u64,
    /// Payloads that were decoded.
    pub decoded: Count,
    /// Codec jobs that failed.
    pub errors: u64,
    /// Bits that were predicted, where they were.
    pub predicted_bits: u64,
    /// What those became.
    pub achieved_bits: u64,
    /// What the process goes by, if it understood what it was told.
    pub in_effect: Settings,
    /// How often that changed.
    pub changes: u64,
    /// Settings that the program's own policy cannot follow.
    pub not_followed: u64,
    /// The last decision.
    pub decision: Option<LastDecision>,
}

impl SlotView {
    /// The numbers of the devices that copies come from and go to.
    #[must_use]
    pub fn devices(&self) -> Option<[u32; 2]> {
        (self.kind == SlotKind::Copied).then_some([self.stream, self.peer])
    }

    /// Over all algorithms.
    #[must_use]
    pub fn sent(&self) -> Count {
        self.algorithms.iter().fold(Count::default(), |sum, count| Count {
            transfers: sum.transfers.saturating_add(count.transfers),
            raw_bytes: sum.raw_bytes.saturating_add(count.raw_bytes),
            coded_bytes: sum.coded_bytes.saturating_add(count.coded_bytes),
        })
    }
}

/// Whose a slot is; `None` for a kind that there is not.
pub(super) fn identity(counters: &[AtomicU64; COUNTER_WORDS]) -> Option<SlotIdentity> {
    let who = counters[counter::RANK_KIND].load(Ordering::Acquire);
    let kind = match who >> 32 {
        1 => SlotKind::Sent,
        2 => SlotKind::Received,
        3 => SlotKind::Other,
        4 => SlotKind::Copied,
        _ => return None,
    };
    let whose = counters[counter::PEER_STREAM].load(Ordering::Relaxed);
    Some(SlotIdentity { kind, rank: who as u32, peer: whose as u32, stream: (whose >> 32) as u32 })
}

pub(super) fn view(counters: &[AtomicU64; COUNTER_WORDS]) -> Option<SlotView> {
    let SlotIdentity { kind, rank, peer, stream } = identity(counters)?;
    let word = |index: usize| counters[index].load(Ordering::Relaxed);
    let gbps = f64::from_bits(word(counter::LINK_GBPS));
    let count = |first: usize| Count {
        transfers: word(first),
        raw_bytes: word(first + 1),
        coded_bytes: word(first + 2),
    };
    Some(SlotView {
        kind,
        rank,
        peer,
        stream,
        link_gbps: (gbps > 0.0 && gbps.is_finite()).then_some(gbps),
        link_latency_ns: word(counter::LINK_LATENCY_NS),
        algorithms: Algorithm::ALL
            .map(|algorithm| count(counter::ALGORITHMS + 3 * usize::from(algorithm.number()))),
        sampled: word(counter::SAMPLED),
        sampling_ns: word(counter::SAMPLING_NS),
        encode_ns: word(counter::ENCODE_NS),
        decode_ns: word(counter::DECODE_NS),
        acknowledged: word(counter::ACKNOWLEDGED),
        acknowledged_ns: word(counter::ACKNOWLEDGED_NS),
        decoded: count(counter::DECODED),
        errors: word(counter::ERRORS),
        predicted_bits: word(counter::PREDICTED_BITS),
        achieved_bits: word(counter::ACHIEVED_BITS),
        in_effect: Settings::unpack(word(counter::IN_EFFECT)).unwrap_or_default(),
        changes: word(counter::CHANGES),
        not_followed: word(counter::NOT_FOLLOWED),
        decision: last_decision(counters),
    })
}
