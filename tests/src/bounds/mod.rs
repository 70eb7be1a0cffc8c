//! How fast the kernels could be at most, by the instructions and bytes that they take: a model, and no measurement.
//!
//! The PTX machine runs the kernels on made-up data and counts; the line information of machine code says which of its
//! instructions come from which line of PTX. `codecs/kernels/BOUNDS.md` says how, and what is left out.

pub mod data;
pub mod machine_code;
pub mod model;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mgcomp_codecs::device::{Compiler, KernelSource, Target};
use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, codec_on};

use crate::ptx::{Counts, Job, Kernels, Order, SECTOR_LEN, Setup};
use crate::shim::sources::KERNELS_DIR;
use crate::shim::{Kernel, Status};
use data::{SUBJECTS, Subject};
use machine_code::Function;
use model::{ISSUES, Pipe, Work, executed};

/// Errors are for a person to read.
type Failure = Box<dyn std::error::Error>;

/// The device whose machine code is counted.
const TARGET: &str = "sm_90";

/// How to renew the table.
pub const RENEW: &str = "cargo run --release -p mgcomp-tests --bin kernels -- --bounds NVDISASM";

/// Raw bytes of a run: so many chunks that what a launch takes besides hardly counts.
const RAW_LEN: usize = CHUNKS * ChunkSize::DEFAULT.bytes();
const CHUNKS: usize = 16;

/// Raw bytes that counts are for.
const PER: f64 = 32.0;

/// What a kernel that ships takes on some data.
#[derive(Clone, Copy, Debug)]
struct Shipped {
    subject: Subject,
    kernel: Kernel,
    /// Raw bytes over those of the frame.
    ratio: f64,
    /// Instructions of PTX that warps execute.
    instructions: f64,
    /// Lanes that one of them works for, of 32.
    lanes: f64,
}

/// What the machine code of a kernel takes on some data.
#[derive(Clone, Copy, Debug)]
struct Assembled {
    /// Bytes of sectors that accesses of warps touch, read and written, for each raw byte.
    touched: f64,
    /// Cycles of shared memory.
    shared_cycles: f64,
    /// What takes longest.
    limit: &'static str,
    work: Work,
}

/// The file of the table.
#[must_use]
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(KERNELS_DIR).join("BOUNDS.md")
}

/// What the file has to hold.
///
/// # Errors
/// What the compiler or the disassembler says, or a kernel that does not give the portable answer.
pub fn table(compiler: &Compiler, disassembler: &Path) -> Result<String, Failure> {
    let mut text = HEAD.replace("{RENEW}", RENEW).replace("{KIB}", &(RAW_LEN >> 10).to_string());
    let mut machine_code: HashMap<u8, Compiled> = HashMap::new();
    for subject in &SUBJECTS {
        let data = Data::new(subject)?;
        let compiled = match machine_code.entry(subject.algorithm.number()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(compile(compiler, disassembler, subject.algorithm)?),
        };
        let kernels = Kernels::shipped(subject.algorithm)?;
        for kernel in KERNELS {
            let shipped = ship(&kernels, &data, kernel)?;
            let assembled = assemble(compiled, &data, kernel)?;
            let _ = writeln!(text, "{} {}", render_shipped(&shipped), render_assembled(&shipped, &assembled));
        }
    }
    Ok(text)
}

/// How the rows of the file have to start: what follows from the PTX that ships alone.
///
/// # Errors
/// A kernel that does not give the portable answer.
pub fn starts_of_rows() -> Result<Vec<String>, Failure> {
    let mut starts = Vec::new();
    for subject in &SUBJECTS {
        let data = Data::new(subject)?;
        let kernels = Kernels::shipped(subject.algorithm)?;
        for kernel in KERNELS {
            starts.push(render_shipped(&ship(&kernels, &data, kernel)?));
        }
    }
    Ok(starts)
}

const KERNELS: [Kernel; 3] = [Kernel::Encode, Kernel::Decode, Kernel::Estimate];

/// Raw bytes and their frame.
struct Data<'a> {
    subject: &'a Subject,
    raw: Vec<u8>,
    coded: Vec<u8>,
}

impl<'a> Data<'a> {
    fn new(subject: &'a Subject) -> Result<Self, Failure> {
        let raw = subject.bytes(RAW_LEN);
        let options = Options { chunk_size: ChunkSize::DEFAULT, checksum: false };
        let codec = codec_on(Cpu::Portable, subject.algorithm).ok_or("no codec")?;
        let coded = frame::encode(codec, subject.element, &raw, options)?;
        Ok(Self { subject, raw, coded })
    }
}

/// The kernels of one algorithm as machine code, and the PTX that it was made of.
struct Compiled {
    kernels: Kernels,
    functions: HashMap<String, Function>,
}

fn compile(compiler: &Compiler, disassembler: &Path, algorithm: Algorithm) -> Result<Compiled, Failure> {
    let source = KernelSource::of(algorithm).ok_or_else(|| format!("{algorithm} has no kernels"))?;
    let target: Target = TARGET.parse()?;
    let cubin = compiler.compile_with_lines(source, target)?.image;
    Ok(Compiled {
        kernels: Kernels::of(algorithm, &machine_code::ptx_of(&cubin)?)?,
        functions: machine_code::disassemble(disassembler, &cubin, &std::env::temp_dir())?,
    })
}

