//! Processes as tests play them: pages whose words they write.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use mgcomp_transport::control::{Identity, Page, Settings};
use tempfile::TempDir;

use crate::config::Config;
use crate::processes::{Owner, Process, Processes};
use crate::settings::Scopes;

/// A page in the hands of whoever counts there.
pub(crate) struct Played {
    file: File,
    used: u32,
}

// Where words lie, as the layout of the page says.
const USED: u64 = 64;
const DEFAULT: u64 = 128;
const SETTINGS: u64 = 512;
const OTHER: u64 = 1024;
const COUNTERS: u64 = 2048;
const COUNTER_WORDS: u64 = 128;
const HISTOGRAMS: u64 = COUNTERS + (OTHER + 1) * COUNTER_WORDS;
const HISTOGRAM_WORDS: u64 = 1536;
const RANK_KIND: u64 = 1;
const LINK_GBPS: u64 = 2;
const DECODED: u64 = 10;
const NOT_CODED: u64 = 24;
const SENT: u64 = 1 << 32;
const COUNTS: u64 = 1 << 63;

/// A daemon of its own.
pub(crate) fn config(folder: &TempDir) -> Config {
    Config::private(folder.path().join("socket"), folder.path().join("state"))
}

impl Played {
    /// A process of `job` that has opened its page at some time.
    pub(crate) fn new(job: &str, started_ns: u64) -> Self {
        let identity = Identity { job: job.to_owned(), started_ns, ..Identity::of_this_process() };
        Self { file: Page::create(&identity).unwrap().1.into(), used: 0 }
    }

    /// It has sent so much to a peer, in one transfer and as it is. Returns the slot that counts it, a new one.
    pub(crate) fn sends(&mut self, peer: u32, raw_bytes: u64) -> u64 {
        let slot = u64::from(self.used);
        self.counter(slot, 0, peer.into());
        self.counter(slot, RANK_KIND, SENT);
        self.has_sent(slot, raw_bytes);
        self.used += 1;
        self.word(USED, self.used.into());
        slot
    }

    /// A process of `job` that has no slot left.
    pub(crate) fn full(job: &str) -> Self {
        let played = Self::new(job, 0);
        played.has_used(1024);
        played
    }

    /// It says that it uses so many slots, whatever is in them.
    pub(crate) fn has_used(&self, slots: u64) {
        self.word(USED, slots);
    }

    /// What a slot counts by now.
    pub(crate) fn has_sent(&self, slot: u64, raw_bytes: u64) {
        [1, raw_bytes, raw_bytes]
            .into_iter()
            .zip(NOT_CODED..)
            .for_each(|(value, word)| self.counter(slot, word, value));
    }

    /// The rate of a slot's link.
    pub(crate) fn goes_over(&self, slot: u64, gbps: f64) {
        self.counter(slot, LINK_GBPS, gbps.to_bits());
    }

    /// How many transfers a slot counts in this bucket of their lengths.
    pub(crate) fn has_counted(&self, slot: u64, bucket: u64, count: u64) {
        self.word(HISTOGRAMS + slot * HISTOGRAM_WORDS + bucket, count);
    }

    /// What it goes by in a slot.
    pub(crate) fn goes_by(&self, slot: u64) -> Settings {
        let word = |index: u64| {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, index * 8).unwrap();
            u64::from_le_bytes(bytes)
        };
        let own = Some(word(SETTINGS + slot)).filter(|own| own & COUNTS != 0);
        Settings::unpack(own.unwrap_or_else(|| word(DEFAULT)) & !COUNTS).unwrap()
    }

    /// It has received so much of somebody for whom there was no slot left.
    pub(crate) fn has_received_of_others(&self, raw_bytes: u64) {
        self.has_received(OTHER, 1, raw_bytes);
    }

    /// What a slot counts by now of what is received.
    pub(crate) fn has_received(&self, slot: u64, transfers: u64, raw_bytes: u64) {
        [transfers, raw_bytes, raw_bytes]
            .into_iter()
            .zip(DECODED..)
            .for_each(|(value, word)| self.counter(slot, word, value));
    }

    fn counter(&self, slot: u64, word: u64, value: u64) {
        self.word(COUNTERS + slot * COUNTER_WORDS + word, value);
    }

    fn word(&self, index: u64, value: u64) {
        self.file.write_all_at(&value.to_le_bytes(), index * 8).unwrap();
    }

    /// Hands its page over to a daemon, as a user with this number who is an operator or not.
    pub(crate) fn is_adopted_by(
        &self,
        processes: &Processes,
        config: &Config,
        (uid, is_operator): (u32, bool),
    ) -> Arc<Process> {
        processes.adopt(self.page(), Owner { uid, pid: 0, is_operator }, config, &Scopes::default()).unwrap()
    }

    /// As the daemon sees it.
    pub(crate) fn page(&self) -> Page {
        Page::adopt(&self.file).unwrap()
    }
}
