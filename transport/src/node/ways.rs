//! What those who cut what they send into parts are to know of the ways to peers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use mgcomp_selector::LinkFacts;

use super::Node;
use crate::link::MOST_PART_BYTES;
use crate::message::Rank;
use crate::session::Window;

/// Parts have whole numbers of every datatype.
pub(super) const PART_STEP: usize = 64;
/// What a link holds is known by its rate, which is measured: over one that takes longer, a rate that is taken for less than it is would
/// stay so, for no more is sent than that needs.
const MOST_LATENCY_NS: u64 = 100_000;
const UNKNOWN: u64 = u64::MAX;
/// A window that takes the link longer is of no use: what it sends meanwhile is little for the cores.
const LONGEST_WINDOW_NS: f64 = 2e6;
/// A part waits for the link so many times as long as that takes for the window.
const PATIENCE: f64 = 2.0;
/// And as long as codecs may take for it, in nanoseconds.
const CODING_NS: f64 = 2e5;
/// Parts of a message are received, answered, and the answer waits behind what comes: so many of them are under way beside those ahead.
const ANSWERED_PARTS: usize = 2;
/// Shorter sends say nothing of what codecs make of longer ones.
const LONG_BYTES: u32 = 32 << 10;
/// What is sent of raw bytes is counted in this part of them.
const WHOLE: u32 = 1 << 16;

/// What is known of the ways to all ranks.
pub(super) struct Ways {
    part_bytes: usize,
    codec_threads: usize,
    /// What is on the way to each while the link is busy, in bytes; [`UNKNOWN`] as long as nobody knows.
    held: Vec<AtomicU64>,
    /// How long the link to each takes for a byte, in picoseconds.
    byte_ps: Vec<AtomicU64>,
    /// What the last long send to each was of its raw bytes, in parts of [`WHOLE`].
    coded: Vec<AtomicU32>,
}

impl Ways {
    /// For a rank with so many threads for codecs, whose collectives cut into parts of about `part_bytes`.
    pub(super) fn new(ranks: u32, part_bytes: usize, codec_threads: usize) -> Self {
        let part_bytes = part_bytes.clamp(PART_STEP, MOST_PART_BYTES) / PART_STEP * PART_STEP;
        let held = (0..ranks).map(|_| AtomicU64::new(UNKNOWN)).collect();
        let byte_ps = (0..ranks).map(|_| AtomicU64::new(0)).collect();
        let coded = (0..ranks).map(|_| AtomicU32::new(WHOLE)).collect();
        Self { part_bytes, codec_threads, held, byte_ps, coded }
    }

    /// Notes what is known of the way to a peer.
    pub(super) fn note(&self, peer: Rank, link: Option<LinkFacts>) {
        let peer = peer.0 as usize;
        if let (Some(held), Some(byte_ps)) = (self.held.get(peer), self.byte_ps.get(peer)) {
            held.store(link.and_then(held_bytes).unwrap_or(UNKNOWN), Ordering::Relaxed);
            byte_ps.store(link.map_or(0, |link| (8000.0 / link.rate_gbps()) as u64), Ordering::Relaxed);
        }
    }

    /// Notes a send of so many bytes, of which so many leave.
    pub(super) fn sent(&self, peer: Rank, raw_bytes: u32, coded_bytes: u64) {
        if raw_bytes >= LONG_BYTES
            && let Some(coded) = self.coded.get(peer.0 as usize)
        {
            let of_whole = coded_bytes * u64::from(WHOLE) / u64::from(raw_bytes);
            coded.store(of_whole.clamp(1, WHOLE.into()) as u32, Ordering::Relaxed);
        }
    }

    fn parts_ahead(&self, peers: impl Iterator<Item = Rank>, is_off: bool) -> Option<usize> {
        // What is unknown is the most.
        let most = |one: Option<(u64, f64)>, other: Option<(u64, f64)>| {
            let (one, other) = (one?, other?);
            Some((one.0.max(other.0), one.1.min(other.1)))
        };
        let (held, ratio) = peers.map(|peer| self.held_and_ratio(peer, is_off)).reduce(most).flatten()?;
        self.ahead(self.part_bytes, held, ratio)
    }

