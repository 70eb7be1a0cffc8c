//! `mgcomp-bench paper`: the tables and figures of IPDPS 2019 from a model of its system.

mod character;
mod fabric;
mod generate;
mod patterns;
mod published;
mod report;
mod runs;
mod trace;
mod transfer;
mod workload;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;

use clap::builder::RangedU64ValueParser;
use mgcomp_selector::{Lambda, PaperConfig};

use crate::error::BenchError;
use fabric::System;
use generate::{Bench, Share};
use report::Report;
pub(crate) use report::quoted;
use runs::{Job, Plan};
pub(crate) use trace::TraceError;

/// Requests that a GPU may have unanswered: those of the figures, and those that are swept beside them.
const OUTSTANDING: [u32; 5] = [64, 16, 32, 128, 256];
/// The λ of Figure 6 and between.
const LAMBDAS: [f64; 9] = [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0];

/// Tables V and VI and Figures 1, 5, 6 and 7 of IPDPS 2019, from a model of its system.
///
/// Four GPUs and a CPU share a bus of 20 bytes per cycle at 1 GHz. Payloads come from trace files, or are made up like
/// those of the paper's seven benchmarks, at its sizes. Codecs cost what the paper's hardware takes (Table
/// III); policies are those of mgcomp. Traces are read to their end before anything is printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace files, plain or xz, or folders with such (.bin, .xz) [default: none]
    #[arg(long, num_args = 1.., value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Benchmarks to generate: AES BS FIR GD KM MT SC [default: all, or none beside traces]
    #[arg(long, num_args = 1.., value_name = "NAME")]
    bench: Vec<Bench>,
    /// How much of the paper's sizes to generate, up to 1 [default: 1]
    #[arg(long, value_name = "SHARE")]
    scale: Option<Share>,
    /// Weights of latency against size [default: 0 1 2 4 6 8 16 32 64]
    #[arg(long, num_args = 1.., allow_negative_numbers = true, value_name = "GBPS")]
    lambda: Vec<Lambda>,
    /// Requests of a GPU that may be unanswered; figures are those of the first number [default: 64 under all schemes, and
    /// 16 32 128 256 without compression, with each codec and with λ = 6, or the least λ given]
    #[arg(long, num_args = 1.., value_parser = RangedU64ValueParser::<u32>::new().range(1..=65_536))]
    outstanding: Vec<u32>,
    /// Cycles from the arrival of a request to its answer, which the paper does not give
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    memory_cycles: u64,
    /// Transfers of a sampling phase
    #[arg(long, default_value_t = 7)]
    sampling: u32,
    /// Transfers of a running phase
    #[arg(long, default_value_t = 300)]
    running: u32,
    /// Samples that a codec must win
    #[arg(long, default_value_t = 3)]
    votes: u32,
    /// Count 32 bits, not 35, for a word that FPC does not match, as the paper seems to: no decoder could tell
    #[arg(long)]
    count_as_paper: bool,
    /// Also write CSV files into this folder
    #[arg(long, value_name = "FOLDER")]
    csv: Option<PathBuf>,
    /// Also draw the figures into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER")]
    plot: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    if args.scale.is_some() && args.benches().is_empty() {
        return Err(BenchError::NoUse {
            flag: "scale",
            with: "--trace and no --bench: nothing is generated",
        });
    }
    let plan = args.plan()?;
    let jobs = args.jobs()?;
    for folder in [&args.csv, &args.plot].into_iter().flatten() {
        make_folder(folder)?;
    }
    let report = Report::new(plan.clone(), runs::run(jobs, &plan));
    report.print(args.json)?;
    if let Some(folder) = &args.csv {
        report.write_csv(folder)?;
    }
    match &args.plot {
        Some(folder) => report.draw(folder),
        None => Ok(()),
    }
}

impl Args {
    fn plan(&self) -> Result<Plan, BenchError> {
        let Self { sampling, running, votes, .. } = *self;
        let phases = PaperConfig { sampling, running, votes, ..PaperConfig::default() };
        phases.check()?;
        let mut lambdas = self.lambda.clone();
        if lambdas.is_empty() {
            let known = |gbps| Lambda::try_new(gbps).expect("the λ of the paper are good");
            lambdas = LAMBDAS.map(known).to_vec();
        }
        lambdas.sort();
        lambdas.dedup();
        let (share, as_paper) = (self.scale.unwrap_or(Share::WHOLE), self.count_as_paper);
        Ok(Plan {
            phases,
            lambdas,
            systems: self.systems(),
            sweeps_all: !self.outstanding.is_empty(),
            share,
            as_paper,
        })
    }

    /// As given, each once, or the paper's and those around it.
    fn systems(&self) -> Vec<System> {
        let wanted = if self.outstanding.is_empty() { &OUTSTANDING[..] } else { &self.outstanding };
        let mut systems: Vec<System> = Vec::new();
        for &outstanding in wanted {
            let system = System { outstanding, memory_cycles: self.memory_cycles };
            if !systems.contains(&system) {
                systems.push(system);
            }
        }
        systems
    }

    /// The benchmarks to generate.
    fn benches(&self) -> &[Bench] {
        if self.bench.is_empty() && self.trace.is_empty() { &Bench::ALL } else { &self.bench }
    }

    fn jobs(&self) -> Result<Vec<Job>, BenchError> {
        let mut jobs: Vec<Job> = self.benches().iter().map(|&bench| Job::Bench(bench)).collect();
        let traces = trace::read_all(&trace::files(&self.trace)?, self.count_as_paper)?;
        jobs.extend(traces.into_iter().map(|trace| Job::Trace(Box::new(trace))));
        Ok(jobs)
    }
}

/// Fails now, not after all is computed, if no file can be written into `folder`.
pub(crate) fn make_folder(folder: &Path) -> Result<(), BenchError> {
    let failed = |source| BenchError::Write { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    // No permission and no mode of a file system is to be believed: what counts is whether a file can be made.
    let probe = folder.join(format!(".mgcomp-bench-{}", process::id()));
    File::create_new(&probe).map_err(failed)?;
    fs::remove_file(&probe).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn args(flags: [&OsStr; 6]) -> Args {
        let command = Args::augment_args(clap::Command::new("paper").no_binary_name(true));
        Args::from_arg_matches(&command.try_get_matches_from(flags).unwrap()).unwrap()
    }

    #[test]
    fn a_trace_that_is_refused_leaves_no_folder() {
        let outside = tempfile::tempdir().unwrap();
        let [trace, csv, plot] = ["empty.bin", "csv", "plot"].map(|name| outside.path().join(name));
        fs::write(&trace, b"").unwrap();
        let flags = ["--trace".as_ref(), trace.as_ref(), "--csv".as_ref(), csv.as_ref()];
        let [a, b, c, d] = flags;
        let error = run(&args([a, b, c, d, "--plot".as_ref(), plot.as_ref()])).unwrap_err();
        assert!(matches!(error, BenchError::Trace { source: TraceError::Empty, .. }), "{error}");
        assert!(!csv.exists() && !plot.exists());
    }

    #[test]
    fn folders_are_made_and_left_empty() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("a/b");
        for _ in 0..2 {
            make_folder(&folder).unwrap();
        }
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn folders_that_are_there_but_take_no_file_are_refused() {
        // Not even root can make a file there.
        let error = make_folder(Path::new("/proc")).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /proc");
    }
}
