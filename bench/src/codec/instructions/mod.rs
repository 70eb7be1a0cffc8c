//! `mgcomp-bench codec --instructions`: how many instructions the codecs run, counted one by one.
//!
//! Counters of the processor are often not to be had, in virtual machines above all. So this program starts
//! itself once more and lets the system stop that process after every instruction. The two walk through the
//! same list; the one that is traced stops itself before and after each operation.

mod table;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod traced;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracer;

use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Codec, Cpu, Element, codec_on};

use super::Args;
use crate::data;
use crate::error::{self, BenchError};

/// Raw bytes of each combination unless flags say otherwise: four chunks.
pub(super) const BYTES: usize = 64 << 10;

/// Why instructions cannot be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CountError {
    #[error("instructions are counted on Linux on x86-64 only")]
    #[cfg_attr(all(target_os = "linux", target_arch = "x86_64"), allow(dead_code))]
    System,
    #[error("--instructions counts our codecs on one thread of the CPU; --{flag} means nothing to it")]
    Flag { flag: &'static str },
    #[error("cannot start this program once more")]
    Start(#[source] std::io::Error),
    #[error("the system does not let a process be traced")]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Trace(#[from] nix::Error),
    #[error("the traced process ended early: {0}")]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Ended(String),
    #[error("{algorithm} did not take the same way twice: byte {offset} came back different")]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    RoundTrip { algorithm: Algorithm, offset: usize },
}

/// What is counted: a codec on chunks of the size that frames have.
struct Subject {
    algorithm: Algorithm,
    element: Element,
    dataset: String,
    cpu: Cpu,
    raw: Vec<u8>,
}

impl Subject {
    fn codec(&self) -> &'static dyn Codec {
        codec_on(self.cpu, self.algorithm).expect("the plan names codecs of the table")
    }

    fn chunks(&self) -> std::slice::Chunks<'_, u8> {
        self.raw.chunks(ChunkSize::for_len(super::SMALL_BYTES).bytes())
    }
}

/// What is counted of each subject, in this order.
const OPERATIONS: usize = 3;

/// Everything that `args` names, and how much of it cannot be had, which goes to `report`.
fn subjects(args: &Args, report: impl Fn(&BenchError)) -> Result<(Vec<Subject>, usize), BenchError> {
    let (items, mut failed) = super::items(args, &report)?;
    let machine = crate::machine::Machine::detect();
    let mut choices = super::choices(args, &machine, &items);
    choices.subjects.retain(|subject| matches!(subject, super::Subject::Codec(_)));
    choices.threads = vec![1];
    choices.bytes = if args.bytes.is_empty() { vec![BYTES] } else { args.bytes.clone() };
    let mut subjects = Vec::new();
    for group in choices.combinations().chunk_by(|a, b| (a.bytes, a.item) == (b.bytes, b.item)) {
        let super::Combination { bytes, item, .. } = group[0];
        let mut raw = vec![0; bytes];
        if let Err(error) = data::fill(item, &mut raw) {
            report(&error);
            failed += group.len();
            continue;
        }
        for combination in group {
            let (super::Subject::Codec(algorithm), Some(cpu)) = (combination.subject, combination.cpu) else {
                continue;
            };
            let (element, dataset, raw) = (item.element, item.label.clone(), raw.clone());
            subjects.push(Subject { algorithm, element, dataset, cpu, raw });
        }
    }
    Ok((subjects, failed))
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(super) fn run(_: &Args) -> Result<(), BenchError> {
    Err(CountError::System.into())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) fn run(args: &Args) -> Result<(), BenchError> {
    let flags = [
        ("threads", !args.threads.is_empty()),
        ("seconds", args.seconds.is_some()),
        ("checksum", args.checksum),
        ("device", args.device != super::Processor::Cpu),
        ("algorithm lz4 or zstd-1", args.names_libraries()),
    ];
    if let Some((flag, _)) = flags.into_iter().find(|(_, given)| *given) {
        return Err(CountError::Flag { flag }.into());
    }
    if args.traced {
        // What is missing, whoever counts has reported.
        let (subjects, _) = subjects(args, |_| ())?;
        return Ok(traced::run(&subjects)?);
    }
    let (subjects, failed) = subjects(args, error::report)?;
    let mut tracer = tracer::Tracer::start()?;
    table::heading(args.json)?;
    for subject in &subjects {
        let mut counts = [0; OPERATIONS];
        for count in &mut counts {
            *count = tracer.next_count()?;
        }
        table::print(args.json, subject, counts)?;
    }
    tracer.finish()?;
    let rows = subjects.len() + failed;
    if failed > 0 { Err(BenchError::IncompleteRows { failed, rows }) } else { Ok(()) }
}
