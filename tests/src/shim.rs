//! The kernels of `codecs/kernels`, run on the CPU by their shim.
#![allow(unsafe_code)] // calls into C++

mod batch;
pub mod buddy;
mod expected;
pub mod numbers;
pub mod record;
pub mod rows;
pub mod sources;
mod status;
pub mod toolchain;

pub use batch::{Job, Kernel};
pub use expected::expected;
pub use status::{Status, launch};

use std::io::Write as _;

use batch::{RawBatch, raw_batch};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};

/// In which order runnable threads go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneOrder {
    /// The thread that waited longest.
    Fifo,
    /// The thread that became runnable last.
    Lifo,
    /// Any, by a generator with this seed.
    Random(u64),
}

impl LaneOrder {
    /// One of each.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Lifo, Self::Random(11)];

    /// The number under which the shim knows it.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Fifo => 0,
            Self::Lifo => 1,
            Self::Random(_) => 2,
        }
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Order of the threads.
    pub order: LaneOrder,
    /// Blocks in the grid.
    pub blocks: u32,
    /// Threads of the host that run blocks.
    pub os_threads: u32,
    /// How far behind a multiple of 16 the source starts, 0 to 15. For a frame the kernels want 0.
    pub src_offset: usize,
    /// How far behind a multiple of 16 the destination starts, 0 to 15. For a frame the kernels want 0.
    pub dst_offset: usize,
    /// The largest chunks for which a decoder is given shared memory.
    pub chunk_limit: ChunkSize,
    /// Whether frames to write only name their codebook.
    pub names_codebooks: bool,
}

impl Launch {
    /// A launch of `blocks` blocks on aligned buffers.
    #[must_use]
    pub const fn new(order: LaneOrder, blocks: u32) -> Self {
        let chunk_limit = ChunkSize::LARGE;
        let names_codebooks = false;
        Self { order, blocks, os_threads: 1, src_offset: 0, dst_offset: 0, chunk_limit, names_codebooks }
    }
}

/// The kernels, where they could be built.
#[derive(Clone, Copy, Debug)]
pub struct Shim(());

