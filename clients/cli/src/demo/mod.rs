//! `mgcomp demo`: ranks exchange tensors over a slow link, raw and compressed, and compare every byte.

mod dataset;
mod error;
mod exchange;
mod measure;
mod processes;
pub(crate) mod rank;
mod report;
mod steered;
mod threads;

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;
use mgcomp_codecs::Element;
use mgcomp_selector::{Lambda, PolicySpec};
use mgcomp_transport::control;
use mgcomp_transport::link::Shaping;
use mgcomp_transport::link::tcp::Connections;
use serde::{Deserialize, Serialize};

pub(crate) use self::error::DemoError;
use self::measure::Ranks;
use self::processes::Processes;
use self::threads::Threads;
use crate::args;
use crate::device::Devices;
use crate::error::CliError;
use crate::progress::Progress;
use crate::room::Room;

/// Exchange tensors between ranks over a slow link, raw and compressed, and compare every byte.
///
/// Each rank reads the tensor of the next rank and writes its own into the memory of the one before. A set's
/// time is that of one such exchange, the median of several.
#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("processes").args(["tcp", "daemon"]).multiple(true)))]
pub(crate) struct Args {
    /// How many ranks take part, 2 to 64
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64), allow_negative_numbers = true)]
    ranks: u32,
    /// Rate at which each rank sends, 0.001 to 100000 Gb/s
    #[arg(long, value_name = "GBPS", default_value_t = 0.5, value_parser = args::link_gbps, allow_negative_numbers = true)]
    link_gbps: f64,
    /// What each message takes on top, in microseconds, 10 s at most
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 20, value_parser = args::latency_us, allow_negative_numbers = true)]
    latency_us: u64,
    /// How the codec is chosen: adaptive, paper, paper:<sampling>,<running>,<votes>, or fixed:<algorithm>
    #[arg(long, default_value_t)]
    policy: PolicySpec,
    /// What a nanosecond of codec latency weighs, in bits. Without it adaptive goes by time, and paper by 6
    #[arg(long, value_name = "GBPS", allow_negative_numbers = true)]
    lambda: Option<Lambda>,
    /// Files to exchange instead of the sample tensors; - is standard input
    #[arg(long, value_name = "FILE", num_args = 1..)]
    data: Vec<PathBuf>,
    /// What the bytes of the files are; without it their names tell (x.f32.bin), or they are u8
    #[arg(long, requires = "data", value_parser = args::element())]
    element: Option<Element>,
    /// Print the last decisions of rank 0 for each data set, 1024 at most: what, why, what was expected and what came of it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1024), allow_negative_numbers = true)]
    decisions: u32,
    /// Have buffers in the memory of CUDA devices: cuda (rank 0 has the first, and so on, and from the first again where there
    /// are fewer), or cuda:N (all have the one with this number)
    #[arg(long, value_name = "cuda[:N]")]
    device: Option<Devices>,
    /// Run the ranks as processes that talk over TCP
    #[arg(long)]
    tcp: bool,
    /// TCP connections of each two ranks, 1 to 16
    #[arg(long, value_name = "N", default_value_t, requires = "processes", allow_negative_numbers = true)]
    connections: Connections,
    /// Run them beside a daemon of the demo's own that changes λ, and show how what carries the bytes follows
    #[arg(long, conflicts_with_all = ["decisions", "lambda"])]
    daemon: bool,
    /// Print one JSON object for each data set: dataset, mode (the policy, or off where compression is switched off), raw_ms, compressed_ms, speedup, traffic (coded / raw bytes), equal, algorithms
    /// (transfers, raw_bytes and coded_bytes of each by name), and decisions if any are asked for; with --daemon for each moment:
    /// lambda_gbps (null where nothing is set), traffic, algorithms
    #[arg(long)]
    json: bool,
}

/// What every rank has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Setup {
    ranks: u32,
    link_gbps: f64,
    latency_us: u64,
    lambda_gbps: Option<f64>,
    decisions: u32,
    /// Which devices have the buffers, if any.
    device: Option<String>,
    /// TCP connections of each two ranks.
    connections: u32,
}

impl Setup {
    /// Where the buffers of a rank are.
    fn room(&self, rank: u32) -> Result<Room, DemoError> {
        let Some(device) = &self.device else { return Ok(Room::Host) };
        let devices: Devices = device.parse().map_err(|_| DemoError::Input(device.clone()))?;
        Ok(Room::on(devices.open(rank)?)?)
    }

    fn shaping(&self) -> Result<Shaping, DemoError> {
        Ok(Shaping::try_new(self.link_gbps, Duration::from_micros(self.latency_us))?)
    }
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    // What is counted is one job's from the first exchange to the last, whoever watches.
    let _seen = control::attach();
    let mut progress = Progress::start();
    let setup = Setup {
        ranks: args.ranks,
        link_gbps: args.link_gbps,
        latency_us: args.latency_us,
        lambda_gbps: args.lambda.map(Lambda::gbps),
        decisions: args.decisions,
        device: args.device.map(|devices| devices.to_string()),
        connections: args.connections.count() as u32,
    };
    let shaping = setup.shaping()?;
    // Better now than by a rank that cannot start.
    let device = args.device.map(Devices::name).transpose().map_err(DemoError::from)?;
    let datasets = dataset::load(args, &mut progress)?;
    if args.daemon {
        drop(progress);
        return steered::run(args, &setup, &datasets);
    }
    let mut ranks: Box<dyn Ranks> = if args.tcp {
        Box::new(Processes::start(&setup, &datasets, None)?)
    } else {
        Box::new(Threads::new(&setup, &datasets)?)
    };

    let mut table = report::Table::new(args, shaping, device.as_deref(), &datasets);
    let total_bytes = datasets.iter().map(|set| set.bytes.len() as u64).sum();
    progress.stage("exchanging".into(), total_bytes);
    let (mut rows, mut done_bytes) = (Vec::new(), 0);
    for (index, dataset) in datasets.iter().enumerate() {
        let row = measure::measure(ranks.as_mut(), index, dataset, args.policy, shaping)?;
        progress.pause(|| table.print(&row))?;
        rows.push(row);
        done_bytes += dataset.bytes.len() as u64;
        progress.set(done_bytes);
    }
    drop(progress);
    table.finish(&rows)?;
    match rows.iter().find(|row| !row.equal) {
        Some(row) => Err(DemoError::NotEqual { dataset: row.dataset.clone() }.into()),
        None => Ok(()),
    }
}
