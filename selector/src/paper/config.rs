//! The lengths and the weight that steer the scheme.

use crate::Lambda;

/// Settings of [`Paper`](super::Paper). The default is the paper's: 7 samples, 300 running, 3 votes, λ = 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperConfig {
    /// Transfers in a sampling phase.
    pub sampling: u32,
    /// Transfers in a running phase.
    pub running: u32,
    /// Samples that an algorithm must win to be taken.
    pub votes: u32,
    /// The weight of latency against size.
    pub lambda: Lambda,
}

impl Default for PaperConfig {
    fn default() -> Self {
        Self { sampling: 7, running: 300, votes: 3, lambda: Lambda::PAPER }
    }
}

impl PaperConfig {
    /// How flags and files spell the policy with these lengths.
    pub(crate) fn name(&self) -> String {
        let Self { sampling, running, votes, lambda } = *self;
        if *self == (Self { lambda, ..Self::default() }) {
            return "paper".to_owned();
        }
        format!("paper:{sampling},{running},{votes}")
    }

    /// Tells whether the lengths fit each other.
    ///
    /// # Errors
    /// [`PaperConfigError`] that names the first that does not.
    pub fn check(&self) -> Result<(), PaperConfigError> {
        let Self { sampling, running, votes, .. } = *self;
        if sampling == 0 {
            return Err(PaperConfigError::NoSampling);
        }
        if running == 0 {
            return Err(PaperConfigError::NoRunning);
        }
        if votes == 0 {
            return Err(PaperConfigError::NoVotes);
        }
        if votes > sampling {
            return Err(PaperConfigError::TooManyVotes { votes, sampling });
        }
        Ok(())
    }
}

/// Why lengths do not make a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PaperConfigError {
    /// A sampling phase of no transfers.
    #[error("the sampling phase has 0 transfers, but needs at least 1")]
    NoSampling,
    /// A running phase of no transfers.
    #[error("the running phase has 0 transfers, but needs at least 1")]
    NoRunning,
    /// An algorithm would win without a vote.
    #[error("0 votes would win, but at least 1 must be needed")]
    NoVotes,
    /// No algorithm could win.
    #[error("{votes} votes are needed, but a sampling phase has only {sampling}")]
    TooManyVotes {
        /// Votes needed.
        votes: u32,
        /// Votes there are.
        sampling: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_checked() {
        let paper = PaperConfig::default();
        assert_eq!((paper.sampling, paper.running, paper.votes), (7, 300, 3));
        assert_eq!(paper.check(), Ok(()));
        assert_eq!(PaperConfig { votes: 7, ..paper }.check(), Ok(()));
        assert_eq!(PaperConfig { sampling: 0, ..paper }.check(), Err(PaperConfigError::NoSampling));
        assert_eq!(PaperConfig { running: 0, ..paper }.check(), Err(PaperConfigError::NoRunning));
        assert_eq!(PaperConfig { votes: 0, ..paper }.check(), Err(PaperConfigError::NoVotes));
        let error = PaperConfig { votes: 8, ..paper }.check().unwrap_err();
        assert_eq!(error, PaperConfigError::TooManyVotes { votes: 8, sampling: 7 });
        assert_eq!(error.to_string(), "8 votes are needed, but a sampling phase has only 7");
    }
}
