//! `mgcomp-bench gather`: rows of packed tables over a simulated link, beside plain rows and what the paper has.

mod args;
mod measure;
mod picture;
mod print;
mod published;
pub(crate) mod rows;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use mgcomp_codecs::Cpu;
use mgcomp_codecs::ibp::{Codebook, Granule, Invariants};
use mgcomp_transport::simulated::SimulatedLink;
use mgcomp_transport::table::{Sample, Table, TableError, TableOptions};

use crate::codec::{parse_bytes, parse_seconds};
use crate::error::BenchError;
use crate::machine;
use crate::scale::positive;
use args::{RowFile, parse_percent};
use print::{Gather, Printer, Sampled, Space};
use rows::Rows;

/// Savings at which rows of these lengths are gathered, as in the paper's microbenchmark.
const ROW_LENS: [usize; 3] = [256, 1024, 4096];
const SAVINGS: [u32; 4] = [25, 50, 75, 90];
/// How much memory a run takes at most beside its rows, in copies of the longest set of them: rows of a chosen saving, a
/// table of packed and one of plain rows, and room to breathe.
const COPIES: u64 = 4;

/// Rows of tables that are packed in place: space saved by the part of the rows that is looked at, and gathers over a
/// simulated link beside gathers of plain rows.
///
/// There is no device: a clock lets bytes pass at the rate of the link, and cores of this machine decode. Every gather is
/// compared with the rows before it is timed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rows from files, as in features.bin:f32:400, instead of generated ones
    #[arg(long, num_args = 1.., value_name = "FILE:ELEMENT:ROWBYTES")]
    data: Vec<RowFile>,
    /// Parts of the rows that invariant bits are found from, in percent, for the table of space alone: for gathers it is
    /// 10; never fewer rows than 128 for each cluster
    #[arg(long, num_args = 1.., default_values = ["1", "5", "10", "25", "50", "100"], value_parser = parse_percent)]
    sample: Vec<f64>,
    /// Groups of rows that may have invariant bits of their own
    #[arg(long, default_value_t = 1)]
    clusters: usize,
    /// Threads that decode [default: 1, and as many as there are cores]
    #[arg(long, num_args = 1.., value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Rate of the simulated link in 10⁹ bytes per second
    #[arg(long, default_value_t = 16.0, value_parser = positive, allow_negative_numbers = true)]
    link_gbytes: f64,
    /// Rows of a gather
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: u32,
    /// Bytes of generated rows of a kind, as in 64M
    #[arg(long, default_value = "16M", value_parser = parse_bytes, conflicts_with = "data")]
    bytes: usize,
    /// Seconds for each row of gathers
    #[arg(long, default_value = "0.25", value_parser = parse_seconds)]
    seconds: Duration,
    /// Draw speed-up over space saved, of generated rows
    #[arg(long, value_name = "FILE.svg", conflicts_with = "data")]
    plot: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    if let Some(path) = &args.plot {
        mgcomp_plot::check_place(path)?;
    }
    let link = SimulatedLink::of_gigabytes(args.link_gbytes, Duration::ZERO)?;
    check_memory(args)?;
    let printer = Printer { json: args.json };
    let data: Vec<Rows> = if args.data.is_empty() {
        rows::generate(args.bytes).collect()
    } else {
        args.data.iter().map(rows::from_file).collect::<Result<_, _>>()?
    };
    printer.start()?;
    printer.space_head(&args.sample)?;
    data.iter().try_for_each(|rows| printer.space(&space(rows, args)?))?;

    let largest = data.iter().map(|rows| rows.bytes.len()).fold(0, usize::max);
    printer.gather_head(&link, args.batch as usize, largest)?;
    let threads = threads(args);
    for rows in &data {
        for &threads in &threads {
            printer.gather(&gather(rows, threads, &link, args)?)?;
        }
    }
    if args.data.is_empty() {
        let most = threads.last().copied().unwrap_or(1);
        let measured = savings(&printer, most, &link, args)?;
        if let Some(path) = &args.plot {
            mgcomp_plot::write_file(path, picture::draw(&measured).as_bytes())?;
        }
    }
    printer.notes(data.iter().filter_map(|rows| rows.kind))
}

