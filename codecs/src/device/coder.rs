//! A codec on a device: enqueues work, and does nothing else.
#![allow(unsafe_code)] // launches kernels

use std::sync::Arc;

use super::launch::{Batch, Direction, Job, MAX_JOBS, UNIT, WORD, WORKSPACE_WORDS};
use super::module::{Module, Prepared, SmLimit};
use super::workspace::chunks_of;
use super::{DeviceCodebook, DeviceError, Origin, Region, Shared, Stream, Word, Workspace};
use crate::frame::{self, ChunkSize, MAX_RAW_LEN, Options};
use crate::{Algorithm, Element};

/// The kernels of one algorithm, ready for one chunk size.
///
/// Each of its calls takes any number of buffers and enqueues one launch for up to 63 of them. What is wrong with
/// the arguments is an error of the call, and then nothing is enqueued; what is wrong with the data is a status
/// in device memory.
#[derive(Clone, Debug)]
pub struct Coder {
    shared: Arc<Shared>,
    origin: Origin,
    algorithm: Algorithm,
    chunk_size: ChunkSize,
    /// By direction.
    kernels: [Prepared; 3],
    sm_limit: SmLimit,
}

/// A buffer to compress.
#[derive(Clone, Copy, Debug)]
pub struct Compress<'a> {
    /// What it holds.
    pub element: Element,
    /// The raw bytes; fastest on a multiple of 16.
    pub src: Region<'a>,
    /// Where the frame goes: on a multiple of 16, with room for
    /// [`max_frame_len`](Coder::max_frame_len) bytes. It must not overlap `src`.
    pub dst: Region<'a>,
    /// For IBP the codebook that was fitted to the bytes. The frame carries it if it pays. Without one, all chunks are
    /// stored raw. Other codecs do not look at it.
    pub codebook: Option<&'a DeviceCodebook>,
    /// Where the frame's length goes, in bytes.
    pub len: Word<'a>,
    /// Where the [`Status`](super::Status) goes.
    pub status: Word<'a>,
}

/// A frame to decompress.
#[derive(Clone, Copy, Debug)]
pub struct Decompress<'a> {
    /// The frame, on a multiple of 16. One that only names its codebook is refused if a chunk needs it.
    pub src: Region<'a>,
    /// Where to find the frame's length when the work runs, if it is less than all of `src`: where a
    /// [`Compress`] before it leaves it, say.
    pub src_len: Option<Word<'a>>,
    /// Where the raw bytes go: as many as the frame holds; fastest on a multiple of 16. It must not overlap
    /// `src`. After an error it holds anything.
    pub dst: Region<'a>,
    /// Where the [`Status`](super::Status) goes.
    pub status: Word<'a>,
}

/// A buffer whose frame's length is wanted, and not the frame.
#[derive(Clone, Copy, Debug)]
pub struct Estimate<'a> {
    /// What it holds.
    pub element: Element,
    /// The raw bytes; fastest on a multiple of 16.
    pub src: Region<'a>,
    /// As for [`Compress`].
    pub codebook: Option<&'a DeviceCodebook>,
    /// Where the length goes, in bytes. It is exact.
    pub len: Word<'a>,
    /// Where the [`Status`](super::Status) goes.
    pub status: Word<'a>,
}

impl Coder {
    pub(super) fn new(
        shared: &Arc<Shared>,
        module: &Module,
        algorithm: Algorithm,
        chunk_size: ChunkSize,
    ) -> Result<Self, DeviceError> {
        let entered = shared.context.enter()?;
        let prepare = |direction| {
            module.prepare(&entered, direction, chunk_size.log2().into(), shared.info.shared_bytes)
        };
        let kernels =
            [prepare(Direction::Encode)?, prepare(Direction::Decode)?, prepare(Direction::Estimate)?];
        let (shared, origin) = (Arc::clone(shared), module.origin);
        Ok(Self { shared, origin, algorithm, chunk_size, kernels, sm_limit: SmLimit::NONE })
    }

    /// Keeps each launch to as many blocks as `count` multiprocessors can run at a time, at least 1, so that other
    /// work finds room on the rest of them.
    #[must_use]
    pub fn limit_sms(mut self, count: u32) -> Self {
        self.sm_limit = SmLimit::of(count);
        self
    }

    /// Its algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The chunk size that it writes, and the largest that it reads.
    #[must_use]
    pub const fn chunk_size(&self) -> ChunkSize {
        self.chunk_size
    }

    /// Where its kernels came from.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// The room in bytes that the frame of `raw_len` bytes may need.
    #[must_use]
    pub fn max_frame_len(&self, raw_len: u64) -> u64 {
        let options = Options { chunk_size: self.chunk_size, checksum: false };
        frame::max_frame_len(raw_len as usize, options) as u64
    }

