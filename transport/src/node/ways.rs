//! What collectives are to know of the ways to peers.

use std::sync::atomic::{AtomicU64, Ordering};

use mgcomp_selector::LinkFacts;

use super::Node;
use crate::link::MOST_PART_BYTES;
use crate::message::Rank;

/// Parts have whole numbers of every datatype.
const PART_STEP: usize = 64;
/// What a link holds is known by its rate, which is measured: over one that takes longer, a rate that is taken for less than it is would
/// stay so, for no more is sent than that needs.
const MOST_LATENCY_NS: u64 = 100_000;
const UNKNOWN: u64 = u64::MAX;

/// What is known of the ways to all ranks.
pub(super) struct Ways {
    part_bytes: usize,
    codec_threads: usize,
    /// What is on the way to each while the link is busy, in bytes; [`UNKNOWN`] as long as nobody knows.
    held: Vec<AtomicU64>,
}

impl Ways {
    /// For a rank with so many threads for codecs, whose collectives cut into parts of about `part_bytes`.
    pub(super) fn new(ranks: u32, part_bytes: usize, codec_threads: usize) -> Self {
        let part_bytes = part_bytes.clamp(PART_STEP, MOST_PART_BYTES) / PART_STEP * PART_STEP;
        Self { part_bytes, codec_threads, held: (0..ranks).map(|_| AtomicU64::new(UNKNOWN)).collect() }
    }

    /// Notes what is known of the way to a peer.
    pub(super) fn note(&self, peer: Rank, link: Option<LinkFacts>) {
        if let Some(held) = self.held.get(peer.0 as usize) {
            held.store(link.and_then(held_bytes).unwrap_or(UNKNOWN), Ordering::Relaxed);
        }
    }

    fn parts_ahead(&self, peers: impl Iterator<Item = Rank>) -> Option<usize> {
        let held = peers.map(|peer| Some(self.held.get(peer.0 as usize)?.load(Ordering::Relaxed)));
        let most = held.reduce(|one, other| Some(one?.max(other?))).flatten()?; // what is unknown is the most
        let is_short = most <= self.part_bytes as u64;
        // Twice as much raw, of which codecs leave about half.
        is_short.then(|| self.codec_threads.max(1) + (2 * most / self.part_bytes as u64) as usize)
    }
}

impl Node {
    /// Collectives cut what they send into parts of so many bytes, on all ranks alike.
    pub(crate) fn part_bytes(&self) -> usize {
        self.board.ways.part_bytes
    }

    /// How many parts may be on their way to these peers beside the next one without a link or a codec that waits: one for each codec thread, and what
    /// the link holds. `None` where that is not known, or more than is to be counted.
    pub(crate) fn parts_ahead(&self, peers: impl Iterator<Item = Rank>) -> Option<usize> {
        self.board.ways.parts_ahead(peers)
    }
}

/// What a link has taken and not yet brought; `None` where its latency is not known, which it says by none, or too long.
fn held_bytes(link: LinkFacts) -> Option<u64> {
    let is_known = (1..=MOST_LATENCY_NS).contains(&link.latency_ns());
    is_known.then(|| (link.rate_gbps() / 8.0 * link.latency_ns() as f64) as u64)
}

#[cfg(test)]
mod tests {
    use mgcomp_selector::Overlap;

    use super::*;

    fn link(gbps: f64, latency_ns: u64) -> LinkFacts {
        LinkFacts::try_new(gbps, latency_ns, Overlap::None).unwrap()
    }

    #[test]
    fn a_link_holds_what_its_rate_brings_in_its_latency() {
        // 1 Gb/s is 125 bytes in a microsecond.
        assert_eq!(held_bytes(link(1.0, 100_000)), Some(12_500));
        assert_eq!(held_bytes(link(10.0, 20_000)), Some(25_000));
        assert_eq!([0, 100_001].map(|latency_ns| held_bytes(link(1.0, latency_ns))), [None, None]);
    }

    #[test]
    fn so_many_parts_are_sent_ahead_as_codecs_and_links_take() {
        let ways = |codec_threads| Ways::new(4, 100_000, codec_threads);
        let with_one = ways(1);
        let ahead = |ranks: &[u32]| with_one.parts_ahead(ranks.iter().copied().map(Rank));
        assert_eq!(ahead(&[1]), None, "nothing is known yet");
        // 25,000 bytes, and 99,968 are a part.
        with_one.note(Rank(1), Some(link(10.0, 20_000)));
        assert_eq!(ahead(&[1]), Some(1));
        assert_eq!(ahead(&[1, 2]), None, "nor of all");
        with_one.note(Rank(2), Some(link(10.0, 40_000)));
        assert_eq!([ahead(&[1, 2]), ahead(&[2, 1]), ahead(&[1])], [Some(2), Some(2), Some(1)]);
        // 100,000: longer than a part.
        with_one.note(Rank(3), Some(link(10.0, 80_000)));
        assert_eq!([ahead(&[3]), ahead(&[1, 2, 3]), ahead(&[]), ahead(&[4])], [None; 4]);
        with_one.note(Rank(1), None);
        assert_eq!(ahead(&[1]), None);
        for (codec_threads, expected) in [(0, 1), (2, 2), (8, 8)] {
            let ways = ways(codec_threads);
            ways.note(Rank(0), Some(link(10.0, 20_000)));
            assert_eq!(ways.parts_ahead([Rank(0)].into_iter()), Some(expected));
        }
    }

    #[test]
    fn parts_fit_in_their_rooms_and_cut_no_number() {
        let part_bytes = |part_bytes| Ways::new(1, part_bytes, 1).part_bytes;
        assert_eq!([0, 127, 192 << 10, usize::MAX].map(part_bytes), [64, 64, 192 << 10, 512 << 10]);
    }
}
