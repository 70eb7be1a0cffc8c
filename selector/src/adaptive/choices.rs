//! The choices of a stream by length: looked up for each transfer, and worked out again between transfers.

use super::choice::{Chances, Choice};
use super::knowledge::Moved;
use crate::Overlap;

/// Lengths beyond 1.5 · 2^first are told apart, two classes an octave: those that end with a power of two, as chunks, segments and bands
/// of lengths do, and those that end half way to it.
const FIRST_OCTAVE: u32 = 6;
const CLASSES: usize = 64;
/// What working out a choice is taken to cost, in nanoseconds.
const CHOOSING_NS: f64 = 400.0;
/// The part of the transfers' time that it may take.
const SHARE: f64 = 1.0 / 2048.0;
/// What can be saved up for when the data changes, and what is there at the start, in choices.
const MOST_SAVED: f64 = 40.0;
const FIRST_SAVED: f64 = 4.0;

/// Choices by length.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    /// By class: which of `known` it has, from 1; 0 if there is none: most streams know few lengths.
    places: [u8; CLASSES],
    known: Vec<Known>,
    /// Classes that have a choice.
    met: u64,
    /// Classes whose choices rest on what is no longer known, and those of them that may be wrong.
    stale: u64,
    doubted: u64,
    /// What may be spent on working out choices, in nanoseconds.
    saved_ns: f64,
}

/// What was worked out for a length.
#[derive(Clone, Copy, Debug)]
struct Known {
    raw_bytes: u64,
    /// What it was worked out for, which may depend on the length.
    overlap: Overlap,
    choice: Choice,
    chances: Chances,
}

impl Default for Choices {
    fn default() -> Self {
        let saved_ns = FIRST_SAVED * CHOOSING_NS;
        Self { places: [0; CLASSES], known: Vec::new(), met: 0, stale: 0, doubted: 0, saved_ns }
    }
}

impl Choices {
    /// The choice for transfers of about this length, worked out by `choose` only if there is none.
    pub(super) fn of(
        &mut self,
        raw_bytes: u64,
        overlap: Overlap,
        choose: impl FnOnce() -> (Choice, Chances),
    ) -> Choice {
        match self.known(raw_bytes).filter(|known| is_alike(known.overlap, overlap)) {
            Some(known) => known.choice,
            None => self.put(raw_bytes, overlap, choose()),
        }
    }

    /// What might be better than the choice for transfers of about this length, if there is one.
    pub(super) fn chances(&self, raw_bytes: u64) -> Option<&Chances> {
        self.known(raw_bytes).map(|known| &known.chances)
    }

    fn known(&self, raw_bytes: u64) -> Option<&Known> {
        self.known.get(usize::from(self.places[class(raw_bytes)]).wrapping_sub(1))
    }

    /// Puts a choice in place of the one for its length.
    pub(super) fn put(
        &mut self,
        raw_bytes: u64,
        overlap: Overlap,
        (choice, chances): (Choice, Chances),
    ) -> Choice {
        let (class, known) = (class(raw_bytes), Known { raw_bytes, overlap, choice, chances });
        match usize::from(self.places[class]).checked_sub(1) {
            Some(place) => self.known[place] = known,
            None => {
                self.known.push(known);
                self.places[class] = self.known.len() as u8;
                self.met |= 1 << class;
            }
        }
        self.stale &= !(1 << class);
        self.doubted &= !(1 << class);
        choice
    }

    /// What choices rest on has moved.
    pub(super) fn renew(&mut self, moved: Moved) {
        match moved {
            Moved::No => {}
            Moved::Little => self.stale = self.met,
            Moved::Far => self.start_again(),
        }
    }

    /// The data is other data, or the link another: no choice is good any more.
    pub(super) fn start_again(&mut self) {
        (self.stale, self.doubted) = (self.met, self.met);
    }

    /// Whether any choice may be wrong.
    pub(super) const fn has_doubts(&self) -> bool {
        self.doubted != 0
    }

    /// A transfer has taken so long; a part of that may be spent on choices.
    pub(super) fn earn(&mut self, transfer_ns: f64) {
        self.saved_ns = (self.saved_ns + SHARE * transfer_ns).min(MOST_SAVED * CHOOSING_NS);
    }

    /// Whether a choice should be worked out again now, after a transfer of so many bytes.
    pub(super) fn has_due(&self, last_bytes: u64) -> bool {
        (1 << class(last_bytes) & self.stale | self.doubted) != 0 && self.saved_ns >= CHOOSING_NS
    }

    /// A length whose choice should be worked out again now: that of the last transfer first, then the longest that may
    /// be wrong. What is only stale can wait for the next transfer of its length. With it comes how it overlaps with the link.
    pub(super) fn next_due(&mut self, last_bytes: u64) -> Option<(u64, Overlap)> {
        if !self.has_due(last_bytes) {
            return None;
        }
        self.saved_ns -= CHOOSING_NS;
        if 1 << class(last_bytes) & self.stale != 0 {
            return self.known(last_bytes).map(|known| (last_bytes, known.overlap));
        }
        let place = self.places[self.doubted.ilog2() as usize];
        self.known.get(usize::from(place).checked_sub(1)?).map(|known| (known.raw_bytes, known.overlap))
    }
}

