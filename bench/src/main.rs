//! `mgcomp-bench`: measures what mgcomp does, and checks each answer before printing a figure.
//!
//! One folder per bench, each with `Args` (what clap fills in) and `run`. A new bench is such a folder, a
//! variant of [`Bench`] and its line in [`main`].

mod baseline;
mod breakeven;
mod buddy;
mod codec;
mod control;
mod daemon;
mod data;
mod error;
mod gather;
mod gpu;
mod link;
mod machine;
mod offload;
mod paper;
mod ratio;
mod scale;
mod select;
mod timing;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mgcomp_codecs::Cpu;

use error::BenchError;

/// Measure mgcomp; every answer is checked before a figure is printed.
#[derive(Parser)]
#[command(name = "mgcomp-bench", version)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    Buddy(buddy::Args),
    Ratio(ratio::Args),
    Breakeven(breakeven::Args),
    Codec(codec::Args),
    Control(control::Args),
    Daemon(daemon::Args),
    Gather(gather::Args),
    Gpu(gpu::Args),
    #[cfg(target_os = "linux")]
    GpuSecond(gpu::SecondArgs),
    Link(link::Args),
    Offload(offload::Args),
    Paper(paper::Args),
    Scale(scale::Args),
    Select(select::Args),
}

fn main() -> ExitCode {
    error::exit_code(run(&Cli::parse()))
}

fn run(cli: &Cli) -> Result<(), BenchError> {
    // The codecs would run portable where the variable is wrong: no way to measure.
    Cpu::from_env()?;
    match &cli.bench {
        Bench::Buddy(args) => buddy::run(args),
        Bench::Ratio(args) => ratio::run(args),
        Bench::Breakeven(args) => breakeven::run(args),
        Bench::Codec(args) => codec::run(args),
        Bench::Control(args) => control::run(args),
        Bench::Daemon(args) => daemon::run(args),
        Bench::Gather(args) => gather::run(args),
        Bench::Gpu(args) => gpu::run(args),
        #[cfg(target_os = "linux")]
        Bench::GpuSecond(args) => gpu::run_second(args),
        Bench::Link(args) => link::run(args),
        Bench::Offload(args) => offload::run(args),
        Bench::Paper(args) => paper::run(args),
        Bench::Scale(args) => scale::run(args),
        Bench::Select(args) => select::run(args),
    }
}
