//! One comparison: those of one kind, some of them raw.

use std::time::Duration;

use super::report::{Report, nanos};

/// How many have ended when ranks tell each other what they took; the last time, it is over.
const STAGES: [u64; 4] = [4, 8, 16, 32];
/// So many of each way are enough to say what is slower, where the one takes so many times as long as the other.
const ENOUGH: [(u64, f64); 3] = [(2, 1.5), (FOUR, 1.15), (8, 1.05)];
/// Of fewer, each may be disturbed.
const FOUR: u64 = 4;

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

    /// What follows from what the slowest ranks have seen.
    pub(super) fn judge(&mut self, Report { raw_ns, coded_ns, of_each }: Report) -> Verdict {
        let (raw, coded) = (raw_ns as f64, coded_ns as f64);
        let factor = ENOUGH.iter().rev().find(|(enough, _)| of_each >= *enough).map(|(_, factor)| *factor);
        let [.., (all, _)] = ENOUGH;
        match factor {
            Some(factor) if coded * factor < raw => Verdict::Pays,
            Some(factor) if coded > raw * factor && of_each >= FOUR => Verdict::Slower,
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
