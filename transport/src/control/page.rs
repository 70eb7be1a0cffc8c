//! A control page as the two sides see it: the process that owns it, and the daemon that was handed it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::histogram::{BUCKETS, Histogram, Measure};
use super::identity::{Identity, is_name};
use super::layout::{self, COUNTER_WORDS, PAGE_BYTES, SLOTS, Text, counter};
use super::map::{Map, MapError};
use super::reason;
use super::settings::{COUNTS, ReadCap, Settings};
use super::view::{SlotIdentity, SlotKind, SlotView, identity, view};

/// Stands for a rank that is not known.
const NO_RANK: u32 = u32::MAX;

/// A mapped control page. The process writes counters and reads settings; the daemon the other way round.
#[derive(Debug)]
pub struct Page {
    map: Map,
    /// Whether a node of this process has said which rank it is.
    has_rank: AtomicBool,
}

impl Page {
    /// A page for this process, and the file to hand over.
    ///
    /// # Errors
    /// What the system says if it gives no memory file.
    pub fn create(identity: &Identity) -> io::Result<(Self, OwnedFd)> {
        let (map, file) = Map::create()?;
        let page = Self { map, has_rank: AtomicBool::new(false) };
        let header = [layout::MAGIC, layout::VERSION, PAGE_BYTES as u64, SLOTS as u64];
        for (index, value) in header.into_iter().enumerate() {
            page.word(index).store(value, Ordering::Relaxed);
        }
        page.word(layout::PID).store(identity.pid.into(), Ordering::Relaxed);
        page.word(layout::STARTED).store(identity.started_ns, Ordering::Relaxed);
        page.write_rank(identity.rank.unwrap_or(NO_RANK), identity.ranks);
        page.write_text(layout::JOB, &identity.job);
        page.write_text(layout::PROGRAM, &identity.program);
        page.write_text(layout::RELEASE, &identity.release);
        page.identify(layout::OTHER_SLOT, (u32::MAX, u32::MAX), NO_RANK, SlotKind::Other);
        Ok((page, file))
    }

    /// Maps a page that a process handed over, if it is one.
    ///
    /// # Errors
    /// [`PageError`] for anything that is no page of this version.
    pub fn adopt(file: impl AsFd) -> Result<Self, PageError> {
        let page = Self { map: Map::adopt(file)?, has_rank: AtomicBool::new(false) };
        let word = |index: usize| page.word(index).load(Ordering::Relaxed);
        if word(0) != layout::MAGIC {
            return Err(PageError::Foreign { got: word(0) });
        }
        if word(1) != layout::VERSION {
            return Err(PageError::Version { got: word(1) });
        }
        for (index, expected) in [(2, PAGE_BYTES as u64), (3, SLOTS as u64)] {
            if word(index) != expected {
                return Err(PageError::Header { word: index, got: word(index) });
            }
        }
        page.identity()?; // whatever the process changes later, it started as a page
        Ok(page)
    }

    /// Who the process says it is.
    ///
    /// # Errors
    /// [`PageError::Header`] if a name is none.
    pub fn identity(&self) -> Result<Identity, PageError> {
        let rank = self.word(layout::RANK).load(Ordering::Relaxed);
        Ok(Identity {
            job: self.text(layout::JOB)?,
            program: self.text(layout::PROGRAM)?,
            release: self.text(layout::RELEASE)?,
            pid: self.word(layout::PID).load(Ordering::Relaxed) as u32,
            rank: Some(rank as u32).filter(|rank| *rank != NO_RANK),
            ranks: (rank >> 32) as u32,
            started_ns: self.word(layout::STARTED).load(Ordering::Relaxed),
        })
    }

    /// Which memory file it is, as device and number: the same for all pages of one file.
    #[must_use]
    pub fn file(&self) -> (u64, u64) {
        self.map.file()
    }

    /// The rank as the header has it, [`NO_RANK`] too.
    #[cfg(feature = "cuda")]
    pub(super) fn rank(&self) -> u32 {
        self.word(layout::RANK).load(Ordering::Relaxed) as u32
    }

    /// Slots in use, as the process says, but never more than there are. The slot of all other streams is
    /// [`other`](Self::other) and not counted.
    #[must_use]
    pub fn used(&self) -> usize {
        let used = self.word(layout::USED).load(Ordering::Acquire);
        usize::try_from(used).map_or(layout::OWN_SLOTS, |used| used.min(layout::OWN_SLOTS))
    }

    /// The slot in which streams are counted that have none of their own.
    #[must_use]
    pub const fn other() -> usize {
        layout::OTHER_SLOT
    }

    /// Whose slot `slot` is; `None` if there is no such slot or it makes no sense.
    #[must_use]
    pub fn whose(&self, slot: usize) -> Option<SlotIdentity> {
        (slot < SLOTS).then(|| identity(self.counters(slot)))?
    }

    /// What slot `slot` says now; `None` if there is no such slot or it makes no sense.
    #[must_use]
    pub fn view(&self, slot: usize) -> Option<SlotView> {
        (slot < SLOTS).then(|| view(self.counters(slot)))?
    }

    /// Adds what slot `slot` has counted of `measure` to `histogram`.
    pub fn add_histogram(&self, slot: usize, measure: Measure, histogram: &mut Histogram) {
        if slot < SLOTS {
            histogram.add(&self.histograms(slot)[measure.first()..][..BUCKETS]);
        }
    }

    /// Lets go of the memory that reading histograms has taken; they stay as they are.
    pub fn let_go_of_histograms(&self) {
        self.map.let_go(layout::histograms(0)..layout::WORDS);
    }

