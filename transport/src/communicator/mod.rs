//! Ranks that work together: messages by tag, and collectives.
//!
//! ```
//! use mgcomp_selector::{PolicySpec, Steering};
//! use mgcomp_transport::communicator::{Communicator, Datatype, Operation};
//! use mgcomp_transport::link::loopback::Loopback;
//! use mgcomp_transport::memory::HostBuffer;
//! use mgcomp_transport::node::{Node, NodeConfig};
//!
//! let policy = PolicySpec::default();
//! let start = |link| Node::start(Box::new(link), policy.build(&Steering::default()), NodeConfig::default());
//! let nodes: Vec<Node> = Loopback::fabric(3, None)?.into_iter().map(start).collect::<Result<_, _>>()?;
//!
//! std::thread::scope(|scope| {
//!     for node in nodes {
//!         scope.spawn(move || {
//!             let world = Communicator::world(node);
//!             let gradient = HostBuffer::from([1.0f32, 2.0].map(f32::to_le_bytes).concat());
//!             world.all_reduce(&gradient.all(), &gradient.all(), Datatype::F32, Operation::Sum).unwrap();
//!             assert_eq!(gradient.all().to_vec(), [3.0f32, 6.0].map(f32::to_le_bytes).concat());
//!         });
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order
//! All members call the same collectives in the same order with lengths that agree, as in MPI; blocking and non-blocking
//! ones count alike and are carried out one after the other. Lengths that do not agree are an error on all members, but not where
//! the shorter one is a whole number of parts (see below), one member's share of the longer one, or nothing: there a member waits
//! for what never comes, or takes what belongs to the next collective of the kind for it. A call that is refused for its arguments
//! has not begun: the others wait until it is made again, or the member leaves. Messages by tag are independent of them. An operation that
//! fails on one member ends on the others too, and the communicator can do no more of them: each says why, or who has given
//! up. Its buffers may then still be read and written for a moment, until what is on its way to or from the others has come or
//! left; all else that was sent and asked for is let go of, and so is what still comes of the communicator's collectives. Messages
//! by tag go on.
//!
//! A collective is done on a member when its own buffers are: others may still be receiving what it has sent. That arrives even if
//! the member drops its communicator and node next, if the others take it within two seconds; a process that ends without may take
//! it along. Who ends last is best found out by a barrier. Who drops its communicator leaves it: those who wait for that member in a later
//! collective, or begin one, are told (status closing), and their communicator can do no more of them.
//!
//! Collectives that do not wait go on in a thread of their communicator, also when their requests are dropped. However many are under
//! way, it is one. It is started with the first of them, runs on the processors that the thread may run on which calls that, and ends
//! when there has been nothing to do for a fifth of a second. It is joined when the communicator is used no more: when its last clone
//! and the last request of its collectives are dropped. What is still under way then, and nobody can wait for any more, has two
//! seconds to finish. After that it is given up, which the other members are told (status closing). Who drops the last of them waits
//! for that; work of a device that buffers come after, and buffers that the program itself holds, are waited for however long that takes.
//!
//! Where there is no such thread and the system gives none, it is asked again for a fifth of a second, in the call that starts the
//! collective. Then that fails on all members, in its turn, since the others would wait for this one, and the communicator can do no
//! more of them. A communicator of one member can: nobody waits for it.
//!
//! # Algorithms
//! Every block goes straight from the rank that has it to the rank that wants it, in [parts](crate::link::Link::part_bytes) of
//! 512 KiB, and over TCP of 192. Ranks start with the next one, so that they do not all send to the same. In an all-gather, a
//! reduction and an all-to-all of two, parts go in step where the link's rate and latency are known, it takes no longer than 0.1 ms
//! and is not the work of the machine's own cores: one goes when one has come from each. A broadcast of more than 64 KiB to more
//! than one rank is cut into
//! shares that the ranks hand on to each other. A reduction combines in the order of the ranks, whatever its length. Everything
//! goes to whoever needs the result in a reduce of up to 16 KiB, and in an all-reduce of up to 128 KiB where each rank then sends no more
//! than 32 KiB more than otherwise: so do two ranks up to 128 KiB, three up to 48, four up to 21, five up to 13, and more up to ever less.
//! Otherwise each rank gets its share of the numbers from all others, in parts of 256 KiB at most, combines it, and hands it on. So
//! the same buffers give the same bits on every link, with and without compression. The rules of the arithmetic are those of
//! [`Operation`]. Numbers are combined where their result is to be: by the host, or in the memory of a CUDA device by a kernel,
//! with the same bits; members need not have the same kind of memory.
//!
//! # Compression
//! The node's policy decides for each message. Where it goes by the times that it predicts, some collectives go raw, on all members alike, to
//! compare how long the whole takes, and members tell each other what they have seen. Those of a kind and of about one length (up to a
//! quarter of a power of two apart) that take longer with compression go raw until they are compared again; decisions say so
//! ([`Reason::CollectiveSlower`](mgcomp_selector::Reason::CollectiveSlower)). Comparisons come ever more seldom: from the second
//! collective on, and then after about twice as many as there were, or about 512 more; or eight times and 4096 where compression pays, and
//! twice and 2048 where there is nothing to compare.
//! Compared are broadcasts, all-gathers, all-to-alls of equal blocks, reduce-scatters and all-reduces of 16 KiB and more that would not
//! take more than 50 ms raw (200 where that is not half as long again, and links alone would not clearly take longer), with what they
//! wait for who comes late. Behind some of them members send each other messages of 24 bytes, which no policy is asked about, whatever
//! the policy is. So any of these may wait for all members, a broadcast at its root too, and say that a member has failed though its own
//! data is there. When that is follows from how many there were, so all members must run the same version of this library.
//!
//! # Memory
//! Beside the caller's buffers a communicator keeps, from its first reduction on, up to two parts of 256 KiB for each rank;
//! in the memory of each device that results are in, that many there, and from the first `reduce` on its share of the longest, each
//! rounded up to a power of two, 1 MiB at least, beside what these have outgrown, which is as much again at most. From its first
//! all-to-all in place on, it keeps up to 1 MiB in each memory that the buffer of one was in: the host's, or a device's.

