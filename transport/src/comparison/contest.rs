//! One comparison: those of one kind, some of them raw.

use std::time::Duration;

use super::report::{Report, nanos};

/// How many have ended when ranks tell each other what they took; the last time, it is over.
const STAGES: [u64; 4] = [4, 8, 16, 32];
/// So many of each way are enough to say what is slower, where the one takes so many times as long as the other.
const ENOUGH: [(u64, f64); 3] = [(2, 1.5), (FOUR, 1.15), (8, 1.05)];
/// Of fewer, each may be disturbed.
const FOUR: u64 = 4;
/// Of what takes so long raw, that is a small part, and each raw one is felt: two are enough to say that compression pays, as four are
/// of others.
const LONG_NS: u64 = 50_000_000;

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

    /// Whether those of this rank that are not raw took longer for more than chance: of all pairs of one and one, by 1.5 standard deviations of
    /// what chance makes of them (Mann and Whitney).
    pub(super) fn is_no_chance(&self) -> bool {
        let of_each = self.coded.len().min(self.raw.len());
        let (raw, coded) = (&self.raw[..of_each], &self.coded[..of_each]);
        let longer: usize = coded.iter().map(|coded| raw.iter().filter(|raw| coded > raw).count()).sum();
        let pairs = (of_each * of_each) as f64;
        longer as f64 >= pairs / 2.0 + 1.5 * (pairs * (2 * of_each + 1) as f64 / 12.0).sqrt()
    }

    /// What follows from what the slowest ranks have seen. What is slower is found so only if it `is_no_chance`.
    pub(super) fn judge(
        &mut self,
        Report { raw_ns, coded_ns, of_each }: Report,
        is_no_chance: bool,
    ) -> Verdict {
        let (raw, coded) = (raw_ns as f64, coded_ns as f64);
        let count = if of_each >= 2 && raw_ns > LONG_NS { of_each.max(FOUR) } else { of_each };
        let factor = ENOUGH.iter().rev().find(|(enough, _)| count >= *enough).map(|(_, factor)| *factor);
        let [.., (all, _)] = ENOUGH;
        match factor {
            Some(factor) if coded * factor < raw => Verdict::Pays,
            Some(factor) if coded > raw * factor && of_each >= FOUR && is_no_chance => Verdict::Slower,
            _ if self.stage + 1 == STAGES.len() || of_each >= all => Verdict::Open,
            _ => {
                self.stage += 1;
                Verdict::GoesOn
            }
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
        let is_no_chance = |raw: &[u64], coded: &[u64]| {
            let times = |all: &[u64]| all.iter().map(|&ms| Duration::from_millis(ms)).collect();
            Contest { raw: times(raw), coded: times(coded), ..Contest::default() }.is_no_chance()
        };
        // Of 16 pairs, 8 + 1.5 × √(16 × 9 / 12) = 13.2 are needed.
        assert!(is_no_chance(&[10, 20, 30, 40], &[50, 60, 70, 80]));
        assert!(is_no_chance(&[10, 20, 30, 40], &[35, 45, 50, 60]), "3 + 4 + 4 + 4");
        assert!(!is_no_chance(&[10, 20, 30, 40], &[25, 35, 50, 60]), "2 + 3 + 4 + 4");
        assert!(!is_no_chance(&[10, 20, 30, 40], &[10, 20, 30, 1000]), "one that is disturbed");
        assert!(!is_no_chance(&[10, 10, 10, 10], &[10, 10, 10, 10]));
        assert!(!is_no_chance(&[50, 60, 70, 80], &[10, 20, 30, 40]));
        // As many of each: the fifth is left out.
        assert!(is_no_chance(&[10, 20, 30, 40], &[50, 60, 70, 80, 0]));
    }

    #[test]
    fn of_long_ones_fewer_are_enough_where_compression_pays() {
        let verdict =
            |raw_ns, coded_ns, of_each| Contest::default().judge(Report { raw_ns, coded_ns, of_each }, true);
        for (raw_ms, expected) in [(60, Verdict::Pays), (50, Verdict::GoesOn)] {
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
