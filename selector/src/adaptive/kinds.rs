//! The kinds of data that a stream has carried, and whether they come in phases or by chance.
//!
//! A stream may go from one kind of data to another and stay there: then the last transfers say what the next one becomes. Or transfers
//! of several kinds may follow each other by chance, as tensors of all sorts on one communicator do: then the last one says next to
//! nothing, and what all of them become on average does. How much of a distance from that average is there again with the next
//! transfer, which is the slope of a regression of each on the one before, tells the two apart, and all that lies between.

use mgcomp_codecs::{Algorithm, AlgorithmSet};

use super::knowledge::differ;
use super::stream::Change;

/// Kinds that are remembered.
const MOST: usize = 4;
/// Weight of a transfer in what is known in the long run, where all are as long.
const LONG_RUN: f64 = 1.0 / 32.0;
/// Weight of a transfer in what its kind becomes.
const WEIGHT: f64 = 0.25;
/// Where no more of a distance than this is there again, nothing of it is to be expected: so much is chance.
const CHANCE: f64 = 0.35;
/// Where so much is there again, all of it is to be expected: a phase has an end, too.
const PHASES: f64 = 0.75;
/// What is no further than that from the last kind is of it, whatever else it could be.
const SURE: f64 = 0.25;
/// What is less than this part of another is clearly less.
const CLEARLY_LESS: f64 = 0.75;
/// Where kinds change less often than that, each time is news.
const SELDOM: f64 = 1.0 / 64.0;
/// Bytes, or squares of them, that are as good as none: numbers that go on shrinking become slow.
const NOTHING: f64 = 1e-6;
/// What is left of the data is as good as nothing.
pub(super) const NEXT_TO_NOTHING: f64 = 0.01;

/// What a transfer is beside those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Of the kind that the last one was of.
    Same,
    /// Of another kind that is known.
    Back,
    /// Of a kind that is not.
    New,
}

/// Those of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    kinds: Vec<Kind>,
    /// Which one the last transfer was of, and its bytes.
    last: usize,
    last_bytes: f64,
    /// Squares of distances from the average, and these times the next ones, weighted by bytes; old ones count less and less.
    away: f64,
    still: f64,
    /// The part of the transfers that were of another kind than the one before.
    turns: f64,
}

/// What one kind of data becomes, by algorithm, in coded bytes per raw byte.
#[derive(Clone, Copy, Debug)]
struct Kind {
    fractions: [Option<f64>; 16],
    /// What was seen; all else is what others have suggested.
    seen: AlgorithmSet,
    /// Bytes of its transfers, old ones counted less and less.
    bytes: f64,
}

impl Kind {
    fn of(&self, algorithm: Algorithm) -> Option<f64> {
        self.fractions[usize::from(algorithm.number())]
    }

    fn set(&mut self, algorithm: Algorithm, fraction: f64) {
        self.fractions[usize::from(algorithm.number())] = Some(fraction);
        self.seen = AlgorithmSet::from_bits(self.seen.bits() | 1 << algorithm.number());
    }

    /// How far from it is what was seen of a transfer: by what was seen of both, or else by what is only guessed. `None` if that is further
    /// than `tolerance`, or nothing can be compared.
    fn distance(&self, seen: &[(Algorithm, f64)], tolerance: f64) -> Option<f64> {
        let distance = |&(algorithm, fraction): &(Algorithm, f64)| {
            Some(differ(self.of(algorithm)? + NEXT_TO_NOTHING, fraction + NEXT_TO_NOTHING))
        };
        let mut far = [None::<f64>; 2];
        for look in seen {
            if let Some(distance) = distance(look) {
                let far = &mut far[usize::from(!self.seen.contains(look.0))];
                *far = Some(far.unwrap_or(0.0).max(distance));
            }
        }
        match far {
            [Some(far), _] => (far <= tolerance).then_some(far),
            [None, Some(far)] => (far <= 2.0 * tolerance).then_some(far + tolerance),
            [None, None] => None,
        }
    }

    /// The least that it becomes in any form that was seen.
    fn least(&self) -> f64 {
        let seen = self.seen.iter().filter_map(|algorithm| self.of(algorithm));
        seen.fold(f64::INFINITY, f64::min)
    }
}