mod collective;
mod comparison;
mod error;
mod message;
mod request;
mod started;
mod transfer;
mod turn;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

pub use self::collective::Block;
use self::collective::Kept;
#[cfg(feature = "cuda")]
pub(crate) use self::collective::shares;
use self::comparison::Comparisons;
pub use self::error::CommunicatorError;
pub use self::message::{ReceiveRequest, SendRequest};
pub use self::request::CollectiveRequest;
use self::started::Started;
use self::turn::Turns;
use crate::message::{GROUP_SHIFT, GROUP_TAG, MOST_GROUPS, OPERATION_TAG, OperationId, Rank, Tag};
use crate::node::{Node, Watch};
pub use mgcomp_codecs::reduction::{Datatype, Operation};

/// Tags with this bit are those of communicators.
const COMMUNICATOR_TAG: u64 = GROUP_TAG;
/// Where the number of the communicator lies in a tag.
const CONTEXT_SHIFT: u32 = GROUP_SHIFT;
/// Communicators that a node can tell apart.
const MOST_CONTEXTS: u32 = MOST_GROUPS;
/// Splits at the same time agree within a few attempts; who always says no does not keep the others for ever.
const MOST_ATTEMPTS: u32 = 1024;
/// Tags with this bit are those of collectives.
const COLLECTIVE_TAG: u64 = OPERATION_TAG;

/// Ranks that work together. Clones are the same communicator.
#[derive(Clone)]
pub struct Communicator {
    group: Arc<Group>,
    started: Arc<Started>,
}

/// What the threads of a communicator share.
struct Group {
    node: Arc<Node>,
    /// Ranks of the node's job, in the order of this communicator.
    members: Vec<Rank>,
    /// Which of them this one is.
    rank: usize,
    /// Tells the messages of this communicator from those of others.
    context: u32,
    /// The next number that no communicator of this node has.
    next_context: Arc<AtomicU32>,
    turns: Turns,
    /// What is carried out in this turn, or next.
    operation: Mutex<OperationId>,
    /// Whether another member has given up.
    watch: Arc<Watch>,
    /// What collectives keep.
    kept: Mutex<Kept>,
    /// What was found of whole collectives.
    comparisons: Mutex<Comparisons>,
    /// Why nothing more can be done.
    broken: OnceLock<CommunicatorError>,
}

impl Communicator {
    /// All ranks of a job. A node has one such communicator; whoever shares the node may use it for other things as well. Collectives of
    /// a second one fail with [`CommunicatorError::SecondWorld`], also when the first one is gone: others may have that yet.
    #[must_use]
    pub fn world(node: impl Into<Arc<Node>>) -> Self {
        let node = node.into();
        let position = node.position();
        let members: Vec<_> = (0..position.ranks).map(Rank).collect();
        let next_context = Arc::new(AtomicU32::new(1));
        let (watch, is_first) = node.watch_world(&members);
        let world = Self::of(node, members, position.rank.0 as usize, (0, watch), next_context);
        if !is_first {
            let _ = world.group.broken.set(CommunicatorError::SecondWorld); // nothing else has broken it yet
        }
        world
    }

