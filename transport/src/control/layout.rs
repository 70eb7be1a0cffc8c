//! Where everything lies in a control page, version 1. All of it is 64-bit words, little-endian, used as atomics.
//!
//! ```text
//! words                       what                          written by
//! 0 .. 512                    header                        process, but for DEFAULT and READ_CAP
//! 512 .. 2048                 settings, one word per slot   daemon
//! 2048 .. 2048 + 1025 · 128   counters, 128 words per slot  process
//! then 1025 · 1536            histograms, 1536 per slot     process; in the last slot of what is sent alone
//! ```
//!
//! The file is exactly [`PAGE_BYTES`] long. Most of it is never touched and takes no memory. Whoever changes a
//! place or a meaning here raises [`VERSION`]: the other side then refuses the page. A new kind of slot does not: who does not
//! know it leaves such slots out, and they go by the page's default.
//!
//! | header word | meaning |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 1 | [`VERSION`] |
//! | 2 | [`PAGE_BYTES`] |
//! | 3 | slots: [`SLOTS`] |
//! | 4 | process id, as the process sees it |
//! | 5 | rank in the low half, ranks of the job in the high half |
//! | 6 | when the process opened the page, nanoseconds since 1970 |
//! | 8 to 16 | job id: length in bytes, then up to 64 bytes of printable ASCII |
//! | 17 to 25 | program name, likewise |
//! | 26 to 28 | version of mgcomp in the process, up to 16 bytes |
//! | 64 | slots in use; those before it have an identity that never changes |
//! | 65 | words of settings that the process did not understand and left alone |
//! | 128 | settings of slots that have no word of their own yet |
//! | 129 | bits per second at which copies may read device memory, 1 to 10¹⁵; 0 = as the program says |

/// The first eight bytes: `MGCTRLPG`.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"MGCTRLPG");
/// Which layout this is.
pub(super) const VERSION: u64 = 1;

/// Slots that have a (peer, stream) or a pair of devices of their own.
pub(super) const OWN_SLOTS: usize = 1024;
/// Where transfers of all further streams are counted.
pub(super) const OTHER_SLOT: usize = OWN_SLOTS;
/// All of them.
pub(super) const SLOTS: usize = OWN_SLOTS + 1;

pub(super) const PID: usize = 4;
pub(super) const RANK: usize = 5;
pub(super) const STARTED: usize = 6;
pub(super) const JOB: Text = Text { first: 8, bytes: 64 };
pub(super) const PROGRAM: Text = Text { first: 17, bytes: 64 };
pub(super) const RELEASE: Text = Text { first: 26, bytes: 16 };
pub(super) const USED: usize = 64;
pub(super) const NOT_UNDERSTOOD: usize = 65;
pub(super) const DEFAULT: usize = 128;
pub(super) const READ_CAP: usize = 129;

/// Room for a text in the header: a word with its length, then its bytes.
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub(super) first: usize,
    pub(super) bytes: usize,
}

const SETTINGS: usize = 512;
const COUNTERS: usize = 2048;
/// Words of counters per slot.
pub(super) const COUNTER_WORDS: usize = 128;
const HISTOGRAMS: usize = COUNTERS + SLOTS * COUNTER_WORDS;
/// Words of histograms per slot.
pub(super) const HISTOGRAM_WORDS: usize = 1536;
/// All words.
pub(super) const WORDS: usize = (HISTOGRAMS + SLOTS * HISTOGRAM_WORDS).next_multiple_of(512);
/// Length of the file.
pub const PAGE_BYTES: usize = WORDS * 8;

/// Where the settings of `slot` are.
pub(super) const fn settings(slot: usize) -> usize {
    SETTINGS + slot
}

/// Where the counters of `slot` start.
pub(super) const fn counters(slot: usize) -> usize {
    COUNTERS + slot * COUNTER_WORDS
}

/// Where the histograms of `slot` start.
pub(super) const fn histograms(slot: usize) -> usize {
    HISTOGRAMS + slot * HISTOGRAM_WORDS
}

/// Words of a slot's counters, counted from its first.
pub(super) mod counter {
    /// Peer in the low half, stream in the high half; of copies, the device that they go to and the one that they come from.
    pub(crate) const PEER_STREAM: usize = 0;
    /// Rank of this side in the low half, kind of the slot in the high half.
    pub(crate) const RANK_KIND: usize = 1;
    /// Rate of the link as the policy knows it, in Gb/s, as binary64; 0 = not known.
    pub(crate) const LINK_GBPS: usize = 2;
    /// Latency of the link, in ns.
    pub(crate) const LINK_LATENCY_NS: usize = 3;
    /// Transfers that were sampled, and what that took.
    pub(crate) const SAMPLED: usize = 4;
    pub(crate) const SAMPLING_NS: usize = 5;
    /// What encoders took.
    pub(crate) const ENCODE_NS: usize = 6;
    /// What decoders took.
    pub(crate) const DECODE_NS: usize = 7;
    /// Transfers that the peer acknowledged, and the time from plan to acknowledgement.
    pub(crate) const ACKNOWLEDGED: usize = 8;
    pub(crate) const ACKNOWLEDGED_NS: usize = 9;
    /// Payloads that were decoded, and their lengths before and after.
    pub(crate) const DECODED: usize = 10;
    pub(crate) const DECODED_RAW_BYTES: usize = 11;
    pub(crate) const DECODED_CODED_BYTES: usize = 12;
    /// Codec jobs that failed.
    pub(crate) const ERRORS: usize = 13;
    /// Where a size was predicted: the predicted bits, and those that it became.
    pub(crate) const PREDICTED_BITS: usize = 14;
    pub(crate) const ACHIEVED_BITS: usize = 15;
    /// The settings that the process goes by, and how often they changed.
    pub(crate) const IN_EFFECT: usize = 16;
    pub(crate) const CHANGES: usize = 17;
    /// Settings that the program's own policy cannot follow.
    pub(crate) const NOT_FOLLOWED: usize = 18;
    /// Transfers, raw bytes and coded bytes of algorithm 0, then of 1, … of 15.
    pub(crate) const ALGORITHMS: usize = 24;
    /// The last decision, behind a sequence number that is odd while it is written.
    pub(crate) const DECISION: usize = 72;
    /// Words of it, without that number.
    pub(crate) const DECISION_WORDS: usize = 8;
}

const _: () = {
    assert!(SETTINGS + SLOTS <= COUNTERS);
    assert!(counter::ALGORITHMS + 3 * 16 <= counter::DECISION);
    assert!(counter::DECISION + 1 + counter::DECISION_WORDS <= COUNTER_WORDS);
    assert!(RELEASE.first + 1 + RELEASE.bytes / 8 <= USED);
};
