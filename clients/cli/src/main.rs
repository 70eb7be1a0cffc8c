//! `mgcomp`, the command line.
//!
//! One module per subcommand, each with `Args` (what clap fills in) and `run`. A new subcommand is such a
//! module, a variant of [`Command`] and its line in [`main`].

#![forbid(unsafe_code)]

mod args;
mod calibrate;
mod compress;
mod decompress;
mod demo;
mod error;
mod input;
mod inspect;
mod log;
mod output;
mod perf;
mod progress;
mod samples;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mgcomp_codecs::Cpu;

/// Lossless compression for the links between GPUs.
#[derive(Parser)]
#[command(name = "mgcomp", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    DemoRank(demo::rank::Args),
    Compress(compress::Args),
    Decompress(decompress::Args),
    Inspect(inspect::Args),
    Calibrate(calibrate::Args),
    Perf(Box<perf::Args>),
    PerfRank(Box<perf::child::Args>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start();
    if let Err(error) = Cpu::from_env() {
        error::note(&format!("mgcomp: {error}"));
        return ExitCode::from(2); // as for wrong usage
    }
    error::exit_code(match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::DemoRank(args) => demo::rank::run(&args),
        Command::Compress(args) => compress::run(&args),
        Command::Decompress(args) => decompress::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::PerfRank(args) => perf::child::run(&args),
    })
}
