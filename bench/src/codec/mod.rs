//! `mgcomp-bench codec`: how fast each codec is, beside memcpy, LZ4 and zstd.

mod args;
mod instructions;
mod measure;
mod plan;
mod print;
mod subject;

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mgcomp_codecs::{Algorithm, Cpu, Element};

use crate::data::{self, Item, SAMPLES};
use crate::error::{self, BenchError};
use crate::gpu;
use crate::machine::{self, Machine};
use crate::timing::Buffer;
use args::Processor;
pub(crate) use args::{ArgError, Data, parse_bytes, parse_seconds};
pub(crate) use instructions::CountError;
use measure::Place;
use plan::{Choices, Combination};
use print::Printer;
use subject::Subject;
pub(crate) use subject::home;

/// Size of the small buffer where the system does not tell that of the second-level cache.
const SMALL_BYTES: usize = 512 << 10;
/// Size of the large buffer where the last-level cache is not larger than half of it.
const LARGE_BYTES: usize = 256 << 20;
/// Time for a combination on a buffer that fits into a cache.
const SMALL_BUDGET: Duration = Duration::from_millis(100);
/// The same on a larger one: enough for several passes over memory.
const LARGE_BUDGET: Duration = Duration::from_millis(400);
/// How much memory a combination takes at most, in buffers: raw, coded and decoded bytes, and room to breathe.
const BUFFERS: u64 = 4;

/// Speed of encoding, decoding and estimating whole frames, beside memcpy of the same buffer in the same run.
///
/// Without flags: each codec on the sample in the repository that it is made for, beside LZ4 and zstd level 1;
/// half the second-level cache and more than the last-level cache (at least 256 MiB); one thread and two; the
/// best instruction set, and the others on the small buffer with one thread. A flag replaces the choice for
/// what it names, and every combination is measured. Where speeds are compared with those of a library, mind
/// that it sees no more than one tile (4 MiB at most) at a time.
/// What cannot be measured is reported; the rest is measured all the same, and the exit code is 1.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Codecs and libraries [default: all]
    #[arg(long, num_args = 1.., value_parser = subject_parser())]
    algorithm: Vec<Subject>,
    /// Only data of these elements
    #[arg(long, num_args = 1.., value_parser = element_parser())]
    element: Vec<Element>,
    /// Instruction sets: portable, avx2 or avx512
    #[arg(long, num_args = 1.., value_parser = args::parse_isa)]
    isa: Vec<Cpu>,
    /// Numbers of threads that share a buffer
    #[arg(long, num_args = 1.., value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Sizes of the buffer, such as 65536, 512K, 256M or 1G
    #[arg(long, num_args = 1.., value_parser = args::parse_bytes)]
    bytes: Vec<usize>,
    /// Files, as FILE:ELEMENT or as their folder's corpus.json or their names say, or folders; each is
    /// repeated up to the size, from another offset each time [default: the samples in the repository]
    #[arg(long, num_args = 1..)]
    data: Vec<Data>,
    /// Time for each combination [default: 0.1 where the buffer fits into a cache, else 0.4]
    #[arg(long, value_parser = args::parse_seconds)]
    seconds: Option<Duration>,
    /// Frames with checksums, as in files; without, as on links that have their own
    #[arg(long)]
    checksum: bool,
    /// The processor whose memory the buffers lie in: cpu, cuda or cuda:NUMBER
    #[arg(long, default_value = "cpu")]
    device: Processor,
    /// Instead of times: instructions per 64 bytes of uncompressed data, counted one by one on one thread
    #[arg(long)]
    instructions: bool,
    /// Be the process whose instructions are counted
    #[arg(long, hide = true, requires = "instructions")]
    traced: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Fails if a flag is there that means nothing to devices.
    fn check_for_devices(&self) -> Result<(), BenchError> {
        let flags = [
            ("isa", !self.isa.is_empty()),
            ("threads", !self.threads.is_empty()),
            ("checksum", self.checksum),
            ("seconds", self.seconds.is_some()),
            ("element", !self.element.is_empty()),
            ("algorithm lz4 or zstd-1", self.names_libraries()),
        ];
        match flags.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(BenchError::NotOnDevices { flag }),
            None => Ok(()),
        }
    }

    fn names_libraries(&self) -> bool {
        self.algorithm.iter().any(|subject| matches!(subject, Subject::Library(_)))
    }

    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    pub(crate) fn bytes(&self) -> &[usize] {
        &self.bytes
    }

    pub(crate) fn data(&self) -> &[Data] {
        &self.data
    }

    /// The codecs that flags name.
    pub(crate) fn algorithms(&self) -> Vec<Algorithm> {
        let codec = |subject: &Subject| match subject {
            Subject::Codec(algorithm) => Some(*algorithm),
            Subject::Library(_) => None,
        };
        self.algorithm.iter().filter_map(codec).collect()
    }
}

fn subject_parser() -> impl TypedValueParser<Value = Subject> {
    PossibleValuesParser::new(Subject::all().map(Subject::name)).try_map(|name| name.parse())
}

