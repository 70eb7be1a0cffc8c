//! Why a message was not queued, and why the way to a peer is gone.

use std::{fmt, io};

use crate::message::Rank;

/// Why a message was not queued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The queue is full: the peer does not take what was sent to it.
    #[error("{queued_bytes} bytes are queued (256 a message counted on top), at most {limit} may be")]
    Full {
        /// Bytes queued before this message.
        queued_bytes: u64,
        /// The most that may be.
        limit: u64,
    },
    /// The message is longer than the link can carry.
    #[error("a message of {bytes} bytes is too long for the link, which carries {limit}")]
    TooLong {
        /// Length of the message in bytes.
        bytes: u64,
        /// The most the link carries.
        limit: u64,
    },
    /// The payload is not ready, or not in memory that this link reads.
    #[error("the payload is not in host memory")]
    Payload,
    /// The way to the peer is gone, or there is no such peer.
    #[error("the way to rank {0} is closed")]
    Closed(Rank),
}

/// Why the way to a peer is gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer closed its end.
    #[error("rank {0} closed the connection")]
    PeerClosed(Rank),
    /// The system reports an error.
    #[error("{what} {address}: {kind}: {text}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With whom.
        address: String,
        /// Kind of the error.
        kind: io::ErrorKind,
        /// The system's words.
        text: String,
    },
    /// A record's checksum does not match.
    #[error("record {record} from rank {peer}: checksum {computed:#010x}, the record says {stored:#010x}")]
    Checksum {
        /// Who sent it.
        peer: Rank,
        /// Which record of the connection, from 0.
        record: u64,
        /// What it carries.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// A record is longer than any message may be.
    #[error("record {record} from rank {peer} claims {len} bytes, at most {limit} may be")]
    RecordTooLong {
        /// Who sent it.
        peer: Rank,
        /// Which record of the connection, from 0.
        record: u64,
        /// What it claims in bytes.
        len: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A record ends in the middle because the connection does.
    #[error("connection to rank {peer} ended {got} bytes into record {record}")]
    RecordTruncated {
        /// Who sent it.
        peer: Rank,
        /// Which record of the connection, from 0.
        record: u64,
        /// Bytes of the record that came.
        got: u64,
    },
    /// A place in a shared ring where the peer cannot be.
    #[error(
        "rank {peer} says it is at byte {claimed} of the ring, not at one of {least} to {most}, in steps of 64"
    )]
    RingPlace {
        /// Whose ring it is.
        peer: Rank,
        /// Where it says it is.
        claimed: u64,
        /// Where it must be at least.
        least: u64,
        /// Where it can be at most.
        most: u64,
    },
    /// Something that is no answer came where a peer was to say whether it lets this rank in.
    #[error("rank {peer} answered with {got} bytes that are no answer")]
    Answer {
        /// Who.
        peer: Rank,
        /// How many bytes came.
        got: usize,
    },
    /// The peer's address was not reached in time.
    #[error("rank {peer} at {address} was not reached within {seconds} s: {text}")]
    Unreachable {
        /// Who.
        peer: Rank,
        /// Where.
        address: String,
        /// How long it was tried, in seconds.
        seconds: u64,
        /// The last error.
        text: String,
    },
    /// The job has no such rank.
    #[error("the job has {ranks} ranks, so there is no rank {rank}")]
    NoSuchRank {
        /// Who was to be one.
        rank: Rank,
        /// Ranks in the job.
        ranks: u32,
    },
    /// The job has more ranks than the link is for.
    #[error("a job of {ranks} ranks: at most {limit} are possible")]
    TooManyRanks {
        /// Ranks in the job.
        ranks: u32,
        /// The most there may be.
        limit: u32,
    },
    /// The link was already started.
    #[error("the link was started before")]
    StartedTwice,
    /// A record is of no known kind.
    #[error("record {record} from rank {peer} is of kind {kind}, which is not known")]
    RecordKind {
        /// Who sent it.
        peer: Rank,
        /// Which record of the connection, from 0.
        record: u64,
        /// What it claims to be.
        kind: u32,
    },
    /// The place of a payload that is elsewhere is no place.
    #[error("record {record} from rank {peer} says in {len} bytes where its payload is, not in 16")]
    RecordPlace {
        /// Who sent it.
        peer: Rank,
        /// Which record of the connection, from 0.
        record: u64,
        /// Bytes in which it says so.
        len: u64,
    },
    /// The peer is joined by another kind of link than this rank.
    #[error("rank {peer} is joined by {}, this rank by {}", form_name(*theirs), form_name(*own))]
    OtherLink {
        /// Who.
        peer: Rank,
        /// The form of its link; see WIRE.md.
        theirs: u8,
        /// That of this rank's.
        own: u8,
    },
    /// The peer speaks another version of what this link begins with.
    #[error("rank {peer} speaks version {theirs} of this link, this rank version {own}")]
    OtherVersion {
        /// Who.
        peer: Rank,
        /// Its version.
        theirs: u16,
        /// That of this rank's.
        own: u16,
    },
    /// What a peer says of its device is nothing that can be said, or it has said enough.
    #[error(
        "rank {peer} sent a note of {got} bytes, beginning with {first:#04x}, that says nothing, or is one too many"
    )]
    Note {
        /// Who.
        peer: Rank,
        /// How many bytes came.
        got: usize,
        /// The first of them.
        first: u8,
    },
    /// A payload that a peer has not put where this rank's window is.
    #[error(
        "rank {peer} says that a payload of {len} bytes is at byte {offset} of a window of {window_bytes} bytes"
    )]
    WindowPlace {
        /// Who.
        peer: Rank,
        /// Where it says that the payload begins.
        offset: u64,
        /// How long it says that it is.
        len: u64,
        /// Bytes that there are; 0 if there is no window.
        window_bytes: u64,
    },
    /// MPI reports an error.
    #[error("MPI, with rank {peer}: {call} returned {code}: {text}")]
    Mpi {
        /// With whom.
        peer: Rank,
        /// The call that failed.
        call: &'static str,
        /// What it returned.
        code: i32,
        /// MPI's words.
        text: String,
    },
    /// A device is lost, or does not hand its memory to another.
    #[error("the device of rank {peer} fails: {text}")]
    Device {
        /// Whose.
        peer: Rank,
        /// What the driver says.
        text: String,
    },
    /// MPI was finalized while the link was in use.
    #[error("MPI was finalized, which ends the link to rank {0}")]
    MpiFinalized(Rank),
    /// Only one thread of the program may let the link go on, and does not.
    #[error(
        "rank {peer} was not heard because the thread that made the link has not let it go on for {seconds} s: \
         it has to wait in calls of mgcomp, or to call link::drive"
    )]
    NotDriven {
        /// Who may have sent something.
        peer: Rank,
        /// For how long.
        seconds: u64,
    },
}

/// What joins ranks of one node, by the form that they tell each other.
fn form_name(form: u8) -> String {
    match form {
        0 => "shared memory (shm)".to_owned(),
        1 => "windows of devices (cuda), version 1".to_owned(),
        other => format!("a link of form {other}"),
    }
}

impl LinkError {
    /// An error of the system while doing `what` with `address`.
    #[must_use]
    pub fn io(what: &'static str, address: impl fmt::Display, error: &io::Error) -> Self {
        Self::Io { what, address: address.to_string(), kind: error.kind(), text: error.to_string() }
    }

    #[cfg(feature = "mpi")]
    pub(super) fn mpi(peer: Rank, failure: &super::mpi::MpiFailure) -> Self {
        Self::Mpi { peer, call: failure.call, code: failure.code, text: failure.text.clone() }
    }
}
