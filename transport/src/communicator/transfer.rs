//! Sending and receiving slices of any length between members.

use mgcomp_codecs::Element;

use super::{CommunicatorError, Group};
use crate::memory::{Slice, Stretch};
use crate::message::Tag;
use crate::node::{Handle, TransferResult};
use crate::payload::Payload;
use crate::session::Completion;

/// Transfers under way.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    under_way: Vec<Transfer>,
}

#[derive(Debug)]
struct Transfer {
    handle: Handle,
    /// Of a receive: from whom, and how many bytes are to come.
    expected: Option<(usize, u64)>,
}

impl Transfers {
    /// Waits for one after the other, until that comes to one that has failed: what a member does not send would be waited for in
    /// vain.
    pub(super) fn wait(self) -> Result<(), CommunicatorError> {
        self.wait_by(Handle::wait)
    }

    /// The same in a collective of `group`, or until another member gives that up, or any of them fails with its session.
    pub(super) fn wait_in(self, group: &Group) -> Result<(), CommunicatorError> {
        self.wait_by(|handle| group.watch.wait(handle))
    }

    fn wait_by(self, wait: impl Fn(Handle) -> TransferResult) -> Result<(), CommunicatorError> {
        for Transfer { handle, expected } in self.under_way {
            let got = wait(handle)?;
            if let Some((rank, expected)) = expected.filter(|&(_, expected)| got != expected) {
                return Err(CommunicatorError::WrongLength { rank: rank as u32, got, expected });
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, handle: Handle) {
        self.under_way.push(Transfer { handle, expected: None });
    }

    /// A receive of `len` bytes from the member `rank`.
    pub(super) fn receive(&mut self, handle: Handle, rank: usize, len: usize) {
        self.under_way.push(Transfer { handle, expected: Some((rank, len as u64)) });
    }

    /// Each by itself, in their order.
    pub(super) fn one_by_one(self) -> impl Iterator<Item = Self> {
        self.under_way.into_iter().map(|one| Self { under_way: vec![one] })
    }

    /// Whether all of them are finished, one way or the other.
    pub(super) fn are_finished(&mut self) -> bool {
        self.under_way.iter_mut().all(|transfer| transfer.handle.is_finished())
    }

    pub(super) fn add(&mut self, other: Self) {
        self.under_way.extend(other.under_way);
    }
}

impl Group {
    /// Sends all of `from`, whose length the receiver knows.
    pub(super) fn send_known(&self, to: usize, tag: Tag, from: &impl Stretch, element: Element) -> Transfers {
        self.send_parts(&[to], tag, (from, self.node.part_bytes()), element)
    }

    /// As [`send_known`](Self::send_known), to each of `receivers`.
    pub(super) fn send_known_to_all(
        &self,
        receivers: &[usize],
        tag: Tag,
        from: &impl Stretch,
        element: Element,
    ) -> Transfers {
        self.send_parts(receivers, tag, (from, self.node.part_bytes()), element)
    }

    /// The same in parts of `part_bytes`, which the receivers know too. Each part goes to all of them before the next, so that what it
    /// was encoded to for one need not be kept for long.
    pub(super) fn send_parts(
        &self,
        receivers: &[usize],
        tag: Tag,
        (from, part_bytes): (&impl Stretch, usize),
        element: Element,
    ) -> Transfers {
        let mut transfers = Transfers::default();
        let part_of = (from.len() > part_bytes).then_some(from.len() as u64);
        for part in parts(from, part_bytes) {
            transfers.add(self.send_part(receivers, tag, (part.into(), part_of), element));
        }
        transfers
    }

    /// Sends each of `receivers` the same bytes, which may be a part of something of so many.
    pub(super) fn send_part(
        &self,
        receivers: &[usize],
        tag: Tag,
        (part, part_of): (Slice, Option<u64>),
        element: Element,
    ) -> Transfers {
        let from = Payload::for_several(part, receivers.len());
        let mut transfers = Transfers::default();
        for &to in receivers {
            let (peer, from) = (self.members[to], (from.clone(), element));
            transfers.send(self.node.start_send(peer, tag, from, Completion::Local, part_of));
        }
        transfers
    }

    /// Receives as many bytes as `into` has.
    pub(super) fn receive_known(&self, from: usize, tag: Tag, into: &impl Stretch) -> Transfers {
        self.receive_parts(from, tag, (into, self.node.part_bytes()))
    }

    /// As [`receive_known`](Self::receive_known), in parts of `part_bytes`.
    pub(super) fn receive_parts(
        &self,
        from: usize,
        tag: Tag,
        (into, part_bytes): (&impl Stretch, usize),
    ) -> Transfers {
        let peer = self.members[from];
        let mut transfers = Transfers::default();
        for part in parts(into, part_bytes) {
            let len = part.len();
            transfers.receive(self.node.receive(peer, tag, part), from, len);
        }
        transfers
    }
}

/// `slice` in parts of `part_bytes`; none of a slice without bytes.
pub(super) fn parts<S: Stretch>(slice: &S, part_bytes: usize) -> impl Iterator<Item = S> + '_ {
    let starts = (0..slice.len()).step_by(part_bytes);
    starts.filter_map(move |start| slice.part(start, part_bytes.min(slice.len() - start)))
}

/// Copies `from` to `into`, which has the same length. A slice that is copied onto itself stays as it is.
pub(super) fn copy(from: &impl Stretch, into: &impl Stretch) -> Result<(), CommunicatorError> {
    let (from, into): (Slice, Slice) = (from.clone().into(), into.clone().into());
    if from.is_same(&into) || from.is_empty() {
        return Ok(());
    }
    if from.overlaps(&into) {
        return Err(CommunicatorError::Overlap);
    }
    #[cfg(feature = "cuda")]
    crate::cuda::copy::copy(&from, &into)?;
    #[cfg(not(feature = "cuda"))]
    {
        let (Slice::Host(from), Slice::Host(into)) = (from, into);
        into.write(|into| from.read(|from| into.copy_from_slice(from)));
    }
    Ok(())
}
