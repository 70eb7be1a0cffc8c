//! One comparison: those of one kind, some of them raw.

use std::time::Duration;

use super::report::{Report, nanos};

/// How many have ended when ranks tell each other what they took; the last time, it is over,
const STAGES: [u64; 5] = [4, 8, 16, 32, 64];
/// and the time before, unless all that is missing is that it may be chance, and a raw one is not felt.
const SURE_STAGES: usize = STAGES.len() - 1;
/// So many of each way are enough to say what is slower, where the one takes so many times as long as the other.
const ENOUGH: [(u64, f64); 3] = [(2, 1.5), (FOUR, 1.15), (8, 1.05)];
/// Of fewer, each may be disturbed.
const FOUR: u64 = 4;
/// Of what takes so long raw, what disturbs it is a small part, and both raw ones or none would have to be disturbed: two are enough to say that
/// compression pays, as four are of others.
const TWO_ARE_ENOUGH_NS: u64 = 10_000_000;
/// Of what takes so long, each raw one is felt.
const FELT_NS: u64 = 50_000_000;

/// What was seen of a comparison so far.
#[derive(Debug, Default)]
pub(super) struct Contest {
    /// How many of the stages are over.
    stage: usize,
    pub(super) raw: Vec<Duration>,
    pub(super) coded: Vec<Duration>,
    /// What those were expected to become, as a part of their bytes: the sum, and of how many.
    fractions: (f64, u32),
}

/// What is no chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoChance {
    /// That compression takes longer.
    pub(super) slower: bool,
    /// That it takes less time.
    pub(super) pays: bool,
}

impl NoChance {
    /// Whatever is found, as ranks have to that come to the same.
    pub(super) const NOTHING_IS: Self = Self { slower: true, pays: true };
}

/// What all ranks together have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Too little to say.
    GoesOn,
    /// No difference that could be told.
    Open,
    /// Compression takes less time.
    Pays,
    /// It takes more.
    Slower,
}

impl Contest {
    /// One has ended, of which the policy expected that it becomes `fraction`, if it did.
    pub(super) fn note(&mut self, is_raw: bool, took: Duration, fraction: Option<f64>) {
        let times = if is_raw { &mut self.raw } else { &mut self.coded };
        times.push(took);
        if let Some(fraction) = fraction {
            self.fractions = (self.fractions.0 + fraction, self.fractions.1 + 1);
        }
    }

    /// Whether it is time to tell the other ranks, once so many have ended.
    pub(super) fn is_due(&self, ended: u64) -> bool {
        ended >= STAGES[self.stage]
    }

    /// What this rank has seen: as many of each way.
    pub(super) fn report(&self) -> Report {
        let of_each = self.coded.len().min(self.raw.len());
        let (raw, coded) = (&self.raw[..of_each], &self.coded[..of_each]);
        let (raw, coded) = if of_each as u64 >= FOUR {
            (usual(raw), usual(coded))
        } else {
            // Of so few, one that is disturbed counts for too much: what speaks least for compression.
            let (raw, coded) = (raw.iter().min(), coded.iter().max());
            (raw.copied().unwrap_or_default(), coded.copied().unwrap_or_default())
        };
        Report { raw_ns: nanos(raw), coded_ns: nanos(coded), of_each: of_each as u64 }
    }

    /// Which way took longer on this rank for more than chance: of all pairs of one and one, by 1.5 standard deviations of what
    /// chance makes of them (Mann and Whitney).
    pub(super) fn no_chance(&self) -> NoChance {
        let of_each = self.coded.len().min(self.raw.len());
        let (raw, coded) = (&self.raw[..of_each], &self.coded[..of_each]);
        let longer = |those: &[Duration], others: &[Duration]| -> usize {
            those.iter().map(|one| others.iter().filter(|other| one > other).count()).sum()
        };
        let pairs = (of_each * of_each) as f64;
        let enough = pairs / 2.0 + 1.5 * (pairs * (2 * of_each + 1) as f64 / 12.0).sqrt();
        NoChance { slower: longer(coded, raw) as f64 >= enough, pays: longer(raw, coded) as f64 >= enough }
    }

    /// What follows from what the slowest ranks have seen, where that is `no_chance`. What is clear from two of each is none.
    pub(super) fn judge(
        &mut self,
        Report { raw_ns, coded_ns, of_each }: Report,
        no_chance: NoChance,
    ) -> Verdict {
        let (raw, coded) = (raw_ns as f64, coded_ns as f64);
        let count = if of_each >= 2 && raw_ns > TWO_ARE_ENOUGH_NS { of_each.max(FOUR) } else { of_each };
        let factor = ENOUGH.iter().rev().find(|(enough, _)| count >= *enough).map(|(_, factor)| *factor);
        let [.., (all, _)] = ENOUGH;
        let pays = factor.is_some_and(|factor| coded * factor < raw);
        let is_slower = factor.is_some_and(|factor| coded > raw * factor) && of_each >= FOUR;
        let may_be_chance = pays && of_each >= FOUR && !no_chance.pays || is_slower && !no_chance.slower;
        let (is_over, is_felt) = (of_each >= all || self.stage + 1 >= SURE_STAGES, raw_ns > FELT_NS);
        if pays && !may_be_chance {
            Verdict::Pays
        } else if is_slower && !may_be_chance {
            Verdict::Slower
        } else if is_over && (!may_be_chance || is_felt) || self.stage + 1 == STAGES.len() {
            Verdict::Open
        } else {
            self.stage += 1;
            Verdict::GoesOn
        }
    }