    fn of(
        node: Arc<Node>,
        members: Vec<Rank>,
        rank: usize,
        (context, watch): (u32, Arc<Watch>),
        next_context: Arc<AtomicU32>,
    ) -> Self {
        let group = Group {
            node,
            members,
            rank,
            context,
            next_context,
            turns: Turns::default(),
            operation: Mutex::default(),
            watch,
            kept: Mutex::default(),
            comparisons: Mutex::default(),
            broken: OnceLock::new(),
        };
        let group = Arc::new(group);
        Self { started: Arc::new(Started::new(group.clone())), group }
    }

    /// This member, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.group.rank as u32
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.group.members.len() as u32
    }

    /// The node that carries the messages: its counters and decisions.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.group.node
    }

    /// Makes communicators of the members that name the same `color`, ordered by `key` and then by rank. A member that
    /// names none is in none. A collective: all members call it. Different communicators may be split at the same time, also by threads
    /// of the same ranks.
    ///
    /// # Errors
    /// [`CommunicatorError`] if a transfer fails, or the node has too many communicators.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Self>, CommunicatorError> {
        let group = &*self.group;
        group.check_process()?;
        let next = group.next_context.load(Ordering::SeqCst);
        let _making = group.node.making_group(next);
        let mine = [u32::from(color.is_some()), color.unwrap_or(0), key as u32, 0];
        let all = self.all_gather_words(mine)?;
        let mut chosen: Vec<(i32, usize)> = all
            .iter()
            .enumerate()
            .filter(|(_, words)| color.is_some_and(|color| words[..2] == [1, color]))
            .map(|(rank, words)| (words[2] as i32, rank))
            .collect();
        chosen.sort_unstable();
        let rank = chosen.iter().position(|&(_, rank)| rank == group.rank).unwrap_or_default();
        let members: Vec<_> = chosen.into_iter().map(|(_, rank)| group.members[rank]).collect();
        let context = self.agree_on_context(&members)?;
        if color.is_none() {
            return Ok(None);
        }
        let watch = group.node.watch(context, &members);
        let next_context = group.next_context.clone();
        Ok(Some(Self::of(group.node.clone(), members, rank, (context, watch), next_context)))
    }

    /// A number that no other communicator of any member has or gets. Members may split another communicator as well, and
    /// propose the same number for that: who comes first on a rank has it there, and both try again unless one is the first
    /// everywhere. Numbers only rise, so of proposals that differ the highest is. If this one does not hear whether all agree, others may
    /// have: those of its `members` are told that it is none.
    fn agree_on_context(&self, members: &[Rank]) -> Result<u32, CommunicatorError> {
        let group = &*self.group;
        for attempt in 0..MOST_ATTEMPTS {
            // No two communicators of a rank have all bits alike.
            let apart = group.context >> (attempt % u32::BITS) & 1;
            let next = group.next_context.load(Ordering::SeqCst) + apart;
            let context = self.all_gather_word(next)?.max().unwrap_or(next);
            if context >= MOST_CONTEXTS {
                return Err(CommunicatorError::TooMany);
            }
            let take = |next| (context >= next).then_some(context + 1);
            let taken = group.next_context.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
            let agreed = self.all_gather_word(taken.is_ok().into());
            if let (Ok(_), Err(error)) = (taken, &agreed) {
                group.stay_out(context, members, error.status());
            }
            if agreed?.all(|taken| taken == 1) {
                return Ok(context);
            }
        }
        Err(CommunicatorError::TooMany)
    }

    fn all_gather_word(&self, word: u32) -> Result<impl Iterator<Item = u32> + use<>, CommunicatorError> {
        Ok(self.all_gather_words([word, 0, 0, 0])?.into_iter().map(|words| words[0]))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} in communicator {}", self.rank, self.size(), self.context)
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({:?})", self.group)
    }
}

impl Group {
    fn size(&self) -> usize {
        self.members.len()
    }

    fn check_rank(&self, rank: u32) -> Result<usize, CommunicatorError> {
        let ranks = self.size() as u32;
        if rank < ranks { Ok(rank as usize) } else { Err(CommunicatorError::Rank { rank, ranks }) }
    }

    /// The tag of messages of the program.
    fn message_tag(&self, tag: u32) -> Tag {
        Tag(COMMUNICATOR_TAG | u64::from(self.context) << CONTEXT_SHIFT | u64::from(tag))
    }

    /// The tag of a kind of collective. Sends with one tag arrive in order and collectives are carried out in order, so
    /// that all calls of a kind can share one; to policies they are one stream.
    fn collective_tag(&self, kind: Kind) -> Tag {
        let context = u64::from(self.context) << CONTEXT_SHIFT;
        Tag(COMMUNICATOR_TAG | COLLECTIVE_TAG | context | kind as u64)
    }

    /// The other members, from the next one on.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank, self.size());
        (1..size).map(move |distance| (rank + distance) % size)
    }
}

/// What the messages of a collective are for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Barrier,
    Broadcast,
    Gather,
    Scatter,
    AllGather,
    AllToAll,
    Reduce,
}