impl Shim {
    /// The kernels, or why there are none in this build.
    ///
    /// # Errors
    /// The reason, for a person to read.
    pub fn detect() -> Result<Self, &'static str> {
        match option_env!("MGCOMP_SHIM_MISSING") {
            None => Ok(Self(())),
            Some(reason) => Err(reason),
        }
    }

    /// The kernels, or `None` and a line that says that `test` is skipped.
    ///
    /// # Panics
    /// If there are none and `MGCOMP_REQUIRE_SHIM` is `1`.
    #[must_use]
    pub fn or_skip(test: &str) -> Option<Self> {
        Self::detect().map_err(|reason| skip(test, reason)).ok()
    }

    /// Every algorithm that has kernels.
    ///
    /// # Panics
    /// If the table names one that is none.
    #[must_use]
    pub fn algorithms(self) -> Vec<Algorithm> {
        let known = |number| Algorithm::ALL.into_iter().find(|algorithm| algorithm.number() == number);
        let named = sources::codecs().map(|(name, number)| (name, known(number)));
        named.map(|(name, algorithm)| algorithm.unwrap_or_else(|| panic!("no algorithm {name}"))).collect()
    }

    /// Runs a kernel on a batch. `chunk_size` is that of the frames to write, or the largest of those to read. Jobs to
    /// encode that have no codebook get the one that the portable encoder would fit.
    ///
    /// # Panics
    /// If there is no such kernel, or it wrote outside of its buffers, or left the workspace other than zero.
    pub fn run(
        self,
        algorithm: Algorithm,
        kernel: Kernel,
        jobs: &mut [Job],
        chunk_size: ChunkSize,
        launch: Launch,
    ) {
        if kernel != Kernel::Decode {
            jobs.iter_mut().for_each(|job| job.fit_codebook(algorithm));
        }
        let (batch, workspace) = raw_batch(kernel, jobs, chunk_size.log2(), launch);
        run(algorithm, kernel, &batch, launch);
        workspace.check();
        let dirty = workspace.content().iter().position(|&byte| byte != 0);
        assert_eq!(dirty, None, "{algorithm} {kernel:?} {launch:?}: a byte of the workspace is not zero");
        jobs.iter().for_each(Job::check);
    }

    fn run_one(
        self,
        algorithm: Algorithm,
        kernel: Kernel,
        job: Job,
        chunk: ChunkSize,
        launch: Launch,
    ) -> Job {
        let mut jobs = [job];
        self.run(algorithm, kernel, &mut jobs, chunk, launch);
        let [job] = jobs;
        job
    }

    /// Decodes `frame` into `dst_len` bytes with the kernel of `algorithm`.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    #[must_use]
    pub fn decode(
        self,
        algorithm: Algorithm,
        frame: &[u8],
        dst_len: usize,
        launch: Launch,
    ) -> (Status, Vec<u8>) {
        let job = Job::decode(frame, dst_len, launch);
        let job = self.run_one(algorithm, Kernel::Decode, job, launch.chunk_limit, launch);
        (job.status(), job.dst().to_vec())
    }

    /// Encodes `raw` with the kernel of `algorithm`.
    ///
    /// # Panics
    /// As [`run`](Self::run), or if it wrote behind the frame.
    #[must_use]
    pub fn encode(
        self,
        algorithm: Algorithm,
        element: Element,
        raw: &[u8],
        chunk: ChunkSize,
        launch: Launch,
    ) -> (Status, Vec<u8>) {
        let job = Job::encode(element, raw, chunk, launch);
        let job = self.run_one(algorithm, Kernel::Encode, job, chunk, launch);
        (job.status(), job.frame().to_vec())
    }

    /// The length of the frame that [`encode`](Self::encode) would write, by the kernel of `algorithm`.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    #[must_use]
    pub fn estimate(
        self,
        algorithm: Algorithm,
        element: Element,
        raw: &[u8],
        chunk: ChunkSize,
        launch: Launch,
    ) -> (Status, u64) {
        let job = Job::new(element.number().into(), raw, 0, launch);
        let job = self.run_one(algorithm, Kernel::Estimate, job, chunk, launch);
        (job.status(), job.out_len())
    }
}

/// Says that `test` does not run, and why.
///
/// # Panics
/// If `MGCOMP_REQUIRE_SHIM` is `1`.
pub fn skip(test: &str, reason: &str) {
    assert!(!std::env::var("MGCOMP_REQUIRE_SHIM").is_ok_and(|v| v == "1"), "{test} cannot run: {reason}");
    // Past the capture of `print`, which hides the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}

#[cfg(mgcomp_shim)]
fn run(algorithm: Algorithm, kernel: Kernel, batch: &RawBatch, launch: Launch) {
    unsafe extern "C" {
        fn mgc_shim_launch(
            algorithm: u32,
            direction: u32,
            blocks: u32,
            order: u32,
            seed: u64,
            os_threads: u32,
            batch: *const RawBatch,
        ) -> i32;
    }
    let seed = if let LaneOrder::Random(seed) = launch.order { seed } else { 0 };
    // SAFETY: the batch's pointers and lengths are those of live buffers that nobody else uses meanwhile. That
    // the kernels stay inside them whatever the frames hold is what the tests check, with guard bytes and under
    // a sanitizer.
    let refused = unsafe {
        mgc_shim_launch(
            algorithm.number().into(),
            kernel.number(),
            launch.blocks,
            launch.order.number(),
            seed,
            launch.os_threads,
            batch,
        )
    };
    assert_eq!(refused, 0, "{algorithm} has no kernels");
}

#[cfg(not(mgcomp_shim))]
fn run(_: Algorithm, _: Kernel, _: &RawBatch, _: Launch) {
    unreachable!("a Shim exists only where the kernels were built")
}
