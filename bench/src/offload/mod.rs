//! `mgcomp-bench offload`: activations between device and host, as *Compressing DMA Engine* (HPCA 2018) has them.

mod generate;
mod layout;
mod maps;
mod notes;
mod picture;
mod print;
mod published;
mod ratio;
mod throughput;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mgcomp_codecs::{Algorithm, codecs};
use mgcomp_plot as plot;

use crate::codec::{parse_bytes, parse_seconds};
use crate::data::SAMPLES;
use crate::error::{self, BenchError};
use crate::machine;
use crate::scale::positive;
use layout::Layout;
use maps::Map;
use print::Printer;
use ratio::Row;

/// How small activation maps get by layer and layout, and how fast they are offloaded over a simulated link.
///
/// Ratios are those of frames with chunks of 4 KiB, the paper's compression window, with all framing. Each map is put into the
/// layouts NCHW, NHWC and CHWN; the paper's figures stand beside the sums. Maps are the tensors of four dimensions (taken as
/// NCHW) that the corpus.json of --data names; without --data, those of the samples in the repository and generated ones.
///
/// Throughput: a queue offloads buffers over a link that is simulated, a copy at a set rate, and brings them back, in turn with
/// codecs alone on the same threads; the best of all rounds counts. The most that can be had is ratio times link, or the codec's
/// own rate where that is lower. Every byte that comes back is compared before a figure is printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files, or folders with a corpus.json [default: the samples in the repository, and generated maps]
    #[arg(long, num_args = 1..)]
    data: Vec<PathBuf>,
    /// Algorithms of the table of ratios [default: zvc, rle, deflate (zlib), xp]
    #[arg(long, num_args = 1.., value_parser = algorithm_parser())]
    algorithm: Vec<Algorithm>,
    /// Rate of the simulated link each way in GB/s, 10⁹ bytes per second
    #[arg(long, default_value_t = 16.0, value_parser = positive, allow_negative_numbers = true)]
    link: f64,
    /// Bytes that are offloaded in each round, as in 64M
    #[arg(long, default_value = "64M", value_parser = parse_bytes)]
    bytes: usize,
    /// Threads that run codecs
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Seconds for each row of throughput
    #[arg(long, default_value = "2", value_parser = parse_seconds)]
    seconds: Duration,
    /// Only ratios
    #[arg(long, conflicts_with_all = ["link", "bytes", "threads", "seconds"])]
    ratios: bool,
    /// Also draw the ratios of each map into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// What the table of ratios has where nobody asks for others: the paper's three, and ours for floats.
const ALGORITHMS: [Algorithm; 4] = [Algorithm::Zvc, Algorithm::Rle, Algorithm::Deflate, Algorithm::Xp];
/// What throughput is measured of: the paper's, and ours. DEFLATE is slower than any such link.
const FAST: [Algorithm; 2] = [Algorithm::Zvc, Algorithm::Xp];
/// How much memory throughput takes at most, in what a round offloads: that, frames and decoded bytes of codecs alone, and of
/// each of two queues what it holds and what it brings back; and room to breathe.
const BUFFERS: u64 = 8;

fn algorithm_parser() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(codecs().map(|codec| codec.algorithm().name())).try_map(|name| name.parse())
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    if let Some(path) = &args.plot {
        plot::check_place(path)?;
    }
    if !args.ratios {
        machine::check_memory(args.bytes, BUFFERS * args.bytes as u64)?;
    }
    let (maps, mut failed) = load(args)?;
    let files = maps.len() + failed;
    let algorithms = if args.algorithm.is_empty() { ALGORITHMS.to_vec() } else { args.algorithm.clone() };
    let printer = Printer::start(args.json, &maps, &algorithms)?;
    let mut rows = Vec::new();
    for map in &maps {
        match measure_map(map, &algorithms) {
            Ok(of_map) => {
                printer.ratios(&of_map)?;
                rows.extend(of_map);
            }
            Err(error) => {
                error::report(&error);
                failed += 1;
            }
        }
    }
    printer.sums(&rows)?;
    if let Some(path) = &args.plot {
        picture::draw(&rows, &algorithms).save_svg(path)?;
    }
    if let Some(map) = maps.iter().max_by_key(|map| map.throughput_rank()).filter(|_| !args.ratios) {
        for algorithm in FAST {
            printer.throughput(&throughput::measure(map, algorithm, args)?)?;
        }
    }
    if failed > 0 { Err(BenchError::Incomplete { failed, files }) } else { Ok(()) }
}

/// The maps to measure, and how many cannot be.
fn load(args: &Args) -> Result<(Vec<Map>, usize), BenchError> {
    let samples = [PathBuf::from(SAMPLES)];
    let data = if args.data.is_empty() { &samples[..] } else { &args.data[..] };
    let (mut maps, mut failed) = (Vec::new(), 0);
    for map in maps::read(data) {
        match map {
            Ok(map) => maps.push(map),
            Err(error) => {
                error::report(&error);
                failed += 1;
            }
        }
    }
    if args.data.is_empty() {
        maps.extend(generate::maps());
    }
    match data.first().filter(|_| maps.is_empty() && failed == 0) {
        Some(path) => Err(BenchError::NoFiles { path: path.clone() }),
        None => Ok((maps, failed)),
    }
}

fn measure_map<'a>(map: &'a Map, algorithms: &[Algorithm]) -> Result<Vec<Row<'a>>, BenchError> {
    let mut rows = Vec::new();
    for layout in Layout::ALL {
        let raw = layout.of(map);
        for &algorithm in algorithms {
            rows.push(ratio::measure(map, layout, &raw, algorithm)?);
        }
    }
    Ok(rows)
}
