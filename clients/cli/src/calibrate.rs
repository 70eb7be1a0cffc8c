//! `mgcomp calibrate`: measures how fast the codecs are here, or on a device, for the policy `adaptive` to reckon with.

use std::path::PathBuf;
use std::time::Duration;

use mgcomp_codecs::device::Device;
use mgcomp_codecs::{Algorithm, Element, ElementSet};
use mgcomp_proto::v1::{CalibrateRequest, CodecSpeed, GetDaemonInfoRequest};
use mgcomp_selector::speeds::Speeds;
use mgcomp_transport::calibrate::{
    SpeedsFile, calibrate, calibrate_device, calibrated_bytes, calibrated_device_bytes,
};

use crate::client::{Target, with_patience};
use crate::device::Devices;
use crate::error::CliError;
use crate::input::is_stream;
use crate::output::{Output, print};
use crate::progress::Progress;
use crate::show;

/// What the table shows: GB/s of a buffer of so many MiB, on the host or on a device, that becomes this part of itself.
const SHOWN_MIB: [u64; 2] = [1, 32];
const SHOWN_FRACTION: f64 = 0.5;
/// How long a daemon may measure: 10 to 15 seconds, and far more where the machine is busy.
const MEASURING: Duration = Duration::from_secs(300);

/// Measure how fast the codecs are on this machine or a device of it, and keep it for the policy adaptive.
///
/// One thread works for 10 to 15 seconds, or one stream of a device for some; what else runs meanwhile spoils the result.
#[derive(clap::Args, Debug)]
#[command(mut_args(only_with_daemon))]
pub(crate) struct Args {
    /// Where to keep the result, in place of one that is there, instead of where programs look for it; - prints it as JSON
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the result as JSON and keep nothing
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Measure the kernels on a CUDA device instead: cuda, which is the first, or one by its number, as in cuda:1. What is kept counts
    /// for all devices of that name
    #[arg(long, value_name = "cuda[:N]", value_parser = device)]
    device: Option<Devices>,
    /// Let the daemon measure and keep it: what programs of its user go by
    #[arg(long, conflicts_with_all = ["output", "json", "device"])]
    daemon: bool,
    #[command(flatten)]
    target: Target,
}

/// Parses which device is measured. No more than one is, so that the name of all stands for the first.
fn device(text: &str) -> Result<Devices, String> {
    let unknown =
        |_| format!("{text:?} is no device: it is cuda for the first, or one by its number, as in cuda:1");
    text.parse().map_err(unknown)
}

/// Where the daemon is counts for nothing else. What else is said of it needs its address.
fn only_with_daemon(argument: clap::Arg) -> clap::Arg {
    match argument.get_id().as_str() {
        "socket" | "address" | "timeout" => argument.requires("daemon"),
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
    let keep = Keep::of(args, &place)?;
    let speeds = place.measure()?;
    let file = place.file(&speeds);
    let path = match keep {
        Keep::Nowhere => return print(&format!("{}\n", file.to_json())),
        Keep::Named(path) => {
            let mut output = Output::replace(&path)?;
            output.write(file.to_json().as_bytes())?;
            output.finish()?;
            path
        }
        Keep::Usual(path) => {
            file.save(&path).map_err(|source| CliError::Speeds { source })?;
            path
        }
    };
    print(&table(&place, &speeds))?;
    print(&format!("kept in {}\n", path.display()))
}

/// What becomes of the result.
enum Keep {
    /// It is printed.
    Nowhere,
    /// It replaces the file that the user has named.
    Named(PathBuf),
    /// It is kept where programs look for it, in a folder that is made for it.
    Usual(PathBuf),
}

impl Keep {
    /// Refuses what cannot be written now, and not after all is measured.
    fn of(args: &Args, place: &Place) -> Result<Self, CliError> {
        match &args.output {
            _ if args.json => Ok(Self::Nowhere),
            Some(path) if is_stream(path) => Ok(Self::Nowhere),
            Some(path) => {
                // Made again when it is needed, so that nothing is left there where measuring is interrupted.
                drop(Output::replace(path)?);
                Ok(Self::Named(path.clone()))
            }
            None => {
                let path = place.default_path()?.ok_or(CliError::NoCache)?;
                SpeedsFile::check_place(&path).map_err(|source| CliError::Speeds { source })?;
                Ok(Self::Usual(path))
            }
        }
    }
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
    let measured = with_patience(&args.target, async |mut daemon, patience| {
        // One that does not even say who it is will not measure either.
        patience.wait(daemon.get_daemon_info(GetDaemonInfoRequest {})).await?;
        let patience = patience.at_least(MEASURING);
        Ok(patience.wait(daemon.calibrate(CalibrateRequest { dry_run: false })).await?.into_inner())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_is_measured() {
        assert_eq!(device("cuda"), Ok(Devices::All));
        assert_eq!(device("cuda:1"), Ok(Devices::One(1)));
        for wrong in ["", "gpu", "cuda:", "1"] {
            let said = device(wrong).unwrap_err();
            assert!(
                said.starts_with(&format!("{wrong:?} is no device: it is cuda for the first, or")),
                "{said}"
            );
        }
    }
}
