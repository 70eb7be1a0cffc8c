//! `mgcomp histogram`: how values are distributed.

use mgcomp_proto::v1::{GetHistogramRequest, GetHistogramResponse, Measure};
use serde_json::json;

use crate::client::{ScopeArgs, Scoped, Target, with_daemon};
use crate::error::CliError;
use crate::output::print;
use crate::show;

/// Show how sizes and times are distributed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// What to show
    #[arg(value_enum)]
    measure: Of,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// What is counted by value.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Of {
    /// Bytes of transfers that were sent
    RawBytes,
    /// Time of encoders
    EncodeNs,
    /// Time of decoders; not by stream
    DecodeNs,
    /// Time from the plan of a transfer until the peer acknowledged it
    AcknowledgedNs,
    /// Achieved size in thousandths of the predicted one
    SizePermille,
    /// Time until acknowledgement in thousandths of the predicted one
    TimePermille,
    /// Bytes of payloads that were received; not by stream
    ReceivedRawBytes,
}

impl Of {
    fn measure(self) -> Measure {
        match self {
            Self::RawBytes => Measure::RawBytes,
            Self::EncodeNs => Measure::EncodeNs,
            Self::DecodeNs => Measure::DecodeNs,
            Self::AcknowledgedNs => Measure::AcknowledgedNs,
            Self::SizePermille => Measure::SizePermille,
            Self::TimePermille => Measure::TimePermille,
            Self::ReceivedRawBytes => Measure::ReceivedRawBytes,
        }
    }

    fn text(self, value: u64) -> String {
        match self {
            Self::RawBytes | Self::ReceivedRawBytes => show::bytes(value),
            Self::EncodeNs | Self::DecodeNs | Self::AcknowledgedNs => {
                show::time(i64::try_from(value).unwrap_or(i64::MAX))
            }
            Self::SizePermille | Self::TimePermille => format!("{:.1} %", value as f64 / 10.0),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let request =
        GetHistogramRequest { scope: Some(args.scope.scope()), measure: args.measure.measure().into() };
    let histogram =
        with_daemon(&args.target, async |mut daemon| Ok(daemon.get_histogram(request).await?.into_inner()));
    let histogram = histogram.map_err(|error| error.about(&args.scope.scope(), false))?;
    print(&if args.json { object(args, &histogram) } else { text(args, &histogram) })
}

fn object(args: &Args, histogram: &GetHistogramResponse) -> String {
    let quantiles: Vec<_> = histogram
        .quantiles
        .iter()
        .map(|quantile| json!({ "quantile": quantile.quantile, "value": quantile.value }))
        .collect();
    let hdr: String = histogram.hdr_v2.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut object = json!({
        "measure": args.measure.measure().as_str_name().trim_start_matches("MEASURE_").to_lowercase(),
        "count": histogram.count,
        "mean": histogram.mean,
        "quantiles": quantiles,
        "hdr_v2_hex": hdr,
    });
    show::put_scope(&mut object, &args.scope.scope());
    format!("{object}\n")
}

fn text(args: &Args, histogram: &GetHistogramResponse) -> String {
    let mut text = format!("{}: {} values\n", show::place(&args.scope.scope()), histogram.count);
    if histogram.count > 0 {
        text += &format!("mean      {}\n", args.measure.text(histogram.mean as u64));
    }
    for quantile in &histogram.quantiles {
        let name = match quantile.quantile {
            0.0 => "least".to_owned(),
            1.0 => "most".to_owned(),
            part => format!("{} %", part * 100.0),
        };
        text += &format!("{name:<9} {}\n", args.measure.text(quantile.value));
    }
    text
}