    /// What the policy expected of them, as a part of their bytes.
    pub(super) fn fraction(&self) -> f64 {
        self.fractions.0 / f64::from(self.fractions.1.max(1))
    }
}

/// The mean of all but the slowest quarter.
fn usual(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.truncate(times.len() - times.len() / 4);
    times.iter().sum::<Duration>() / times.len().max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_in_nearly_all_pairs_does_so_for_more_than_chance() {
        let no_chance = |raw: &[u64], coded: &[u64]| {
            let times = |all: &[u64]| all.iter().map(|&ms| Duration::from_millis(ms)).collect();
            let one = Contest { raw: times(raw), coded: times(coded), ..Contest::default() }.no_chance();
            let other = Contest { raw: times(coded), coded: times(raw), ..Contest::default() }.no_chance();
            assert_eq!((one.slower, one.pays), (other.pays, other.slower));
            one
        };
        let is_slower = |raw, coded| {
            let NoChance { slower, pays } = no_chance(raw, coded);
            assert!(!(slower && pays));
            slower
        };
        // Of 16 pairs, 8 + 1.5 × √(16 × 9 / 12) = 13.2 are needed.
        assert!(is_slower(&[10, 20, 30, 40], &[50, 60, 70, 80]));
        assert!(is_slower(&[10, 20, 30, 40], &[35, 45, 50, 60]), "3 + 4 + 4 + 4");
        assert!(!is_slower(&[10, 20, 30, 40], &[25, 35, 50, 60]), "2 + 3 + 4 + 4");
        assert!(!is_slower(&[10, 20, 30, 40], &[10, 20, 30, 1000]), "one that is disturbed");
        assert!(!is_slower(&[10, 10, 10, 10], &[10, 10, 10, 10]));
        assert!(!is_slower(&[50, 60, 70, 80], &[10, 20, 30, 40]));
        assert!(no_chance(&[50, 60, 70, 80], &[10, 20, 30, 40]).pays);
        // As many of each: the fifth is left out.
        assert!(is_slower(&[10, 20, 30, 40], &[50, 60, 70, 80, 0]));
    }

    #[test]
    fn what_may_be_chance_takes_more_of_each_to_tell() {
        let chance = NoChance { slower: false, pays: false };
        let verdicts = |raw_ns, coded_ns, no_chance| {
            let mut contest = Contest::default();
            [4, 8, 8, 16, 32].map(|of_each| contest.judge(Report { raw_ns, coded_ns, of_each }, no_chance))
        };
        let goes_on = Verdict::GoesOn;
        assert_eq!(verdicts(100, 120, chance), [goes_on, goes_on, goes_on, goes_on, Verdict::Open]);
        assert_eq!(verdicts(120, 100, chance), [goes_on, goes_on, goes_on, goes_on, Verdict::Open]);
        let sure = NoChance::NOTHING_IS;
        assert_eq!(verdicts(100, 120, sure)[0], Verdict::Slower);
        assert_eq!(verdicts(120, 100, sure)[0], Verdict::Pays);
        assert_eq!(verdicts(100, 103, chance)[..2], [goes_on, Verdict::Open], "no difference");
        // Of what takes more than 50 ms, no more than ever.
        let long = verdicts(60_000_000, 66_000_000, chance);
        assert_eq!(long[..2], [goes_on, Verdict::Open]);
        // Only the other way is sure.
        assert_eq!(verdicts(100, 120, NoChance { slower: false, pays: true })[0], goes_on);
        assert_eq!(verdicts(120, 100, NoChance { slower: true, pays: false })[0], goes_on);
    }

    #[test]
    fn of_long_ones_fewer_are_enough_where_compression_pays() {
        let verdict = |raw_ns, coded_ns, of_each| {
            Contest::default().judge(Report { raw_ns, coded_ns, of_each }, NoChance::NOTHING_IS)
        };
        for (raw_ms, expected) in [(12, Verdict::Pays), (10, Verdict::GoesOn)] {
            let raw_ns = raw_ms * 1_000_000;
            assert_eq!(verdict(raw_ns, raw_ns * 10 / 12, 2), expected, "{raw_ms} ms");
            assert_eq!(verdict(raw_ns, raw_ns * 10 / 11, 2), Verdict::GoesOn);
            assert_eq!(verdict(raw_ns, raw_ns * 10 / 12, 1), Verdict::GoesOn);
            // That it does not, takes as many as ever.
            assert_eq!(verdict(raw_ns, raw_ns * 12 / 10, 3), Verdict::GoesOn);
            assert_eq!(verdict(raw_ns, raw_ns * 12 / 10, 4), Verdict::Slower);
        }
    }
}
