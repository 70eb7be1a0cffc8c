//! `mgcomp-bench scale`: a model, not a measurement, of where compression pays in collectives of many GPUs.

mod collective;
mod pictures;
mod rates;
mod report;
mod time;

use std::path::PathBuf;

use crate::codec::parse_bytes;
use crate::error::BenchError;
use crate::paper::make_folder;
use collective::{Collective, Fabric};
use rates::{CodecRates, parse_taper};
pub(crate) use rates::{PLAUSIBLE, RatesError, middle, positive};
use report::Report;
use time::Model;

/// Dense bf16 tensors by XP, over the collection that README.md describes.
const RATIO: f64 = 1.478;
/// XP on one core with AVX-512 from and to memory that memcpy moves at 14 GB/s: 0.80 and 0.97 of that.
const ENCODE: f64 = 11.2;
const DECODE: f64 = 13.6;

/// Where compression pays in collectives of many GPUs, by a model: nothing of this is measured.
///
/// All-gather, all-reduce (reduce-scatter, then all-gather) and all-to-all on a ring, a switch and a two-level fat
/// tree, with links from slow to fast. Codec and wire take turns, or overlap segment by segment. A message of
/// m bytes takes latency + m / (ratio · link rate), and a fixed time and m / codec rate on either side. Each block that is
/// for another GPU, or is forwarded, is a frame with a header of 32 bytes; where that does not shorten it, it goes raw.
/// Compression pays where it makes all at least 1.01 times as fast.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Numbers of GPUs
    #[arg(long, num_args = 1.., default_values_t = [8, 64, 512, 4096, 65_536], value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    gpus: Vec<u64>,
    /// Bytes of the buffer of each GPU, as in 64M
    #[arg(long, num_args = 1.., default_values = ["1M", "64M", "1G"], value_parser = parse_bytes)]
    bytes: Vec<usize>,
    /// Rates of links in Gb/s
    #[arg(long, num_args = 1.., default_values_t = [10.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3600.0], value_parser = positive, allow_negative_numbers = true)]
    link_gbps: Vec<f64>,
    /// Raw bytes over coded bytes [default: 1.478, dense bf16 by XP]
    #[arg(long, value_parser = positive, allow_negative_numbers = true, conflicts_with = "codec")]
    ratio: Option<f64>,
    /// GB/s of uncompressed data that a GPU's encoder takes in [default: 11.2, XP on one core with AVX-512]
    #[arg(long, value_parser = positive, allow_negative_numbers = true, conflicts_with = "codec", value_name = "GB_PER_S")]
    encode: Option<f64>,
    /// GB/s of uncompressed data that a GPU's decoder puts out [default: 13.6, XP on one core with AVX-512]
    #[arg(long, value_parser = positive, allow_negative_numbers = true, conflicts_with = "codec", value_name = "GB_PER_S")]
    decode: Option<f64>,
    /// Rates and ratio from the output of `mgcomp-bench codec --json`: of its row with the largest buffer and the
    /// most threads; of several, where the median of the encoder's rates is (the lower one of two)
    #[arg(long, value_name = "FILE")]
    codec: Option<PathBuf>,
    /// The algorithm whose row of that file counts
    #[arg(long, default_value = "xp", requires = "codec")]
    algorithm: String,
    /// Latency of a message over one link in µs
    #[arg(long, default_value_t = 2.0, value_parser = positive, allow_negative_numbers = true)]
    latency_us: f64,
    /// Fixed time of a codec for each frame in µs
    #[arg(long, default_value_t = 0.5, value_parser = positive, allow_negative_numbers = true)]
    codec_us: f64,
    /// Pieces in which codec and wire overlap
    #[arg(long, default_value = "1M", value_parser = parse_bytes)]
    segment: usize,
    /// GPUs below one leaf of the fat tree
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    leaf: u64,
    /// How much slower a GPU's share of the links above the leaves is, 1 or more
    #[arg(long, default_value_t = 2.0, value_parser = parse_taper, allow_negative_numbers = true)]
    taper: f64,
    /// Also write CSV files into this folder
    #[arg(long, value_name = "FOLDER")]
    csv: Option<PathBuf>,
    /// Also draw speed-up against link rate into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER")]
    plot: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    let rates = args.rates()?;
    for folder in [&args.csv, &args.plot].into_iter().flatten() {
        make_folder(folder)?;
    }
    let report = Report {
        model: Model {
            rates,
            latency_s: args.latency_us * 1e-6,
            codec_s: args.codec_us * 1e-6,
            segment_bytes: args.segment as f64,
        },
        fabrics: Fabric::all(args.leaf, args.taper),
        collectives: Collective::ALL,
        gpus: args.gpus.clone(),
        bytes: args.bytes.clone(),
        link_gbps: args.link_gbps.clone(),
    };
    report.print(args.json)?;
    if let Some(folder) = &args.csv {
        report.write_csv(folder)?;
    }
    match &args.plot {
        Some(folder) => pictures::draw(&report, folder),
        None => Ok(()),
    }
}

impl Args {
    fn rates(&self) -> Result<CodecRates, BenchError> {
        match &self.codec {
            Some(path) => rates::read(path, &self.algorithm),
            None => Ok(CodecRates {
                source: "XP on dense bf16, one core with AVX-512, where no flag says otherwise".into(),
                ratio: self.ratio.unwrap_or(RATIO),
                encode_gbytes: self.encode.unwrap_or(ENCODE),
                decode_gbytes: self.decode.unwrap_or(DECODE),
            }),
        }
    }
}
