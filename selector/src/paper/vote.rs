//! The vote of a sampling phase.

use super::candidate::{Candidate, Tried};

/// What the samples of a phase have said so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    samples: u32,
    ballots: [Ballot; Candidate::ALL.len()],
}

#[derive(Clone, Copy, Debug, Default)]
struct Ballot {
    votes: u32,
    seen: Seen,
}

/// How well a candidate did over all samples, won or lost: what predicts the transfers that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Seen {
    bits: u64,
    lines: u64,
}

/// The algorithm of the next running phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Winner {
    pub(super) candidate: Candidate,
    pub(super) votes: u32,
    pub(super) seen: Seen,
}

impl Tally {
    /// Adds a sample of `lines` lines that `winner` won, and returns how many there are now.
    pub(super) fn add(&mut self, winner: Candidate, tried: &[Tried], lines: u64) -> u32 {
        for one in tried {
            let seen = &mut self.ballots[one.candidate as usize].seen;
            seen.bits = seen.bits.saturating_add(one.bits);
            seen.lines = seen.lines.saturating_add(lines);
        }
        self.ballots[winner as usize].votes += 1;
        self.samples += 1;
        self.samples
    }

    /// How many samples there are.
    pub(super) const fn samples(&self) -> u32 {
        self.samples
    }

    /// The candidate with the most votes if it has `needed`; of equals the one with the lower latency.
    pub(super) fn winner(&self, needed: u32) -> Option<Winner> {
        let mut best: Option<Winner> = None;
        for (candidate, ballot) in Candidate::ALL.into_iter().zip(self.ballots) {
            let ahead = best.is_none_or(|b| ballot.votes > b.votes);
            if ballot.votes >= needed && ahead {
                best = Some(Winner { candidate, votes: ballot.votes, seen: ballot.seen });
            }
        }
        best
    }
}

impl Seen {
    /// The size of `lines` lines that compress like those seen; `None` if none were.
    pub(super) fn predict_bits(self, lines: u64) -> Option<u64> {
        let bits = (u128::from(self.bits) * u128::from(lines)).checked_div(u128::from(self.lines))?;
        Some(u64::try_from(bits).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cycles;

    /// Who wins when none, BDI, FPC and C-Pack+Z have this many votes.
    fn winner(votes: [u32; 4], needed: u32) -> Option<(Candidate, u32)> {
        let mut tally = Tally::default();
        for (candidate, count) in Candidate::ALL.into_iter().zip(votes) {
            for _ in 0..count {
                tally.add(candidate, &[], 1);
            }
        }
        tally.winner(needed).map(|w| (w.candidate, w.votes))
    }

    #[test]
    fn most_votes_win() {
        assert_eq!(winner([0, 2, 2, 3], 3), Some((Candidate::CpackZ, 3)));
        assert_eq!(winner([3, 0, 4, 0], 3), Some((Candidate::Fpc, 4)));
        assert_eq!(winner([0, 7, 0, 0], 3), Some((Candidate::Bdi, 7)));
        assert_eq!(winner([7, 0, 0, 0], 3), Some((Candidate::None, 7)));
    }

    #[test]
    fn equal_votes_go_to_the_lower_latency() {
        assert_eq!(winner([0, 1, 3, 3], 3), Some((Candidate::Fpc, 3)));
        assert_eq!(winner([1, 3, 0, 3], 3), Some((Candidate::Bdi, 3)));
        assert_eq!(winner([3, 3, 1, 0], 3), Some((Candidate::None, 3)));
    }

    #[test]
    fn too_few_votes_win_nothing() {
        assert_eq!(winner([2, 2, 2, 1], 3), None);
        assert_eq!(winner([0, 0, 3, 3], 4), None);
        assert_eq!(winner([0, 0, 0, 0], 1), None);
    }

    #[test]
    fn prediction_is_the_mean_over_all_lines_seen() {
        let sample = |bits| [Tried { candidate: Candidate::Bdi, bits, cycles: Cycles::ZERO }];
        let mut tally = Tally::default();
        assert_eq!(tally.add(Candidate::Bdi, &sample(100), 1), 1);
        assert_eq!(tally.add(Candidate::None, &sample(1400), 4), 2);
        let winner = tally.winner(1).unwrap();
        assert_eq!((winner.candidate, winner.seen.predict_bits(10)), (Candidate::None, None));
        // 1500 bits over 5 lines, though one of the two samples was lost.
        assert_eq!(tally.ballots[1].seen.predict_bits(10), Some(3000));
    }

    #[test]
    fn prediction_of_absurd_sizes_does_not_overflow() {
        let huge = Seen { bits: u64::MAX, lines: 1 };
        assert_eq!(huge.predict_bits(1 << 58), Some(u64::MAX));
    }
}
