//! `mgcomp calibrate`: measures how fast the codecs are here, or on a device, for the policy `adaptive` to reckon with.

use std::path::{Path, PathBuf};

use mgcomp_codecs::device::Device;
use mgcomp_codecs::{Algorithm, Element, ElementSet};
use mgcomp_proto::v1::{CalibrateRequest, CodecSpeed};
use mgcomp_selector::speeds::Speeds;
use mgcomp_transport::calibrate::{
    SpeedsFile, calibrate, calibrate_device, calibrated_bytes, calibrated_device_bytes,
};

use crate::client::{Target, with_daemon};
use crate::device::Devices;
use crate::error::CliError;
use crate::input::is_stream;
use crate::output::{Output, print};
use crate::progress::Progress;
use crate::show;

/// What the table shows: GB/s of a buffer of so many MiB, on the host or on a device, that becomes this part of itself.
const SHOWN_MIB: [u64; 2] = [1, 32];
const SHOWN_FRACTION: f64 = 0.5;

/// Measure how fast the codecs are on this machine or a device of it, and keep it for the policy adaptive.
///
/// One thread or one stream works for a few seconds; what else runs meanwhile spoils the result.
#[derive(clap::Args, Debug)]
#[command(mut_args(only_with_daemon))]
pub(crate) struct Args {
    /// Where to keep the result, in place of one that is there, instead of where programs look for it; - prints it, as --json does
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON and keep nothing
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Measure the kernels on a CUDA device instead: cuda, which is the first, or one by its number, as in cuda:1. What is kept counts
    /// for all devices of that name
    #[arg(long)]
    device: Option<Devices>,
    /// Let the daemon measure and keep it: what programs of its user go by
    #[arg(long, conflicts_with_all = ["output", "json", "device"])]
    daemon: bool,
    #[command(flatten)]
    target: Target,
}

/// Where the daemon is counts for nothing else. What else is said of it needs its address.
fn only_with_daemon(argument: clap::Arg) -> clap::Arg {
    match argument.get_id().as_str() {
        "socket" | "address" => argument.requires("daemon"),
        _ => argument,
    }
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    if args.daemon {
        return on_daemon(args);
    }
    let place = match args.device {
        Some(devices) => Place::Device(devices.open(0)?),
        None => Place::Host,
    };
    let to_stdout = args.json || args.output.as_deref().is_some_and(is_stream);
    let path = match &args.output {
        _ if to_stdout => None,
        Some(path) => Some(path.clone()),
        None => Some(place.default_path()?.ok_or(CliError::NoCache)?),
    };
    // What cannot be written is said before the time is spent. A file that was named is anything but where programs look.
    let output = args.output.as_deref().map(|path| Output::create(path, Path::new("-"), true)).transpose()?;
    let speeds = place.measure()?;
    let file = place.file(&speeds);
    let Some(path) = path else {
        return print(&format!("{}\n", file.to_json()));
    };
    match output {
        Some(mut output) => {
            output.write(file.to_json().as_bytes())?;
            output.finish()?;
        }
        None => file.save(&path).map_err(|source| CliError::Speeds { source })?,
    }
    print(&table(&place, &speeds))?;
    print(&format!("kept in {}\n", path.display()))
}

/// Where codecs are timed.
enum Place {
    Host,
    Device(Device),
}

impl Place {
    fn measure(&self) -> Result<Speeds, CliError> {
        let (mut progress, elements) = (Progress::start(), ElementSet::all());
        Ok(match self {
            Self::Host => {
                progress.stage("timing codecs".into(), calibrated_bytes(elements));
                calibrate(elements, &|done_bytes| progress.set(done_bytes))?
            }
            Self::Device(device) => {
                progress.stage("timing kernels".into(), calibrated_device_bytes(elements));
                calibrate_device(device, elements, &|done_bytes| progress.set(done_bytes))?
            }
        })
    }

    fn file(&self, speeds: &Speeds) -> SpeedsFile {
        match self {
            Self::Host => SpeedsFile::of_this_machine(speeds),
            Self::Device(device) => SpeedsFile::of_device(device.info(), speeds),
        }
    }

    /// Where its speeds are looked for.
    fn default_path(&self) -> Result<Option<PathBuf>, CliError> {
        Ok(match self {
            Self::Host => SpeedsFile::default_path()?,
            Self::Device(device) => SpeedsFile::default_path_of_device(device.info())?,
        })
    }

    fn name(&self) -> &str {
        match self {
            Self::Host => "one core",
            Self::Device(device) => &device.info().name,
        }
    }

    const fn shown_mib(&self) -> u64 {
        match self {
            Self::Host => SHOWN_MIB[0],
            Self::Device(_) => SHOWN_MIB[1],
        }
    }
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

fn table(place: &Place, speeds: &Speeds) -> String {
    let (name, mib) = (place.name(), place.shown_mib());
    let mut text = format!(
        "GB/s of raw bytes on {name}, encode / decode, {mib} MiB that becomes half of it\n{:<8}",
        "element"
    );
    let timed =
        |algorithm: &Algorithm| speeds.codecs().iter().any(|codec| codec.algorithm == algorithm.name());
    let algorithms: Vec<Algorithm> = Algorithm::ALL.into_iter().filter(timed).collect();
    algorithms.iter().for_each(|algorithm| text += &format!(" {algorithm:>13}"));
    let shown_bytes = mib << 20;
    for element in Element::ALL {
        text += &format!("\n{element:<8}");
        for &algorithm in &algorithms {
            let times = speeds.times(algorithm, element, shown_bytes, SHOWN_FRACTION).unwrap_or_default();
            let rate = |ns: f64| shown_bytes as f64 / ns;
            text += &format!(" {:>6.2}/{:>6.2}", rate(times.encode_ns), rate(times.decode_ns));
        }
    }
    text + "\n"
}
