//! Where a call's words lie in the memory of the device.

use std::ops::Range;

use super::entry::ENTRY_LEN;

/// Length of a word.
pub(super) const WORD: u64 = 8;

/// Headers of this rank, headers of others, and statuses of frames that were decoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// Headers of this rank.
    pub(super) outgoing: usize,
    /// Headers of others, each of which may announce a frame.
    pub(super) incoming: usize,
}

impl Layout {
    pub(super) const fn outgoing(self) -> Range<u64> {
        0..ENTRY_LEN * self.outgoing as u64
    }

    pub(super) const fn incoming(self) -> Range<u64> {
        let start = self.outgoing().end;
        start..start + ENTRY_LEN * self.incoming as u64
    }

    pub(super) const fn statuses(self) -> Range<u64> {
        let start = self.incoming().end;
        start..start + WORD * self.incoming as u64
    }

    /// All of them.
    pub(super) const fn len(self) -> u64 {
        self.statuses().end
    }
}

/// One of several things of `len` bytes.
pub(super) const fn nth(range: &Range<u64>, i: usize, len: u64) -> Range<u64> {
    let start = range.start + len * i as u64;
    start..start + len
}
