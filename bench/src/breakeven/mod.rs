//! `mgcomp-bench breakeven`: a model, not a measurement, of the message size from which compression on a GPU pays.

mod codec;
mod compared;
mod flag;
mod model;
mod picture;
mod report;
mod results;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::codec::parse_bytes;
use crate::error::{BenchError, note};
use crate::paper::make_folder;
use crate::scale::positive;
use codec::Codec;
use compared::Compared;
use flag::{parse_efficiency, parse_gpu};
use model::{Model, Stages};
use report::{Case, Report};
pub(crate) use results::ResultsError;
use results::{Copied, Results};

/// Time in µs that a launch takes beside what the rates of `--gpu` tell.
const LAUNCH_US: f64 = 5.0;

/// From which message size on, and on which links, compression on a GPU pays, by a model: no link is measured.
///
/// A message of n bytes takes latency + n / link rate as it is. Compressed, it is encoded, carried and decoded, one after
/// the other or overlapped in the number of pieces that is best (up to 64), where every piece costs a launch on either
/// side. Codec rates are those of `--gpu`, the same for every size, or were measured by `mgcomp-bench gpu` at several:
/// between two sizes their times are interpolated, a shorter message takes as long as the smallest buffer, and a longer one
/// has the rate of the largest. Copies of such files, plain and compressed, are shown beside what the model says of them; one that is
/// only encoded, or only decoded, is charged that alone.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("source").required(true).multiple(true).args(["gpu", "results"])))]
pub(crate) struct Args {
    /// A GPU's name, GB/s of uncompressed data that its encoder takes in and its decoder puts out, and the ratio, as in
    /// H100:800:1200:1.48
    #[arg(long, num_args = 1.., value_name = "NAME:ENCODE:DECODE:RATIO", value_parser = parse_gpu)]
    gpu: Vec<Codec>,
    /// The same by size from JSON files of `mgcomp-bench gpu`: on the data that was timed at most sizes; of several, where
    /// the median of the encoder's rates is (the lower one of two)
    #[arg(long, num_args = 1.., value_name = "FILE")]
    results: Vec<PathBuf>,
    /// The algorithms whose rows of such files count
    #[arg(long, num_args = 1.., default_value = "xp", requires = "results")]
    algorithm: Vec<String>,
    /// Time that a launch of an encoder or decoder takes beside its work, in µs [default: 5, and none beside measured
    /// times, which hold it]
    #[arg(long, value_parser = positive, allow_negative_numbers = true)]
    launch_us: Option<f64>,
    /// Latency of a link in µs
    #[arg(long, default_value_t = 2.0, value_parser = positive, allow_negative_numbers = true)]
    latency_us: f64,
    /// What a link reaches of its nominal rate, up to 1
    #[arg(long, default_value_t = 0.9, value_parser = parse_efficiency, allow_negative_numbers = true)]
    efficiency: f64,
    /// Message sizes whose speed-up is shown, as in 64M
    #[arg(long, num_args = 1.., default_values = ["1M", "64M", "1G"], value_parser = parse_bytes)]
    bytes: Vec<usize>,
    /// Also write everything into this folder, as CSV
    #[arg(long, value_name = "FOLDER")]
    csv: Option<PathBuf>,
    /// Also draw speed-up against message size into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER")]
    plot: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    let report = Report { cases: args.cases()?, bytes: args.bytes.clone() };
    for folder in [&args.csv, &args.plot].into_iter().flatten() {
        make_folder(folder)?;
    }
    report.print(args.json)?;
    if let Some(folder) = &args.csv {
        report.write_csv(folder)?;
    }
    args.plot.as_ref().map_or(Ok(()), |folder| picture::draw(&report, folder))
}

impl Args {
    /// Those of flags, then those of files.
    fn cases(&self) -> Result<Vec<Case>, BenchError> {
        let by_flag = |codec: &Codec| Case { model: self.model(codec.clone()), copies: Vec::new() };
        let mut cases: Vec<Case> = self.gpu.iter().map(by_flag).collect();
        for path in &self.results {
            for algorithm in &self.algorithm {
                cases.push(self.case(path, algorithm)?);
            }
        }
        Ok(cases)
    }

    fn case(&self, path: &Path, algorithm: &str) -> Result<Case, BenchError> {
        let Results { codec, by_data, copies } = results::read(path, algorithm)?;
        let models: BTreeMap<String, Model> =
            by_data.into_iter().map(|(dataset, codec)| (dataset, self.model(codec))).collect();
        let (known, unknown): (Vec<Copied>, Vec<Copied>) =
            copies.into_iter().partition(|copied| models.contains_key(&copied.dataset));
        for Copied { way, dataset, .. } in unknown {
            let path = path.display();
            note(&format!(
                "{path}: a copy {way} has no prediction, for {algorithm} was not timed on {dataset}"
            ));
        }
        let compared = known.into_iter().map(|copied| Compared::new(&models[&copied.dataset], copied));
        Ok(Case { model: self.model(codec), copies: compared.collect() })
    }

    fn model(&self, codec: Codec) -> Model {
        let launch_us = self.launch_us.unwrap_or(if codec.is_measured() { 0.0 } else { LAUNCH_US });
        Model {
            codec,
            stages: Stages::Both,
            latency_s: self.latency_us * 1e-6,
            launch_s: launch_us * 1e-6,
            efficiency: self.efficiency,
        }
    }
}
