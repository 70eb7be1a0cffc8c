//! `mgcomp-bench`: measures what mgcomp does, and checks each answer before printing a figure.
//!
//! One folder per bench, each with `Args` (what clap fills in) and `run`. A new bench is such a folder, a
//! variant of [`Bench`] and its line in [`main`].

#![forbid(unsafe_code)]

mod error;
mod ratio;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measure mgcomp; every answer is checked before a figure is printed.
#[derive(Parser)]
#[command(name = "mgcomp-bench", version)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    Ratio(ratio::Args),
}

fn main() -> ExitCode {
    error::exit_code(match Cli::parse().bench {
        Bench::Ratio(args) => ratio::run(&args),
    })
}
