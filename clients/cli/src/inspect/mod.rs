//! `mgcomp inspect`: what a frame says of itself, and whether it is true.

mod fields;
mod report;
mod scan;

use std::path::PathBuf;

use mgcomp_codecs::frame::Frame;

use crate::error::CliError;
use crate::progress::Progress;
use crate::{input, output};
use report::Report;

/// Explain each header field of a frame, its chunk table, and whether every chunk decodes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Frame to inspect; - is standard input
    frame: PathBuf,
    /// List every chunk
    #[arg(long)]
    chunks: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let mut progress = Progress::start();
    let name = input::name(&args.frame);
    let bytes = input::read_frame(&args.frame, &mut progress)?;
    let mut report = Report::of_header(&name, &bytes);
    let verdict = match Frame::parse(&bytes) {
        Ok(frame) => {
            let mut scan = scan::scan(&frame, args.chunks, &mut progress);
            report.add_scan(&frame, &mut scan);
            scan.into_verdict(name)
        }
        Err(source) => {
            report.add_error(&source);
            Err(CliError::Decode { name, source })
        }
    };
    drop(progress);
    let printed = output::print(&if args.json { report.to_json() } else { report.to_text() });
    // A damaged frame is a failure even where nobody reads to the end.
    verdict.and(printed)
}
