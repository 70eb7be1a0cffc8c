//! The kernels of an algorithm, run by the machine: what `codecs/kernels/frame/batch.cuh` says that they are given.

use mgcomp_codecs::device::KernelSource;
use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use thiserror::Error;

use super::fault::{Fault, ParseError};
use super::grid::{self, Grid, Order};
use super::memory::Global;
use super::parse::Program;
use super::traffic::Counts;
use crate::shim::sources::CODECS;
use crate::shim::{Kernel, Status, launch};

/// Bytes of `MgcBatch` before its jobs, and of an `MgcJob`.
const BATCH_LEN: usize = 64;
const JOB_LEN: usize = 64;

/// Instructions that a launch may take: far more than any here does.
const LIMIT: u64 = 1 << 26;

/// What the room for results holds before a launch.
const UNTOUCHED: u8 = 0x5a;

/// Why there are no kernels.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// No PTX of the algorithm ships.
    #[error("no PTX of {0} ships")]
    NotShipped(Algorithm),
    /// The machine does not understand it.
    #[error(transparent)]
    Parse(#[from] ParseError),
}

/// The kernels of an algorithm.
#[derive(Clone, Debug)]
pub struct Kernels {
    algorithm: Algorithm,
    program: Program,
}

/// How kernels are launched.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Of the frames to write; the largest of those to read.
    pub chunk_size: ChunkSize,
    /// Blocks of the grid.
    pub blocks: u32,
    /// The order in which they go on.
    pub order: Order,
    /// How far behind a multiple of 16 raw bytes start, 0 to 15.
    pub raw_offset: u64,
}

/// A buffer of a launch.
#[derive(Clone, Debug)]
pub struct Job {
    source: Vec<u8>,
    room: usize,
    element: u8,
    codebook: Option<Vec<u8>>,
}

/// What became of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the kernel said.
    pub status: Status,
    /// The length that it left.
    pub len: u64,
    /// The destination.
    pub bytes: Vec<u8>,
}

impl Job {
    /// Raw bytes to encode, with the codebook that the portable encoder would fit, and room for the longest frame.
    #[must_use]
    pub fn encode(algorithm: Algorithm, element: Element, raw: &[u8], chunk_size: ChunkSize) -> Self {
        let room = frame::max_frame_len(raw.len(), Options { chunk_size, checksum: false });
        Self { room, ..Self::estimate(algorithm, element, raw) }
    }

    /// Raw bytes whose frame's length is wanted.
    #[must_use]
    pub fn estimate(algorithm: Algorithm, element: Element, raw: &[u8]) -> Self {
        let codec =
            codec_on(Cpu::Portable, algorithm).and_then(|codec| codec.fitted(element, raw, usize::MAX));
        let codebook = codec.and_then(|codec| codec.codebook()).map(|section| section.to_bytes());
        Self { source: raw.to_vec(), room: 0, element: element.number(), codebook }
    }

    /// A frame of so many raw bytes.
    #[must_use]
    pub fn decode(frame: &[u8], raw_len: usize) -> Self {
        Self { source: frame.to_vec(), room: raw_len, element: 0, codebook: None }
    }
}

impl Answer {
    /// The frame that an encoder wrote; nothing may have been written behind it.
    ///
    /// # Panics
    /// If there was.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        let (frame, rest) = self.bytes.split_at(self.len as usize);
        assert!(rest.iter().all(|byte| *byte == UNTOUCHED), "bytes behind the frame were written");
        frame
    }
}

impl Kernels {
    /// The kernels of `algorithm` as they ship.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn shipped(algorithm: Algorithm) -> Result<Self, LoadError> {
        let missing = LoadError::NotShipped(algorithm);
        let source = KernelSource::of(algorithm).ok_or_else(|| missing.clone())?;
        let text = source.shipped_ptx().map_err(|_| missing)?;
        Ok(Self::of(algorithm, &text)?)
    }

    /// The kernels of `algorithm` in a text.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn of(algorithm: Algorithm, text: &str) -> Result<Self, ParseError> {
        Ok(Self { algorithm, program: Program::parse(text)? })
    }

    /// The program that they are part of.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The name of a kernel.
    #[must_use]
    pub fn name(&self, kernel: Kernel) -> String {
        let verb = match kernel {
            Kernel::Encode => "encode",
            Kernel::Decode => "decode",
            Kernel::Estimate => "estimate",
        };
        format!("{}_{verb}", self.algorithm)
    }

    /// Runs a kernel on `jobs`; gives what became of each, and what the launch took.
    ///
    /// # Errors
    /// What the kernel did wrong.
    ///
    /// # Panics
    /// If there is no such kernel, or it left the workspace other than zero.
    pub fn run(&self, kernel: Kernel, jobs: &[Job], setup: Setup) -> Result<(Vec<Answer>, Counts), Fault> {
        let name = self.name(kernel);
        let entry = self.program.entry(&name).unwrap_or_else(|| panic!("no {name}"));
        let mut global = Global::default();
        let batch = Batch::new(kernel, jobs, setup, &mut global);
        let grid = Grid {
            blocks: setup.blocks,
            threads: launch::BLOCK_THREADS,
            dynamic_len: self.dynamic_len(kernel, setup.chunk_size),
            order: setup.order,
            limit: LIMIT,
        };
        let counts = grid::launch(entry, grid, &batch.parameters, &mut global)?;
        let dirty = global.bytes(batch.workspace).iter().position(|byte| *byte != 0);
        assert_eq!(dirty, None, "{name}: a byte of the workspace is not zero");
        Ok((batch.places.iter().map(|places| places.answer(&global)).collect(), counts))
    }

    /// Dynamic shared memory of a launch, as hosts ask for it.
    fn dynamic_len(&self, kernel: Kernel, chunk_size: ChunkSize) -> u64 {
        let (encode, decode) = scratch(&self.algorithm.to_string());
        let (buffers, scratch) = match kernel {
            Kernel::Encode => (launch::ENCODE_BUFFERS, encode),
            Kernel::Decode => (launch::DECODE_BUFFERS, decode),
            Kernel::Estimate => (launch::ESTIMATE_BUFFERS, encode),
        };
        u64::from(buffers << chunk_size.log2()) + u64::from(scratch << chunk_size.log2() >> 10)
    }
}

