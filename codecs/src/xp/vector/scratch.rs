//! Memory that vector code works in, one per thread and kept between chunks.
//!
//! On the stack it would have to be probed page by page for every chunk, which takes as long as a tenth of
//! the work.

use std::cell::Cell;

/// The longest chunk that there is room for; longer ones are left to portable code.
pub(super) const MAX_RAW_LEN: usize = 1 << 16;

/// Bytes that vectors may touch behind the end of what is in a buffer.
pub(super) const SLACK: usize = 256;

/// Where a back-end may keep the second bytes of symbols that have two: halfway through their buffer. Either
/// half has half the slack.
pub(in crate::xp) const HALF: usize = (MAX_RAW_LEN + SLACK) / 2;

/// Bytes for the counts of samples by symbol: 12 bits of the largest, and 9 bits once more.
pub(super) const COUNTS_LEN: usize = 4096 + 512;

/// All of it is initialised, with zeros or with what other chunks left.
pub(super) struct Scratch {
    /// The values that a mask left; in front of them is room for one more.
    pub(super) values: Box<[u8]>,
    /// The same with repeats put back.
    pub(super) repeated: Box<[u8]>,
    /// Symbols of escapes, a byte or two each.
    pub(super) symbols: [Box<[u8]>; 2],
    /// The zero mask and the change mask with their levels, each a bit per byte of a chunk, an eighth of
    /// that, and so on.
    pub(super) masks: [Box<[u8]>; 2],
    pub(super) counts: Box<[u8]>,
}

impl Scratch {
    fn new() -> Self {
        let zeros = |len| vec![0; len].into_boxed_slice();
        Self {
            values: zeros(MAX_RAW_LEN + SLACK),
            repeated: zeros(MAX_RAW_LEN + SLACK),
            symbols: [zeros(MAX_RAW_LEN + SLACK), zeros(MAX_RAW_LEN + SLACK)],
            masks: [zeros(MAX_RAW_LEN / 4), zeros(MAX_RAW_LEN / 4)],
            counts: zeros(COUNTS_LEN),
        }
    }

    /// Calls `work` with the memory of this thread.
    pub(super) fn with<R>(work: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static KEPT: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
        }
        // A thread that ends may have nothing kept any more.
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        let mut scratch = kept.unwrap_or_else(|| Box::new(Self::new()));
        let result = work(&mut scratch);
        let _ = KEPT.try_with(|kept| kept.set(Some(scratch)));
        result
    }
}