impl Kinds {
    /// Learns what a transfer became, once of each: in the form in which it was sent, and in others in which it was looked at. What is
    /// further than `tolerance` from a kind is not of it.
    pub(super) fn learn(&mut self, seen: &[(Algorithm, f64)], bytes: f64, tolerance: f64) -> Turn {
        if seen.is_empty() {
            return Turn::Same;
        }
        // Of a stream that has carried one kind alone, which is most of them, the average is that kind.
        if self.kinds.len() > 1
            && let Some((mean, before, now)) = self.step(seen)
        {
            let (before, now, bytes) = (before - mean, now - mean, bytes.min(self.last_bytes));
            self.away += bytes * before * before - self.away * LONG_RUN;
            self.still += bytes * before * now - self.still * LONG_RUN;
            if self.away < NOTHING {
                (self.away, self.still) = (0.0, 0.0);
            }
        }
        let (turn, at) = self.place(seen, tolerance);
        self.turns += (f64::from(turn != Turn::Same) - self.turns) * LONG_RUN;
        for kind in &mut self.kinds {
            kind.bytes = if kind.bytes < NOTHING { 0.0 } else { kind.bytes * (1.0 - LONG_RUN) };
        }
        let kind = &mut self.kinds[at];
        kind.bytes += bytes;
        for &(algorithm, fraction) in seen {
            let known = kind.of(algorithm).filter(|_| kind.seen.contains(algorithm));
            kind.set(algorithm, known.map_or(fraction, |known| known + (fraction - known) * WEIGHT));
        }
        (self.last, self.last_bytes) = (at, bytes);
        turn
    }

    /// From where to where data has gone, and what it is on average: in the form that shrinks most.
    fn step(&self, seen: &[(Algorithm, f64)]) -> Option<(f64, f64, f64)> {
        let last = self.kinds.get(self.last)?;
        let steps = seen
            .iter()
            .filter_map(|&(algorithm, now)| Some((self.mean(algorithm)?, last.of(algorithm)?, now)));
        steps.min_by(|(a, ..), (b, ..)| a.total_cmp(b))
    }

    /// For each kind but the last one, what becomes clearly less of it than of that one.
    pub(super) fn telling(&self) -> impl Iterator<Item = AlgorithmSet> {
        let last = self.kinds.get(self.last);
        let others = self.kinds.iter().enumerate().filter(|(at, _)| *at != self.last);
        others.filter_map(move |(_, kind)| {
            let last = last?;
            let is_less = |algorithm: &Algorithm| {
                let (here, there) = (last.of(*algorithm), kind.of(*algorithm));
                here.zip(there).is_some_and(|(here, there)| {
                    there + NEXT_TO_NOTHING < CLEARLY_LESS * (here + NEXT_TO_NOTHING)
                })
            };
            Some(kind.seen.iter().filter(is_less).collect())
        })
    }

    /// Which kind it is: the last one rather than others, and rather one that shrinks where it could be several. A new one takes the place
    /// of what is rarest.
    fn place(&mut self, seen: &[(Algorithm, f64)], tolerance: f64) -> (Turn, usize) {
        let from_last = self.kinds.get(self.last).and_then(|last| last.distance(seen, tolerance));
        if from_last.is_some_and(|from_last| from_last <= SURE) {
            return (Turn::Same, self.last);
        }
        let all = self.kinds.iter().enumerate();
        if let Some(from_last) = from_last {
            let near = from_last.min(tolerance) / 2.0;
            let nearer = || all.clone().filter_map(|(at, kind)| Some((kind.distance(seen, near)?, at)));
            let nearest = nearer().min_by(|a, b| a.0.total_cmp(&b.0));
            return nearest.map_or((Turn::Same, self.last), |(_, at)| (Turn::Back, at));
        }
        let alike = all.filter(|(_, kind)| kind.distance(seen, tolerance).is_some());
        if let Some((at, _)) = alike.min_by(|(_, a), (_, b)| a.least().total_cmp(&b.least())) {
            return (Turn::Back, at);
        }
        let mut new = Kind { fractions: [None; 16], seen: AlgorithmSet::from_bits(0), bytes: 0.0 };
        if let (Some(last), Some(&(first, fraction))) = (self.kinds.get(self.last), seen.first())
            && let Some(from) = last.of(first)
        {
            let change = Change { from, to: fraction };
            new.fractions = last.fractions.map(|known| known.map(|known| change.applied_to(known)));
        }
        if self.kinds.len() < MOST {
            self.kinds.push(new);
            return (Turn::New, self.kinds.len() - 1);
        }
        let others = (0..MOST).filter(|&at| at != self.last);
        let rarest = others.min_by(|&a, &b| self.kinds[a].bytes.total_cmp(&self.kinds[b].bytes));
        let rarest = rarest.unwrap_or(0);
        self.kinds[rarest] = new;
        (Turn::New, rarest)
    }