    /// How long parts of messages to a peer are, `least` bytes or more, and the window that they have, if that is of use.
    pub(super) fn of_messages(&self, peer: Rank, least: usize, is_off: bool) -> (usize, Option<Window>) {
        let in_window = self.in_window(peer, least, is_off);
        in_window.map_or((least.max(MOST_PART_BYTES), None), |(part, window)| (part, Some(window)))
    }

    fn in_window(&self, peer: Rank, least: usize, is_off: bool) -> Option<(usize, Window)> {
        let (held, ratio) = self.held_and_ratio(peer, is_off)?;
        // Whoever receives them need not know how long they are: short where much of each is left, for each takes its time.
        let is_short = self.part_bytes as f64 * ratio < MOST_PART_BYTES as f64;
        let part_bytes = least.max(if is_short { self.part_bytes } else { MOST_PART_BYTES });
        let bytes = (self.ahead(part_bytes, held, ratio)? + ANSWERED_PARTS) * part_bytes;
        let byte_ps = self.byte_ps.get(peer.0 as usize)?.load(Ordering::Relaxed);
        let takes_ns = bytes as f64 / ratio * byte_ps as f64 / 1e3;
        (takes_ns <= LONGEST_WINDOW_NS).then(|| {
            let patience = Duration::from_nanos((PATIENCE * takes_ns + CODING_NS) as u64);
            (part_bytes, Window { bytes: bytes as u64, patience })
        })
    }

    /// What is known of the way to a peer: what it holds, and the ratio of the last long send, of which there is none where all goes raw.
    fn held_and_ratio(&self, peer: Rank, is_off: bool) -> Option<(u64, f64)> {
        let peer = peer.0 as usize;
        let held = self.held.get(peer)?.load(Ordering::Relaxed);
        let of_whole = if is_off { WHOLE } else { self.coded.get(peer)?.load(Ordering::Relaxed) };
        Some((held, f64::from(WHOLE) / f64::from(of_whole)))
    }

    /// How many parts of so many bytes are to be on a way that holds so much, beside the next one.
    fn ahead(&self, part_bytes: usize, held: u64, ratio: f64) -> Option<usize> {
        // Where little of a part is left, the caches hold more of them, and the codecs are what everybody waits for.
        let coding = self.codec_threads.max(1) as f64 * (ratio / 2.0).max(1.0);
        let is_short = held as f64 <= part_bytes as f64;
        is_short.then(|| (coding + ratio * held as f64 / part_bytes as f64) as usize)
    }
}

impl Node {
    /// Collectives cut what they send into parts of so many bytes, on all ranks alike.
    pub(crate) fn part_bytes(&self) -> usize {
        self.board.ways.part_bytes
    }

    /// How many parts are to be on their way to these peers beside the next one, so that no link or codec waits: one for each codec thread, or
    /// more where little is left of a part, and what the link holds. `None` where that is not known, or more than is to be counted.
    pub(crate) fn parts_ahead(&self, peers: impl Iterator<Item = Rank>) -> Option<usize> {
        self.board.ways.parts_ahead(peers, self.is_switched_off())
    }

