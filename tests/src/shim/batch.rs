//! What a launch is given: the structs of `codecs/kernels/frame/batch.cuh`, and buffers for them.

use super::{Launch, Status, launch};
use crate::guarded::Guarded;
use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};

/// Which kernel of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Raw bytes to a frame.
    Encode,
    /// A frame to raw bytes.
    Decode,
    /// Raw bytes to the length of the frame.
    Estimate,
}

impl Kernel {
    /// The number under which the shim knows it.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Encode => 0,
            Self::Decode => 1,
            Self::Estimate => 2,
        }
    }
}

/// `MgcJob`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawJob {
    src: *const u8,
    src_len: u64,
    /// For decoders `src_len_at`, for the others `codebook`.
    src_len_at: *const u64,
    dst: *mut u8,
    dst_len: u64,
    out_len: *mut u64,
    status: *mut u64,
    first_chunk: u32,
    element: u16,
    codebook_units: u16,
}

/// `MgcBatch`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct RawBatch {
    jobs: u32,
    chunks: u32,
    chunk_log2: u32,
    names_codebooks: u32,
    workspace: *mut u64,
    known_codebook: *const u8,
    unused: [u64; 4],
    job: [RawJob; launch::MAX_JOBS as usize],
}

const _: () = assert!(size_of::<RawJob>() == 64 && size_of::<RawBatch>() == 4096);

/// One buffer of a batch, and afterwards what became of it.
#[derive(Debug)]
pub struct Job {
    src: Guarded,
    dst: Guarded,
    element: u32,
    /// Where the kernel finds the source's length, if not in the batch.
    src_len: Option<u64>,
    /// The section of a codebook.
    codebook: Option<Guarded>,
    out_len: u64,
    status: u64,
}

/// What the buffers hold before a launch.
const UNTOUCHED: u8 = 0x5a;

impl Job {
    /// `src`, and room of `dst_len` bytes for what comes of it, at the launch's offsets.
    #[must_use]
    pub fn new(element: u32, src: &[u8], dst_len: usize, launch: Launch) -> Self {
        let src = Guarded::new(src, launch.src_offset);
        let dst = Guarded::new(&vec![UNTOUCHED; dst_len], launch.dst_offset);
        Self { src, dst, element, src_len: None, codebook: None, out_len: u64::MAX, status: u64::MAX }
    }

    /// Raw bytes to encode, with room for the longest frame.
    #[must_use]
    pub fn encode(element: Element, raw: &[u8], chunk_size: ChunkSize, launch: Launch) -> Self {
        let room = frame::max_frame_len(raw.len(), Options { chunk_size, checksum: false });
        Self::new(element.number().into(), raw, room, launch)
    }

    /// A frame to decode.
    #[must_use]
    pub fn decode(frame: &[u8], dst_len: usize, launch: Launch) -> Self {
        Self::new(0, frame, dst_len, launch)
    }

    /// The source is only `len` bytes long, and the kernel has to read that from memory.
    #[must_use]
    pub fn with_len_in_memory(self, len: u64) -> Self {
        Self { src_len: Some(len), ..self }
    }

    /// The same with the section of a codebook: what to encode with, or what a frame to decode may name.
    #[must_use]
    pub fn with_codebook(self, section: &[u8]) -> Self {
        Self { codebook: Some(Guarded::new(section, 0)), ..self }
    }

    /// The section of its codebook.
    #[must_use]
    pub fn codebook(&self) -> Option<&[u8]> {
        self.codebook.as_ref().map(Guarded::content)
    }

    /// Fits a codebook to the bytes to encode if there is none, as the portable encoder does.
    pub(super) fn fit_codebook(&mut self, algorithm: Algorithm) {
        if self.codebook.is_some() {
            return;
        }
        let codec = codec_on(Cpu::Portable, algorithm)
            .and_then(|c| c.fitted(Element::U8, self.src.content(), usize::MAX));
        let section = codec.and_then(|codec| codec.codebook());
        self.codebook = section.map(|section| Guarded::new(&section.to_bytes(), 0));
    }

    /// What the kernel said.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_word(self.status)
    }

    /// The length that the kernel left.
    #[must_use]
    pub fn out_len(&self) -> u64 {
        self.out_len
    }

    /// All of the destination.
    #[must_use]
    pub fn dst(&self) -> &[u8] {
        self.dst.content()
    }

    /// The frame that was written; nothing may have been written behind it.
    ///
    /// # Panics
    /// If there was.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        let (frame, rest) = self.dst().split_at(self.out_len as usize);
        assert!(rest.iter().all(|&byte| byte == UNTOUCHED), "bytes behind the frame were written");
        frame
    }

    fn raw(&mut self, kernel: Kernel, first_chunk: u32) -> RawJob {
        let src_len_at = self.src_len.as_ref().map_or(std::ptr::null(), |len| &raw const *len);
        let codebook = self.codebook().map_or(std::ptr::null(), <[u8]>::as_ptr);
        RawJob {
            src: self.src.content().as_ptr(),
            src_len: self.src.content().len() as u64,
            src_len_at: if kernel == Kernel::Decode { src_len_at } else { codebook.cast() },
            dst: self.dst.content_mut().as_mut_ptr(),
            dst_len: self.dst.content().len() as u64,
            out_len: &raw mut self.out_len,
            status: &raw mut self.status,
            first_chunk,
            element: self.element as u16,
            codebook_units: (self.codebook().map_or(0, <[u8]>::len) / launch::UNIT as usize) as u16,
        }
    }

    pub(super) fn check(&self) {
        self.src.check();
        self.dst.check();
        self.codebook.iter().for_each(Guarded::check);
    }
}

/// A batch whose pointers lead to `jobs`, and the workspace it needs.
pub(super) fn raw_batch(
    kernel: Kernel,
    jobs: &mut [Job],
    chunk_log2: u8,
    launch: Launch,
) -> (RawBatch, Guarded) {
    let known_codebook = jobs.iter().find_map(Job::codebook).map_or(std::ptr::null(), <[u8]>::as_ptr);
    let mut batch = RawBatch {
        jobs: jobs.len() as u32,
        chunks: 0,
        chunk_log2: chunk_log2.into(),
        names_codebooks: launch.names_codebooks.into(),
        workspace: std::ptr::null_mut(),
        known_codebook,
        unused: [0; 4],
        job: std::array::from_fn(|_| RawJob {
            src: std::ptr::null(),
            src_len: 0,
            src_len_at: std::ptr::null(),
            dst: std::ptr::null_mut(),
            dst_len: 0,
            out_len: std::ptr::null_mut(),
            status: std::ptr::null_mut(),
            first_chunk: 0,
            element: 0,
            codebook_units: 0,
        }),
    };
    assert!(jobs.len() <= batch.job.len(), "{} jobs", jobs.len());
    for (job, raw) in jobs.iter_mut().zip(&mut batch.job) {
        *raw = job.raw(kernel, batch.chunks);
        batch.chunks += (raw.src_len.div_ceil(1 << chunk_log2) as u32).max(1);
    }
    // Only an encoder keeps a word for each chunk.
    let states = if kernel == Kernel::Encode { batch.chunks as usize } else { 0 };
    let mut workspace = Guarded::new(&vec![0; 8 * (launch::WORKSPACE_WORDS as usize + states)], 0);
    batch.workspace = workspace.content_mut().as_mut_ptr().cast();
    (batch, workspace)
}