fn check_memory(args: &Args) -> Result<(), BenchError> {
    // What is wrong with a file is told when it is read.
    let of_file = |file: &RowFile| (fs::metadata(&file.path).map_or(0, |data| data.len()), file.row_len);
    let sizes: Vec<(u64, usize)> = if args.data.is_empty() {
        rows::sizes(args.bytes).collect()
    } else {
        args.data.iter().map(of_file).collect()
    };
    let all = sizes.iter().fold(0u64, |sum, (bytes, _)| sum.saturating_add(*bytes));
    let longest = sizes.iter().map(|(bytes, _)| *bytes).fold(0, u64::max);
    let gathered = sizes.iter().map(|(_, row_len)| u64::from(args.batch).saturating_mul(*row_len as u64));
    let copies = COPIES.saturating_mul(longest);
    let needed = all.saturating_add(copies).saturating_add(gathered.fold(0, u64::max));
    machine::check_memory(usize::try_from(longest).unwrap_or(usize::MAX), needed)
}

/// Rows of every length and saving.
fn savings(
    printer: &Printer,
    threads: usize,
    link: &SimulatedLink,
    args: &Args,
) -> Result<Vec<Gather>, BenchError> {
    let mut measured = Vec::new();
    for row_len in ROW_LENS {
        for saved in SAVINGS {
            let row = gather(&rows::chosen_saving(row_len, saved, args.bytes), threads, link, args)?;
            printer.gather(&row)?;
            measured.push(row);
        }
    }
    Ok(measured)
}

fn space(rows: &Rows, args: &Args) -> Result<Space, BenchError> {
    let mut samples = Vec::new();
    for &percent in &args.sample {
        let options = options(args, Sample::Percent(percent), cores());
        let table = Table::build(rows.bytes.clone(), rows.row_len, &options).map_err(failed(rows))?;
        let (raw, stored) = (table.raw_bytes() as f64, table.stored_bytes() as f64);
        samples.push(Sampled {
            percent,
            rows: options.sample.count(table.rows(), args.clusters),
            saved_percent: saved_percent(&table),
            ratio: raw / stored,
        });
    }
    let ratio = |percent| samples.iter().find(|sample| sample.percent == percent).map(|sample| sample.ratio);
    let published = rows.kind.map(published::Kind::published);
    Ok(Space {
        bench: "gather-space",
        data: rows.name.clone(),
        rows: (rows.bytes.len() / rows.row_len) as u64,
        row_bytes: rows.row_len,
        tenth_of_all: ratio(10.0).zip(ratio(100.0)).map(|(tenth, all)| tenth / all),
        samples,
        paper_saved_percent: published.map(|published| published.saved_percent),
        paper_tenth_of_all: published.and_then(|published| published.tenth_of_all),
    })
}

fn gather(rows: &Rows, threads: usize, link: &SimulatedLink, args: &Args) -> Result<Gather, BenchError> {
    let options = options(args, Sample::Percent(10.0), threads);
    let packed = Table::build(rows.bytes.clone(), rows.row_len, &options).map_err(failed(rows))?;
    let plain = plain(rows, &options).map_err(failed(rows))?;
    // As a device has them.
    let large_pages = packed.enlarge_pages().is_ok() & plain.enlarge_pages().is_ok();
    let times = measure::measure(rows, [&plain, &packed], args.batch as usize, link, args.seconds)?;
    Ok(Gather::new(rows, saved_percent(&packed), threads, large_pages, &times, link))
}

/// A table of the same rows that saves nothing: the same threads, and the same memory.
fn plain(rows: &Rows, options: &TableOptions) -> Result<Table, TableError> {
    let nothing = Invariants { mask: vec![0; rows.row_len], bitval: vec![0; rows.row_len] };
    let codebook = Codebook::new(Granule::for_tensor(rows.row_len), rows.row_len, vec![nothing])?;
    Table::with_codebook(rows.bytes.clone(), codebook, options)
}

fn options(args: &Args, sample: Sample, threads: usize) -> TableOptions {
    TableOptions { granule: None, clusters: args.clusters, sample, threads, cpu: Cpu::active() }
}

fn failed(rows: &Rows) -> impl Fn(TableError) -> BenchError {
    let data = rows.name.clone();
    move |source| BenchError::Table { data: data.clone(), source }
}

fn saved_percent(table: &Table) -> f64 {
    100.0 - 100.0 * table.stored_bytes() as f64 / table.raw_bytes() as f64
}

fn threads(args: &Args) -> Vec<usize> {
    match &args.threads[..] {
        [] if cores() > 1 => vec![1, cores()],
        [] => vec![1],
        chosen => chosen.iter().copied().map(usize::from).collect(),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
