//! The decode kernels of `codecs/kernels`, run on the CPU by their shim.
#![allow(unsafe_code)] // calls into C++

mod expected;
pub mod record;
pub mod sources;
mod status;
pub mod toolchain;

pub use expected::expected;
pub use status::{Status, launch};

use std::io::Write as _;

use crate::guarded::Guarded;
use mgcomp_codecs::Algorithm;

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
    /// How far behind a multiple of 16 the frame starts, 0 to 15. The kernels want 0.
    pub frame_offset: usize,
    /// How far behind a multiple of 16 the destination starts, 0 to 15.
    pub dst_offset: usize,
}

impl Launch {
    /// A launch of `blocks` blocks on aligned buffers.
    #[must_use]
    pub const fn new(order: LaneOrder, blocks: u32) -> Self {
        Self { order, blocks, frame_offset: 0, dst_offset: 0 }
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

    /// Decodes `frame` into `dst_len` bytes with the kernel of `algorithm`.
    ///
    /// # Panics
    /// If there is no such kernel, or it wrote outside of its buffers.
    #[must_use]
    pub fn decode(
        self,
        algorithm: Algorithm,
        frame: &[u8],
        dst_len: usize,
        launch: Launch,
    ) -> (Status, Vec<u8>) {
        let frame = Guarded::new(frame, launch.frame_offset);
        let mut dst = Guarded::new(&vec![0x5a; dst_len], launch.dst_offset);
        let status = run(algorithm, frame.content(), dst.content_mut(), launch);
        frame.check();
        dst.check();
        (Status::from_word(status), dst.content().to_vec())
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
fn run(algorithm: Algorithm, frame: &[u8], dst: &mut [u8], launch: Launch) -> u64 {
    unsafe extern "C" {
        fn mgc_shim_decode(
            algorithm: u32,
            blocks: u32,
            order: u32,
            seed: u64,
            frame: *const u8,
            frame_len: u64,
            dst: *mut u8,
            dst_len: u64,
            status: *mut u64,
        ) -> i32;
    }
    let seed = if let LaneOrder::Random(seed) = launch.order { seed } else { 0 };
    let mut status = 0;
    // SAFETY: the pointers and lengths are those of two live slices and a live integer. That the kernels stay
    // inside them whatever the frame holds is what the tests check, with guard bytes and under a sanitizer.
    let refused = unsafe {
        mgc_shim_decode(
            algorithm.number().into(),
            launch.blocks,
            launch.order.number(),
            seed,
            frame.as_ptr(),
            frame.len() as u64,
            dst.as_mut_ptr(),
            dst.len() as u64,
            &raw mut status,
        )
    };
    assert_eq!(refused, 0, "no kernel decodes {algorithm}");
    status
}

#[cfg(not(mgcomp_shim))]
fn run(_: Algorithm, _: &[u8], _: &mut [u8], _: Launch) -> u64 {
    unreachable!("a Shim exists only where the kernels were built")
}