    /// What the last transfer's kind becomes, if it was seen.
    pub(super) fn recall(&self, algorithm: Algorithm) -> Option<f64> {
        let last = self.kinds.get(self.last).filter(|last| last.seen.contains(algorithm));
        last.and_then(|last| last.of(algorithm))
    }

    /// What all transfers become on average.
    fn mean(&self, algorithm: Algorithm) -> Option<f64> {
        let (mut bytes, mut coded) = (0.0, 0.0);
        for kind in &self.kinds {
            if let Some(fraction) = kind.of(algorithm) {
                (bytes, coded) = (bytes + kind.bytes, coded + kind.bytes * fraction);
            }
        }
        (bytes > 0.0).then(|| coded / bytes)
    }

    /// How much of a distance from the average is to be expected again, of 1. One that is greater than all that have come back is taken to
    /// stay.
    fn stays(&self, distance: f64) -> f64 {
        let unknown = self.last_bytes * distance * distance;
        let away = self.away + unknown;
        if away > 0.0 {
            (((self.still + unknown) / away - CHANCE) / (PHASES - CHANCE)).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }

    /// What the next transfer is to become, where the last ones became `latest`.
    pub(super) fn expected(&self, algorithm: Algorithm, latest: f64) -> f64 {
        if self.kinds.len() < 2 {
            return latest;
        }
        self.mean(algorithm).map_or(latest, |mean| mean + (latest - mean) * self.stays(latest - mean))
    }

    /// Whether what is expected may be something else than what was last.
    pub(super) fn matter(&self) -> bool {
        self.kinds.len() > 1 && self.still < self.away * PHASES
    }

    /// Whether the last transfer says little of the next one.
    pub(super) fn come_by_chance(&self) -> bool {
        self.turns > SELDOM && self.still < self.away * (CHANCE + PHASES) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEROS: [(Algorithm, f64); 2] = [(Algorithm::Zvc, 0.05), (Algorithm::Xp, 0.06)];
    const WEIGHTS: [(Algorithm, f64); 2] = [(Algorithm::Zvc, 1.0), (Algorithm::Xp, 0.68)];
    const NOISE: [(Algorithm, f64); 2] = [(Algorithm::Zvc, 1.0), (Algorithm::Xp, 1.0)];

    fn learn(kinds: &mut Kinds, seen: &[(Algorithm, f64)]) -> Turn {
        kinds.learn(seen, 1000.0, 0.25)
    }

    fn set(algorithms: &[Algorithm]) -> AlgorithmSet {
        algorithms.iter().copied().collect()
    }

    #[test]
    fn what_was_never_seen_to_come_back_is_expected_to_stay() {
        let mut kinds = Kinds::default();
        assert_eq!(learn(&mut kinds, &ZEROS), Turn::New);
        (0..50).for_each(|_| assert_eq!(learn(&mut kinds, &ZEROS[..1]), Turn::Same));
        assert_eq!(learn(&mut kinds, &NOISE[..1]), Turn::New);
        assert_eq!(kinds.expected(Algorithm::Zvc, 1.0), 1.0);
        (0..50).for_each(|_| assert_eq!(learn(&mut kinds, &NOISE[..1]), Turn::Same));
        assert!(!kinds.come_by_chance() && !kinds.matter());
        assert_eq!(learn(&mut kinds, &ZEROS[..1]), Turn::Back);
        assert!((kinds.expected(Algorithm::Zvc, 0.05) - 0.05).abs() < 1e-9);
    }

    #[test]
    fn what_takes_turns_is_expected_to_be_what_it_is_on_average() {
        let mut kinds = Kinds::default();
        for _ in 0..200 {
            learn(&mut kinds, &ZEROS);
            learn(&mut kinds, &NOISE);
        }
        assert!(kinds.come_by_chance() && kinds.matter());
        // The last one counts 32/31 times what the one before does.
        let mean = (0.05 * 31.0 + 1.0 * 32.0) / 63.0;
        for latest in [0.05, 1.0] {
            assert!((kinds.expected(Algorithm::Zvc, latest) - mean).abs() < 1e-9);
        }
        assert_eq!(kinds.expected(Algorithm::Int, 0.3), 0.3, "nobody has seen that");
        // Then it stays: of a turn each time, a 64th is left after 131 transfers.
        (0..132).for_each(|_| assert_eq!(learn(&mut kinds, &NOISE), Turn::Same));
        assert!(!kinds.come_by_chance());
        assert!((kinds.expected(Algorithm::Zvc, 1.0) - 1.0).abs() < 0.02);
    }

    #[test]
    fn long_transfers_count_more_than_short_ones() {
        let mut kinds = Kinds::default();
        for _ in 0..200 {
            kinds.learn(&ZEROS, 3000.0, 0.25);
            kinds.learn(&NOISE, 1000.0, 0.25);
        }
        let mean = (3.0 * 31.0 * 0.05 + 32.0) / (3.0 * 31.0 + 32.0);
        assert!((kinds.mean(Algorithm::Zvc).unwrap() - mean).abs() < 1e-9);
    }

    #[test]
    fn a_kind_that_comes_back_is_known_in_all_forms_and_one_that_shrinks_rather_than_another() {
        let mut kinds = Kinds::default();
        for seen in [ZEROS, NOISE, WEIGHTS, ZEROS] {
            learn(&mut kinds, &seen);
        }
        assert_eq!(learn(&mut kinds, &NOISE[..1]), Turn::Back);
        assert_eq!(kinds.recall(Algorithm::Xp), Some(0.68));
        // It was the other one after all.
        assert_eq!(learn(&mut kinds, &NOISE[1..]), Turn::Back);
        assert_eq!((kinds.recall(Algorithm::Zvc), kinds.recall(Algorithm::Int)), (Some(1.0), None));
    }

    #[test]
    fn what_is_only_guessed_is_not_recalled_and_looks_for_it_find_it() {
        let mut kinds = Kinds::default();
        learn(&mut kinds, &ZEROS);
        learn(&mut kinds, &NOISE[..1]);
        // 0.06 * 1.0 / 0.05 is more than all of the data.
        assert_eq!((kinds.kinds[1].of(Algorithm::Xp), kinds.recall(Algorithm::Xp)), (Some(1.0), None));
        assert_eq!(learn(&mut kinds, &NOISE[1..]), Turn::Same);
        assert_eq!(kinds.recall(Algorithm::Xp), Some(1.0));
    }

    #[test]
    fn the_rarest_kind_makes_room() {
        let mut kinds = Kinds::default();
        let kind = |fraction| [(Algorithm::Zvc, fraction)];
        for (fraction, times) in [(0.05, 9), (0.1, 1), (0.2, 9), (0.4, 9)] {
            (0..times).for_each(|_| _ = learn(&mut kinds, &kind(fraction)));
        }
        assert_eq!(learn(&mut kinds, &kind(0.8)), Turn::New);
        assert_eq!([0.05, 0.2, 0.4].map(|fraction| learn(&mut kinds, &kind(fraction))), [Turn::Back; 3]);
        assert_eq!(kinds.kinds.len(), MOST);
        assert_eq!(learn(&mut kinds, &kind(0.1)), Turn::New);
    }

    #[test]
    fn a_few_places_are_of_the_kind_that_they_are_nearest_to() {
        let mut kinds = Kinds::default();
        let kind = |fraction| [(Algorithm::Zvc, fraction)];
        [0.45, 1.0].iter().for_each(|&fraction| _ = learn(&mut kinds, &kind(fraction)));
        // Within what so few places may be off from both.
        assert_eq!(kinds.learn(&kind(0.9), 100.0, 1.25), Turn::Same);
        assert_eq!(kinds.learn(&kind(0.5), 100.0, 1.25), Turn::Back);
    }

    #[test]
    fn what_tells_another_kind_becomes_clearly_less_of_it() {
        let mut kinds = Kinds::default();
        assert_eq!(kinds.telling().count(), 0);
        for seen in [ZEROS, WEIGHTS, NOISE] {
            learn(&mut kinds, &seen);
        }
        let telling: Vec<_> = kinds.telling().collect();
        assert_eq!(telling, [set(&[Algorithm::Zvc, Algorithm::Xp]), set(&[Algorithm::Xp])]);
        learn(&mut kinds, &ZEROS);
        assert!(kinds.telling().all(|set| set.bits() == 0), "nothing becomes less than that");
    }

    #[test]
    fn what_is_long_gone_weighs_nothing() {
        let mut kinds = Kinds::default();
        (0..50).for_each(|_| [ZEROS, NOISE].iter().for_each(|seen| _ = learn(&mut kinds, seen)));
        // Of 32,000 bytes, a 10^69th would be left, and numbers that go on shrinking become slow.
        (0..5000).for_each(|_| _ = learn(&mut kinds, &NOISE));
        assert_eq!((kinds.kinds[0].bytes, kinds.away, kinds.still), (0.0, 0.0, 0.0));
        assert_eq!(kinds.mean(Algorithm::Zvc), Some(1.0));
        assert_eq!(learn(&mut kinds, &ZEROS), Turn::Back);
    }
}