    /// Sets what holds for `slot`; `None` = what holds for slots that have no settings of their own, and for the process.
    pub fn set(&self, slot: Option<usize>, settings: &Settings) {
        let index = match slot {
            None => {
                self.change(layout::READ_CAP, ReadCap::word(settings.read_cap));
                layout::DEFAULT
            }
            Some(slot) if slot < SLOTS => layout::settings(slot),
            Some(_) => return,
        };
        self.change(index, settings.pack());
    }

    /// Unsets what was ever set for `slot` alone: it goes by what holds for slots that have no settings of their own.
    pub fn unset(&self, slot: usize) {
        if slot < SLOTS {
            self.change(layout::settings(slot), 0);
        }
    }

    fn change(&self, index: usize, word: u64) {
        // Another process may be looking at the line: leave it alone if nothing changes.
        if self.word(index).load(Ordering::Relaxed) != word {
            self.word(index).store(word, Ordering::Release);
        }
    }

    /// Words of settings that the process did not understand.
    #[must_use]
    pub fn not_understood(&self) -> u64 {
        self.word(layout::NOT_UNDERSTOOD).load(Ordering::Relaxed)
    }

    /// What a process goes by in `slot`: one load, two where the slot has no settings of its own.
    pub(super) fn settings_word(&self, slot: usize) -> u64 {
        let own = self.word(layout::settings(slot)).load(Ordering::Acquire);
        if own & COUNTS != 0 { own } else { self.default_word() }
    }

    /// What a process goes by where it has no slots.
    pub(super) fn default_word(&self) -> u64 {
        self.word(layout::DEFAULT).load(Ordering::Acquire)
    }

    /// The rate at which copies may read device memory, if one is set that makes sense.
    pub(super) fn read_cap(&self) -> Option<ReadCap> {
        ReadCap::from_word(self.word(layout::READ_CAP).load(Ordering::Acquire))
    }

    pub(super) fn count_not_understood(&self) {
        self.word(layout::NOT_UNDERSTOOD).fetch_add(1, Ordering::Relaxed);
    }

    /// Says which rank a node of this process is: in place of what the environment says. That of the first node stays.
    pub(super) fn set_rank(&self, rank: u32, ranks: u32) {
        if !self.has_rank.swap(true, Ordering::Relaxed) {
            self.write_rank(rank, ranks);
        }
    }

    fn write_rank(&self, rank: u32, ranks: u32) {
        self.word(layout::RANK).store(u64::from(rank) | u64::from(ranks) << 32, Ordering::Relaxed);
    }

    /// Gives a slot its identity, for good.
    pub(super) fn identify(&self, slot: usize, (peer, stream): (u32, u32), rank: u32, kind: SlotKind) {
        let counters = self.counters(slot);
        let whose = u64::from(peer) | u64::from(stream) << 32;
        counters[counter::PEER_STREAM].store(whose, Ordering::Relaxed);
        let what = u64::from(rank) | (kind as u64) << 32;
        counters[counter::RANK_KIND].store(what, Ordering::Release);
    }

    /// Lets the other side see the first `used` slots.
    pub(super) fn publish(&self, used: usize) {
        self.word(layout::USED).store(used as u64, Ordering::Release);
    }

    pub(super) fn counters(&self, slot: usize) -> &[AtomicU64; COUNTER_WORDS] {
        let words = &self.map.words()[layout::counters(slot)..];
        words.first_chunk().expect("the layout has room for every slot")
    }

    pub(super) fn histograms(&self, slot: usize) -> &[AtomicU64; layout::HISTOGRAM_WORDS] {
        let words = &self.map.words()[layout::histograms(slot)..];
        words.first_chunk().expect("the layout has room for every slot")
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.map.words()[index]
    }

    #[cfg(test)]
    pub(super) fn store_raw(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn load_raw(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    fn write_text(&self, place: Text, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(place.bytes)];
        self.word(place.first).store(bytes.len() as u64, Ordering::Relaxed);
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(place.first + 1 + index).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    fn text(&self, place: Text) -> Result<String, PageError> {
        let len = self.word(place.first).load(Ordering::Relaxed);
        let wrong = PageError::Header { word: place.first, got: len };
        let len = usize::try_from(len).ok().filter(|len| *len <= place.bytes).ok_or(wrong)?;
        let words = place.first + 1..place.first + 1 + place.bytes / 8;
        let bytes: Vec<u8> =
            words.flat_map(|index| self.word(index).load(Ordering::Relaxed).to_le_bytes()).collect();
        let text = bytes[..len].to_vec();
        match is_name(&text).then(|| String::from_utf8(text)) {
            Some(Ok(text)) => Ok(text),
            _ => Err(PageError::Name { word: place.first }),
        }
    }
}

/// The last decision in a slot's counters.
pub(super) fn last_decision(counters: &[AtomicU64; COUNTER_WORDS]) -> Option<super::LastDecision> {
    reason::read(&counters[counter::DECISION..][..=counter::DECISION_WORDS])
}

/// Why something that was handed over is no control page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The file cannot be used safely.
    #[error("control page: {0}")]
    Map(#[from] MapError),
    /// It does not start like a page.
    #[error("control page: foreign: it starts with {got:#018x} instead of \"MGCTRLPG\"")]
    Foreign {
        /// The first word.
        got: u64,
    },
    /// Of another layout.
    #[error("control page: version {got}, but this program knows version {}", layout::VERSION)]
    Version {
        /// What it says.
        got: u64,
    },
    /// A number that no page has there.
    #[error("control page: header word {word} is {got}")]
    Header {
        /// Which word.
        word: usize,
        /// What it is.
        got: u64,
    },
    /// A name of no or of other characters.
    #[error("control page: the name at header word {word} is not 1 to 64 printable characters")]
    Name {
        /// Which word.
        word: usize,
    },
}
