//! Operations that all members take part in.
//!
//! Each has a form that returns when this member is done, and one, `start_…`, that goes on by itself.

mod blocks;
mod combining;
mod exchange;
mod in_step;
mod moving;
mod workbench;

use mgcomp_codecs::Element;

pub use self::blocks::Block;
#[cfg(feature = "cuda")]
pub(crate) use self::blocks::shares;
use self::blocks::{check_len, equal, total};
pub(super) use self::workbench::Kept;
use super::comparison::Compared;
use super::{CollectiveRequest, Communicator, CommunicatorError, Datatype, Group, Kind, Operation};
use crate::memory::{AnySlice, HostBuffer, Slice};

/// Declares the two forms of a collective, which do `$work` in the thread of the caller or in another.
macro_rules! collective {
    (
        $(#[$doc:meta])*
        $name:ident / $start:ident ($($argument:ident: [$($kind:tt)+]),* $(,)?), in place: $place:literal, $group:ident => $work:expr
    ) => {
        $(#[$doc])*
        ///
        #[doc = $place]
        ///
        /// # Errors
        /// [`CommunicatorError`] if the buffers do not fit, or a transfer fails.
        pub fn $name(&self, $($argument: $($kind)+),*) -> Result<(), CommunicatorError> {
            $(let $argument = lend!($argument: $($kind)+);)*
            self.collective(|$group| $work)
        }

        #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "), without waiting.")]
        #[must_use]
        pub fn $start(&self, $($argument: $($kind)+),*) -> CollectiveRequest {
            $(let $argument = keep!($argument: $($kind)+);)*
            self.start_collective(move |$group| {
                $(let $argument = borrow!($argument: $($kind)+);)*
                $work
            })
        }
    };
}

/// An argument as the work takes it: slices of any memory as references to a [`Slice`].
macro_rules! lend {
    ($argument:ident: &impl AnySlice) => {
        &Into::<Slice>::into($argument.clone())
    };
    ($argument:ident: $kind:ty) => {
        $argument
    };
}

/// An argument that outlives the call.
macro_rules! keep {
    ($argument:ident: &impl AnySlice) => {
        Into::<Slice>::into($argument.clone())
    };
    ($argument:ident: $kind:ty) => {
        $argument.to_owned()
    };
}

/// What was taken as a reference is one again.
macro_rules! borrow {
    ($argument:ident: &$kind:ty) => {
        &$argument
    };
    ($argument:ident: $kind:ty) => {
        $argument
    };
}

impl Communicator {
    collective! {
        /// Returns when all members have called it.
        barrier / start_barrier(),
        in place: "There are no buffers.",
        group => group.barrier()
    }

    collective! {
        /// Brings the bytes of `buffer` at `root`, values of `element`, to all members.
        broadcast / start_broadcast(root: [u32], buffer: [&impl AnySlice], element: [Element]),
        in place: "All members use one buffer of the same length.",
        group => {
            let root = group.check_rank(root)?;
            group.compared(Compared::Broadcast, buffer.len(), || group.broadcast(root, buffer, element))
        }
    }

    collective! {
        /// Brings `send` of all members to `root`, where `receive` holds one after the other; elsewhere it is not used.
        gather / start_gather(root: [u32], send: [&impl AnySlice], receive: [&impl AnySlice], element: [Element]),
        in place: "At `root`, `send` may be its own block of `receive`.",
        group => {
            let blocks = equal(group, send.len());
            let root = group.check_rank(root)?;
            if group.rank == root {
                check_len("the buffer to gather into", receive, send.len() * blocks.len())?;
            }
            group.gather(root, send, receive, &blocks, (Kind::Gather, element))
        }
    }

    collective! {
        /// As [`gather`](Self::gather), with a block of its own length and place in `receive` for each member, in bytes.
        /// Only those at `root` count.
        gather_v / start_gather_v(root: [u32], send: [&impl AnySlice], receive: [&impl AnySlice], blocks: [&[Block]], element: [Element]),
        in place: "At `root`, `send` may be its own block of `receive`.",
        group => group.gather(group.check_rank(root)?, send, receive, blocks, (Kind::Gather, element))
    }

    collective! {
        /// Cuts `send` at `root` into equal blocks and brings each member one, into `receive`; elsewhere `send` is not
        /// used.
        scatter / start_scatter(root: [u32], send: [&impl AnySlice], receive: [&impl AnySlice], element: [Element]),
        in place: "At `root`, `receive` may be its own block of `send`.",
        group => {
            let blocks = equal(group, receive.len());
            let root = group.check_rank(root)?;
            if group.rank == root {
                check_len("the buffer to scatter", send, receive.len() * blocks.len())?;
            }
            group.scatter(root, send, &blocks, receive, (Kind::Scatter, element))
        }
    }

    collective! {
        /// As [`scatter`](Self::scatter), with a block of its own length and place in `send` for each member, in bytes.
        /// Only those at `root` count.
        scatter_v / start_scatter_v(root: [u32], send: [&impl AnySlice], blocks: [&[Block]], receive: [&impl AnySlice], element: [Element]),
        in place: "At `root`, `receive` may be its own block of `send`.",
        group => group.scatter(group.check_rank(root)?, send, blocks, receive, (Kind::Scatter, element))
    }

    collective! {
        /// Brings `send` of all members to all, one after the other in `receive`.
        all_gather / start_all_gather(send: [&impl AnySlice], receive: [&impl AnySlice], element: [Element]),
        in place: "`send` may be this member's block of `receive`.",
        group => {
            let blocks = equal(group, send.len());
            check_len("the buffer to gather into", receive, send.len() * blocks.len())?;
            let into = group.check_all_gather(send, receive, &blocks)?;
            group.compared(Compared::AllGather, receive.len(), || group.bring_to_all(send, &into, element))
        }
    }

    collective! {
        /// As [`all_gather`](Self::all_gather), with a block of its own length and place in `receive` for each member,
        /// in bytes. Lengths are the same on all members.
        all_gather_v / start_all_gather_v(send: [&impl AnySlice], receive: [&impl AnySlice], blocks: [&[Block]], element: [Element]),
        in place: "`send` may be this member's block of `receive`.",
        group => {
            let into = group.check_all_gather(send, receive, blocks)?;
            group.compared(Compared::AllGather, total(blocks), || group.bring_to_all(send, &into, element))
        }
    }

    collective! {
        /// Cuts `send` into equal blocks, one for each member, and brings each there: block i of member j becomes block
        /// j of member i.
        all_to_all / start_all_to_all(send: [&impl AnySlice], receive: [&impl AnySlice], element: [Element]),
        in place: "The two may be the same. What is sent is copied aside then, up to 1 MiB at a time.",
        group => {
            let ranks = group.size();
            check_len("the buffer to receive into", receive, send.len())?;
            check_len("the buffer to send", send, send.len() / ranks * ranks)?;
            let blocks = equal(group, send.len() / ranks);
            let (from, into) = group.check_all_to_all((send, &blocks), (receive, &blocks))?;
            group.compared(Compared::AllToAll, send.len(), || group.all_to_all(&from, &into, element))
        }
    }

    collective! {
        /// As [`all_to_all`](Self::all_to_all), with blocks of their own lengths and places, in bytes.
        all_to_all_v / start_all_to_all_v(
            send: [&impl AnySlice], send_blocks: [&[Block]], receive: [&impl AnySlice], receive_blocks: [&[Block]], element: [Element]
        ),
        in place: "The two may be the same where their blocks are the same too, so that what a pair exchanges is as long both ways. \
                   What is sent is copied aside then, up to 1 MiB at a time.",
        group => {
            let (from, into) = group.check_all_to_all((send, send_blocks), (receive, receive_blocks))?;
            group.all_to_all(&from, &into, element)
        }
    }

    collective! {
        /// Combines `send` of all members number by number, in `receive` at `root`; elsewhere that is not used.
        reduce / start_reduce(
            root: [u32], send: [&impl AnySlice], receive: [&impl AnySlice], datatype: [Datatype], operation: [Operation]
        ),
        in place: "At `root`, the two may be the same.",
        group => {
            let root = group.check_rank(root)?;
            group.reduce(root, send, receive, (datatype, operation))
        }
    }

    collective! {
        /// Combines `send` of all members number by number, and leaves each with one of as many equal blocks of the
        /// result.
        reduce_scatter / start_reduce_scatter(
            send: [&impl AnySlice], receive: [&impl AnySlice], datatype: [Datatype], operation: [Operation]
        ),
        in place: "`receive` may be this member's block of `send`.",
        group => {
            let blocks = equal(group, receive.len());
            check_len("the buffer to reduce", send, receive.len() * blocks.len())?;
            let task = (datatype, operation);
            let from = group.check_reduce_scatter(send, &blocks, receive, task)?;
            let compared = Compared::ReduceScatter(datatype);
            group.compared(compared, send.len(), || group.reduce_scatter(&from, receive, task))
        }
    }

    collective! {
        /// As [`reduce_scatter`](Self::reduce_scatter), with a block of its own length and place in `send` for each
        /// member, in bytes. All members name the same blocks, which do not overlap.
        reduce_scatter_v / start_reduce_scatter_v(
            send: [&impl AnySlice], blocks: [&[Block]], receive: [&impl AnySlice], datatype: [Datatype], operation: [Operation]
        ),
        in place: "`receive` may be this member's block of `send`.",
        group => {
            let task = (datatype, operation);
            let from = group.check_reduce_scatter(send, blocks, receive, task)?;
            let compared = Compared::ReduceScatter(datatype);
            group.compared(compared, total(blocks), || group.reduce_scatter(&from, receive, task))
        }
    }

    collective! {
        /// Combines `send` of all members number by number, in `receive` of all.
        all_reduce / start_all_reduce(
            send: [&impl AnySlice], receive: [&impl AnySlice], datatype: [Datatype], operation: [Operation]
        ),
        in place: "The two may be the same.",
        group => {
            let task = (datatype, operation);
            group.check_all_reduce(send, receive, task)?;
            group.compared(Compared::AllReduce(datatype), send.len(), || group.all_reduce(send, receive, task))
        }
    }

    /// Brings four words of each member to all.
    pub(super) fn all_gather_words(&self, words: [u32; 4]) -> Result<Vec<[u32; 4]>, CommunicatorError> {
        let mine = HostBuffer::from(words.map(u32::to_le_bytes).concat());
        let all = HostBuffer::zeroed(mine.len() * self.group.size());
        self.all_gather(&mine.all(), &all.all(), Element::U32)?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        let words = |bytes: &[u8]| std::array::from_fn(|i| word(&bytes[4 * i..4 * i + 4]));
        Ok(all.all().read(|bytes| bytes.chunks_exact(mine.len()).map(words).collect()))
    }
}
