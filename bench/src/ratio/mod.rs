//! `mgcomp-bench ratio`: how small each codec makes each file.

mod any;
mod groups;
mod measure;
mod print;
mod speed;
mod summary;

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mgcomp_codecs::{Algorithm, Codec, Cpu, Element, codecs};

use crate::baseline::Library;
use crate::data::{self, Item, SAMPLES};
use crate::error::{self, BenchError};
use crate::machine::Machine;
use any::Any;
use measure::Row;
use mgcomp_plot::{self as plot, Plot, Reference};
use print::Printer;
use speed::Speeds;
use summary::Summary;

/// Raw bytes, coded bytes and paper bits per file and algorithm.
///
/// Coded bytes are those of a whole frame with its default chunk size and checksums. Paper bits are the sum
/// of the line sizes of IPDPS 2019, Table II, without any framing; only line codecs have them. "any" is no
/// algorithm but a computed figure: what frames would take if each chunk had the smallest of the algorithms.
/// The table ends in the ratios by kind of data, as corpus.json tells it, beside LZ4 and zstd level 1, which
/// see whole files in blocks of up to 4 MiB.
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
    /// Only these algorithms [default: every codec]
    #[arg(long, num_args = 1.., value_parser = algorithm_parser())]
    algorithm: Vec<Algorithm>,
    /// Measure speeds as well, and draw ratio against speed into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
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
    if let Some(path) = &args.plot {
        plot::check_place(path)?;
    }
    let items = data::list(&args.data, args.element);
    let labels = items.iter().filter_map(|item| item.as_ref().ok()).map(|item| item.label.as_str());
    let printer = Printer::new(args.json, labels);
    let mut bench = Ratio::new(args, printer);
    let mut failed = 0;
    for item in &items {
        match item {
            Ok(item) => failed += usize::from(!bench.measure(item)?),
            Err(error) => {
                error::report(error);
                failed += 1;
            }
        }
    }
    bench.finish(args)?;
    if failed > 0 { Err(BenchError::Incomplete { failed, files: items.len() }) } else { Ok(()) }
}

/// The codecs of `algorithms`, or all, each once and in the order of their numbers.
fn chosen_codecs(algorithms: &[Algorithm]) -> Vec<&'static dyn Codec> {
    codecs().filter(|c| algorithms.is_empty() || algorithms.contains(&c.algorithm())).collect()
}

/// A run of this bench.
struct Ratio {
    codecs: Vec<&'static dyn Codec>,
    printer: Printer,
    /// None for JSON, which has rows of files only.
    summary: Option<Summary>,
    /// Measured for the plot only.
    speeds: Option<Speeds>,
}

impl Ratio {
    fn new(args: &Args, printer: Printer) -> Self {
        let codecs = chosen_codecs(&args.algorithm);
        let own = codecs.iter().map(|codec| codec.algorithm().name());
        let columns = own.chain([Any::NAME]).chain(Library::ALL.map(Library::name)).collect();
        let summary = (!args.json).then(|| Summary::new(columns));
        Self { codecs, printer, summary, speeds: args.plot.as_ref().map(|_| Speeds::default()) }
    }

    /// Prints a row per codec, or reports why there is none; returns whether all went well. Only a failure to
    /// print is an error.
    fn measure(&mut self, item: &Item) -> Result<bool, BenchError> {
        let raw = match data::read(&item.path) {
            Ok(raw) => raw,
            Err(error) => {
                error::report(&error);
                return Ok(false);
            }
        };
        let mut any = Any::default();
        let mut rows = Vec::new();
        for &codec in &self.codecs {
            match measure::measure(item, codec, &raw, &mut any) {
                Ok(row) => {
                    self.printer.print(&row)?;
                    rows.push(row);
                }
                Err(error) => error::report(&error),
            }
        }
        let all_good = rows.len() == self.codecs.len();
        // With a codec missing, it would be another figure.
        if let Some(row) = rows.first().and_then(|row| any.row(row)).filter(|_| all_good) {
            self.printer.print(&row)?;
            rows.push(row);
        }
        let is_compared = self.compare(item, &raw, &rows).map_err(|error| error::report(&error)).is_ok();
        Ok(all_good && is_compared)
    }

    /// Adds the file to the summary and the plot.
    fn compare(&mut self, item: &Item, raw: &[u8], rows: &[Row<'_>]) -> Result<(), BenchError> {
        if let Some(summary) = &mut self.summary {
            let mut sizes: Vec<_> = rows.iter().map(|row| (row.algorithm, row.coded_bytes)).collect();
            for library in Library::ALL {
                sizes.push((library.name(), library_len(library, item, raw)?));
            }
            summary.add(item, raw, &sizes);
        }
        match &mut self.speeds {
            Some(speeds) => speeds.add(item, raw, self.codecs.iter().map(|codec| codec.algorithm())),
            None => Ok(()),
        }
    }

    fn finish(self, args: &Args) -> Result<(), BenchError> {
        let any = self.printer.total(Any::NAME);
        self.printer.finish(&self.summary.map(|summary| summary.lines()).unwrap_or_default())?;
        match (&args.plot, self.speeds) {
            (Some(path), Some(speeds)) if speeds.has_any() => {
                plot::write_file(path, plot(args, &speeds, any).svg().as_bytes())?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn library_len(library: Library, item: &Item, raw: &[u8]) -> Result<u64, BenchError> {
    library.coded_len(raw).map_err(|source| {
        let (path, algorithm) = (item.path.clone(), library.name());
        BenchError::Candidate { path, algorithm, source: source.into() }
    })
}

fn plot(args: &Args, speeds: &Speeds, any: Option<f64>) -> Plot {
    let mut data: Vec<String> = args.data.iter().map(|path| path.display().to_string()).collect();
    if args.data == [Path::new(SAMPLES)] {
        data = vec!["the samples of the repository".into()];
    }
    let cpu = Cpu::active().isa();
    Plot {
        titles: vec![
            format!("Ratio against speed: {}", data.join(" ")),
            format!("{}, {cpu}; each file in turn, best of all rounds", Machine::detect().describe()),
        ],
        marks: speeds.marks(),
        reference: Reference { name: "memcpy", gbps: speeds.memcpy_gbps() },
        speed: "GB/s of uncompressed data, one thread (filled: encode, ring: decode)",
        level: any.map(|ratio| ("any: smallest algorithm of each chunk (computed)".into(), ratio)),
    }
}
