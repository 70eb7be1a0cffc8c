//! Which copies are timed, and which are watched.

use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{LinkFacts, Overlap};

use crate::link::rate::TimedRate;

/// What the driver and the devices take to begin a copy, whatever its length.
const START: Duration = Duration::from_micros(10);
/// So many plain copies are timed one after the other while nothing is known: more of them hardly tell what these did not.
const FIRST_TIMED: u32 = 8;
/// Then, or once the link is known, so many plain copies go by before one is timed again.
const PLAIN_BETWEEN: u32 = 7;
/// So many coded ones go by before one is plain instead, since else a link that has changed, or was disturbed, would be taken
/// for what it was.
const CODED_BETWEEN: u32 = 255;
/// So many copies with one algorithm are watched one after the other, and then one after so many others.
const FIRST_WATCHED: u32 = 8;
const WATCHED_BETWEEN: u32 = 7;

/// What is known of the link.
#[derive(Debug)]
pub(super) enum Link {
    /// What the program has said; or nothing, where no policy can go by it.
    Stated(Option<LinkFacts>),
    /// What plain copies have shown.
    Timed(Timed),
}

#[derive(Debug)]
pub(super) struct Timed {
    pub(super) rate: TimedRate,
    /// Copies that were to be timed, up to [`FIRST_TIMED`], and those since the last of them.
    first: u32,
    since: u32,
}

/// Which coded copies are watched.
#[derive(Debug)]
pub(super) struct Watches {
    /// What the last one was coded with, how many were in a row, and how many there were since one was watched.
    algorithm: Algorithm,
    in_a_row: u32,
    since: u32,
}

impl Link {
    /// Plain copies are to show it.
    pub(super) fn timed() -> Self {
        Self::Timed(Timed { rate: TimedRate::new(START), first: 0, since: 0 })
    }

    /// Whether a copy that was to go so is plain and timed.
    pub(super) fn is_due(&mut self, algorithm: Algorithm) -> bool {
        let Self::Timed(Timed { rate, first, since }) = self else { return false };
        let between = match algorithm {
            Algorithm::None if *first < FIRST_TIMED && rate.facts(Overlap::None).is_none() => 0,
            Algorithm::None => PLAIN_BETWEEN,
            _ => CODED_BETWEEN,
        };
        let is_due = *since >= between;
        *since = if is_due { 0 } else { *since + 1 };
        *first += u32::from(is_due && *first < FIRST_TIMED);
        is_due
    }
}

impl Watches {
    pub(super) const fn of(algorithm: Algorithm) -> Self {
        Self { algorithm, in_a_row: 0, since: 0 }
    }

    /// Whether a copy that goes so is watched.
    pub(super) fn is_due(&mut self, algorithm: Algorithm) -> bool {
        if algorithm == Algorithm::None {
            return false;
        }
        if algorithm != self.algorithm {
            *self = Self::of(algorithm);
        }
        let is_due = self.in_a_row < FIRST_WATCHED || self.since >= WATCHED_BETWEEN;
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.since = if is_due { 0 } else { self.since + 1 };
        is_due
    }
}
