//! How data is cut: while one piece is on its way, the next one is made. All ranks cut alike, by what all of them know: how far they are from
//! each other, and how long the message of the piece before was.
//!
//! A rank does not call MPI while it makes or opens a piece, so what is to go on meanwhile has to be with the operating system by then. MPIs
//! send a message up to their eager limit at once, which is 64 KiB over sockets in Open MPI; of a longer one they send the beginning, and the rest
//! once its receiver has answered. So messages are to stay below that where ranks are near, and pieces of what compresses well are longer than
//! those of what does not. Where ranks are far, pieces are as long as may be, for each waits for the one before to be there: what is in between,
//! longer than the limit and yet short, is slow both ways.

use std::ops::{Range, RangeInclusive};
use std::time::Instant;

use mgcomp_selector::{LinkFacts, Overlap};

use crate::failure::Failure;
use crate::mpi::Mpi;
use crate::types::Comm;

/// No piece is longer, so that memory for messages is bounded.
const LONGEST: usize = 4 << 20;
/// Pieces have whole numbers of these bytes.
const STEP: usize = 16 << 10;
/// Ranks are near where a word takes no longer than that from one to another, half of what a message of [`NEAR`] takes at 10 Gb/s,
const NEAR_NS: u64 = 25_000;
/// and no longer than that to all: of many ways from rank to rank, a few may be far.
const ALL_NEAR_NS: u64 = 75_000;
/// The first piece of a block is short enough to go raw below the limit, and messages leave room for what MPI sends with them.
const NEAR: Pieces = Pieces { first: 48 << 10, message: 56 << 10 };
/// Other pieces are no longer than so many first ones: they are to stay in the caches between MPI and the codec.
const MOST_FIRST: usize = 8;
/// Codecs are expected to show in no less than one of so many pieces.
const MOST_BESIDE: usize = 4;
/// Words that are timed; the first ones open connections.
const WORDS: usize = 9;
/// So many of them say enough where ranks are far.
const FAR_WORDS: usize = 4;

/// How long pieces are, on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Bytes of the first one of a block.
    first: usize,
    /// Bytes that the messages of others are to have.
    message: usize,
}

impl Pieces {
    /// As long as they may be.
    pub(crate) const LONGEST: Self = Self { first: LONGEST, message: LONGEST };
    /// How short and how long first ones may be.
    pub(crate) const LENGTHS: RangeInclusive<usize> = STEP..=LONGEST;

    /// With a first one of so many bytes, whatever ranks are to each other.
    pub(crate) fn with_first(first: usize) -> Self {
        let first = whole(first.clamp(STEP, LONGEST));
        Self { first, message: first }
    }

    /// By the time that words take between all ranks of the world, which do this together.
    pub(crate) fn measured(mpi: &Mpi, world: Comm, ranks: usize) -> Result<Self, Failure> {
        let mut all = vec![0; 8 * ranks];
        let mut clock = WordClock::starting(Instant::now());
        // In as many steps, one behind the other, in each of which a rank has the words of twice as many.
        let steps = ranks.next_power_of_two().trailing_zeros();
        let mut pieces = Self::LONGEST;
        for word in 1..=WORDS {
            mpi.allgather(&clock.least_ns.to_le_bytes(), &mut all, world)?;
            clock.pass(Instant::now());
            // Of the words before this one.
            let words = all.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let slowest = words.max().unwrap_or(0);
            pieces = Self::of(slowest, steps);
            if word >= FAR_WORDS && slowest > 4 * ALL_NEAR_NS {
                break;
            }
        }
        Ok(pieces)
    }

    /// Where a word takes so many nanoseconds to all, in so many steps.
    fn of(word_ns: u64, steps: u32) -> Self {
        let is_near = word_ns / u64::from(steps.max(1)) <= NEAR_NS && word_ns <= ALL_NEAR_NS;
        if is_near { NEAR } else { Self::LONGEST }
    }

    /// Bytes of the first piece of a long block.
    pub(crate) fn first(self) -> usize {
        self.first
    }

    /// How a block is cut.
    pub(crate) fn cut(self) -> Cut {
        Cut { pieces: self, done: 0, next: self.first }
    }

    /// What a link is to a piece of a block. Where there are more, codecs work beside the link, and show in the first piece and the last: each
    /// takes what a segment takes of as many, but of no more than are sure to be made and opened while others are on their way. Nor does the
    /// latency show in each.
    pub(crate) fn link(link: LinkFacts, piece: usize, block: usize) -> LinkFacts {
        let segments = (block / piece.max(1)).clamp(1, MOST_BESIDE) as u64;
        let overlap = Overlap::Segments((piece as u64 / segments).max(1));
        if segments > 1 { LinkFacts::try_new(link.rate_gbps(), 0, overlap).unwrap_or(link) } else { link }
    }
}

/// Times words that all ranks have for each other, one behind the other. To a rank that comes late a word seems to take no time, for those of the
/// others are there already; then they are the late ones. So it goes by two words at once, which are no shorter than there and back.
struct WordClock {
    /// When the word before the last one was there,
    before: Option<Instant>,
    /// and when the last one was.
    last: Instant,
    /// The shortest time that a word took.
    least_ns: u64,
}

