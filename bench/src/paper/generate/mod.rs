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

    /// The share of the benchmark that is generated where this one is asked for: less than a period of its places on the GPUs
    /// would have other traffic than the whole.
    pub(super) fn share(self, asked: Share) -> Share {
        let least = match self {
            Self::Aes => aes::LEAST_SHARE,
            Self::Bs => bs::LEAST_SHARE,
            Self::Fir => fir::LEAST_SHARE,
            Self::Gd => gd::LEAST_SHARE,
            Self::Km => km::LEAST_SHARE,
            Self::Mt => mt::LEAST_SHARE,
            Self::Sc => sc::LEAST_SHARE,
        };
        Share(asked.0.max(least))
    }

    /// Hands this [share](Self::share) of the benchmark's transfers to `sink`, evenly taken from the whole run.
    pub(super) fn generate(self, share: Share, sink: &mut dyn FnMut(Transfer<'_>)) {
        let mut remote = Remote::new(self.share(share), sink);
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
    use super::super::transfer::Kind;
    use super::super::workload::Workload;
    use super::*;

    fn workload(bench: Bench, share: Share) -> Workload {
        let mut workload = Workload::new(bench.to_string(), Some(bench), false, false);
        bench.generate(share, &mut |transfer| workload.push(transfer));
        workload.finish()
    }

    /// Shares whose numbers are a power of two apart fall on the same GPUs again and again, if nothing is done about that.
    #[test]
    fn any_share_is_like_table_v() {
        for bench in Bench::ALL {
            for asked in [1.0 / 8.0, 1.0 / 32.0, 1.0 / 64.0, 0.01, 0.004, 0.002, 0.001, 1e-4] {
                let share = bench.share(Share(asked)).fraction();
                // What is as dear as a quarter of all is tried once, on what is cheapest.
                if share > 0.1 && bench != Bench::Gd {
                    continue;
                }
                let workload = workload(bench, Share(asked));
                let row = TABLE_V[bench as usize];
                let (reads, writes) = (workload.character.reads as f64, workload.character.writes as f64);
                let near = |ours: f64, row: u64| {
                    (ours / (row as f64 * share) - 1.0).abs() < if asked < 0.01 { 0.05 } else { 0.03 }
                };
                assert!(near(reads, row.reads), "{bench} at {asked}: {reads} reads");
                assert!(near(writes, row.writes), "{bench} at {asked}: {writes} writes");
                // Each GPU asks for about as much as the others.
                let mut asks = [0.0; 4];
                for transfer in &workload.transfers {
                    let asker = if transfer.kind == Kind::Read { transfer.to } else { transfer.from };
                    asks[usize::from(asker)] += 4.0 / workload.transfers.len() as f64;
                }
                assert!(asks.iter().all(|part| (0.85..1.15).contains(part)), "{bench} at {asked}: {asks:?}");
                if asked >= 0.004 {
                    assert_like_table_v(bench, workload.ratios(), &workload.character);
                }
            }
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
