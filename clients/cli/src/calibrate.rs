//! `mgcomp calibrate`: measures how fast the codecs are here, for the policy `adaptive` to reckon with.

use std::path::PathBuf;

use mgcomp_codecs::{Algorithm, Element, ElementSet, codecs};
use mgcomp_proto::v1::{CalibrateRequest, CodecSpeed};
use mgcomp_selector::speeds::Speeds;
use mgcomp_transport::calibrate::{SpeedsFile, calibrate, calibrated_bytes};

use crate::client::{Target, with_daemon};
use crate::error::CliError;
use crate::output::print;
use crate::progress::Progress;
use crate::show;

/// What the table shows: GB/s of a buffer of this length that becomes this part of itself.
const SHOWN_BYTES: u64 = 1 << 20;
const SHOWN_FRACTION: f64 = 0.5;

/// Measure how fast the codecs are on this machine, and keep it for the policy adaptive.
///
/// One thread works for a few seconds; what else runs meanwhile spoils the result.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Where to keep the result, instead of where programs look for it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON and keep nothing
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Let the daemon measure and keep it: what programs of its user go by
    #[arg(long, conflicts_with_all = ["output", "json"])]
    daemon: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    if args.daemon {
        return on_daemon(args);
    }
    let path = match args.json {
        true => None,
        false => Some(path(args)?),
    };
    let mut progress = Progress::start();
    progress.stage("timing codecs".into(), calibrated_bytes(ElementSet::all()));
    let speeds = calibrate(ElementSet::all(), &|done_bytes| progress.set(done_bytes))?;
    drop(progress);
    let file = SpeedsFile::of_this_machine(&speeds);
    let Some(path) = path else {
        return print(&format!("{}\n", file.to_json()));
    };
    file.save(&path).map_err(|source| CliError::Speeds { source })?;
    print(&table(&speeds))?;
    print(&format!("kept in {}\n", path.display()))
}

/// The same table, of the daemon's measurements.
fn on_daemon(args: &Args) -> Result<(), CliError> {
    let measured = with_daemon(&args.target, async |mut daemon| {
        Ok(daemon.calibrate(CalibrateRequest { dry_run: false }).await?.into_inner())
    })?;
    let head = ["element", "algorithm", "encode GB/s", "decode GB/s"];
    let row = |speed: &CodecSpeed| {
        let rates = [speed.encode_gigabytes_per_second, speed.decode_gigabytes_per_second];
        [vec![speed.element.clone(), speed.algorithm.clone()], rates.map(|rate| format!("{rate:.2}")).into()]
            .concat()
    };
    print(&show::table(&head, 2, &measured.speeds.iter().map(row).collect::<Vec<_>>()))?;
    print(&format!("kept in {}\n", measured.path))
}

fn path(args: &Args) -> Result<PathBuf, CliError> {
    match &args.output {
        Some(path) => Ok(path.clone()),
        None => SpeedsFile::default_path()?.ok_or(CliError::NoCache),
    }
}

fn table(speeds: &Speeds) -> String {
    let mut text = format!(
        "GB/s of raw bytes on one core, encode / decode, 1 MiB that becomes half of it\n{:<8}",
        "element"
    );
    let algorithms: Vec<Algorithm> = codecs().map(mgcomp_codecs::Codec::algorithm).collect();
    algorithms.iter().for_each(|algorithm| text += &format!(" {algorithm:>13}"));
    for element in Element::ALL {
        text += &format!("\n{element:<8}");
        for &algorithm in &algorithms {
            let times = speeds.times(algorithm, element, SHOWN_BYTES, SHOWN_FRACTION).unwrap_or_default();
            let rate = |ns: f64| SHOWN_BYTES as f64 / ns;
            text += &format!(" {:>6.2}/{:>6.2}", rate(times.encode_ns), rate(times.decode_ns));
        }
    }
    text + "\n"
}
