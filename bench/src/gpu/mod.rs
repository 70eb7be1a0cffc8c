//! `mgcomp-bench gpu`: whether the kernels are right on a device, and then how fast they are.

mod check;
mod data;
mod nvcomp;
#[cfg(target_os = "linux")]
mod processes;
mod report;
mod time;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Device, algorithms};

use crate::codec::{ArgError, Args as CodecArgs, Data, parse_bytes};
use crate::data::SAMPLES;
use crate::error::BenchError;
use check::Effort;
use nvcomp::{Library, NvcompError};
#[cfg(target_os = "linux")]
pub(crate) use processes::{Args as SecondArgs, SharedError, run_second};
use report::Report;
use time::Plan;
pub(crate) use time::TimeError;

/// Checks the kernels on a CUDA device against the CPU's codecs, then times them beside a copy in device memory.
///
/// Checked are buffers of random lengths, contents and addresses in batches, both ways; one large buffer; graphs
/// that are recorded and replayed; damaged frames, with guard bytes around every buffer; entries in buddy memory and
/// gathers of rows of packed tables, good ones and damaged ones; copies to a context of the same device and to the next
/// device, compressed on their way, also recorded once and repeated with other data; and memory that another process maps, with the
/// speed at which it copies from there beside that within its own. Nothing is timed unless all of that holds. Times are
/// those of CUDA events; medians; inputs take turns over more than the second-level
/// cache. Up to 4 MiB a time is what one more node costs in a graph of 100. A fraction is the bytes that an
/// operation must read and write, by its time, over the same of the copy in the same run.
/// Where there is no device, the exit code is 1.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only check
    #[arg(long, conflicts_with_all = ["bytes", "links_from", "data", "gather_rows", "buddy_entries", "samples", "seconds", "nvcomp"])]
    checks: bool,
    /// Number of the device
    #[arg(long, default_value_t = 0)]
    device: u32,
    /// Only these algorithms [default: all that have kernels]
    #[arg(long, num_args = 1.., value_parser = algorithm_parser())]
    algorithm: Vec<Algorithm>,
    /// Buffers in each check of each algorithm
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cases: u32,
    /// Size of the one large buffer that is checked
    #[arg(long, default_value = "96M", value_parser = parse_bytes)]
    large: usize,
    /// How often a copy to another device is repeated that was recorded in a graph, with other data each time
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    replays: u32,
    /// Bytes of the device's memory that another process maps, copies and writes to, in `--rounds` rounds; 0: none
    #[arg(long, default_value = "64M", value_parser = parse_bytes_or_none)]
    shared: usize,
    /// Where random cases start
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sizes of buffers to time [default: 64K to 1G]
    #[arg(long, num_args = 1.., value_parser = parse_bytes)]
    bytes: Vec<usize>,
    /// The least size for which the ways to the host and back and to other devices are timed
    #[arg(long, default_value = "256K", value_parser = parse_bytes)]
    links_from: usize,
    /// Data to time, as for `codec` [default: the samples in the repository, and data by chance]
    #[arg(long, num_args = 1..)]
    data: Vec<Data>,
    /// Rows of 1 KiB in each gather from the host that is timed; 0 for none
    #[arg(long, default_value_t = 1 << 16, value_parser = clap::value_parser!(u32).range(..=1 << 22))]
    gather_rows: u32,
    /// Lines of 128 bytes of the allocations in buddy memory that are timed; 0 for none
    #[arg(long, default_value_t = 1 << 19, value_parser = clap::value_parser!(u32).range(..=1 << 23))]
    buddy_entries: u32,
    /// Folder of the samples
    #[arg(long, default_value = SAMPLES, hide_default_value = true)]
    samples: PathBuf,
    /// Rounds of which the median counts
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Time no more buffers when this many seconds have passed [default: all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// libnvcomp.so of nvCOMP 6, to time it as well [default: where the system finds it]
    #[arg(long, value_name = "FILE")]
    nvcomp: Option<PathBuf>,
    /// Write DATE_DEVICE.json, .md and .svg into this folder; DATE_DEVICE_2 and so on if they are there
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Args {
    fn nvcomp(&self) -> Result<Library, NvcompError> {
        // It takes the first device.
        if self.device == 0 { Library::find(self.nvcomp.as_deref()) } else { Err(NvcompError::OtherDevice) }
    }
}

/// As [`parse_bytes`], or 0.
fn parse_bytes_or_none(text: &str) -> Result<usize, ArgError> {
    if text == "0" { Ok(0) } else { parse_bytes(text) }
}

fn algorithm_parser() -> impl TypedValueParser<Value = Algorithm> {
    let names = algorithms().map(Algorithm::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    let device = Device::open(args.device)?;
    let mut report = Report::new(device.info(), args.json)?;
    let algorithms = chosen(&args.algorithm);
    let effort = Effort {
        cases: args.cases as usize,
        large_bytes: args.large,
        replays: args.replays as usize,
        seed: args.seed,
    };
    // They are no algorithm's: who names some does not ask for them.
    let reduces = args.algorithm.is_empty();
    let mut result = check::run(&device, &algorithms, reduces, effort, &mut report);
    #[cfg(target_os = "linux")]
    if result.is_ok() && args.shared > 0 {
        result = processes::run(&device, args.shared, args.rounds.into(), &mut report);
    }
    if result.is_ok() && !args.checks {
        let plan = Plan {
            algorithms: &algorithms,
            bytes: &args.bytes,
            data: &args.data,
            samples: &args.samples,
            rounds: args.rounds.into(),
            until: args
                .seconds
                .and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds.into()))),
            nvcomp: args.nvcomp(),
            links_from: Some(args.links_from),
            gather_rows: args.gather_rows as usize,
            buddy_entries: args.buddy_entries as usize,
            reduces,
        };
        result = time::run(&device, &plan, &mut report);
    }
    // Also after a failure: what was found is worth keeping.
    let written = args.results.as_ref().map_or(Ok(()), |folder| report.write(folder));
    result.and(written)
}

/// The table of `mgcomp-bench codec` for a device: times only, no links, no other libraries.
pub(crate) fn run_codec(args: &CodecArgs, ordinal: u32) -> Result<(), BenchError> {
    let device = Device::open(ordinal)?;
    let mut report = Report::new(device.info(), args.json())?;
    let algorithms = chosen(&args.algorithms());
    let plan = Plan {
        algorithms: &algorithms,
        bytes: args.bytes(),
        data: args.data(),
        samples: Path::new(SAMPLES),
        rounds: 11,
        until: None,
        nvcomp: Err(NvcompError::NotAsked),
        links_from: None,
        gather_rows: 0,
        buddy_entries: 0,
        reduces: false,
    };
    time::run(&device, &plan, &mut report)
}

/// Those of `named` that have kernels, or all, each once.
fn chosen(named: &[Algorithm]) -> Vec<Algorithm> {
    algorithms().filter(|algorithm| named.is_empty() || named.contains(algorithm)).collect()
}