/// Shared memory that kernels of `codec` take besides buffers, to encode and to decode, in bytes for each KiB of the
/// chunk size.
fn scratch(codec: &str) -> (u32, u32) {
    let lines = CODECS.lines().filter_map(|line| line.strip_prefix("MGC_CODEC(")?.strip_suffix(')'));
    let found = lines.map(|line| line.split(", ").collect()).find_map(|fields: Vec<&str>| match fields[..] {
        [name, _, encode, decode] if name == codec => Some((encode.parse().ok()?, decode.parse().ok()?)),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("codecs.h: no scratch of {codec}"))
}

/// Where the buffers of a launch lie, and what its kernel is given.
struct Batch {
    parameters: Vec<u8>,
    workspace: u64,
    places: Vec<Places>,
}

/// Where the results of a job are.
struct Places {
    dst: u64,
    len: u64,
    status: u64,
}

impl Places {
    fn answer(&self, global: &Global) -> Answer {
        let word = |address| {
            let bytes: [u8; 8] = global.bytes(address).try_into().expect("a word");
            u64::from_le_bytes(bytes)
        };
        Answer {
            status: Status::from_word(word(self.status)),
            len: word(self.len),
            bytes: global.bytes(self.dst).to_vec(),
        }
    }
}

impl Batch {
    /// Puts the buffers of `jobs` into `global`.
    fn new(kernel: Kernel, jobs: &[Job], setup: Setup, global: &mut Global) -> Self {
        let mut parameters = vec![0; BATCH_LEN + JOB_LEN * launch::MAX_JOBS as usize];
        assert!(jobs.len() <= launch::MAX_JOBS as usize, "{} jobs", jobs.len());
        let (mut chunks, mut places) = (0, Vec::new());
        for (index, job) in jobs.iter().enumerate() {
            let to = &mut parameters[BATCH_LEN + JOB_LEN * index..][..JOB_LEN];
            places.push(put_job(to, kernel, job, chunks, setup, global));
            chunks += (job.source.len() as u64).div_ceil(setup.chunk_size.bytes() as u64).max(1) as u32;
        }
        // Only an encoder keeps a word for each chunk.
        let states = if kernel == Kernel::Encode { chunks } else { 0 };
        let workspace = global.add(vec![0; 8 * (launch::WORKSPACE_WORDS + states) as usize], 0, true);
        put(&mut parameters, 0, jobs.len() as u64, 4);
        put(&mut parameters, 4, chunks.into(), 4);
        put(&mut parameters, 8, setup.chunk_size.log2().into(), 4);
        put(&mut parameters, 16, workspace, 8);
        Self { parameters, workspace, places }
    }
}

/// Writes an `MgcJob`, and puts its buffers into `global`.
fn put_job(
    to: &mut [u8],
    kernel: Kernel,
    job: &Job,
    first_chunk: u32,
    setup: Setup,
    global: &mut Global,
) -> Places {
    let (src_offset, dst_offset) =
        if kernel == Kernel::Decode { (0, setup.raw_offset) } else { (setup.raw_offset, 0) };
    let src = global.add(job.source.clone(), src_offset, false);
    let dst = global.add(vec![UNTOUCHED; job.room], dst_offset, true);
    let untouched = || u64::MAX.to_le_bytes().to_vec();
    let (len, status) = (global.add(untouched(), 0, true), global.add(untouched(), 0, true));
    let codebook =
        job.codebook.as_ref().map(|section| (global.add(section.clone(), 0, false), section.len()));
    let (codebook, codebook_len) = codebook.unwrap_or_default();
    put(to, 0, src, 8);
    put(to, 8, job.source.len() as u64, 8);
    put(to, 16, codebook, 8);
    put(to, 24, dst, 8);
    put(to, 32, job.room as u64, 8);
    put(to, 40, len, 8);
    put(to, 48, status, 8);
    put(to, 56, first_chunk.into(), 4);
    put(to, 60, job.element.into(), 2);
    put(to, 62, codebook_len as u64 / u64::from(launch::UNIT), 2);
    Places { dst, len, status }
}

fn put(to: &mut [u8], at: usize, value: u64, len: usize) {
    to[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}