    /// Enqueues the compression of `jobs`.
    ///
    /// # Errors
    /// What is wrong with the regions, and whatever the driver says.
    pub fn compress(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        jobs: &[Compress<'_>],
    ) -> Result<(), DeviceError> {
        self.enqueue(Direction::Encode, stream, workspace, jobs)
    }

    /// Enqueues the decompression of `jobs`. Checksums in frames are not compared.
    ///
    /// # Errors
    /// What is wrong with the regions, and whatever the driver says.
    pub fn decompress(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        jobs: &[Decompress<'_>],
    ) -> Result<(), DeviceError> {
        self.enqueue(Direction::Decode, stream, workspace, jobs)
    }

    /// Enqueues the computation of the lengths that [`compress`](Self::compress) would give.
    ///
    /// # Errors
    /// What is wrong with the regions, and whatever the driver says.
    pub fn estimate(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        jobs: &[Estimate<'_>],
    ) -> Result<(), DeviceError> {
        self.enqueue(Direction::Estimate, stream, workspace, jobs)
    }

    fn enqueue<W: Work>(
        &self,
        direction: Direction,
        stream: &Stream,
        workspace: &Workspace<'_>,
        works: &[W],
    ) -> Result<(), DeviceError> {
        works.iter().try_for_each(|work| work.check(self))?;
        let chunks = |group: &[W]| group.iter().map(|work| self.chunks(work)).sum::<u64>();
        let encodes = direction == Direction::Encode;
        let states = works.chunks(MAX_JOBS).filter(|_| encodes).map(chunks).max().unwrap_or(0);
        let workspace = workspace.address_for(stream, WORD * (WORKSPACE_WORDS + states))?;
        let kernel = self.kernels[direction as usize];
        let entered = self.shared.context.enter()?;
        for group in works.chunks(MAX_JOBS) {
            let batch = self.batch(workspace, group);
            let blocks = kernel.blocks(batch.chunks.into(), self.sm_limit, &self.shared.info);
            // SAFETY: `check` has found all regions as the kernels want them, and a region is device memory for
            // as long as its work lasts. That the workspace is zero and in nobody else's use is what a
            // `Workspace` stands for. `shared` keeps the kernel loaded.
            unsafe { kernel.launch(&entered, stream.handle, blocks, &batch)? };
        }
        Ok(())
    }

    /// The launch for up to [`MAX_JOBS`] buffers, which were checked.
    fn batch<W: Work>(&self, workspace: u64, works: &[W]) -> Batch {
        let mut job = [Job::default(); MAX_JOBS];
        let mut first_chunk = 0;
        for (job, work) in job.iter_mut().zip(works) {
            *job = Job { first_chunk, ..work.job() };
            // Fits: at most 2^24 chunks in each of 63 buffers.
            first_chunk += self.chunks(work) as u32;
        }
        Batch {
            jobs: works.len() as u32,
            chunks: first_chunk,
            chunk_log2: self.chunk_size.log2().into(),
            names_codebooks: 0,
            workspace,
            known_codebook: 0,
            unused: [0; 4],
            job,
        }
    }

    fn chunks(&self, work: &impl Work) -> u64 {
        chunks_of(self.chunk_size, work.raw_len())
    }
}

/// One buffer of a call.
trait Work {
    /// Fails if it is not as the kernels want it.
    fn check(&self, coder: &Coder) -> Result<(), DeviceError>;

    /// It as the kernels see it, but for the number of its first chunk.
    fn job(&self) -> Job;

    /// Its raw bytes.
    fn raw_len(&self) -> u64;
}

impl Work for Compress<'_> {
    fn check(&self, coder: &Coder) -> Result<(), DeviceError> {
        self.estimate().check(coder)?;
        self.dst.check_align("the destination of a frame", UNIT)?;
        self.dst.check_len("the destination of a frame", coder.max_frame_len(self.src.len()))
    }

    fn job(&self) -> Job {
        Job { dst: self.dst.address(), dst_len: self.dst.len(), ..self.estimate().job() }
    }

    fn raw_len(&self) -> u64 {
        self.src.len()
    }
}

impl<'a> Compress<'a> {
    /// What it has in common with an estimate.
    const fn estimate(&self) -> Estimate<'a> {
        let Self { element, src, codebook, len, status, .. } = *self;
        Estimate { element, src, codebook, len, status }
    }
}

impl Work for Decompress<'_> {
    fn check(&self, _: &Coder) -> Result<(), DeviceError> {
        check_raw_len("the destination", self.dst)?;
        self.src.check_align("a frame", UNIT)?;
        self.src_len.map_or(Ok(()), |len| len.check("the frame's length"))?;
        self.status.check("the status")
    }

    fn job(&self) -> Job {
        Job {
            src: self.src.address(),
            src_len: self.src.len(),
            src_len_at: self.src_len.map_or(0, Word::address),
            dst: self.dst.address(),
            dst_len: self.dst.len(),
            status: self.status.address(),
            ..Job::default()
        }
    }

    fn raw_len(&self) -> u64 {
        self.dst.len()
    }
}

impl Work for Estimate<'_> {
    fn check(&self, _: &Coder) -> Result<(), DeviceError> {
        check_raw_len("the source", self.src)?;
        self.len.check("the length")?;
        self.status.check("the status")
    }

    fn job(&self) -> Job {
        Job {
            src: self.src.address(),
            src_len: self.src.len(),
            src_len_at: self.codebook.map_or(0, DeviceCodebook::address),
            codebook_units: self.codebook.map_or(0, DeviceCodebook::units),
            out_len: self.len.address(),
            status: self.status.address(),
            element: self.element.number().into(),
            ..Job::default()
        }
    }

    fn raw_len(&self) -> u64 {
        self.src.len()
    }
}

/// Fails if no frame holds so many raw bytes.
fn check_raw_len(what: &'static str, raw: Region<'_>) -> Result<(), DeviceError> {
    if raw.len() <= MAX_RAW_LEN {
        Ok(())
    } else {
        Err(DeviceError::TooLong { what, limit: MAX_RAW_LEN, got: raw.len() })
    }
}
