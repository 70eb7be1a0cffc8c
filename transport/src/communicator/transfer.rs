//! Sending and receiving slices of any length between members.

use mgcomp_codecs::Element;

use super::{CommunicatorError, Group};
use crate::memory::HostSlice;
use crate::message::Tag;
use crate::node::Handle;

/// Longer buffers travel in parts of this length, several under way at once: while one is on the link, the next is
/// encoded and the one before decoded.
pub(super) const PART_BYTES: usize = 1 << 20;

/// Transfers under way.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    handles: Vec<Handle>,
}

impl Transfers {
    /// Waits for all of them, also behind one that failed: buffers are free again afterwards.
    pub(super) fn wait(self) -> Result<(), CommunicatorError> {
        let results: Vec<_> = self.handles.into_iter().map(Handle::wait).collect();
        results.into_iter().try_for_each(|result| result.map(drop).map_err(Into::into))
    }

    pub(super) fn push(&mut self, handle: Handle) {
        self.handles.push(handle);
    }

    /// Whether all of them are finished, one way or the other.
    pub(super) fn are_finished(&mut self) -> bool {
        self.handles.iter_mut().all(Handle::is_finished)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.handles.extend(other.handles);
    }
}

impl Group {
    /// Sends all of `from`, whose length the receiver knows.
    pub(super) fn send_known(&self, to: usize, tag: Tag, from: &HostSlice, element: Element) -> Transfers {
        let peer = self.members[to];
        let handles = parts(from).map(|part| self.node.send(peer, tag, part, element)).collect();
        Transfers { handles }
    }

    /// Receives as many bytes as `into` has.
    pub(super) fn receive_known(&self, from: usize, tag: Tag, into: &HostSlice) -> Transfers {
        let peer = self.members[from];
        Transfers { handles: parts(into).map(|part| self.node.receive(peer, tag, part)).collect() }
    }
}

/// `slice` in parts of the length that travels at once; none of a slice without bytes.
pub(super) fn parts(slice: &HostSlice) -> impl Iterator<Item = HostSlice> + '_ {
    let starts = (0..slice.len()).step_by(PART_BYTES);
    starts.filter_map(|start| slice.part(start, PART_BYTES.min(slice.len() - start)))
}

/// Copies `from` to `into`, which has the same length. A slice that is copied onto itself stays as it is.
pub(super) fn copy(from: &HostSlice, into: &HostSlice) -> Result<(), CommunicatorError> {
    if from.is_same(into) || from.is_empty() {
        return Ok(());
    }
    if from.overlaps(into) {
        return Err(CommunicatorError::Overlap);
    }
    into.write(|into| from.read(|from| into.copy_from_slice(from)));
    Ok(())
}