impl WordClock {
    fn starting(now: Instant) -> Self {
        Self { before: None, last: now, least_ns: u64::MAX }
    }

    /// A word is there.
    fn pass(&mut self, now: Instant) {
        if let Some(before) = self.before.replace(self.last) {
            self.least_ns = self.least_ns.min((now - before).as_nanos() as u64 / 2);
        }
        self.last = now;
    }
}

/// How far a block is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pieces: Pieces,
    done: usize,
    next: usize,
}

impl Cut {
    /// Bytes of the pieces that are behind it.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// The same block in pieces of that kind behind the next one.
    pub(crate) fn go_on_in(self, pieces: Pieces) -> Self {
        Self { pieces, ..self }
    }

    /// Where the next piece of a block of `len` bytes is; empty if there is none.
    pub(crate) fn next(&self, len: usize) -> Range<usize> {
        self.done.min(len)..len.min(self.done.saturating_add(self.next))
    }

    /// A piece of `len` bytes is behind it, whose message has so many.
    pub(crate) fn pass(&mut self, len: usize, message: usize) {
        let Pieces { first, message: wanted } = self.pieces;
        let next = wanted as u64 * len as u64 / (message as u64).max(1);
        let longest = LONGEST.min(first * MOST_FIRST);
        self.next = whole(next.min(longest as u64) as usize).max(first);
        self.done += len;
    }
}

/// So many bytes, or somewhat fewer.
fn whole(len: usize) -> usize {
    len / STEP * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_pieces_are_longer_where_ranks_are_far() {
        let first = |word_ns, steps| Pieces::of(word_ns, steps).first;
        let far = 4 << 20;
        assert_eq!(
            [0, 25_000, 25_001, u64::MAX].map(|word_ns| first(word_ns, 1)),
            [48 << 10, 48 << 10, far, far]
        );
        assert_eq!([50_002, 50_000].map(|word_ns| first(word_ns, 2)), [far, 48 << 10]);
        assert_eq!([75_001, 75_000].map(|word_ns| first(word_ns, 6)), [far, 48 << 10]);
        assert_eq!(first(25_001, 0), far);
        let asked = |first| Pieces::with_first(first).first;
        assert_eq!((asked(0), asked(70_000), asked(usize::MAX)), (16 << 10, 64 << 10, 4 << 20));
    }

    #[test]
    fn a_rank_that_comes_late_is_as_far() {
        // Words take 1,000: the late rank has waited 100 for the first one, and the other one 100 for the second, and so on.
        let start = Instant::now();
        let mut clock = WordClock::starting(start);
        let mut least_after = |nanos| {
            clock.pass(start + std::time::Duration::from_nanos(nanos));
            clock.least_ns
        };
        assert_eq!([100, 2000, 2100].map(&mut least_after), [u64::MAX, 1000, 1000]);
        assert_eq!([4000, 4100, 5000, 5100].map(&mut least_after), [1000, 1000, 500, 500]);
    }

    #[test]
    fn pieces_are_as_long_as_their_messages_want() {
        let (kib, len) = (1 << 10, 10 << 20);
        let mut cut = Pieces::of(0, 1).cut();
        assert_eq!(cut.next(len), 0..48 * kib);
        // To a quarter: 224 KiB would become 56.
        cut.pass(48 * kib, 12 * kib);
        assert_eq!((cut.done(), cut.next(len)), (48 * kib, 48 * kib..272 * kib));
        // To two thirds: 84 KiB would, in steps 80.
        cut.pass(224 * kib, 149 * kib);
        assert_eq!(cut.next(len), 272 * kib..352 * kib);
        // To nothing.
        cut.pass(80 * kib, 0);
        assert_eq!(cut.next(len), 352 * kib..736 * kib);
        // Not at all.
        cut.pass(384 * kib, 384 * kib + 32);
        assert_eq!(cut.next(len), 736 * kib..784 * kib);
        assert_eq!(cut.next(736 * kib + 5), 736 * kib..736 * kib + 5);
        assert!(cut.next(736 * kib).is_empty());
        assert!(cut.next(5).is_empty());
        // Nor in longer ones.
        let mut cut = cut.go_on_in(Pieces::LONGEST);
        cut.pass(48 * kib, 50 * kib);
        assert_eq!(cut.next(len), 784 * kib..4880 * kib);
    }

    #[test]
    fn no_piece_is_longer_than_it_may_be() {
        let mut cut = Pieces::LONGEST.cut();
        cut.pass(4 << 20, 1);
        assert_eq!(cut.next(usize::MAX), 4 << 20..8 << 20);
    }

    #[test]
    fn codecs_work_beside_the_link_where_there_is_more_than_one_piece() {
        let link = |latency_ns, overlap| LinkFacts::try_new(10.0, latency_ns, overlap).unwrap();
        let alone = link(20_000, Overlap::None);
        let of = |piece, block| Pieces::link(alone, piece, block);
        assert_eq!((of(4096, 4096), of(4096, 8191), of(0, 0)), (alone, alone, alone));
        assert_eq!(of(4096, 8192), link(0, Overlap::Segments(2048)));
        assert_eq!(of(4096, 1 << 20), link(0, Overlap::Segments(1024)));
    }
}