/// Whether what was worked out for one overlap holds for the other: segments that depend on the length differ no more within a class.
fn is_alike(a: Overlap, b: Overlap) -> bool {
    let is_near = |a: u64, b: u64| a.abs_diff(b) <= a.min(b) / 2;
    a == b || a.is_like(b) && a.segment_bytes().zip(b.segment_bytes()).is_none_or(|(a, b)| is_near(a, b))
}

fn class(raw_bytes: u64) -> usize {
    let last = raw_bytes.saturating_sub(1).max(1 << FIRST_OCTAVE);
    let octave = last.ilog2();
    let class = 2 * (octave - FIRST_OCTAVE) as usize + (last >> (octave - 1) & 1) as usize;
    class.min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn nothing() -> (Choice, Chances) {
        (Choice::nothing(), Chances::default())
    }

    /// Looks a choice up; tells whether it was worked out.
    fn worked_out(choices: &mut Choices, raw_bytes: u64) -> bool {
        let mut again = false;
        choices.of(raw_bytes, Overlap::None, || {
            again = true;
            nothing()
        });
        again
    }

    #[test]
    fn classes_are_half_octaves() {
        assert_eq!([1, 2, 64, 65, 96, 97, 128, 129].map(class), [0, 0, 0, 0, 0, 1, 1, 2]);
        assert_eq!(class((3 << 20) + 1), class(4 << 20));
        assert_ne!(class(3 << 20), class((3 << 20) + 1));
        assert_eq!(class(u64::MAX), CLASSES - 1);
        assert_eq!(class(0), 0);
    }

    #[test]
    fn only_the_first_transfer_of_a_length_waits_for_its_choice() {
        let mut choices = Choices::default();
        assert!(worked_out(&mut choices, KIB));
        assert!(!worked_out(&mut choices, KIB - 100));
        assert!(worked_out(&mut choices, 2 * KIB));
        choices.start_again();
        assert!(choices.has_due(KIB));
        assert!(!worked_out(&mut choices, KIB) && !worked_out(&mut choices, 2 * KIB));
    }

    #[test]
    fn choices_for_segments_far_apart_are_not_for_each_other() {
        let mut choices = Choices::default();
        let mut worked_out = |overlap| {
            let mut again = false;
            choices.of(3 << 20, overlap, || {
                again = true;
                nothing()
            });
            again
        };
        assert!(worked_out(Overlap::Fused(2 << 20)));
        assert!(!worked_out(Overlap::Fused(3 << 20)) && !worked_out(Overlap::Fused(2 << 20)));
        assert!(worked_out(Overlap::Fused((3 << 20) + 1)) && worked_out(Overlap::Fused(2 << 20)));
        assert!(worked_out(Overlap::Segments(2 << 20)));
    }

    #[test]
    fn the_last_length_comes_first_and_then_what_may_be_wrong() {
        let mut choices = Choices::default();
        for raw_bytes in [KIB, 2 * KIB, 4 * KIB, 8 * KIB] {
            worked_out(&mut choices, raw_bytes);
        }
        let order = |choices: &mut Choices| {
            let mut order = Vec::new();
            while let Some((raw_bytes, overlap)) = choices.next_due(2 * KIB) {
                choices.put(raw_bytes, overlap, nothing());
                order.push(raw_bytes);
            }
            order
        };
        choices.earn(1e9);
        choices.renew(Moved::No);
        assert!(order(&mut choices).is_empty());
        choices.renew(Moved::Little);
        assert_eq!(order(&mut choices), [2 * KIB]);
        assert!(choices.has_due(4 * KIB) && !choices.has_due(2 * KIB));
        choices.renew(Moved::Far);
        assert_eq!(order(&mut choices), [2 * KIB, 8 * KIB, 4 * KIB, KIB]);
        assert!(!choices.has_due(KIB));
    }

    #[test]
    fn choosing_takes_its_share_and_no_more() {
        let mut choices = Choices::default();
        worked_out(&mut choices, KIB);
        let mut chosen = 0;
        for _ in 0..10_000 {
            choices.earn(3000.0);
            choices.renew(Moved::Little);
            if let Some((raw_bytes, overlap)) = choices.next_due(KIB) {
                choices.put(raw_bytes, overlap, nothing());
                chosen += 1;
            }
        }
        // 30,000,000 ns / 2048 are 36 times 400, and 4 more are there from the start.
        assert!((39..=41).contains(&chosen), "{chosen}");
        // What is saved up is bounded.
        choices.earn(1e12);
        choices.renew(Moved::Far);
        let at_once = (0..100).filter(|_| choices.next_due(2 * KIB).is_some()).count();
        assert_eq!(at_once, 40);
    }
}
