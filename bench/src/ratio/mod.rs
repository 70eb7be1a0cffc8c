//! `mgcomp-bench ratio`: how small each codec makes each file.

mod corpus;
mod files;
mod measure;
mod print;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mgcomp_codecs::{Algorithm, Codec, Element, codecs};

use crate::error::{self, BenchError};
use files::Item;
use measure::Row;
use print::Printer;

/// Where the data is that the repository itself has.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/cli/samples");

/// Raw bytes, coded bytes and paper bits per file and algorithm.
///
/// Coded bytes are those of a whole frame with its default chunk size and checksums. Paper bits are the sum
/// of the line sizes of IPDPS 2019, Table II, without any framing; only line codecs have them.
/// A file that cannot be measured is reported; the others are measured all the same, and the exit code is 1.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files, or folders: all files that the folder's corpus.json names; without one, all regular files but
    /// READMEs and hidden ones [default: the samples in the repository]
    #[arg(long, num_args = 1.., default_value = SAMPLES, hide_default_value = true)]
    data: Vec<PathBuf>,
    /// Element of files that no corpus.json names [default: as the name says, like x.f32.bin, else u8]
    #[arg(long, value_parser = element_parser())]
    element: Option<Element>,
    /// Only this algorithm; may be repeated [default: every codec]
    #[arg(long, value_parser = algorithm_parser())]
    algorithm: Vec<Algorithm>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

fn element_parser() -> impl TypedValueParser<Value = Element> {
    PossibleValuesParser::new(Element::ALL.map(Element::name)).try_map(|name| name.parse())
}

fn algorithm_parser() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(codecs().map(|codec| codec.algorithm().name())).try_map(|name| name.parse())
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    let items = files::list(&args.data, args.element);
    let codecs = chosen_codecs(&args.algorithm);
    let labels = items.iter().filter_map(|item| item.as_ref().ok()).map(|item| item.label.as_str());
    let mut printer = Printer::new(args.json, labels);
    let mut failed = 0;
    for item in &items {
        match item {
            Ok(item) => failed += usize::from(!measure_item(item, &codecs, &mut printer)?),
            Err(error) => {
                error::report(error);
                failed += 1;
            }
        }
    }
    printer.finish()?;
    if failed > 0 { Err(BenchError::Incomplete { failed, files: items.len() }) } else { Ok(()) }
}

/// The codecs of `algorithms`, or all, each once and in the order of their numbers.
fn chosen_codecs(algorithms: &[Algorithm]) -> Vec<&'static dyn Codec> {
    codecs().filter(|c| algorithms.is_empty() || algorithms.contains(&c.algorithm())).collect()
}

/// Prints a row per codec, or reports why there is none. Only a failure to print is an error.
fn measure_item(item: &Item, codecs: &[&dyn Codec], printer: &mut Printer) -> Result<bool, BenchError> {
    let raw = match files::read(&item.path) {
        Ok(raw) => raw,
        Err(error) => {
            error::report(&error);
            return Ok(false);
        }
    };
    let mut all_good = true;
    for &codec in codecs {
        match measure::measure(item, codec, &raw) {
            Ok(row) => printer.print(&row)?,
            Err(error) => {
                error::report(&error);
                all_good = false;
            }
        }
    }
    Ok(all_good)
}