/// Runs a kernel, checks its answer, and gives what it took.
fn run(kernels: &Kernels, data: &Data<'_>, kernel: Kernel) -> Result<Counts, Failure> {
    let Data { subject, raw, coded } = data;
    let Subject { algorithm, element, .. } = **subject;
    let setup = Setup { chunk_size: ChunkSize::DEFAULT, blocks: 1, order: Order::InTurn, raw_offset: 0 };
    let job = match kernel {
        Kernel::Encode => Job::encode(algorithm, element, raw, setup.chunk_size),
        Kernel::Decode => Job::decode(coded, raw.len()),
        Kernel::Estimate => Job::estimate(algorithm, element, raw),
    };
    let (answers, counts) = kernels.run(kernel, &[job], setup)?;
    let is_right = match kernel {
        Kernel::Encode => answers[0].frame() == coded,
        Kernel::Decode => answers[0].bytes == *raw,
        Kernel::Estimate => answers[0].len == coded.len() as u64,
    };
    if answers[0].status == Status::GOOD && is_right {
        Ok(counts)
    } else {
        Err(format!("{}: another answer than the portable one", kernels.name(kernel)).into())
    }
}

fn ship(kernels: &Kernels, data: &Data<'_>, kernel: Kernel) -> Result<Shipped, Failure> {
    let counts = run(kernels, data, kernel)?;
    Ok(Shipped {
        subject: *data.subject,
        kernel,
        ratio: RAW_LEN as f64 / data.coded.len() as f64,
        instructions: per(counts.instructions() as f64),
        lanes: counts.lanes.iter().sum::<u64>() as f64 / counts.instructions() as f64,
    })
}

fn assemble(compiled: &Compiled, data: &Data<'_>, kernel: Kernel) -> Result<Assembled, Failure> {
    let counts = run(&compiled.kernels, data, kernel)?;
    let name = compiled.kernels.name(kernel);
    let missing = || format!("no machine code of {name}");
    let function = compiled.functions.get(&name).ok_or_else(missing)?;
    let entry = compiled.kernels.program().entry(&name).ok_or_else(missing)?;
    let of_line: HashMap<u32, u64> = entry.lines().zip(counts.executed.iter().copied()).collect();
    let of_pipe = executed(function, &of_line);
    let instructions = per(of_pipe.values().sum());
    let shared_cycles = per(counts.shared_cycles as f64);
    let cycles = |pipe: Pipe| per(of_pipe.get(&pipe).copied().unwrap_or(0.0)) / pipe.per_cycle();
    let limits = Pipe::ALL.map(|pipe| (cycles(pipe), pipe.name()));
    let others = [(instructions / ISSUES, "issue"), (shared_cycles, "banks")];
    let all = limits.into_iter().chain(others);
    let (pipe_cycles, limit) = all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
    let coded_len = if kernel == Kernel::Estimate { 0 } else { data.coded.len() };
    let touched = (counts.loads.sectors + counts.stores.sectors) * SECTOR_LEN;
    Ok(Assembled {
        touched: touched as f64 / RAW_LEN as f64,
        shared_cycles,
        limit,
        work: Work { instructions, pipe_cycles, bytes: per((RAW_LEN + coded_len) as f64) },
    })
}

/// What comes on [`PER`] raw bytes of a count over all.
fn per(count: f64) -> f64 {
    count * PER / RAW_LEN as f64
}

/// The least fraction of the copy's rate that is wanted of a kernel on an H100.
fn goal(algorithm: Algorithm, kernel: Kernel) -> Option<f64> {
    match (algorithm, kernel) {
        (Algorithm::Rle, _) | (_, Kernel::Estimate) => None,
        (Algorithm::Zvc | Algorithm::Bdi | Algorithm::Ibp | Algorithm::Xp, Kernel::Encode) => Some(0.7),
        (Algorithm::Zvc | Algorithm::Bdi | Algorithm::Ibp | Algorithm::Xp, Kernel::Decode) => Some(0.85),
        _ => Some(0.3),
    }
}

const HEAD: &str = include_str!("head.md");

fn render_shipped(row: &Shipped) -> String {
    let Shipped { subject, kernel, ratio, instructions, lanes } = row;
    let verb = format!("{kernel:?}").to_lowercase();
    let Subject { algorithm, element, what, .. } = subject;
    format!("| `{algorithm}_{verb}` | {element} {what} | {ratio:.2} | {instructions:.1} | {lanes:.0} |")
}

fn render_assembled(shipped: &Shipped, row: &Assembled) -> String {
    let Assembled { touched, shared_cycles, limit, work } = row;
    let goal = goal(shipped.subject.algorithm, shipped.kernel);
    let goal = goal.map_or("–".to_owned(), |goal| goal.to_string());
    let bytes = work.bytes / PER;
    let (issue, pipe) = (work.issue_bound(), work.pipe_bound());
    let limit = if pipe < 1.0 { limit } else { "bytes" };
    format!(
        "{:.1} | {bytes:.2} | {touched:.2} | {shared_cycles:.1} | {issue:.2} | {pipe:.2} {limit} | {goal} |",
        work.instructions
    )
}
