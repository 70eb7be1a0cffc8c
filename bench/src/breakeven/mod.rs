//! `mgcomp-bench breakeven`: a model, not a measurement, of the message size from which compression on a GPU pays.

mod model;
mod picture;
mod rates;
mod report;

use std::path::PathBuf;

use crate::codec::parse_bytes;
use crate::error::BenchError;
use crate::paper::make_folder;
use crate::scale::{CodecRates, positive};
use model::Model;
use rates::parse_gpu;
use report::Report;

/// From which message size on, and on which links, compression on a GPU pays, by a model: nothing of this is measured.
///
/// A message of n bytes takes latency + n / link rate as it is. Compressed, it is encoded, carried and decoded, one after
/// the other or overlapped in the number of pieces that is best (up to 64), where every piece costs a launch on either
/// side. Codec rates are those of `--gpu`, or were measured by `mgcomp-bench gpu`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("source").required(true).multiple(true).args(["gpu", "results"])))]
pub(crate) struct Args {
    /// A GPU's name, GB/s of uncompressed data that its encoder takes in and its decoder puts out, and the ratio, as in
    /// H100:800:1200:1.48
    #[arg(long, num_args = 1.., value_name = "NAME:ENCODE:DECODE:RATIO", value_parser = parse_gpu)]
    gpu: Vec<CodecRates>,
    /// The same from JSON files of `mgcomp-bench gpu`: of the row of `--algorithm` with the largest buffers
    #[arg(long, num_args = 1.., value_name = "FILE")]
    results: Vec<PathBuf>,
    /// The algorithm whose rows of such files count
    #[arg(long, default_value = "xp", requires = "results")]
    algorithm: String,
    /// Time that a launch of an encoder or decoder takes beside its work, in µs
    #[arg(long, default_value_t = 5.0, value_parser = positive, allow_negative_numbers = true)]
    launch_us: f64,
    /// Latency of a link in µs
    #[arg(long, default_value_t = 2.0, value_parser = positive, allow_negative_numbers = true)]
    latency_us: f64,
    /// What a link reaches of its nominal rate
    #[arg(long, default_value_t = 0.9, value_parser = positive, allow_negative_numbers = true)]
    efficiency: f64,
    /// Message sizes whose speed-up is shown, as in 64M
    #[arg(long, num_args = 1.., default_values = ["1M", "64M", "1G"], value_parser = parse_bytes)]
    bytes: Vec<usize>,
    /// Also draw speed-up against message size into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER")]
    plot: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    let mut gpus = args.gpu.clone();
    for path in &args.results {
        gpus.push(rates::read(path, &args.algorithm)?);
    }
    if let Some(folder) = &args.plot {
        make_folder(folder)?;
    }
    let model = |rates| Model {
        rates,
        latency_s: args.latency_us * 1e-6,
        launch_s: args.launch_us * 1e-6,
        efficiency: args.efficiency,
    };
    let report = Report { models: gpus.into_iter().map(model).collect(), bytes: args.bytes.clone() };
    report.print(args.json)?;
    args.plot.as_ref().map_or(Ok(()), |folder| picture::draw(&report, folder))
}
