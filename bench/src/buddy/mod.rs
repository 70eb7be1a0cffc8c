//! `mgcomp-bench buddy`: what buddy memory gains on snapshots, and how fast it is read and written.

mod count;
mod generate;
mod measure;
mod picture;
mod print;
mod snapshot;
mod speed;

use std::path::PathBuf;
use std::time::Duration;

use mgcomp_transport::buddy::{BuddyError, Form, MemoryError, ProfileError, Target};

use crate::codec::{Data, items_of, parse_bytes, parse_seconds};
use crate::error::BenchError;
use measure::Row;
use snapshot::Snapshot;

/// The thresholds of the paper's sweep, in percent.
const THRESHOLDS: [u8; 5] = [10, 20, 30, 40, 50];

/// Effective capacity and overflow of buddy memory (ISCA 2020) on snapshots, over thresholds of 10 to 50 %.
///
/// Each snapshot is an allocation. Its form and target are chosen by a profile of itself, from the paper's entries
/// of BPC, from entries of XP, and from both. Then it is written to a pool with that target, read back and compared,
/// and what the pool has counted is held against a second count, by other code. Last, the speed of a pool beside
/// memcpy. Without --data: fields of generated simulations, and the samples in the repository.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Snapshots, as FILE:ELEMENT or as their folder's corpus.json or their names say, or folders
    #[arg(long, num_args = 1..)]
    data: Vec<Data>,
    /// Size of the allocation whose speed is measured, such as 64M
    #[arg(long, value_parser = parse_bytes, default_value = "64M")]
    bytes: usize,
    /// Time for the speed of each form
    #[arg(long, value_parser = parse_seconds, default_value = "1")]
    seconds: Duration,
    /// Draw capacity over thresholds into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Why a snapshot could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BuddyBenchError {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Pool(#[from] BuddyError),
    #[error("byte {offset} came back different")]
    RoundTrip { offset: usize },
    #[error(
        "of form {form} at target {target} the {counter} has {got} entries that overflow, a second count {counted}"
    )]
    Miscounted { form: Form, target: Target, counter: &'static str, got: u64, counted: u64 },
    #[error("no frame to count chunks of")]
    Frame(#[from] mgcomp_codecs::frame::FrameError),
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    if let Some(path) = &args.plot {
        mgcomp_plot::check_place(path)?;
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut fastest = speed::Candidates::default();
    let mut measure = |snapshot: Snapshot| -> Result<(), BenchError> {
        let label = snapshot.label.clone();
        let found = measure::measure(&snapshot).map_err(|source| BenchError::Buddy { label, source })?;
        fastest.offer(snapshot, &found);
        rows.extend(found);
        Ok(())
    };
    if args.data.is_empty() {
        generate::snapshots().try_for_each(&mut measure)?;
    }
    items_of(&args.data)?.iter().try_for_each(|item| measure(Snapshot::read(item)?))?;
    let speeds = fastest.measure(args.bytes, args.seconds)?;
    print::print(&rows, &speeds, args.json)?;
    match &args.plot {
        Some(path) => Ok(picture::draw(&rows).save_svg(path)?),
        None => Ok(()),
    }
}