fn element_parser() -> impl TypedValueParser<Value = Element> {
    PossibleValuesParser::new(Element::ALL.map(Element::name)).try_map(|name| name.parse())
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    if args.instructions {
        return instructions::run(args);
    }
    if let Processor::Cuda(ordinal) = args.device {
        args.check_for_devices()?;
        return gpu::run_codec(args, ordinal);
    }
    let machine = Machine::detect();
    let (items, mut failed) = items(args, error::report)?;
    let choices = choices(args, &machine, &items);
    let largest = choices.bytes.iter().copied().max().unwrap_or_default();
    machine::check_memory(largest, BUFFERS * largest as u64)?;
    let combinations = choices.combinations();
    let rows = combinations.len() + failed;
    let mut printer = Printer::new(args.json, &machine)?;
    for group in combinations.chunk_by(|a, b| (a.bytes, a.item) == (b.bytes, b.item)) {
        failed += measure_group(group, args, &machine, &mut printer)?;
    }
    if failed > 0 { Err(BenchError::IncompleteRows { failed, rows }) } else { Ok(()) }
}

/// The data, and how much of it cannot be had, which goes to `report`.
fn items(args: &Args, report: impl Fn(&BenchError)) -> Result<(Vec<Item>, usize), BenchError> {
    let (mut items, mut failed) = (Vec::new(), 0);
    for item in listed(&args.data) {
        match item {
            Ok(item) => items.push(item),
            Err(error) => {
                report(&error);
                failed += 1;
            }
        }
    }
    let files = items.len();
    items.retain(|item| args.element.is_empty() || args.element.contains(&item.element));
    if items.is_empty() && files > 0 { Err(BenchError::NoElement { files }) } else { Ok((items, failed)) }
}

/// The files of `data`, or the samples of the repository without any.
pub(crate) fn items_of(data: &[Data]) -> Result<Vec<Item>, BenchError> {
    listed(data).into_iter().collect()
}

/// The same, each with what is wrong with it if something is.
fn listed(data: &[Data]) -> Vec<Result<Item, BenchError>> {
    let samples = [Data { path: SAMPLES.into(), element: None }];
    let data = if data.is_empty() { &samples[..] } else { data };
    let of = |Data { path, element }: &Data| {
        let items = data::list(std::slice::from_ref(path), None).into_iter();
        items
            .map(|item| item.map(|item| Item { element: element.unwrap_or(item.element), ..item }))
            .collect::<Vec<_>>()
    };
    data.iter().flat_map(of).collect()
}

fn choices<'a>(args: &Args, machine: &Machine, items: &'a [Item]) -> Choices<'a> {
    let active = Cpu::active();
    let small = machine.l2_bytes().map_or(SMALL_BYTES, |bytes| bytes / 2);
    let large = machine.last_cache_bytes().map_or(LARGE_BYTES, |bytes| LARGE_BYTES.max(2 * bytes));
    Choices {
        subjects: Subject::all()
            .filter(|subject| args.algorithm.is_empty() || args.algorithm.contains(subject))
            .collect(),
        items,
        items_named: !(args.data.is_empty() && args.element.is_empty()),
        cpus: or_default(&args.isa, || Cpu::available().filter(|cpu| cpu.isa() <= active.isa()).collect()),
        cpus_named: !args.isa.is_empty(),
        threads: or_default(&args.threads, || if machine.cores > 1 { vec![1, 2] } else { vec![1] })
            .into_iter()
            .map(usize::from)
            .collect(),
        bytes: or_default(&args.bytes, || vec![small, large]),
    }
}

/// What a flag names, each value once; what `default` says where it names nothing.
fn or_default<T: Copy + PartialEq>(named: &[T], default: impl FnOnce() -> Vec<T>) -> Vec<T> {
    if named.is_empty() {
        return default();
    }
    let mut once = Vec::new();
    for value in named {
        if !once.contains(value) {
            once.push(*value);
        }
    }
    once
}

/// Prints the rows of one buffer and reports those that there are none of; returns how many. Only a failure
/// to print is an error.
fn measure_group(
    group: &[Combination<'_>],
    args: &Args,
    machine: &Machine,
    printer: &mut Printer,
) -> Result<usize, BenchError> {
    let Combination { bytes, item, .. } = group[0];
    let mut place = match place(item, bytes) {
        Ok(place) => place,
        Err(error) => {
            error::report(&error);
            return Ok(group.len());
        }
    };
    let fits = machine.last_cache_bytes().is_some_and(|cache| bytes <= cache);
    let budget = args.seconds.unwrap_or(if fits { SMALL_BUDGET } else { LARGE_BUDGET });
    let mut failed = 0;
    for combination in group {
        match measure::measure(combination, &mut place, args.checksum, budget) {
            Ok(measured) => printer.print(combination, &measured)?,
            Err(error) => {
                error::report(&error);
                failed += 1;
            }
        }
    }
    Ok(failed)
}

fn place(item: &Item, bytes: usize) -> Result<Place, BenchError> {
    let buffer = || Buffer::new(bytes).map_err(|source| BenchError::Buffer { bytes, source });
    let (mut raw, out) = (buffer()?, buffer()?);
    let tile_len = data::fill(item, &mut raw)?;
    Ok(Place { raw, out, tile_len })
}
