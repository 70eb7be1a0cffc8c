//! `mgcomp`, the command line.
//!
//! One module per subcommand, each with `Args` (what clap fills in) and `run`. A new subcommand is such a
//! module, a variant of [`Command`] and its line in [`main`].

#![forbid(unsafe_code)]

mod args;
mod calibrate;
mod client;
mod compress;
mod decompress;
mod demo;
mod device;
mod draft;
mod error;
mod histogram;
mod input;
mod inspect;
mod jobs;
mod output;
mod perf;
mod profile;
mod progress;
mod ranks;
mod room;
mod samples;
mod setting;
mod shell;
mod show;
mod size;
mod status;
mod steer;
mod top;
mod watch;

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
    Profile(profile::Args),
    Status(status::Args),
    Jobs(jobs::Args),
    Top(top::Args),
    Watch(watch::Args),
    Lambda(steer::LambdaArgs),
    Policy(steer::PolicyArgs),
    SizeGate(steer::SizeGateArgs),
    ReadCap(steer::ReadCapArgs),
    /// Let running programs compress again
    ///
    /// What off has set is taken away, so that what a wider scope says counts again, also later. Only where that is off, this
    /// scope is set to be on all the same.
    On(steer::SwitchArgs),
    /// Stop running programs from compressing
    Off(steer::SwitchArgs),
    Histogram(histogram::Args),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    mgcomp_transport::attach::log();
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
        Command::Profile(args) => profile::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Jobs(args) => jobs::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Lambda(args) => steer::run_lambda(&args),
        Command::Policy(args) => steer::run_policy(&args),
        Command::SizeGate(args) => steer::run_size_gate(&args),
        Command::ReadCap(args) => steer::run_read_cap(&args),
        Command::On(args) => steer::run_switch(&args, true),
        Command::Off(args) => steer::run_switch(&args, false),
        Command::Histogram(args) => histogram::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    })
}