    pub(super) fn is_switched_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
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
        let ahead = |ranks: &[u32]| with_one.parts_ahead(ranks.iter().copied().map(Rank), false);
        assert_eq!(ahead(&[1]), None, "nothing is known yet");
        // 25,000 bytes, and 99,968 are a part.
        with_one.note(Rank(1), Some(link(10.0, 20_000)));
        assert_eq!(ahead(&[1]), Some(1));
        assert_eq!(ahead(&[1, 2]), None, "nor of all");
        // 62,500.
        with_one.note(Rank(2), Some(link(10.0, 50_000)));
        assert_eq!([ahead(&[1, 2]), ahead(&[2, 1]), ahead(&[1])], [Some(1); 3]);
        // To two thirds: 93,750 raw bytes. To a quarter: twice as many, and 100,000; to 250,000. To a hundredth: 50, and 25 or 62.
        for (coded_bytes, expected) in
            [(40_000, [1, 1]), (15_000, [3, 4]), (600, [75, 112]), (60_000, [1, 1])]
        {
            with_one.sent(Rank(1), 60_000, coded_bytes);
            with_one.sent(Rank(2), 60_000, coded_bytes);
            assert_eq!([ahead(&[1]), ahead(&[1, 2])], expected.map(Some), "{coded_bytes}");
        }
        with_one.sent(Rank(1), 60_000, 600);
        assert_eq!([ahead(&[1]), ahead(&[1, 2])], [Some(75), Some(1)], "as the one that takes the most");
        with_one.sent(Rank(1), 32_767, 32_767);
        assert_eq!(ahead(&[1]), Some(75), "too short to say anything");
        with_one.sent(Rank(1), 60_000, 70_000);
        assert_eq!(ahead(&[1]), Some(1));
        // 100,000: longer than a part.
        with_one.note(Rank(3), Some(link(10.0, 80_000)));
        assert_eq!([ahead(&[3]), ahead(&[1, 2, 3]), ahead(&[]), ahead(&[4])], [None; 4]);
        with_one.note(Rank(1), None);
        assert_eq!(ahead(&[1]), None);
        for (codec_threads, expected) in [(0, 1), (2, 2), (8, 8)] {
            let ways = ways(codec_threads);
            ways.note(Rank(0), Some(link(10.0, 20_000)));
            assert_eq!(ways.parts_ahead([Rank(0)].into_iter(), false), Some(expected));
        }
    }

    #[test]
    fn parts_fit_in_their_rooms_and_cut_no_number() {
        let part_bytes = |part_bytes| Ways::new(1, part_bytes, 1).part_bytes;
        assert_eq!([0, 127, 192 << 10, usize::MAX].map(part_bytes), [64, 64, 192 << 10, 512 << 10]);
    }

    #[test]
    fn messages_have_windows_where_the_link_is_known_and_fast() {
        let ways = Ways::new(2, 192 << 10, 1);
        let none = (512 << 10, None);
        let way = |is_off| ways.of_messages(Rank(1), 0, is_off);
        assert_eq!(way(false), none, "nothing is known yet");
        // One part ahead and two that are answered, each of 196,608 bytes, of which one takes 0.8 ns.
        ways.note(Rank(1), Some(link(10.0, 20_000)));
        let window =
            |bytes, nanos: u64| Some(Window { bytes, patience: Duration::from_nanos(nanos + 200_000) });
        assert_eq!(way(false), (192 << 10, window(589_824, 943_718)));
        // A quarter is left: two ahead for the codec, and of 25,000 bytes four times as many. Parts are so long that some are left.
        ways.sent(Rank(1), 60_000, 15_000);
        assert_eq!(way(false), (512 << 10, window(4 << 19, 838_860)));
        assert_eq!(way(true), (192 << 10, window(589_824, 943_718)), "nothing is left out");
        // As many of longer ones.
        assert_eq!(ways.of_messages(Rank(1), 256 << 10, true), (256 << 10, window(786_432, 1_258_291)));
        assert_eq!(ways.of_messages(Rank(1), 1 << 20, true), (1 << 20, None), "those take the link too long");
        assert_eq!(ways.of_messages(Rank(1), 1 << 20, false), (1 << 20, window(4 << 20, 1_677_721)));
        // It takes four times as long for as much, and for less no longer than 2 ms: 1,887,436 ns for 589,824 bytes, 471,859 for 147,456.
        ways.note(Rank(1), Some(link(2.5, 20_000)));
        assert_eq!(way(true), (192 << 10, window(589_824, 3_774_873)));
        ways.note(Rank(1), Some(link(2.3, 20_000)));
        assert_eq!(way(true), none);
        for link in [None, Some(link(10.0, 0)), Some(link(10.0, 100_001)), Some(link(1e-300, 20_000))] {
            ways.note(Rank(1), link);
            assert_eq!([way(false), way(true)], [none; 2]);
        }
        assert_eq!(ways.of_messages(Rank(2), 0, false), none);
    }
}
