//! `mgcomp profile`: which form and target suit an allocation in buddy memory.

mod report;

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use mgcomp_codecs::Element;
use mgcomp_transport::buddy::{Form, Profile, Threshold};

use crate::error::CliError;
use crate::progress::Progress;
use crate::{args, input, output};
use report::{Report, Row};

/// Find the target ratio of allocations in buddy memory from snapshots of what they hold.
///
/// Each file is a snapshot of an allocation of its own, or with --together all are snapshots of one. For each the
/// form and the largest target are taken at which fewer entries overflow to buddy memory than the threshold says.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Snapshots; - is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The most entries that may overflow, in percent, 10 to 50; fewer than that will
    #[arg(short, long, value_parser = threshold(), allow_negative_numbers = true, default_value = "30")]
    threshold: Threshold,
    /// What the bytes are [default: as the name says, like x.f32.bin, else u8]
    #[arg(short, long, value_parser = args::element())]
    element: Option<Element>,
    /// Only entries of this form; best looks at all
    #[arg(long, default_value = "best")]
    form: FormChoice,
    /// All files are snapshots of the same allocation
    #[arg(long)]
    together: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Which forms to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FormChoice {
    Best,
    Bpc,
    Xp,
}

impl FormChoice {
    fn takes(self, form: Form) -> bool {
        match self {
            Self::Best => true,
            Self::Bpc => form == Form::Bpc,
            Self::Xp => form != Form::Bpc,
        }
    }
}

/// Parses a threshold: 10 to 50.
fn threshold() -> impl TypedValueParser<Value = Threshold> {
    // clap has already refused all others.
    let percent = clap::value_parser!(u8).range(10..=50);
    percent.map(|percent| Threshold::percent(percent).unwrap_or_default())
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let mut progress = Progress::start();
    let mut report = Report::new(args.threshold);
    if args.together {
        report.add(row(args, &args.files, &mut progress)?);
    } else {
        for file in args.files.chunks(1) {
            report.add(row(args, file, &mut progress)?);
        }
    }
    drop(progress);
    output::print(&if args.json { report.to_json() } else { report.to_text() })
}

/// Profiles one allocation.
fn row(args: &Args, files: &[PathBuf], progress: &mut Progress) -> Result<Row, CliError> {
    let element = args.element.unwrap_or_else(|| input::element_of_name(&files[0]));
    let mut profile = Profile::new(element);
    let failed = |source| CliError::Profile { name: input::name(&files[0]), source };
    for file in files {
        let snapshot = input::read_raw(file, progress)?;
        profile.add(&snapshot).map_err(failed)?;
    }
    let forms: Vec<Form> = profile.forms().into_iter().filter(|&form| args.form.takes(form)).collect();
    let choice = profile.choose(args.threshold, &forms).map_err(failed)?;
    Ok(Row { name: input::name(&files[0]), snapshots: files.len(), element, choice, profile, forms })
}
