//! Transfers made up like those of the paper's seven benchmarks.
//!
//! One file per benchmark. Each tells which payloads the published rows of Tables V and VI, and the number of
//! reads and writes, point to. Pages of 4 KB go round robin over the four GPUs, workgroup *i* runs on GPU
//! *i* mod 4, and what a GPU touches in its own memory crosses no link. Whatever is left to chance comes from
//! fixed seeds, so all runs on all machines are the same.

mod aes;
mod bs;
mod fabric;
mod fir;
mod gd;
mod km;
mod launch;
mod mt;
mod sc;

use std::fmt;
use std::str::FromStr;

use super::transfer::Transfer;
use fabric::Remote;

/// A benchmark of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bench {
    Aes,
    Bs,
    Fir,
    Gd,
    Km,
    Mt,
    Sc,
}

impl Bench {
    pub(super) const ALL: [Self; 7] =
        [Self::Aes, Self::Bs, Self::Fir, Self::Gd, Self::Km, Self::Mt, Self::Sc];

    /// The paper's abbreviation.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Aes => "AES",
            Self::Bs => "BS",
            Self::Fir => "FIR",
            Self::Gd => "GD",
            Self::Km => "KM",
            Self::Mt => "MT",
            Self::Sc => "SC",
        }
    }

    /// The benchmark that a trace called `name` ran, by the front of its name: `fir_256k.bin.xz`.
    pub(super) fn of_trace(name: &str) -> Option<Self> {
        let front = name.split(['_', '.', '-']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|bench| bench.name().eq_ignore_ascii_case(front))
    }

    /// Hands this share of the benchmark's transfers to `sink`, evenly taken from the whole run.
    pub(super) fn generate(self, share: Share, sink: &mut dyn FnMut(Transfer<'_>)) {
        let mut remote = Remote::new(share, sink);
        match self {
            Self::Aes => aes::generate(&mut remote),
            Self::Bs => bs::generate(&mut remote),
            Self::Fir => fir::generate(&mut remote),
            Self::Gd => gd::generate(&mut remote),
            Self::Km => km::generate(&mut remote),
            Self::Mt => mt::generate(&mut remote),
            Self::Sc => sc::generate(&mut remote),
        }
    }
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Bench {
    type Err = UnknownBench;

    fn from_str(name: &str) -> Result<Self, UnknownBench> {
        let same = |bench: &Self| bench.name().eq_ignore_ascii_case(name);
        Self::ALL.into_iter().find(same).ok_or_else(|| UnknownBench(name.to_owned()))
    }
}

/// A name that no benchmark has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown benchmark {0:?}; known: AES BS FIR GD KM MT SC")]
pub(crate) struct UnknownBench(String);

/// How much of a run is generated: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(f64);

impl Share {
    #[cfg(test)]
    pub(super) const WHOLE: Self = Self(1.0);
    /// Smaller shares are runs of hardly any transfer.
    const MIN: f64 = 1e-4;

    /// Of `count` things, how many.
    fn of(self, count: u64) -> u64 {
        (count as f64 * self.0).round() as u64
    }

    pub(super) const fn fraction(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        match text.parse::<f64>() {
            Ok(share) if (Self::MIN..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err(ShareError(text.to_owned())),
        }
    }
}

/// Text that is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no share of the paper's sizes from {min} to 1", min = Share::MIN)]
pub(crate) struct ShareError(String);

#[cfg(test)]
mod tests {
    use super::super::published::{TABLE_V, assert_like_table_v};
    use super::super::workload::Workload;
    use super::*;

    fn workload(bench: Bench, share: Share) -> Workload {
        let mut workload = Workload::new(bench.to_string(), Some(bench), false, false);
        bench.generate(share, &mut |transfer| workload.push(transfer));
        workload.finish()
    }

    #[test]
    fn a_hundredth_is_like_table_v() {
        for bench in Bench::ALL {
            let workload = workload(bench, Share(0.01));
            assert_like_table_v(bench, workload.ratios(), &workload.character);
            let row = TABLE_V[bench as usize];
            let (reads, writes) = (workload.character.reads as f64, workload.character.writes as f64);
            assert!((reads / (row.reads as f64 / 100.0) - 1.0).abs() < 0.03, "{bench}: {reads} reads");
            assert!((writes / (row.writes as f64 / 100.0) - 1.0).abs() < 0.03, "{bench}: {writes} writes");
        }
    }

    #[test]
    fn whole_runs_have_the_papers_counts() {
        // The smallest of all; the others are run by an ignored test of all results.
        let workload = workload(Bench::Gd, Share::WHOLE);
        assert_like_table_v(Bench::Gd, workload.ratios(), &workload.character);
        let row = TABLE_V[Bench::Gd as usize];
        assert_eq!(workload.character.reads, row.reads);
        // 2²² parameters have three quarters of 262,144 lines in other GPUs; the paper counts 198k.
        assert_eq!(workload.character.writes, 196_608);
    }

    #[test]
    fn runs_are_the_same_every_time_and_stay_between_gpus() {
        for bench in Bench::ALL {
            let [first, second] = [0, 1].map(|_| workload(bench, Share(0.001)));
            assert_eq!(first.transfers, second.transfers, "{bench}");
            assert_eq!(first.character, second.character, "{bench}");
            assert!(first.transfers.iter().all(|t| t.from != t.to && t.from < 4 && t.to < 4), "{bench}");
        }
    }

    #[test]
    fn names_and_shares_are_checked() {
        assert_eq!("fir".parse(), Ok(Bench::Fir));
        assert_eq!("FIRE".parse::<Bench>(), Err(UnknownBench("FIRE".into())));
        assert_eq!(Bench::of_trace("mt_1024.bin.xz"), Some(Bench::Mt));
        assert_eq!(Bench::of_trace("relu_256k.bin"), None);
        for text in ["0", "-1", "1.1", "nan", "", "x", "1e-9"] {
            assert_eq!(text.parse::<Share>(), Err(ShareError(text.into())));
        }
        assert_eq!("0.5".parse::<Share>(), Ok(Share(0.5)));
    }
}
